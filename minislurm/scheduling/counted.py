"""Constraints on a gang as a whole: so many nodes with each feature (``[a*2&b*4]``), no node twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minislurm.scheduling.domains import Indexes, Scope
from minislurm.scheduling.features import Test, constraint_of
from minislurm.scheduling.nodes import Inventory, Mask
from minislurm.scheduling.room import Room
from minislurm.scheduling.uneven import amounts_of, domains_with, is_enough

#: A counted part of the constraint: the nodes that pass its test, and how many are asked for.
Group = tuple[Mask, int]


def passing(inventory: Inventory, test: Test) -> Mask:
    """Few sets of features are different: each is tested once."""
    passes = {features: test(features) for features in set(inventory.features)}
    return np.fromiter(map(passes.__getitem__, inventory.features), np.bool_, len(inventory))


def could_be_met(inventory: Inventory, allowed: Mask, expression: str, nodes_min: int) -> bool:
    """Have these nodes what the constraint asks of a gang, whatever else it needs? Not for malformed ones."""
    constraint = constraint_of(expression)
    if constraint.alternatives and not any(
        np.count_nonzero(allowed & passing(inventory, test)) >= nodes_min for test in constraint.alternatives
    ):
        return False
    groups = [(passing(inventory, test), count) for test, count in constraint.counts]
    return _demand(np.flatnonzero(allowed), groups)[1] is not None


def choose_counted(scope: Scope, room: Room, groups: Sequence[Group]) -> Indexes | None:
    """As `place.choose` has it, with the groups' counts met. None: it does not fit now."""
    bounds = room.bounds
    eligible = np.flatnonzero(room.tasks > 0)
    required = np.array([room.inventory.index[name] for name in room.request.required_nodes], dtype=np.int64)
    if not (room.tasks[required] > 0).all():
        return None
    most = min(bounds.nodes_max, len(eligible))
    sizes = range(bounds.nodes_min, most + 1) if bounds.fewest else range(most, bounds.nodes_min - 1, -1)
    for count in sizes:
        for members in domains_with(scope, room, eligible, count):
            if not np.isin(required, members).all():
                continue
            nodes = _in_domain(scope, room, members, count, groups, required)
            if nodes is not None:
                return nodes
    return None


def _in_domain(
    scope: Scope, room: Room, members: Indexes, count: int, groups: Sequence[Group], required: Indexes
) -> Indexes | None:
    leaf_of_node = room.inventory.layout.leaf_of_node
    sizes = np.bincount(leaf_of_node[members])
    needless = ~np.isin(members, required)
    largest_leaf_first = np.lexsort(
        (members, room.scores(members), leaf_of_node[members], -sizes[leaf_of_node[members]], needless)
    )
    orders = [largest_leaf_first]
    orders += [np.lexsort((members, -amount[members], needless)) for amount in amounts_of(room)]
    for order in orders:
        nodes = _take(members[order], count, groups, len(required))
        if (
            nodes is not None
            and np.isin(required, nodes).all()
            and is_enough(room, nodes)
            and scope.holds(leaf_of_node[nodes])
        ):
            return nodes
    return None


def _take(ranked: Indexes, count: int, groups: Sequence[Group], required: int) -> Indexes | None:
    """The first of each kind, as the groups need them; then the first of all, up to `count`."""
    kinds, demand = _demand(ranked, groups)
    if demand is None:
        return None
    chosen = np.zeros(len(ranked), dtype=np.bool_)
    for kind, size in enumerate(demand):
        chosen[np.flatnonzero(kinds == kind)[:size]] = True
    chosen[:required] = True
    rest = count - int(chosen.sum())
    if rest < 0:
        return None
    chosen[np.flatnonzero(~chosen)[:rest]] = True
    return ranked[chosen]


def _demand(nodes: Indexes, groups: Sequence[Group]) -> tuple[Indexes, list[int] | None]:
    """The kind of each node (bit k: it passes the test of group k), and how many of each kind to take."""
    kinds = np.zeros_like(nodes)
    for k, (mask, _) in enumerate(groups):
        kinds |= mask[nodes].astype(np.int64) << k
    return kinds, demand_by_kind(np.bincount(kinds).tolist(), [count for _, count in groups])


def demand_by_kind(supply: Sequence[int], counts: Sequence[int]) -> list[int] | None:
    """How many nodes of each kind to take, so that every group gets its count. None: it cannot be.

    Kind k has `supply[k]` nodes, which pass the tests of the groups whose bits are set in k. A greatest flow
    by augmenting paths (Ford and Fulkerson, 1956): groups draw from kinds, and give back for one another.
    """
    taken = [[0] * len(supply) for _ in counts]

    def draw(group: int, tried: set[int]) -> bool:
        for kind, available in enumerate(supply):
            if not kind >> group & 1 or kind in tried:
                continue
            tried.add(kind)
            if sum(row[kind] for row in taken) < available:
                taken[group][kind] += 1
                return True
            for other, row in enumerate(taken):
                if other != group and row[kind] and draw(other, tried):
                    row[kind] -= 1
                    taken[group][kind] += 1
                    return True
        return False

    for group, count in enumerate(counts):
        for _ in range(count):
            if not draw(group, set()):
                return None
    return [sum(column) for column in zip(*taken, strict=True)]
