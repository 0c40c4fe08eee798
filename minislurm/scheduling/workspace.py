"""What one pass leaves for the next: arrays and answers that are still true.

A snapshot is made of the same objects as the last one wherever nothing has changed (`cluster/snapshot.py`),
so identity tells what must be read again. Only speed depends on it: a pass with the workspace of another pass
decides what a pass with an empty one decides (`tests/sim/test_kept_passes.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Generator, Hashable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from minislurm.domain.configuration import Partition, SchedulerSection
from minislurm.domain.ids import JobId
from minislurm.domain.states import Reason
from minislurm.domain.topology import Topology
from minislurm.scheduling.backfill import Reservation
from minislurm.scheduling.capacity import Capacity, Demand, Sums, demand_of
from minislurm.scheduling.components import demand_of_all, misfit_of, number_key
from minislurm.scheduling.filters import Filters, RequestKey, key_of
from minislurm.scheduling.model import (
    NodeAvailability,
    Plan,
    PriorityLine,
    RequestClass,
    RunningJob,
    Snapshot,
    Wait,
)
from minislurm.scheduling.needs import Bounds
from minislurm.scheduling.nodes import NodeTable, Share
from minislurm.scheduling.single import share_of_single
from minislurm.scheduling.timeline import Timeline

if TYPE_CHECKING:
    from minislurm.scheduling.order import Entry, Turn

#: Classes that have left the queue are dropped when there are so many times as many as are left.
_SPARE = 2


class _Kind(Struct, frozen=True):
    """What all classes share that ask for the same thing of the same partition; see `Candidate`."""

    number: int
    bounds: Bounds
    demand: Demand
    head: str
    is_choosy: bool
    single: Share | None


class Candidate(Struct):
    """A class, and what holds of it as long as the cluster stays as it is."""

    jobs: RequestClass
    #: Equal for classes that ask for the same thing of the same partition.
    number: int
    bounds: Bounds
    demand: Demand
    #: Its priority but for age, under the ranking that it was worked out for.
    base: float = 0.0
    ranking: Hashable = None
    #: The priority as a whole, where age does not count.
    line: PriorityLine | None = None
    #: One job of each such name is a head.
    head: str = ""
    #: Why it can never start as things are; None: it can.
    misfit: Reason | None = None
    #: Reservations, other users' jobs or licenses may have a say in where and when its jobs may be.
    is_choosy: bool = False
    #: What a job takes, where that is all that has to be known of it (`single.py`).
    single: Share | None = None
    #: The other components of a heterogeneous job; all but `bounds` is then of the whole.
    parts: tuple[Candidate, ...] = ()

    @property
    def components(self) -> tuple[Candidate, ...]:
        return (self, *self.parts)


class Verdicts(Struct):
    """What a pass found out about those that wait. True of the next one as well if nothing has happened in
    between but submissions: whoever was blocked is still blocked, and later at that."""

    settings: SchedulerSection
    #: By `Turn.key`: since which end, and why.
    blocked: dict[tuple[int, int], tuple[float, Wait]]
    #: By `Candidate.head`: the first that waits.
    heads: dict[str, Head]
    #: What is free, as the pass left it.
    capacity: Capacity
    #: All of it, if nothing started.
    plan: Plan | None = None


class Head(Struct, frozen=True):
    job_id: JobId
    #: As it was told.
    wait: Wait
    #: None: it has none, or one that depends on that of another head.
    reservation: Reservation | None = None

    def is_planned_after(self, time: float) -> bool:
        return self.reservation is not None and self.reservation.time >= time


class Workspace:
    """Belongs to one pass at a time."""

    __slots__ = (
        "_candidates", "_kinds", "_nodes", "_numbers", "_running", "_topology", "_totals", "cpus", "filters",
        "is_still", "lasting", "table", "timeline", "turns", "users_matter", "verdicts",
    )  # fmt: skip

    table: NodeTable
    filters: Filters
    timeline: Timeline
    #: Of all nodes.
    cpus: int
    #: Since the last pass nothing has started, ended or changed on any node.
    is_still: bool
    #: Of the last pass; None: it left none.
    verdicts: Verdicts | None
    #: The keys of turns tell users apart.
    users_matter: bool
    #: Entries of the last pass' queue that stay as they are under these settings, as far as there are any.
    lasting: tuple[SchedulerSection | None, list[Entry]]
    #: By `RequestClass.key`.
    turns: dict[Hashable, Turn]

    def __init__(self) -> None:
        self.is_still = False
        self.verdicts = None
        self.users_matter = False
        self.lasting = (None, [])
        self.turns = {}
        self._running: Sequence[RunningJob] = ()
        self._topology: Topology | None = None
        self._nodes: Sequence[NodeAvailability] = ()
        self._candidates: dict[Hashable, Candidate] = {}
        self._kinds: dict[RequestKey, _Kind] = {}
        self._numbers: dict[Hashable, int] = {}
        self._totals: dict[str, Sums] = {}

    def load(self, snapshot: Snapshot) -> Generator[None, None, None]:
        """Brings everything up to date. Yields between units of work."""
        self.is_still = (
            snapshot.topology is self._topology
            and not self.table.changes
            and _are_the_same(snapshot.nodes, self._nodes)
            and _are_the_same(snapshot.running, self._running)
        )
        self._running = snapshot.running
        if self.is_still:
            self.timeline.begin(snapshot.now)
            return
        if not self._update(snapshot):
            self.table = yield from NodeTable.build(snapshot.nodes, snapshot.topology)
            self.filters = Filters(self.table.inventory)
            self.timeline = Timeline(self.table.inventory)
            self._topology = snapshot.topology
            self._totals = {}
            self.cpus = int(self.table.inventory.total.cpus.sum())
            self._forget_classes()
        self._nodes = snapshot.nodes
        self.timeline.begin(snapshot.now)
        most = _SPARE * len(snapshot.classes) + 1000
        if len(self._kinds) > most:
            self._forget_classes()
        elif len(self._candidates) > most:
            self._candidates, self.turns, self.lasting = {}, {}, (None, [])

    def _forget_classes(self) -> None:
        self._candidates, self._kinds, self._numbers = {}, {}, {}
        self.verdicts, self.turns, self.lasting = None, {}, (None, [])

    def candidate(self, jobs: RequestClass) -> Candidate:
        name = id(jobs) if jobs.key is None else jobs.key
        found = self._candidates.get(name)
        if found is None or found.jobs is not jobs:
            kind = self._kind(jobs)
            found = Candidate(
                jobs, kind.number, kind.bounds, kind.demand, head=kind.head, misfit=self.filters.misfit(jobs),
                is_choosy=kind.is_choosy, single=kind.single,
            )  # fmt: skip
            if jobs.parts:
                self._join(found)
            self._candidates[name] = found
        return found

    def _kind(self, jobs: RequestClass) -> _Kind:
        key = key_of(jobs)
        found = self._kinds.get(key)
        if found is None:
            request, bounds = jobs.request, self.filters.bounds(jobs)
            is_choosy = bool(request.reservation or request.licenses) or request.exclusive_user is not None
            allowed = self.filters.allowed(jobs)
            single = None if is_choosy else share_of_single(self.table.inventory, request, bounds, allowed)
            demand = demand_of(request, bounds)
            found = _Kind(len(self._kinds), bounds, demand, _head_of(jobs), is_choosy, single)
            self._kinds[key] = found
        return found

    def _join(self, leader: Candidate) -> None:
        leader.parts = tuple(map(self.candidate, leader.jobs.parts))
        components = leader.components
        # Below zero: above are the numbers of single requests.
        leader.number = self._numbers.setdefault(number_key(components), -1 - len(self._numbers))
        leader.is_choosy, leader.single = True, None
        leader.demand = demand_of_all(components)
        leader.misfit = misfit_of(components, self.filters, self.table.inventory)

    def total_of(self, partition: Partition) -> Sums:
        """What its usable nodes have, free or not."""
        found = self._totals.get(partition.name)
        if found is None:
            total = self.table.inventory.total
            found = self._totals[partition.name] = Capacity(self.filters, total).of(partition, total)
        return found

    def _update(self, snapshot: Snapshot) -> bool:
        """False: the cluster is another one, or a node is not what it was."""
        nodes, before = snapshot.nodes, self._nodes
        if snapshot.topology is not self._topology or len(nodes) != len(before):
            return False
        changed = {i for i, (new, old) in enumerate(zip(nodes, before, strict=True)) if new is not old}
        # What the last pass placed is in the table already; what was refused must come out of it again.
        for i in changed | set(self.table.changes):
            if not _is_same_node(nodes[i], before[i]):
                return False
            self.table.update(i, nodes[i])
        self.table.begin()
        return True


def _are_the_same(new: Sequence[object], old: Sequence[object]) -> bool:
    return len(new) == len(old) and all(map(operator.is_, new, old))


def _is_same_node(new: NodeAvailability, old: NodeAvailability) -> bool:
    """But for what is free on it."""
    return (
        new.name == old.name
        and new.usable is old.usable
        and (new.cpus, new.memory_mib, new.gpus, new.weight)
        == (old.cpus, old.memory_mib, old.gpus, old.weight)
        and new.gpus_by_type == old.gpus_by_type
        and new.gpu_attributes == old.gpu_attributes
        and new.gpu_links == old.gpu_links
        and new.features == old.features
    )


def _head_of(jobs: RequestClass) -> str:
    """Jobs of an operator's reservation wait for its nodes and keep no place for their partition's others."""
    name, reservation = jobs.partition.name, jobs.request.reservation
    return f"{name} {reservation}" if reservation else name
