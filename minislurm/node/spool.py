"""The files of a run: their names, and the status file. Imported by the forker: nothing heavy.

    SPOOL/lock                    held by the daemon
    SPOOL/boot                    which boot of the host the runs belong to
    SPOOL/runs/job00012.1/        job 12, run 1
        prepared.pb               the PrepareRun command without the script; the name says the run's phase:
                                  prepared.pb, running.pb, clean.pb
        slurm_script              the batch script; what $0 is, as in Slurm
        STEP.status               two lines of JSON by the step's shepherd: who it is, before anything runs;
                                  how the step ended, before it says so. STEP is "batch" or a number.

Few files, since making and removing one costs as much as the rest of a launch. Each line is one write, so a
process that is killed leaves all of it or nothing; after a crash of the host none of it counts.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCRIPT = "slurm_script"
STATUS = ".status"


def run_directory(spool: str, job_id: int, run: int) -> str:
    return f"{spool}/runs/job{job_id:05d}.{run}"


def run_key(directory_name: str) -> tuple[int, int] | None:
    """(job id, run) of a directory below `runs`; None for anything else."""
    job, _, run = directory_name.removeprefix("job").partition(".")
    return (int(job), int(run)) if job.isdigit() and run.isdigit() else None


def step_of_prefix(prefix: str) -> int | None:
    if prefix == "batch":
        return -1
    return int(prefix) if prefix.isdigit() else None


def open_status(path: str) -> int:
    """The descriptor of a new status file."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)


def write_status(descriptor: int, value: dict[str, Any]) -> None:
    os.write(descriptor, json.dumps(value, separators=(",", ":")).encode() + b"\n")


def read_status(path: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """(who the shepherd is, how the step ended); None for what is not there."""
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return None, None
    values = [json.loads(line) for line in lines[:-1]]
    return (values[0] if values else None), (values[1] if len(values) > 1 else None)


def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
