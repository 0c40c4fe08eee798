"""How a run ends: the one place that knows which cause leads to which state, reason and requeue."""

from __future__ import annotations

from minislurm.cluster.comebacks import comeback, keeps_nodes
from minislurm.cluster.events import RunEnding
from minislurm.cluster.lemons import nodes_to_avoid
from minislurm.cluster.state import ClusterState
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import EndCause, Job
from minislurm.domain.preemption import PreemptionRecord
from minislurm.domain.states import JobState, Reason


def end_run(
    state: ClusterState,
    job: Job,
    cause: EndCause,
    now: float,
    *,
    exit_code: int = 0,
    exit_signal: int = 0,
    cancelled_by: int | None = None,
    hold: bool = False,
    avoid_nodes: tuple[NodeName, ...] = (),
    released_nodes: tuple[NodeName, ...] = (),
    end_time: float = 0.0,
    launch_failed: bool = False,
    out_of_memory: bool = False,
    preemptor: JobId | None = None,
    comes_back: str = "",
    decision: PreemptionRecord | None = None,
) -> RunEnding:
    """The fact that a run is being ended. Nodes that were given up are not waited for. `comes_back`: the
    cause for which a run that gives way (to `preemptor`) is requeued, if it can be; "": it is not."""
    final, reason = _outcome(cause, exit_code, exit_signal, launch_failed, out_of_memory)
    if cause is EndCause.NODE_FAIL:
        final, reason = JobState.NODE_FAIL, Reason.NODE_DOWN
    again = comeback(state, job, cause, comes_back, final)
    hold = hold or again.hold
    if again.over:
        reason = Reason.MAX_REQUEUE
    if cause is EndCause.BATCH_KILLED:
        exit_code, exit_signal = 0, 9
    lost = _lost_nodes(state, job, released_nodes) if cause is EndCause.NODE_FAIL else ()
    stay_away = nodes_to_avoid(state, job, lost) if again.cause else ()
    down = [name for name in down_nodes(state, job) if name not in released_nodes]
    return RunEnding(
        time=now,
        job_id=job.id,
        run=job.run,
        cause=cause,
        state=final,
        reason=reason,
        exit_code=exit_code,
        exit_signal=exit_signal,
        cancelled_by=cancelled_by,
        hold=hold,
        requeue_cause=again.cause,
        avoid_nodes=avoid_nodes,
        released_nodes=(*released_nodes, *down),
        end_time=end_time or now,
        preemptor=preemptor or JobId(0),
        replacing=keeps_nodes(job, cause, again, final, hold=hold),
        lost_nodes=lost,
        stay_away=stay_away,
        stay_away_until=now + state.configuration.jobs.avoid_failed_node_s if stay_away else 0.0,
        decision=decision,
    )


def _lost_nodes(state: ClusterState, job: Job, gone: tuple[NodeName, ...]) -> tuple[NodeName, ...]:
    """Those that are DOWN, or came back without the run (`gone`)."""
    names = [part.node for part in job.allocation]
    return tuple(name for name in names if state.nodes[name].is_lost or name in gone)


def down_nodes(state: ClusterState, job: Job) -> tuple[NodeName, ...]:
    """Those of the run that nobody waits for."""
    return tuple(part.node for part in job.allocation if state.nodes[part.node].given_up)


def _outcome(
    cause: EndCause, exit_code: int, exit_signal: int, launch_failed: bool, out_of_memory: bool
) -> tuple[JobState, Reason]:
    match cause:
        case EndCause.CANCEL:
            return JobState.CANCELLED, Reason.NONE
        case EndCause.PREEMPT:
            return JobState.PREEMPTED, Reason.NONE
        case EndCause.DEADLINE:
            return JobState.DEADLINE, Reason.DEADLINE
        case EndCause.TIME_LIMIT:
            return JobState.TIMEOUT, Reason.TIME_LIMIT
        case EndCause.BATCH_KILLED:
            return JobState.FAILED, Reason.RAISED_SIGNAL
        case EndCause.LAUNCH_FAILURE | EndCause.REQUEUE | EndCause.NODE_FAIL | EndCause.RESIZE:
            return JobState.NODE_FAIL, Reason.NONE
        case EndCause.EXIT:
            pass
    if out_of_memory:
        return JobState.OUT_OF_MEMORY, Reason.OUT_OF_MEMORY
    if launch_failed:
        return JobState.FAILED, Reason.JOB_LAUNCH_FAILURE
    if exit_signal:
        return JobState.FAILED, Reason.RAISED_SIGNAL
    if exit_code:
        return JobState.FAILED, Reason.NON_ZERO_EXIT
    return JobState.COMPLETED, Reason.NONE
