"""What a controller's journal tells of jobs, as a trace: without an accounting store, it is the record.

The state as stored has the jobs that wait, run, or ended lately; the events that are kept behind it
(`journal.keep_events`) have those that were forgotten since. A job counts from the moment at which nothing
but the scheduler stood between it and its start: begin times, holds and dependencies are those of the past.
A task of an array is a job of its own, and only the last run of a job counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from minislurm.cluster.events import (
    Event,
    JobEligible,
    JobSubmitted,
    JobUpdated,
    PendingEnded,
    RunEnded,
    RunEnding,
    RunPlaced,
    RunStarted,
    TaskDetached,
)
from minislurm.cluster.state import ClusterState
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import ConfigurationError
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.node import Node, NodeSpec
from minislurm.domain.states import JobState
from minislurm.journal.encoding import decode
from minislurm.journal.records import load
from minislurm.journal.store import StoreError, StoreView
from minislurm.sim.trace import TraceError, TraceJob, Workload


def read(path: Path) -> Workload:
    """Changes nothing in it; a controller may be writing it. Raises TraceError."""
    try:
        with StoreView(str(path)) as view:
            state, _ = load(view)
            past = _Past()
            first = 0
            for number, payload in view.events(0):
                first = first or number
                past.tell(decode(payload))
    except (StoreError, ValueError) as error:
        raise TraceError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    past.jobs.update((job.id, _Told(job, past.eligible(job))) for job in state.jobs.values())
    left_out: Counter[str] = Counter()
    jobs = [job for told in past.jobs.values() for job in _trace_jobs(told, left_out)]
    notes = [f"jobs that {why}: {count}" for why, count in left_out.items()]
    if first > 1:
        notes.append(f"the journal begins with event {first}: jobs that were forgotten before are not in it")
    jobs.sort(key=lambda job: job.submit_s)
    return Workload(path.name, tuple(jobs), notes=tuple(notes))


def cluster(text: str) -> Configuration:
    """The cluster of that journal: configured as last, nodes with what was found on them. Raises
    ConfigurationError."""
    try:
        with StoreView(text) as view:
            state, _ = load(view)
    except StoreError as error:
        raise ConfigurationError(f"journal:{error}") from None
    known = [_as_found(node) for node in _declared(state) if node.cpus]
    if not known:
        raise ConfigurationError(f"journal:{text}: has no nodes of which it is known what they have")
    names = {spec.name for spec in known}
    return replace(
        state.configuration,
        nodes=tuple(known),
        partitions=tuple(
            replace(partition, nodes=tuple(name for name in partition.nodes if name in names))
            for partition in state.configuration.partitions
        ),
        topology=tuple(
            replace(domain, nodes=tuple(name for name in domain.nodes if name in names))
            for domain in state.configuration.topology
        ),
    )


def _declared(state: ClusterState) -> Iterator[Node]:
    for spec in state.configuration.nodes:
        yield state.nodes[spec.name]


def _as_found(node: Node) -> NodeSpec:
    memory = {group.memory_mib for group in node.gpus}
    capability = {group.capability for group in node.gpus}
    return replace(
        node.spec,
        cpus=node.cpus,
        memory_mib=node.memory_mib,
        gpus=node.gpus,
        gpus_declared=True,
        gpu_links=node.gpu_links,
        gpu_memory_mib=memory.pop() if len(memory) == 1 else 0,
        gpu_capability=capability.pop() if len(capability) == 1 else "",
    )


_Step = JobEligible | RunPlaced | RunStarted | RunEnding | RunEnded | PendingEnded


class _Told(Struct):
    """A record as far as it is known, and when it first was eligible (0: never)."""

    job: Job
    eligible_time: float = 0.0


class _Past:
    """Jobs by what events say of them, without the state before: those whose submission is no longer there
    are passed over."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, _Told] = {}

    def eligible(self, job: Job) -> float:
        told = self.jobs.get(job.id)
        return told.eligible_time if told is not None and told.eligible_time else job.eligible_time

    def tell(self, event: Event) -> None:
        if isinstance(event, JobSubmitted):
            self.jobs[event.job.id] = _Told(event.job, event.job.eligible_time)
            return
        if isinstance(event, TaskDetached):
            self._detach(event)
            return
        if isinstance(event, JobUpdated):
            told = self.jobs.setdefault(event.job.id, _Told(event.job, event.job.eligible_time))
            told.job = event.job
            return
        if not isinstance(event, (JobEligible, RunPlaced, RunStarted, RunEnding, RunEnded, PendingEnded)):
            return
        told_of = self.jobs.get(event.job_id)
        if told_of is not None:
            _tell(told_of, event)

    def _detach(self, event: TaskDetached) -> None:
        rest = self.jobs.get(event.array_job_id)
        if rest is None:
            return
        pending = [task for task in rest.job.pending_tasks if task != event.task_id]
        task = copy(rest.job)
        task.id, task.array_task_id, task.pending_tasks = event.job_id, event.task_id, []
        task.array_job_id = event.array_job_id
        rest.job.pending_tasks = pending
        self.jobs[event.job_id] = _Told(task, rest.eligible_time)


def _tell(
    told: _Told, event: JobEligible | RunPlaced | RunStarted | RunEnding | RunEnded | PendingEnded
) -> None:
    job = told.job
    match event:
        case JobEligible():
            told.eligible_time = told.eligible_time or event.time
        case RunPlaced() | RunStarted():
            job.state, job.start_time, job.end_time = JobState.RUNNING, event.time, 0.0
        case RunEnding():
            job.end_state, job.requeue_cause = event.state, event.requeue_cause
        case RunEnded():
            job.end_time = event.end_time
            assert job.end_state is not None
            job.state = JobState.PENDING if job.requeue_cause else job.end_state
            if job.requeue_cause:
                job.start_time = 0.0
        case PendingEnded():
            job.state, job.start_time, job.end_time = event.state, event.time, event.time


def _trace_jobs(told: _Told, left_out: Counter[str]) -> Iterator[TraceJob]:
    job = told.job
    tasks: Iterable[int | None] = job.pending_tasks or [job.array_task_id]
    for task in tasks:
        limit_s = job.time_limit_s or None
        has_run = job.state.is_final and job.end_time > job.start_time > 0
        if job.state.is_final and not has_run:
            left_out["ended without a run are left out"] += 1
            continue
        if not told.eligible_time:
            left_out["may not start yet (held, begin time, dependency) are left out"] += 1
            continue
        run_s = job.end_time - job.start_time - job.suspended_time_s if has_run else limit_s
        if run_s is None:
            left_out["have not ended and have no time limit are left out"] += 1
            continue
        if not has_run:
            left_out["have not ended count as long as their time limits"] += 1
        yield TraceJob(
            name=str(job.id) if task is None else f"{job.array_job_id or job.id}_{task}",
            submit_s=told.eligible_time,
            run_s=run_s,
            limit_s=limit_s,
            user=job.spec.user_name,
            account=job.spec.account,
            partition=job.partition,
            bid=job.bid,
            spec=_spec(job),
        )


def _spec(job: Job) -> JobSpec:
    """What was asked for, without what belongs to the time at which it was: dependencies, begin, hold,
    deadline, reservation."""
    request = job.changed_request if job.changed_request is not None else job.spec.request
    return replace(
        job.spec,
        request=replace(request, reservation=""),
        nice=job.nice,
        priority=job.priority,
        is_batch=True,
        begin_time=0.0,
        dependencies=(),
        dependency_any=False,
        array_tasks=(),
        array_limit=0,
        hold=False,
        deadline=0.0,
        reservation="",
    )
