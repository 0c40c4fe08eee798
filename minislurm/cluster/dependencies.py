"""When a dependency is met, and when it never can be. Semantics as measured on Slurm (slurm-facts.md)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from minislurm.cluster.state import ArraySummary, ClusterState
from minislurm.domain.ids import JobId
from minislurm.domain.job import Dependency, DependencyKind, Job
from minislurm.domain.states import JobState


class Verdict(Enum):
    FULFILLED = "fulfilled"
    UNFULFILLED = "unfulfilled"
    NEVER = "failed"


def judge(state: ClusterState, job: Job, clause: Dependency, now: float) -> Verdict:
    """One clause at this moment. A job that nobody remembers counts as satisfied, as in Slurm."""
    if clause.kind is DependencyKind.SINGLETON:
        return _judge_singleton(state, job)
    records = _records(state, clause)
    if clause.kind is DependencyKind.AFTER:
        return _judge_after(records, clause, now)
    if clause.kind is DependencyKind.AFTER_CORR:
        return _judge_corresponding(state, job, clause)
    finals = _final_states(state, clause, records)
    if finals is None:
        if clause.kind is DependencyKind.AFTER_OK and _some_failed(state, clause, records):
            return Verdict.NEVER
        return Verdict.UNFULFILLED
    return _judge_finals(clause.kind, finals)


def due_time(state: ClusterState, clause: Dependency) -> float | None:
    """When an `after:ID+minutes` whose job has started will be met by time alone; None: not by time."""
    if clause.kind is not DependencyKind.AFTER or not clause.delay_s:
        return None
    started = [record.start_time for record in _records(state, clause)]
    if not started or not all(started):
        return None
    return max(started) + clause.delay_s


def open_records(state: ClusterState, job: Job, clause: Dependency) -> list[Job]:
    """What the clause of the job names and has not ended."""
    if clause.kind is DependencyKind.SINGLETON:
        return [other for other in state.jobs.values() if _goes_before(other, job)]
    return [record for record in _records(state, clause) if not record.state.is_final]


def _records(state: ClusterState, clause: Dependency) -> list[Job]:
    if clause.task_id is not None:
        record = state.task_record(clause.job_id, clause.task_id)
        if record is not None:
            return [record]
        rest = state.array_rest(clause.job_id)
        return [rest] if rest is not None and clause.task_id in rest.pending_tasks else []
    if clause.job_id in state.arrays:
        return list(state.array_records(clause.job_id))
    job = state.jobs.get(clause.job_id)
    if job is not None and job.is_leader:
        return state.components(job)
    return [job] if job is not None else []


def _judge_singleton(state: ClusterState, job: Job) -> Verdict:
    """No earlier job of the same name and user is left."""
    if any(_goes_before(other, job) for other in state.jobs.values()):
        return Verdict.UNFULFILLED
    return Verdict.FULFILLED


def _judge_after(records: list[Job], clause: Dependency, now: float) -> Verdict:
    for record in records:
        begun = record.start_time or (record.end_time if record.state.is_final else 0.0)
        unbegun = record.is_array_rest and not record.state.is_final
        if not begun or unbegun or now < begun + clause.delay_s:
            return Verdict.UNFULFILLED
    return Verdict.FULFILLED


def _judge_corresponding(state: ClusterState, job: Job, clause: Dependency) -> Verdict:
    """`aftercorr` of a task: its namesake in the other array ended well. An undivided rest waits; its
    tasks are detached one by one as theirs end (follow.py). Where one of the two is no array: afterok."""
    summary = state.arrays.get(clause.job_id)
    if summary is None or not (job.is_array_rest or job.is_array_task):
        return judge(state, job, Dependency(DependencyKind.AFTER_OK, clause.job_id), 0.0)
    if job.array_task_id is None:
        return Verdict.UNFULFILLED
    final = summary.ended_tasks.get(job.array_task_id)
    if final is None:
        exists = _records(state, Dependency(clause.kind, clause.job_id, job.array_task_id))
        return Verdict.UNFULFILLED if exists else Verdict.FULFILLED
    return Verdict.FULFILLED if final == JobState.COMPLETED.value else Verdict.NEVER


def tasks_gone_ahead(state: ClusterState, rest: Job) -> list[int]:
    """Tasks of an undivided array whose namesakes under `aftercorr` have ended, or never were."""
    gone: set[int] = set()
    for clause in rest.dependencies:
        summary = state.arrays.get(clause.job_id)
        if clause.kind is DependencyKind.AFTER_CORR and summary is not None:
            other = state.array_rest(clause.job_id)
            waiting = {state.jobs[job_id].array_task_id for job_id in summary.live}
            if other is not None and not other.state.is_final:
                waiting.update(other.pending_tasks)
            gone.update(set(rest.pending_tasks) - waiting)
    return sorted(gone)


def _final_states(state: ClusterState, clause: Dependency, records: list[Job]) -> list[JobState] | None:
    """Final states of everything the clause names; None while some of it has not ended."""
    summary = state.arrays.get(clause.job_id)
    if summary is not None and clause.task_id is None:
        rest = state.array_rest(clause.job_id)
        if summary.live or (rest is not None and not rest.state.is_final):
            return None
        return [JobState(name) for name in summary.ended_tasks.values()]
    if summary is not None and not records and clause.task_id in summary.ended_tasks:
        return [JobState(summary.ended_tasks[clause.task_id])]
    if any(not record.state.is_final for record in records):
        return None
    return [record.state for record in records]


def _some_failed(state: ClusterState, clause: Dependency, records: list[Job]) -> bool:
    summary: ArraySummary | None = state.arrays.get(clause.job_id)
    if summary is None or clause.task_id is not None:
        return False
    return any(name != JobState.COMPLETED.value for name in summary.ended_tasks.values())


def _judge_finals(kind: DependencyKind, finals: list[JobState]) -> Verdict:
    if kind is DependencyKind.AFTER_ANY or not finals:
        return Verdict.FULFILLED
    if kind is DependencyKind.AFTER_OK:
        well = all(final is JobState.COMPLETED for final in finals)
        return Verdict.FULFILLED if well else Verdict.NEVER
    assert kind is DependencyKind.AFTER_NOT_OK
    failed = any(final is not JobState.COMPLETED for final in finals)
    return Verdict.FULFILLED if failed else Verdict.NEVER


def settle(
    state: ClusterState, job: Job, now: float
) -> tuple[tuple[Dependency, ...], tuple[Dependency, ...]]:
    """(clauses still open, clauses that can never be met) of a pending job."""
    verdicts = [(clause, judge(state, job, clause, now)) for clause in job.dependencies]
    if job.dependency_any and any(v is Verdict.FULFILLED for _, v in verdicts):
        return (), ()
    remaining = tuple(clause for clause, v in verdicts if v is not Verdict.FULFILLED)
    never = tuple(clause for clause, v in verdicts if v is Verdict.NEVER)
    if job.dependency_any and len(never) < len(verdicts):
        never = ()
    return remaining, never


def find_cycle(state: ClusterState, job: Job, clauses: tuple[Dependency, ...]) -> tuple[JobId, ...]:
    """The ids along which the job would wait for itself, its own first and last; () if it would not."""
    own = job.array_job_id or job.id
    came_from: dict[JobId, JobId] = {}
    stack = [(target, own) for target in _waits_for(state, job, clauses)]
    while stack:
        current, before = stack.pop()
        if current in came_from:
            continue
        came_from[current] = before
        if current == own:
            return _path(came_from, own)
        for record in _pending_records(state, current):
            stack.extend((target, current) for target in _waits_for(state, record, record.dependencies))
    return ()


def _path(came_from: dict[JobId, JobId], own: JobId) -> tuple[JobId, ...]:
    path = [own, came_from[own]]
    while path[-1] != own:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


def _pending_records(state: ClusterState, job_id: JobId) -> list[Job]:
    records = _records(state, Dependency(DependencyKind.AFTER_ANY, job_id))
    return [record for record in records if record.state is JobState.PENDING]


def _waits_for(state: ClusterState, job: Job, clauses: tuple[Dependency, ...]) -> Iterator[JobId]:
    """Arrays and plain jobs that the clauses name; singleton: all earlier ones of the same name and user."""
    for clause in clauses:
        if clause.kind is not DependencyKind.SINGLETON:
            target = state.jobs.get(clause.job_id)
            # A task's own id stands for its array, too.
            yield target.array_job_id or target.id if target is not None else clause.job_id
            continue
        for other in state.jobs.values():
            if _goes_before(other, job):
                yield other.array_job_id or other.id


def _goes_before(other: Job, job: Job) -> bool:
    """Does a singleton wait for that one?"""
    return (
        other.id < job.id
        and other.name == job.name
        and other.spec.user_id == job.spec.user_id
        and not other.state.is_final
        and (other.array_job_id or other.id) != (job.array_job_id or job.id)
    )
