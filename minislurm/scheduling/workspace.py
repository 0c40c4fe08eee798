"""What one pass leaves for the next: arrays and answers that are still true.

A snapshot is made of the same objects as the last one wherever nothing has changed (`cluster/snapshot.py`),
so identity tells what must be read again. Only speed depends on it: a pass with the workspace of another pass
decides what a pass with an empty one decides (`tests/unit/scheduling/test_workspace.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Generator, Hashable, Sequence

from msgspec import Struct

from minislurm.domain.configuration import Partition, SchedulerSection
from minislurm.domain.ids import JobId
from minislurm.domain.states import Reason
from minislurm.domain.topology import Topology
from minislurm.scheduling.backfill import Reservation
from minislurm.scheduling.capacity import Capacity, Demand, Sums, demand_of
from minislurm.scheduling.components import demand_of_all, misfit_of, number_key
from minislurm.scheduling.filters import Filters, key_of
from minislurm.scheduling.model import NodeAvailability, RequestClass, RunningJob, Snapshot, Wait
from minislurm.scheduling.needs import Bounds
from minislurm.scheduling.nodes import NodeTable
from minislurm.scheduling.timeline import Timeline

#: Classes that have left the queue are dropped when there are so many times as many as are left.
_SPARE = 2


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
    #: One job of each such name is a head.
    head: str = ""
    #: Why it can never start as things are; None: it can.
    misfit: Reason | None = None
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


class Head(Struct, frozen=True):
    job_id: JobId
    #: As it was told.
    wait: Wait
    #: None: it has none, or one that depends on that of another head.
    reservation: Reservation | None = None


class Workspace:
    """Belongs to one pass at a time."""

    __slots__ = (
        "_candidates", "_nodes", "_numbers", "_running", "_topology", "_totals", "cpus", "filters",
        "is_still", "table", "timeline", "verdicts",
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

    def __init__(self) -> None:
        self.is_still = False
        self.verdicts = None
        self._running: Sequence[RunningJob] = ()
        self._topology: Topology | None = None
        self._nodes: Sequence[NodeAvailability] = ()
        self._candidates: dict[Hashable, Candidate] = {}
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
            self._candidates, self._numbers, self.verdicts = {}, {}, None
        self._nodes = snapshot.nodes
        self.timeline.begin(snapshot.now)
        if len(self._candidates) > _SPARE * len(snapshot.classes) + 1000:
            self._candidates, self._numbers, self.verdicts = {}, {}, None

    def candidate(self, jobs: RequestClass) -> Candidate:
        name = id(jobs) if jobs.key is None else jobs.key
        found = self._candidates.get(name)
        if found is None or found.jobs is not jobs:
            key = key_of(jobs)
            bounds = self.filters.bounds(jobs)
            number = self._numbers.setdefault(key, len(self._numbers))
            demand = demand_of(jobs.request, bounds)
            found = Candidate(
                jobs, number, bounds, demand, head=_head_of(jobs), misfit=self.filters.misfit(jobs)
            )
            if jobs.parts:
                self._join(found)
            self._candidates[name] = found
        return found

    def _join(self, leader: Candidate) -> None:
        leader.parts = tuple(map(self.candidate, leader.jobs.parts))
        components = leader.components
        leader.number = self._numbers.setdefault(number_key(components), len(self._numbers))
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
