"""Which runs may give way to others, from when on, and what becomes of them then."""

from __future__ import annotations

from math import inf

from minislurm.cluster.state import ClusterState
from minislurm.domain.job import Job


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
    if job.is_component:
        return inf  # the parts of a heterogeneous job would have to go together
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


def slice_end(state: ClusterState, job: Job) -> float:
    """When its run has had its time slice; infinity: it has none."""
    partition = state.partitions.get(job.partition)
    scheduler = state.configuration.scheduler
    sliced = partition is not None and (partition.order or scheduler.order) == "round-robin"
    if not sliced or job.is_component:
        return inf
    if not (job.requeue and job.spec.is_batch):
        return inf
    return job.start_time + scheduler.time_slice_s
