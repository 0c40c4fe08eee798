"""The cluster's state: records, and what is derived from them for quick answers.

Only `apply` changes it. Everything under "derived" can be rebuilt from the records (`rebuild`), and
`check.check` holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, field

from minislurm.cluster.accounts import AccountsState
from minislurm.cluster.history import History
from minislurm.cluster.queue import PendingQueue, looks_of
from minislurm.domain.accounts import AccountChanges
from minislurm.domain.configuration import Configuration, Partition
from minislurm.domain.ids import JobId, NodeName, StepId
from minislurm.domain.job import Dependency, DependencyKind, Job
from minislurm.domain.node import Node, NodeSpec
from minislurm.domain.partition_settings import settings_problem, still_set, with_settings
from minislurm.domain.reservation import Reservation
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.states import JobState, PartitionState
from minislurm.domain.topology import Topology
from minislurm.scheduling.model import NodeAvailability, RunningJob

if TYPE_CHECKING:
    from minislurm.scheduling.ever import Ever


class ArraySummary(Struct):
    """What became of an array's tasks, for dependencies on it and for `sbatch --wait`."""

    id: JobId
    #: Records of tasks that have left the common one and have not ended.
    live: set[JobId] = field(default_factory=set)
    highest_exit_code: int = 0
    #: Final state by task id.
    ended_tasks: dict[int, str] = field(default_factory=dict)


class RequestRecord(Struct):
    """What a changing request led to; the same request id gets the same answer."""

    request_id: str
    time: float
    job_id: JobId = JobId(0)
    step_id: StepId = StepId(0)


class Touched(Struct):
    """Records that differ from the stored snapshot. The store empties it."""

    jobs: set[JobId] = field(default_factory=set)
    nodes: set[NodeName] = field(default_factory=set)
    arrays: set[JobId] = field(default_factory=set)
    requests: set[str] = field(default_factory=set)
    reservations: set[str] = field(default_factory=set)


class Kept(Struct):
    """Pieces of the last snapshot that are still true: the next one is made of the same objects, and what a
    pass knows by them stays true as well. Whoever changes a record drops its piece."""

    nodes: dict[NodeName, NodeAvailability] = field(default_factory=dict)
    running: dict[JobId, RunningJob] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)
    #: By partition: one node of each kind, of what it has.
    kinds: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    #: Requests that some node of the partition could hold (or more nodes, as far as that is asked).
    possible: set[tuple[str, ResourceRequest]] = field(default_factory=set)
    #: Of what nodes are made, like the kinds; made when it is asked for.
    ever: Ever | None = None

    def forget_kinds(self) -> None:
        """A node has another shape or place now."""
        self.kinds.clear()
        self.possible.clear()
        self.ever = None

    def __eq__(self, other: object) -> bool:
        # States that differ in nothing but this are equal.
        return isinstance(other, Kept)


class ClusterState(Struct):
    configuration: Configuration = Configuration()
    #: The configuration as the journal has it (JSON).
    configuration_text: str = ""
    jobs: dict[JobId, Job] = field(default_factory=dict)
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    arrays: dict[JobId, ArraySummary] = field(default_factory=dict)
    partition_states: dict[str, PartitionState] = field(default_factory=dict)
    #: By partition, what `scontrol update` has set over its configuration.
    partition_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    requests: dict[str, RequestRecord] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    next_job_id: JobId = JobId(1)
    accounts: AccountsState = field(default_factory=AccountsState)
    history: History = field(default_factory=History)
    #: Parts of runs placed on nodes so far; the last is also kept by node, for round robin.
    placements: int = 0

    # Derived.
    topology: Topology = field(default_factory=Topology)
    partitions: dict[str, Partition] = field(default_factory=dict)
    partitions_of_node: dict[NodeName, tuple[str, ...]] = field(default_factory=dict)
    #: Eligible pending jobs by request class.
    queue: PendingQueue = field(default_factory=PendingQueue)
    #: Jobs that hold nodes.
    active: set[JobId] = field(default_factory=set)
    #: Those of them whose size may change.
    elastic: set[JobId] = field(default_factory=set)
    #: Pending jobs by the job they depend on.
    dependents: dict[JobId, set[JobId]] = field(default_factory=dict)
    #: Pending jobs with --dependency=singleton.
    singletons: set[JobId] = field(default_factory=set)
    #: Ended jobs, oldest first (a requeued one leaves).
    ended: dict[JobId, float] = field(default_factory=dict)
    #: Records of detached tasks by (array, task).
    tasks: dict[tuple[JobId, int], JobId] = field(default_factory=dict)
    #: Of heterogeneous jobs: the components that are remembered, in their order, by the leader's id.
    het_jobs: dict[JobId, tuple[JobId, ...]] = field(default_factory=dict)
    #: Jobs whose runs are asked to save, and are ended then.
    giving_way: set[JobId] = field(default_factory=set)
    #: How many jobs use a stored script or environment.
    blob_uses: dict[str, int] = field(default_factory=dict)
    #: Licenses that active jobs hold, by name; a name that nobody holds is not there.
    licenses_used: dict[str, int] = field(default_factory=dict)
    touched: Touched = field(default_factory=Touched)
    kept: Kept = field(default_factory=Kept)

    def touch_node(self, name: NodeName) -> None:
        self.touched.nodes.add(name)
        self.kept.nodes.pop(name, None)

    def touch_job(self, job_id: JobId) -> None:
        self.touched.jobs.add(job_id)
        self.kept.running.pop(job_id, None)

    def kinds_in(self, partition: Partition) -> tuple[Node, ...]:
        """One of its nodes for each of what they have: a request that fits none of these fits none at all."""
        found = self.kept.kinds.get(partition.name)
        if found is None:
            nodes = [self.nodes[name] for name in partition.nodes]
            by_kind = {(node.cpus, node.memory_mib, node.gpus, node.spec.features): node for node in nodes}
            found = self.kept.kinds[partition.name] = tuple(by_kind.values())
        return found

    def task_record(self, array_id: JobId, task_id: int) -> Job | None:
        """The own record of an array's task, if it has left the common one."""
        job_id = self.tasks.get((array_id, task_id))
        return self.jobs[job_id] if job_id is not None else None

    def array_rest(self, array_id: JobId) -> Job | None:
        """The common record of the tasks that have not left it yet."""
        job = self.jobs.get(array_id)
        return job if job is not None and job.is_array_rest else None

    def array_records(self, array_id: JobId) -> Iterator[Job]:
        """All records of an array's tasks that are still remembered, the common one last."""
        rest = self.array_rest(array_id)
        summary = self.arrays.get(array_id)
        if summary is not None:
            for task_id in sorted({*summary.ended_tasks, *self._live_task_ids(summary)}):
                record = self.task_record(array_id, task_id)
                if record is not None:
                    yield record
        if rest is not None:
            yield rest

    def _live_task_ids(self, summary: ArraySummary) -> Iterator[int]:
        for job_id in summary.live:
            task_id = self.jobs[job_id].array_task_id
            assert task_id is not None
            yield task_id

    def components(self, job: Job) -> list[Job]:
        """All of its heterogeneous job that are remembered, the leader first; [] for any other job."""
        return [self.jobs[job_id] for job_id in self.het_jobs.get(job.het_job_id, ())]

    def join_components(self, job: Job) -> None:
        """A new record of a component."""
        ids = (*self.het_jobs.get(job.het_job_id, ()), job.id)
        self.het_jobs[job.het_job_id] = tuple(sorted(ids))

    def leave_components(self, job: Job) -> None:
        """The record is forgotten."""
        ids = tuple(job_id for job_id in self.het_jobs.pop(job.het_job_id) if job_id != job.id)
        if ids:
            self.het_jobs[job.het_job_id] = ids

    def partition_changed(self, name: str) -> None:
        self.kept.partitions.pop(name, None)
        self.queue.partition_changed(name)

    def partition_state(self, name: str) -> PartitionState:
        changed = self.partition_states.get(name)
        return changed if changed is not None else self.partitions[name].state

    @property
    def wants_passes(self) -> bool:
        """Could a pass start anything, or make it larger?"""
        return bool(self.queue) or bool(self.elastic)

    def is_eligible(self, job: Job) -> bool:
        """May the scheduler start it?"""
        return job.state is JobState.PENDING and not job.held and job.eligible_time > 0

    def configure(self, configuration: Configuration) -> None:
        """Nodes and partitions as now declared. A node that is gone stays while jobs are on it."""
        before, self.configuration = self.configuration, configuration
        self.kept = Kept()
        self.queue.partition_changed()
        self.partitions = {p.name: self._set(p, before) for p in configuration.partitions}
        declared = {spec.name: spec for spec in configuration.nodes}
        for name, spec in declared.items():
            self._declare(name, spec)
        for name in [n for n, node in self.nodes.items() if n not in declared and not node.jobs]:
            del self.nodes[name]
            self.touch_node(name)
        self.place_nodes()
        by_node: dict[NodeName, list[str]] = {name: [] for name in self.nodes}
        for partition in configuration.partitions:
            for name in partition.nodes:
                by_node[name].append(partition.name)
        self.partitions_of_node = {name: tuple(names) for name, names in by_node.items()}
        self.next_job_id = max(self.next_job_id, JobId(configuration.limits.first_job_id))
        self.accounts.settings = configuration.accounts
        self._count_by_partition_qos()
        self.accounts.capacity_is_known = False
        looks = looks_of(configuration)
        if looks != self.queue.looks:
            self.queue.looks = looks
            self._queue_anew()

    def _set(self, partition: Partition, before: Configuration) -> Partition:
        """As configured, but for what is set; which of that is still true after a change from `before`."""
        settings = self.partition_settings.pop(partition.name, None)
        kept = still_set(settings, before.partition(partition.name), partition) if settings else {}
        if not kept or settings_problem(partition, kept):
            return partition
        self.partition_settings[partition.name] = kept
        return with_settings(partition, kept)

    def set_partition(self, name: str, settings: dict[str, str]) -> None:
        configured = self.configuration.partition(name)
        assert configured is not None, name
        self.partition_settings[name] = settings
        self.partitions[name] = with_settings(configured, settings)
        self._count_by_partition_qos()
        self.kept = Kept()
        self.queue.partition_changed(name)
        # Passes know partitions by name: with a topology of its own the cluster is another one to them.
        self.place_nodes()

    def _count_by_partition_qos(self) -> None:
        partition_qos = {p.name: p.qos for p in self.partitions.values() if p.qos}
        self.accounts.set_partition_qos(partition_qos, self.jobs.values())

    def place_nodes(self) -> None:
        """The topology, from the configuration and from what nodes have reported."""
        reported = {name: node.facts.topology for name, node in self.nodes.items() if node.facts.topology}
        self.topology = Topology.of(self.configuration.topology, reported)

    def _declare(self, name: NodeName, spec: NodeSpec) -> None:
        node = self.nodes.get(name)
        if node is None:
            self.nodes[name] = Node(spec)
        else:
            node.spec = spec
        self.touch_node(name)

    # Indexes. Called by `apply` whenever what they are made of has changed.

    def index_job(self, job: Job) -> None:
        """Takes a record into every index it belongs to."""
        self.accounts.count(job, 1)
        if self.is_eligible(job):
            self.queue.add(job)
        if job.state.holds_nodes:
            self.active.add(job.id)
            if job.is_elastic:
                self.elastic.add(job.id)
            self._count_licenses(job, 1)
        if job.state is JobState.PENDING:
            for clause in job.dependencies:
                self._index_dependency(job, clause)
        if job.state.is_final:
            self.ended[job.id] = job.end_time
        if job.array_task_id is not None:
            self.tasks[job.array_job_id, job.array_task_id] = job.id

    def _index_dependency(self, job: Job, clause: Dependency) -> None:
        if clause.kind is DependencyKind.SINGLETON:
            self.singletons.add(job.id)
        else:
            self.dependents.setdefault(clause.job_id, set()).add(job.id)

    def unindex_job(self, job: Job) -> None:
        """Takes it out again, before a change or before it is forgotten."""
        self.accounts.count(job, -1)
        self.queue.discard(job.id)
        if job.id in self.active:
            self.active.discard(job.id)
            self.elastic.discard(job.id)
            self._count_licenses(job, -1)
        self.ended.pop(job.id, None)
        self.singletons.discard(job.id)
        for clause in job.dependencies:
            waiting = self.dependents.get(clause.job_id)
            if waiting is not None:
                waiting.discard(job.id)
                if not waiting:
                    del self.dependents[clause.job_id]
        if job.array_task_id is not None:
            self.tasks.pop((job.array_job_id, job.array_task_id), None)

    def _count_licenses(self, job: Job, change: int) -> None:
        for license in job.request.licenses:
            used = self.licenses_used.get(license.name, 0) + change * license.count
            if used:
                self.licenses_used[license.name] = used
            else:
                self.licenses_used.pop(license.name, None)

    def change_accounts(self, changes: AccountChanges, now: float) -> None:
        active = [self.jobs[job_id] for job_id in self.active]
        self.accounts.change(changes, self.jobs.values(), active, now)
        if self.queue.by_account is self.accounts.tree.is_empty:
            # From now on it matters whose a job is: the classes are other ones.
            self.queue.by_account = not self.accounts.tree.is_empty
            self._queue_anew()

    def _queue_anew(self) -> None:
        for job_id in list(self.queue.places):
            self.queue.add(self.jobs[job_id])

    def count_blobs(self, job: Job, change: int) -> None:
        for name in (job.spec.script_hash, job.spec.environment_hash):
            if name:
                self.blob_uses[name] = self.blob_uses.get(name, 0) + change
                if not self.blob_uses[name]:
                    del self.blob_uses[name]

    def rebuild(self, jobs: Iterable[Job]) -> None:
        """Fills records and indexes from stored jobs; nodes and arrays are already there."""
        for job in jobs:
            self.jobs[job.id] = job
            self.count_blobs(job, 1)
            if job.is_component:
                self.join_components(job)
        self.queue.by_account = not self.accounts.tree.is_empty
        for job in sorted(self.jobs.values(), key=lambda j: j.end_time):
            self.index_job(job)
            if job.gives_way:
                self.giving_way.add(job.id)
        self.accounts.recount([self.jobs[job_id] for job_id in self.active])
