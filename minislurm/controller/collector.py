"""When Python looks for garbage in cycles.

A full collection walks through every object: half a second with a hundred thousand jobs, in which nobody is
answered. What is long-lived here is in no cycle, so full collections are rare.
"""

from __future__ import annotations

import asyncio
import gc

#: Young objects between two collections of the youngest; of these between two of the next generation.
_YOUNG, _MIDDLE = 1_000, 4
#: Never by itself.
_OLD = 1_000_000
_SWEEP_INTERVAL_S = 1800.0


def settle() -> None:
    """All that lives now stays: no later collection needs to walk through it."""
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    gc.enable()


async def sweep() -> None:
    """For ever: the few cycles that have grown old."""
    while True:
        await asyncio.sleep(_SWEEP_INTERVAL_S)
        gc.collect()
