"""A trace by its kind: SWF by the file's name, openb's pod list by its header, else a table."""

from __future__ import annotations

from pathlib import Path

from minislurm.sim import openb, swf, table
from minislurm.sim.trace import Reading, TraceError, Workload


def read(path: Path, *, lenient: bool = False) -> Workload:
    """Raises TraceError."""
    if path.name.removesuffix(".gz").endswith(".swf"):
        workload = swf.read(path, lenient=lenient)
    elif openb.is_pod_list(next((line for _, line in Reading(path).lines()), "")):
        workload = openb.read(path, lenient=lenient)
    else:
        workload = table.read(path, lenient=lenient)
    if not workload.jobs:
        raise TraceError(f"{path}: holds no job")
    return workload
