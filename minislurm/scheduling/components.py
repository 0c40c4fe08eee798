"""Heterogeneous jobs in a pass: one place in the order, one reservation, one start of all components.

The components are placed one after the other, each in what those before it leave: on a copy of what is free,
of now or of a time to come. So they find room together, or the job waits as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice, permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from minislurm.domain.reservation import LicenseCount
from minislurm.domain.states import Reason
from minislurm.scheduling.backfill import end_of
from minislurm.scheduling.capacity import Demand
from minislurm.scheduling.filters import Filters, key_of
from minislurm.scheduling.model import RequestClass
from minislurm.scheduling.nodes import Counts, Inventory, Mask, NodeTable, Share
from minislurm.scheduling.place import choose
from minislurm.scheduling.room import Room
from minislurm.scheduling.work import finished

if TYPE_CHECKING:
    from minislurm.scheduling.workspace import Candidate

#: All orders of three components.
_MOST_ORDERS = 6

#: How much of one component fits into the least of these counts.
MakeRoom = Callable[["Candidate", list[Counts]], Room]


class Fit(NamedTuple):
    """The shares of all components together; or the first that finds no room (`missing`), and in what."""

    shares: list[Share]
    missing: int | None
    left: list[Counts]


def fit_now(
    components: Sequence[Candidate],
    table: NodeTable,
    reached_by: Callable[[RequestClass], list[Counts]],
    room: MakeRoom,
) -> list[list[Share]] | None:
    """Where each of them starts now; None: not all of them can. `reached_by`: what a run of that class must
    leave at the times of reservations."""
    for order in _orders(components, lambda one: room(one, [table.free, *reached_by(one.jobs)])):
        found = _try_now(order, table, reached_by, room)
        if found is not None:
            return [found[id(one)] for one in components]
    return None


def _try_now(
    components: Sequence[Candidate],
    table: NodeTable,
    reached_by: Callable[[RequestClass], list[Counts]],
    room: MakeRoom,
) -> dict[int, list[Share]] | None:
    """By the identity of each."""
    trial = table.copy()
    #: What reservations leave, by the identity of the original: not every component reaches every one.
    copies: dict[int, Counts] = {}
    found: dict[int, list[Share]] = {}
    for candidate in components:
        reached = []
        for counts in reached_by(candidate.jobs):
            if id(counts) not in copies:
                copies[id(counts)] = counts.copy()
            reached.append(copies[id(counts)])
        shares = choose(room(candidate, [trial.free, *reached]))
        if shares is None:
            return None
        shares = trial.settle(shares)
        finished(trial.place(shares))
        for counts in reached:
            counts.take_all(shares)
        found[id(candidate)] = shares
    return found


def fit_then(components: Sequence[Candidate], counts: Sequence[Counts], room: MakeRoom) -> Fit:
    """Whether all of them fit at some time, into the least of these counts."""
    first: Fit | None = None
    for order in _orders(components, lambda one: room(one, list(counts))):
        fit = _try_then(order, components, counts, room)
        if fit.missing is None:
            return fit
        first = first or fit
    assert first is not None
    return first


def _try_then(
    order: Sequence[Candidate], components: Sequence[Candidate], counts: Sequence[Counts], room: MakeRoom
) -> Fit:
    left = [each.copy() for each in counts]
    found: list[Share] = []
    for candidate in order:
        made = room(candidate, left)
        shares = choose(made)
        if shares is None:
            return Fit(found, _index(components, candidate), left)
        for each in left:
            each.take_all(_told_apart(shares, made.inventory, left[0]))
        found += shares
    return Fit(found, None, left)


def _index(components: Sequence[Candidate], candidate: Candidate) -> int:
    return next(i for i, one in enumerate(components) if one is candidate)


def _orders(
    components: Sequence[Candidate], room: Callable[[Candidate], Room]
) -> Iterator[Sequence[Candidate]]:
    """In which order to place them: first who has the least choice of nodes. One after the other may get in
    its own way, so where each would fit by itself a few other orders are tried."""
    rooms = [room(one) for one in components]
    spare = [int(np.count_nonzero(one.tasks)) - one.bounds.nodes_min for one in rooms]
    ranked = sorted(range(len(components)), key=lambda i: (spare[i], i))
    tried: set[Hashable] = set()
    for indexes in islice(permutations(ranked), _MOST_ORDERS):
        order = [components[i] for i in indexes]
        shapes = number_key(order)
        if shapes not in tried:  # equal components may change places
            tried.add(shapes)
            yield order
        if spare[ranked[0]] < 0:
            return


def _told_apart(shares: list[Share], inventory: Inventory, counts: Counts) -> list[Share]:
    """With some GPU named for every share of one that is free as a whole, so that the next component may join
    it. Which one it will be is not known."""
    return [
        share._replace(gpu=_unshared(share, inventory, counts)) if share.milli and share.gpu < 0 else share
        for share in shares
    ]


def _unshared(share: Share, inventory: Inventory, counts: Counts) -> int:
    of_type = inventory.gpu_row[share.node] == share.gpus.index(1)
    return int((of_type & (counts.shared[share.node] == 0)).argmax())


# What holds of the whole job


def number_key(components: Sequence[Candidate]) -> Hashable:
    """What is true of one blocked job is true of another with the same key."""
    return tuple((key_of(one.jobs), one.jobs.time_limit_s) for one in components)


def demand_of_all(components: Sequence[Candidate]) -> Demand:
    """The least that is taken in all, of the leader's partition."""
    partition = components[0].jobs.partition.name
    here = [one.demand for one in components if one.jobs.partition.name == partition]
    return Demand(*(sum(amounts) for amounts in zip(*here, strict=True)))


def misfit_of(components: Sequence[Candidate], filters: Filters, inventory: Inventory) -> Reason | None:
    """Why they can never start, or not before a node is back: one by itself, or all of them together."""
    for one in components:
        if one.misfit is not None:
            return one.misfit
    if not inventory.known.all():
        return None  # of a node that never registered everything is expected
    if _fit_empty(components, inventory, filters.allowed):
        return None
    if _fit_empty(components, inventory, filters.configured):
        return Reason.NODES_UNAVAILABLE
    return Reason.PARTITION_CONFIG


def _fit_empty(
    components: Sequence[Candidate], inventory: Inventory, allowed: Callable[[RequestClass], Mask]
) -> bool:
    def room(one: Candidate, counts: list[Counts]) -> Room:
        return Room(inventory, one.jobs.request, one.bounds, allowed(one.jobs), counts)

    return fit_then(components, [inventory.total], room).missing is None


def longest_s(jobs: RequestClass) -> float:
    """Seconds that a job of the class may take, with all its components; infinity without a limit."""
    return max(end_of(0.0, one.time_limit_s) for one in (jobs, *jobs.parts))


def claims_of(components: Sequence[Candidate]) -> RequestClass:
    """The leader's class with what all of them take besides nodes: licenses, nodes for their user alone."""
    wanted: dict[str, int] = {}
    for one in components:
        for license in one.jobs.request.licenses:
            wanted[license.name] = wanted.get(license.name, 0) + license.count
    licenses = tuple(LicenseCount(name, count) for name, count in sorted(wanted.items()))
    users = {one.jobs.request.exclusive_user for one in components} - {None}
    jobs, user = components[0].jobs, next(iter(users), None)
    return replace(jobs, request=replace(jobs.request, licenses=licenses, exclusive_user=user))
