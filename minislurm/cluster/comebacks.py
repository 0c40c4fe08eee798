"""Whether a job whose run ends comes back, as what, and when it has done so too often."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

from minislurm.cluster.lemons import nodes_to_avoid
from minislurm.cluster.state import ClusterState
from minislurm.domain.comebacks import parse_requeue_limits
from minislurm.domain.ids import NodeName
from minislurm.domain.job import EndCause, Job
from minislurm.domain.states import JobState, Reason

_FAILED = frozenset({JobState.FAILED, JobState.OUT_OF_MEMORY})


class Comeback(NamedTuple):
    """`cause` "": it does not come back. `over`: more often than it may, for that cause."""

    cause: str = ""
    hold: bool = False
    over: bool = False


def comeback(state: ClusterState, job: Job, cause: EndCause, comes_back: str, final: JobState) -> Comeback:
    """`comes_back`: the cause for which a run that gives way is requeued; `final`: how the run would end."""
    if cause is EndCause.REQUEUE:
        return Comeback("user")
    if cause is EndCause.RESIZE:
        return Comeback("resize")
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


def keeps_nodes(job: Job, cause: EndCause, again: Comeback, final: JobState, *, hold: bool) -> bool:
    """Does it keep what it holds for the next run, in which a spare takes the place of a lost node? Also when
    its script fails: often it is the first to know of a lost node (`failed_by_loss`)."""
    if not job.spares or hold or job.spec.on_node_fail not in ("", "replace"):
        return False
    lost = cause in (EndCause.NODE_FAIL, EndCause.LAUNCH_FAILURE)
    return bool(again.cause) if lost else cause is EndCause.EXIT and final in _FAILED


def failed_by_loss(job: Job, node: NodeName) -> bool:
    """Its script failed, and now one of the other nodes turns out to be lost that has not said yet that
    nothing is left there: the loss made the script fail."""
    return (
        job.end_cause is EndCause.EXIT
        and job.end_state in _FAILED
        and job.is_batch
        and node in job.open_nodes
        and node != job.batch_host
    )


def judged_anew(state: ClusterState, job: Job, node: NodeName, now: float) -> Job:
    """A copy of the record, as if the run had ended by the loss of that node."""
    changed = copy(job)
    changed.end_cause, changed.end_state = EndCause.NODE_FAIL, JobState.NODE_FAIL
    changed.exit_code = changed.exit_signal = 0
    again = comeback(state, job, EndCause.NODE_FAIL, "", JobState.NODE_FAIL)
    changed.requeue_cause, changed.requeue_held = again.cause, again.hold
    changed.reason = Reason.MAX_REQUEUE if again.over else Reason.NODE_DOWN
    avoided = nodes_to_avoid(state, job, (node,)) if again.cause else ()
    if avoided:
        changed.avoided_nodes = avoided
        changed.avoid_until = now + state.configuration.jobs.avoid_failed_node_s
    return changed


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
        case EndCause.EXIT if final in _FAILED:
            if spec.requeue_on_timeout and job.signal_sent:
                return "timeout", False  # it was told that its time is over, and left to come back
            wanted = spec.on_task_fail in ("requeue", "hold")
            return ("task_fail" if wanted else ""), spec.on_task_fail == "hold"
    return "", False
