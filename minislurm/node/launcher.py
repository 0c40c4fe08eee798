"""The daemon's side of the forker: starts it, has it fork shepherds, starts another if it dies."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys

from minislurm.node.frames import FrameSocket

log = logging.getLogger(__name__)

# Isolated and without site-packages: a small process forks fast. The package's parent comes as an argument.
_PROGRAM = "import sys; sys.path.append(sys.argv[2]); from minislurm.node.forker import main; main()"
_PACKAGE_PARENT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Launcher:
    """`start` before gRPC is loaded; `watch` inside the running loop."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: FrameSocket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Shepherds' ends of socket pairs, until they are handed over.
        self._to_close: list[socket.socket] = []
        self._stopping = False

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(theirs.fileno()), _PACKAGE_PARENT],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd="/",
            )
        self._socket = FrameSocket(ours)

    def watch(self) -> None:
        """From now on a dead forker is replaced."""
        self._loop = asyncio.get_running_loop()
        assert self._socket is not None
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def fork(self) -> socket.socket:
        """Has a shepherd forked; our end of its socket. It ends at once where the forker dies before that."""
        ours, theirs = socket.socketpair()
        self._to_close.append(theirs)
        try:
            self._send(theirs.fileno())
        except OSError:
            self._replace()
            ours.close()
            return self.fork()
        return ours

    def stop(self) -> None:
        """Ends the forker, not its shepherds."""
        self._stopping = True
        self._drop_socket()
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _send(self, descriptor: int) -> None:
        assert self._socket is not None
        self._socket.send(0, b"", [descriptor])
        self._after_flush()

    def _after_flush(self) -> None:
        assert self._socket is not None
        if not self._socket.pending_bytes:
            for connection in self._to_close:
                connection.close()
            self._to_close.clear()
        if self._loop is not None:
            if self._socket.pending_bytes:
                self._loop.add_writer(self._socket.fileno(), self._writable)
            else:
                self._loop.remove_writer(self._socket.fileno())

    def _writable(self) -> None:
        assert self._socket is not None
        try:
            self._socket.flush()
        except OSError:
            self._replace()
            return
        self._after_flush()

    def _readable(self) -> None:
        """The forker never writes: this is its end."""
        if not self._stopping:
            self._replace()

    def _replace(self) -> None:
        log.warning("the forker (pid %d) has died; starting another", self.pid)
        self._drop_socket()
        if self._process is not None:
            self._process.wait()
        self.start()
        if self._loop is not None:
            self.watch()

    def _drop_socket(self) -> None:
        if self._socket is not None:
            if self._loop is not None:
                self._loop.remove_reader(self._socket.fileno())
                self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for connection in self._to_close:
            connection.close()
        self._to_close.clear()
