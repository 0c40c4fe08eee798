"""First in first out and shortest first on nodes of eight GPUs, in forty lines: what the simulation of the
production code is held against on Microsoft's Philly trace.

A job of up to eight GPUs goes to the node with the fewest free that hold it; a larger one takes whole free
nodes and puts what is left over on the tightest other one. All that happens in one second, then one pass.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

GPUS = 8
#: Submission, run time, GPUs.
Row = tuple[float, float, int]


def starts(rows: Sequence[Row], nodes: int, *, shortest_first: bool = False) -> list[float]:
    """When each job starts: nobody passes the first that does not fit."""
    free, queue = [GPUS] * nodes, list[tuple[float, int]]()
    started = [0.0] * len(rows)
    events: list[tuple[float, int, int, tuple[tuple[int, int], ...]]] = [
        (row[0], 1, number, ()) for number, row in enumerate(rows)
    ]
    heapq.heapify(events)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, arrives, number, held = heapq.heappop(events)
            if arrives:
                heapq.heappush(queue, (rows[number][1] if shortest_first else 0.0, number))
            for node, gpus in held:
                free[node] += gpus
        while queue and (shares := _place(free, rows[queue[0][1]][2])) is not None:
            number = heapq.heappop(queue)[1]
            for node, gpus in shares:
                free[node] -= gpus
            started[number] = now
            heapq.heappush(events, (now + rows[number][1], 0, number, shares))
    return started


def _place(free: list[int], gpus: int) -> tuple[tuple[int, int], ...] | None:
    whole, rest = (0, gpus) if gpus <= GPUS else divmod(gpus, GPUS)
    empty = [node for node, count in enumerate(free) if count == GPUS]
    if len(empty) < whole:
        return None
    shares = [(node, GPUS) for node in empty[:whole]]
    if rest:
        taken = {node for node, _ in shares}
        fitting = [(count, node) for node, count in enumerate(free) if count >= rest and node not in taken]
        if not fitting:
            return None
        shares.append((min(fitting)[1], rest))
    return tuple(shares)
