"""What else became so because of an event: decisions that follow from facts, and become facts themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec.structs import replace

from minislurm.cluster import dependencies, node_messages
from minislurm.cluster.checkpoints import withdraw
from minislurm.cluster.comebacks import failed_by_loss, judged_anew
from minislurm.cluster.eligibility import requeue_time
from minislurm.cluster.ending import end_run
from minislurm.cluster.events import (
    DependencySettled,
    Event,
    JobEligible,
    JobRequeued,
    JobSubmitted,
    JobUpdated,
    NodeChanged,
    NodeRegistered,
    NodeReleased,
    NodesNotJoined,
    PendingEnded,
    RunEnded,
    RunEnding,
    RunPlaced,
    RunStarted,
    TaskDetached,
)
from minislurm.cluster.het_jobs import come_along, end_along, leave_along
from minislurm.cluster.last_starts import give_up
from minislurm.cluster.lemons import drain_lemons
from minislurm.cluster.messages import EligibilityDue, SwitchWaitOver
from minislurm.cluster.resizes import LAUNCH_FAILURE, NODE_FAIL, go_on_without, keep_the_rest, next_run
from minislurm.cluster.spares import run_on_spares
from minislurm.cluster.state import ClusterState
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import DependencyKind, EndCause, Job
from minislurm.domain.states import JobState, NodeState


def follow(state: ClusterState, event: Event) -> Iterable[Event]:
    """Called after `event` was applied; what it gives is applied one by one while it is worked out."""
    followers = _followers(state, event)
    if state.giving_way:
        match event:
            case PendingEnded(job_id=job_id) | RunPlaced(job_id=job_id) | JobUpdated(job=Job(id=job_id)):
                return chain(followers, withdraw(state, job_id, event.time))
    return followers


def _followers(state: ClusterState, event: Event) -> Iterable[Event]:
    match event:
        case JobSubmitted():
            given_up = give_up(state.jobs[event.job.id], event.time)
            if given_up or not event.job.dependencies:
                return given_up
            return _settle_all(state, event.job.id, event.time)
        case RunPlaced():
            return []
        case RunEnding():
            ended = _end_if_clear(state, event.job_id, event.time)
            if event.avoid_nodes:
                ended = [*_drain_broken(state, event.avoid_nodes, event.job_id, event.time), *ended]
            if event.state is not JobState.COMPLETED:
                ended = [*drain_lemons(state, event), *ended]
            return chain(end_along(state, event), ended) if state.jobs[event.job_id].is_component else ended
        case NodeReleased():
            return _end_if_clear(state, event.job_id, event.time)
        case RunEnded():
            due: Iterable[Event] = _eligible_if_due(state, event.job_id, event.time)
            if state.jobs[event.job_id].is_component:
                due = chain(due, come_along(state, state.jobs[event.job_id], event.time))
            return chain(due, _wake(state, event.job_id, event.time)) if _anyone_waits(state) else due
        case PendingEnded() if state.jobs[event.job_id].is_component:
            return chain(leave_along(state, event), _wake(state, event.job_id, event.time))
        case PendingEnded() | RunStarted():
            return _wake(state, event.job_id, event.time) if _anyone_waits(state) else []
        case JobUpdated():
            job_id = event.job.id
            if state.jobs[job_id].state is JobState.COMPLETING:
                return _end_if_clear(state, job_id, event.time)
            # Of components several are changed by one message: an end would be undone by the next change.
            # Their timer, which is due, sees to it.
            given_up = [] if event.job.is_component else give_up(state.jobs[job_id], event.time)
            return given_up or _settle_all(state, job_id, event.time)
        case JobRequeued():
            again = _eligible_if_due(state, event.job_id, event.time)
            along = come_along(state, state.jobs[event.job_id], event.time)
            return chain(again, along, _settle_all(state, event.job_id, event.time))
        case DependencySettled():
            return _after_settling(state, event)
        case NodesNotJoined():
            return _drain_broken(state, event.failed_nodes, event.job_id, event.time)
        case NodeChanged():
            return _lose_runs(state, event) if event.state is NodeState.DOWN else []
        case NodeRegistered():
            return node_messages.welcome(state, state.nodes[event.node], event.time)
        case _:
            return []


def _end_if_clear(state: ClusterState, job_id: JobId, now: float) -> list[Event]:
    job = state.jobs[job_id]
    if job.state is not JobState.COMPLETING or job.open_nodes:
        return []
    end_time = job.end_time if job.end_cause is EndCause.EXIT else now
    ended = RunEnded(now, job.id, job.run, end_time)
    if job.keeps_nodes:
        return [ended, *next_run(state, job, now)]
    return [ended, *run_on_spares(state, job, now)]


def _drain_broken(
    state: ClusterState, failed: tuple[NodeName, ...], job_id: JobId, now: float
) -> list[Event]:
    """A node that fails every launch at once looks idle, and would draw all jobs one after the other."""
    limit = state.configuration.node.drain_after_launch_failures
    events: list[Event] = []
    for name in failed:
        node = state.nodes[name]
        if limit and node.launch_failures >= limit and not node.drained:
            reason = f"{node.launch_failures} launches in a row failed, the last of job {job_id}"
            changed = NodeChanged(now, name, node.state, node.responding, True, reason, now, 0, node.given_up)
            events.append(changed)
    return events


def _eligible_if_due(state: ClusterState, job_id: JobId, now: float) -> list[Event]:
    """A requeued job may start again, unless a delay or a hold says otherwise (timers see to the delay)."""
    job = state.jobs[job_id]
    if job.state is not JobState.PENDING or job.held or job.dependencies:
        return []
    return [JobEligible(now, job.id)] if requeue_time(state, job) <= now else []


def decide_eligibility(state: ClusterState, message: EligibilityDue, now: float) -> list[Event]:
    job = state.jobs.get(message.job_id)
    if job is None or job.state is not JobState.PENDING or job.eligible_time or job.held:
        return []
    if job.dependencies:
        return list(_settle(state, job.id, now))
    return [JobEligible(now, job.id)] if requeue_time(state, job) <= now else []


def decide_switch_wait(state: ClusterState, message: SwitchWaitOver, now: float) -> list[Event]:
    job = state.jobs.get(message.job_id)
    if job is None or not state.is_eligible(job) or not job.request.switches:
        return []
    if job.eligible_time + job.request.switches_wait_s > now:
        return []  # it was requeued since, and waits anew
    return [JobUpdated(now, replace(job, pending_tasks=list(job.pending_tasks), switches_waived=True))]


def _anyone_waits(state: ClusterState) -> bool:
    """For any job: mostly nobody does, and then an end need not be looked at closer."""
    return bool(state.dependents or state.singletons)


def _wake(state: ClusterState, job_id: JobId, now: float) -> Iterator[Event]:
    """Jobs that waited for this one, or for its array."""
    job = state.jobs[job_id]
    waiting = set(state.dependents.get(job.id, ())) | set(state.dependents.get(job.array_job_id, ()))
    if job.is_component:  # whoever waits for the leader waits for all
        waiting |= set(state.dependents.get(job.het_job_id, ()))
    if job.state.is_final:
        waiting |= {s for s in state.singletons if state.jobs[s].name == job.name}
    for waiting_id in sorted(waiting):
        yield from _settle(state, waiting_id, now)
        if job.state.is_final:
            tasks = None if job.array_task_id is None else [job.array_task_id]
            yield from _detach_corresponding(state, state.jobs[waiting_id], tasks, now)


def _settle_all(state: ClusterState, job_id: JobId, now: float) -> Iterator[Event]:
    """Clauses that hold from the start, or can never hold, of a job that is new to them."""
    yield from _settle(state, job_id, now)
    yield from _detach_corresponding(state, state.jobs[job_id], None, now)


def _settle(state: ClusterState, job_id: JobId, now: float) -> Iterator[Event]:
    job = state.jobs[job_id]
    if job.state is not JobState.PENDING or not job.dependencies:
        return
    remaining, never = dependencies.settle(state, job, now)
    if remaining != job.dependencies or never:
        yield DependencySettled(now, job.id, remaining, bool(never))


def _after_settling(state: ClusterState, event: DependencySettled) -> list[Event]:
    job = state.jobs[event.job_id]
    if event.never:
        kill = job.spec.kill_on_invalid_dependency
        if kill is None:
            kill = state.configuration.jobs.kill_on_invalid_dependency
        return [PendingEnded(event.time, job.id, JobState.CANCELLED, job.reason)] if kill else []
    if event.remaining or job.held or requeue_time(state, job) > event.time:
        return []
    return [JobEligible(event.time, job.id)]


def _detach_corresponding(
    state: ClusterState, waiting: Job, tasks: list[int] | None, now: float
) -> Iterator[Event]:
    """`aftercorr`: tasks whose namesakes have ended go their own way; `tasks` None: look at all."""
    if not waiting.is_array_rest or waiting.state is not JobState.PENDING:
        return
    if all(c.kind is not DependencyKind.AFTER_CORR for c in waiting.dependencies):
        return
    for task_id in dependencies.tasks_gone_ahead(state, waiting) if tasks is None else tasks:
        if task_id not in waiting.pending_tasks:
            continue
        last = len(waiting.pending_tasks) == 1
        job_id = waiting.id if last else state.next_job_id
        remaining, never = dependencies.settle(state, _as_detached(waiting, job_id, task_id), now)
        yield TaskDetached(now, waiting.id, task_id, job_id)
        yield DependencySettled(now, job_id, remaining, bool(never))


def _as_detached(waiting: Job, job_id: JobId, task_id: int) -> Job:
    return replace(waiting, id=job_id, array_job_id=waiting.id, array_task_id=task_id, pending_tasks=[])


def _lose_runs(state: ClusterState, event: NodeChanged) -> Iterator[Event]:
    """The node is DOWN: its runs are lost, and end on their other nodes. What it held of them is free when it
    is given up (or says that nothing is left): it may still run them."""
    name: NodeName = event.node
    for job_id in sorted(state.nodes[name].jobs):
        job = state.jobs[job_id]
        if job_id not in state.nodes[name].jobs:
            continue  # a component that has ended with another one
        if name in [part.node for part in job.spares]:
            yield NodeReleased(event.time, job.id, job.run, name)
        elif job.state is JobState.COMPLETING:
            if failed_by_loss(job, name):
                yield JobUpdated(event.time, judged_anew(state, job, name, event.time))
            if event.given_up:
                yield NodeReleased(event.time, job.id, job.run, name)
        elif without := go_on_without(job, name, event.time):
            yield from without
        elif job.state is JobState.CONFIGURING:
            if job.is_elastic:
                yield from keep_the_rest(state, job, (name,), LAUNCH_FAILURE, event.time)
            yield end_run(state, job, EndCause.LAUNCH_FAILURE, event.time, avoid_nodes=(name,))
        else:
            if job.is_elastic and job.requeue:
                yield from keep_the_rest(state, job, (name,), NODE_FAIL, event.time)
            yield end_run(state, job, EndCause.NODE_FAIL, event.time)
