"""Gangs on nodes that hold unequal parts: which of them together are enough, on few leaf domains."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from minislurm.scheduling.domains import Indexes, Scope
from minislurm.scheduling.room import Room

#: So many sets of leaves are tried to save one more.
_TRIES = 200


def is_enough(room: Room, nodes: Indexes) -> bool:
    """Do these nodes together hold the gang's tasks and GPUs?"""
    if int(room.tasks[nodes].sum()) < room.bounds.tasks_of(len(nodes)):
        return False
    return room.gpus is None or int(room.gpus[nodes].sum()) >= room.request.gpus_total


def amounts_of(room: Room) -> list[Indexes]:
    """What the request is short of, by node, the scarcer first."""
    return [room.tasks] if room.gpus is None else [np.where(room.tasks > 0, room.gpus, 0), room.tasks]


def domains_with(scope: Scope, room: Room, eligible: Indexes, count: int) -> Iterator[Indexes]:
    """The eligible nodes of each domain that may hold `count` of them and the gang: lower levels first, then
    smaller domains."""
    leaves = room.inventory.layout.leaf_of_node[eligible]
    for domain_of_leaf in scope.levels:
        domains = domain_of_leaf[leaves]
        sizes = np.bincount(domains)
        may = sizes >= max(count, 1)
        may &= np.bincount(domains, weights=room.tasks[eligible]) >= room.bounds.tasks_of(count)
        if room.gpus is not None:
            may &= np.bincount(domains, weights=room.gpus[eligible]) >= room.request.gpus_total
        domain: int
        for domain in sorted(np.flatnonzero(may).tolist(), key=sizes.__getitem__):
            yield eligible[domains == domain]


def largest(scope: Scope, room: Room, eligible: Indexes, count: int) -> Indexes | None:
    """`count` nodes that are enough together, in the lowest domain where there are such."""
    for members in domains_with(scope, room, eligible, count):
        nodes = _few_leaves(room, members, count, scope.leaves_max)
        if nodes is not None:
            return nodes
    return None


def _few_leaves(room: Room, members: Indexes, count: int, leaves_max: int) -> Indexes | None:
    """Of these nodes the `count` largest that are enough, out of few leaves.

    Leaves are taken by what they could give until they are enough, then given back where the others are
    enough without; at last all sets of one leaf less are tried, if these are not too many.
    """
    if _pick(room, members, count) is None:
        return None
    leaf_of_node = room.inventory.layout.leaf_of_node
    inside = leaf_of_node[members]
    best: list[int] | None = None
    for order in _orders(room, members, inside, count):
        found = _shortest(room, members, inside, order, count)
        if best is None or len(found) < len(best):
            best = found
    assert best is not None
    leaves = np.unique(inside).tolist()
    while len(best) > 1 and comb(len(leaves), len(best) - 1) <= _TRIES:
        fewer = next(
            (some for some in combinations(leaves, len(best) - 1) if _of(room, members, inside, some, count)),
            None,
        )
        if fewer is None:
            break
        best = list(fewer)
    if len(best) > leaves_max:
        return None
    return _pick(room, members[np.isin(inside, best)], count)


def _orders(room: Room, members: Indexes, inside: Indexes, count: int) -> Iterator[list[int]]:
    """Leaves by the sum of their `count` largest nodes, and by how many nodes they have."""
    for amount in amounts_of(room):
        ranked = np.lexsort((-amount[members], inside))
        place = np.arange(len(ranked)) - np.searchsorted(inside[ranked], inside[ranked])
        used = ranked[place < count]
        sums = np.bincount(inside[used], weights=amount[members[used]])
        leaves = np.flatnonzero(sums)
        yield leaves[np.argsort(-sums[leaves], kind="stable")].tolist()
    sizes = np.bincount(inside)
    leaves = np.flatnonzero(sizes)
    yield leaves[np.lexsort((-sums[leaves], -sizes[leaves]))].tolist()


def _shortest(room: Room, members: Indexes, inside: Indexes, order: list[int], count: int) -> list[int]:
    """The shortest beginning of the order that is enough, without those that it can do without."""
    low, high = 1, len(order)
    while low < high:
        middle = (low + high) // 2
        if _of(room, members, inside, order[:middle], count):
            high = middle
        else:
            low = middle + 1
    leaves = order[:low]
    for leaf in order[:low]:
        others = [other for other in leaves if other != leaf]
        if others and _of(room, members, inside, others, count):
            leaves = others
    return leaves


def _of(
    room: Room, members: Indexes, inside: Indexes, leaves: list[int] | tuple[int, ...], count: int
) -> bool:
    return _pick(room, members[_isin(inside, leaves)], count) is not None


def _isin(inside: Indexes, leaves: list[int] | tuple[int, ...]) -> NDArray[np.bool_]:
    marks = np.zeros(int(inside.max()) + 1, dtype=np.bool_)
    marks[list(leaves)] = True
    return marks[inside]


def _pick(room: Room, nodes: Indexes, count: int) -> Indexes | None:
    """The `count` largest, by what is scarcer or by the other."""
    if len(nodes) < count:
        return None
    amounts = amounts_of(room)
    for amount, other in zip(amounts, reversed(amounts), strict=True):
        picked: Indexes = nodes[np.lexsort((room.scores(nodes), -other[nodes], -amount[nodes]))][:count]
        if is_enough(room, picked):
            return picked
    return None
