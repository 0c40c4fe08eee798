"""Checkpoints of runs: reported, asked for, and waited for before a run gives way.

A run that can be asked is not ended at once when another job needs its nodes: it is asked to save, and ended
as soon as it has (or ends by itself), at its deadline at the latest. If the preemptor leaves the queue before
that, the run goes on. What was computed since the last checkpoint is then not lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from minislurm.cluster.ending import end_run
from minislurm.cluster.events import (
    CheckpointDropped,
    CheckpointListening,
    CheckpointReported,
    CheckpointRequested,
    CheckpointWithdrawn,
    Event,
)
from minislurm.cluster.messages import (
    CheckpointDeadline,
    CheckpointDue,
    CheckpointFailed,
    CheckpointListener,
    CheckpointMade,
)
from minislurm.cluster.state import ClusterState
from minislurm.domain.checkpoint import is_known, with_reported
from minislurm.domain.ids import JobId, RunNumber
from minislurm.domain.job import EndCause, Job
from minislurm.domain.preemption import PreemptionRecord
from minislurm.domain.states import JobState

#: So long before its time limit a run is asked for a checkpoint, unless its --checkpoint-signal says how long
#: it may take.
BEFORE_LIMIT_S = 60.0


# Reports


def decide_made(state: ClusterState, message: CheckpointMade, now: float) -> list[Event]:
    """Kept of the job's present run, and of its last one until the next is placed: what a node said while
    the controller was away may come after the run's end."""
    job = state.jobs.get(message.job_id)
    if job is None:
        return []
    if job.run != message.run or message.checkpoint.run != message.run:
        return [CheckpointDropped(now, job.id, message.run)]
    made = message.checkpoint
    answers = bool(message.answers) and message.answers == job.checkpoint_requested
    is_over = answers and job.gives_way and job.state is JobState.RUNNING
    end: list[Event] = [end_saved(state, job, now)] if is_over else []
    if is_known(job.checkpoints, made):
        return end
    stay, excess = with_reported(job.checkpoints, made, job.spec.checkpoint_keep)
    if made not in stay:
        return end  # it came late, and newer ones are enough
    # A folder that holds one of those that stay is no rubbish.
    paths = tuple(one.path for one in excess if not any(s.path.startswith(one.path + "/") for s in stay))
    return [CheckpointReported(now, job.id, job.run, made, answers, paths), *end]


def decide_failed(state: ClusterState, message: CheckpointFailed, now: float) -> list[Event]:
    """No checkpoint will come of this request: who gives way has nothing to wait for."""
    job = _running(state, message.job_id, message.run)
    if job is None or not message.request or message.request != job.checkpoint_requested:
        return []
    return [end_saved(state, job, now) if job.gives_way else CheckpointWithdrawn(now, job.id, job.run)]


def decide_listener(state: ClusterState, message: CheckpointListener, now: float) -> list[Event]:
    job = _running(state, message.job_id, message.run)
    return [] if job is None or job.checkpoint_listens else [CheckpointListening(now, job.id, job.run)]


# Asking


def decide_due(state: ClusterState, message: CheckpointDue, now: float) -> list[Event]:
    job = _running(state, message.job_id, message.run)
    if job is None or due_time(job) > now:
        return []
    reason = "time_limit" if limit_due_time(job) <= now else "interval"
    return [CheckpointRequested(now, job.id, job.run, reason)]


def due_time(job: Job) -> float:
    """When its run is to be asked next, without anybody's doing; infinity: never. One that was asked for and
    did not come is asked for again."""
    if job.gives_way or not job.can_be_asked:
        return inf
    interval_s = job.spec.checkpoint_interval_s
    last = max(job.start_time, _last_time(job))
    return min(last + interval_s if interval_s else inf, limit_due_time(job))


def limit_due_time(job: Job) -> float:
    """When it is asked because its time limit is near: once, and as long before as it may take to save."""
    own = job.spec.checkpoint_signal.grace_s if job.spec.checkpoint_signal is not None else None
    ahead_s = min(BEFORE_LIMIT_S if own is None else own, job.time_limit_s / 2)
    time = job.expected_end_time - ahead_s
    return time if _last_time(job) < time else inf


def _last_time(job: Job) -> float:
    """Of the last checkpoint of its run, or of the last request that was not fulfilled."""
    made = [one.time for one in job.checkpoints if one.run == job.run]
    return max([job.checkpoint_requested, *made])


# Giving way


def give_way(
    state: ClusterState,
    job: Job,
    now: float,
    preemptor: JobId,
    comes_back: str,
    decision: PreemptionRecord | None = None,
) -> Event:
    """The run has to go for `preemptor`: it is asked to save first, if it can be."""
    if not job.can_be_asked:
        cause = _cause(comes_back)
        by = preemptor if cause is EndCause.PREEMPT else None
        return end_run(state, job, cause, now, preemptor=by, comes_back=comes_back, decision=decision)
    deadline = now + save_grace_s(state, job)
    reason = comes_back if comes_back in ("time_slice", "resize") else "preempt"
    return CheckpointRequested(now, job.id, job.run, reason, deadline, preemptor, comes_back, decision)


def save_grace_s(state: ClusterState, job: Job) -> float:
    """What it asked for, as far as the cluster allows."""
    settings = state.configuration.preemption
    asked = job.spec.checkpoint_signal.grace_s if job.spec.checkpoint_signal is not None else None
    return min(settings.checkpoint_grace_s if asked is None else asked, settings.checkpoint_grace_limit_s)


def end_saved(state: ClusterState, job: Job, now: float) -> Event:
    """It has saved, or had its time to."""
    cause = _cause(job.comes_back)
    preemptor = job.preemptor if cause is EndCause.PREEMPT else None
    return end_run(state, job, cause, now, preemptor=preemptor, comes_back=job.comes_back)


def _cause(comes_back: str) -> EndCause:
    """An elastic job that comes back with other nodes is not preempted."""
    return EndCause.RESIZE if comes_back == "resize" else EndCause.PREEMPT


def cause_of_leaving(job: Job) -> EndCause:
    """Of a run whose script has ended because it was asked to give way."""
    return _cause(job.comes_back)


def decide_deadline(state: ClusterState, message: CheckpointDeadline, now: float) -> list[Event]:
    job = _running(state, message.job_id, message.run)
    if job is None or not job.gives_way or job.checkpoint_deadline > now:
        return []
    return [end_saved(state, job, now)]


def has_left_to_give_way(job: Job, now: float) -> bool:
    """Its script has ended because it was asked to give way. Also when that was taken back: the job may have
    acted on it already, and must not be taken for finished."""
    return bool(job.checkpoint_deadline) and now <= job.checkpoint_deadline


def withdraw(state: ClusterState, preemptor: JobId, now: float) -> Iterator[Event]:
    """Runs that were asked to give way to a job that waits no more."""
    if preemptor in state.queue:
        return
    for job_id in sorted(state.giving_way):
        job = state.jobs[job_id]
        if job.preemptor == preemptor and job.state is JobState.RUNNING:
            yield CheckpointWithdrawn(now, job.id, job.run)


def _running(state: ClusterState, job_id: JobId, run: RunNumber) -> Job | None:
    job = state.jobs.get(job_id)
    return job if job is not None and job.run == run and job.state is JobState.RUNNING else None
