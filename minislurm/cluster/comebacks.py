"""Whether a job whose run ends comes back, as what, and when it has done so too often."""

from __future__ import annotations

from typing import NamedTuple

from minislurm.cluster.state import ClusterState
from minislurm.domain.comebacks import parse_requeue_limits
from minislurm.domain.job import EndCause, Job
from minislurm.domain.states import JobState


class Comeback(NamedTuple):
    """`cause` "": it does not come back. `over`: more often than it may, for that cause."""

    cause: str = ""
    hold: bool = False
    over: bool = False


def comeback(state: ClusterState, job: Job, cause: EndCause, comes_back: str, final: JobState) -> Comeback:
    """`comes_back`: the cause for which a run that gives way is requeued; `final`: how the run would end."""
    if cause is EndCause.REQUEUE:
        return Comeback("user")
    why, hold = _wanted(job, cause, comes_back, final)
    may = job.requeue and job.is_batch
    if not why or not (may or cause is EndCause.LAUNCH_FAILURE):
        return Comeback()
    over = job.is_batch and is_over_limit(state, job, why)
    return Comeback(why, hold or over, over)


def is_over_limit(state: ClusterState, job: Job, cause: str) -> bool:
    limit = job.spec.max_requeues.get(cause)
    if limit is None:
        limit = parse_requeue_limits(state.configuration.jobs.max_requeues).get(cause)
    return limit is not None and job.requeues.get(cause, 0) >= limit


def keeps_nodes(job: Job, cause: EndCause, again: Comeback, *, hold: bool) -> bool:
    """Does it keep what it holds for the next run, in which a spare takes the place of a lost node?"""
    lost = cause in (EndCause.NODE_FAIL, EndCause.LAUNCH_FAILURE)
    return bool(job.spares and lost and again.cause and not hold and job.spec.on_node_fail in ("", "replace"))


def _wanted(job: Job, cause: EndCause, comes_back: str, final: JobState) -> tuple[str, bool]:
    """(cause of the requeue, held), as the job's rules say."""
    spec = job.spec
    match cause:
        case EndCause.LAUNCH_FAILURE:
            return "launch_failure", False
        case EndCause.PREEMPT:
            return comes_back, False
        case EndCause.NODE_FAIL:
            return ("" if spec.on_node_fail == "end" else "node_fail"), spec.on_node_fail == "hold"
        case EndCause.TIME_LIMIT:
            return ("timeout" if spec.requeue_on_timeout else ""), False
        case EndCause.EXIT if final in (JobState.FAILED, JobState.OUT_OF_MEMORY):
            if spec.requeue_on_timeout and job.signal_sent:
                return "timeout", False  # it was told that its time is over, and left to come back
            wanted = spec.on_task_fail in ("requeue", "hold")
            return ("task_fail" if wanted else ""), spec.on_task_fail == "hold"
    return "", False
