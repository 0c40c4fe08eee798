"""Runs on disk: what a daemon that is restarted needs to know of them (names and lines: spool.py)."""

from __future__ import annotations

import base64
import fcntl
import logging
import os
import shutil
import time
from math import inf
from typing import Any

import msgspec
from msgspec import Struct, field

from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.errors import ConfigurationError
from minislurm.domain.ids import BATCH_STEP, CHECKPOINT_STEP, JobId, RunNumber, StepId
from minislurm.domain.job import Job
from minislurm.node import spool
from minislurm.node.core import RunRecord
from minislurm.node.messages import Ask, CheckpointMade, Exit, Phase, RunKey
from minislurm.node.wire import prepare
from minislurm.rpc.gen import node_pb2

log = logging.getLogger(__name__)

#: A log of this size is followed by another; it goes when the last of its runs is forgotten.
LOG_LIMIT = 1024 * 1024


class FoundRun(Struct, frozen=True):
    """A run that an earlier daemon left. `steps`: those whose end the controller may not know."""

    record: RunRecord
    environment: tuple[bytes, ...]
    steps: tuple[StepId, ...]


class _Lines(Struct):
    """What the logs say of one run."""

    log: int
    prepare: str
    phase: Phase = Phase.PREPARED
    time: float = 0.0
    states: dict[StepId, dict[str, Any]] = field(default_factory=dict)
    ends: dict[StepId, dict[str, Any]] = field(default_factory=dict)
    reported: set[StepId] = field(default_factory=set)
    made: dict[tuple[str, float], tuple[Checkpoint, float]] = field(default_factory=dict)
    said: set[tuple[str, float]] = field(default_factory=set)
    asked: dict[str, Any] | None = None
    listens: bool = False


class RunFiles:
    """The spool directory of one daemon, locked against a second one. Raises ConfigurationError."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        try:
            os.makedirs(f"{self.directory}/runs", mode=0o755, exist_ok=True)
            self._lock = os.open(f"{self.directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._logs = self._existing_logs()
            self._current = max(self._logs, default=0) + 1
            self._logs[self._current] = set()
            self._descriptor = spool.open_log(self._log_path(self._current))
        except BlockingIOError as error:
            raise ConfigurationError(
                f"{self.directory}: another minislurmd uses this spool directory"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"node.spool_dir = {directory}: {error.strerror}") from error
        self._size = 0
        self._log_of: dict[RunKey, int] = {}

    def close(self) -> None:
        os.close(self._descriptor)
        os.close(self._lock)

    def path(self, key: RunKey) -> str:
        return spool.run_directory(self.directory, key.job_id, key.run)

    def script(self, key: RunKey) -> str:
        return f"{self.path(key)}/{spool.SCRIPT}"

    def log_path(self, key: RunKey) -> str:
        """Where the run's shepherds write."""
        return self._log_path(self._log_of[key])

    def _log_path(self, number: int) -> str:
        return f"{self.directory}/log.{number}"

    # --- writing (raises OSError) ------------------------------------------------------------------------

    def make(self, message: node_pb2.PrepareRun, key: RunKey) -> None:
        """Stores the script, for its owner's eyes only, and what the run is."""
        directory = self.path(key)
        try:
            os.mkdir(directory)
        except FileExistsError:
            self.remove(key)
            os.mkdir(directory)
        # The user may go through it to his script, and list nothing.
        os.chmod(directory, 0o711)
        self._make_reports(message, key)
        if message.script:
            self._write_script(message, key)
        if self._size > LOG_LIMIT:
            self._begin_log()
        self._log_of[key] = self._current
        self._logs[self._current].add(key)
        stored = node_pb2.PrepareRun()
        stored.CopyFrom(message)
        stored.ClearField("script")
        if message.start and not message.job.spec.checkpoint_command:
            # It is needed once, and that is at once.
            stored.ClearField("environment")
        self._append({"run": str(key), "prepare": base64.b64encode(stored.SerializeToString()).decode()}, key)

    def reports(self, key: RunKey) -> str:
        return spool.reports_directory(self.directory, key.job_id, key.run)

    def _make_reports(self, message: node_pb2.PrepareRun, key: RunKey) -> None:
        os.mkdir(self.reports(key), 0o700)
        if os.geteuid() == 0 and message.job.spec.user_id:
            os.chown(self.reports(key), message.job.spec.user_id, message.job.spec.group_id)

    def _write_script(self, message: node_pb2.PrepareRun, key: RunKey) -> None:
        descriptor = os.open(self.script(key), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
        try:
            view = memoryview(message.script)
            while view:
                view = view[os.write(descriptor, view) :]
            if os.geteuid() == 0 and message.job.spec.user_id:
                os.fchown(descriptor, message.job.spec.user_id, message.job.spec.group_id)
        finally:
            os.close(descriptor)

    def nodes_path(self, key: RunKey) -> str:
        return f"{self.path(key)}/nodes"

    def write_nodes(self, key: RunKey, job: Job) -> None:
        """The names of the job's nodes, one a line. Whoever reads sees the old ones or the new ones."""
        path = self.nodes_path(key)
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.fchmod(descriptor, 0o644)
            os.write(descriptor, "".join(f"{part.node}\n" for part in job.allocation).encode())
        finally:
            os.close(descriptor)
        os.replace(f"{path}.new", path)

    def save(self, key: RunKey, phase: Phase) -> None:
        self._append({"run": str(key), "phase": phase.value, "time": time.time()}, key)

    def checkpoint_made(self, report: CheckpointMade) -> None:
        """Before the controller, or who made it, is told anything."""
        made = msgspec.to_builtins(report.checkpoint)
        self._append({"run": str(report.key), "made": made, "answers": report.answers}, report.key)

    def checkpoint_said(self, report: CheckpointMade) -> None:
        """The controller has it."""
        made = report.checkpoint
        self._note({"run": str(report.key), "said": made.path, "time": made.time}, report.key)

    def checkpoint_asked(self, key: RunKey, asked: Ask | None) -> None:
        value = None
        if asked is not None:
            deadline = asked.deadline if asked.deadline < inf else None
            value = {"request": asked.request, "reason": asked.reason, "deadline": deadline}
        self._note({"run": str(key), "asked": value}, key)

    def checkpoint_listens(self, key: RunKey) -> None:
        self._note({"run": str(key), "listens": True}, key)

    def _note(self, record: dict[str, Any], key: RunKey) -> None:
        """What a daemon that comes after would otherwise say, or do, once more."""
        if key in self._log_of:
            try:
                self._append(record, key)
            except OSError as error:
                log.warning("run %s: %s", key, error)

    def step_reported(self, key: RunKey, step_id: StepId) -> None:
        """The controller has this step's end."""
        self._note({"run": str(key), "step": step_id, "reported": True}, key)

    def _append(self, record: dict[str, Any], key: RunKey) -> None:
        number = self._log_of[key]
        if number == self._current:
            self._size += 512 + len(record.get("prepare", ""))
            spool.append(self._descriptor, record)
            return
        descriptor = spool.open_log(self._log_path(number))
        try:
            spool.append(descriptor, record)
        finally:
            os.close(descriptor)

    def _begin_log(self) -> None:
        before = self._current
        descriptor = spool.open_log(self._log_path(before + 1))
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._current = before + 1
        self._size = 0
        self._logs[self._current] = set()
        self._drop_log_if_empty(before)

    def remove(self, key: RunKey) -> None:
        try:
            os.unlink(self.script(key))
        except OSError:
            pass
        try:
            os.rmdir(self.reports(key))
            os.rmdir(self.path(key))
        except OSError:
            shutil.rmtree(self.path(key), ignore_errors=True)
        number = self._log_of.pop(key, None)
        if number is not None:
            self._logs[number].discard(key)
            self._drop_log_if_empty(number)

    def _drop_log_if_empty(self, number: int) -> None:
        if number != self._current and not self._logs[number]:
            del self._logs[number]
            try:
                os.unlink(self._log_path(number))
            except OSError:
                pass

    # --- reading -----------------------------------------------------------------------------------------

    def step_state(self, key: RunKey, step_id: StepId) -> dict[str, Any] | None:
        """What the step's shepherd wrote when it began."""
        lines = self._lines_of(key)
        return lines.states.get(step_id) if lines is not None else None

    def step_exit(self, key: RunKey, step_id: StepId) -> Exit | None:
        lines = self._lines_of(key)
        end = lines.ends.get(step_id) if lines is not None else None
        return exit_from_json(end) if end is not None else None

    def find(self) -> list[FoundRun]:
        """All that earlier daemons left, but for what cannot be read, which is removed; and for what belongs
        to an earlier boot and had not ended: nothing of it runs, and the controller has it as lost."""
        same_boot = self._is_same_boot()
        lines: dict[str, _Lines] = {}
        for number in sorted(self._logs):
            _read_lines(self._log_path(number), number, lines)
        found: list[FoundRun] = []
        for name in sorted(os.listdir(f"{self.directory}/runs")):
            numbers = spool.run_key(name)
            if numbers is None:
                continue
            key = RunKey(JobId(numbers[0]), RunNumber(numbers[1]))
            of_run = lines.get(str(key))
            run = self._found(key, of_run) if of_run is not None else None
            is_over = run is not None and (run.record.phase is Phase.CLEAN or run.record.exit is not None)
            if run is None or not (same_boot or is_over):
                self.remove(key)
            else:
                found.append(run)
        for number in list(self._logs):
            self._drop_log_if_empty(number)
        return found

    def _found(self, key: RunKey, lines: _Lines) -> FoundRun | None:
        try:
            message = node_pb2.PrepareRun.FromString(base64.b64decode(lines.prepare))
            record = RunRecord(prepare(message), lines.phase)
        except Exception as error:  # whatever protobuf makes of what is not its own
            log.warning("run %s: its log cannot be read (%s)", key, error)
            return None
        self._log_of[key] = lines.log
        self._logs[lines.log].add(key)
        if BATCH_STEP in lines.states:
            record.phase = Phase.RUNNING if record.phase is Phase.PREPARED else record.phase
        elif message.start and record.phase is Phase.PREPARED:
            return None  # not yet launched, and its environment is gone: PREPARE comes again
        # A batch script's true start is in its end, or comes from its shepherd.
        record.start_time = record.end_time = record.began = lines.time
        end = lines.ends.get(BATCH_STEP)
        if end is not None:
            record.exit = exit_from_json(end)
            record.start_time = float(end["start_time"])
        _restore_checkpoints(record, lines)
        steps = tuple(sorted(set(lines.states) - lines.reported))
        return FoundRun(record, tuple(message.environment), steps)

    def _lines_of(self, key: RunKey) -> _Lines | None:
        lines: dict[str, _Lines] = {}
        if key in self._log_of:
            _read_lines(self.log_path(key), self._log_of[key], lines)
        return lines.get(str(key))

    def _existing_logs(self) -> dict[int, set[RunKey]]:
        names = (name.removeprefix("log.") for name in os.listdir(self.directory) if name.startswith("log."))
        return {int(name): set() for name in names if name.isdigit()}

    def _is_same_boot(self) -> bool:
        path = f"{self.directory}/boot"
        try:
            with open(path) as file:
                is_same = file.read() == spool.boot_id()
        except FileNotFoundError:
            is_same = False
        if not is_same:
            with open(path, "w") as file:
                file.write(spool.boot_id())
        return is_same


def _read_lines(path: str, number: int, runs: dict[str, _Lines]) -> None:
    for record in spool.read_log(path):
        if "prepare" in record:
            runs[record["run"]] = _Lines(number, record["prepare"])
            continue
        lines = runs.get(record["run"])
        if lines is None:
            continue
        if "phase" in record:
            lines.phase, lines.time = Phase(record["phase"]), record["time"]
        elif "state" in record:
            lines.states[StepId(record["step"])] = record["state"]
        elif "end" in record:
            lines.ends[StepId(record["step"])] = record["end"]
        elif "made" in record:
            made = msgspec.convert(record["made"], Checkpoint)
            lines.made[made.path, made.time] = made, record["answers"]
        elif "said" in record:
            lines.said.add((record["said"], record["time"]))
        elif "asked" in record:
            lines.asked = record["asked"]
        elif "listens" in record:
            lines.listens = True
        else:
            lines.reported.add(StepId(record["step"]))


def _restore_checkpoints(record: RunRecord, lines: _Lines) -> None:
    record.listens = lines.listens
    record.next_command = StepId(min(CHECKPOINT_STEP, *(step_id - 1 for step_id in lines.states), 0))
    if lines.asked is not None:
        deadline = lines.asked["deadline"]
        request, reason = lines.asked["request"], lines.asked["reason"]
        record.asked = Ask(record.key, request, reason, inf if deadline is None else deadline)
    for name, (made, answers) in lines.made.items():
        record.newest = made
        if name not in lines.said:
            record.unsaid[name] = CheckpointMade(record.key, made, answers)


def exit_from_json(value: dict[str, Any]) -> Exit:
    return Exit(
        exit_code=int(value["exit_code"]),
        exit_signal=int(value["exit_signal"]),
        time=float(value["time"]),
        launch_failed=bool(value["launch_failed"]),
        reason=str(value["reason"]),
        node_lost=bool(value.get("node_lost")),
    )
