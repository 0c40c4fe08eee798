"""Elastic runs get idle nodes that nobody who waits could use, and give nodes back to those who can.

Growth comes last in a pass: whatever could start has started, heads have their reservations. A run gets as
many nodes at once as there are and its steps allow (each change may cost it a restart), those nearest to the
racks that it is in. It has them until its own end, so they must be free beside every reservation that it
would reach into.

What a run has beyond its minimum is lent: whoever is blocked for want of room, and first in its partition,
gets it back before any other run has to give way (`Surplus.find`). That turns idle nodes into nodes that are
lent, and back; a waiting job sees both, so growth takes nothing from it but the time that a run takes to go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from minislurm.domain.ids import JobId
from minislurm.domain.resources import ResourceRequest, size_within
from minislurm.domain.states import PartitionState
from minislurm.scheduling.domains import Indexes, Layout
from minislurm.scheduling.filters import Filters
from minislurm.scheduling.limits import Hit
from minislurm.scheduling.model import ElasticRun, RequestClass, RunningJob, Snapshot
from minislurm.scheduling.needs import Bounds
from minislurm.scheduling.nodes import Counts, Inventory, Mask, Share
from minislurm.scheduling.place import choose
from minislurm.scheduling.room import Room

#: The limit by which a run may not have these shares instead of those; it is charged with them if it may.
Charge = Callable[[RequestClass, Sequence[Share], Sequence[Share]], "Hit | None"]

#: A gang's nodes are free within that time (seconds), unless something is wrong with one of them. To grow by
#: one, and by the others later, would cost a restart more.
_LETTING_GO_S = 5.0

_TAKES_JOBS = frozenset({PartitionState.UP, PartitionState.DRAIN})


def changing(snapshot: Snapshot) -> list[RunningJob]:
    """The runs whose size may change, or is about to: mostly none."""
    return [run for run in snapshot.running if run.elastic is not None or run.leaving]


class Grower(NamedTuple):
    """A run that may grow in this pass."""

    run: RunningJob
    how: ElasticRun
    #: As if it were to start now and end when the run does.
    jobs: RequestClass


class Growth:
    """The runs of a pass that may grow, and where to."""

    def __init__(
        self, snapshot: Snapshot, runs: Sequence[RunningJob], inventory: Inventory, filters: Filters
    ) -> None:
        """`runs`: see `changing`."""
        self._now = snapshot.now
        self._inventory = inventory
        self._filters = filters
        self._runs = [(run, how) for run in runs if (how := run.elastic) and not run.joining]
        #: Runs that let go of their nodes one by one: who grows waits for the last of these.
        self._ending: list[RunningJob] = []
        if self._runs:
            latest = self._now - _LETTING_GO_S
            self._ending = [run for run in snapshot.running if run.ending_since > latest]
        self._awaited = inf
        #: In words, why runs that might grow by now do not.
        self.stays: dict[JobId, str] = {}

    @property
    def wake_time(self) -> float:
        """When the next of them may grow that may not yet; infinity: none."""
        times = [how.grow_from for run, how in self._runs if _may_be_more(run, how)]
        return min([self._awaited, *[time for time in times if time > self._now]])

    def growers(self) -> Iterator[Grower]:
        """Who has least of what it could have comes first, of a higher tier before all others."""

        def rank(pair: tuple[RunningJob, ElasticRun]) -> tuple[int, float, int]:
            run, how = pair
            return -run.tier, len(run.allocation) / how.jobs.request.nodes_max, run.job_id

        for run, how in sorted(self._runs, key=rank):
            is_time = how.grow_from <= self._now < how.grow_until
            if is_time and how.jobs.partition.state in _TAKES_JOBS and _may_be_more(run, how):
                left_s = run.end_time - self._now
                yield Grower(run, how, replace(how.jobs, time_limit_s=left_s if left_s < inf else 0.0))

    def find(self, grower: Grower, counts: Sequence[Counts], allowed: Mask, charge: Charge) -> list[Share]:
        """Further nodes for it; [] for none. `counts`: what is free, now and beside each reservation that it
        reaches into; `allowed`: nodes that nobody else has a claim to."""
        run, jobs = grower.run, grower.jobs
        parts = [share for part in run.allocation if (share := self._inventory.share_of(part)) is not None]
        own = np.array([share.node for share in parts], dtype=np.int64)
        allowed = allowed & self._filters.allowed(jobs)
        allowed[own] = False
        self.stays[run.job_id] = "No node that it may use is free, but for what others wait for."
        if not len(own) or not allowed.any():
            return []
        room = self._room(jobs, 1, allowed, counts)
        nodes = nearest(room, jobs.request, own, np.flatnonzero(room.tasks >= room.bounds.tasks_each))
        most = _most(jobs)
        size = size_within(jobs.request, min(len(run.allocation) + len(nodes), most))
        if len(nodes) and size <= len(run.allocation):
            self.stays[run.job_id] = "Too few nodes are free for its next step."
        soon = self._soon(allowed)
        if size < size_within(jobs.request, min(len(run.allocation) + len(nodes) + soon, most)):
            since = min(ending.ending_since for ending in self._ending)
            self._awaited = min(self._awaited, since + _LETTING_GO_S)
            self.stays[run.job_id] = "Nodes that it may use are about to come free."
            return []
        while size > len(run.allocation):
            count = size - len(run.allocation)
            mask = np.zeros(len(self._inventory), dtype=np.bool_)
            mask[nodes[:count]] = True
            shares = choose(self._room(jobs, count, mask, counts))
            assert shares is not None, "nodes that each have room do not hold the gang"
            hit = charge(jobs, parts, [*parts, *shares])
            if hit is None:
                del self.stays[run.job_id]
                return shares
            self.stays[run.job_id] = f"A limit is in the way: {hit.reason.value}, {hit.detail}."
            size = next(smaller_sizes(jobs.request, size), 0)
        return []

    def _soon(self, allowed: Mask) -> int:
        """So many of these nodes are about to be let go of."""
        names = {part.node for run in self._ending for part in run.allocation}
        nodes = [self._inventory.index[name] for name in names if name in self._inventory.index]
        return int(allowed[nodes].sum())

    def _room(self, jobs: RequestClass, nodes: int, allowed: Mask, counts: Sequence[Counts]) -> Room:
        request = alone(jobs.request, nodes)
        each = tasks_each(jobs.request)
        bounds = Bounds(each * nodes, nodes, nodes, fewest=False, tasks_each=each)
        return Room(self._inventory, request, bounds, allowed, list(counts))


def _may_be_more(run: RunningJob, how: ElasticRun) -> bool:
    most = _most(how.jobs)
    return size_within(how.jobs.request, most) > len(run.allocation)


def _most(jobs: RequestClass) -> int:
    return min(jobs.request.nodes_max, jobs.partition.max_nodes or jobs.request.nodes_max)


def tasks_each(request: ResourceRequest) -> int:
    """Tasks that every node brings."""
    return -(-request.tasks // max(1, request.nodes_min))


def alone(request: ResourceRequest, nodes: int) -> ResourceRequest:
    """What so many nodes more must give, wherever they are."""
    return replace(
        request, nodes_min=nodes, nodes_max=nodes, tasks=tasks_each(request) * nodes, nodes_step=0,
        topology_level="", topology_required=False, switches=0, spread=False,
    )  # fmt: skip


def smaller_sizes(request: ResourceRequest, nodes: int) -> Iterator[int]:
    """Numbers of nodes below that which its steps allow, descending to its minimum."""
    least = max(1, request.nodes_min)
    while nodes > least:
        nodes = size_within(request, nodes - 1)
        yield nodes


def nearest(room: Room, request: ResourceRequest, own: Indexes, nodes: Indexes) -> Indexes:
    """These nodes, those nearest to the ones of a run (`own`) first; without those that are in no domain
    where it may be."""
    layout = room.inventory.layout
    leaf_of_node, own_leaves = layout.leaf_of_node, np.unique(layout.leaf_of_node[own])
    if request.topology_required and request.topology_level in layout.within:
        domain_of_leaf = layout.within[request.topology_level].levels[-1]
        nodes = nodes[np.isin(domain_of_leaf[leaf_of_node[nodes]], domain_of_leaf[own_leaves])]
    in_leaf = np.bincount(leaf_of_node[nodes], minlength=layout.leaf_count)
    leaves = leaf_of_node[nodes]
    keys = (
        nodes,
        room.inventory.weight[nodes],
        leaves,
        -in_leaf[leaves],
        _distances(layout, own_leaves)[leaves],
    )
    nodes = nodes[np.lexsort(keys)]
    if request.switches:
        others = [leaf for leaf in dict.fromkeys(leaf_of_node[nodes].tolist()) if leaf not in own_leaves]
        more = max(0, request.switches - len(own_leaves))
        nodes = nodes[~np.isin(leaf_of_node[nodes], others[more:])]
    return nodes


def _distances(layout: Layout, own_leaves: Indexes) -> Indexes:
    """By leaf: the height of the lowest domain that it shares with one of these."""
    levels = layout.everywhere.levels
    distances = np.full(layout.leaf_count, len(levels), dtype=np.int64)
    for height in range(len(levels) - 1, -1, -1):
        distances[np.isin(levels[height], levels[height][own_leaves])] = height
    return distances
