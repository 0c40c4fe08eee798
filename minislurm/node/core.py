"""The core of the node daemon: which runs are here, and what to launch, signal, end, report. No I/O.

`handle` takes a command of the controller or an event of the I/O around it and returns what must now be done,
in order. Everything is idempotent: a command that was carried out already is answered with its report again,
and what belongs to a run that is not here is dropped or, where it asks for an end, answered with RunCleaned.
"""

from __future__ import annotations

from math import inf

from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.exhaustive import assert_never
from minislurm.domain.ids import BATCH_STEP, CHECKPOINT_STEP, NodeName, StepId
from minislurm.domain.job import EndCause
from minislurm.domain.times import format_time
from minislurm.node.messages import (
    Action,
    Ask,
    BatchExited,
    CheckpointFailed,
    CheckpointListener,
    CheckpointMade,
    Command,
    Delete,
    DeleteFiles,
    End,
    EndStep,
    Event,
    Exit,
    FinishRun,
    Forget,
    LaunchBatch,
    LeaseEnded,
    Listens,
    Made,
    NotPrepared,
    Phase,
    Prepare,
    Prepared,
    PrepareFailed,
    PrepareRun,
    RemoveRun,
    RunCheckpointCommand,
    RunCleaned,
    RunFinished,
    RunKey,
    RunPrepared,
    RunStarted,
    SaveRun,
    Signal,
    SignalStep,
    Start,
    StepClean,
    StepEnded,
    StepExited,
    StepStarted,
    TellAsked,
    TellNodes,
    WriteNodes,
)

#: Signals that end a program are announced in the job's output.
_KILLING_SIGNALS = frozenset({9, 15})

_MESSAGES = {
    EndCause.CANCEL: "",
    EndCause.BATCH_KILLED: "",
    EndCause.TIME_LIMIT: " DUE TO TIME LIMIT",
    EndCause.DEADLINE: " DUE TO DEADLINE",
    EndCause.REQUEUE: " DUE TO JOB REQUEUE",
    EndCause.PREEMPT: " DUE TO PREEMPTION",
    EndCause.RESIZE: " DUE TO JOB RESIZE",
    EndCause.NODE_FAIL: " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
}


class StepRecord(Struct):
    """A step that still has, or may have, processes here."""

    #: First of the step's nodes: it is the one that writes "STEP … CANCELLED".
    is_first: bool = True
    #: Its tasks have ended, what they forked has not.
    exited: bool = False


class RunRecord(Struct):
    prepare: Prepare
    phase: Phase = Phase.PREPARING
    start_wanted: bool = False
    start_time: float = 0.0
    end_time: float = 0.0
    exit: Exit | None = None
    ending: End | None = None
    #: FinishRun is under way.
    finishing: bool = False
    #: BatchExited waits for the end of FinishRun, to say `clean`.
    exit_unreported: bool = False
    forget: bool = False
    #: Ended here because the node was cut off.
    lost: bool = False
    steps: dict[StepId, StepRecord] = field(default_factory=dict)
    #: When it began to run here; 0: not known (`start_time` is set anew when it is adopted).
    began: float = 0.0
    #: The step that the --checkpoint-command will be, next time.
    next_command: StepId = CHECKPOINT_STEP
    #: A checkpoint is wanted.
    asked: Ask | None = None
    #: The request that was fulfilled last.
    answered: float = 0.0
    #: Some process of the run wants to know of that.
    listens: bool = False
    #: Reported in this run by way of this node, and the last of them; `unsaid`: the controller may not know.
    newest: Checkpoint | None = None
    unsaid: dict[tuple[str, float], CheckpointMade] = field(default_factory=dict)

    @property
    def key(self) -> RunKey:
        return self.prepare.key


class NodeCore:
    def __init__(self, node: str, *, has_epilog: bool = False) -> None:
        self.node = NodeName(node)
        self.runs: dict[RunKey, RunRecord] = {}
        #: An epilog may take long: the batch script's end is then reported before it.
        self._has_epilog = has_epilog

    # --- what the I/O asks -------------------------------------------------------------------------------

    def handle(self, message: Command | Event, now: float) -> list[Action]:
        match message:
            case Prepare():
                return self._prepare(message)
            case Start():
                return self._start(message.key, now)
            case End():
                return self._end(message, now)
            case Signal():
                return self._signal(message, now)
            case TellNodes():
                return self._tell_nodes(message)
            case Forget():
                return self._forget(message.key, now)
            case Ask():
                return self._ask(message)
            case Delete():
                return [DeleteFiles(message.key, message.path)] if message.key in self.runs else []
            case Prepared():
                return self._prepared(message, now)
            case NotPrepared():
                return self._not_prepared(message, now)
            case StepStarted():
                return self._step_started(message)
            case StepExited():
                return self._step_exited(message, now)
            case StepClean():
                return self._step_clean(message.key, message.step_id)
            case RunFinished():
                return self._finished(message.key, now)
            case LeaseEnded():
                return self._lease_ended(message, now)
            case Made():
                return self._made(message, now)
            case Listens():
                return self._listens(message.key)
            case _:
                assert_never(message)

    def restore(self, record: RunRecord) -> None:
        """A run that an earlier daemon left on disk."""
        self.runs[record.key] = record

    def admit_step(self, key: RunKey, step_id: StepId, user_id: int, *, is_first: bool) -> str:
        """Takes note of a step that is about to be launched; "", or why it may not be.

        A node that has not yet heard Start may well hear of a step first: the step's credential, which the
        controller signed, proves that the run has started.
        """
        record = self.runs.get(key)
        if record is None or record.phase in (Phase.PREPARING, Phase.EXITED, Phase.CLEAN):
            return f"Job {key.job_id} is not running on node {self.node}"
        if record.ending is not None:
            return f"Slurm job {key.job_id} has expired"
        if user_id not in (0, record.prepare.job.spec.user_id):
            return "Access/permission denied"
        if step_id in record.steps:
            return f"Step {key.job_id}.{step_id} is running already"
        record.phase = Phase.RUNNING
        record.steps[step_id] = StepRecord(is_first)
        return ""

    # --- commands ----------------------------------------------------------------------------------------

    def _prepare(self, command: Prepare) -> list[Action]:
        known = self.runs.get(command.key)
        if known is not None:
            return self._answer_again(known)
        if any(key.job_id == command.key.job_id and key.run > command.key.run for key in self.runs):
            return []
        self.runs[command.key] = RunRecord(command, start_wanted=command.start)
        return [PrepareRun(command)]

    def _answer_again(self, record: RunRecord) -> list[Action]:
        match record.phase:
            case Phase.PREPARING:
                return []
            case Phase.PREPARED:
                return [RunPrepared(record.key)]
            case Phase.RUNNING:
                return [RunStarted(record.key, record.start_time)] if record.start_time else []
            case Phase.EXITED:
                return [BatchExited(record.key, record.exit or Exit())]
            case Phase.CLEAN:
                return [RunCleaned(record.key, record.end_time)]
            case _:
                assert_never(record.phase)

    def _start(self, key: RunKey, now: float) -> list[Action]:
        record = self.runs.get(key)
        if record is None or record.ending is not None:
            return []
        if record.phase is Phase.PREPARING:
            record.start_wanted = True
            return []
        if record.phase is Phase.PREPARED or (record.phase is Phase.RUNNING and not record.start_time):
            return self._launch(record, now)
        return self._answer_again(record)

    def _launch(self, record: RunRecord, now: float) -> list[Action]:
        """The batch script starts on the first node; the others, and allocations, only hold."""
        job = record.prepare.job
        record.phase = Phase.RUNNING
        if job.batch_host != self.node:
            record.start_time = now
            return [SaveRun(record.key, Phase.RUNNING)]
        if not job.spec.is_batch:
            record.start_time = now
            return [SaveRun(record.key, Phase.RUNNING), RunStarted(record.key, now)]
        if BATCH_STEP in record.steps:
            return []
        record.steps[BATCH_STEP] = StepRecord()
        return [SaveRun(record.key, Phase.RUNNING), LaunchBatch(record.key)]

    def _end(self, command: End, now: float) -> list[Action]:
        record = self.runs.get(command.key)
        if record is None:
            return [RunCleaned(command.key, now)]
        if record.phase is Phase.CLEAN:
            return [RunCleaned(record.key, record.end_time)]
        if record.ending is not None and (record.ending.kill or not command.kill):
            return []
        record.ending = command
        actions: list[Action] = [self._end_step(record, step_id) for step_id in record.steps]
        return [*actions, *self._finish_if_empty(record)]

    def _lease_ended(self, event: LeaseEnded, now: float) -> list[Action]:
        """Every run here may be about to start elsewhere. The controller learns it at the next
        registration."""
        actions: list[Action] = []
        for record in list(self.runs.values()):
            if record.phase is Phase.CLEAN or record.lost:
                continue
            record.lost = record.phase is not Phase.EXITED
            # Its steps' shepherds know as well. A kill wait that is longer under way is cut short.
            ending = record.ending
            if ending is None or not ending.kill:
                record.ending = None
                end = End(record.key, EndCause.NODE_FAIL, now, event.kill_wait_s)
                actions += self._end(end, now)
        return actions

    def _end_step(self, record: RunRecord, step_id: StepId) -> Action:
        ending = record.ending
        assert ending is not None
        kill = ending.kill or (ending.cause is EndCause.BATCH_KILLED and step_id == BATCH_STEP)
        message = ""
        cause = _MESSAGES.get(ending.cause)
        if cause is not None:
            message = self._message(record, step_id, ending.time, cause)
        return EndStep(record.key, step_id, kill, ending.kill_wait_s, message)

    def _message(self, record: RunRecord, step_id: StepId, time: float, cause: str = "") -> str:
        """Slurm's line for the job's output, or for srun's; "" where another node of the step writes it."""
        if not record.steps[step_id].is_first or record.steps[step_id].exited:
            return ""
        name = f"JOB {record.key.job_id}" if step_id == BATCH_STEP else f"STEP {record.key.job_id}.{step_id}"
        what = f"{name} ON {self.node} CANCELLED AT {format_time(time)}{cause}"
        return f"slurmstepd-{self.node}: error: *** {what} ***"

    def _signal(self, command: Signal, now: float) -> list[Action]:
        record = self.runs.get(command.key)
        if record is None:
            return []
        actions: list[Action] = []
        for step_id, step in record.steps.items():
            if step.exited or not _is_meant(command, step_id):
                continue
            to = "all"
            if step_id == BATCH_STEP:
                to = "group" if command.full else "leader"
            message = ""
            if command.signal in _KILLING_SIGNALS and command.step_id == step_id:
                message = self._message(record, step_id, now)
            actions.append(
                SignalStep(record.key, step_id, command.signal, to, command.continue_first, message)
            )
        return actions

    def _tell_nodes(self, command: TellNodes) -> list[Action]:
        """Steps that begin from now on see them; the script finds them in a file."""
        record = self.runs.get(command.key)
        if record is None or record.phase is Phase.CLEAN:
            return []
        job = record.prepare.job
        if command.allocation == job.allocation:
            return []
        record.prepare = replace(record.prepare, job=replace(job, allocation=command.allocation))
        actions: list[Action] = [WriteNodes(command.key)]
        batch = record.steps.get(BATCH_STEP)
        if command.signal and batch is not None and not batch.exited and record.ending is None:
            actions.append(SignalStep(command.key, BATCH_STEP, command.signal, "leader"))
        return actions

    def _forget(self, key: RunKey, now: float) -> list[Action]:
        record = self.runs.get(key)
        if record is None:
            return [RemoveRun(key)]
        if record.phase is Phase.CLEAN:
            del self.runs[key]
            return [RemoveRun(key)]
        # Nobody wants it any more, but something of it is still here.
        record.forget = True
        return self._end(End(key, EndCause.EXIT, now, 0.0, kill=True), now)

    # --- checkpoints -------------------------------------------------------------------------------------

    def _ask(self, command: Ask) -> list[Action]:
        record = self.runs.get(command.key)
        if record is None or record.phase is not Phase.RUNNING or record.ending is not None:
            return []
        if command.withdrawn:
            was_asked, record.asked = record.asked is not None, None
            return [TellAsked(record.key, None)] if was_asked else []
        if record.asked is not None and record.asked.request == command.request:
            return []
        record.asked = command
        actions: list[Action] = [TellAsked(record.key, command)]
        spec = record.prepare.job.spec
        if spec.checkpoint_signal is not None:
            # Only to those that catch it: of the others it would be the end.
            to = "catch_or_shell" if spec.checkpoint_signal.to_shells else "catch"
            actions += [
                SignalStep(record.key, step_id, spec.checkpoint_signal.signal, to)
                for step_id, step in record.steps.items()
                if not step.exited and step_id > CHECKPOINT_STEP
            ]
        is_saving = min(record.steps, default=BATCH_STEP) <= CHECKPOINT_STEP
        if spec.checkpoint_command and BATCH_STEP in record.steps and not is_saving:
            step_id = record.next_command
            record.next_command = StepId(step_id - 1)
            record.steps[step_id] = StepRecord(is_first=False)
            actions.append(RunCheckpointCommand(record.key, step_id))
        return actions

    def _command_ended(self, record: RunRecord, exit: Exit) -> list[Action]:
        """What it has made it has reported. If it failed, and nothing else can save, nobody need wait."""
        asked, spec = record.asked, record.prepare.job.spec
        failed = exit.exit_code or exit.exit_signal or exit.launch_failed
        others = record.listens or spec.checkpoint_signal is not None
        if asked is None or not failed or others or record.answered == asked.request:
            return []
        return [CheckpointFailed(record.key, asked.request)]

    def _made(self, event: Made, now: float) -> list[Action]:
        record = self.runs.get(event.key)
        if record is None or record.phase in (Phase.PREPARING, Phase.PREPARED):
            return []
        made = event.checkpoint
        if (made.path, made.time) in record.unsaid:
            return []
        actions: list[Action] = []
        asked, answers = record.asked, 0.0
        if asked is not None and event.request in (None, asked.request):
            answers = record.answered = asked.request
            took_s = made.duration_s or max(0.0, now - asked.request)
            made = replace(made, reason=asked.reason, duration_s=took_s)
            if asked.deadline == inf:
                record.asked = None
                actions.append(TellAsked(record.key, None))
        if record.newest is None or record.newest.time <= made.time:
            record.newest = made
        report = CheckpointMade(record.key, made, answers)
        record.unsaid[made.path, made.time] = report
        return [report, *actions]

    def _listens(self, key: RunKey) -> list[Action]:
        record = self.runs.get(key)
        if record is None or record.listens or record.ending is not None:
            return []
        record.listens = True
        return [CheckpointListener(key)]

    def said(self, report: CheckpointMade) -> None:
        """The controller has journaled it."""
        record = self.runs.get(report.key)
        if record is not None:
            record.unsaid.pop((report.checkpoint.path, report.checkpoint.time), None)

    # --- events ------------------------------------------------------------------------------------------

    def _prepared(self, event: Prepared, now: float) -> list[Action]:
        key = event.key
        record = self.runs.get(key)
        if record is None or record.phase is not Phase.PREPARING:
            return []
        record.phase = Phase.PREPARED
        record.prepare = replace(record.prepare, resume=event.resume)
        if record.ending is not None:
            return self._finish_if_empty(record)
        if record.start_wanted:
            return self._launch(record, now)
        return [RunPrepared(key)]

    def _not_prepared(self, event: NotPrepared, now: float) -> list[Action]:
        record = self.runs.pop(event.key, None)
        if record is None:
            return []
        actions: list[Action] = [RemoveRun(event.key)]
        if record.ending is not None:
            actions.append(RunCleaned(event.key, now))
        else:
            actions.append(PrepareFailed(event.key, event.reason, event.job_fault))
        return actions

    def _step_started(self, event: StepStarted) -> list[Action]:
        record = self.runs.get(event.key)
        if record is None or event.step_id != BATCH_STEP or record.start_time:
            return []
        record.start_time = event.time
        return [RunStarted(event.key, event.time)]

    def _step_exited(self, event: StepExited, now: float) -> list[Action]:
        record = self.runs.get(event.key)
        step = record.steps.get(event.step_id) if record is not None else None
        if record is None or step is None:
            return []
        actions: list[Action] = []
        if not step.exited:
            step.exited = True
            if event.step_id == BATCH_STEP:
                actions += self._batch_exited(record, event, now)
            else:
                actions.append(StepEnded(event.key, event.step_id, event.exit))
                if event.step_id <= CHECKPOINT_STEP:
                    actions += self._command_ended(record, event.exit)
        if event.clean:
            actions += self._step_clean(event.key, event.step_id)
        return actions

    def _batch_exited(self, record: RunRecord, event: StepExited, now: float) -> list[Action]:
        """The run is over. Where this is its only node, nobody needs to tell us."""
        record.exit = replace(event.exit, node_lost=True) if record.lost else event.exit
        record.phase = Phase.EXITED
        actions: list[Action] = []
        is_only_node = len(record.prepare.job.allocation) == 1
        others = [step_id for step_id in record.steps if step_id != BATCH_STEP]
        if record.ending is None and is_only_node:
            record.ending = End(record.key, EndCause.EXIT, now, record.prepare.kill_wait_s)
            actions += [self._end_step(record, step_id) for step_id in others]
        # One report instead of two, if nothing is left to wait for.
        if is_only_node and event.clean and not others and not self._has_epilog:
            record.exit_unreported = True
            return actions
        return [*actions, BatchExited(record.key, record.exit)]

    def _step_clean(self, key: RunKey, step_id: StepId) -> list[Action]:
        record = self.runs.get(key)
        if record is None or record.steps.pop(step_id, None) is None:
            return []
        return self._finish_if_empty(record)

    def _finish_if_empty(self, record: RunRecord) -> list[Action]:
        is_over = record.ending is not None and record.phase is not Phase.PREPARING
        if not is_over or record.steps or record.finishing:
            return []
        record.finishing = True
        return [FinishRun(record.key)]

    def _finished(self, key: RunKey, now: float) -> list[Action]:
        record = self.runs.get(key)
        if record is None or not record.finishing or record.phase is Phase.CLEAN:
            return []
        record.phase = Phase.CLEAN
        record.end_time = now
        if record.forget:
            del self.runs[key]
            return [RunCleaned(key, now), RemoveRun(key)]
        if record.exit_unreported:
            return [SaveRun(key, Phase.CLEAN), BatchExited(key, record.exit or Exit(), clean=True)]
        return [SaveRun(key, Phase.CLEAN), RunCleaned(key, now)]


def _is_meant(command: Signal, step_id: StepId) -> bool:
    if command.full:
        return True
    if command.step_id is None:
        return step_id != BATCH_STEP
    return step_id == command.step_id
