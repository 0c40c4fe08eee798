"""The benchmarks: each works on one running cluster and returns its figures by label."""

from __future__ import annotations

import contextlib
import os
import select
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from msgspec import Struct
from system import CPUS, NODES, Cluster, Work, await_true


class Scale(Struct, frozen=True):
    #: Repetitions of short measurements.
    repeat: int = 20
    pending: int = 10_000
    running: int = 100
    kills: int = 20


class Figure(Struct, frozen=True):
    unit: str
    target: str = ""


class Benchmark(Struct, frozen=True):
    title: str
    measure: Callable[[Cluster, Scale], dict[str, float]]
    figures: dict[str, Figure]


# Idle cluster: from a submission to its script's first line

FIRST_LINE = "submit to the script's first line, idle cluster"
FIRST_LINE_BEST = "the same, the best"


def first_line(cluster: Cluster, scale: Scale) -> dict[str, float]:
    """Without the command's own start-up. The script writes to a named pipe that this process reads."""
    with tempfile.TemporaryDirectory(prefix="first-line-") as folder, _pipe(folder, "pipe") as reading:
        work = Work(script=f"#!/bin/sh\necho > {folder}/pipe\n")
        cluster.submit(work)  # the first one also warms up
        _await_readable(reading)
        times = []
        for _ in range(scale.repeat):
            cluster.wait_until_idle()
            time.sleep(0.2)
            start = time.perf_counter()
            cluster.submit(work)
            _await_readable(reading)
            times.append(time.perf_counter() - start - cluster.submission_overhead_s)
    return {FIRST_LINE: 1000 * statistics.median(times), FIRST_LINE_BEST: 1000 * min(times)}


@contextlib.contextmanager
def _pipe(folder: str, name: str) -> Iterator[int]:
    """A named pipe that this process reads and scripts write to."""
    path = Path(folder) / name
    os.mkfifo(path)
    reading = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield reading
    finally:
        os.close(reading)


def _await_readable(descriptor: int, timeout_s: float = 60) -> None:
    """Until a line has come; takes it."""
    ready, _, _ = select.select([descriptor], [], [], timeout_s)
    if not ready:
        raise TimeoutError(f"the script did not run within {timeout_s:g} s")
    os.read(descriptor, 1)


def _drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(descriptor, 4096)


# Throughput

ARRAY = "1000-task array of `true`, to the last completion"


def array(cluster: Cluster, scale: Scale) -> dict[str, float]:
    start = time.perf_counter()
    cluster.wait_for(cluster.submit(Work(tasks=1000)))
    return {ARRAY: 1000 / (time.perf_counter() - start)}


ONE_BY_ONE = "accepted submissions, one after the other"
MANY = "accepted submissions, pipelined (Slurm: 4 loops of sbatch)"


def submissions(cluster: Cluster, scale: Scale) -> dict[str, float]:
    """1000 separate jobs; they are held, so that only acceptance is measured."""
    work = Work(held=True)
    start = time.perf_counter()
    for _ in range(1000):
        cluster.submit(work)
    one_by_one = 1000 / (time.perf_counter() - start)
    start = time.perf_counter()
    cluster.submit_many(work, 1000)
    many = 1000 / (time.perf_counter() - start)
    assert cluster.pending_and_running()[0] == 2000, "some submissions are missing"
    return {ONE_BY_ONE: one_by_one, MANY: many}


# srun

SRUN = "srun true"
SRUN_ALL = f"srun -N{NODES} -n{NODES} true"


def srun(cluster: Cluster, scale: Scale) -> dict[str, float]:
    cluster.run("srun", "true")
    figures = {}
    for label, words in ((SRUN, ("srun", "true")), (SRUN_ALL, tuple(SRUN_ALL.split()))):
        times = []
        for _ in range(scale.repeat):
            times.append(cluster.run(*words))
            cluster.wait_until_idle()
        figures[label] = 1000 * statistics.median(times)
    return figures


# What idle daemons cost

IDLE_S = 20.0
CONTROLLER_CPU, CONTROLLER_MEMORY = "idle controller: CPU", "idle controller: memory"
NODE_CPU, NODE_MEMORY = "idle node daemon: CPU (median of them)", "idle node daemon: memory (median of them)"


def idle(cluster: Cluster, scale: Scale) -> dict[str, float]:
    time.sleep(3)
    daemons = cluster.daemons()
    families = {kind: [_family(pid) for pid in pids] for kind, pids in daemons.items()}
    before = {kind: [_cpu_s(family) for family in members] for kind, members in families.items()}
    start = time.perf_counter()
    time.sleep(IDLE_S)
    took = time.perf_counter() - start
    percent = {
        kind: statistics.median(
            100 * (_cpu_s(family) - earlier) / took
            for family, earlier in zip(members, before[kind], strict=True)
        )
        for kind, members in families.items()
        if members
    }
    memory = {
        kind: statistics.median(sum(_memory_mb(process) for process in family) for family in members)
        for kind, members in families.items()
        if members
    }
    return {
        CONTROLLER_CPU: percent["controller"],
        NODE_CPU: percent["node"],
        CONTROLLER_MEMORY: memory["controller"],
        NODE_MEMORY: memory["node"],
    }


def _family(pid: int) -> list[psutil.Process]:
    """A daemon and the helpers it keeps."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _cpu_s(family: list[psutil.Process]) -> float:
    total = 0.0
    for process in family:
        times = process.cpu_times()
        total += times.user + times.system
    return total


def _memory_mb(process: psutil.Process) -> float:
    """Resident, without what it shares with its forks: the sum over a family counts nothing twice."""
    try:
        return float(process.memory_full_info().pss) / 1e6
    except psutil.AccessDenied:
        return float(process.memory_info().rss) / 1e6


# A long queue

MEMORY = "controller memory with {pending} pending jobs"
RESTART = "restart with {pending} pending and 100 running, to the first answer"
SURVIVORS = "jobs missing after that restart (kill -9)"
#: Slurm saves its state within five seconds of a change.
_SAVED_S = 6.0


def queue(cluster: Cluster, scale: Scale) -> dict[str, float]:
    assert scale.running <= NODES * CPUS
    sleeper = Work(script="#!/bin/sh\nexec sleep 3600\n")
    for _ in range(scale.running):
        cluster.submit(sleeper)
    await_true(lambda: cluster.pending_and_running() == (0, scale.running), 120, "the running jobs", 0.2)
    cluster.submit_many(Work(whole_cluster=True), scale.pending)
    await_true(lambda: cluster.pending_and_running()[0] == scale.pending, 120, "the pending jobs", 0.5)
    time.sleep(_SAVED_S)
    (controller,) = cluster.daemons()["controller"]
    memory = float(psutil.Process(controller).memory_info().rss) / 1e6
    cluster.kill_controller()
    start = time.perf_counter()
    cluster.start_controller()
    await_true(cluster.answers, 60, "the controller's answer", 0.005)
    restart = time.perf_counter() - start
    counts = cluster.pending_and_running()
    missing = scale.pending + scale.running - sum(counts)
    return {MEMORY: memory, RESTART: restart, SURVIVORS: missing}


# Preemption

URGENT = f"urgent gang of {NODES} nodes to its first line, victims save for 1 s"
AGAIN = "the urgent job's end to a victim's first line"
#: A real Slurm looks at requeued jobs again after two minutes.
_AGAIN_S = 240


def preemption(cluster: Cluster, scale: Scale) -> dict[str, float]:
    """Every node runs a job that saves for a second when it is told to go. Medians."""
    repeat = min(scale.repeat, 5) if cluster.submission_overhead_s == 0 else 1
    waited, back = [], []
    with (
        tempfile.TemporaryDirectory(prefix="preemption-") as folder,
        _pipe(folder, "v") as victims,
        _pipe(folder, "u") as urgent,
    ):
        saving = f"trap 'sleep 1; exit 0' TERM; echo > {folder}/v; while :; do sleep 0.05; done"
        for _ in range(repeat):
            for _ in range(NODES):
                cluster.submit(Work(script=f"#!/bin/bash\n{saving}\n", whole_node=True))
                _await_readable(victims)
            time.sleep(2)
            first = Work(f"#!/bin/sh\necho > {folder}/u\n", whole_cluster=True, partition="urgent")
            start = time.perf_counter()
            cluster.submit(first)
            _await_readable(urgent)
            started = time.perf_counter()
            waited.append(started - start - cluster.submission_overhead_s)
            _await_readable(victims, _AGAIN_S)
            back.append(time.perf_counter() - started)
            cluster.cancel_all()
            _drain(victims)
    return {URGENT: statistics.median(waited), AGAIN: statistics.median(back)}


# Durability

LOST = "acknowledged submissions lost by kill -9 right after 200 of them"
KILLS = "kills"


def durability(cluster: Cluster, scale: Scale) -> dict[str, float]:
    """The sum over all kills."""
    lost = 0
    # Slurm loses nearly all, each time; five kills show it.
    kills = scale.kills if cluster.submission_overhead_s == 0 else min(scale.kills, 5)
    for _ in range(kills):
        ids = [cluster.submit(Work(held=True)) for _ in range(200)]
        cluster.kill_controller()
        cluster.start_controller()
        await_true(cluster.answers, 60, "the controller's answer", 0.02)
        lost += len(ids) - cluster.known(ids)
    return {LOST: lost, KILLS: kills}


BENCHMARKS: dict[str, Benchmark] = {
    "first-line": Benchmark(
        "submission to first line",
        first_line,
        {FIRST_LINE: Figure("ms", "<= 50"), FIRST_LINE_BEST: Figure("ms")},
    ),
    "array": Benchmark("array throughput", array, {ARRAY: Figure("jobs/s", ">= 165")}),
    "submissions": Benchmark(
        "submission rate", submissions, {ONE_BY_ONE: Figure("jobs/s"), MANY: Figure("jobs/s", ">= 1000")}
    ),
    "srun": Benchmark("srun", srun, {SRUN: Figure("ms"), SRUN_ALL: Figure("ms")}),
    "idle": Benchmark(
        "idle daemons",
        idle,
        {
            CONTROLLER_CPU: Figure("% of a core", "<= 0.5"),
            NODE_CPU: Figure("% of a core", "<= 0.5"),
            CONTROLLER_MEMORY: Figure("MB"),
            NODE_MEMORY: Figure("MB"),
        },
    ),
    "queue": Benchmark(
        "a long queue",
        queue,
        {MEMORY: Figure("MB", "<= 120"), RESTART: Figure("s", "<= 1.0"), SURVIVORS: Figure("jobs", "<= 0")},
    ),
    "preemption": Benchmark(
        "urgent work", preemption, {URGENT: Figure("s", "<= 1.5"), AGAIN: Figure("s", "<= 1.0")}
    ),
    "durability": Benchmark("durability", durability, {LOST: Figure("jobs", "<= 0"), KILLS: Figure("")}),
}
