"""Steps through a real gRPC channel: the daemon's step service, shepherds, tasks."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from minislurm.rpc.auth import StepCredential, step_token
from minislurm.rpc.gen import step_pb2, step_pb2_grpc
from tests.unit.node.node_harness import NodeHarness, is_alive, run, until


class Step:
    """srun's side of one stream."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.output: dict[tuple[int, bool], bytearray] = {}
        self.exits: dict[int, tuple[int, int]] = {}
        self.messages: list[str] = []
        self.pids: list[int] = []
        self.ended: set[tuple[int, bool]] = set()
        self.done = False
        self.input_taken = 0
        self._one_writer = asyncio.Lock()

    async def send(self, **kind: Any) -> None:
        async with self._one_writer:
            await self.call.write(step_pb2.StepInput(**kind))

    async def give(self, data: bytes, *, end: bool = False, task: int | None = None) -> None:
        await self.send(stdin=step_pb2.StepStdin(data=data, end=end, task=task))

    async def read_one(self) -> bool:
        message = await self.call.read()
        if message is grpc.aio.EOF:
            return False
        if message.number:
            await self.send(received=step_pb2.StepReceived(number=message.number))
        match message.WhichOneof("kind"):
            case "started":
                self.pids = list(message.started.pids)
            case "data":
                key = (message.data.task, message.data.is_error)
                self.output.setdefault(key, bytearray()).extend(message.data.data)
                if message.data.end:
                    self.ended.add(key)
            case "task_exited":
                exited = message.task_exited
                self.exits[exited.task] = (exited.exit_code, exited.exit_signal)
            case "message":
                self.messages.append(message.message.text)
            case "input_taken":
                self.input_taken += message.input_taken.count
            case "done":
                self.done = True
        return True

    async def finish(self) -> Step:
        while await self.read_one():
            pass
        assert await self.call.code() is grpc.StatusCode.OK
        assert self.done
        return self

    async def until_output(self, key: tuple[int, bool], text: bytes) -> None:
        while text not in self.output.get(key, b""):
            assert await self.read_one()


@asynccontextmanager
async def allocation(directory: Path, **settings: Any) -> AsyncIterator[NodeHarness]:
    """A node with job 1 held for steps."""
    async with NodeHarness(directory, **settings) as node:
        node.prepare(1, gpus=2)
        await node.controller.report(1, "run_started")
        yield node


@asynccontextmanager
async def step(
    node: NodeHarness,
    *arguments: str,
    tasks: int = 1,
    step_id: int = 0,
    token: str | None = None,
    **launch: Any,
) -> AsyncIterator[Step]:
    """`arguments`: a program, or the text of a shell script."""
    command = ["/bin/bash", "-c", *arguments] if len(arguments) == 1 else list(arguments)
    if token is None:
        token = step_token(node.key, "cluster", StepCredential(1, 1, step_id, os.getuid()))
    message = step_pb2.LaunchStep(
        job_id=1, run=1, step_id=step_id, arguments=command, work_dir=str(node.directory),
        environment=[f"PATH={os.environ['PATH']}".encode()], tasks=range(tasks), step_node_count=1,
        step_task_count=tasks, step_node_list="n1", step_tasks_per_node=str(tasks), umask=0o022,
        output_mode=0o600, kill_on_disconnect=True,
    )  # fmt: skip
    message.MergeFrom(step_pb2.LaunchStep(**launch))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{node.step_port}") as channel:
        stub: Any = step_pb2_grpc.StepServiceStub(channel)
        call = stub.RunStep(metadata=(("authorization", f"Bearer {token}"),))
        await call.write(step_pb2.StepInput(launch=message))
        yield Step(call)


def test_output_exit_codes_and_the_environment_of_tasks(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            allocation(tmp_path) as node,
            step(
                node,
                "echo $SLURM_PROCID $SLURM_LOCALID $CUDA_VISIBLE_DEVICES; echo e >&2; exit $SLURM_PROCID",
                tasks=3,
            ) as it,
        ):
            await it.give(b"", end=True)
            await it.finish()
            assert it.exits == {0: (0, 0), 1: (1, 0), 2: (2, 0)}
            assert it.output[1, False] == b"1 1 0,1\n"
            assert it.output[2, True] == b"e\n"
            assert it.ended == {(task, error) for task in range(3) for error in (False, True)}
            assert len(it.pids) == 3
            ended = await node.controller.report(1, "step_ended")
            assert (ended.step_id, ended.exit_code, ended.exit_signal) == (0, 2, 0)

    run(test())


def test_standard_input_to_all_tasks_and_to_one(tmp_path: Path) -> None:
    async def test() -> None:
        async with allocation(tmp_path) as node, step(node, "cat; echo end", tasks=2) as it:
            await it.give(b"to all\n")
            await it.give(b"to one\n", task=1, end=True)
            await it.until_output((1, False), b"end\n")
            assert (0, False) not in it.ended
            await it.give(b"", end=True)
            await it.finish()
            assert it.output == {(0, False): b"to all\nend\n", (1, False): b"to all\nto one\nend\n",
                                 (0, True): b"", (1, True): b""}  # fmt: skip

    run(test())


def test_binary_data_arrives_intact_both_ways(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)

    async def test() -> None:
        async with allocation(tmp_path) as node, step(node, "/bin/cat", "-", tasks=2) as it:

            async def feed() -> None:
                for start in range(0, len(data), 65536):
                    # As far ahead as srun goes: what it says besides must not wait behind input.
                    while start - it.input_taken > 128 * 1024:
                        await asyncio.sleep(0.001)
                    await it.give(data[start : start + 65536])
                await it.give(b"", end=True)

            await asyncio.gather(feed(), it.finish())
            assert it.output[0, False] == data
            assert it.output[1, False] == data

    run(test())


def test_a_slow_reader_slows_the_task(tmp_path: Path) -> None:
    script = "for i in $(seq 200); do head -c 100000 /dev/zero; echo $i > progress; done"

    async def test() -> None:
        async with allocation(tmp_path) as node, step(node, script) as it:
            await until(lambda: node.read("progress"))
            progress = ""
            deadline = time.monotonic() + 10
            while node.read("progress") != progress or not progress:
                assert time.monotonic() < deadline, "the task is not slowed down"
                progress = node.read("progress")
                await asyncio.sleep(0.3)
            assert int(progress) < 150
            await it.finish()
            assert len(it.output[0, False]) == 20_000_000

    run(test())


def test_signals_reach_all_processes_of_the_tasks(tmp_path: Path) -> None:
    script = (
        "trap 'echo got' USR1; setsid bash -c 'trap \"echo far; exit\" USR1; echo up; "
        "while :; do sleep 0.02; done' & wait; wait; exit 3"
    )

    async def test() -> None:
        async with allocation(tmp_path) as node, step(node, script) as it:
            await it.until_output((0, False), b"up\n")
            await it.send(signal=step_pb2.StepSignal(signal=signal.SIGUSR1))
            await it.finish()
            assert set(bytes(it.output[0, False]).split()) == {b"up", b"got", b"far"}
            assert it.exits == {0: (3, 0)}

    run(test())


def test_signals_of_the_controller_to_a_step(tmp_path: Path) -> None:
    async def test() -> None:
        async with allocation(tmp_path) as node:
            async with step(node, "echo up; sleep 1000") as it:
                await it.until_output((0, False), b"up\n")
                node.signal(1, signal.SIGKILL, step_id=0)
                await it.finish()
                assert it.exits == {0: (0, signal.SIGKILL)}
                assert it.messages[0].startswith("slurmstepd-n1: error: *** STEP 1.0 ON n1 CANCELLED AT 2")
            async with step(node, "echo up; sleep 1000", step_id=1) as it:
                await it.until_output((0, False), b"up\n")
                node.signal(1, signal.SIGUSR1)
                await it.finish()
                assert it.exits == {0: (0, signal.SIGUSR1)}
                assert it.messages == []

    run(test())


@pytest.mark.parametrize(
    ("program", "code", "text"),
    [("no-such-program", 2, b"No such file or directory"), ("/etc/passwd", 13, b"Permission denied")],
)
def test_programs_that_cannot_be_executed(tmp_path: Path, program: str, code: int, text: bytes) -> None:
    async def test() -> None:
        async with allocation(tmp_path) as node, step(node, program, "x") as it:
            await it.finish()
            assert it.exits == {0: (code, 0)}
            expected = f"slurmstepd-n1: error: execve(): {program}: ".encode() + text + b"\n"
            assert it.output[0, True] == expected

    run(test())


def test_without_path_no_program_is_found(tmp_path: Path) -> None:
    async def test() -> None:
        async with allocation(tmp_path) as node, step(node, "sh", "-c", environment=[b"PATH="]) as it:
            await it.finish()
            assert it.exits == {0: (2, 0)}

    run(test())


def test_output_to_files_of_each_task(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            allocation(tmp_path) as node,
            step(
                node,
                "echo $SLURM_PROCID; echo e >&2",
                tasks=2,
                std_out="o.%t.%n",
                std_err="both",
                std_in="/dev/null",
            ) as it,
        ):
            await it.finish()
            assert it.output == {}
            assert (node.read("o.0.0"), node.read("o.1.0"), node.read("both")) == ("0\n", "1\n", "e\ne\n")

    run(test())


def test_a_missing_working_directory_is_only_a_warning(tmp_path: Path) -> None:
    async def test() -> None:
        async with allocation(tmp_path) as node, step(node, "pwd", work_dir="/no/such") as it:
            await it.finish()
            assert it.output[0, False] == b"/tmp\n"
            assert "couldn't chdir to `/no/such'" in it.messages[0]

    run(test())


def test_tasks_die_with_their_srun(tmp_path: Path) -> None:
    async def test() -> None:
        async with allocation(tmp_path) as node:
            async with step(node, "trap '' TERM; echo $$; setsid sleep 1000 & sleep 1000") as it:
                await it.until_output((0, False), b"\n")
                it.call.cancel()
            pid = int(it.output[0, False])
            ended = await node.controller.report(1, "step_ended")
            assert ended.exit_signal == signal.SIGKILL
            assert not is_alive(pid)

    run(test())


def test_steps_end_with_the_run(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            allocation(tmp_path) as node,
            step(node, "trap 'echo bye; exit 0' TERM; echo up; sleep 1000") as it,
        ):
            await it.until_output((0, False), b"up\n")
            node.end(1)
            await it.finish()
            assert it.output[0, False].startswith(b"up\nbye")
            await node.controller.report(1, "run_cleaned")
            async with step(node, "true", step_id=1) as late:
                with pytest.raises(grpc.aio.AioRpcError) as refusal:
                    await late.finish()
            assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION

    run(test())


@pytest.mark.parametrize(
    ("credential", "code"),
    [
        (StepCredential(1, 1, 7, os.getuid()), grpc.StatusCode.PERMISSION_DENIED),
        (StepCredential(1, 2, 0, os.getuid()), grpc.StatusCode.PERMISSION_DENIED),
        (StepCredential(1, 1, 0, os.getuid() + 1), grpc.StatusCode.FAILED_PRECONDITION),
        (None, grpc.StatusCode.UNAUTHENTICATED),
    ],
)
def test_a_step_needs_its_own_credential(
    tmp_path: Path, credential: StepCredential | None, code: grpc.StatusCode
) -> None:
    async def test() -> None:
        async with allocation(tmp_path) as node:
            token = "nonsense" if credential is None else step_token(node.key, "cluster", credential)
            async with step(node, "touch never", token=token) as it:
                with pytest.raises(grpc.aio.AioRpcError) as refusal:
                    await it.finish()
            assert refusal.value.code() is code
            assert not (tmp_path / "never").exists()

    run(test())


def test_a_killed_shepherd_breaks_the_stream_and_leaves_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with allocation(tmp_path) as node, step(node, "echo $$; setsid sleep 1000 & sleep 1000") as it:
            await it.until_output((0, False), b"\n")
            state = node.daemon._files.step_state(next(iter(node.daemon.core.runs)), 0)  # type: ignore[arg-type]
            assert state is not None
            os.kill(state["pid"], signal.SIGKILL)
            with pytest.raises(grpc.aio.AioRpcError) as broken:
                await it.finish()
            assert broken.value.code() is grpc.StatusCode.ABORTED
            ended = await node.controller.report(1, "step_ended")
            assert ended.exit_signal == signal.SIGKILL
            assert not is_alive(int(it.output[0, False]))

    run(test())
