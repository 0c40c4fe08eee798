"""Messages to oneself at a time of the wall clock."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable

from minislurm.cluster.messages import Timer

#: The wall clock may be set: it is looked at again at least this often.
_LONGEST_SLEEP_S = 60.0


class TimerQueue:
    def __init__(self, fire: Callable[[Timer], None]) -> None:
        self._fire = fire
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._handle: asyncio.TimerHandle | None = None

    def add(self, when: float, message: Timer) -> None:
        heapq.heappush(self._heap, (when, next(self._count), message))
        if self._heap[0][2] is message:
            self._arm()

    def clear(self) -> None:
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        if self._heap:
            delay = min(max(self._heap[0][0] - time.time(), 0.0), _LONGEST_SLEEP_S)
            self._handle = asyncio.get_running_loop().call_later(delay, self._run_due)

    def _run_due(self) -> None:
        self._handle = None
        now = time.time()
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        for message in due:
            self._fire(message)
        self._arm()
