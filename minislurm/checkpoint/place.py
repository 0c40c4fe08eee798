"""What the environment of a job's process says of its job, and the line to its node daemon."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

SOCKET = "MINISLURM_CHECKPOINT_SOCKET"
REPORTS = "MINISLURM_CHECKPOINT_REPORTS"
RUN = "MINISLURM_RUN"

#: One line, in both directions.
LONGEST_LINE = 64 * 1024
#: struct sockaddr_un has 108 bytes for the path and its closing zero.
LONGEST_SOCKET_PATH = 107


class Place(NamedTuple):
    """`reports`: a folder for reports that the daemon is not there to take."""

    job_id: int
    run: int
    socket_path: str
    reports: str


def place() -> Place | None:
    """None outside of a job of minislurm's."""
    job, dot, run = os.environ.get(RUN, "").partition(".")
    path = os.environ.get(SOCKET, "")
    if not path or not dot or not job.isdigit() or not run.isdigit():
        return None
    return Place(int(job), int(run), path, os.environ.get(REPORTS, ""))


class Line:
    """A connection to the node daemon: JSON objects, one a line. Raises OSError, also for an answer that is
    none."""

    def __init__(self, where: Place, *, listen: bool, timeout_s: float | None) -> None:
        self._buffer = b""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.settimeout(timeout_s)
            with reachable(where.socket_path) as path:
                self.socket.connect(path)
            self.send({"job": where.job_id, "run": where.run, "listen": listen})
            self.welcome = self.receive()
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, message: dict[str, Any]) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            part = self.socket.recv(65536)
            if not part or len(self._buffer) > 2 * LONGEST_LINE:
                raise ConnectionResetError("the node daemon has closed the connection")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise OSError("the answer is not a node daemon's") from error
        if not isinstance(message, dict):
            raise OSError("the answer is not a node daemon's")
        return message


@contextmanager
def reachable(path: str) -> Iterator[str]:
    """A name for a socket by which it can be bound or reached, however long its path is."""
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)
