"""Jobs that would start too late: past --deadline, or after more than --max-wait.

Such a job ends in Slurm's state DEADLINE: nobody cancelled it, it failed at nothing, its time is over. The
reason tells the two apart: DeadLine, or MaxWait, which is ours.
"""

from __future__ import annotations

import math

from minislurm.cluster.ending import end_run
from minislurm.cluster.events import Event, PendingEnded
from minislurm.cluster.messages import DeadlineReached, LastStartPassed
from minislurm.cluster.runs import current
from minislurm.cluster.state import ClusterState
from minislurm.domain.job import EndCause, Job
from minislurm.domain.states import JobState, Reason


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


def decide_last_start(state: ClusterState, message: LastStartPassed, now: float) -> list[Event]:
    job = state.jobs.get(message.job_id)
    if job is None or job.state is not JobState.PENDING or give_up_time(job) > now:
        return []  # it has started, or was changed; another timer is set
    late = max(now, job.begin_time) >= latest_start(job)
    reason = Reason.DEADLINE if late else Reason.MAX_WAIT
    return [PendingEnded(now, job.id, JobState.DEADLINE, reason)]


def decide_deadline(state: ClusterState, message: DeadlineReached, now: float) -> list[Event]:
    job = current(state, message.job_id, message.run)
    if job is None or job.state is JobState.COMPLETING or not job.deadline or job.deadline > now:
        return []
    return [end_run(state, job, EndCause.DEADLINE, now)]
