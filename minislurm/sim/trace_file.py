"""A trace by its kind: a controller's journal by its first bytes, SWF by the file's name, openb's pod list by
its header, else a table."""

from __future__ import annotations

from pathlib import Path

from minislurm.sim import openb, swf, table
from minislurm.sim.trace import Reading, TraceError, Workload

_MAGIC = b"SQLite format 3\0"


def read(path: Path, *, lenient: bool = False) -> Workload:
    """Raises TraceError."""
    if is_journal(path):
        from minislurm.sim import journal_trace

        workload = journal_trace.read(path)
    elif path.name.removesuffix(".gz").endswith(".swf"):
        workload = swf.read(path, lenient=lenient)
    elif openb.is_pod_list(next((line for _, line in Reading(path).lines()), "")):
        workload = openb.read(path, lenient=lenient)
    else:
        workload = table.read(path, lenient=lenient)
    if not workload.jobs:
        raise TraceError(f"{path}: holds no job")
    return workload


def is_journal(path: Path) -> bool:
    """By its first bytes: any SQLite database."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
