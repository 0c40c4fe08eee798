"""Long work in small units, on the loop that answers clients."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Generator


async def give_way(
    working: Generator[None, None, object], yield_after_s: float, end: float = math.inf
) -> StopIteration | None:
    """Works on, and lets clients have their turn whenever it has taken that long. None: it is not through at
    `end` (monotonic)."""
    started = time.perf_counter()
    while True:
        try:
            next(working)
        except StopIteration as stop:
            return stop
        if time.perf_counter() - started > yield_after_s:
            if time.monotonic() > end:
                return None
            await asyncio.sleep(0)
            started = time.perf_counter()
