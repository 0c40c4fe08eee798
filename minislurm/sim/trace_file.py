"""A trace by its kind: a controller's journal by its first bytes, SWF by the file's name, openb's pod list by
its header, else a table."""

from __future__ import annotations

from collections.abc import Sequence
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
    elif openb.is_pod_list(next((line for _, line in Reading(path, lenient=True).lines()), "")):
        workload = openb.read(path, lenient=lenient)
    else:
        workload = table.read(path, lenient=lenient)
    if not workload.jobs:
        skipped = f" ({skipped_lines(workload.skipped)})" if workload.skipped else ""
        raise TraceError(f"{path}: holds no job{skipped}")
    return workload


def skipped_lines(skipped: Sequence[str]) -> str:
    """How many, and the first of them with its reason."""
    if len(skipped) == 1:
        return f"1 line skipped: {skipped[0]}"
    return f"{len(skipped)} lines skipped, the first: {skipped[0]}"


def is_journal(path: Path) -> bool:
    """By its first bytes: any SQLite database."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
