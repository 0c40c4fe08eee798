"""The node daemon: carries out what the core decides, and tells it what happened.

Everything runs in one asyncio loop. Files of the spool are small and written in place; whatever may take long
(prolog, epilog, killing what a dead shepherd left) is a task that ends with an event for the core.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from minislurm.domain.configuration import Configuration
from minislurm.domain.ids import BATCH_STEP, CHECKPOINT_STEP, StepId
from minislurm.node import burial, wire
from minislurm.node.cgroups import Cgroups
from minislurm.node.checkpoint_desk import CheckpointDesk, is_job_fault
from minislurm.node.checkpoint_keeper import KeeperError
from minislurm.node.core import NodeCore, RunRecord, StepRecord
from minislurm.node.environment import Place, checkpoint_directory, parse, step_marks, step_name
from minislurm.node.launch_orders import StepRequest, Where, batch_order, checkpoint_order, step_order
from minislurm.node.launcher import Launcher
from minislurm.node.link import ControllerLink
from minislurm.node.messages import (
    Action,
    CheckpointListener,
    CheckpointMade,
    Command,
    DeleteFiles,
    EndStep,
    Event,
    Exit,
    FinishRun,
    LaunchBatch,
    LeaseEnded,
    NotPrepared,
    Phase,
    Prepare,
    Prepared,
    PrepareRun,
    RemoveRun,
    Report,
    RunCheckpointCommand,
    RunCleaned,
    RunFinished,
    RunKey,
    RunPrepared,
    RunStarted,
    SaveRun,
    SignalStep,
    StepClean,
    StepEnded,
    StepExited,
    TellAsked,
    WriteNodes,
)
from minislurm.node.orders import ShepherdOrder
from minislurm.node.programs import ProgramFailed, run_program
from minislurm.node.run_files import FoundRun, RunFiles
from minislurm.node.shepherd_link import ShepherdLink, connect
from minislurm.node.shepherd_pool import ShepherdPool
from minislurm.node.step_process import StepProcess
from minislurm.node.tracking import send_signal
from minislurm.rpc.gen import node_pb2

log = logging.getLogger(__name__)

#: A shepherd that has not ended its step so long after it should have is killed itself.
STUCK_AFTER_S = 15.0
#: A shepherd that was being forked when the last daemon ended has begun after this.
ADOPTION_WAIT_S = 2.0


class Daemon:
    """`link` may be set after construction: it needs what `registration` says."""

    def __init__(
        self,
        configuration: Configuration,
        node: str,
        *,
        files: RunFiles,
        launcher: Launcher,
        cgroups: Cgroups | None,
    ) -> None:
        self._settings = configuration.node
        self._client_grace_s = configuration.timers.client_grace_s
        self._place = Place(node, configuration.cluster.name, configuration.path, files.directory)
        self._files = files
        self._pool = ShepherdPool(launcher)
        self._cgroups = cgroups
        self.core = NodeCore(node, has_epilog=bool(configuration.node.epilog))
        self.link: ControllerLink | None = None
        #: The lease's file, and between SIGTERM and SIGKILL when it has ended (lease.py).
        self.lease_path = ""
        #: Why no run may be prepared now; "": it may.
        self.health_problem: Callable[[], str] = lambda: ""
        self._lease_kill_wait_s = configuration.timers.node_grace_s / 2
        self.checkpoints = CheckpointDesk(self.core, files, self.handle)
        self.steps: dict[tuple[RunKey, StepId], StepProcess] = {}
        #: Of runs that are prepared and not yet started.
        self._environments: dict[RunKey, dict[str, str]] = {}
        self._prepare_messages: dict[RunKey, node_pb2.PrepareRun] = {}
        #: Orders whose shepherd has not yet begun, for another attempt if the forker dies.
        self._orders: dict[tuple[RunKey, StepId], ShepherdOrder] = {}
        self._backstops: dict[tuple[RunKey, StepId], asyncio.TimerHandle] = {}
        self._inbox: deque[Command | Event] = deque()
        self._is_busy = False
        self._tasks: set[asyncio.Task[None]] = set()

    # --- in and out of the core --------------------------------------------------------------------------

    def on_command(self, message: node_pb2.Command) -> None:
        command = wire.command(message)
        if command is None:
            log.warning("the controller sent a command that this version does not know")
            return
        if message.HasField("prepare_run"):
            self._prepare_messages[command.key] = message.prepare_run
        self.handle(command)
        self._prepare_messages.pop(command.key, None)

    def handle(self, message: Command | Event) -> None:
        """One after the other: what comes while actions are carried out waits for their end."""
        self._inbox.append(message)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._inbox:
                for action in self.core.handle(self._inbox.popleft(), time.time()):
                    self._perform(action)
        finally:
            self._is_busy = False

    def cpus_in_use(self) -> int:
        """By runs that are not over."""
        return sum(
            part.cpu_count
            for record in self.core.runs.values()
            if record.phase is not Phase.CLEAN
            for part in record.prepare.job.allocation
            if part.node == self.core.node
        )

    def lease_ended(self) -> None:
        """What runs here may be about to start elsewhere. The next registration tells the controller."""
        self.handle(LeaseEnded(self._lease_kill_wait_s))
        if self.link is not None:
            self.link.dial_anew()

    def _perform(self, action: Action) -> None:
        match action:
            case PrepareRun():
                self._prepare(action)
            case SaveRun():
                self._save(action)
            case WriteNodes():
                self._write_nodes(action.key)
            case LaunchBatch():
                self._launch_batch(action.key)
            case SignalStep():
                log.info("run %s: signal %d to step %d", action.key, action.signal, action.step_id)
                self._step(action.key, action.step_id, "signal", action)
            case EndStep():
                self._end_step(action)
            case TellAsked():
                self._files.checkpoint_asked(action.key, action.asked)
                self.checkpoints.tell(action.key, action.asked)
            case RunCheckpointCommand():
                self._run_checkpoint_command(action)
            case DeleteFiles():
                prepare = self.core.runs[action.key].prepare
                self._spawn(self.checkpoints.delete(prepare, action.path))
            case FinishRun():
                self._finish(action.key)
            case RemoveRun():
                self._remove(action.key)
            case _:
                self._report(action)

    def _report(self, report: Report) -> None:
        if isinstance(report, CheckpointMade):
            self._store(report)
        elif isinstance(report, CheckpointListener):
            self._files.checkpoint_listens(report.key)
        self._say(report)

    def _store(self, report: CheckpointMade) -> None:
        try:
            self._files.checkpoint_made(report)
        except OSError as error:
            log.error("run %s: its checkpoint is not on record here: %s", report.key, error)

    def _checkpoint_said(self, report: CheckpointMade) -> None:
        self.core.said(report)
        self._files.checkpoint_said(report)

    def _say(self, report: Report) -> None:
        # One line for each run where all is well.
        level = logging.DEBUG if isinstance(report, (RunPrepared, RunStarted, RunCleaned)) else logging.INFO
        if log.isEnabledFor(level):
            log.log(level, "%s %s", type(report).__name__, _summary(report))
        if self.link is None:
            return
        if isinstance(report, StepEnded):
            key, step_id = report.key, report.step_id
            self.link.report(wire.report(report), lambda: self._files.step_reported(key, step_id))
        elif isinstance(report, CheckpointMade):
            made = report
            self.link.report(wire.report(report), lambda: self._checkpoint_said(made))
        else:
            self.link.report(wire.report(report))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task failed", exc_info=task.exception())

    # --- preparing and finishing -------------------------------------------------------------------------

    def _prepare(self, action: PrepareRun) -> None:
        command = action.command
        key = command.key
        user_id = command.job.spec.user_id
        message = self._prepare_messages[key]
        if os.geteuid() not in (0, user_id):
            reason = f"minislurmd runs as uid {os.geteuid()} and cannot run jobs of uid {user_id}"
            self.handle(NotPrepared(key, reason))
            return
        problem = self.health_problem()
        if problem:
            self.handle(NotPrepared(key, f"health check: {problem}"))
            return
        try:
            self._files.make(message, key)
            if command.job.resizes_in_place:
                self._files.write_nodes(key, command.job)
            if self._cgroups is not None:
                self._cgroups.make_run(key)
        except OSError as error:
            self.handle(NotPrepared(key, f"cannot store the run: {error}"))
            return
        self._environments[key] = parse(message.environment)
        if self._settings.prolog or self.checkpoints.must_prepare(command):
            self._spawn(self._prepare_slowly(command))
        else:
            self.handle(Prepared(key))

    async def _prepare_slowly(self, command: Prepare) -> None:
        key = command.key
        try:
            if self.checkpoints.must_prepare(command):
                command = replace(command, resume=await self.checkpoints.prepare(command))
            if self._settings.prolog:
                await run_program(
                    self._settings.prolog, command, self._place, self._settings.prolog_timeout_s
                )
        except KeeperError as error:
            log.error("run %s: %s", key, error)
            self.handle(NotPrepared(key, str(error), is_job_fault(error)))
        except ProgramFailed as error:
            self.handle(NotPrepared(key, f"prolog failed: {error}"))
        else:
            self.handle(Prepared(key, command.resume))

    def _save(self, action: SaveRun) -> None:
        try:
            self._files.save(action.key, action.phase)
        except OSError as error:
            # The shepherd's own line says that it runs; the controller says again what it wants ended.
            log.error("run %s: its phase is not on disk: %s", action.key, error)

    def _write_nodes(self, key: RunKey) -> None:
        try:
            self._files.write_nodes(key, self.core.runs[key].prepare.job)
        except OSError as error:
            log.error("run %s: its nodes cannot be listed: %s", key, error)

    def _prepared(self, key: RunKey) -> Prepare:
        """What the run was prepared with, and where its nodes are listed now."""
        prepare = self.core.runs[key].prepare
        if not prepare.job.resizes_in_place:
            return prepare
        return replace(prepare, nodelist_file=self._files.nodes_path(key))

    def _finish(self, key: RunKey) -> None:
        self._environments.pop(key, None)
        if self._settings.epilog or self.checkpoints.must_finish(key):
            self._spawn(self._finish_slowly(key))
        else:
            self._remove_group(key)
            self.handle(RunFinished(key))

    async def _finish_slowly(self, key: RunKey) -> None:
        prepare = self.core.runs[key].prepare
        await self.checkpoints.finish(key)
        if self._settings.epilog:
            try:
                await run_program(
                    self._settings.epilog, prepare, self._place, self._settings.prolog_timeout_s
                )
            except ProgramFailed as error:
                log.error("run %s: epilog failed: %s", key, error)
        self._remove_group(key)
        self.handle(RunFinished(key))

    def _remove_group(self, key: RunKey) -> None:
        if self._cgroups is not None and not self._cgroups.remove_run(key):
            log.warning("run %s: its control group is not empty", key)

    def _remove(self, key: RunKey) -> None:
        self._environments.pop(key, None)
        for (step_key, _), process in list(self.steps.items()):
            if step_key == key:
                process.forget()
        self._remove_group(key)
        self.checkpoints.forget(key)
        self._files.remove(key)

    # --- steps -------------------------------------------------------------------------------------------

    def _launch_batch(self, key: RunKey) -> None:
        prepare = self._prepared(key)
        environment = self._environments.get(key, {})
        if not prepare.job.spec.checkpoint_command:
            self._environments.pop(key, None)
        try:
            order = batch_order(
                prepare, environment, self._place, self._files.script(key), self._where(key, BATCH_STEP)
            )
        except OSError as error:
            log.error("run %s: no control group: %s", key, error)
            self.handle(StepExited(key, BATCH_STEP, burial.NEVER_STARTED, clean=True))
            return
        self._launch(key, BATCH_STEP, order)

    def _run_checkpoint_command(self, action: RunCheckpointCommand) -> None:
        key, step_id = action.key, action.step_id
        prepare = self.core.runs[key].prepare
        environment = self._environments.get(key, {})
        try:
            where = self._where(key, step_id)
            order = checkpoint_order(prepare, step_id, environment, self._place, where)
        except OSError as error:
            log.error("run %s: its checkpoint command is not run: %s", key, error)
            self.handle(StepExited(key, step_id, burial.NEVER_STARTED, clean=True))
            return
        self._launch(key, step_id, order)

    def launch_step(self, key: RunKey, request: StepRequest) -> StepProcess:
        """A step that the core has admitted. Raises OSError."""
        step_id = request.shape.step_id
        prepare = self._prepared(key)
        try:
            order = step_order(prepare, request, self._place, self._where(key, step_id))
        except OSError:
            self.handle(StepExited(key, step_id, Exit(exit_code=1, time=time.time()), clean=True))
            raise
        log.info("step %s.%d: %d tasks", key, step_id, len(order["tasks"]))
        return self._launch(key, step_id, order)

    def _where(self, key: RunKey, step_id: StepId) -> Where:
        cgroup = ""
        if self._cgroups is not None:
            cgroup = self._cgroups.make_step(key, step_name(step_id))
        return Where(self._files.log_path(key), cgroup, self.lease_path, self._lease_kill_wait_s)

    def _launch(self, key: RunKey, step_id: StepId, order: ShepherdOrder) -> StepProcess:
        self._orders[key, step_id] = order
        link = self._pool.take()
        process = self._step_process(key, step_id, link)
        link.order(order)
        return process

    def _step_process(
        self, key: RunKey, step_id: StepId, link: ShepherdLink, *, adopted: bool = False
    ) -> StepProcess:
        process = StepProcess(
            key,
            step_id,
            link,
            on_event=self.handle,
            on_closed=self._shepherd_gone,
            on_free=self._shepherd_free,
            adopted=adopted,
            client_grace_s=self._client_grace_s,
        )
        self.steps[key, step_id] = process
        return process

    def _step(self, key: RunKey, step_id: StepId, method: str, action: Action) -> None:
        process = self.steps.get((key, step_id))
        if process is not None:
            getattr(process, method)(action)

    def _end_step(self, action: EndStep) -> None:
        log.info("run %s: ending step %d", action.key, action.step_id)
        name = (action.key, action.step_id)
        self._step(action.key, action.step_id, "end", action)
        if name in self._backstops:
            self._backstops[name].cancel()
        delay_s = STUCK_AFTER_S + (0.0 if action.kill else action.wait_s)
        self._backstops[name] = asyncio.get_running_loop().call_later(delay_s, self._shepherd_stuck, name)

    def _shepherd_stuck(self, name: tuple[RunKey, StepId]) -> None:
        """It hangs, say in opening a file of a dead server: its tasks are killed without it."""
        self._backstops.pop(name, None)
        process = self.steps.get(name)
        state = self._files.step_state(*name)
        if process is None or process.clean:
            return
        log.error("step %s: its shepherd does not end it; ending it without", process)
        if state is not None and burial.lives(state):
            send_signal([state["pid"]], signal.SIGKILL)
        process.close()
        self._shepherd_gone(process)

    def _shepherd_free(self, process: StepProcess, link: ShepherdLink) -> None:
        """The step is over, and its shepherd ready for another."""
        self._forget_step(process)
        self._pool.give_back(link)

    def _forget_step(self, process: StepProcess) -> ShepherdOrder | None:
        name = (process.key, process.step_id)
        self.steps.pop(name, None)
        backstop = self._backstops.pop(name, None)
        if backstop is not None:
            backstop.cancel()
        return self._orders.pop(name, None)

    def _shepherd_gone(self, process: StepProcess) -> None:
        name = (process.key, process.step_id)
        order = self._forget_step(process)
        if process.clean:
            return
        if order is not None and not process.begun and self._files.step_state(*name) is None:
            record = self.core.runs.get(process.key)
            if record is not None and record.ending is None and process.listener is None:
                log.warning("step %s: the forker died before it was forked; launching again", process)
                self._launch(*name, order)
                # Only once: another failure is no accident.
                self._orders.pop(name)
                return
        self._spawn(self._bury(*name, ended=process.ended, sessions=process.pids))

    async def _bury(
        self, key: RunKey, step_id: StepId, *, ended: bool = False, sessions: Sequence[int] = ()
    ) -> None:
        """The shepherd is gone and nobody has cleaned up after it."""
        name = step_name(step_id)
        state = self._files.step_state(key, step_id)
        cgroup = ""
        if self._cgroups is not None:
            cgroup = f"{self._cgroups.run_group(key)}/{name}"
        await burial.kill_left_behind(step_marks(key, name, self._place), sessions, cgroup)
        if not ended:
            found = self._files.step_exit(key, step_id)
            if found is None:
                lost = burial.NEVER_STARTED if state is None else burial.SHEPHERD_LOST
                found = Exit(0, lost.exit_signal, time.time(), lost.launch_failed, lost.reason)
                log.error("step %s.%s: %s", key, name, found.reason)
            self.handle(StepExited(key, step_id, found, clean=True))
        else:
            self.handle(StepClean(key, step_id))

    # --- adoption ----------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Takes over what an earlier daemon left; before the first registration."""
        for run in self._files.find():
            record = run.record
            self.core.restore(record)
            # Before its end: whatever a run has reported counts.
            self._adopt_checkpoints(record)
            if record.phase is not Phase.CLEAN:
                self._environments[record.key] = parse(run.environment)
                self._adopt_steps(run)
        if self._cgroups is not None:
            self._cgroups.remove_others(set(self.core.runs))
        if self.core.runs:
            log.info("found %d runs of an earlier daemon", len(self.core.runs))

    def _adopt_checkpoints(self, record: RunRecord) -> None:
        for report in list(record.unsaid.values()):
            self._say(report)
        if record.phase in (Phase.RUNNING, Phase.EXITED):
            self.checkpoints.collect(record.key)
            if self.checkpoints.must_prepare(record.prepare) and checkpoint_directory(record.prepare):
                self._spawn(self.checkpoints.watch(record.prepare, record.began))

    def _adopt_steps(self, run: FoundRun) -> None:
        record = run.record
        key = record.key
        steps = set(run.steps)
        is_batch_host = record.prepare.job.batch_host == self.core.node and record.prepare.job.spec.is_batch
        if is_batch_host and record.phase is Phase.RUNNING:
            steps.add(BATCH_STEP)
            record.start_time = 0.0  # its shepherd knows, and says so
        for step_id in sorted(steps):
            record.steps[step_id] = StepRecord(is_first=step_id > CHECKPOINT_STEP)
            if step_id != BATCH_STEP:
                record.phase = Phase.RUNNING
        for step_id in sorted(steps):
            if not self._reconnect(key, step_id):
                self._spawn(self._adopt_late(key, step_id))

    def _reconnect(self, key: RunKey, step_id: StepId) -> bool:
        state = self._files.step_state(key, step_id)
        connection = connect(state) if state is not None else None
        if connection is None:
            return False
        self._step_process(key, step_id, ShepherdLink(connection, self._pool), adopted=True)
        return True

    async def _adopt_late(self, key: RunKey, step_id: StepId) -> None:
        """Its shepherd is gone, or has not begun yet."""
        until = time.monotonic() + ADOPTION_WAIT_S
        while self._files.step_state(key, step_id) is None and time.monotonic() < until:
            await asyncio.sleep(0.02)
        if self._files.step_state(key, step_id) is None:
            # It never began, and nobody was told that it would: PREPARE comes again.
            log.warning("run %s: the last daemon ended while launching it", key)
            del self.core.runs[key]
            self._remove(key)
        elif not self._reconnect(key, step_id):
            await self._bury(key, step_id)

    async def settle(self) -> None:
        """Waits until the ends that earlier daemons missed are known, so that the registration has them."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=ADOPTION_WAIT_S * 2)

    async def close(self) -> None:
        """Lets go of everything; shepherds and jobs go on."""
        for task in list(self._tasks):
            task.cancel()
        for backstop in self._backstops.values():
            backstop.cancel()
        for process in self.steps.values():
            process.close()
        self._pool.close()
        if self._cgroups is not None:
            self._cgroups.remove()
        await self.checkpoints.close()


def _summary(report: Report) -> str:
    exit = getattr(report, "exit", None)
    parts = [f"run={report.key}"]
    if isinstance(report, StepEnded):
        parts.append(f"step={report.step_id}")
    if exit is not None:
        parts.append(f"exit={exit.exit_code}:{exit.exit_signal}")
    for name in ("reason", "clean"):
        value = getattr(report, name, "")
        if value:
            parts.append(f"{name}={value}")
    return " ".join(parts)
