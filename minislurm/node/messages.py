"""What the core of the node daemon hears (commands, events) and says (actions, reports).

Times are Unix seconds. A run is named by `RunKey`; `step_id` -1 is the batch script.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import NamedTuple

from msgspec import Struct

from minislurm.domain.arrays import ArrayShape
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.ids import JobId, RunNumber, StepId
from minislurm.domain.job import EndCause, Job
from minislurm.domain.resources import NodeAllocation


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


class Prepare(Struct, frozen=True):
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
    #: On the batch host of a heterogeneous job: all its components in order, itself the first.
    components: tuple[Job, ...] = ()
    #: What the run starts from: the newest checkpoint that is still there, whole. Found out on the batch
    #: host.
    resume: Checkpoint | None = None
    #: Of an elastic run that changes in place: where its nodes are listed; "": nowhere.
    nodelist_file: str = ""


class Start(Struct, frozen=True):
    key: RunKey


class End(Struct, frozen=True):
    key: RunKey
    cause: EndCause
    time: float
    kill_wait_s: float
    kill: bool = False


class Signal(Struct, frozen=True):
    """`step_id` None: the tasks of all steps. `full`: the script, its process group and the steps."""

    key: RunKey
    signal: int
    step_id: StepId | None = None
    full: bool = False
    continue_first: bool = False


class TellNodes(Struct, frozen=True):
    """The nodes of an elastic run are these now. `signal`: for the batch script; 0: none."""

    key: RunKey
    allocation: tuple[NodeAllocation, ...]
    signal: int = 0


class Forget(Struct, frozen=True):
    key: RunKey


class Ask(Struct, frozen=True):
    """A checkpoint is wanted; `request` (Unix seconds) tells one from another. `deadline`: the run is ended
    then at the latest; infinity: it goes on. `withdrawn`: no more."""

    key: RunKey
    request: float
    reason: str
    deadline: float = inf
    withdrawn: bool = False


class Delete(Struct, frozen=True):
    """A checkpoint that is older than the newest which are to be kept."""

    key: RunKey
    path: str


# --- events from the I/O around ---------------------------------------------------------------------------


class Prepared(Struct, frozen=True):
    key: RunKey
    resume: Checkpoint | None = None


class Made(Struct, frozen=True):
    """A process of the run has reported a checkpoint. `request`: the one that it knew of when it made it;
    None: it does not know of requests, any checkpoint made since is the answer."""

    key: RunKey
    checkpoint: Checkpoint
    request: float | None = None


class Listens(Struct, frozen=True):
    """A process of the run wants to know when a checkpoint is wanted."""

    key: RunKey


class NotPrepared(Struct, frozen=True):
    key: RunKey
    reason: str
    job_fault: bool = False


class StepStarted(Struct, frozen=True):
    key: RunKey
    step_id: StepId
    time: float


class Exit(Struct, frozen=True):
    exit_code: int = 0
    exit_signal: int = 0
    time: float = 0.0
    launch_failed: bool = False
    reason: str = ""
    #: The node's lease was over (isolation.py).
    node_lost: bool = False


class StepExited(Struct, frozen=True):
    """Its tasks have ended. `clean`: and nothing that they forked is left."""

    key: RunKey
    step_id: StepId
    exit: Exit
    clean: bool = False


class StepClean(Struct, frozen=True):
    key: RunKey
    step_id: StepId


class RunFinished(Struct, frozen=True):
    """What FinishRun asked for is done."""

    key: RunKey


class LeaseEnded(Struct, frozen=True):
    """The node is cut off from the controller: nothing here may go on."""

    kill_wait_s: float


Command = Prepare | Start | End | Signal | TellNodes | Forget | Ask | Delete
Event = (
    Prepared | NotPrepared | StepStarted | StepExited | StepClean | RunFinished | LeaseEnded | Made | Listens
)


# --- actions ----------------------------------------------------------------------------------------------


class PrepareRun(Struct, frozen=True):
    """Store what is needed, run the prolog; answer with Prepared or NotPrepared."""

    command: Prepare


class SaveRun(Struct, frozen=True):
    """The run's phase (RUNNING, CLEAN) goes to disk before anything after this action happens."""

    key: RunKey
    phase: Phase


class WriteNodes(Struct, frozen=True):
    """The file that lists the run's nodes is written anew."""

    key: RunKey


class LaunchBatch(Struct, frozen=True):
    key: RunKey


class SignalStep(Struct, frozen=True):
    """`to`: "all" processes of the step, those that "catch" the signal and are no shell ("catch_or_shell": or
    are one), the script alone ("leader") or its process "group"."""

    key: RunKey
    step_id: StepId
    signal: int
    to: str = "all"
    continue_first: bool = False
    message: str = ""


class EndStep(Struct, frozen=True):
    """CONT and TERM to all its processes, KILL after `wait_s`; or KILL at once."""

    key: RunKey
    step_id: StepId
    kill: bool
    wait_s: float
    message: str = ""


class TellAsked(Struct, frozen=True):
    """To disk, and to the run's processes that listen: what is wanted of them now; None: nothing any more."""

    key: RunKey
    asked: Ask | None


class RunCheckpointCommand(Struct, frozen=True):
    key: RunKey
    step_id: StepId


class DeleteFiles(Struct, frozen=True):
    """As the job's user, and nothing outside of the run's checkpoint folder."""

    key: RunKey
    path: str


class FinishRun(Struct, frozen=True):
    """No process is left: run the epilog, remove the control group; answer with RunFinished."""

    key: RunKey


class RemoveRun(Struct, frozen=True):
    """Its files may go."""

    key: RunKey


# --- reports to the controller ----------------------------------------------------------------------------


class RunPrepared(Struct, frozen=True):
    key: RunKey


class PrepareFailed(Struct, frozen=True):
    key: RunKey
    reason: str
    job_fault: bool = False


class RunStarted(Struct, frozen=True):
    key: RunKey
    time: float


class BatchExited(Struct, frozen=True):
    key: RunKey
    exit: Exit
    clean: bool = False


class RunCleaned(Struct, frozen=True):
    key: RunKey
    time: float


class StepEnded(Struct, frozen=True):
    key: RunKey
    step_id: StepId
    exit: Exit


class CheckpointMade(Struct, frozen=True):
    """`answers`: the request that it fulfils; 0: none."""

    key: RunKey
    checkpoint: Checkpoint
    answers: float = 0.0


class CheckpointFailed(Struct, frozen=True):
    """The --checkpoint-command, the run's only way to save, has not done what was asked."""

    key: RunKey
    request: float


class CheckpointListener(Struct, frozen=True):
    key: RunKey


Report = (
    RunPrepared
    | PrepareFailed
    | RunStarted
    | BatchExited
    | RunCleaned
    | StepEnded
    | CheckpointMade
    | CheckpointFailed
    | CheckpointListener
)
Action = (
    PrepareRun
    | SaveRun
    | WriteNodes
    | LaunchBatch
    | SignalStep
    | EndStep
    | TellAsked
    | RunCheckpointCommand
    | DeleteFiles
    | FinishRun
    | RemoveRun
    | Report
)
