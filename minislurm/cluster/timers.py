"""Which moments matter to a job. Timers follow from the state: none has to be kept, a restart asks anew."""

from __future__ import annotations

import math
from collections.abc import Iterator

from minislurm.cluster import dependencies
from minislurm.cluster.checkpoints import due_time
from minislurm.cluster.effects import Effect, SetTimer
from minislurm.cluster.eligibility import give_up_time, requeue_time
from minislurm.cluster.messages import (
    AvoidanceOver,
    CheckpointDeadline,
    CheckpointDue,
    DeadlineReached,
    EligibilityDue,
    LastStartPassed,
    PrepareTimeout,
    ReservationDue,
    SignalDue,
    SwitchWaitOver,
    TimeLimitReached,
)
from minislurm.cluster.state import ClusterState
from minislurm.domain.job import Job
from minislurm.domain.reservation import Reservation
from minislurm.domain.states import JobState


def all_timers(state: ClusterState, now: float) -> Iterator[Effect]:
    """Every timer that the state calls for, after a restart."""
    prepare_timeout_s = state.configuration.timers.prepare_timeout_s
    for job in state.jobs.values():
        if job.state is JobState.PENDING:
            yield from waiting_timers(state, job)
        elif job.state is JobState.CONFIGURING:
            # The nodes' time to answer starts anew: the controller may have been away for long.
            yield SetTimer(now + prepare_timeout_s, PrepareTimeout(job.id, job.run))
        elif job.state is JobState.RUNNING:
            yield from run_timers(job)
            if job.joins_in_place:
                yield SetTimer(now + prepare_timeout_s, PrepareTimeout(job.id, job.run))
    for reservation in state.reservations.values():
        yield from reservation_timers(reservation)


def reservation_timers(reservation: Reservation) -> list[Effect]:
    """Its next start, and its end."""
    due = ReservationDue(reservation.name)
    start: list[Effect] = [] if reservation.begun else [SetTimer(reservation.start_time, due)]
    return [*start, SetTimer(reservation.end_time, due)]


def waiting_timers(state: ClusterState, job: Job) -> list[Effect]:
    """What time alone does to a job that waits: it becomes eligible, or has waited too long."""
    if job.state is not JobState.PENDING:
        return []
    avoidance: list[Effect] = [SetTimer(job.avoid_until, AvoidanceOver(job.id))] if job.avoid_until else []
    return [*pending_timers(state, job), *last_start_timers(job), *avoidance]


def last_start_timers(job: Job) -> list[Effect]:
    if job.state is not JobState.PENDING or not (job.deadline or job.spec.max_wait_s):
        return []
    time = give_up_time(job)
    return [SetTimer(time, LastStartPassed(job.id))] if time < math.inf else []


def pending_timers(state: ClusterState, job: Job) -> list[Effect]:
    """When time alone may make the job eligible, or less choosy."""
    if job.state is JobState.PENDING and job.eligible_time and job.request.switches:
        return [SetTimer(job.eligible_time + job.request.switches_wait_s, SwitchWaitOver(job.id))]
    if job.state is not JobState.PENDING or job.eligible_time or job.held:
        return []
    if job.dependencies:
        due = [d for c in job.dependencies if (d := dependencies.due_time(state, c)) is not None]
        return [SetTimer(time, EligibilityDue(job.id)) for time in due]
    return [SetTimer(requeue_time(state, job), EligibilityDue(job.id))]


def dependent_timers(state: ClusterState, job: Job) -> Iterator[Effect]:
    """When jobs that wait for a while after this one's start will have waited long enough."""
    if not state.dependents:
        return
    for target in {job.id, job.array_job_id}:
        for job_id in state.dependents.get(target, ()):
            yield from pending_timers(state, state.jobs[job_id])


def run_timers(job: Job) -> list[Effect]:
    """The deadline and the time limit of a run, and the --signal before that."""
    if job.state is not JobState.RUNNING:
        return []
    timers: list[Effect] = []
    if job.deadline:
        timers.append(SetTimer(job.deadline, DeadlineReached(job.id, job.run)))
    if job.gives_way:
        timers.append(SetTimer(job.checkpoint_deadline, CheckpointDeadline(job.id, job.run)))
    if (due := due_time(job)) < math.inf:
        timers.append(SetTimer(due, CheckpointDue(job.id, job.run)))
    if not job.time_limit_s:
        return timers
    end = job.expected_end_time
    timers.append(SetTimer(end, TimeLimitReached(job.id, job.run)))
    if job.spec.signal is not None and not job.signal_sent:
        due = max(job.start_time, end - job.spec.signal.seconds_before)
        timers.append(SetTimer(due, SignalDue(job.id, job.run)))
    return timers
