"""Runs that give way to jobs of a higher tier: which may, and what becomes of them."""

from __future__ import annotations

from math import inf

from minislurm.cluster.ending import end_run
from minislurm.cluster.events import Event
from minislurm.cluster.messages import PreemptionProposed
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.job import EndCause, Job
from minislurm.domain.states import JobState


def mode_in(state: ClusterState, partition: str) -> str:
    """What becomes of a run that gives way: "requeue", "cancel"; "off": it does not."""
    found = state.partitions.get(partition)
    return (found.preempt_mode if found is not None else "") or state.configuration.preemption.mode


def grace_in_s(state: ClusterState, partition: str) -> float:
    """Between SIGTERM and SIGKILL."""
    found = state.partitions.get(partition)
    own = found.preempt_grace_s if found is not None else None
    return own if own is not None else state.configuration.preemption.grace_s


def exempt_until(state: ClusterState, job: Job) -> float:
    """Its run is left alone until then; infinity: for ever."""
    settings = state.configuration.preemption
    if job.state is JobState.COMPLETING:
        return inf
    if settings.limit_per_job and job.requeues.get("preempt", 0) >= settings.limit_per_job:
        return inf
    partition = state.partitions.get(job.partition)
    own = partition.preempt_exempt_s if partition is not None else None
    return job.start_time + (own if own is not None else settings.exempt_s)


def preemptable_time(state: ClusterState, job: Job) -> float:
    """As shown: 0 where it does not give way, or has not started."""
    if not job.start_time or mode_in(state, job.partition) == "off":
        return 0.0
    until = exempt_until(state, job)
    return until if until < inf else 0.0


def tier_of(state: ClusterState, job: Job) -> int:
    partition = state.partitions.get(job.partition)
    return partition.priority_tier if partition is not None else 1


def decide_preemption(state: ClusterState, message: PreemptionProposed, now: float) -> list[Event] | Refusal:
    """All of the victims or none: with one of them gone by itself, another set may be the better one."""
    preemption = message.preemption
    preemptor = state.jobs.get(preemption.job_id)
    refusal = Refusal(RefusalCode.TRY_LATER, job_id=preemption.job_id)
    if preemptor is None or preemptor.id not in state.queue:
        return refusal
    tier = tier_of(state, preemptor)
    events: list[Event] = []
    for job_id, run in preemption.victims:
        job = state.jobs.get(job_id)
        if job is None or job.run != run or job.state not in (JobState.CONFIGURING, JobState.RUNNING):
            return refusal
        mode = mode_in(state, job.partition)
        if mode == "off" or tier_of(state, job) >= tier or exempt_until(state, job) > now:
            return refusal
        comes_back = mode == "requeue"
        end = end_run(state, job, EndCause.PREEMPT, now, preemptor=preemptor.id, comes_back=comes_back)
        events.append(end)
    return events
