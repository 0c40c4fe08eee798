"""What the tasks of a step write, and what else srun must hear, on its way to srun. Runs in the shepherd.

Every message has a number and is kept until srun has said that it has it, so that nothing is lost when the
daemon in between is restarted: srun attaches again and names the last number it saw. What is kept is bounded;
when the bound is reached the tasks' pipes are no longer read, and a task that goes on writing waits.
"""

from __future__ import annotations

import json
from collections import deque

from minislurm.node import frames

#: So much may be on its way, in bytes.
WINDOW = 1024 * 1024

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Relay:
    def __init__(self) -> None:
        self._channel: frames.FrameSocket | None = None
        self._kept: deque[tuple[int, int, bytes]] = deque()
        self._kept_bytes = 0
        self._last_number = 0

    @property
    def is_full(self) -> bool:
        return self._kept_bytes >= WINDOW

    @property
    def is_empty(self) -> bool:
        return not self._kept

    def attach(self, channel: frames.FrameSocket, received: int) -> None:
        """srun listens (again), and has everything up to `received`."""
        self.acknowledge(received)
        self._channel = channel
        for _, kind, payload in self._kept:
            channel.send(kind, payload)

    def detach(self) -> None:
        self._channel = None

    def acknowledge(self, number: int) -> None:
        while self._kept and self._kept[0][0] <= number:
            self._kept_bytes -= len(self._kept.popleft()[2])

    def post_output(self, task: int, is_error: bool, data: bytes, end: bool = False) -> None:
        flags = (frames.FLAG_ERROR if is_error else 0) | (frames.FLAG_END if end else 0)
        header = frames.OUTPUT_HEADER.pack(self._last_number + 1, task, flags)
        self._post(frames.OUTPUT, header + data)

    def post(self, message: dict[str, Any]) -> None:
        message["number"] = self._last_number + 1
        self._post(frames.CONTROL, json.dumps({"srun": message}).encode())

    def _post(self, kind: int, payload: bytes) -> None:
        self._last_number += 1
        self._kept.append((self._last_number, kind, payload))
        self._kept_bytes += len(payload)
        if self._channel is not None:
            try:
                self._channel.send(kind, payload)
            except OSError:
                self._channel = None  # the poll loop finds out as well, and closes it


class InputQueue:
    """Standard input for one task, in front of its pipe."""

    __slots__ = ("data", "ended")

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = False
