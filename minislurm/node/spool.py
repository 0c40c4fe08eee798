"""The spool directory: names, and the log. Imported by the forker: nothing heavy.

    SPOOL/lock                            held by the daemon
    SPOOL/boot                            which boot of the host the runs belong to
    SPOOL/log.3                           what became of the runs, one JSON object a line, oldest first
    SPOOL/runs/job00012.1/slurm_script    the batch script of job 12, run 1: what $0 is, as in Slurm
    SPOOL/runs/job00012.1/reports/        the user's: reports of checkpoints that no daemon was there to take
    SPOOL/checkpoint.sock                 where jobs' processes speak of checkpoints

Lines of the log, by the daemon:

    {"run": "12.1", "prepare": …}         the PrepareRun command without the script (base64)
    {"run": "12.1", "phase": "RUNNING", "time": …}      also CLEAN
    {"run": "12.1", "step": 0, "reported": true}        the controller knows of its end
    {"run": "12.1", "made": …, "answers": …}            a checkpoint, before the controller hears of it
    {"run": "12.1", "said": path, "time": …}            the controller knows of it
    {"run": "12.1", "asked": …}                         a checkpoint is wanted; null: no more
    {"run": "12.1", "listens": true}                    some process wants to know of that

and by the shepherd of a step (-1: the batch script):

    {"run": "12.1", "step": -1, "state": …}     who it is, before anything runs
    {"run": "12.1", "step": -1, "end": …}       how the step ended, before it says so

A log and not a file for each, since making and removing files costs more than the rest of a launch. A line is
one appending write: a process that is killed leaves all of it or nothing. A run without a directory is
forgotten. After a restart of the host only ends count.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCRIPT = "slurm_script"
#: Below the spool: where jobs' processes speak of checkpoints.
CHECKPOINT_SOCKET = "checkpoint.sock"


def run_directory(spool: str, job_id: int, run: int) -> str:
    return f"{spool}/runs/job{job_id:05d}.{run}"


def reports_directory(spool: str, job_id: int, run: int) -> str:
    """The user's own: reports of checkpoints that were made while no daemon was there."""
    return f"{run_directory(spool, job_id, run)}/reports"


def run_key(directory_name: str) -> tuple[int, int] | None:
    """(job id, run) of a directory below `runs`; None for anything else."""
    job, _, run = directory_name.removeprefix("job").partition(".")
    return (int(job), int(run)) if job.isdigit() and run.isdigit() else None


def open_log(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def append(descriptor: int, record: dict[str, Any]) -> None:
    """Raises OSError, also for a disk that took only a part of it."""
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    if os.write(descriptor, line) != len(line):
        raise OSError(28, os.strerror(28))


def read_log(path: str) -> list[dict[str, Any]]:
    """All lines that are whole."""
    records: list[dict[str, Any]] = []
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return records
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the disk was full, or the host crashed
        if isinstance(record, dict) and "run" in record:
            records.append(record)
    return records


def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
