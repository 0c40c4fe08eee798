from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable

import pytest

from minislurm.cli.step_io import LONGEST_LINE, StreamWriter, TaskOutputs, forward_input


def _written(write: Callable[[StreamWriter], Awaitable[None]]) -> bytes:
    """What `write` puts into a pipe whose reader reads all."""
    reading, writing = os.pipe()
    received = bytearray()

    def read() -> None:
        while data := os.read(reading, 65536):
            received.extend(data)

    reader = threading.Thread(target=read)
    reader.start()

    async def body() -> None:
        await write(StreamWriter(writing))

    try:
        asyncio.run(asyncio.wait_for(body(), 20))
    finally:
        os.close(writing)
        reader.join(10)
        os.close(reading)
    return bytes(received)


def _lines(*pieces: tuple[int, bytes] | tuple[int, bytes, bool], tasks: int = 2, **options: object) -> bytes:
    async def write(writer: StreamWriter) -> None:
        outputs = TaskOutputs(writer, task_count=tasks, **options)  # type: ignore[arg-type]
        for piece in pieces:
            await outputs.write(*piece)
        await outputs.finish()

    return _written(write)


def test_lines_of_several_tasks_stay_whole() -> None:
    assert _lines((0, b"ab"), (1, b"x\ny"), (0, b"c\n"), (1, b"z\n")) == b"x\nabc\nyz\n"


def test_a_last_line_without_newline_comes_at_the_end_as_it_is() -> None:
    assert _lines((0, b"a"), (1, b"b\n"), (0, b"", True)) == b"b\na"


def test_one_task_is_passed_on_at_once() -> None:
    """A prompt has no newline, and a progress bar none either."""

    async def write(writer: StreamWriter) -> None:
        await TaskOutputs(writer, task_count=1).write(0, b"password: ")

    assert _written(write) == b"password: "


def test_unbuffered_is_passed_on_at_once() -> None:
    assert _lines((0, b"a"), (1, b"b"), (0, b"c\n"), unbuffered=True) == b"abc\n"


def test_labels_are_as_wide_as_the_highest_rank() -> None:
    assert _lines((2, b"x\n"), (11, b"y\n"), tasks=12, label=True) == b" 2: x\n11: y\n"


def test_a_labelled_last_line_gets_its_newline() -> None:
    assert _lines((0, b"a\nb"), (0, b"", True), (1, b"c\n"), label=True) == b"0: a\n0: b\n1: c\n"


def test_a_labelled_line_in_pieces_has_one_label() -> None:
    long = b"x" * (LONGEST_LINE + 10)
    assert _lines((0, long), (0, b"y\n"), label=True) == b"0: " + long + b"y\n"


def test_a_line_too_long_to_keep_is_passed_on_in_pieces() -> None:
    async def write(writer: StreamWriter) -> None:
        await TaskOutputs(writer, task_count=2).write(0, b"x" * LONGEST_LINE)

    assert _written(write) == b"x" * LONGEST_LINE


def test_output_of_other_tasks_is_dropped_where_one_was_asked_for() -> None:
    assert _lines((0, b"a\n"), (1, b"b\n"), (0, b"", True), (1, b"", True), only_task=1) == b"b\n"


def test_binary_data_arrives_intact() -> None:
    data = bytes(range(256)) * 12_000  # 3 MB
    assert _lines((0, data), tasks=1) == data
    assert _lines((0, data), (1, b"")) == data


def test_a_full_pipe_does_not_block_the_loop() -> None:
    reading, writing = os.pipe()

    async def body() -> int:
        writer = StreamWriter(writing)
        task = asyncio.ensure_future(writer.write(b"x" * 1_000_000))
        turns = 0
        while not task.done() and turns < 1000:
            turns += 1
            await asyncio.sleep(0)
        assert not task.done()
        received = 0
        os.set_blocking(reading, False)
        while received < 1_000_000:
            try:
                received += len(os.read(reading, 65536))
            except BlockingIOError:
                await asyncio.sleep(0)
        await task
        return received

    try:
        assert asyncio.run(asyncio.wait_for(body(), 20)) == 1_000_000
    finally:
        os.close(reading)
        os.close(writing)


def test_a_reader_that_has_gone_closes_the_writer() -> None:
    reading, writing = os.pipe()
    os.close(reading)

    async def body() -> bool:
        writer = StreamWriter(writing)
        await writer.write(b"x")
        await writer.write(b"dropped")
        return writer.is_closed

    assert asyncio.run(body())
    os.close(writing)


def test_a_full_disk_is_an_error() -> None:
    try:
        descriptor = os.open("/dev/full", os.O_WRONLY)
    except OSError:
        pytest.skip("no /dev/full")
    with pytest.raises(OSError, match="No space"):
        asyncio.run(StreamWriter(descriptor).write(b"x"))
    os.close(descriptor)


def test_a_file_is_written_whole(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "out")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    asyncio.run(StreamWriter(descriptor).write(b"x" * 100_000))
    os.close(descriptor)
    assert os.path.getsize(path) == 100_000


def test_input_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    data = os.urandom(300_000)

    def feed() -> None:
        os.write(writing, data[:10])
        rest = data[10:]
        while rest:
            rest = rest[os.write(writing, rest) :]
        os.close(writing)

    async def body() -> bytes:
        received = bytearray()
        ended = asyncio.Event()

        async def send(piece: bytes) -> None:
            received.extend(piece)

        async def end() -> None:
            ended.set()

        forward_input(reading, send, end)
        threading.Thread(target=feed).start()
        await asyncio.wait_for(ended.wait(), 10)
        return bytes(received)

    assert asyncio.run(body()) == data
    os.close(reading)


def test_input_is_read_no_further_than_it_is_taken() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"first")

    async def body() -> None:
        taking = asyncio.Event()
        release = asyncio.Event()
        ended = asyncio.Event()

        async def send(piece: bytes) -> None:
            taking.set()
            await release.wait()

        async def end() -> None:
            ended.set()

        forward_input(reading, send, end)
        await asyncio.wait_for(taking.wait(), 10)
        os.write(writing, b"second")
        os.close(writing)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not ended.is_set()
        release.set()
        await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(body())
    os.close(reading)


def test_a_closed_standard_input_is_an_empty_one() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)

    async def body() -> None:
        ended = asyncio.Event()

        async def send(piece: bytes) -> None:
            raise AssertionError

        async def end() -> None:
            ended.set()

        forward_input(reading, send, end)
        await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(body())
