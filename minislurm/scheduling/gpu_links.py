"""Which GPUs of a node a run gets: those with the best links between them, on one NUMA domain where they fit.

The matrix of links is described in `domain/gpu_links.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

from minislurm.domain.gpu_links import link_class
from minislurm.domain.ids import indexes_of

#: Up to so many combinations are compared one by one; beyond, sets grow by the closest GPU.
_EXACT = 1000


@lru_cache(maxsize=4096)
def closest(links: tuple[str, ...], free: int, count: int, beside: int = 0) -> int:
    """`count` of the free GPUs (bitmaps) to be used together with those in `beside`.

    Best are few NUMA domains, then the best worst link, then the best links in all. Of equal sets the one
    whose loss harms the rest least (the links that stay among the others), then the lowest indexes.
    """
    matrix = _matrix(links)
    members = indexes_of(free)
    if count >= len(members):
        return free
    if _combinations(len(members), count) <= _EXACT:
        sets: Iterable[tuple[int, ...]] = combinations(members, count)
    else:
        sets = (_grown(matrix, members, first, count) for first in members)
    fixed = indexes_of(beside)

    def quality(chosen: tuple[int, ...]) -> tuple[int, ...]:
        return *_quality(matrix, (*fixed, *chosen)), *_rest(matrix, members, chosen)

    return sum(1 << gpu for gpu in max(sets, key=quality))


class _Matrix:
    def __init__(self, links: tuple[str, ...]) -> None:
        rows = [row.split() for row in links]
        size = len(rows)
        self.numa = [rows[i][i] for i in range(size)]
        self.link = [[0 if i == j else link_class(rows[i][j]) for j in range(size)] for i in range(size)]


@lru_cache(maxsize=256)
def _matrix(links: tuple[str, ...]) -> _Matrix:
    return _Matrix(links)


def _quality(matrix: _Matrix, chosen: tuple[int, ...]) -> tuple[int, int, int]:
    pairs = [matrix.link[i][j] for i, j in combinations(chosen, 2)]
    domains = len({matrix.numa[i] for i in chosen})
    return -domains, min(pairs, default=0), sum(pairs)


def _rest(matrix: _Matrix, members: tuple[int, ...], chosen: tuple[int, ...]) -> tuple[int, int]:
    """What stays: on how few NUMA domains the others lie, and how well linked they are."""
    left = tuple(gpu for gpu in members if gpu not in chosen)
    pairs = sum(matrix.link[i][j] for i, j in combinations(left, 2))
    return -len({matrix.numa[i] for i in left}), pairs


def _grown(matrix: _Matrix, members: tuple[int, ...], first: int, count: int) -> tuple[int, ...]:
    chosen = [first]
    while len(chosen) < count:
        others = [gpu for gpu in members if gpu not in chosen]
        chosen.append(max(others, key=lambda gpu: (*_quality(matrix, (*chosen, gpu)), -gpu)))
    return tuple(sorted(chosen))


def _combinations(size: int, count: int) -> int:
    result = 1
    for i in range(min(count, size - count)):
        result = result * (size - i) // (i + 1)
    return result
