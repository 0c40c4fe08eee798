"""Facts. Each is journaled before any effect of it, and applied by `apply` without a decision left in it.

Times are Unix seconds. Protobuf namesakes are in protos/journal.proto.
"""

from __future__ import annotations

from msgspec import Struct, field

from minislurm.domain.accounts import AccountChanges
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.ids import JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import Dependency, EndCause, Job, Step
from minislurm.domain.node import NodeFacts
from minislurm.domain.preemption import PreemptionRecord
from minislurm.domain.reservation import Reservation
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState, NodeState, PartitionState, Reason


class ClusterConfigured(Struct, frozen=True):
    """The controller started with this configuration (JSON of configuration_file.to_json)."""

    time: float
    configuration: str


class JobSubmitted(Struct, frozen=True):
    """`components`: the others of a heterogeneous job, which `job` leads. All of it or nothing."""

    time: float
    job: Job
    request_id: str = ""
    components: tuple[Job, ...] = ()


class JobUpdated(Struct, frozen=True):
    """Held, released or changed: the record as it is afterwards."""

    time: float
    job: Job


class JobRequeued(Struct, frozen=True):
    """An ended job is pending again."""

    time: float
    job_id: JobId
    hold: bool = False


class JobEligible(Struct, frozen=True):
    """Nothing but the scheduler stands between the job and its start any more."""

    time: float
    job_id: JobId


class DependencySettled(Struct, frozen=True):
    """Some clauses were fulfilled, `remaining` are not yet; `never`: they cannot be any more."""

    time: float
    job_id: JobId
    remaining: tuple[Dependency, ...] = ()
    never: bool = False


class TaskDetached(Struct, frozen=True):
    """One task of an array leaves the common record for one of its own (the last one keeps the record)."""

    time: float
    array_job_id: JobId
    task_id: int
    job_id: JobId


class RunPlaced(Struct, frozen=True):
    time: float
    job_id: JobId
    run: RunNumber
    allocation: tuple[NodeAllocation, ...] = ()
    pending_reason: str = ""
    priority: int = 0
    #: For a GPU- or CPU-hour (order ``auction``).
    price: float = 0.0
    #: See `Job.limit_used_s`.
    limit_used_s: float = 0.0
    #: Nodes that it holds besides.
    spares: tuple[NodeAllocation, ...] = ()


class NodePrepared(Struct, frozen=True):
    time: float
    job_id: JobId
    run: RunNumber
    node: NodeName


class RunStarted(Struct, frozen=True):
    time: float
    job_id: JobId
    run: RunNumber


class RunEnding(Struct, frozen=True):
    """The run is being ended on its nodes. `end_time` 0: when the last node has let go."""

    time: float
    job_id: JobId
    run: RunNumber
    cause: EndCause
    state: JobState
    reason: Reason = Reason.NONE
    exit_code: int = 0
    exit_signal: int = 0
    cancelled_by: int | None = None
    hold: bool = False
    #: "": it does not come back.
    requeue_cause: str = ""
    #: Nodes that the next run must not use.
    avoid_nodes: tuple[NodeName, ...] = ()
    #: Nodes on which nothing is left already (the node said so), or that are lost.
    released_nodes: tuple[NodeName, ...] = ()
    end_time: float = 0.0
    #: The job that it gives way to; 0: none.
    preemptor: JobId = JobId(0)
    #: Why, and what was weighed.
    decision: PreemptionRecord | None = None
    #: What it holds is kept for its next run, which follows at once.
    replacing: bool = False
    #: Of the cause NODE_FAIL: which nodes it lost; and from which of them the next run stays away until then.
    lost_nodes: tuple[NodeName, ...] = ()
    stay_away: tuple[NodeName, ...] = ()
    stay_away_until: float = 0.0


class NodeReleased(Struct, frozen=True):
    """Nothing of the run is left on the node: what it held there is free, unless the job is `replacing` and
    the node not lost. Also of a spare that is lost."""

    time: float
    job_id: JobId
    run: RunNumber
    node: NodeName


class RunEnded(Struct, frozen=True):
    """All nodes have let go. The job is in its final state, or pending again."""

    time: float
    job_id: JobId
    run: RunNumber
    end_time: float = 0.0


class PendingEnded(Struct, frozen=True):
    """A job ended without (another) run: cancelled while it waited."""

    time: float
    job_id: JobId
    state: JobState
    reason: Reason = Reason.NONE
    cancelled_by: int | None = None


class JobSignalled(Struct, frozen=True):
    """`step_id` as in SignalRun (node.proto): None for all steps, BATCH_STEP for the script alone."""

    time: float
    job_id: JobId
    run: RunNumber
    signal: int
    step_id: StepId | None = None
    full: bool = False
    #: It is the --signal of the submission.
    before_end: bool = False


class StepCreated(Struct, frozen=True):
    time: float
    job_id: JobId
    run: RunNumber
    step: Step
    request_id: str = ""


class StepNodeEnded(Struct, frozen=True):
    time: float
    job_id: JobId
    run: RunNumber
    step_id: StepId
    nodes: tuple[NodeName, ...] = ()
    exit_code: int = 0
    exit_signal: int = 0


class KnownRun(Struct, frozen=True):
    job_id: JobId
    run: RunNumber
    #: Nothing is left of it but its record.
    clean: bool = False

    @property
    def key(self) -> str:
        return f"{self.job_id}.{self.run}"


class NodeRegistered(Struct, frozen=True):
    """`runs`: everything that the daemon still holds, whoever's it is."""

    time: float
    node: NodeName
    facts: NodeFacts
    runs: tuple[KnownRun, ...] = ()
    #: Whom it was told to ask when it loses the controller.
    witnesses: tuple[NodeName, ...] = ()


class StaleRunEnded(Struct, frozen=True):
    """A run that the node came back with, and that was no longer its own, is gone from it."""

    time: float
    node: NodeName
    #: "job.run"
    run: str


class NodeChanged(Struct, frozen=True):
    """The values after the change."""

    time: float
    node: NodeName
    state: NodeState
    responding: bool = False
    drained: bool = False
    reason: str = ""
    reason_time: float = 0.0
    reason_user_id: int = 0
    #: Nobody waits for it any more: what it ran may start elsewhere.
    given_up: bool = False
    #: By its own health checks, and not by anybody.
    drained_by_health: bool = False


class PartitionChanged(Struct, frozen=True):
    time: float
    name: str
    state: PartitionState


class PartitionUpdated(Struct, frozen=True):
    """All that is set over the configuration of the partition, after the change."""

    time: float
    name: str
    settings: dict[str, str] = field(default_factory=dict)


class JobsPurged(Struct, frozen=True):
    time: float
    job_ids: tuple[JobId, ...] = ()


class RequestHandled(Struct, frozen=True):
    """A changing request that made no job and no step; the same request id does nothing again."""

    time: float
    request_id: str
    job_id: JobId = JobId(0)


class RequestsForgotten(Struct, frozen=True):
    time: float
    request_ids: tuple[str, ...] = ()


class ReservationChanged(Struct, frozen=True):
    """Made, changed, begun, or moved to its next time: the record as it is afterwards."""

    time: float
    reservation: Reservation


class ReservationEnded(Struct, frozen=True):
    """Its time is over, or an operator deleted it: it is gone."""

    time: float
    name: str


class NodeWeightChanged(Struct, frozen=True):
    time: float
    node: NodeName
    weight: int


class AccountsChanged(Struct, frozen=True):
    """Records of the account tree as they are now, and those that are gone."""

    time: float
    changes: AccountChanges = AccountChanges()
    request_id: str = ""


class CheckpointReported(Struct, frozen=True):
    """A run can be restored from it. `answers`: it is the one that was asked for last. `excess`: paths of
    records that are beyond the newest that are kept."""

    time: float
    job_id: JobId
    run: RunNumber
    checkpoint: Checkpoint
    answers: bool = False
    excess: tuple[str, ...] = ()


class CheckpointRequested(Struct, frozen=True):
    """The run is asked to save. With a `deadline` it is ended when it has, or then: it gives way to
    `preemptor` and is requeued for the cause `comes_back` ("": it is not)."""

    time: float
    job_id: JobId
    run: RunNumber
    reason: str
    deadline: float = 0.0
    preemptor: JobId = JobId(0)
    comes_back: str = ""
    #: Why it is to give way, and what was weighed.
    decision: PreemptionRecord | None = None


class CheckpointWithdrawn(Struct, frozen=True):
    """Whoever the run should have given way to has gone, or found another way: it goes on."""

    time: float
    job_id: JobId
    run: RunNumber


class CheckpointListening(Struct, frozen=True):
    """Some process of the run wants to know when a checkpoint is wanted."""

    time: float
    job_id: JobId
    run: RunNumber


class CheckpointDropped(Struct, frozen=True):
    """A report of a run (`run`) that is no longer the job's, which has another one."""

    time: float
    job_id: JobId
    run: RunNumber


class ResizeBegun(Struct, frozen=True):
    """A run is about to get nodes (`joining`, held for it from now on) or to give some back; with
    `keeps_nodes` its next run is, which begins when this one has ended."""

    time: float
    job_id: JobId
    run: RunNumber
    #: "grow", "shrink", "node_fail", "update"
    kind: str
    joining: tuple[NodeAllocation, ...] = ()
    leaving: tuple[NodeName, ...] = ()
    keeps_nodes: bool = False
    #: The job that it gives nodes back for; 0: none.
    preemptor: JobId = JobId(0)


class NodesJoined(Struct, frozen=True):
    """All nodes that were to join a run are ready: they are its own."""

    time: float
    job_id: JobId
    run: RunNumber
    nodes: tuple[NodeName, ...] = ()


class NodesNotJoined(Struct, frozen=True):
    """These do not join a run, or its next one: not all of them got ready (`failed_nodes`: who did not), or
    somebody who waits can use them."""

    time: float
    job_id: JobId
    run: RunNumber
    nodes: tuple[NodeName, ...] = ()
    failed_nodes: tuple[NodeName, ...] = ()


class NodeLeft(Struct, frozen=True):
    """A run goes on without this node: it has given it back, or lost it."""

    time: float
    job_id: JobId
    run: RunNumber
    node: NodeName


Event = (
    ClusterConfigured
    | JobSubmitted
    | JobUpdated
    | JobRequeued
    | JobEligible
    | DependencySettled
    | TaskDetached
    | RunPlaced
    | NodePrepared
    | RunStarted
    | RunEnding
    | NodeReleased
    | RunEnded
    | PendingEnded
    | JobSignalled
    | StepCreated
    | StepNodeEnded
    | NodeRegistered
    | StaleRunEnded
    | NodeChanged
    | PartitionChanged
    | PartitionUpdated
    | JobsPurged
    | RequestHandled
    | RequestsForgotten
    | ReservationChanged
    | ReservationEnded
    | NodeWeightChanged
    | AccountsChanged
    | CheckpointReported
    | CheckpointRequested
    | CheckpointWithdrawn
    | CheckpointListening
    | CheckpointDropped
    | ResizeBegun
    | NodesJoined
    | NodesNotJoined
    | NodeLeft
)
