"""Facts. Each is journaled before any effect of it, and applied by `apply` without a decision left in it.

Times are Unix seconds. Protobuf namesakes are in protos/journal.proto.
"""

from __future__ import annotations

from dataclasses import dataclass

from minislurm.domain.accounts import AccountChanges
from minislurm.domain.ids import JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import Dependency, EndCause, Job, Step
from minislurm.domain.node import NodeFacts
from minislurm.domain.reservation import Reservation
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState, NodeState, PartitionState, Reason


@dataclass(frozen=True, slots=True)
class ClusterConfigured:
    """The controller started with this configuration (JSON of configuration_file.to_json)."""

    time: float
    configuration: str


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    time: float
    job: Job
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class JobUpdated:
    """Held, released or changed: the record as it is afterwards."""

    time: float
    job: Job


@dataclass(frozen=True, slots=True)
class JobRequeued:
    """An ended job is pending again."""

    time: float
    job_id: JobId
    hold: bool = False


@dataclass(frozen=True, slots=True)
class JobEligible:
    """Nothing but the scheduler stands between the job and its start any more."""

    time: float
    job_id: JobId


@dataclass(frozen=True, slots=True)
class DependencySettled:
    """Some clauses were fulfilled, `remaining` are not yet; `never`: they cannot be any more."""

    time: float
    job_id: JobId
    remaining: tuple[Dependency, ...] = ()
    never: bool = False


@dataclass(frozen=True, slots=True)
class TaskDetached:
    """One task of an array leaves the common record for one of its own (the last one keeps the record)."""

    time: float
    array_job_id: JobId
    task_id: int
    job_id: JobId


@dataclass(frozen=True, slots=True)
class RunPlaced:
    time: float
    job_id: JobId
    run: RunNumber
    allocation: tuple[NodeAllocation, ...] = ()
    pending_reason: str = ""
    priority: int = 0
    #: For a GPU- or CPU-hour (order ``auction``).
    price: float = 0.0


@dataclass(frozen=True, slots=True)
class NodePrepared:
    time: float
    job_id: JobId
    run: RunNumber
    node: NodeName


@dataclass(frozen=True, slots=True)
class RunStarted:
    time: float
    job_id: JobId
    run: RunNumber


@dataclass(frozen=True, slots=True)
class RunEnding:
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


@dataclass(frozen=True, slots=True)
class NodeReleased:
    """Nothing of the run is left on the node: what it held there is free."""

    time: float
    job_id: JobId
    run: RunNumber
    node: NodeName


@dataclass(frozen=True, slots=True)
class RunEnded:
    """All nodes have let go. The job is in its final state, or pending again."""

    time: float
    job_id: JobId
    run: RunNumber
    end_time: float = 0.0


@dataclass(frozen=True, slots=True)
class PendingEnded:
    """A job ended without (another) run: cancelled while it waited."""

    time: float
    job_id: JobId
    state: JobState
    reason: Reason = Reason.NONE
    cancelled_by: int | None = None


@dataclass(frozen=True, slots=True)
class JobSignalled:
    """`step_id` as in SignalRun (node.proto): None for all steps, BATCH_STEP for the script alone."""

    time: float
    job_id: JobId
    run: RunNumber
    signal: int
    step_id: StepId | None = None
    full: bool = False
    #: It is the --signal of the submission.
    before_end: bool = False


@dataclass(frozen=True, slots=True)
class StepCreated:
    time: float
    job_id: JobId
    run: RunNumber
    step: Step
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class StepNodeEnded:
    time: float
    job_id: JobId
    run: RunNumber
    step_id: StepId
    nodes: tuple[NodeName, ...] = ()
    exit_code: int = 0
    exit_signal: int = 0


@dataclass(frozen=True, slots=True)
class KnownRun:
    job_id: JobId
    run: RunNumber
    #: Nothing is left of it but its record.
    clean: bool = False

    @property
    def key(self) -> str:
        return f"{self.job_id}.{self.run}"


@dataclass(frozen=True, slots=True)
class NodeRegistered:
    """`runs`: everything that the daemon still holds, whoever's it is."""

    time: float
    node: NodeName
    facts: NodeFacts
    runs: tuple[KnownRun, ...] = ()


@dataclass(frozen=True, slots=True)
class StaleRunEnded:
    """A run that the node came back with, and that was no longer its own, is gone from it."""

    time: float
    node: NodeName
    #: "job.run"
    run: str


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """The values after the change."""

    time: float
    node: NodeName
    state: NodeState
    responding: bool = False
    drained: bool = False
    reason: str = ""
    reason_time: float = 0.0
    reason_user_id: int = 0


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    time: float
    name: str
    state: PartitionState


@dataclass(frozen=True, slots=True)
class JobsPurged:
    time: float
    job_ids: tuple[JobId, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestHandled:
    """A changing request that made no job and no step; the same request id does nothing again."""

    time: float
    request_id: str
    job_id: JobId = JobId(0)


@dataclass(frozen=True, slots=True)
class RequestsForgotten:
    time: float
    request_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReservationChanged:
    """Made, changed, begun, or moved to its next time: the record as it is afterwards."""

    time: float
    reservation: Reservation


@dataclass(frozen=True, slots=True)
class ReservationEnded:
    """Its time is over, or an operator deleted it: it is gone."""

    time: float
    name: str


@dataclass(frozen=True, slots=True)
class NodeWeightChanged:
    time: float
    node: NodeName
    weight: int


@dataclass(frozen=True, slots=True)
class AccountsChanged:
    """Records of the account tree as they are now, and those that are gone."""

    time: float
    changes: AccountChanges = AccountChanges()
    request_id: str = ""


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
    | JobsPurged
    | RequestHandled
    | RequestsForgotten
    | ReservationChanged
    | ReservationEnded
    | NodeWeightChanged
    | AccountsChanged
)
