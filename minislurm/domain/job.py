"""Jobs: what was asked (`JobSpec`, frozen), what became of it (`Job`, a record in the state)."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.domain.checkpoint import Checkpoint, CheckpointSignal
from minislurm.domain.ids import BATCH_STEP, JobId, NodeName, RunNumber, StepId
from minislurm.domain.preemption import PreemptionRecord, PreemptionWish
from minislurm.domain.resources import NodeAllocation, ResourceRequest, TresAmount
from minislurm.domain.states import JobState, Reason


class DependencyKind(Enum):
    AFTER = "after"
    AFTER_ANY = "afterany"
    AFTER_OK = "afterok"
    AFTER_NOT_OK = "afternotok"
    AFTER_CORR = "aftercorr"
    SINGLETON = "singleton"


class Dependency(Struct, frozen=True):
    """One clause. `job_id` 0: singleton; `task_id` None: the whole array; `delay_s`: ``after:ID+minutes``."""

    kind: DependencyKind
    job_id: JobId = JobId(0)
    task_id: int | None = None
    delay_s: float = 0.0


class SignalBeforeEnd(Struct, frozen=True):
    """``--signal=[B:]SIG[@S]``: sent `seconds_before` the time limit."""

    signal: int
    seconds_before: float = 60.0
    #: To the batch shell alone; otherwise to the tasks of all steps and never to the shell.
    batch_shell_only: bool = False


class JobSpec(Struct, frozen=True):
    """A submission, immutable, shared by all tasks of an array and all runs.

    Options that change what a script sees in its environment are kept as given: None means not given.
    `request` is the scheduler's reading of the same options.
    """

    name: str
    user_id: int
    group_id: int
    user_name: str
    group_name: str
    partition: str
    work_dir: str
    request: ResourceRequest
    account: str = ""
    qos: str = ""

    #: Batch jobs have a script, stored apart under its SHA-256 (hex). Allocations (srun, salloc) have none.
    is_batch: bool = False
    script_hash: str = ""
    script_arguments: tuple[str, ...] = ()
    #: The submitter's environment for the script, stored apart under its SHA-256; "" for none.
    environment_hash: str = ""
    #: What `scontrol show job` prints as Command; "" for --wrap and stdin.
    command: str = ""
    #: Output patterns as given, "" for the default (slurm-%j.out, slurm-%A_%a.out).
    std_in: str = ""
    std_out: str = ""
    std_err: str = ""
    #: None: truncate on the first run and on a user's requeue, append otherwise (slurm-contract.md, 7).
    open_mode_append: bool | None = None
    #: File mode of output files that the run creates.
    output_mode: int = 0o600
    umask: int = 0o022
    submit_host: str = ""
    submit_pid: int = 0

    # As given on the command line; conditional SLURM_* variables depend on None or not.
    nodes_given: bool = False
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    cpus_per_gpu: int | None = None
    memory_per_node_mib: int | None = None
    memory_per_cpu_mib: int | None = None
    memory_per_gpu_mib: int | None = None
    gpus: str = ""
    gpus_per_node: str = ""
    gpus_per_task: str = ""
    gres: str = ""
    #: "" for none, "node" or "user" as given to --exclusive.
    exclusive: str = ""
    constraint: str = ""
    required_nodes: str = ""
    excluded_nodes: str = ""

    #: None: the partition's default.
    time_limit_s: float | None = None
    #: 0: at once.
    begin_time: float = 0.0
    dependencies: tuple[Dependency, ...] = ()
    #: Clauses joined by ``?``: any one is enough.
    dependency_any: bool = False
    #: None: the cluster's setting (off).
    kill_on_invalid_dependency: bool | None = None
    #: Task ids of a job array, ascending; empty for a plain job.
    array_tasks: tuple[int, ...] = ()
    #: ``%m``: so many tasks at a time; 0 for no limit.
    array_limit: int = 0
    signal: SignalBeforeEnd | None = None
    #: None: the cluster's default.
    requeue: bool | None = None
    hold: bool = False
    nice: int = 0
    priority: int | None = None
    comment: str = ""
    #: A label for accounting (``--wckey``).
    wckey: str = ""
    #: As given to --reservation and --licenses.
    reservation: str = ""
    licenses: str = ""
    #: It must have ended by then (``--deadline``); 0: none.
    deadline: float = 0.0
    #: It starts within so long after it became eligible, or not at all (``--max-wait``); 0: no such limit.
    max_wait_s: float = 0.0
    #: Offered for a GPU-hour (a CPU-hour, of a job without GPUs) where the partition's order is ``auction``.
    bid: float = 0.0
    #: Of the groups that partitions ask for (AllowGroups), those of the user, as of the submission.
    groups: tuple[str, ...] = ()
    #: By cause (comebacks.py): it is requeued so often, then held. A cause that is not there: the cluster's
    #: limit.
    max_requeues: dict[str, int] = field(default_factory=dict)
    #: What becomes of it when a node is lost, or its script fails; "": requeued if it may be, and ended.
    on_node_fail: str = ""
    on_task_fail: str = ""
    #: At its time limit it is requeued instead of ended.
    requeue_on_timeout: bool = False
    #: So many nodes are held besides, to take the place of lost ones. `request` counts them.
    spare_nodes: int = 0
    #: As given to --checkpoint-dir, symbols (%j …) not yet replaced; "": none.
    checkpoint_dir: str = ""
    #: A checkpoint is asked for when the last one is so old; 0: never for that.
    checkpoint_interval_s: float = 0.0
    checkpoint_signal: CheckpointSignal | None = None
    #: So many of the newest stay, older ones are deleted; 0: none ever is.
    checkpoint_keep: int = 0
    #: From its start until it does new work; None: not said.
    checkpoint_restart_s: float | None = None
    #: Makes a checkpoint (a line for /bin/sh); "": none.
    checkpoint_command: str = ""
    #: Whom the job may preempt; None: as the cluster has it.
    preemption: PreemptionWish | None = None
    #: How its runs change their number of nodes: "restart" (the next run has the new one) or "in-place"; "":
    #: they do not.
    elastic: str = ""
    #: Sent to the batch script whenever the nodes of its run have changed in place; 0: none.
    elastic_signal: int = 0

    @property
    def is_array(self) -> bool:
        return bool(self.array_tasks)


class EndCause(Enum):
    """Why a run is being ended. Decides the final state, and what is written into the job's output."""

    EXIT = "exit"  # the batch script ended, or the allocation's owner let it go
    CANCEL = "cancel"
    TIME_LIMIT = "time_limit"
    REQUEUE = "requeue"
    NODE_FAIL = "node_fail"
    LAUNCH_FAILURE = "launch_failure"  # PREPARE failed somewhere: back to PENDING without that node
    BATCH_KILLED = "batch_killed"  # scancel -b without a signal
    DEADLINE = "deadline"
    PREEMPT = "preempt"
    RESIZE = "resize"  # an elastic job's next run has more nodes, or fewer


class Step(Struct):
    """A step of a run. Ended steps leave the record when the run ends."""

    id: StepId
    name: str = ""
    nodes: tuple[NodeName, ...] = ()
    tasks: int = 1
    tasks_per_node: tuple[int, ...] = ()
    start_time: float = 0.0
    end_time: float = 0.0
    state: JobState = JobState.RUNNING
    exit_code: int = 0
    exit_signal: int = 0
    #: Nodes that have not yet reported the step's end.
    open_nodes: tuple[NodeName, ...] = ()
    time_limit_s: float | None = None

    @property
    def is_batch(self) -> bool:
        return self.id == BATCH_STEP


class Job(Struct):
    """One job or one task of an array. An array's tasks that never differed share the record of the array:
    then `pending_tasks` lists them, `array_task_id` is None, and `id` is the array's id."""

    id: JobId
    spec: JobSpec
    submit_time: float = 0.0
    state: JobState = JobState.PENDING
    #: Number of the current run, or of the last one; 0 before the first.
    run: RunNumber = RunNumber(0)
    array_job_id: JobId = JobId(0)
    array_task_id: int | None = None
    #: Ascending. Empty unless this is the record of an array's undivided rest.
    pending_tasks: list[int] = field(default_factory=list)

    # Current values of what `scontrol update` may change.
    name: str = ""
    partition: str = ""
    time_limit_s: float = 0.0  # 0: none
    nice: int = 0
    comment: str = ""
    array_limit: int = 0
    begin_time: float = 0.0
    #: Set by `scontrol update Priority=`; None: computed.
    priority: int | None = None
    #: "" not held, "user" or "admin".
    held: str = ""
    dependencies: tuple[Dependency, ...] = ()
    dependency_any: bool = False
    requeue: bool = True
    #: Replaces the specification's request after an update; None: as submitted.
    changed_request: ResourceRequest | None = None
    #: Nodes on which a launch of this job failed, or that were lost under it.
    avoided_nodes: tuple[NodeName, ...] = ()
    #: It has waited for few leaf domains (``--switches``) as long as it wanted.
    switches_waived: bool = False

    #: Why it waits (set with `held`, after a failed launch …) or how it ended; NONE: see the scheduler.
    reason: Reason = Reason.NONE
    eligible_time: float = 0.0  # 0: not yet
    start_time: float = 0.0  # 0: not yet
    end_time: float = 0.0  # 0: not yet
    allocation: tuple[NodeAllocation, ...] = ()
    #: Nodes that have answered PREPARE in this run.
    prepared_nodes: tuple[NodeName, ...] = ()
    #: While COMPLETING: nodes that have not yet said that nothing of the run is left on them.
    open_nodes: tuple[NodeName, ...] = ()
    #: While COMPLETING and after: why, and the final state.
    end_cause: EndCause | None = None
    end_state: JobState | None = None
    #: Who cancelled it; None: nobody.
    cancelled_by: int | None = None
    #: While COMPLETING: why it comes back as PENDING ("user", "node_fail", …), "": it does not.
    requeue_cause: str = ""
    requeue_held: bool = False
    #: What it waited for last before its current or last run.
    pending_reason: str = "None"
    #: Its priority when it was placed.
    start_priority: int = 0
    exit_code: int = 0
    exit_signal: int = 0
    #: Highest exit of its steps.
    derived_exit_code: int = 0
    derived_exit_signal: int = 0
    #: Requeues so far, by cause ("user", "node_fail", "launch_failure", "preempt" …).
    requeues: dict[str, int] = field(default_factory=dict)
    #: Cause of the last requeue, for MINISLURM_RESTART_REASON; "" on the first run.
    restart_reason: str = ""
    #: The --signal of this run has been sent.
    signal_sent: bool = False
    next_step_id: StepId = StepId(0)
    steps: dict[StepId, Step] = field(default_factory=dict)
    suspended_time_s: float = 0.0
    #: Current value of the specification's, which `scontrol update` may change; 0: none.
    deadline: float = 0.0
    #: What its run was charged with when it was placed (tres.py). Kept: a node's GPU types may change.
    allocated_tres: tuple[TresAmount, ...] = ()
    #: Set by an operator, added to the priority (``scontrol update SiteFactor=``).
    site_factor: int = 0
    #: What its ended runs had in all: GPU-seconds (CPU-seconds, where it has no GPUs), and time.
    attained_service_s: float = 0.0
    attained_time_s: float = 0.0
    #: Current value of the specification's.
    bid: float = 0.0
    #: What its run pays for a GPU-hour (or CPU-hour), fixed when it was placed.
    price: float = 0.0
    #: When its run was last asked to give way, and to which job; 0: never.
    preempt_time: float = 0.0
    preemptor: JobId = JobId(0)
    #: Of a component of a heterogeneous job: the id of the first one, its leader (which has its own), and its
    #: place among them. 0: no such component.
    het_job_id: JobId = JobId(0)
    het_job_offset: int = 0
    #: Nodes that its run holds besides; nothing of it is there.
    spares: tuple[NodeAllocation, ...] = ()
    #: While COMPLETING: it keeps its nodes, for a run that follows at once.
    replacing: bool = False
    #: Until then it stays away from nodes that were lost under it, even if they are back; 0: there are none.
    avoid_until: float = 0.0
    #: Of all its runs, the newest last, at most so many as are kept.
    checkpoints: tuple[Checkpoint, ...] = ()
    #: When the run was asked for one that it has not yet reported; 0: none is asked for.
    checkpoint_requested: float = 0.0
    #: Why: "user", "interval", "time_limit", "preempt", "time_slice".
    checkpoint_reason: str = ""
    #: Of a run that gives way when it has saved: when it must at the latest; 0: it was not asked to.
    checkpoint_deadline: float = 0.0
    #: Why such a run is requeued ("time_limit", "preempt", "time_slice"); "": it is not.
    comes_back: str = ""
    #: Some process of the run has said that it wants to know when a checkpoint is wanted.
    checkpoint_listens: bool = False
    #: Reports that were of another run.
    checkpoints_dropped: int = 0
    #: For so many starts others have given way or are giving way, since then (of an array: of its tasks).
    claims: int = 0
    claim_time: float = 0.0
    #: When its runs gave way, to whom and at what cost; the newest last.
    preemptions: tuple[PreemptionRecord, ...] = ()

    # Of an elastic job (cluster/README.md, "Elastic jobs").
    #: Held for it: its run gets them when they are ready, or its next run has them.
    joining: tuple[NodeAllocation, ...] = ()
    #: Nodes of the allocation that it gives back.
    leaving: tuple[NodeName, ...] = ()
    #: The run ends, and the next one starts at once, on the nodes of this one but for `leaving`, and on
    #: `joining`.
    keeps_nodes: bool = False
    #: What earlier runs, whose nodes this one has kept, have had of the time limit.
    limit_used_s: float = 0.0
    #: When its size was last changed, from how many nodes, and why ("grow", "shrink", "node_fail", "update").
    resize_time: float = 0.0
    resized_from: int = 0
    resize_kind: str = ""
    #: While COMPLETING: since when.
    ending_time: float = 0.0
    #: Until then what its run had is in `attained_service_s` already; 0: from its start on it is not.
    service_time: float = 0.0

    @property
    def is_elastic(self) -> bool:
        return bool(self.spec.elastic)

    @property
    def resizes_in_place(self) -> bool:
        return self.spec.elastic == "in-place"

    @property
    def is_resizing(self) -> bool:
        return bool(self.joining or self.leaving or self.keeps_nodes)

    @property
    def joins_in_place(self) -> bool:
        """Nodes are being prepared to join its run."""
        return bool(self.joining) and self.resizes_in_place

    @property
    def held_parts(self) -> tuple[NodeAllocation, ...]:
        """What is taken for it on nodes, while it holds nodes."""
        parts = self.allocation
        if self.state is JobState.COMPLETING and not self.replacing:
            parts = tuple([part for part in parts if part.node in self.open_nodes or self.keeps(part.node)])
        return (*parts, *self.joining, *self.spares)

    def keeps(self, node: NodeName) -> bool:
        """Is the node, which its ending run has, also the next one's?"""
        return self.keeps_nodes and node not in self.leaving

    @property
    def parts(self) -> tuple[NodeAllocation, ...]:
        """All that it holds: where it runs, and its spares."""
        return (*self.allocation, *self.spares) if self.spares else self.allocation

    @property
    def gives_way(self) -> bool:
        """It has been asked to save and will then be ended, and has not yet saved."""
        return self.checkpoint_requested > 0 and self.checkpoint_deadline > 0

    @property
    def can_be_asked(self) -> bool:
        """Is there a way to ask its run for a checkpoint?"""
        spec = self.spec
        asked = self.checkpoint_listens or spec.checkpoint_signal is not None or spec.checkpoint_command
        return self.state is JobState.RUNNING and bool(asked)

    @property
    def request(self) -> ResourceRequest:
        request = self.changed_request or self.spec.request
        return replace(request, switches=0, switches_wait_s=0.0) if self.switches_waived else request

    @property
    def asked_request(self) -> ResourceRequest:
        """With what it has given up waiting for."""
        return self.changed_request or self.spec.request

    @property
    def tasks(self) -> int:
        """Of its run, without what spare nodes could take."""
        request, spares = self.request, self.spec.spare_nodes
        return request.tasks // request.nodes_min * (request.nodes_min - spares) if spares else request.tasks

    @property
    def is_component(self) -> bool:
        """Of a heterogeneous job."""
        return self.het_job_id != 0

    @property
    def is_leader(self) -> bool:
        """The first component of a heterogeneous job: what concerns the whole is said of it."""
        return self.het_job_id == self.id

    @property
    def is_batch(self) -> bool:
        """A batch job, or any component of one: nobody at a terminal holds it."""
        return self.spec.is_batch or self.het_job_id != 0

    @property
    def starts_by_itself(self) -> bool:
        """A single node needs no second phase: that all have answered is then the same as that it has."""
        return len(self.allocation) == 1 and self.spec.is_batch and not self.het_job_id

    @property
    def is_array_rest(self) -> bool:
        return bool(self.pending_tasks)

    @property
    def is_array_task(self) -> bool:
        return self.array_task_id is not None

    @property
    def restarts(self) -> int:
        """What SLURM_RESTART_COUNT says: every requeue but those of a launch that never began."""
        return sum(n for cause, n in self.requeues.items() if cause != "launch_failure")

    @property
    def batch_host(self) -> NodeName | None:
        return self.allocation[0].node if self.allocation else None

    @property
    def expected_end_time(self) -> float:
        """When the time limit ends it; infinity without one. Only while it holds nodes."""
        if not self.time_limit_s:
            return float("inf")
        return self.start_time + self.time_limit_s + self.suspended_time_s - self.limit_used_s
