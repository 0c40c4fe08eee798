"""Jobs that would start too late: past --deadline, or after more than --max-wait.

Such a job ends in Slurm's state DEADLINE: nobody cancelled it, it failed at nothing, its time is over. The
reason tells the two apart: DeadLine, or MaxWait, which is ours.
"""

from __future__ import annotations

from minislurm.cluster.eligibility import give_up_time, latest_start
from minislurm.cluster.ending import end_run
from minislurm.cluster.events import Event, PendingEnded
from minislurm.cluster.messages import DeadlineReached, LastStartPassed
from minislurm.cluster.runs import current
from minislurm.cluster.state import ClusterState
from minislurm.domain.job import EndCause, Job
from minislurm.domain.states import JobState, Reason


def decide_last_start(state: ClusterState, message: LastStartPassed, now: float) -> list[Event]:
    job = state.jobs.get(message.job_id)
    return give_up(job, now) if job is not None else []


def give_up(job: Job, now: float) -> list[Event]:
    """The end of a job that waits in vain; [] while it need not be given up, and of one that has started."""
    if job.state is not JobState.PENDING or give_up_time(job) > now:
        return []
    late = max(now, job.begin_time) >= latest_start(job)
    reason = Reason.DEADLINE if late else Reason.MAX_WAIT
    return [PendingEnded(now, job.id, JobState.DEADLINE, reason)]


def decide_deadline(state: ClusterState, message: DeadlineReached, now: float) -> list[Event]:
    job = current(state, message.job_id, message.run)
    if job is None or job.state is JobState.COMPLETING or not job.deadline or job.deadline > now:
        return []
    return [end_run(state, job, EndCause.DEADLINE, now)]
