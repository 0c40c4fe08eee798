"""The nodes of every placement of a pass, so that whoever keeps something computed from the node table can
bring it up to date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from minislurm.scheduling.domains import Indexes

_FIRST_SIZE = 1024


class Changes:
    """`len()` of it is what a reader keeps, and asks with the next time. An array, because it is read far
    oftener than written: after every placement by every request that is in turn."""

    __slots__ = ("_count", "_nodes", "_numbers", "_position")

    def __init__(self, nodes: int) -> None:
        """`nodes`: of the cluster."""
        self._nodes = np.zeros(_FIRST_SIZE, dtype=np.int64)
        self._numbers = np.arange(_FIRST_SIZE)
        self._count = 0
        #: By node: where in the part that is asked for it comes last.
        self._position = np.zeros(nodes, dtype=np.int64)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return iter(self._nodes[: self._count].tolist())

    def add(self, nodes: Sequence[int]) -> None:
        count = self._count + len(nodes)
        if count > len(self._nodes):
            self._nodes = np.resize(self._nodes, 2 * count)
            self._numbers = np.arange(2 * count)
        self._nodes[self._count : count] = nodes
        self._count = count

    def since(self, seen: int) -> Indexes:
        """The nodes that have changed since there were so many changes, each once."""
        nodes = self._nodes[seen : self._count]
        if len(nodes) == 1:
            return nodes
        numbers = self._numbers[: len(nodes)]
        self._position[nodes] = numbers
        once: Indexes = nodes[self._position[nodes] == numbers]
        return once

    def clear(self) -> None:
        self._count = 0
