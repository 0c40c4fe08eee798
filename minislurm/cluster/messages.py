"""What the core is asked or told. One message is one transaction: it becomes events, or a refusal.

Requests name one target each; the service loops where a client names many, so that one unknown id does
not spoil the others.
"""

from __future__ import annotations

from msgspec import Struct, field

from minislurm.domain.accounts import AccountChanges
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.ids import JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import JobSpec
from minislurm.domain.node import NodeFacts
from minislurm.domain.states import PartitionState
from minislurm.domain.views import JobChanges, JobTarget, ReservationChanges, StepRequest
from minislurm.scheduling.model import Placement, Preemption, Resize


class Caller(Struct, frozen=True):
    """Who asks. Operators (root, and the user the controller runs as) may do what only owners may."""

    user_id: int
    is_operator: bool = False


class Configure(Struct, frozen=True):
    """First message after a start: the configuration in force (JSON)."""

    configuration: str


class SubmitJob(Struct, frozen=True):
    """`components`: the others of a heterogeneous job, which the one of `spec` leads."""

    spec: JobSpec
    caller: Caller
    request_id: str = ""
    components: tuple[JobSpec, ...] = ()


class CancelJob(Struct, frozen=True):
    target: JobTarget
    caller: Caller
    #: `scancel -b` without a signal: the batch script is killed at once and the job fails.
    batch_only: bool = False


class SignalJob(Struct, frozen=True):
    target: JobTarget
    caller: Caller
    signal: int
    batch_only: bool = False
    full: bool = False


class HoldJob(Struct, frozen=True):
    target: JobTarget
    caller: Caller
    by_user: bool = False


class ReleaseJob(Struct, frozen=True):
    target: JobTarget
    caller: Caller


class RequeueJob(Struct, frozen=True):
    target: JobTarget
    caller: Caller
    hold: bool = False


class UpdateJob(Struct, frozen=True):
    target: JobTarget
    caller: Caller
    changes: JobChanges


class UpdateNode(Struct, frozen=True):
    """`state`: DRAIN, UNDRAIN, RESUME, DOWN; None: only the reason."""

    node: NodeName
    caller: Caller
    state: str | None = None
    reason: str | None = None
    weight: int | None = None


class CreateReservation(Struct, frozen=True):
    """A request id that made one is answered with the one that it made (no new event)."""

    changes: ReservationChanges
    caller: Caller
    request_id: str = ""


class UpdateReservation(Struct, frozen=True):
    changes: ReservationChanges
    caller: Caller


class DeleteReservation(Struct, frozen=True):
    name: str
    caller: Caller


class UpdatePartition(Struct, frozen=True):
    name: str
    caller: Caller
    #: None: unchanged.
    state: PartitionState | None = None
    #: `domain/partition_settings.py`; those set before stay set.
    settings: dict[str, str] = field(default_factory=dict)


class CreateStep(Struct, frozen=True):
    request: StepRequest
    caller: Caller
    request_id: str = ""


class EndAllocation(Struct, frozen=True):
    """The owner of an allocation without a script (srun, salloc) lets it go, or is gone (`lost`)."""

    job_id: JobId
    caller: Caller
    exit_code: int = 0
    exit_signal: int = 0
    lost: bool = False


class RememberRequest(Struct, frozen=True):
    """The changing request with this id has been carried out."""

    request_id: str


class CheckpointMade(Struct, frozen=True):
    """What a node says of a checkpoint of one of its runs; `answers`: the request (its time) that it fulfils,
    0: none."""

    job_id: JobId
    run: RunNumber
    checkpoint: Checkpoint
    answers: float = 0.0


class CheckpointFailed(Struct, frozen=True):
    """The run's --checkpoint-command, its only way to save, has failed to do what this `request` asked
    for."""

    job_id: JobId
    run: RunNumber
    request: float


class CheckpointListener(Struct, frozen=True):
    """A process of the run wants to know when a checkpoint is wanted."""

    job_id: JobId
    run: RunNumber


class RequestCheckpoint(Struct, frozen=True):
    target: JobTarget
    caller: Caller


class CheckpointDue(Struct, frozen=True):
    """The last checkpoint of a run is as old as --checkpoint-interval."""

    job_id: JobId
    run: RunNumber


class CheckpointDeadline(Struct, frozen=True):
    """A run that gives way has had its time to save."""

    job_id: JobId
    run: RunNumber


class RunReport(Struct, frozen=True):
    """What a node says of one run, at registration or as it happens.

    `phase`: PREPARED, RUNNING, EXITED, CLEAN.
    """

    job_id: JobId
    run: RunNumber
    phase: str
    exit_code: int = 0
    exit_signal: int = 0
    start_time: float = 0.0
    end_time: float = 0.0
    launch_failed: bool = False
    out_of_memory: bool = False
    running_steps: tuple[StepId, ...] = ()
    #: The node ended it, since it was cut off from the controller for too long.
    node_lost: bool = False
    #: At registration: reported, and perhaps not yet known.
    checkpoints: tuple[CheckpointMade, ...] = ()
    listens: bool = False


class RegisterNode(Struct, frozen=True):
    node: NodeName
    facts: NodeFacts
    runs: tuple[RunReport, ...] = ()


class NodeSilent(Struct, frozen=True):
    """The stream broke, or nothing came for `node_suspect_s`; with `lost` for `node_timeout_s`."""

    node: NodeName
    lost: bool = False


class NodeGivenUp(Struct, frozen=True):
    """A lost node has had its time to end its runs (`contacts.py` says when)."""

    node: NodeName


class NodeHealth(Struct, frozen=True):
    """What the node's health checks say; "": all is well."""

    node: NodeName
    problem: str


class NodeAnswers(Struct, frozen=True):
    """It is heard from again without having registered anew."""

    node: NodeName


class NodeReport(Struct, frozen=True):
    """RunPrepared, RunStarted, BatchExited (clean: phase CLEAN after it), RunCleaned of node.proto."""

    node: NodeName
    report: RunReport
    clean: bool = False


class PrepareFailed(Struct, frozen=True):
    node: NodeName
    job_id: JobId
    run: RunNumber
    reason: str
    job_fault: bool = False


class StepEnded(Struct, frozen=True):
    node: NodeName
    job_id: JobId
    run: RunNumber
    step_id: StepId
    exit_code: int = 0
    exit_signal: int = 0


class PlacementProposed(Struct, frozen=True):
    """One placement of a finished plan, checked again against the state of this moment."""

    placement: Placement
    pending_reason: str = ""
    priority: int = 1


class PreemptionProposed(Struct, frozen=True):
    """One preemption of a finished plan, checked again against the state of this moment."""

    preemption: Preemption


class ResizeProposed(Struct, frozen=True):
    """Resizes of a finished plan that belong together, checked again against the state of this moment."""

    resizes: tuple[Resize, ...]


class TimeLimitReached(Struct, frozen=True):
    job_id: JobId
    run: RunNumber


class SignalDue(Struct, frozen=True):
    """--signal=SIG@S: S seconds before the limit."""

    job_id: JobId
    run: RunNumber


class PrepareTimeout(Struct, frozen=True):
    job_id: JobId
    run: RunNumber


class EligibilityDue(Struct, frozen=True):
    """A begin time, a requeue delay or the delay of an `after` dependency is over."""

    job_id: JobId


class SwitchWaitOver(Struct, frozen=True):
    """A job has waited for few leaf domains (``--switches``) as long as it wanted."""

    job_id: JobId


class AvoidanceOver(Struct, frozen=True):
    """A job has stayed away from nodes that were lost under it for long enough."""

    job_id: JobId


class ReservationDue(Struct, frozen=True):
    """A reservation's start or end has come."""

    name: str


class LastStartPassed(Struct, frozen=True):
    """A waiting job can no longer end by its deadline, or has waited as long as it wanted to."""

    job_id: JobId


class DeadlineReached(Struct, frozen=True):
    """A run is still there at its job's deadline."""

    job_id: JobId
    run: RunNumber


class PurgeDue(Struct, frozen=True):
    """Forget jobs that ended long enough ago, and old request ids."""


class ChangeAccounts(Struct, frozen=True):
    """`version`: that of the tree that the changes were made from (`AccountsState.version`)."""

    changes: AccountChanges
    version: int
    caller: Caller
    request_id: str = ""


Message = (
    Configure
    | SubmitJob
    | CancelJob
    | SignalJob
    | HoldJob
    | ReleaseJob
    | RequeueJob
    | UpdateJob
    | UpdateNode
    | UpdatePartition
    | CreateStep
    | EndAllocation
    | RememberRequest
    | RegisterNode
    | NodeSilent
    | NodeGivenUp
    | NodeHealth
    | NodeAnswers
    | NodeReport
    | PrepareFailed
    | StepEnded
    | PlacementProposed
    | PreemptionProposed
    | ResizeProposed
    | TimeLimitReached
    | SignalDue
    | PrepareTimeout
    | EligibilityDue
    | SwitchWaitOver
    | AvoidanceOver
    | ReservationDue
    | LastStartPassed
    | DeadlineReached
    | CreateReservation
    | UpdateReservation
    | DeleteReservation
    | ChangeAccounts
    | PurgeDue
    | CheckpointMade
    | CheckpointFailed
    | CheckpointListener
    | RequestCheckpoint
    | CheckpointDue
    | CheckpointDeadline
)
Timer = (
    TimeLimitReached
    | SignalDue
    | PrepareTimeout
    | EligibilityDue
    | SwitchWaitOver
    | AvoidanceOver
    | ReservationDue
    | LastStartPassed
    | DeadlineReached
    | PurgeDue
    | CheckpointDue
    | CheckpointDeadline
)
