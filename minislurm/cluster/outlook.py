"""What the state knows of times to come, for a forecast: who becomes eligible when, and who gives up."""

from __future__ import annotations

import math
from collections.abc import Generator, Hashable, Iterator

from msgspec.structs import replace

from minislurm.cluster import dependencies
from minislurm.cluster.eligibility import give_up_time, requeue_time
from minislurm.cluster.runs import array_slots
from minislurm.cluster.snapshot import het_class, request_class
from minislurm.cluster.state import ClusterState
from minislurm.domain import tres
from minislurm.domain.job import Dependency, DependencyKind, Job
from minislurm.domain.states import JobState
from minislurm.scheduling.future import After, Arrival, Outlook, Turnover
from minislurm.scheduling.model import QueuedJob, RequestClass
from minislurm.scheduling.work import finished

#: Tasks that follow their namesakes come one by one: nothing is foreseen for them. A job that waits for
#: another's failure hopes for what a forecast does not assume.
_UNFORESEEN = frozenset({DependencyKind.AFTER_NOT_OK, DependencyKind.AFTER_CORR})

#: Jobs looked at between two yields.
_PIECE = 300


def outlook(state: ClusterState, now: float) -> Outlook:
    """Goes with `snapshot(state, now)`."""
    return finished(look_ahead(state, now))


def look_ahead(state: ClusterState, now: float) -> Generator[None, None, Outlook]:
    """The same. Yields between units of about a millisecond; a job that starts or is changed meanwhile is
    taken as it is then, which makes no great difference to an estimate."""
    array_limits, deadlines = {}, {}
    arrivals: list[Arrival] = []
    turnovers: list[Turnover] = []
    for number, job in enumerate(list(state.jobs.values())):
        if number % _PIECE == 0:
            yield
        if job.state is not JobState.PENDING or job.held:
            continue
        if job.is_array_rest and job.array_limit:
            array_limits[job.id] = job.array_limit
        if job.deadline:
            deadlines[job.id] = job.deadline
        if job.id in state.queue:
            turnovers += _turnovers(state, job)
        elif job.partition in state.partitions:
            arrivals += _arrival(state, job, now)
    array_of, charges = {}, {}
    for number, job_id in enumerate(list(state.active)):
        if number % _PIECE == 0:
            yield
        active = state.jobs.get(job_id)
        if active is None:
            continue
        if active.allocated_tres:
            charges[job_id] = state.accounts.charged_of(active), tres.as_dict(active.allocated_tres)
        rest = state.array_rest(active.array_job_id) if active.is_array_task else None
        if rest is not None and rest.array_limit:
            array_of[job_id] = active.array_job_id
    return Outlook(array_limits, array_of, charges, deadlines, tuple(arrivals), tuple(turnovers))


def _arrival(state: ClusterState, job: Job, now: float) -> Iterator[Arrival]:
    """Of a job that is not in the queue yet."""
    if job.is_component and not _may_be_foreseen(state, job):
        return
    after = []
    for clause in job.dependencies:
        if clause.kind in _UNFORESEEN:
            if job.dependency_any:
                continue
            return
        after.append(_after(state, job, clause))
    if job.dependencies and not after:
        return
    time = max(now, requeue_time(state, job))
    yield Arrival(
        alone(state, job, time), time, tuple(after), job.dependency_any, tuple(_patience(state, job))
    )


def _may_be_foreseen(state: ClusterState, job: Job) -> bool:
    """A heterogeneous job comes as one, with its leader, when that becomes eligible: the others wait for
    nothing else."""
    others = [other for other in state.components(job) if other is not job]
    return job.is_leader and all(other.id in state.queue for other in others)


def _patience(state: ClusterState, job: Job) -> Iterator[tuple[float, RequestClass | None]]:
    """Of a job that is not eligible yet: seconds from then on."""
    request = job.request
    if request.switches and request.switches_wait_s:
        yield request.switches_wait_s, alone(state, replace(job, switches_waived=True), job.eligible_time)
    if job.spec.max_wait_s:
        yield job.spec.max_wait_s, None


def _after(state: ClusterState, job: Job, clause: Dependency) -> After:
    ids = tuple(record.id for record in dependencies.open_records(state, job, clause))
    if clause.kind is not DependencyKind.AFTER:
        return After(ids)
    due = dependencies.due_time(state, clause)
    return After((), True, due) if due is not None else After(ids, True, clause.delay_s)


def alone(state: ClusterState, job: Job, eligible_time: float) -> RequestClass:
    """The job in its class, as the only one; with its other components, if it leads some."""
    if job.is_leader:
        others = state.components(job)[1:]
        return het_class(state, [job, *others], eligible_time)
    key = state.queue.key_of(job)
    queued = state.queue.classes.get(key)
    name: Hashable = key if queued is None else queued.number
    tasks = tuple(job.pending_tasks)
    slots = _slots(state, job) if tasks else 1
    return request_class(state, key, [QueuedJob(job.id, eligible_time, eligible_time, tasks, slots)], name)


def _slots(state: ClusterState, rest: Job) -> int:
    if rest.id in state.arrays:
        return array_slots(state, rest)
    return min(len(rest.pending_tasks), rest.array_limit or len(rest.pending_tasks))  # not submitted yet


def _turnovers(state: ClusterState, job: Job) -> Iterator[Turnover]:
    """Of a job of the queue: when it has waited for its switches long enough, and when it will have waited in
    vain."""
    if job.is_component and not job.is_leader:
        return
    request = job.request
    if request.switches and request.switches_wait_s:
        time = job.eligible_time + request.switches_wait_s
        yield Turnover(time, job.id, alone(state, replace(job, switches_waived=True), job.eligible_time))
    last = give_up_time(job)
    if last < math.inf:
        yield Turnover(last, job.id)
