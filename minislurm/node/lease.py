"""The lease of a node: until when its runs may go on without another word from the controller.

A file of one line that the daemon writes and every shepherd reads, so that runs end in time also when the
daemon is gone, hangs or is stopped. Imported by the forker: nothing heavy.

Time is that of a clock which all processes of a host share, and which goes on while the host sleeps: the
controller does not sleep with it. Where it does, being on the same host, the clock may stand still meanwhile.
"""

from __future__ import annotations

import os
import time

#: A shepherd looks again at least this often.
LONGEST_LOOK_S = 2.0
#: So long the line always is: a write of it is never seen half done.
_WIDTH = 28
_LOOPBACK = ("127.", "localhost", "::1")

_clock = time.CLOCK_BOOTTIME


def choose_clock(controller_host: str) -> None:
    """For this process. Shepherds find in the file which one it is."""
    global _clock
    _clock = time.CLOCK_MONOTONIC if controller_host.startswith(_LOOPBACK) else time.CLOCK_BOOTTIME


def now() -> float:
    return time.clock_gettime(_clock)


class LeaseFile:
    """For the daemon. Raises OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, until: float) -> None:
        line = f"{_clock} {until:.3f}".ljust(_WIDTH - 1) + "\n"
        os.pwrite(self._descriptor, line.encode(), 0)

    def close(self) -> None:
        os.close(self._descriptor)


def left_s(path: str) -> float:
    """How long it still lasts; infinity where nobody has written it."""
    try:
        with open(path, "rb") as file:
            clock, until = file.read(_WIDTH).split()
        return float(until) - time.clock_gettime(int(clock))
    except (OSError, ValueError):
        return float("inf")
