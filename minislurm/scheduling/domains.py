"""The topology tree as arrays, and which of its leaves a gang should go to."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from minislurm.domain.ids import NodeName
from minislurm.domain.topology import Topology

Indexes = NDArray[np.int64]

_NO_BOUND = 1 << 40


class Scope(Struct, frozen=True):
    """Where a gang may lie: inside one domain of one of `levels`, the lowest that holds it.

    `levels[k][leaf]` is the leaf's domain at height k, numbered from 0: itself at 0, then its parent ….
    `leaves`: those that may be used; None: all.
    """

    levels: tuple[Indexes, ...]
    leaves: NDArray[np.bool_] | None = None
    leaves_max: int = _NO_BOUND

    def largest(self, amounts: Indexes) -> int:
        """The most that one domain of the scope has of these amounts by leaf."""
        if self.leaves_max < len(amounts):
            ranked = self.by_domain(amounts, self.levels[-1])
            domains = self.levels[-1][ranked]
            first = np.searchsorted(domains, domains, side="left")
            ranked = ranked[np.arange(len(ranked)) - first < self.leaves_max]
            domains, amounts = self.levels[-1][ranked], amounts[ranked]
        else:
            domains = self.levels[-1]
        return int(np.bincount(domains, weights=amounts).max(initial=0))

    def by_domain(self, amounts: Indexes, domain_of_leaf: Indexes) -> Indexes:
        """Leaves in the order of their domains, in each the largest first."""
        ranked = np.argsort(-amounts, kind="stable")
        return ranked[np.argsort(domain_of_leaf[ranked], kind="stable")]

    def holds(self, leaves: Indexes) -> bool:
        """May a gang lie on these leaves?"""
        used = np.unique(leaves)
        if len(used) > self.leaves_max or (self.leaves is not None and not self.leaves[used].all()):
            return False
        return len(np.unique(self.levels[-1][used])) <= 1


class Layout(Struct, frozen=True):
    """Leaves are numbered so that leaves under one parent are neighbours."""

    leaf_of_node: Indexes
    #: By leaf: its nodes, ascending.
    nodes_of_leaf: tuple[Indexes, ...]
    #: The last level has one domain that holds everything.
    everywhere: Scope
    #: By the name of a level ("rack"): inside one domain of that level.
    within: dict[str, Scope]
    #: All nodes in the order of their leaves, and where in it each leaf begins.
    order: Indexes
    starts: Indexes
    #: The nodes of each leaf as rows of one width, the last node repeated; None: too unequal for that.
    rows: Indexes | None

    @property
    def leaf_count(self) -> int:
        return len(self.nodes_of_leaf)

    @classmethod
    def build(cls, names: Sequence[NodeName], topology: Topology) -> Generator[None, None, Layout]:
        """Yields between units of work."""
        position = {name: i for i, name in enumerate(topology.domains)}
        first_node: dict[str, NodeName] = {}
        leaves = [topology.leaf_of_node.get(name, "") for name in names]
        for leaf, name in zip(leaves, names, strict=True):
            first_node.setdefault(leaf, name)
        yield
        paths = {leaf: topology.path(name) for leaf, name in first_node.items()}
        ordered = sorted(paths, key=lambda leaf: [position[domain] for domain in paths[leaf]])
        yield
        number = {leaf: i for i, leaf in enumerate(ordered)}
        leaf_of_node = np.array([number[leaf] for leaf in leaves], dtype=np.int64)
        levels = _heights([paths[leaf] for leaf in ordered])
        yield
        within = _named_levels([paths[leaf] for leaf in ordered], levels, topology)
        yield
        order = np.argsort(leaf_of_node, kind="stable")
        sizes = np.bincount(leaf_of_node, minlength=len(ordered))
        starts = np.cumsum(sizes) - sizes
        return cls(
            leaf_of_node,
            tuple([order[start : start + size] for start, size in zip(starts, sizes, strict=True)]),
            Scope(levels),
            within,
            order,
            starts,
            _rows(order, starts, sizes),
        )

    def least_of(self, by_node: Indexes, leaves: Indexes | None = None) -> Indexes:
        """The least amount on a node of each of these leaves; None: of all."""
        if leaves is None or self.rows is None:
            least: Indexes = np.minimum.reduceat(by_node[self.order], self.starts)
            return least if leaves is None else least[leaves]
        of_some: Indexes = by_node[self.rows[leaves]].min(axis=1)
        return of_some


def _heights(paths: Sequence[tuple[str, ...]]) -> tuple[Indexes, ...]:
    """The leaves' domains from themselves upwards; at last one that holds all."""
    levels = [np.arange(len(paths), dtype=np.int64)]
    for height in range(1, max(map(len, paths), default=1)):
        above = [path[max(0, len(path) - 1 - height)] if path else "" for path in paths]
        levels.append(_numbered(above))
    if len(paths) > 1 and levels[-1].any():
        levels.append(np.zeros(len(paths), dtype=np.int64))
    return tuple(levels)


def _named_levels(
    paths: Sequence[tuple[str, ...]], heights: tuple[Indexes, ...], topology: Topology
) -> dict[str, Scope]:
    """Where a path has several domains of one level, the lowest of them counts."""
    scopes = {}
    for level in dict.fromkeys(spec.level for spec in topology.domains.values()):
        found = [next((d for d in reversed(p) if topology.domains[d].level == level), "") for p in paths]
        inside = np.array([domain != "" for domain in found], dtype=np.bool_)
        domains = _numbered(found)
        # Of the heights those that lie wholly inside the level's domains.
        below = [height for height in heights if _is_inside(height[inside], domains[inside])]
        scopes[level] = Scope((*below, domains), None if inside.all() else inside)
    return scopes


def _is_inside(inner: Indexes, outer: Indexes) -> bool:
    pairs = set(zip(inner.tolist(), outer.tolist(), strict=True))
    return len({domain for domain, _ in pairs}) == len(pairs)


def _numbered(names: Sequence[str]) -> Indexes:
    ids = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([ids[name] for name in names], dtype=np.int64)


def _rows(order: Indexes, starts: Indexes, sizes: Indexes) -> Indexes | None:
    width = int(sizes.max(initial=0))
    if not width or width * len(sizes) > 4 * len(order):
        return None
    places = np.minimum(np.arange(width), sizes[:, None] - 1)
    return order[starts[:, None] + places]


def leaves_for(scope: Scope, amounts: Indexes, need: int) -> tuple[list[int], int] | None:
    """The leaves to fill wholly, and the last one, which has enough for the rest.

    `amounts`: what each leaf could give. The lowest domain that has `need` is taken; of several the one
    that takes the fewest leaves, and of these the one with the least in all. None: no domain of the scope
    has it, or not on `leaves_max` leaves.
    """
    enough = np.flatnonzero(amounts >= need)
    if len(enough):
        return [], int(enough[amounts[enough].argmin()])
    for domain_of_leaf in scope.levels[1:]:
        sums = np.bincount(domain_of_leaf, weights=amounts)
        fitting = np.flatnonzero(sums >= need)
        if not len(fitting):
            continue
        ranked = scope.by_domain(amounts, domain_of_leaf)
        domains = domain_of_leaf[ranked]
        filled = np.cumsum(amounts[ranked]) - (np.cumsum(sums) - sums)[domains]
        whole = np.bincount(domains[filled < need], minlength=len(sums))
        best = int(fitting[np.lexsort((sums[fitting], whole[fitting]))[0]])
        if whole[best] < scope.leaves_max:
            return _fill(ranked[domains == best], int(whole[best]), amounts, need)
    return None


def _fill(ranked: Indexes, whole: int, amounts: Indexes, need: int) -> tuple[list[int], int]:
    """The `whole` largest leaves, and for the rest the smallest that has enough."""
    need -= int(amounts[ranked[:whole]].sum())
    others = ranked[whole:]
    enough = others[amounts[others] >= need]
    return ranked[:whole].tolist(), int(enough[amounts[enough].argmin()])
