"""Runs on disk: what a daemon that is restarted needs to know of them (names: spool.py)."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from dataclasses import dataclass
from typing import Any

from minislurm.domain.errors import ConfigurationError
from minislurm.domain.ids import JobId, RunNumber, StepId
from minislurm.node import spool
from minislurm.node.core import RunRecord
from minislurm.node.messages import Exit, Phase, RunKey
from minislurm.node.wire import prepare
from minislurm.rpc.gen import node_pb2

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run that an earlier daemon left. `steps`: those with files of a shepherd."""

    record: RunRecord
    environment: tuple[bytes, ...]
    steps: tuple[StepId, ...]
    boot_id: str


class RunFiles:
    """The spool directory of one daemon, locked against a second one. Raises ConfigurationError."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        try:
            os.makedirs(f"{self.directory}/runs", mode=0o755, exist_ok=True)
            self._lock = os.open(f"{self.directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(f"{self.directory}: another minislurmd uses this spool directory") from error
        except OSError as error:
            raise ConfigurationError(f"node.spool_dir = {directory}: {error.strerror}") from error
        self.boot_id = spool.boot_id()

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
            spool.write_file(script, message.script, 0o700)
            os.chmod(script, 0o700)
            if os.geteuid() == 0:
                os.chown(script, message.job.spec.user_id, message.job.spec.group_id)
        without_script = node_pb2.PrepareRun()
        without_script.CopyFrom(message)
        without_script.ClearField("script")
        spool.write_file(f"{directory}/{spool.PREPARE}", without_script.SerializeToString())

    def save(self, record: RunRecord) -> None:
        exit = record.exit
        value: dict[str, Any] = {
            "phase": record.phase.value,
            "start_time": record.start_time,
            "end_time": record.end_time,
            "boot_id": self.boot_id,
        }
        if exit is not None:
            value["exit"] = exit_to_json(exit)
        spool.write_json(f"{self.path(record.key)}/{spool.RUN}", value)

    def remove(self, key: RunKey) -> None:
        shutil.rmtree(self.path(key), ignore_errors=True)

    def remove_step(self, key: RunKey, step_id: StepId) -> None:
        prefix = f"{self.path(key)}/{spool.step_prefix(step_id)}"
        for suffix in (spool.STATE, spool.EXIT, spool.SOCKET):
            try:
                os.unlink(prefix + suffix)
            except OSError:
                pass

    def step_state(self, key: RunKey, step_id: StepId) -> dict[str, Any] | None:
        """What the step's shepherd wrote when it began."""
        return spool.read_json(f"{self.path(key)}/{spool.step_prefix(step_id)}{spool.STATE}")

    def step_exit(self, key: RunKey, step_id: StepId) -> Exit | None:
        value = spool.read_json(f"{self.path(key)}/{spool.step_prefix(step_id)}{spool.EXIT}")
        return exit_from_json(value) if value is not None else None

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
        saved = spool.read_json(f"{self.path(key)}/{spool.RUN}")
        try:
            with open(f"{self.path(key)}/{spool.PREPARE}", "rb") as file:
                message = node_pb2.PrepareRun.FromString(file.read())
        except Exception as error:  # whatever protobuf makes of a file that is not its own
            log.warning("run %s: its files cannot be read (%s)", key, error)
            return None
        if saved is None:
            return None  # PREPARE was not finished; the controller sends it again
        record = RunRecord(
            prepare(message),
            Phase(saved["phase"]),
            start_time=saved["start_time"],
            end_time=saved["end_time"],
            exit=exit_from_json(saved["exit"]) if "exit" in saved else None,
        )
        steps = {spool.step_of_prefix(name.partition(".")[0]) for name in os.listdir(self.path(key))}
        return FoundRun(
            record,
            tuple(message.environment),
            tuple(sorted(StepId(step) for step in steps if step is not None)),
            str(saved["boot_id"]),
        )


def exit_to_json(exit: Exit) -> dict[str, Any]:
    return {
        "exit_code": exit.exit_code,
        "exit_signal": exit.exit_signal,
        "time": exit.time,
        "launch_failed": exit.launch_failed,
        "reason": exit.reason,
    }


def exit_from_json(value: dict[str, Any]) -> Exit:
    return Exit(
        exit_code=int(value["exit_code"]),
        exit_signal=int(value["exit_signal"]),
        time=float(value["time"]),
        launch_failed=bool(value["launch_failed"]),
        reason=str(value["reason"]),
    )
