"""Shepherds with nothing to do: the next step takes one of them, which saves a fork and its page faults."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

from minislurm.node.launcher import Launcher
from minislurm.node.shepherd_link import ShepherdLink

#: So long one waits for another order.
IDLE_S = 1.0
#: So many wait at most.
MAXIMUM_IDLE = 16


class ShepherdPool:
    """Needs a running loop."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        #: The longest idle first; since when (monotonic).
        self._idle: deque[tuple[float, ShepherdLink]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def take(self) -> ShepherdLink:
        """One that waits for an order; its receiver must be set."""
        if self._idle:
            return self._idle.pop()[1]
        return ShepherdLink(self._launcher.fork(), self)

    def give_back(self, link: ShepherdLink) -> None:
        """Its step is over."""
        link.receiver = self
        if len(self._idle) >= MAXIMUM_IDLE:
            link.close()
            return
        self._idle.append((time.monotonic(), link))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._expire)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        while self._idle:
            self._idle.pop()[1].close()

    def _expire(self) -> None:
        self._timer = None
        now = time.monotonic()
        while self._idle and self._idle[0][0] + IDLE_S <= now:
            self._idle.popleft()[1].close()
        if self._idle:
            delay_s = self._idle[0][0] + IDLE_S - now
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._expire)

    # --- Receiver, for those that wait -------------------------------------------------------------------

    def on_control(self, message: dict[str, Any]) -> None:
        """Nothing that concerns anyone."""

    def on_output(self, payload: bytes) -> None:
        """Nothing that concerns anyone."""

    def on_closed(self) -> None:
        """Somebody has killed it."""
        self._idle = deque(item for item in self._idle if not item[1].is_closed)
