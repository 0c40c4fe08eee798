"""The files of a run: their names, and atomic small writes. Imported by the forker: nothing heavy.

    SPOOL/lock                    held by the daemon
    SPOOL/runs/job00012.1/        job 12, run 1
        prepare.pb                the PrepareRun command without the script
        run.json                  phase and exit, written by the daemon
        slurm_script              the batch script; what $0 is, as in Slurm
        STEP.state                the shepherd's pid and start time; written before anything runs
        STEP.exit                 how the step ended; written before the shepherd says so
        STEP.socket               where the shepherd listens
    STEP is "batch" or the step's number.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCRIPT = "slurm_script"
PREPARE = "prepare.pb"
RUN = "run.json"
STATE = ".state"
EXIT = ".exit"
SOCKET = ".socket"


def run_directory(spool: str, job_id: int, run: int) -> str:
    return f"{spool}/runs/job{job_id:05d}.{run}"


def run_key(directory_name: str) -> tuple[int, int] | None:
    """(job id, run) of a directory below `runs`; None for anything else."""
    job, _, run = directory_name.removeprefix("job").partition(".")
    return (int(job), int(run)) if job.isdigit() and run.isdigit() else None


def step_prefix(step_id: int) -> str:
    return "batch" if step_id < 0 else str(step_id)


def step_of_prefix(prefix: str) -> int | None:
    if prefix == "batch":
        return -1
    return int(prefix) if prefix.isdigit() else None


def write_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Whole or not at all: a crash leaves the old file or the new one. Not synced: after a reboot nothing
    of it counts."""
    temporary = path + ".new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
    os.rename(temporary, path)


def write_json(path: str, value: dict[str, Any]) -> None:
    write_file(path, json.dumps(value, separators=(",", ":")).encode())


def read_json(path: str) -> dict[str, Any] | None:
    """None where there is no such file, or no whole one."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
