"""What preemptions have cost: remembered with the job, foreseen and true."""

from __future__ import annotations

from msgspec.structs import replace

from minislurm.cluster.budgets import held_milli
from minislurm.cluster.state import ClusterState
from minislurm.cluster.victims import restart_s, saved_time
from minislurm.domain.job import Job
from minislurm.domain.preemption import REMEMBERED, PreemptionRecord


def remember_preemption(job: Job, decision: PreemptionRecord | None) -> None:
    if decision is not None:
        job.preemptions = (*job.preemptions, decision)[-REMEMBERED:]


def forget_preemption(job: Job) -> None:
    """It goes on: whom it was to give way to has gone."""
    if job.preemptions and job.preemptions[-1].run == job.run and not job.preemptions[-1].end_time:
        job.preemptions = job.preemptions[:-1]


def count_true_cost(state: ClusterState, job: Job, end_time: float) -> None:
    """The run has let go of everything: if it gave way, what was lost is known now.

    That is the time since its last checkpoint, the making of that one included where it was made because the
    run had to go, and what the next start is taken to need.
    """
    last = job.preemptions[-1] if job.preemptions else None
    if last is None or last.run != job.run or last.end_time:
        return
    lost_s = max(0.0, end_time - max(job.start_time, saved_time(job)))
    if job.checkpoints and job.checkpoints[-1].time >= last.time:
        lost_s += min(job.checkpoints[-1].duration_s, job.checkpoints[-1].time - last.time)
    cost = held_milli(job) / 1000 * (lost_s + restart_s(state, job))
    job.preemptions = (*job.preemptions[:-1], replace(last, end_time=end_time, true_cost=cost))
