"""EASY backfill on a flat pool in thirty lines: what the simulation of the production code is held against.

Everything that happens in one second, then one pass. The head's shadow time comes from the estimates; what
passes it must end by then, or use processors that the head leaves over.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

#: Submission, run time, processors, estimate.
Row = tuple[float, float, int, float]


def starts(rows: Sequence[Row], processors: int, *, shortest_first: bool = False) -> list[float]:
    """When each job starts."""
    free, queue = processors, list[int]()
    running: dict[int, tuple[float, int]] = {}
    started = [0.0] * len(rows)
    events = [(row[0], 1, number) for number, row in enumerate(rows)]
    heapq.heapify(events)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, arrives, number = heapq.heappop(events)
            if arrives:
                queue.append(number)
            else:
                free += running.pop(number)[1]

        def start(number: int, now: float = now) -> None:
            nonlocal free
            _, run, width, estimate = rows[number]
            free -= width
            queue.remove(number)
            running[number] = (now + estimate, width)
            started[number] = now
            heapq.heappush(events, (now + run, 0, number))

        while queue and rows[queue[0]][2] <= free:
            start(queue[0])
        if not queue:
            continue
        then, shadow = free, now
        for shadow in sorted({end for end, _ in running.values()}):
            then = free + sum(width for end, width in running.values() if end <= shadow)
            if then >= rows[queue[0]][2]:
                break
        spare = then - rows[queue[0]][2]
        behind = sorted(queue[1:], key=lambda n: (rows[n][3], n)) if shortest_first else queue[1:]
        for number in behind:
            _, _, width, estimate = rows[number]
            if width <= free and (now + estimate <= shadow or width <= spare):
                spare -= 0 if now + estimate <= shadow else width
                start(number)
    return started
