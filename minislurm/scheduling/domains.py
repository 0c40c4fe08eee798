"""The topology tree as arrays, and which of its leaves a gang should go to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minislurm.domain.ids import NodeName
from minislurm.domain.topology import Topology

Indexes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Leaves are numbered so that leaves under one parent are neighbours.

    `levels[k][leaf]` is the leaf's domain at height k: itself at 0, then its parent …; the last level
    has one domain that holds everything.
    """

    leaf_of_node: Indexes
    leaf_count: int
    levels: tuple[Indexes, ...]

    @classmethod
    def of(cls, names: Sequence[NodeName], topology: Topology) -> Layout:
        position = {name: i for i, name in enumerate(topology.domains)}
        first_node: dict[str, NodeName] = {}
        leaves = [topology.leaf_of_node.get(name, "") for name in names]
        for leaf, name in zip(leaves, names, strict=True):
            first_node.setdefault(leaf, name)
        paths = {leaf: topology.path(name) for leaf, name in first_node.items()}
        ordered = sorted(paths, key=lambda leaf: [position[domain] for domain in paths[leaf]])
        number = {leaf: i for i, leaf in enumerate(ordered)}
        depth = max((len(path) for path in paths.values()), default=1)
        levels = [np.arange(len(ordered), dtype=np.int64)]
        for height in range(1, depth):
            above = [paths[leaf][max(0, len(paths[leaf]) - 1 - height)] if leaf else "" for leaf in ordered]
            ids = {domain: i for i, domain in enumerate(dict.fromkeys(above))}
            levels.append(np.array([ids[domain] for domain in above], dtype=np.int64))
        if len(ordered) > 1 and levels[-1].any():
            levels.append(np.zeros(len(ordered), dtype=np.int64))
        return cls(np.array([number[leaf] for leaf in leaves], dtype=np.int64), len(ordered), tuple(levels))


def leaves_for(layout: Layout, amounts: NDArray[np.float64], need: float) -> tuple[list[int], int] | None:
    """The leaves to fill wholly, and the last one, which has enough for the rest.

    `amounts`: what each leaf could give. The lowest domain that has `need` is taken, the one with the
    least left over; above the leaves the one that takes the fewest leaves. None: not even all have it.
    """
    for height, domain_of_leaf in enumerate(layout.levels):
        sums = np.bincount(domain_of_leaf, weights=amounts)
        fitting = np.flatnonzero(sums >= need)
        if not len(fitting):
            continue
        if not height:
            return [], int(fitting[np.argmin(sums[fitting])])
        choices = []
        for domain in fitting.tolist():
            members = np.flatnonzero(domain_of_leaf == domain)
            whole, last = _fill(members, amounts, need)
            choices.append((len(whole), float(sums[domain]), domain, whole, last))
        _, _, _, whole, last = min(choices)
        return whole, last
    return None


def _fill(members: Indexes, amounts: NDArray[np.float64], need: float) -> tuple[list[int], int]:
    """Largest leaves first, until one is enough for the rest: then the smallest that is."""
    ranked = members[np.argsort(-amounts[members], kind="stable")]
    whole: list[int] = []
    for position, leaf in enumerate(ranked.tolist()):
        if amounts[leaf] >= need:
            enough = ranked[position:]
            enough = enough[amounts[enough] >= need]
            return whole, int(enough[np.argmin(amounts[enough])])
        whole.append(leaf)
        need -= float(amounts[leaf])
    raise AssertionError("the domain holds less than its sum")
