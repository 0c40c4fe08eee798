"""When time alone makes a waiting job eligible, and when it has become too late for it."""

from __future__ import annotations

import math

from minislurm.cluster.state import ClusterState
from minislurm.domain.job import Job
from minislurm.domain.states import Reason


def requeue_time(state: ClusterState, job: Job) -> float:
    """The later of its begin time and, after a requeue, of the requeue delay."""
    delay = state.configuration.timers.requeue_delay_s if job.restarts else 0.0
    return max(job.begin_time, job.submit_time + delay)


def latest_start(job: Job) -> float:
    """When it could start at the latest and still end by its deadline; infinity: whenever. Without a time
    limit it may run until the deadline, which ends it."""
    return job.deadline - job.time_limit_s if job.deadline else math.inf


def give_up_time(job: Job) -> float:
    """When waiting is over at the latest; 0: it is over already, since it may not begin before that."""
    latest = latest_start(job)
    if job.begin_time > latest:
        return 0.0
    if job.eligible_time and job.spec.max_wait_s:
        return min(latest, job.eligible_time + job.spec.max_wait_s)
    return latest


def make_eligible(job: Job, now: float) -> None:
    """Sets a copy's eligible time and reason from what still holds it back."""
    if job.held:
        job.eligible_time = 0.0
        return
    if job.dependencies:
        job.eligible_time, job.reason = 0.0, Reason.DEPENDENCY
    elif job.begin_time > now:
        job.eligible_time, job.reason = 0.0, Reason.BEGIN_TIME
    else:
        job.eligible_time, job.reason = job.eligible_time or now, Reason.NONE
