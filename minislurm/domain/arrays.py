"""Task ids of a job array: ``0-9:2%3`` and back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

#: Above every sensible max_array_size; keeps a typing error from filling the memory.
MAX_TASK_ID = 4_000_000

_ITEM = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?\Z")
_LIMIT = re.compile(r"[0-9]{1,9}\Z")


class ArrayExpression(Struct, frozen=True):
    #: Ascending, each once.
    tasks: tuple[int, ...]
    #: So many at a time; 0 for no limit.
    limit: int = 0


class ArrayShape(Struct, frozen=True):
    """What a task learns of its array."""

    count: int
    first: int
    last: int
    #: The common distance of the ids; 1 where there is none.
    step: int


@lru_cache(maxsize=256)
def shape_of(tasks: tuple[int, ...]) -> ArrayShape:
    """`tasks`: ascending, at least one."""
    distances = {after - before for before, after in pairwise(tasks)}
    step = distances.pop() if len(distances) == 1 else 1
    return ArrayShape(len(tasks), tasks[0], tasks[-1], step)


def parse_array(text: str) -> ArrayExpression:
    """``1,4-6,10-20:2%3``, also in brackets. Raises ValueError."""
    body, percent, limit = text.partition("%")
    if body.startswith("[") and body.endswith("]") and not percent:
        body = body[1:-1]
    elif text.startswith("[") and text.endswith("]"):
        body, percent, limit = text[1:-1].partition("%")
    if percent and (not _LIMIT.match(limit) or int(limit) == 0):
        raise ValueError(f"invalid array limit: {text}")
    tasks: set[int] = set()
    for item in body.split(","):
        match = _ITEM.match(item)
        if match is None:
            raise ValueError(f"invalid array expression: {text}")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step == 0 or last > MAX_TASK_ID:
            raise ValueError(f"invalid array expression: {text}")
        tasks.update(range(first, last + 1, step))
    return ArrayExpression(tuple(sorted(tasks)), int(limit) if percent else 0)


def format_tasks(tasks: Iterable[int], limit: int = 0) -> str:
    """``2-19%2``; as Slurm lists it, steps singly: ``1,3,5``."""
    pieces: list[str] = []
    first = last = -1
    for task in sorted(tasks):
        if first >= 0 and task == last + 1:
            last = task
            continue
        if first >= 0:
            pieces.append(_range(first, last))
        first = last = task
    if first >= 0:
        pieces.append(_range(first, last))
    return ",".join(pieces) + (f"%{limit}" if limit else "")


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
