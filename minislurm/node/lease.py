"""The lease of a node: until when its runs may go on without another word from the controller.

A file of one line that the daemon writes and every shepherd reads, so that runs end in time also when the
daemon is gone, hangs or is stopped. Times are of the clock that goes on while a host sleeps and that all its
processes share. Imported by the forker: nothing heavy.
"""

from __future__ import annotations

import os
import time

#: A shepherd looks again at least this often.
LONGEST_LOOK_S = 2.0
#: So long the line always is: a write of it is never seen half done.
_WIDTH = 24


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseFile:
    """For the daemon. Raises OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, until: float) -> None:
        os.pwrite(self._descriptor, f"{until:{_WIDTH - 1}.3f}\n".encode(), 0)

    def close(self) -> None:
        os.close(self._descriptor)


def read(path: str) -> float:
    """Until when; infinity where nobody has written it."""
    try:
        with open(path, "rb") as file:
            return float(file.read(_WIDTH))
    except (OSError, ValueError):
        return float("inf")
