"""What the controller answers queries with: records plus what only the scheduler knows."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from minislurm.domain.accounts import AccountTree
from minislurm.domain.errors import Refusal
from minislurm.domain.ids import JobId, NodeName, StepId
from minislurm.domain.job import Dependency, Job, JobSpec
from minislurm.domain.node import Node
from minislurm.domain.reservation import Reservation
from minislurm.domain.resources import GpuGroup, NodeAllocation


class JobView(Struct, frozen=True):
    """A job as squeue and scontrol show it."""

    job: Job
    #: The true reason at this moment (a pending job's from the last pass).
    reason: str = "None"
    priority: int = 0
    #: Expected start of a pending job; 0: not known.
    start_estimate: float = 0.0
    planned_nodes: tuple[NodeName, ...] = ()
    last_considered: float = 0.0
    #: For each dependency of the job, "unfulfilled" or "failed"; fulfilled ones have left the job.
    dependency_states: tuple[str, ...] = ()
    #: Effective standard streams, patterns filled in.
    std_in: str = ""
    std_out: str = ""
    std_err: str = ""
    node_reason: str = ""
    #: From then on its run may have to give way; 0: it need not.
    preemptable_time: float = 0.0
    #: Of a heterogeneous job: all its components, in their order.
    het_job_ids: tuple[JobId, ...] = ()


class NodeView(Struct, frozen=True):
    node: Node
    partitions: tuple[str, ...] = ()
    #: "IDLE", "MIXED", "ALLOCATED", "COMPLETING", "DOWN", "UNKNOWN" with "+DRAIN", "*" as Slurm writes them.
    state: str = "IDLE"
    topology_address: str = ""
    topology_pattern: str = ""
    #: Some run on it is COMPLETING.
    completing: bool = False


class PartitionView(Struct, frozen=True):
    name: str
    nodes: tuple[NodeName, ...] = ()
    default: bool = False
    state: str = "UP"
    max_time_s: float | None = None
    default_time_s: float | None = None
    max_nodes: int | None = None
    min_nodes: int = 1
    priority_tier: int = 1
    priority_job_factor: int = 1
    default_memory_per_cpu_mib: int | None = None
    total_cpus: int = 0
    total_memory_mib: int = 0
    total_gpus: int = 0
    #: ("a100", 8) for GPUs with a type; those without count only in total_gpus.
    gpus_by_type: dict[str, int] = field(default_factory=dict)
    #: Of its jobs as victims: "off", "requeue" or "cancel", and between SIGTERM and SIGKILL.
    preempt_mode: str = "off"
    preempt_grace_s: float = 0.0
    allow_accounts: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()
    deny_qos: tuple[str, ...] = ()
    allow_groups: tuple[str, ...] = ()
    qos: str = ""
    min_priority: int | None = None
    max_priority: int | None = None


class JobQuery(Struct, frozen=True):
    """Empty: all jobs. Ended ones only if `include_ended`."""

    job_ids: tuple[JobId, ...] = ()
    include_ended: bool = False
    #: Work out when pending jobs start, for all of them, if that is not known.
    forecast: bool = False


class Submission(Struct, frozen=True):
    """A request for a job: its specification and what is stored apart."""

    spec: JobSpec
    script: bytes = b""
    #: "NAME=value" entries, as bytes of the submitter's environment.
    environment: tuple[bytes, ...] = ()
    #: Only say when it would start; nothing is kept.
    test_only: bool = False
    #: The other components of a heterogeneous job, after `spec`, which alone has a script.
    components: tuple[JobSpec, ...] = ()


class TestResult(Struct, frozen=True):
    """`sbatch --test-only`."""

    job_id: JobId
    start_time: float
    cpus: int
    nodes: tuple[NodeName, ...]
    partition: str


class StepRequest(Struct, frozen=True):
    """srun asks for a step inside a job. None: as the job has it."""

    job_id: JobId
    name: str = ""
    nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    node_list: tuple[NodeName, ...] = ()
    excluded_nodes: tuple[NodeName, ...] = ()
    time_limit_s: float | None = None


class StepNode(Struct, frozen=True):
    """One node of a step: where its step service listens and which tasks (global ranks) run there."""

    node: NodeName
    address: str
    port: int
    tasks: tuple[int, ...]


class StepGrant(Struct, frozen=True):
    """The controller's answer: go to these nodes with this credential."""

    job_id: JobId
    step_id: StepId
    run: int
    nodes: tuple[StepNode, ...]
    credential: str
    #: The job, for the environment of the tasks.
    job: Job
    allocation: tuple[NodeAllocation, ...] = ()
    cpus_per_task: int | None = None


class JobTarget(Struct, frozen=True):
    """What a request is about: a job, tasks of an array (`tasks`; empty: all of it), or one step.

    `het_offset`: one component of the heterogeneous job that `job_id` leads.
    """

    job_id: JobId
    tasks: tuple[int, ...] = ()
    step_id: StepId | None = None
    het_offset: int | None = None


class Outcome(Struct, frozen=True):
    """What became of one target of a request; `refusal` None: done."""

    target: JobTarget
    refusal: Refusal | None = None


class JobChanges(Struct, frozen=True):
    """`scontrol update job`; None: unchanged."""

    name: str | None = None
    partition: str | None = None
    time_limit_s: float | None = None
    nice: int | None = None
    priority: int | None = None
    comment: str | None = None
    array_limit: int | None = None
    begin_time: float | None = None
    requeue: bool | None = None
    nodes_min: int | None = None
    nodes_max: int | None = None
    features: str | None = None
    required_nodes: str | None = None
    excluded_nodes: str | None = None
    clear_dependencies: bool | None = None
    dependencies: tuple[Dependency, ...] = ()
    dependency_any: bool | None = None
    cpus_per_task: int | None = None
    tasks: int | None = None
    memory_per_node_mib: int | None = None
    memory_per_cpu_mib: int | None = None
    reservation: str | None = None
    licenses: str | None = None
    #: 0: none.
    deadline: float | None = None
    site_factor: int | None = None
    bid: float | None = None
    account: str | None = None
    qos: str | None = None
    #: GPUs in one of these forms take the place of whatever the job asked for; a count of 0: none.
    gpus_per_node: GpuGroup | None = None
    gpus_total: GpuGroup | None = None
    gpus_per_task: GpuGroup | None = None
    #: 0: on as many leaf domains as it takes.
    switches: int | None = None
    #: 0: as long as the cluster allows.
    switches_wait_s: float | None = None
    #: "": none.
    topology_level: str | None = None
    topology_required: bool | None = None
    #: 0: none.
    segment: int | None = None
    cpus_per_node_min: int | None = None


class ListChange(Struct, frozen=True):
    """``Users=a,b`` ("="), ``Users+=a`` ("+"), ``Users-=a`` ("-")."""

    operator: str
    items: tuple[str, ...] = ()

    def applied_to(self, before: tuple[str, ...]) -> tuple[str, ...]:
        if self.operator == "+":
            return (*before, *(item for item in self.items if item not in before))
        if self.operator == "-":
            return tuple(item for item in before if item not in self.items)
        return tuple(dict.fromkeys(self.items))


class ReservationChanges(Struct, frozen=True):
    """`scontrol create|update reservation`; None: unchanged, or the default of a new one."""

    #: "" for a new one: named after its first user or account.
    name: str = ""
    start_time: float | None = None
    end_time: float | None = None
    duration_s: float | None = None
    users: ListChange | None = None
    accounts: ListChange | None = None
    #: Node names; "ALL" stands for all.
    nodes: ListChange | None = None
    node_count: int | None = None
    partition: str | None = None
    flags: ListChange | None = None


class ReservationView(Struct, frozen=True):
    reservation: Reservation
    active: bool = False
    #: Of all its nodes.
    cpus: int = 0


class LicenseView(Struct, frozen=True):
    name: str
    total: int = 0
    used: int = 0


class ControllerInfo(Struct, frozen=True):
    host: str
    cluster: str
    now: float
    start_time: float
    version: str
    events: int
    pid: int


class AccountsView(Struct, frozen=True):
    """The account tree, and the version that a change of it names."""

    tree: AccountTree
    version: int
    cluster: str = ""
    #: Left of the budget, by account, of those that have one.
    credits: dict[str, float] = field(default_factory=dict)


class ConfigurationView(Struct, frozen=True):
    """`scontrol show config`: Slurm's keys and values, then minislurm's own as "section.key"."""

    values: dict[str, str]
    boot_time: float
    next_job_id: JobId


class HeadAhead(Struct, frozen=True):
    """A job before the explained one for which nodes are kept from `start` on (0: not known). `is_cause`:
    without it the explained one would start now."""

    job_id: JobId
    start: float
    nodes: tuple[NodeName, ...] = ()
    is_cause: bool = False


class Proposal(Struct, frozen=True):
    """A change, in words and as a command, with which the job was seen to start then on a copy of the
    queue."""

    text: str
    command: str
    start: float
    starts_now: bool = False


class Explanation(Struct, frozen=True):
    """`minislurm why`. Times in seconds since the epoch, 0: not known."""

    job_id: JobId
    #: As squeue shows it: "7", "7_3".
    shown_id: str
    state: str
    now: float
    name: str = ""
    partition: str = ""
    partition_nodes: int = 0
    reason: str = "None"
    sentences: tuple[str, ...] = ()
    priority: int = 0
    #: Nodes of the partition by the first thing that keeps the job off them.
    rejected: dict[str, int] = field(default_factory=dict)
    #: Jobs that come first and want the same nodes, and the first of them.
    ahead: int = 0
    first_ahead: tuple[JobId, ...] = ()
    #: More of them, which wait for something else than nodes and hold nobody up.
    ahead_but_waiting: int = 0
    heads: tuple[HeadAhead, ...] = ()
    #: Of a job that has started, its start and its nodes.
    start_estimate: float = 0.0
    planned_nodes: tuple[NodeName, ...] = ()
    proposals: tuple[Proposal, ...] = ()


class StateExport(Struct):
    """What a controller has stored of its state, as of `now`: records that are true as of event
    `snapshot_seq`, by kind, and the events since. Read as a restarted controller reads its store."""

    path: str
    now: float = 0.0
    snapshot_seq: int = 0
    by_kind: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    since: list[bytes] = field(default_factory=list)

    def records(self, kind: str) -> Iterator[tuple[str, bytes]]:
        return iter(self.by_kind.get(kind, ()))

    def events(self, after: int) -> Iterator[tuple[int, bytes]]:
        numbered = enumerate(self.since, self.snapshot_seq + 1)
        return (item for item in numbered if item[0] > after)
