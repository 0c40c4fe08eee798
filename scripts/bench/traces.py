#!/usr/bin/env python3
"""Public traces through the simulator, and the published results beside ours.

The folder holds KTH-SP2-filtered-predictsim.swf.gz (Parallel Workloads Archive, as filtered by Gaussier et
al., SC'15), openb_node_list_gpu_node.csv and openb_pod_list_default.csv.gz (Weng et al., USENIX ATC'23),
philly.csv.gz and philly_vc.csv (Jeon et al., USENIX ATC'19; the figures are an independent replay's).
Seconds are of CPU time, of one core.
"""

from __future__ import annotations

import argparse
import csv
import gc
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from minislurm.domain.configuration import Configuration, Partition  # noqa: E402
from minislurm.domain.ids import NodeName  # noqa: E402
from minislurm.domain.node import NodeSpec  # noqa: E402
from minislurm.domain.resources import GpuGroup  # noqa: E402
from minislurm.sim import cluster_file, openb, policy, swf, table  # noqa: E402
from minislurm.sim.metrics import measure  # noqa: E402
from minislurm.sim.replay import replay  # noqa: E402

_KTH = "KTH-SP2-filtered-predictsim.swf.gz"
_PHILLY, _ACCOUNTS = "philly.csv.gz", "philly_vc.csv"
_PODS, _NODES = "openb_pod_list_default.csv.gz", "openb_node_list_gpu_node.csv"


class Row(Struct, frozen=True):
    what: str
    published: float
    ours: float
    #: Allowed distance: a share of the published value, or points below it.
    tolerance: float
    seconds: float
    in_points: bool = False

    @property
    def is_met(self) -> bool:
        if self.in_points:
            return self.ours >= self.published - self.tolerance
        return abs(self.ours / self.published - 1) <= self.tolerance

    def cells(self) -> list[str]:
        off = self.ours - self.published
        distance = f"{off:+.2f} points" if self.in_points else f"{100 * off / self.published:+.3f} %"
        met = "met" if self.is_met else "MISSED"
        return [self.what, f"{self.published:g}", f"{self.ours:.3f}", distance, f"{self.seconds:.1f} s", met]


def kth(folder: Path) -> Iterator[Row]:
    log = swf.read(folder / _KTH)
    for name, exact, published, turnaround, tolerance in (
        ("easy", False, 92.577, 15_696.8, 0.005),
        ("easy", True, 71.722, 15_187.6, 0.001),
        ("easy-sjf", False, 69.405, 14_764.0, 0.005),
        ("easy-sjf", True, 49.848, 14_295.9, 0.001),
    ):
        configuration = policy.named(name).on(cluster_file.flat("100"))
        begun = time.process_time()
        metrics = measure(replay(log, configuration, exact=exact))
        seconds = time.process_time() - begun
        what = f"KTH-SP2, {name}, {'exact run times' if exact else 'estimates'}"
        yield Row(f"{what}: bounded slowdown", published, metrics.bounded_slowdown.mean, tolerance, seconds)
        yield Row(f"{what}: turnaround (s)", turnaround, metrics.turnaround_s.mean, tolerance, seconds)


def openb_fill(folder: Path, seeds: int) -> Iterator[Row]:
    from minislurm.sim.packing import fill

    pods = openb.read(folder / _PODS, cpu_parts=openb.WHOLE).jobs
    cluster = openb.cluster(folder / _NODES, cpu_parts=openb.WHOLE)
    # The last is ours: to be better than FGD.
    for placement, published, tolerance in (
        ("best-fit", 93.08, 0.3),
        ("fgd", 95.39, 0.39),
        ("fgd-balanced", 95.39, 0.0),
    ):
        configuration = policy.with_placement(cluster, placement)
        begun = time.process_time()
        reached = fmean(fill(configuration, pods, seed, 1.3).at_end for seed in range(seeds))
        seconds = (time.process_time() - begun) / seeds
        what = f"openb default, {placement}, mean of {seeds} seeds: allocated GPUs (%)"
        yield Row(what, published, 100 * reached, tolerance, seconds, in_points=True)


def philly(folder: Path) -> Iterator[Row]:
    """October and November 2017, each account on a part of its nodes. Greedy skipping, which the published
    table has as well, no policy of the scheduler does: behind a blocked job it plans for that one."""
    begin, end = (datetime(2017, month, 1, tzinfo=timezone.utc).timestamp() for month in (10, 12))
    with open(folder / _ACCOUNTS, encoding="utf-8", newline="") as file:
        nodes_of = {row["vc"]: int(row["node num"]) for row in csv.DictReader(file)}
    trace = table.read(folder / _PHILLY)
    jobs = [job for job in trace.jobs if begin <= job.submit_s < end and job.account in nodes_of]
    workload = replace(trace, jobs=tuple(replace(job, partition=job.account) for job in jobs))
    for factor, name, turnaround, wait, tolerance in (
        (0.4, "fifo", 29_358, 17_878, 0.01),
        (0.4, "sjf", 15_449, 3_969, 0.001),
        (0.25, "fifo", 161_282, 149_802, 0.04),
        (0.25, "sjf", 25_899, 14_418, 0.001),
    ):
        configuration = policy.named(name).on(_isolated(nodes_of, factor))
        begun = time.process_time()
        metrics = measure(replay(workload, configuration, exact=name == "sjf"))
        seconds = time.process_time() - begun
        what = f"Philly, {len(jobs)} jobs, nodes x {factor:g}, {name}"
        yield Row(f"{what}: turnaround (s)", turnaround, metrics.turnaround_s.mean, tolerance, seconds)
        yield Row(f"{what}: wait (s)", wait, metrics.wait_s.mean, tolerance, seconds)


def _isolated(nodes_of: Mapping[str, int], factor: float) -> Configuration:
    """A partition for each account, of so many of its nodes; eight GPUs each."""
    nodes, partitions = list[NodeSpec](), list[Partition]()
    for account, count in nodes_of.items():
        names = tuple(NodeName(f"{account}-{i}") for i in range(max(4, round(count * factor))))
        nodes += [NodeSpec(name, 64, 0, (GpuGroup(8),), gpus_declared=True) for name in names]
        partitions.append(Partition(account, nodes=names))
    return Configuration(nodes=tuple(nodes), partitions=tuple(partitions))


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench/traces", description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="where the traces lie")
    parser.add_argument("--seeds", type=int, default=10, help="runs of openb's evaluation (10)")
    parser.add_argument("--only", choices=["kth", "openb", "philly"], help="one of them")
    arguments = parser.parse_args()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    missed = False
    version = platform.python_version()
    print(f"Python {version}: {_calls_a_second() / 1e6:.1f} million calls a second on this machine just now")
    print("what; published; ours; off by; CPU time", flush=True)
    for row in _rows(arguments):
        print("; ".join(row.cells()), flush=True)
        missed |= not row.is_met
    return int(missed)


def _calls_a_second(count: int = 3_000_000) -> float:
    """Of an empty function, of CPU time: interpreters of one version differ by half, as they were built, and
    shared machines by as much from one hour to the next."""

    def nothing() -> None:
        pass

    begun = time.process_time()
    for _ in range(count):
        nothing()
    return count / (time.process_time() - begun)


def _rows(arguments: argparse.Namespace) -> Iterator[Row]:
    for name, needed in (("kth", [_KTH]), ("openb", [_PODS, _NODES]), ("philly", [_PHILLY, _ACCOUNTS])):
        absent = [file for file in needed if not (arguments.folder / file).exists()]
        if arguments.only not in (None, name):
            continue
        if absent:
            print(f"{name}: left out, {arguments.folder / absent[0]} is not there", file=sys.stderr)
        elif name == "kth":
            yield from kth(arguments.folder)
        elif name == "philly":
            yield from philly(arguments.folder)
        else:
            yield from openb_fill(arguments.folder, arguments.seeds)


if __name__ == "__main__":
    raise SystemExit(main())
