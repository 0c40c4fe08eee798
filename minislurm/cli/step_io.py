"""srun's own streams: what the tasks wrote goes out in whole lines, what comes in is handed to the tasks."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import stat
import threading
from collections.abc import Awaitable, Callable

#: A line longer than this is passed on in pieces.
LONGEST_LINE = 64 * 1024
#: A pipe that poll() calls writable takes so much without blocking.
_PIPE_PIECE = select.PIPE_BUF
_READ_SIZE = 64 * 1024


class StreamWriter:
    """Writes to a file descriptor without ever blocking the loop, so that Ctrl-C works while a pipe is full.

    The descriptor stays in blocking mode: others (the user's shell) share it. `is_closed` once its reader has
    gone; what is written from then on is dropped.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = asyncio.Lock()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self.is_closed = False

    async def write(self, data: bytes) -> None:
        """All of `data`, unmixed with other writes. Raises OSError for a full disk and the like."""
        async with self._lock:
            view = memoryview(data)
            while view and not self.is_closed:
                if not self._is_file and not self._poll.poll(0):
                    await self._until_writable()
                    continue
                try:
                    written = os.write(self._descriptor, view if self._is_file else view[:_PIPE_PIECE])
                except BlockingIOError:  # somebody else made it non-blocking
                    await self._until_writable()
                    continue
                except OSError as error:
                    if error.errno not in (errno.EPIPE, errno.EIO, errno.ECONNRESET):
                        raise
                    self.is_closed = True
                    return
                view = view[written:]

    async def _until_writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._descriptor, _settle, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._descriptor)


class TaskOutputs:
    """Puts one output stream of all tasks onto a writer.

    Several tasks: by whole lines, so that none is torn apart by another's. One task, or `unbuffered`: at
    once. `label`: each line begins with its task's number, and the last one gets its newline.
    """

    def __init__(
        self,
        writer: StreamWriter,
        *,
        task_count: int,
        label: bool = False,
        unbuffered: bool = False,
        only_task: int | None = None,
    ) -> None:
        self.writer = writer
        self._label = label
        self._width = len(str(max(task_count - 1, 0)))
        self._direct = not label and (unbuffered or task_count == 1)
        self._only_task = only_task
        self._pending: dict[int, bytearray] = {}
        #: Tasks whose last piece did not end a line.
        self._inside_line: set[int] = set()

    async def write(self, task: int, data: bytes, end: bool = False) -> None:
        if self._only_task is not None and task != self._only_task:
            return
        if self._direct:
            if data:
                await self.writer.write(data)
            return
        pending = self._pending.setdefault(task, bytearray())
        pending += data
        ready = self._take(pending, end)
        if ready or (end and self._label and task in self._inside_line):
            await self.writer.write(self._labelled(task, ready, end) if self._label else ready)

    async def finish(self) -> None:
        """Writes what is left of lines that never ended."""
        for task in sorted(self._pending):
            await self.write(task, b"", end=True)

    @staticmethod
    def _take(pending: bytearray, end: bool) -> bytes:
        """The part that may go out, removed from `pending`."""
        size = len(pending)
        if not end and size < LONGEST_LINE:
            size = pending.rfind(b"\n") + 1
        ready = bytes(pending[:size])
        del pending[:size]
        return ready

    def _labelled(self, task: int, data: bytes, end: bool) -> bytes:
        label = f"{task:>{self._width}}: ".encode()
        lines = data.split(b"\n")
        tail = lines.pop()
        inside = task in self._inside_line
        parts = []
        for line in lines:
            parts.append((b"" if inside else label) + line + b"\n")
            inside = False
        if tail:
            parts.append((b"" if inside else label) + tail)
            inside = True
        if inside and end:
            parts.append(b"\n")
            inside = False
        (self._inside_line.add if inside else self._inside_line.discard)(task)
        return b"".join(parts)


def forward_input(
    descriptor: int,
    send: Callable[[bytes], Awaitable[None]],
    end: Callable[[], Awaitable[None]],
) -> None:
    """Starts reading `descriptor` in a thread of its own, for files and terminals alike, until it ends.

    Reads no further than the tasks take. A thread that waits in read() does not keep srun from leaving.
    """
    loop = asyncio.get_running_loop()
    passed_on = threading.Semaphore(0)

    def pass_on(data: bytes) -> None:
        passing = asyncio.ensure_future(send(data) if data else end())
        passing.add_done_callback(lambda _: passed_on.release())

    def read() -> None:
        while True:
            try:
                data = os.read(descriptor, _READ_SIZE)
            except OSError:  # closed, or a terminal that is gone: as its end
                data = b""
            try:
                loop.call_soon_threadsafe(pass_on, data)
            except RuntimeError:
                return  # the loop has ended: the step is over
            if not data:
                return
            passed_on.acquire()

    threading.Thread(target=read, name="input", daemon=True).start()


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
