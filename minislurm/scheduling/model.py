"""What a scheduling pass reads (`Snapshot`) and what it returns (`Plan`). Plain data, no behaviour.

The pass never sees the cluster's state: `cluster/snapshot.py` builds the snapshot, and the plan goes back
as one more message, to be checked again against the state of that moment.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from minislurm.domain.configuration import Partition, PreemptionSection, SchedulerSection
from minislurm.domain.ids import Bitmap, JobId, NodeName, RunNumber
from minislurm.domain.preemption import Alternative, PreemptionWish
from minislurm.domain.reservation import LicenseCount
from minislurm.domain.resources import NodeAllocation, ResourceRequest
from minislurm.domain.states import Reason
from minislurm.domain.topology import Topology

if TYPE_CHECKING:
    from minislurm.scheduling.accounts import AccountsSnapshot


class NodeAvailability(Struct, frozen=True):
    """One node at the time of the snapshot. Bit i of a bitmap is CPU or GPU i."""

    name: NodeName
    #: UP, responding, not drained.
    usable: bool
    #: Could be used again without a change of the configuration (down and drained nodes count).
    cpus: int
    memory_mib: int
    cpus_free: Bitmap
    memory_free_mib: int
    gpus_free: Bitmap
    gpus: Bitmap
    #: GPU indexes by type; "" is not a key.
    gpus_by_type: dict[str, Bitmap] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    weight: int = 1
    #: GPUs in shared use (not among the free ones): index, thousandths in use.
    gpu_shares: tuple[tuple[int, int], ...] = ()
    #: By GPU type: memory in MiB (0: not known), compute capability ("": not known).
    gpu_attributes: dict[str, tuple[int, str]] = field(default_factory=dict)
    #: The matrix of links between GPUs, a row for each; () where it is not known.
    gpu_links: tuple[str, ...] = ()
    #: Number of runs on it, and which placement was the last here, counted over all nodes.
    jobs: int = 0
    last_placed: int = 0


class ElasticRun(Struct, frozen=True):
    """How a run may change its number of nodes; its least and most are in the request."""

    #: Its own class, without jobs: what a further node must give, and to whom that is charged.
    jobs: RequestClass
    #: It is restarted for it; False: it goes on.
    restarts: bool = True
    #: Between these times it may grow, and from then on it may be asked to give nodes back.
    grow_from: float = 0.0
    grow_until: float = inf
    shrink_from: float = 0.0


class RunningJob(Struct, frozen=True):
    """A run that holds nodes, and when its limit ends it at the latest (infinity: no limit)."""

    job_id: JobId
    end_time: float
    allocation: tuple[NodeAllocation, ...]
    user_id: int = 0
    #: ``--exclusive=user``: nobody else's jobs may join it.
    exclusive_user: bool = False
    licenses: tuple[LicenseCount, ...] = ()
    run: RunNumber = RunNumber(0)
    start_time: float = 0.0
    partition: str = ""
    #: Of its partition.
    tier: int = 1
    #: What becomes of it if it gives way: "requeue", "cancel"; "off": it does not.
    preempt_mode: str = "off"
    #: Until then it is left alone (infinity: for ever).
    exempt_until: float = 0.0
    #: When it has had its time slice (infinity: it has none), and how long that is.
    slice_end: float = inf
    slice_s: float = 0.0
    #: Its work is saved up to then; before the run's start: nothing of this run is.
    saved_time: float = 0.0
    #: The job has reported checkpoints, in whichever run.
    reports: bool = False
    #: So long a checkpoint takes that it makes when asked; infinity: it cannot be asked, or not in its grace.
    save_s: float = inf
    #: From its next start until it does new work.
    restart_s: float = 0.0
    #: From one checkpoint to the next; 0: not known.
    checkpoint_interval_s: float = 0.0
    #: As of its start.
    priority: int = 0
    #: Whom it is charged to, and for what; "" and {} where that decides nothing.
    account: str = ""
    user_name: str = ""
    qos: str = ""
    partition_qos: str = ""
    tres: dict[str, int] = field(default_factory=dict)
    #: None: its number of nodes stays as it is (for now).
    elastic: ElasticRun | None = None
    #: What it is about to give back, though it goes on: not in `allocation`.
    leaving: tuple[NodeAllocation, ...] = ()
    #: Part of `allocation`: held idle for its next run, which is about to begin.
    joining: tuple[NodeAllocation, ...] = ()
    #: Since when it is about to let go of all its nodes; 0: it is not.
    ending_since: float = 0.0


class ReservedNodes(Struct, frozen=True):
    """A reservation. `windows`: its times from now on, (start, end), ascending; as many as are foreseen."""

    name: str
    windows: tuple[tuple[float, float], ...]
    nodes: tuple[NodeName, ...]
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    maintenance: bool = False
    #: Its jobs run on its nodes alone.
    binds_nodes: bool = True
    #: Its jobs run in its time alone.
    binds_time: bool = True
    #: Its jobs may run where another reservation holds nodes at the same time.
    overrides: bool = False


class QueuedJob(Struct, frozen=True):
    """A member of a request class: a job, or the undivided rest of an array.

    `tasks`: pending task ids of the array, ascending, empty for a plain job or a single task.
    `slots`: how many of them may start now under the array's limit (1 for a plain job).
    """

    job_id: JobId
    submit_time: float
    eligible_time: float
    tasks: Sequence[int] = ()
    slots: int = 1


class RequestClass(Struct, frozen=True):
    """Jobs that ask for the same thing of the same partition at the same standing: what holds for the
    first that cannot start holds for all. `jobs` are in submission order."""

    request: ResourceRequest
    partition: Partition
    time_limit_s: float  # 0: none
    #: Computed parts of the priority that do not depend on time: nice, job size, partition.
    nice: int = 0
    #: Set by an operator; replaces the computed priority.
    fixed_priority: int | None = None
    avoided_nodes: tuple[NodeName, ...] = ()
    jobs: Sequence[QueuedJob] = ()
    #: Whatever the maker of the snapshot knows the class by.
    key: Hashable = None
    #: Whose the jobs are; 0 and "" where that decides nothing (`cluster/queue.py`).
    account: str = ""
    user_id: int = 0
    user_name: str = ""
    qos: str = ""
    #: Set by an operator, added to the priority.
    site_factor: int = 0
    #: By the user's history (``sjf``); 0: not known, or the time limit decides.
    expected_s: float = 0.0
    #: What the jobs' earlier runs had, each of them (``mlfq``): GPU- or CPU-seconds, and time.
    attained_service_s: float = 0.0
    attained_time_s: float = 0.0
    #: For a GPU- or CPU-hour (``auction``).
    bid: float = 0.0
    #: So many of its jobs wait for what others have given way for, since then.
    claims: int = 0
    claim_time: float = 0.0
    #: Whom its jobs may preempt; None: as the cluster has it.
    preemption: PreemptionWish | None = None
    #: Of a heterogeneous job, whose class this is as that of its leader: the other components, each with one
    #: job of its own. All start in the same pass or none (`components.py`).
    parts: tuple[RequestClass, ...] = ()


class TypicalRequest(Struct, frozen=True):
    """What a job asks of one node, and how often. `milli`: thousandths of each GPU, 1000 for a whole one."""

    weight: float
    cpus: int
    gpus: int = 0
    milli: int = 1000
    #: "A|B", "" for any.
    gpu_type: str = ""


class Snapshot(Struct, frozen=True):
    now: float
    nodes: Sequence[NodeAvailability]
    running: Sequence[RunningJob]
    classes: Sequence[RequestClass]
    topology: Topology
    settings: SchedulerSection
    #: Greatest `priority_job_factor` of all partitions; 0: of those that have queued jobs.
    job_factor_max: int = 0
    reservations: tuple[ReservedNodes, ...] = ()
    #: Free licenses by name.
    licenses: Mapping[str, int] = field(default_factory=dict)
    #: None: no account was ever added.
    accounts: AccountsSnapshot | None = None
    #: What the placement strategy "fgd" expects to come; (): what runs and is queued.
    typical: tuple[TypicalRequest, ...] = ()
    preemption: PreemptionSection = PreemptionSection()
    #: By QOS: those that it may preempt.
    qos_preempts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Asked(NamedTuple):
    """What a job asked for when the pass looked at it: it may have been changed since."""

    request: ResourceRequest
    partition: str
    time_limit_s: float


class Placement(Struct, frozen=True):
    """Start this job (or this task of an array) here. The first node is the batch host."""

    job_id: JobId
    task_id: int | None
    allocation: tuple[NodeAllocation, ...]
    #: What it pays for a GPU- or CPU-hour (``auction``).
    price: float = 0.0
    #: For what it was made; None: not said.
    asked: Asked | None = None
    #: Of a heterogeneous job: where the other components start, with this one or not at all.
    parts: tuple[Placement, ...] = ()
    priority: int = 0


class Preemption(Struct, frozen=True):
    """These runs give way to this job, which then starts on `nodes`. All of them are needed for it."""

    job_id: JobId
    victims: tuple[tuple[JobId, RunNumber], ...]
    nodes: tuple[NodeName, ...]
    #: What is lost: GPU-seconds (CPU-seconds, of runs without GPUs).
    cost: float = 0.0
    #: Of each victim by itself.
    costs: tuple[float, ...] = ()
    #: Other sets that would have done, or too many; the best first.
    alternatives: tuple[Alternative, ...] = ()
    #: The job's, in this pass.
    priority: int = 0
    #: What it was going to take, as accounts count it.
    tres: dict[str, int] = field(default_factory=dict)
    #: It was decided after so many placements of the plan, and is to happen after these.
    after: int = 0


class Resize(Struct, frozen=True):
    """An elastic run gets these parts of further nodes, or gives these nodes back."""

    job_id: JobId
    run: RunNumber
    joining: tuple[NodeAllocation, ...] = ()
    leaving: tuple[NodeName, ...] = ()
    #: For whom it gives them back.
    preemptor: JobId = JobId(0)


class Wait(Struct, frozen=True):
    """Why a job does not start now. `rejected`: number of nodes by first failing filter
    ("down", "drained or not responding", "cpus busy", "features" …), kept for explain."""

    reason: Reason
    rejected: dict[str, int] = field(default_factory=dict)
    #: Expected start, where a reservation was made; 0: not known.
    start_estimate: float = 0.0
    planned_nodes: tuple[NodeName, ...] = ()
    #: Which limit it is, and how much of it is used, in words; "" for none.
    detail: str = ""


#: The same objects throughout a pass, which knows them again by that.
RESOURCES, PRIORITY = Wait(Reason.RESOURCES), Wait(Reason.PRIORITY)

#: What holds an array's rest whose tasks run up to its limit.
TASK_LIMIT = Wait(Reason.ARRAY_TASK_LIMIT)


class AgeRule(Struct, frozen=True):
    """What waiting is worth at the time of the pass."""

    now: float
    rate: float
    max_age_s: float


class PriorityLine(Struct, frozen=True, gc=False):
    """A class' priority as a function of age. One is made for every class in every pass, so the search for
    cycles, of which it is in none, leaves it out."""

    age: AgeRule
    base: float
    fixed: int | None = None
    #: In which it is kept, unless it is fixed: (lowest, highest).
    range: tuple[int | None, int | None] | None = None

    def at(self, eligible_time: float) -> int:
        """The priority as shown, at least 1."""
        return self.fixed if self.fixed is not None else max(1, self.unbounded_at(eligible_time))

    def unbounded_at(self, eligible_time: float) -> int:
        """Before it is raised to at least 1, so that nice keeps its order below that."""
        age, base, fixed, range_ = self.age, self.base, self.fixed, self.range
        if fixed is not None:
            return fixed
        waited_s = age.now - eligible_time
        if waited_s <= 0 or not age.rate:
            priority = 1 + int(base)
        else:
            priority = 1 + int(base + (waited_s if waited_s < age.max_age_s else age.max_age_s) * age.rate)
        return priority if range_ is None else _kept_in(range_, priority)


def _kept_in(range_: tuple[int | None, int | None], priority: int) -> int:
    lowest, highest = range_
    raised = priority if lowest is None else max(priority, lowest)
    return raised if highest is None else min(raised, highest)


class Standing(Struct, frozen=True, gc=False):
    """Why the jobs of a class wait, from the one at `first` on: the last of `why` is true of all behind it as
    well, so that ten thousand equal jobs have two between them. One is made for every class in every pass,
    so the search for cycles, of which it is in none, leaves it out."""

    jobs: RequestClass
    priority: PriorityLine
    first: int
    why: tuple[Wait, ...]

    @property
    def head(self) -> Wait:
        return self.why[0]

    def at(self, position: int) -> Wait:
        """Of the job so many behind the first that waits."""
        return self.why[min(position, len(self.why) - 1)]

    def wait_of(self, job_id: JobId) -> Wait:
        for position in range(len(self.why) - 1):
            if self.jobs.jobs[self.first + position].job_id == job_id:
                return self.why[position]
        return self.why[-1]


class Plan(Struct, frozen=True):
    placements: tuple[Placement, ...] = ()
    standings: tuple[Standing, ...] = ()
    #: Array rests that were passed over because of their limit, with their class' priority.
    limited: tuple[tuple[QueuedJob, PriorityLine], ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    #: From then on a run may give way that may not yet, and somebody waits for it; infinity: never.
    wake_time: float = inf
    #: Each of them whole or not at all.
    resizes: tuple[tuple[Resize, ...], ...] = ()
    #: Elastic runs that might grow by now and do not, and why, in words.
    stays: tuple[tuple[JobId, str], ...] = ()

    def in_order(self) -> Iterator[Placement | Preemption]:
        """As they were decided, so that what is asked again then is asked of the same."""
        left = list(reversed(self.preemptions))
        for number, placement in enumerate(self.placements):
            while left and left[-1].after <= number:
                yield left.pop()
            yield placement
        yield from reversed(left)

    @property
    def waits(self) -> dict[JobId, Wait]:
        """For every queued job that does not start (or, of an array, not wholly). Made anew at each use."""
        waits = {job.job_id: TASK_LIMIT for job, _ in self.limited}
        for standing in self.standings:
            for position, job in enumerate(standing.jobs.jobs[standing.first :]):
                waits[job.job_id] = standing.at(position) if job.slots > 0 else TASK_LIMIT
        return waits

    @property
    def priorities(self) -> dict[JobId, int]:
        """Of the jobs that wait. Made anew at each use."""
        priorities = {job.job_id: line.at(job.eligible_time) for job, line in self.limited}
        for standing in self.standings:
            for job in standing.jobs.jobs[standing.first :]:
                priorities[job.job_id] = standing.priority.at(job.eligible_time)
        return priorities
