"""What the core is asked or told. One message is one transaction: it becomes events, or a refusal.

Requests name one target each; the service loops where a client names many, so that one unknown id does
not spoil the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from minislurm.domain.ids import JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import JobSpec
from minislurm.domain.node import NodeFacts
from minislurm.domain.states import PartitionState
from minislurm.domain.views import JobChanges, JobTarget, ReservationChanges, StepRequest
from minislurm.scheduling.model import Placement


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Operators (root, and the user the controller runs as) may do what only owners may."""

    user_id: int
    is_operator: bool = False


@dataclass(frozen=True, slots=True)
class Configure:
    """First message after a start: the configuration in force (JSON)."""

    configuration: str


@dataclass(frozen=True, slots=True)
class SubmitJob:
    spec: JobSpec
    caller: Caller
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class CancelJob:
    target: JobTarget
    caller: Caller
    #: `scancel -b` without a signal: the batch script is killed at once and the job fails.
    batch_only: bool = False


@dataclass(frozen=True, slots=True)
class SignalJob:
    target: JobTarget
    caller: Caller
    signal: int
    batch_only: bool = False
    full: bool = False


@dataclass(frozen=True, slots=True)
class HoldJob:
    target: JobTarget
    caller: Caller
    by_user: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseJob:
    target: JobTarget
    caller: Caller


@dataclass(frozen=True, slots=True)
class RequeueJob:
    target: JobTarget
    caller: Caller
    hold: bool = False


@dataclass(frozen=True, slots=True)
class UpdateJob:
    target: JobTarget
    caller: Caller
    changes: JobChanges


@dataclass(frozen=True, slots=True)
class UpdateNode:
    """`state`: DRAIN, UNDRAIN, RESUME, DOWN; None: only the reason."""

    node: NodeName
    caller: Caller
    state: str | None = None
    reason: str | None = None
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class CreateReservation:
    """A request id that made one is answered with the one that it made (no new event)."""

    changes: ReservationChanges
    caller: Caller
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class UpdateReservation:
    changes: ReservationChanges
    caller: Caller


@dataclass(frozen=True, slots=True)
class DeleteReservation:
    name: str
    caller: Caller


@dataclass(frozen=True, slots=True)
class UpdatePartition:
    name: str
    caller: Caller
    state: PartitionState


@dataclass(frozen=True, slots=True)
class CreateStep:
    request: StepRequest
    caller: Caller
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class EndAllocation:
    """The owner of an allocation without a script (srun, salloc) lets it go, or is gone (`lost`)."""

    job_id: JobId
    caller: Caller
    exit_code: int = 0
    exit_signal: int = 0
    lost: bool = False


@dataclass(frozen=True, slots=True)
class RememberRequest:
    """The changing request with this id has been carried out."""

    request_id: str


@dataclass(frozen=True, slots=True)
class RunReport:
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


@dataclass(frozen=True, slots=True)
class RegisterNode:
    node: NodeName
    facts: NodeFacts
    runs: tuple[RunReport, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSilent:
    """The stream broke, or nothing came for `node_suspect_s`; with `lost` for `node_timeout_s`."""

    node: NodeName
    lost: bool = False


@dataclass(frozen=True, slots=True)
class NodeAnswers:
    """It is heard from again without having registered anew."""

    node: NodeName


@dataclass(frozen=True, slots=True)
class NodeReport:
    """RunPrepared, RunStarted, BatchExited (clean: phase CLEAN after it), RunCleaned of node.proto."""

    node: NodeName
    report: RunReport
    clean: bool = False


@dataclass(frozen=True, slots=True)
class PrepareFailed:
    node: NodeName
    job_id: JobId
    run: RunNumber
    reason: str
    job_fault: bool = False


@dataclass(frozen=True, slots=True)
class StepEnded:
    node: NodeName
    job_id: JobId
    run: RunNumber
    step_id: StepId
    exit_code: int = 0
    exit_signal: int = 0


@dataclass(frozen=True, slots=True)
class PlacementProposed:
    """One placement of a finished plan, checked again against the state of this moment."""

    placement: Placement
    pending_reason: str = ""
    priority: int = 1


@dataclass(frozen=True, slots=True)
class TimeLimitReached:
    job_id: JobId
    run: RunNumber


@dataclass(frozen=True, slots=True)
class SignalDue:
    """--signal=SIG@S: S seconds before the limit."""

    job_id: JobId
    run: RunNumber


@dataclass(frozen=True, slots=True)
class PrepareTimeout:
    job_id: JobId
    run: RunNumber


@dataclass(frozen=True, slots=True)
class EligibilityDue:
    """A begin time, a requeue delay or the delay of an `after` dependency is over."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class SwitchWaitOver:
    """A job has waited for few leaf domains (``--switches``) as long as it wanted."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class ReservationDue:
    """A reservation's start or end has come."""

    name: str


@dataclass(frozen=True, slots=True)
class LastStartPassed:
    """A waiting job can no longer end by its deadline, or has waited as long as it wanted to."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class DeadlineReached:
    """A run is still there at its job's deadline."""

    job_id: JobId
    run: RunNumber


@dataclass(frozen=True, slots=True)
class PurgeDue:
    """Forget jobs that ended long enough ago, and old request ids."""


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
    | NodeAnswers
    | NodeReport
    | PrepareFailed
    | StepEnded
    | PlacementProposed
    | TimeLimitReached
    | SignalDue
    | PrepareTimeout
    | EligibilityDue
    | SwitchWaitOver
    | ReservationDue
    | LastStartPassed
    | DeadlineReached
    | CreateReservation
    | UpdateReservation
    | DeleteReservation
    | PurgeDue
)
Timer = (
    TimeLimitReached
    | SignalDue
    | PrepareTimeout
    | EligibilityDue
    | SwitchWaitOver
    | ReservationDue
    | LastStartPassed
    | DeadlineReached
    | PurgeDue
)
