"""Runs on disk: what a daemon that is restarted needs to know of them (names: spool.py)."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from dataclasses import dataclass
from typing import Any

from minislurm.domain.errors import ConfigurationError
from minislurm.domain.ids import BATCH_STEP, JobId, RunNumber, StepId
from minislurm.node import spool
from minislurm.node.core import RunRecord
from minislurm.node.environment import step_name
from minislurm.node.messages import Exit, Phase, RunKey
from minislurm.node.wire import prepare
from minislurm.rpc.gen import node_pb2

log = logging.getLogger(__name__)

_NAME_OF_PHASE = {
    Phase.RUNNING: "running.pb",
    Phase.PREPARED: "prepared.pb",
    Phase.CLEAN: "clean.pb",
}


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run that an earlier daemon left. `steps`: those with files of a shepherd."""

    record: RunRecord
    environment: tuple[bytes, ...]
    steps: tuple[StepId, ...]


class RunFiles:
    """The spool directory of one daemon, locked against a second one. Raises ConfigurationError."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        try:
            os.makedirs(f"{self.directory}/runs", mode=0o755, exist_ok=True)
            self._lock = os.open(f"{self.directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"{self.directory}: another minislurmd uses this spool directory"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"node.spool_dir = {directory}: {error.strerror}") from error

    def close(self) -> None:
        os.close(self._lock)

    def path(self, key: RunKey) -> str:
        return spool.run_directory(self.directory, key.job_id, key.run)

    def script(self, key: RunKey) -> str:
        return f"{self.path(key)}/{spool.SCRIPT}"

    def make(self, message: node_pb2.PrepareRun, key: RunKey) -> None:
        """Stores script and environment, for their owner's eyes only. Raises OSError."""
        directory = self.path(key)
        shutil.rmtree(directory, ignore_errors=True)
        # The user may go through it to his script, and list nothing.
        os.mkdir(directory, 0o711)
        os.chmod(directory, 0o711)
        if message.script:
            script = self.script(key)
            _write_file(script, message.script, 0o700)
            if os.geteuid() == 0:
                os.chown(script, message.job.spec.user_id, message.job.spec.group_id)
        without_script = node_pb2.PrepareRun()
        without_script.CopyFrom(message)
        without_script.ClearField("script")
        _write_file(
            f"{directory}/{_NAME_OF_PHASE[Phase.PREPARED]}", without_script.SerializeToString(), 0o600
        )

    def save(self, key: RunKey, phase: Phase) -> None:
        """Raises OSError."""
        path = self.path(key)
        for name in _NAME_OF_PHASE.values():
            try:
                os.rename(f"{path}/{name}", f"{path}/{_NAME_OF_PHASE[phase]}")
                return
            except FileNotFoundError:
                continue
        raise FileNotFoundError(f"{path} has no file of a phase")

    def remove(self, key: RunKey) -> None:
        shutil.rmtree(self.path(key), ignore_errors=True)

    def remove_step(self, key: RunKey, step_id: StepId) -> None:
        try:
            os.unlink(self._status(key, step_id))
        except OSError:
            pass

    def step_state(self, key: RunKey, step_id: StepId) -> dict[str, Any] | None:
        """What the step's shepherd wrote when it began."""
        return spool.read_status(self._status(key, step_id))[0]

    def step_exit(self, key: RunKey, step_id: StepId) -> Exit | None:
        value = spool.read_status(self._status(key, step_id))[1]
        return exit_from_json(value) if value is not None else None

    def _status(self, key: RunKey, step_id: StepId) -> str:
        return f"{self.path(key)}/{step_name(step_id)}{spool.STATUS}"

    def find(self) -> list[FoundRun]:
        """All that earlier daemons left, but for what cannot be read, which is removed."""
        found: list[FoundRun] = []
        for name in sorted(os.listdir(f"{self.directory}/runs")):
            numbers = spool.run_key(name)
            if numbers is None:
                continue
            key = RunKey(JobId(numbers[0]), RunNumber(numbers[1]))
            run = self._read(key)
            if run is None:
                self.remove(key)
            else:
                found.append(run)
        return found

    def _read(self, key: RunKey) -> FoundRun | None:
        names = os.listdir(self.path(key))
        phase = next((phase for phase, name in _NAME_OF_PHASE.items() if name in names), None)
        if phase is None:
            return None  # PREPARE was not finished; the controller sends it again
        path = f"{self.path(key)}/{_NAME_OF_PHASE[phase]}"
        try:
            with open(path, "rb") as file:
                message = node_pb2.PrepareRun.FromString(file.read())
                record = RunRecord(prepare(message), phase, exit=self.step_exit(key, BATCH_STEP))
        except Exception as error:  # whatever protobuf makes of a file that is not its own
            log.warning("run %s: its files cannot be read (%s)", key, error)
            return None
        steps = {spool.step_of_prefix(name.removesuffix(spool.STATUS)) for name in names}
        if phase is not Phase.PREPARED:
            # The rename that said so. A batch script's true start comes from its shepherd.
            record.start_time = record.end_time = os.stat(path).st_ctime
        return FoundRun(
            record,
            tuple(message.environment),
            tuple(sorted(StepId(step) for step in steps if step is not None)),
        )

    def begin_boot(self) -> None:
        """Removes what belongs to an earlier boot and had not ended: nothing of it runs, and the controller
        has it as lost."""
        path = f"{self.directory}/boot"
        try:
            with open(path) as file:
                is_same = file.read() == spool.boot_id()
        except FileNotFoundError:
            is_same = False
        if is_same:
            return
        for run in self.find():
            if run.record.phase is not Phase.CLEAN and run.record.exit is None:
                self.remove(run.record.key)
        _write_file(path, spool.boot_id().encode(), 0o600)


def _write_file(path: str, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def exit_from_json(value: dict[str, Any]) -> Exit:
    return Exit(
        exit_code=int(value["exit_code"]),
        exit_signal=int(value["exit_signal"]),
        time=float(value["time"]),
        launch_failed=bool(value["launch_failed"]),
        reason=str(value["reason"]),
    )
