#!/usr/bin/env python3
"""GPU-hours lost to preemption, by who gives way first: the same trace, load, checkpoints and urgent jobs.

The trace is a piece of Microsoft's Philly log (Jeon et al., USENIX ATC'19), another for each seed, on nodes
of 8 GPUs in racks of 16, so many that the piece's work is `--load` times what they do while its jobs come.
One job in ten is urgent: it is in a partition of a higher tier and takes the place of others. An overlay says
when a job saves: at an interval of its own of 10 minutes to 2 hours; one in seven never does. `--askable` of
them can be asked for a checkpoint, which takes 10 to 120 seconds; only minislurm's own order asks, as only
minislurm does.

Lost is work that has to be done again, and 2 minutes for each start after a preemption, times the job's GPUs.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from math import floor
from pathlib import Path
from statistics import mean

from msgspec import Struct
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from minislurm.cluster.core import Transaction
from minislurm.cluster.effects import AskCheckpoint, Effect
from minislurm.cluster.events import JobSubmitted, RunEnded, RunEnding, RunPlaced
from minislurm.cluster.messages import Caller, ChangeAccounts, CheckpointMade, PurgeDue, SubmitJob
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.configuration import Configuration, DomainSpec, Partition, PreemptionSection
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import EndCause, Job
from minislurm.domain.node import NodeSpec
from minislurm.domain.resources import GpuGroup
from minislurm.domain.states import JobState
from minislurm.scheduling.model import Plan
from minislurm.sim import table
from minislurm.sim.job_specs import SpecMaker
from minislurm.sim.trace import TraceJob, Workload
from minislurm.sim.trace_accounts import charged, tree_of
from minislurm.sim.virtual_cluster import EPOCH, VirtualCluster

OPERATOR = Caller(0, is_operator=True)
GPUS, RACK = 8, 16
RESTART_S = 120.0
#: (name, `[preemption] victim_order`, does it ask for checkpoints?)
ORDERS = (
    ("minislurm", "cost", True),
    ("minislurm, nobody can be asked", "cost", False),
    ("youngest first", "youngest", False),
    ("lowest priority first", "priority", False),
    ("Kueue: other queues, priority, newest", "accounts", False),
    ("Slurm: lowest tier, fewest nodes", "nodes", False),
)


class Saving(Struct, frozen=True):
    """How a job saves. `interval_s` 0: never by itself; `asked_s` 0: it cannot be asked."""

    interval_s: float
    asked_s: float


class Figures(Struct):
    lost_h: float
    preemptions: int
    urgent_wait_s: float
    wait_s: float


class Replay(VirtualCluster):
    def __init__(
        self,
        jobs: Sequence[TraceJob],
        urgent: set[str],
        saving: dict[str, Saving],
        configuration: Configuration,
    ) -> None:
        self.trace = jobs
        self.urgent, self.saving = urgent, saving
        self.left_s: dict[JobId, float] = {}
        self.asked: dict[JobId, float] = {}
        self.told: dict[JobId, float] = {}
        self.waits: dict[str, float] = {}
        self.lost, self.preemptions, self.next = 0.0, 0, 0
        super().__init__(configuration, self.duration)
        self.specs = SpecMaker(configuration)
        refusal = self.tell(ChangeAccounts(tree_of(Workload("", tuple(jobs)), 1, None), 0, OPERATOR)).refusal
        assert refusal is None, refusal
        self.at(EPOCH, self.submit)

    def submit(self, _: None) -> None:
        job = self.trace[self.next]
        self.next += 1
        spec = self.specs.spec(job)
        saving = self.saving[job.name]
        spec = replace(
            spec, name=job.name, partition="urgent" if job.name in self.urgent else "batch", time_limit_s=0.0,
            checkpoint_command="save" if saving.asked_s else "", checkpoint_restart_s=RESTART_S,
            nice=sum(map(ord, job.name)) % 3 * 500,
        )  # fmt: skip
        transaction = self.tell(SubmitJob(spec, OPERATOR))
        assert transaction.refusal is None, transaction.refusal
        if self.next < len(self.trace):
            self.at(EPOCH + self.trace[self.next].submit_s - self.trace[0].submit_s, self.submit)
        if self.next % 500 == 0:
            self.tell(PurgeDue())

    def duration(self, job: Job) -> float:
        return self.left_s[job.id] + (RESTART_S if job.requeues else 0.0)

    # Saving

    def done_s(self, job: Job, until: float) -> float:
        """Work of the run."""
        return max(0.0, until - job.start_time - (RESTART_S if job.requeues else 0.0))

    def saved_s(self, job: Job, until: float) -> float:
        """Of that, what is in a checkpoint that it made of its own accord."""
        interval_s = self.saving[job.name].interval_s
        return floor(self.done_s(job, until) / interval_s) * interval_s if interval_s else 0.0

    def plan(self) -> Plan:
        """Where somebody may have to give way, what has been saved is known."""
        if any(key.partition == "urgent" for key in self.state.queue.classes):
            for job_id in self.state.active:
                self.tell_saved(self.state.jobs[job_id])
        return super().plan()

    def tell_saved(self, job: Job) -> None:
        saved_s = self.saved_s(job, self.now) if job.state is JobState.RUNNING else 0.0
        time = job.start_time + (RESTART_S if job.requeues else 0.0) + saved_s
        if saved_s and self.told.get(job.id) != time:
            self.told[job.id] = time
            made = Checkpoint(job.run, f"/{job.id}.{time}", time=time)
            self.tell(CheckpointMade(job.id, job.run, made))

    def perform(self, effect: Effect) -> None:
        if isinstance(effect, AskCheckpoint) and not effect.withdrawn:
            job = self.state.jobs[effect.job_id]
            if effect.node == job.batch_host:
                self.later(
                    self.saving[job.name].asked_s, self.answer, (job.id, job.run, job.checkpoint_requested)
                )
        super().perform(effect)

    def answer(self, asked: tuple[JobId, int, float]) -> None:
        job_id, run, request = asked
        job = self.state.jobs.get(job_id)
        if job is None or job.run != run or not job.gives_way:
            return
        self.asked[job_id] = request
        duration_s = self.saving[job.name].asked_s
        made = Checkpoint(job.run, f"/{job_id}.{self.now}", time=self.now, duration_s=duration_s)
        self.tell(CheckpointMade(job_id, job.run, made, answers=request))

    # What it costs

    def observe(self, transaction: Transaction) -> None:
        for event in transaction.events:
            if isinstance(event, JobSubmitted):
                self.left_s[event.job.id] = self.trace[self.next - 1].run_s
            elif isinstance(event, RunPlaced):
                job = self.state.jobs[event.job_id]
                self.waits.setdefault(job.name, self.now - job.submit_time)
            elif isinstance(event, RunEnding) and event.cause is EndCause.PREEMPT:
                self.count(self.state.jobs[event.job_id])
            elif isinstance(event, RunEnded) and self.state.jobs[event.job_id].state.is_final:
                self.left_s.pop(event.job_id, None)

    def count(self, job: Job) -> None:
        asked = self.asked.pop(job.id, None)
        done_s = self.done_s(job, self.now)
        saved_s = self.saved_s(job, self.now) if asked is None else self.done_s(job, asked)
        gpus = sum(part.gpu_count for part in job.allocation)
        self.left_s[job.id] -= saved_s
        self.lost += gpus * (done_s - saved_s + RESTART_S)
        self.preemptions += 1

    def figures(self) -> Figures:
        urgent = [wait for name, wait in self.waits.items() if name in self.urgent]
        return Figures(self.lost / 3600, self.preemptions, mean(urgent), mean(self.waits.values()))


def piece(trace: Workload, seed: int, count: int) -> tuple[TraceJob, ...]:
    """So many jobs in a row, of GPUs and at least a minute, none of more than 64."""
    fit = [
        job for job in trace.jobs if 0 < (job.gpus or job.processors) <= 64 and 60 <= job.run_s <= 7 * 86400
    ]
    first = random.Random(f"piece {seed}").randrange(len(fit) - count)
    jobs = [
        replace(job, name=f"j{i}", partition="", cpus=0) for i, job in enumerate(fit[first : first + count])
    ]
    return charged(Workload("philly", tuple(jobs)), "accounts").jobs


def a_cluster(jobs: Sequence[TraceJob], load: float, order: str) -> Configuration:
    work = sum((job.gpus or job.processors) * job.run_s for job in jobs)
    span_s = jobs[-1].submit_s - jobs[0].submit_s
    count = max(16, round(work / span_s / load / GPUS))
    names = tuple(NodeName(f"n{i}") for i in range(count))
    racks = [names[i : i + RACK] for i in range(0, count, RACK)]
    return Configuration(
        nodes=tuple(NodeSpec(name, 64, 0, (GpuGroup(GPUS),), gpus_declared=True) for name in names),
        partitions=(Partition("batch", names, default=True), Partition("urgent", names, priority_tier=2)),
        topology=tuple(DomainSpec(f"r{i}", "rack", "", rack) for i, rack in enumerate(racks)),
        preemption=PreemptionSection(mode="requeue", victim_order=order, checkpoint_grace_s=180.0),
    )


def overlay(jobs: Sequence[TraceJob], seed: int, askable: float) -> tuple[set[str], dict[str, Saving]]:
    draw = random.Random(f"overlay {seed}")
    urgent, saving = set[str](), dict[str, Saving]()
    for job in jobs:
        if draw.random() < 0.1:
            urgent.add(job.name)
        interval_s = 0.0 if draw.random() < 1 / 7 else draw.choice([600.0, 1800.0, 3600.0, 7200.0])
        asked_s = draw.uniform(10, 120) if draw.random() < askable else 0.0
        saving[job.name] = Saving(interval_s, asked_s)
    return urgent, saving


def main() -> int:
    parser = argparse.ArgumentParser(description="GPU-hours lost to preemption, by who gives way first.")
    parser.add_argument("trace", type=Path, help="philly.csv.gz")
    parser.add_argument("--jobs", type=int, default=1500, help="of each seed (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="pieces of the trace (%(default)s)")
    parser.add_argument(
        "--load", type=float, default=2.0, help="work over what the cluster does (%(default)s)"
    )
    parser.add_argument("--askable", type=float, default=0.7, help="so many jobs can be asked (%(default)s)")
    options = parser.parse_args()
    trace = table.read(options.trace)
    found: dict[str, list[Figures]] = {name: [] for name, _, _ in ORDERS}
    for seed in range(options.seeds):
        jobs = piece(trace, seed, options.jobs)
        for name, order, asks in ORDERS:
            urgent, saving = overlay(jobs, seed, options.askable)
            if not asks:
                saving = {job: replace(how, asked_s=0.0) for job, how in saving.items()}
            replay = Replay(jobs, urgent, saving, a_cluster(jobs, options.load, order))
            replay.advance()
            found[name].append(replay.figures())
    print(f"{'who gives way':40} {'lost GPU-h':>11} {'preemptions':>12} {'urgent wait s':>14} {'wait s':>9}")
    for name, runs in found.items():
        lost, count = mean(run.lost_h for run in runs), mean(run.preemptions for run in runs)
        urgent_s, wait_s = mean(run.urgent_wait_s for run in runs), mean(run.wait_s for run in runs)
        print(f"{name:40} {lost:11.1f} {count:12.0f} {urgent_s:14.1f} {wait_s:9.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
