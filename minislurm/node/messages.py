"""What the core of the node daemon hears (commands, events) and says (actions, reports).

Times are Unix seconds. A run is named by `RunKey`; `step_id` -1 is the batch script.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from minislurm.domain.arrays import ArrayShape
from minislurm.domain.ids import JobId, RunNumber, StepId
from minislurm.domain.job import EndCause, Job


class RunKey(NamedTuple):
    job_id: JobId
    run: RunNumber

    def __str__(self) -> str:
        return f"{self.job_id}.{self.run}"


class Phase(Enum):
    """Values are those of RunStatus.phase (node.proto), but for PREPARING, which is not reported."""

    PREPARING = "PREPARING"
    PREPARED = "PREPARED"
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    CLEAN = "CLEAN"


# --- commands of the controller ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare:
    key: RunKey
    job: Job
    start: bool = False
    kill_wait_s: float = 30.0
    restart_reason: str = ""
    topology_address: str = ""
    topology_pattern: str = ""
    controller_address: str = ""
    #: Of a task of an array; its specification comes without the ids.
    array: ArrayShape | None = None


@dataclass(frozen=True, slots=True)
class Start:
    key: RunKey


@dataclass(frozen=True, slots=True)
class End:
    key: RunKey
    cause: EndCause
    time: float
    kill_wait_s: float
    kill: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """`step_id` None: the tasks of all steps. `full`: the script, its process group and the steps."""

    key: RunKey
    signal: int
    step_id: StepId | None = None
    full: bool = False
    continue_first: bool = False


@dataclass(frozen=True, slots=True)
class Forget:
    key: RunKey


# --- events from the I/O around ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepared:
    key: RunKey


@dataclass(frozen=True, slots=True)
class NotPrepared:
    key: RunKey
    reason: str
    job_fault: bool = False


@dataclass(frozen=True, slots=True)
class StepStarted:
    key: RunKey
    step_id: StepId
    time: float


@dataclass(frozen=True, slots=True)
class Exit:
    exit_code: int = 0
    exit_signal: int = 0
    time: float = 0.0
    launch_failed: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StepExited:
    """Its tasks have ended. `clean`: and nothing that they forked is left."""

    key: RunKey
    step_id: StepId
    exit: Exit
    clean: bool = False


@dataclass(frozen=True, slots=True)
class StepClean:
    key: RunKey
    step_id: StepId


@dataclass(frozen=True, slots=True)
class RunFinished:
    """What FinishRun asked for is done."""

    key: RunKey


Command = Prepare | Start | End | Signal | Forget
Event = Prepared | NotPrepared | StepStarted | StepExited | StepClean | RunFinished


# --- actions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrepareRun:
    """Store what is needed, run the prolog; answer with Prepared or NotPrepared."""

    command: Prepare


@dataclass(frozen=True, slots=True)
class SaveRun:
    """The run's phase (RUNNING, CLEAN) goes to disk before anything after this action happens."""

    key: RunKey
    phase: Phase


@dataclass(frozen=True, slots=True)
class LaunchBatch:
    key: RunKey


@dataclass(frozen=True, slots=True)
class SignalStep:
    """`to`: "all" processes of the step, the script alone ("leader") or its process "group"."""

    key: RunKey
    step_id: StepId
    signal: int
    to: str = "all"
    continue_first: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True)
class EndStep:
    """CONT and TERM to all its processes, KILL after `wait_s`; or KILL at once."""

    key: RunKey
    step_id: StepId
    kill: bool
    wait_s: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class FinishRun:
    """No process is left: run the epilog, remove the control group; answer with RunFinished."""

    key: RunKey


@dataclass(frozen=True, slots=True)
class RemoveRun:
    """Its files may go."""

    key: RunKey


# --- reports to the controller ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunPrepared:
    key: RunKey


@dataclass(frozen=True, slots=True)
class PrepareFailed:
    key: RunKey
    reason: str
    job_fault: bool = False


@dataclass(frozen=True, slots=True)
class RunStarted:
    key: RunKey
    time: float


@dataclass(frozen=True, slots=True)
class BatchExited:
    key: RunKey
    exit: Exit
    clean: bool = False


@dataclass(frozen=True, slots=True)
class RunCleaned:
    key: RunKey
    time: float


@dataclass(frozen=True, slots=True)
class StepEnded:
    key: RunKey
    step_id: StepId
    exit: Exit


Report = RunPrepared | PrepareFailed | RunStarted | BatchExited | RunCleaned | StepEnded
Action = PrepareRun | SaveRun | LaunchBatch | SignalStep | EndStep | FinishRun | RemoveRun | Report
