"""Reservations: made, changed, begun, over; and who may use which nodes because of them.

Semantics as measured on Slurm 22.05: jobs of a reservation may start with a limit that reaches past its end,
and are ended with it (TIMEOUT); other jobs may not start if their limit reaches into it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from copy import copy

from msgspec.structs import replace

from minislurm.cluster.ending import end_run
from minislurm.cluster.events import Event, JobUpdated, ReservationChanged, ReservationEnded
from minislurm.cluster.messages import (
    CreateReservation,
    DeleteReservation,
    ReservationDue,
    UpdateReservation,
)
from minislurm.cluster.reserved_nodes import changed_nodes, runs_into
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.job import EndCause, Job
from minislurm.domain.reservation import RECURRING, Reservation, ReservationFlag, overlap
from minislurm.domain.states import JobState, Reason
from minislurm.domain.views import ListChange, ReservationChanges

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}\Z")
#: ``StartTime=now`` was worked out by the command a moment ago, perhaps by another clock.
_LATE_S = 60.0
#: Slurm's, for a duration without an end.
_LONGEST_S = 365 * 86400.0

Answer = list[Event] | Refusal


def decide_creation(state: ClusterState, message: CreateReservation, now: float) -> Answer:
    if not message.caller.is_operator:
        return Refusal(RefusalCode.ACCESS)
    if made_by(state, message.request_id) is not None:
        return []
    name = message.changes.name or _new_name(state, message.changes)
    if name in state.reservations:
        return Refusal(RefusalCode.RESERVATION_EXISTS)
    if not _NAME.match(name) or message.changes.start_time is None:
        return Refusal(RefusalCode.RESERVATION_INVALID)
    blank = Reservation(name, 0.0, 0.0, request_id=message.request_id)
    return _change(state, blank, message.changes, now)


def made_by(state: ClusterState, request_id: str) -> Reservation | None:
    """The reservation that this request made."""
    if not request_id:
        return None
    return next((r for r in state.reservations.values() if r.request_id == request_id), None)


def decide_update(state: ClusterState, message: UpdateReservation, now: float) -> Answer:
    if not message.caller.is_operator:
        return Refusal(RefusalCode.ACCESS)
    before = state.reservations.get(message.changes.name)
    if before is None:
        return Refusal(RefusalCode.RESERVATION_INVALID)
    if message.changes.start_time is not None and before.is_active(now):
        return Refusal(RefusalCode.RESERVATION_STARTED)
    return _change(state, before, message.changes, now)


def decide_deletion(state: ClusterState, message: DeleteReservation, now: float) -> Answer:
    """Not while jobs that have not ended ask for it."""
    if not message.caller.is_operator:
        return Refusal(RefusalCode.ACCESS)
    if message.name not in state.reservations:
        return Refusal(RefusalCode.RESERVATION_INVALID)
    if any(True for _ in _jobs_of(state, message.name)):
        return Refusal(RefusalCode.RESERVATION_IN_USE)
    return [ReservationEnded(now, message.name)]


def decide_due(state: ClusterState, message: ReservationDue, now: float) -> Answer:
    """Its start wakes the jobs that wait for it; its end ends those that run in it."""
    reservation = state.reservations.get(message.name)
    if reservation is None:
        return []
    if now < reservation.end_time:
        if reservation.begun or now < reservation.start_time:
            return []  # changed since; another timer is set
        return [ReservationChanged(now, replace(reservation, begun=True))]
    ended = [] if reservation.has(ReservationFlag.FLEX) else _end_runs(state, reservation.name, now)
    if not reservation.recurs:
        # What waits is changed first: the end of a run may settle dependencies of the same jobs.
        return [*_set_free(state, reservation, now), *ended, ReservationEnded(now, reservation.name)]
    while reservation.end_time <= now:
        reservation = reservation.next()
    return [*ended, ReservationChanged(now, replace(reservation, begun=reservation.start_time <= now))]


def _jobs_of(state: ClusterState, name: str) -> Iterator[Job]:
    return (j for j in state.jobs.values() if j.request.reservation == name and not j.state.is_final)


def _end_runs(state: ClusterState, name: str, now: float) -> list[Event]:
    return [
        end_run(state, job, EndCause.TIME_LIMIT, now)
        for job in _jobs_of(state, name)
        if job.state in (JobState.CONFIGURING, JobState.RUNNING)
    ]


def _set_free(state: ClusterState, reservation: Reservation, now: float) -> list[Event]:
    """Jobs that still wait for it, or will again, belong to no reservation any more, and are held unless it
    says not to."""
    events: list[Event] = []
    for job in _jobs_of(state, reservation.name):
        pending = job.state is JobState.PENDING
        if not pending and not job.requeue_cause:
            continue
        freed = copy(job)
        freed.pending_tasks = list(job.pending_tasks)
        freed.changed_request = replace(job.request, reservation="")
        hold = not reservation.has(ReservationFlag.NO_HOLD_JOBS_AFTER_END)
        if hold and not pending:
            freed.requeue_held = True
        elif hold:
            freed.held = job.held or "user"
            freed.eligible_time = 0.0
            freed.reason = Reason.RESERVATION_DELETED
        events.append(JobUpdated(now, freed))
    return events


# What an operator asks for


def _new_name(state: ClusterState, changes: ReservationChanges) -> str:
    """``alice_1``, as Slurm calls one without a name."""
    of = next((c.items[0] for c in (changes.users, changes.accounts) if c is not None and c.items), "resv")
    number = 1
    while f"{of}_{number}" in state.reservations:
        number += 1
    return f"{of}_{number}"


def _change(
    state: ClusterState, before: Reservation, changes: ReservationChanges, now: float
) -> list[Event] | Refusal:
    if changes.partition and changes.partition not in state.partitions:
        return Refusal(RefusalCode.INVALID_PARTITION)
    flags = _flags(before.flags, changes.flags)
    if isinstance(flags, Refusal):
        return flags
    times = _times(before, changes, now)
    if isinstance(times, Refusal):
        return times
    changed = replace(
        before,
        start_time=times[0],
        end_time=times[1],
        users=_items(before.users, changes.users),
        accounts=_items(before.accounts, changes.accounts),
        partition=before.partition if changes.partition is None else changes.partition,
        flags=flags,
        begun=times[0] <= now,
    )
    placed = changed_nodes(state, changed, changes)
    if isinstance(placed, Refusal):
        return placed
    refusal = _check(state, before, placed)
    return refusal or [ReservationChanged(now, placed)]


def _items(before: tuple[str, ...], change: ListChange | None) -> tuple[str, ...]:
    return before if change is None else change.applied_to(before)


def _flags(
    before: tuple[ReservationFlag, ...], change: ListChange | None
) -> tuple[ReservationFlag, ...] | Refusal:
    """In the order in which they are shown."""
    wanted = set(_items(tuple(flag.value for flag in before), change))
    unknown = wanted - {flag.value for flag in ReservationFlag}
    if unknown:
        detail = f"Flags={','.join(sorted(unknown))} is not supported by minislurm"
        return Refusal(RefusalCode.NOT_SUPPORTED, details=(detail,))
    flags = tuple(flag for flag in ReservationFlag if flag.value in wanted)
    if sum(flag in RECURRING for flag in flags) > 1:
        return Refusal(RefusalCode.RESERVATION_INVALID)
    return flags


def _times(before: Reservation, changes: ReservationChanges, now: float) -> tuple[float, float] | Refusal:
    """A new start alone keeps the end."""
    start = before.start_time if changes.start_time is None else changes.start_time
    end = before.end_time if changes.end_time is None else changes.end_time
    if changes.duration_s is not None:
        end = start + min(changes.duration_s, _LONGEST_S)
    if changes.start_time is not None and not now - _LATE_S <= start < math.inf:
        return Refusal(RefusalCode.INVALID_TIME)
    if not max(start, now) < end < math.inf:
        return Refusal(RefusalCode.INVALID_TIME)
    return start, end


def _check(state: ClusterState, before: Reservation, changed: Reservation) -> Refusal | None:
    if not changed.nodes or not (changed.users or changed.accounts):
        return Refusal(RefusalCode.RESERVATION_INVALID)
    if changed.recurs and changed.next().start_time < changed.end_time:
        return Refusal(RefusalCode.INVALID_TIME)
    if not changed.has(ReservationFlag.MAINT) and not changed.has(ReservationFlag.OVERLAP):
        others = (r for r in state.reservations.values() if r.name != changed.name)
        if any(set(r.nodes) & set(changed.nodes) and overlap(r, changed) for r in others):
            return Refusal(RefusalCode.RESERVATION_OVERLAP)
    moved = (before.nodes, before.start_time) != (changed.nodes, changed.start_time)
    if moved and not changed.has(ReservationFlag.IGNORE_JOBS) and _are_busy(state, before, changed):
        return Refusal(RefusalCode.NODES_BUSY)
    return None


def _are_busy(state: ClusterState, before: Reservation, changed: Reservation) -> bool:
    """Would jobs of others still run on its nodes at its start?"""
    nodes = set(changed.nodes)
    if before.start_time == changed.start_time:
        nodes -= set(before.nodes)
    return any(runs_into(state, name, changed) for name in nodes)


# Who may use it


def refuse_use(state: ClusterState, job: Job, partition_nodes: Iterable[str]) -> Refusal | None:
    """May this job ask for its reservation, and could it ever run there?"""
    request = job.request
    if not request.reservation:
        return None
    reservation = state.reservations.get(request.reservation)
    if reservation is None:
        return Refusal(RefusalCode.RESERVATION_INVALID, job_id=job.id)
    if not reservation.admits(job.spec.user_name, job.spec.account):
        return Refusal(RefusalCode.RESERVATION_ACCESS, job_id=job.id)
    if not reservation.binds_nodes:
        return None
    usable = set(reservation.nodes) & set(partition_nodes)
    if len(usable) < request.nodes_min or not usable.issuperset(request.required_nodes):
        detail = "Problem using reservation"
        return Refusal(RefusalCode.NODE_CONFIGURATION, details=(detail,), job_id=job.id)
    return None


def may_run(state: ClusterState, job: Job, names: Iterable[str], now: float) -> bool:
    """May the job start on these nodes now, as far as reservations go?"""
    if not (state.reservations or job.request.reservation):
        return True
    own = state.reservations.get(job.request.reservation)
    if job.request.reservation and own is None:
        return False
    end = now + job.time_limit_s if job.time_limit_s else math.inf
    nodes = set(names)
    if own is not None:
        if not own.admits(job.spec.user_name, job.spec.account):
            return False
        if own.binds_nodes and not nodes.issubset(own.nodes):
            return False
        if not own.has(ReservationFlag.FLEX):
            if not own.is_active(now):
                return False
            end = min(end, own.end_time)
        if own.has(ReservationFlag.MAINT) or own.has(ReservationFlag.OVERLAP):
            return True
    return not any(
        other is not own and nodes.intersection(other.nodes) and other.touches(now, end)
        for other in state.reservations.values()
    )
