"""What the outside must do once the events behind it are in the journal."""

from __future__ import annotations

from dataclasses import dataclass

from minislurm.cluster.messages import Timer
from minislurm.domain.ids import JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import EndCause


@dataclass(frozen=True, slots=True)
class PrepareRun:
    """Store script and environment, make the cgroup, bind the GPUs; with `start` go on and start it."""

    node: NodeName
    job_id: JobId
    run: RunNumber
    start: bool = False


@dataclass(frozen=True, slots=True)
class StartRun:
    node: NodeName
    job_id: JobId
    run: RunNumber


@dataclass(frozen=True, slots=True)
class EndRun:
    """CONT, TERM, and KILL after the kill wait, to everything of the run; `kill`: KILL at once."""

    node: NodeName
    job_id: JobId
    run: RunNumber
    cause: EndCause
    kill: bool = False


@dataclass(frozen=True, slots=True)
class SignalRun:
    node: NodeName
    job_id: JobId
    run: RunNumber
    signal: int
    step_id: StepId | None = None
    full: bool = False
    continue_first: bool = False


@dataclass(frozen=True, slots=True)
class ForgetRun:
    node: NodeName
    job_id: JobId
    run: RunNumber


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Send `message` back at `time`. A timer that has lost its point is refused then, not withdrawn."""

    time: float
    message: Timer


@dataclass(frozen=True, slots=True)
class Schedule:
    """Something a waiting job may wait for has changed: run a pass."""


@dataclass(frozen=True, slots=True)
class JobChanged:
    """Whoever watches this job should look."""

    job_id: JobId


NodeCommand = PrepareRun | StartRun | EndRun | SignalRun | ForgetRun
Effect = NodeCommand | SetTimer | Schedule | JobChanged
