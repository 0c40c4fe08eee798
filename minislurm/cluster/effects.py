"""What the outside must do once the events behind it are in the journal."""

from __future__ import annotations

from msgspec import Struct

from minislurm.cluster.messages import Timer
from minislurm.domain.ids import JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import EndCause


class PrepareRun(Struct, frozen=True):
    """Store script and environment, make the cgroup, bind the GPUs; with `start` go on and start it."""

    node: NodeName
    job_id: JobId
    run: RunNumber
    start: bool = False


class StartRun(Struct, frozen=True):
    node: NodeName
    job_id: JobId
    run: RunNumber


class EndRun(Struct, frozen=True):
    """CONT, TERM, and KILL after the kill wait, to everything of the run; `kill`: KILL at once."""

    node: NodeName
    job_id: JobId
    run: RunNumber
    cause: EndCause
    kill: bool = False


class SignalRun(Struct, frozen=True):
    node: NodeName
    job_id: JobId
    run: RunNumber
    signal: int
    step_id: StepId | None = None
    full: bool = False
    continue_first: bool = False


class TellNodes(Struct, frozen=True):
    """The nodes of an elastic run are others than they were: those of the state when it is sent."""

    node: NodeName
    job_id: JobId
    run: RunNumber


class ForgetRun(Struct, frozen=True):
    node: NodeName
    job_id: JobId
    run: RunNumber


class AskCheckpoint(Struct, frozen=True):
    """Say to the run's processes that a checkpoint is wanted, as the record has it; or no more."""

    node: NodeName
    job_id: JobId
    run: RunNumber
    withdrawn: bool = False


class DeleteCheckpoint(Struct, frozen=True):
    node: NodeName
    job_id: JobId
    run: RunNumber
    path: str


class SetTimer(Struct, frozen=True):
    """Send `message` back at `time`. A timer that has lost its point is refused then, not withdrawn."""

    time: float
    message: Timer


class Schedule(Struct, frozen=True):
    """Something a waiting job may wait for has changed: run a pass."""


class JobChanged(Struct, frozen=True):
    """Whoever watches this job should look."""

    job_id: JobId


NodeCommand = (
    PrepareRun | StartRun | EndRun | SignalRun | TellNodes | ForgetRun | AskCheckpoint | DeleteCheckpoint
)
Effect = NodeCommand | SetTimer | Schedule | JobChanged
