"""Which runs may give way to others, from when on, and what becomes of them then."""

from __future__ import annotations

from math import inf
from statistics import median

from minislurm.cluster.checkpoints import save_grace_s
from minislurm.cluster.state import ClusterState
from minislurm.domain.accounts import Qos
from minislurm.domain.checkpoint import typical_duration_s
from minislurm.domain.job import Job


def qos_of(state: ClusterState, job: Job) -> Qos | None:
    """None where QOS decide nothing."""
    accounts = state.accounts
    return accounts.tree.qos.get(job.spec.qos) if accounts.are_enforced else None


def mode_in(state: ClusterState, partition: str) -> str:
    """What becomes of a run that gives way: "requeue", "cancel"; "off": it does not."""
    found = state.partitions.get(partition)
    return (found.preempt_mode if found is not None else "") or state.configuration.preemption.mode


def mode_of(state: ClusterState, job: Job) -> str:
    """The same of one job: what its QOS says comes before what its partition says."""
    qos = qos_of(state, job)
    return (qos.preempt_mode if qos is not None else "") or mode_in(state, job.partition)


def grace_in_s(state: ClusterState, partition: str) -> float:
    """Between SIGTERM and SIGKILL."""
    found = state.partitions.get(partition)
    own = found.preempt_grace_s if found is not None else None
    return own if own is not None else state.configuration.preemption.grace_s


def grace_of_s(state: ClusterState, job: Job) -> float:
    """The same of one job: what its QOS says comes before what its partition says."""
    qos = qos_of(state, job)
    own = qos.grace_s if qos is not None else None
    return own if own is not None else grace_in_s(state, job.partition)


def exempt_until(state: ClusterState, job: Job) -> float:
    """Its run is left alone until then; infinity: for ever."""
    settings = state.configuration.preemption
    if job.is_component:
        return inf  # the parts of a heterogeneous job would have to go together
    if settings.limit_per_job and job.requeues.get("preempt", 0) >= settings.limit_per_job:
        return inf
    qos, partition = qos_of(state, job), state.partitions.get(job.partition)
    own = qos.preempt_exempt_s if qos is not None else None
    if own is None and partition is not None:
        own = partition.preempt_exempt_s
    alone_s = own if own is not None else settings.exempt_s
    if job.restart_reason == "preempt":
        alone_s = max(alone_s, settings.cooldown_s)
    return job.start_time + alone_s


def preemptable_time(state: ClusterState, job: Job) -> float:
    """As shown: 0 where it does not give way, or has not started."""
    if not job.start_time or mode_of(state, job) == "off":
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


# What giving way would cost (scheduling/costs.py)


def saved_time(job: Job) -> float:
    """Up to which its work is saved; 0: nothing is."""
    return job.checkpoints[-1].time if job.checkpoints else 0.0


def save_s(state: ClusterState, job: Job) -> float:
    """How long a checkpoint takes that it makes when asked; infinity: it cannot be asked, or would need more
    than its grace. A job of which nothing is known yet is taken to need all of it."""
    if not job.can_be_asked:
        return inf
    grace_s = save_grace_s(state, job)
    needed_s = typical_duration_s(job.checkpoints) or grace_s
    return needed_s if needed_s <= grace_s else inf


def restart_s(state: ClusterState, job: Job) -> float:
    """From its next start until it does new work."""
    own = job.spec.checkpoint_restart_s
    return own if own is not None else state.configuration.preemption.restart_s


def checkpoint_interval_s(job: Job) -> float:
    """As it was asked for, or the median time between those that its runs have reported; 0: not known."""
    if job.spec.checkpoint_interval_s:
        return job.spec.checkpoint_interval_s
    pairs = zip(job.checkpoints, job.checkpoints[1:], strict=False)
    between = [later.time - one.time for one, later in pairs if one.run == later.run]
    return median(between) if between else 0.0
