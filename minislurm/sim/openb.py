"""Alibaba's openb trace: nodes with GPUs of several models, pods that may share a GPU.

Source: Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023. Its evaluation fills a cluster: the pods in a drawn order, then pods drawn
again until the demand passes the GPUs there are; one submission at a time, nothing departs, and what does
not fit is dropped.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import ConfigurationError
from minislurm.domain.ids import NodeName
from minislurm.domain.node import NodeSpec
from minislurm.domain.resources import GpuGroup
from minislurm.sim.cluster_file import of_nodes
from minislurm.sim.trace import LARGEST, LONGEST_S, Reading, TraceError, TraceJob, Workload

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
#: A whole GPU, and a whole CPU, in thousandths.
WHOLE = 1000


def is_pod_list(header: str) -> bool:
    """Does a file that begins with this line list openb's pods?"""
    return set(_POD_COLUMNS) <= {cell.strip() for cell in header.split(",")}


def cluster(path: Path, *, cpu_parts: int = 1) -> Configuration:
    """The nodes of a node list, in its order; a CPU counts as so many. Raises ConfigurationError."""
    nodes = []
    try:
        for number, row in _rows(Reading(path), _NODE_COLUMNS):
            if isinstance(row, str):
                raise TraceError(f"{path}:{number}: {row}")
            nodes.append(_node(path, number, row, cpu_parts))
    except TraceError as error:
        raise ConfigurationError(str(error)) from None
    if not nodes:
        raise ConfigurationError(f"{path}: lists no nodes")
    return of_nodes(nodes)


def _node(path: Path, number: int, row: Mapping[str, str], cpu_parts: int) -> NodeSpec:
    try:
        cpus, memory_mib = int(row["cpu_milli"]) * cpu_parts // WHOLE, int(row["memory_mib"])
        gpus = int(row["gpu"] or 0)
    except ValueError:
        raise TraceError(f"{path}:{number}: cpu_milli, memory_mib and gpu must be whole numbers") from None
    groups = (GpuGroup(gpus, row["model"]),) if gpus else ()
    return NodeSpec(NodeName(row["sn"]), cpus=cpus, memory_mib=memory_mib, gpus=groups, gpus_declared=True)


def read(path: Path, *, lenient: bool = False, cpu_parts: int = 1) -> Workload:
    """A pod list, with the times of its pods. CPUs are whole, 3152 thousandths count as 4, unless a CPU
    counts as several parts. Raises TraceError."""
    reading = Reading(path, lenient)
    jobs = []
    for number, row in _rows(reading, _POD_COLUMNS):
        job = row if isinstance(row, str) else _pod(row, cpu_parts)
        if isinstance(job, TraceJob):
            jobs.append(job)
        else:
            reading.bad(number, job)
    return Workload.of(reading, jobs)


def _pod(row: Mapping[str, str], cpu_parts: int) -> TraceJob | str:
    """The pod as a job, or why the row is none."""
    numbers = {}
    for column in ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"):
        try:
            numbers[column] = int(row[column])
        except ValueError:
            return f"{column} is not a whole number: {row[column]}"
        if not 0 <= numbers[column] <= LARGEST:
            return f"{column} is {'below 0' if numbers[column] < 0 else 'too large'}: {row[column]}"
    share = numbers["gpu_milli"] if numbers["num_gpu"] == 1 and numbers["gpu_milli"] < WHOLE else 0
    times = []
    for column in ("creation_time", "deletion_time"):
        seconds = _seconds(row.get(column))
        if seconds is None:
            return f"{column} is not a number of seconds: {row[column]}"
        times.append(seconds)
    submit_s = times[0]
    return TraceJob(
        name=row["name"],
        submit_s=submit_s,
        run_s=max(0.0, times[1] - submit_s),
        cpus=-(-numbers["cpu_milli"] * cpu_parts // WHOLE),
        memory_mib=numbers["memory_mib"],
        gpus=0 if share else numbers["num_gpu"],
        gpu_share_milli=share,
        gpu_type=row["gpu_spec"],
        nodes=1,
    )


def _seconds(text: str | None) -> float | None:
    """0 where the list does not say; None: it is no time."""
    try:
        seconds = float(text or 0)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_S else None


def _rows(reading: Reading, wanted: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str] | str]]:
    rows = reading.rows(reading.lines())
    _, header = next(rows, (1, {}))
    missing = [column for column in wanted if column not in header]
    if missing:
        raise TraceError(f"{reading.path}:1: the header has no column {', '.join(missing)}")
    yield from rows


def demand_milli(job: TraceJob) -> int:
    """GPU demand in thousandths of a GPU."""
    return job.gpu_share_milli or job.gpus * WHOLE


def arrivals(pods: Sequence[TraceJob], capacity_milli: int, seed: int, factor: float = 1.3) -> list[TraceJob]:
    """The pods in the order drawn by `seed`, then uniformly drawn ones until their GPU demand has reached
    `factor` times the capacity."""
    draw = random.Random(seed)
    order = list(pods)
    draw.shuffle(order)
    demand, most = sum(map(demand_milli, order)), capacity_milli * factor
    if not demand:
        raise TraceError("no pod asks for a GPU")
    while demand < most:
        again = draw.choice(pods)
        order.append(again)
        demand += demand_milli(again)
    return order
