"""Heterogeneous jobs: components of different shapes that wait, start and end as one.

Each component is a job with an id of its own, in a row; the first one leads. It has the script, the
dependencies, the begin time and the deadline of the whole. The components are placed together
(`runs.decide_placement`), none starts before all their nodes are ready, and none outlives the leader.
Before that all end with one. While they run, one that is not the leader may be cancelled by itself, or reach
its time limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

from msgspec.structs import replace

from minislurm.cluster.ending import down_nodes, end_run
from minislurm.cluster.events import Event, JobRequeued, JobUpdated, PendingEnded, RunEnding, RunStarted
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.job import EndCause, Job, JobSpec
from minislurm.domain.states import JobState, Reason
from minislurm.domain.views import JobChanges, JobTarget

_LIVE = frozenset({JobState.CONFIGURING, JobState.RUNNING})
#: What ends one component so ends all of them.
_OF_ALL = frozenset({EndCause.NODE_FAIL, EndCause.LAUNCH_FAILURE, EndCause.REQUEUE})


# Submission


def component_spec(leader: JobSpec, spec: JobSpec) -> JobSpec:
    """A further component's specification: what concerns the whole is the leader's, or the leader's alone."""
    return replace(
        spec,
        user_id=leader.user_id,
        group_id=leader.group_id,
        user_name=leader.user_name,
        group_name=leader.group_name,
        is_batch=False,
        script_hash="",
        environment_hash="",
        begin_time=0.0,
        dependencies=(),
        dependency_any=False,
        kill_on_invalid_dependency=None,
        requeue=leader.requeue,
        hold=leader.hold,
        deadline=0.0,
        max_wait_s=0.0,
    )


def refuse_components(leader: JobSpec, others: Sequence[JobSpec]) -> Refusal | None:
    if any(spec.is_array for spec in (leader, *others)):
        return Refusal(RefusalCode.INVALID_ARRAY, details=("a heterogeneous job can be no array",))
    if any(spec.spare_nodes for spec in (leader, *others)):
        return Refusal(RefusalCode.NOT_SUPPORTED, details=("a heterogeneous job can have no spare nodes",))
    if not leader.is_batch:
        return Refusal(RefusalCode.NOT_SUPPORTED, details=("heterogeneous allocations have no script",))
    return None


# What is asked of one, or of all


def refuse_part(target: JobTarget, job: Job) -> Refusal | None:
    """For requests that concern the whole job: a single component (`job`) was named."""
    if job.is_component and (target.het_offset is not None or not job.is_leader):
        return Refusal(RefusalCode.HET_COMPONENT, job_id=job.id)
    return None


def leader_last(records: Sequence[Job]) -> Sequence[Job]:
    """What follows from a change of the leader (it may be too late for it now) comes after all others."""
    return [*records[1:], records[0]] if records[0].is_component else records


def concerns_all(changes: JobChanges) -> bool:
    """Does it change what components have in common: when they may start, and their place in the queue?"""
    of_all = (
        changes.begin_time, changes.deadline, changes.clear_dependencies, changes.requeue, changes.nice,
        changes.priority, changes.site_factor, changes.bid,
    )  # fmt: skip
    return bool(changes.dependencies) or any(value is not None for value in of_all)


def changes_of(job: Job, changes: JobChanges) -> JobChanges:
    """What of it is for that component: the leader alone knows when the whole may start."""
    if not job.is_component or job.is_leader:
        return changes
    return replace(changes, begin_time=None, deadline=None, clear_dependencies=None, dependencies=())


def decide_cancel_all(
    state: ClusterState, records: Sequence[Job], user_id: int, now: float, *, batch_only: bool
) -> list[Event]:
    """One end is decided; that of the others follows from it."""
    for job in records:
        if job.state is JobState.PENDING:
            return [PendingEnded(now, job.id, JobState.CANCELLED, job.reason, user_id)]
        if job.is_leader and job.state in _LIVE:
            if batch_only:
                return [end_run(state, job, EndCause.BATCH_KILLED, now)]
            return [end_run(state, job, EndCause.CANCEL, now, cancelled_by=user_id)]
    return [JobUpdated(now, ended_for_good(job, user_id)) for job in records if job.requeue_cause]


def ended_for_good(job: Job, user_id: int | None) -> Job:
    """A copy of a COMPLETING record that was on its way back to PENDING, and stays ended now."""
    ended = copy(job)
    ended.requeue_cause = ""
    ended.end_state, ended.cancelled_by, ended.reason = JobState.CANCELLED, user_id, Reason.NONE
    return ended


def without_repeats(state: ClusterState, events: list[Event]) -> list[Event]:
    """Of the ends of several components that one message brings the first: the others follow from it."""
    kept: list[Event] = []
    ended = set()
    for event in events:
        if isinstance(event, RunEnding):
            leader = state.jobs[event.job_id].het_job_id
            if leader and leader in ended:
                continue
            ended.add(leader)
        kept.append(event)
    return kept


# Start


def are_prepared(state: ClusterState, job: Job) -> bool:
    """All nodes of the run, and of the other components' runs."""
    others = state.components(job) or [job]
    return all(len(other.prepared_nodes) == len(other.allocation) for other in others)


def starts_of_others(state: ClusterState, job: Job, now: float) -> list[Event]:
    """Components without a script run from the moment all nodes are ready; the script says so by itself."""
    waiting = [other for other in state.components(job) if other is not job]
    if any(len(other.prepared_nodes) < len(other.allocation) for other in waiting):
        return []
    others = [other for other in (*waiting, job) if not other.is_leader]
    return [RunStarted(now, other.id, other.run) for other in others if other.state is JobState.CONFIGURING]


# What follows for the others


def end_along(state: ClusterState, event: RunEnding) -> Iterator[Event]:
    """The runs that end because this one does, in the same way."""
    job = state.jobs[event.job_id]
    is_running = state.jobs[job.het_job_id].state is not JobState.CONFIGURING
    if not job.is_leader and is_running and event.cause not in _OF_ALL:
        return  # before that it would never start: all nodes must be ready, also those of this one
    for other in state.components(job):
        if other is not job and other.state in _LIVE:
            yield replace(
                event,
                job_id=other.id,
                run=other.run,
                avoid_nodes=(),
                released_nodes=down_nodes(state, other),
            )


def leave_along(state: ClusterState, event: PendingEnded) -> Iterator[Event]:
    """Who waits with a component that ended waits for nothing any more."""
    for other in state.components(state.jobs[event.job_id]):
        if other.state is JobState.PENDING:
            yield replace(event, job_id=other.id)
        elif other.state is JobState.COMPLETING and other.requeue_cause:
            yield JobUpdated(event.time, ended_for_good(other, event.cancelled_by))


def come_along(state: ClusterState, job: Job, now: float) -> Iterator[Event]:
    """When the leader waits again, components that ended by themselves come back with it."""
    components = state.components(job)
    if not components or components[0].state is not JobState.PENDING:
        return
    for other in components:
        if other.state.is_final:
            yield JobRequeued(now, other.id, bool(components[0].held))
