"""Allocated GPUs on Alibaba's openb trace by placement strategy, through one pass of the scheduler.

The set-up of Weng et al., USENIX ATC'23: the pods in random order, more drawn until the demand is 1.3 times
the GPUs; one by one, nothing departs, what does not fit is dropped. Prints the mean of several seeds beside
the published figure.

    python -m scripts.bench.placement --traces FOLDER [--seeds 10] [--demand 1.3] [fgd best-fit …]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from minislurm.domain.configuration import Partition, SchedulerSection
from minislurm.domain.ids import Bitmap, JobId, NodeName
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.topology import Topology
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.fragmentation import TypicalRequest, most_frequent
from minislurm.scheduling.model import NodeAvailability, QueuedJob, RequestClass, Snapshot

PUBLISHED = {"best-fit": 93.08, "fgd": 95.39}
#: All amounts in the trace are multiples of two thousandths of a core: these are counted as CPUs.
CPU_MILLI = 2


class Pod(NamedTuple):
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    gpu_type: str

    def request(self) -> ResourceRequest:
        request = ResourceRequest(
            cpus_per_task=self.cpu_milli // CPU_MILLI,
            memory_per_node_mib=self.memory_mib,
            gpu_type=self.gpu_type,
        )
        if self.gpus == 1 and self.gpu_milli < 1000:
            return replace(request, gpu_share_milli=self.gpu_milli)
        return replace(request, gpus_per_node=self.gpus)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("strategies", nargs="*", default=["best-fit", "fgd", "fgd-balanced"])
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--demand", type=float, default=1.3)
    options = parser.parse_args()
    nodes = read_nodes(options.traces / "openb_node_list_gpu_node.csv")
    pods = read_pods(options.traces / "openb_pod_list_default.csv.gz")
    for name in options.strategies:
        shares, seconds = [], []
        for seed in range(options.seeds):
            snapshot = a_snapshot(nodes, pods, seed, options.demand, name)
            start = time.process_time()
            shares.append(allocated(snapshot))
            seconds.append(time.process_time() - start)
        deviation = statistics.stdev(shares) if len(shares) > 1 else 0.0
        published = f", published {PUBLISHED[name]}" if name in PUBLISHED else ""
        print(
            f"{name}: {statistics.mean(shares):.2f} % of the GPUs (standard deviation {deviation:.2f}), "
            f"{statistics.mean(seconds):.1f} s a seed{published}",
            flush=True,
        )


def read_nodes(path: Path) -> list[NodeAvailability]:
    with path.open() as file:
        return [_node(row) for row in csv.DictReader(file)]


def _node(row: dict[str, str]) -> NodeAvailability:
    cpus, memory_mib = int(row["cpu_milli"]) // CPU_MILLI, int(row["memory_mib"])
    gpus = Bitmap((1 << int(row["gpu"])) - 1)
    return NodeAvailability(
        NodeName(row["sn"]), True, cpus, memory_mib, Bitmap((1 << cpus) - 1), memory_mib, gpus, gpus,
        {row["model"]: gpus},
    )  # fmt: skip


def read_pods(path: Path) -> list[Pod]:
    with gzip.open(path, "rt") as file:
        return [
            Pod(
                int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]), int(row["gpu_milli"]),
                row["gpu_spec"],
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def arrivals(pods: Sequence[Pod], seed: int, milli: float) -> Iterator[Pod]:
    """All pods in random order, then further ones until they ask for so many thousandths of GPUs."""
    source = random.Random(seed)
    order = list(pods)
    source.shuffle(order)
    yield from order
    asked = sum(pod.gpus * pod.gpu_milli for pod in order)
    while asked < milli:
        pod = source.choice(pods)
        asked += pod.gpus * pod.gpu_milli
        yield pod


def a_snapshot(
    nodes: Sequence[NodeAvailability], pods: Sequence[Pod], seed: int, demand: float, placement: str
) -> Snapshot:
    """One queue in the order of arrival. Jobs without a time limit that do not fit get no reservation, so
    nobody waits for them: they are dropped."""
    partition = Partition("all", nodes=tuple(node.name for node in nodes))
    members: dict[Pod, list[QueuedJob]] = {}
    capacity = 1000.0 * sum(node.gpus.bit_count() for node in nodes)
    for number, pod in enumerate(arrivals(pods, seed, demand * capacity), start=1):
        members.setdefault(pod, []).append(QueuedJob(JobId(number), float(number), float(number)))
    classes = [RequestClass(pod.request(), partition, 0.0, jobs=jobs) for pod, jobs in members.items()]
    settings = SchedulerSection(placement=placement, backfill_depth=len(pods), priority_weight_age=0)
    return Snapshot(0.0, nodes, (), classes, Topology(), settings, typical=typical_of(pods))


def typical_of(pods: Sequence[Pod]) -> tuple[TypicalRequest, ...]:
    """The published list: CPUs, GPUs and models, most frequent first, 95 % of all pods."""
    counts = Counter(pod._replace(memory_mib=0) for pod in pods)
    chosen = most_frequent(
        TypicalRequest(float(n), pod.cpu_milli // CPU_MILLI, pod.gpus, pod.gpu_milli or 1000, pod.gpu_type)
        for pod, n in counts.items()
    )
    total = sum(request.weight for request in chosen)
    return tuple(replace(request, weight=request.weight / total) for request in chosen)


def allocated(snapshot: Snapshot) -> float:
    """Per cent of all GPUs."""
    parts = (part for placement in schedule(snapshot).placements for part in placement.allocation)
    return sum(part.gpu_milli for part in parts) / 10 / sum(node.gpus.bit_count() for node in snapshot.nodes)


if __name__ == "__main__":
    main()
