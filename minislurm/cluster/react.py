"""What the outside must now do because of an event. Called after the event was applied; performed once it
is in the journal. Commands to nodes may arrive twice, so each is idempotent there."""

from __future__ import annotations

from minislurm.cluster.apply import is_current
from minislurm.cluster.effects import (
    AskCheckpoint,
    DeleteCheckpoint,
    Effect,
    EndRun,
    ForgetRun,
    JobChanged,
    PrepareRun,
    Schedule,
    SetTimer,
    SignalRun,
    StartRun,
    TellNodes,
)
from minislurm.cluster.events import (
    AccountsChanged,
    CheckpointListening,
    CheckpointReported,
    CheckpointRequested,
    CheckpointWithdrawn,
    DependencySettled,
    Event,
    JobEligible,
    JobRequeued,
    JobSignalled,
    JobSubmitted,
    JobUpdated,
    KnownRun,
    NodeChanged,
    NodeLeft,
    NodePrepared,
    NodeRegistered,
    NodeReleased,
    NodesJoined,
    NodesNotJoined,
    NodeWeightChanged,
    PartitionChanged,
    PartitionUpdated,
    PendingEnded,
    ReservationChanged,
    ReservationEnded,
    ResizeBegun,
    RunEnded,
    RunEnding,
    RunPlaced,
    RunStarted,
    StaleRunEnded,
)
from minislurm.cluster.het_jobs import are_prepared
from minislurm.cluster.messages import PrepareTimeout
from minislurm.cluster.resizes import join_end
from minislurm.cluster.snapshot import kept_run
from minislurm.cluster.state import ClusterState
from minislurm.cluster.timers import (
    dependent_timers,
    reservation_timers,
    run_timers,
    waiting_timers,
)
from minislurm.domain.ids import BATCH_STEP, JobId, NodeName, RunNumber
from minislurm.domain.job import EndCause, Job
from minislurm.domain.node import Node
from minislurm.domain.states import JobState
from minislurm.scheduling.rivals import gives_way

_SCHEDULE = Schedule()


def react(state: ClusterState, event: Event) -> list[Effect]:
    match event:
        case JobSubmitted():
            return [_SCHEDULE, *waiting_timers(state, event.job)]
        case RunPlaced():
            return _placed(state, state.jobs[event.job_id], event.time)
        case RunStarted():
            job = state.jobs[event.job_id]
            # Somebody may wait for the time when it gives way, or itself for that when it may grow.
            is_awaited = job.is_elastic or gives_way(kept_run(state, job.id))
            wanted: list[Effect] = [_SCHEDULE] if is_awaited else []
            return [*wanted, JobChanged(job.id), *run_timers(job), *dependent_timers(state, job)]
        case RunEnding():
            return _ending(state, state.jobs[event.job_id], event)
        case RunEnded():
            return [_SCHEDULE, JobChanged(event.job_id), *_ended(state, event)]
        case JobUpdated():
            return _updated(state, state.jobs[event.job.id])
        case DependencySettled() | JobRequeued():
            job = state.jobs[event.job_id]
            return [_SCHEDULE, JobChanged(job.id), *waiting_timers(state, job)]
        case JobEligible():
            return [_SCHEDULE, *waiting_timers(state, state.jobs[event.job_id])]
        case NodePrepared():
            return _start_if_prepared(state, state.jobs[event.job_id])
        case NodeReleased():
            return [_let_go(state, event.node, event.job_id, event.run), _SCHEDULE]
        case PendingEnded():
            job = state.jobs[event.job_id]
            return [_SCHEDULE, JobChanged(job.id), *dependent_timers(state, job)]
        case JobSignalled():
            return _signal(state.jobs[event.job_id], event)
        case NodeRegistered():
            return _reconcile(state, event)
        case NodeChanged():
            return [_SCHEDULE]
        case StaleRunEnded():
            job_id, _, run = event.run.partition(".")
            return [ForgetRun(event.node, JobId(int(job_id)), RunNumber(int(run))), _SCHEDULE]
        case ReservationChanged():
            return [_SCHEDULE, *reservation_timers(event.reservation)]
        case AccountsChanged():
            return [_SCHEDULE]
        case ResizeBegun():
            return _resizing(state, state.jobs[event.job_id], event)
        case NodesJoined():
            job = state.jobs[event.job_id]
            starts = [StartRun(name, job.id, job.run) for name in event.nodes]
            return [*starts, *_tell(job), _SCHEDULE, JobChanged(job.id)]
        case NodesNotJoined():
            released = [_let_go(state, name, event.job_id, event.run) for name in event.nodes]
            return [*released, _SCHEDULE, JobChanged(event.job_id)]
        case NodeLeft():
            job = state.jobs[event.job_id]
            return [_let_go(state, event.node, job.id, job.run), *_tell(job), _SCHEDULE, JobChanged(job.id)]
        case PartitionChanged() | PartitionUpdated() | ReservationEnded() | NodeWeightChanged():
            return [_SCHEDULE]
        case CheckpointReported():
            return _reported(state.jobs[event.job_id], event)
        case CheckpointRequested():
            job = state.jobs[event.job_id]
            # Its nodes are kept for the preemptor: a pass would look for others.
            return [*_ask(job), *run_timers(job), *([_SCHEDULE] if job.gives_way else [])]
        case CheckpointWithdrawn():
            return [*_ask(state.jobs[event.job_id], withdrawn=True), _SCHEDULE]
        case CheckpointListening():
            return run_timers(state.jobs[event.job_id])
        case _:
            return []


def _updated(state: ClusterState, job: Job) -> list[Effect]:
    effects: list[Effect] = [_SCHEDULE, JobChanged(job.id)]
    if job.state is JobState.PENDING:
        effects += waiting_timers(state, job)
    elif job.state is JobState.RUNNING:
        effects += run_timers(job)
    return effects


def _placed(state: ClusterState, job: Job, now: float) -> list[Effect]:
    start = job.starts_by_itself
    prepare: list[Effect] = [PrepareRun(part.node, job.id, job.run, start) for part in job.allocation]
    timeout = state.configuration.timers.prepare_timeout_s
    # While others gave way to some tasks of an array, a pass looked at no others of it.
    wanted: list[Effect] = [_SCHEDULE] if job.claims and job.array_job_id else []
    return [*prepare, SetTimer(now + timeout, PrepareTimeout(job.id, job.run)), JobChanged(job.id), *wanted]


def _start_if_prepared(state: ClusterState, job: Job) -> list[Effect]:
    if job.state is not JobState.CONFIGURING or not are_prepared(state, job):
        return []
    return [
        StartRun(part.node, one.id, one.run)
        for one in state.components(job) or [job]
        for part in one.allocation
    ]


def _resizing(state: ClusterState, job: Job, event: ResizeBegun) -> list[Effect]:
    """In place; where the next run has the new size, its RunEnding says what is to be done."""
    if not job.resizes_in_place:
        return []
    effects: list[Effect] = [PrepareRun(part.node, job.id, job.run) for part in job.joining]
    if job.joining:
        effects.append(SetTimer(join_end(state, job), PrepareTimeout(job.id, job.run)))
    else:
        effects += _tell(job)
    effects += [EndRun(name, job.id, job.run, EndCause.RESIZE) for name in job.leaving]
    return [*effects, _SCHEDULE, JobChanged(job.id)]


def _tell(job: Job) -> list[Effect]:
    names = [part.node for part in job.allocation if part.node not in job.leaving]
    return [TellNodes(name, job.id, job.run) for name in names]


#: Nobody is left to whom a TERM would be of use.
_KILLING = frozenset({EndCause.LAUNCH_FAILURE, EndCause.BATCH_KILLED, EndCause.EXIT})


def _ending(state: ClusterState, job: Job, event: RunEnding) -> list[Effect]:
    kill = event.cause in _KILLING
    ends: list[Effect] = [EndRun(name, job.id, job.run, event.cause, kill) for name in job.open_nodes]
    released = [_let_go(state, name, job.id, job.run) for name in event.released_nodes]
    return [*ends, *released, _SCHEDULE, JobChanged(job.id)]


def _let_go(state: ClusterState, name: NodeName, job_id: JobId, run: RunNumber) -> Effect:
    """A node that was given up may still run it, if it hears us at all."""
    if state.nodes[name].is_lost:
        return EndRun(name, job_id, run, EndCause.NODE_FAIL, kill=True)
    return ForgetRun(name, job_id, run)


def _ended(state: ClusterState, event: RunEnded) -> list[Effect]:
    return waiting_timers(state, state.jobs[event.job_id])


def _signal(job: Job, event: JobSignalled) -> list[Effect]:
    if event.step_id is not None and event.step_id != BATCH_STEP:
        step = job.steps.get(event.step_id)
        names = step.nodes if step is not None else ()
    elif event.step_id == BATCH_STEP:
        names = (job.allocation[0].node,)
    else:
        names = tuple(part.node for part in job.allocation)
    return [
        SignalRun(name, job.id, job.run, event.signal, event.step_id, event.full, event.before_end)
        for name in names
    ]


def _ask(job: Job, *, withdrawn: bool = False) -> list[Effect]:
    return [AskCheckpoint(part.node, job.id, job.run, withdrawn) for part in job.allocation]


def _reported(job: Job, event: CheckpointReported) -> list[Effect]:
    host = job.batch_host
    deleted: list[Effect] = []
    if host is not None and job.spec.checkpoint_keep:
        deleted = [DeleteCheckpoint(host, job.id, job.run, path) for path in event.excess]
    # One node has told the processes on it; those of a gang's other nodes still think that it is wanted.
    told = (
        _ask(job, withdrawn=True) if event.answers and not job.gives_way and len(job.allocation) > 1 else []
    )
    return [*deleted, *told, *run_timers(job)]


# A node has come (back): what the state wants of it, said again


def _reconcile(state: ClusterState, event: NodeRegistered) -> list[Effect]:
    node = state.nodes[event.node]
    effects: list[Effect] = []
    held = {(run.job_id, run.run) for run in event.runs}
    for run in event.runs:
        if not is_current(state, node, run.job_id, run.run):
            effects.append(_not_its_own(node, run))
    for job_id in sorted(node.jobs):
        job = state.jobs[job_id]
        effects += _say_again(state, job, node, (job.id, job.run) in held)
    return effects


def _not_its_own(node: Node, run: KnownRun) -> Effect:
    if run.clean:
        return ForgetRun(node.name, run.job_id, run.run)
    return EndRun(node.name, run.job_id, run.run, EndCause.NODE_FAIL, kill=True)


def _say_again(state: ClusterState, job: Job, node: Node, held: bool) -> list[Effect]:
    if job.state is JobState.COMPLETING:
        if node.name not in job.open_nodes or not held:
            return []
        assert job.end_cause is not None
        return [EndRun(node.name, job.id, job.run, job.end_cause, job.end_cause in _KILLING)]
    if job.is_elastic and job.state is JobState.RUNNING:
        return [*_say_asked_again(job, node, held), *_say_size_again(job, node, held)]
    if job.state is JobState.RUNNING:
        return _say_asked_again(job, node, held)
    if job.state is not JobState.CONFIGURING or node.name in [part.node for part in job.spares]:
        return []
    if not held:
        return [PrepareRun(node.name, job.id, job.run, job.starts_by_itself)]
    if are_prepared(state, job):
        return [StartRun(node.name, job.id, job.run)]
    return []


def _say_size_again(job: Job, node: Node, held: bool) -> list[Effect]:
    if not job.resizes_in_place:
        return []
    if any(part.node == node.name for part in job.joining):
        return [] if held else [PrepareRun(node.name, job.id, job.run)]
    if node.name in job.leaving:
        return [EndRun(node.name, job.id, job.run, EndCause.RESIZE)] if held else []
    # It may have missed that it has joined, or who did.
    return [StartRun(node.name, job.id, job.run), TellNodes(node.name, job.id, job.run)] if held else []


def _say_asked_again(job: Job, node: Node, held: bool) -> list[Effect]:
    """What was asked, or taken back, while it was away."""
    if not (job.can_be_asked and held):
        return []
    return [AskCheckpoint(node.name, job.id, job.run, withdrawn=not job.checkpoint_requested)]
