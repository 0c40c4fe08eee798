"""What facts make of a run: its nodes, its steps, its size, its checkpoints, its end."""

from __future__ import annotations

from collections.abc import Iterable

from minislurm.cluster.apply_jobs import back_to_pending, changing, count_ended, touch
from minislurm.cluster.budgets import held_milli
from minislurm.cluster.events import (
    CheckpointReported,
    CheckpointRequested,
    NodeLeft,
    ResizeBegun,
    RunEnded,
    RunEnding,
    RunPlaced,
    StepNodeEnded,
)
from minislurm.cluster.lemons import note_outcomes
from minislurm.cluster.losses import count_true_cost, remember_preemption
from minislurm.cluster.state import ClusterState
from minislurm.domain.checkpoint import with_reported
from minislurm.domain.ids import Bitmap, NodeName
from minislurm.domain.job import EndCause, Job
from minislurm.domain.preemption import PreemptionRecord
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState, Reason
from minislurm.domain.tres import tres_of_allocation


def place(state: ClusterState, event: RunPlaced) -> None:
    job = changing(state, event.job_id)
    job.run = event.run
    job.state = JobState.CONFIGURING
    job.start_time = event.time
    job.end_time = 0.0
    job.allocation = event.allocation
    job.spares = event.spares
    job.prepared_nodes = ()
    job.reason = Reason.NONE
    job.pending_reason = event.pending_reason or "None"
    job.start_priority = event.priority
    job.derived_exit_code = job.derived_exit_signal = 0
    job.limit_used_s = event.limit_used_s
    for part in job.parts:
        _take(state, job, part)
    job.allocated_tres = tres_of_allocation(job.parts, state.nodes)
    job.price = event.price
    state.accounts.started(job, event.time)
    state.index_job(job)


def _take(state: ClusterState, job: Job, part: NodeAllocation) -> None:
    node = state.nodes[part.node]
    node.cpus_used = Bitmap(node.cpus_used | part.cpus)
    node.take_gpus(part)
    state.placements += 1
    node.last_placed = state.placements
    node.memory_used_mib += part.memory_mib
    node.jobs.add(job.id)
    state.touch_node(node.name)


def begin_ending(state: ClusterState, event: RunEnding) -> None:
    job = touch(state, event.job_id)  # it holds nodes as before: no index differs
    if job.resizes_in_place:
        # Nodes that were to join it may have heard of it, and those that were to leave are ended with it.
        job.allocation, job.joining, job.leaving = (*job.allocation, *job.joining), (), ()
    job.state = JobState.COMPLETING
    job.end_cause = event.cause
    job.end_state = event.state
    job.end_time = event.end_time
    job.ending_time = event.time
    job.reason = event.reason
    job.exit_code = event.exit_code
    job.exit_signal = event.exit_signal
    job.cancelled_by = event.cancelled_by
    job.requeue_cause = event.requeue_cause
    job.requeue_held = event.hold
    note_outcomes(state, job, event)
    if event.stay_away:
        job.avoided_nodes, job.avoid_until = event.stay_away, event.stay_away_until
    if event.preemptor:
        # Of a run that was asked to save first, the time when it was asked stands.
        job.preempt_time = job.preempt_time if job.gives_way else event.time
        job.preemptor = event.preemptor
        remember_preemption(job, event.decision)
    stop_asking(state, job)
    job.avoided_nodes = (*job.avoided_nodes, *event.avoid_nodes)
    job.replacing = event.replacing
    job.open_nodes = tuple(p.node for p in job.allocation if p.node not in event.released_nodes)
    if not event.replacing:
        _release_spares(state, job, event.time)
    for name in event.avoid_nodes:
        state.nodes[name].launch_failures += 1
        state.touch_node(name)
    for name in event.released_nodes:
        let_go(state, job, name, event.time)


def _release_spares(state: ClusterState, job: Job, now: float) -> None:
    for part in job.spares:
        release(state, job, part, now)
    job.spares = ()


def claim(state: ClusterState, decision: PreemptionRecord) -> None:
    """What becomes free is the preemptor's: it comes before all others until it starts. Counted once for all
    that give way to one of its starts."""
    preemptor = state.jobs.get(decision.preemptor)
    if preemptor is None or preemptor.state is not JobState.PENDING or not decision.is_first:
        return
    changing(state, preemptor.id)
    preemptor.claims += 1
    preemptor.claim_time = preemptor.claim_time or decision.time
    state.index_job(preemptor)


def let_go(state: ClusterState, job: Job, name: NodeName, now: float) -> None:
    """Nothing of an ending run is left on the node. Its next run may be about to have it, if it is there."""
    joining = tuple([part for part in job.joining if part.node != name])
    if len(joining) < len(job.joining):
        release(state, job, _part_on(job.joining, name), now)
        change_held(state, job, job.allocation, joining, now)
        return
    if job.spares or job.replacing:
        _let_go_with_spares(state, job, name, now)
        return
    if job.keeps(name):
        if not state.nodes[name].is_lost:
            return
        job.leaving = (*job.leaving, name)
    release(state, job, _part_on(job.allocation, name), now)


def _let_go_with_spares(state: ClusterState, job: Job, name: NodeName, now: float) -> None:
    """A job that is `replacing` keeps the node, if it is there."""
    if job.replacing and not state.nodes[name].is_lost:
        return
    release(state, job, _part_on(job.parts, name), now)
    if job.replacing:
        job.allocation = tuple(part for part in job.allocation if part.node != name)
    job.spares = tuple(part for part in job.spares if part.node != name)


def release(state: ClusterState, job: Job, part: NodeAllocation, now: float) -> None:
    name = part.node
    node = state.nodes[name]
    node.cpus_used = Bitmap(node.cpus_used & ~part.cpus)
    node.release_gpus(part)
    node.memory_used_mib -= part.memory_mib
    node.jobs.discard(job.id)
    node.last_busy_time = now
    if node.is_lost:
        # Given up, but perhaps still running there: nothing new until the node says that it is gone.
        node.stale_runs = (*node.stale_runs, f"{job.id}.{job.run}")
    state.touch_node(name)


def _part_on(parts: Iterable[NodeAllocation], name: NodeName) -> NodeAllocation:
    return next(part for part in parts if part.node == name)


# Elastic jobs


def begin_resize(state: ClusterState, event: ResizeBegun) -> None:
    job = touch(state, event.job_id)
    job.resize_time, job.resize_kind, job.resized_from = event.time, event.kind, len(job.allocation)
    job.leaving, job.keeps_nodes = event.leaving, event.keeps_nodes
    for part in event.joining:
        _take(state, job, part)
    if event.joining:
        change_held(state, job, job.allocation, event.joining, event.time)


def leave(state: ClusterState, event: NodeLeft) -> None:
    job = touch(state, event.job_id)
    release(state, job, _part_on(job.allocation, event.node), event.time)
    if event.node not in job.leaving:
        job.resize_time, job.resize_kind, job.resized_from = event.time, "node_fail", len(job.allocation)
    job.prepared_nodes = tuple([name for name in job.prepared_nodes if name != event.node])
    job.leaving = tuple([name for name in job.leaving if name != event.node])
    rest = tuple([part for part in job.allocation if part.node != event.node])
    change_held(state, job, rest, job.joining, event.time)


def change_held(
    state: ClusterState,
    job: Job,
    allocation: tuple[NodeAllocation, ...],
    joining: tuple[NodeAllocation, ...],
    now: float,
) -> None:
    """What the run holds changes while it goes on: until now it is charged for what it held."""
    state.accounts.ended(job, now)
    _count_service(job, now)
    job.allocation, job.joining = allocation, joining
    job.allocated_tres = tres_of_allocation((*allocation, *joining), state.nodes)
    state.accounts.started(job, now)


def _count_service(job: Job, until: float) -> None:
    """Up to then, if it is not counted already."""
    since = max(job.start_time, job.service_time)
    run_s = max(0.0, until - since - (0.0 if job.service_time else job.suspended_time_s))
    job.service_time = max(since, until)
    job.attained_time_s += run_s
    job.attained_service_s += run_s * held_milli(job) / 1000


def end_run(state: ClusterState, event: RunEnded) -> None:
    job = changing(state, event.job_id)
    assert not job.open_nodes
    assert job.end_state is not None
    if job.is_resizing:
        for part in job.held_parts:  # for its next run, which takes them again at once, if it comes
            release(state, job, part, event.time)
    state.accounts.ended(job, event.time)
    count_true_cost(state, job, event.time)
    _remember_run(state, job, event.end_time or event.time)
    job.joining, job.leaving, job.keeps_nodes = (), (), False
    for step in job.steps.values():
        if step.state is JobState.RUNNING:
            step.state, step.end_time, step.open_nodes = JobState.CANCELLED, event.time, ()
    if job.replacing:
        for part in job.allocation:
            release(state, job, part, event.time)
        _release_spares(state, job, event.time)
        job.replacing = False
    if job.requeue_cause:
        launch_failed = job.end_cause is EndCause.LAUNCH_FAILURE
        over_limit = job.reason is Reason.MAX_REQUEUE
        back_to_pending(job, event.time, job.requeue_cause, job.requeue_held)
        if over_limit and job.held:
            job.reason = Reason.MAX_REQUEUE
        elif launch_failed and not job.held:
            job.reason = Reason.LAUNCH_FAILED_REQUEUED
    else:
        job.state = job.end_state
        job.end_time = event.end_time
        count_ended(state, job)
    state.index_job(job)


def _remember_run(state: ClusterState, job: Job, end_time: float) -> None:
    """What the run says of the job, and of others like it."""
    if not job.requeue_cause:
        state.history.note(job, end_time)
    if job.end_cause is not EndCause.LAUNCH_FAILURE:
        _count_service(job, end_time)


def end_step_on_nodes(state: ClusterState, event: StepNodeEnded) -> None:
    job = touch(state, event.job_id)
    step = job.steps[event.step_id]
    step.open_nodes = tuple(n for n in step.open_nodes if n not in event.nodes)
    step.exit_code = max(step.exit_code, event.exit_code)
    step.exit_signal = max(step.exit_signal, event.exit_signal)
    if step.open_nodes:
        return
    step.end_time = event.time
    failed = step.exit_code or step.exit_signal
    step.state = JobState.FAILED if failed else JobState.COMPLETED
    if step.exit_signal > job.derived_exit_signal:
        job.derived_exit_signal, job.derived_exit_code = step.exit_signal, 0
    elif not job.derived_exit_signal:
        job.derived_exit_code = max(job.derived_exit_code, step.exit_code)
    # Steps that ended are accounting's; the record keeps only what still runs.
    del job.steps[event.step_id]


# Checkpoints


def keep_checkpoint(state: ClusterState, event: CheckpointReported) -> None:
    job = touch(state, event.job_id)
    job.checkpoints, _ = with_reported(job.checkpoints, event.checkpoint, job.spec.checkpoint_keep)
    if event.answers and not job.gives_way:
        stop_asking(state, job)


def ask(state: ClusterState, event: CheckpointRequested) -> None:
    job = touch(state, event.job_id)
    job.checkpoint_requested = event.time
    job.checkpoint_reason = event.reason
    job.checkpoint_deadline = event.deadline
    job.comes_back = event.comes_back
    if event.preemptor:
        job.preempt_time = event.time
    if event.deadline:
        job.preemptor = event.preemptor  # nobody, for a run that grows
        state.giving_way.add(job.id)
        remember_preemption(job, event.decision)


def stop_asking(state: ClusterState, job: Job) -> None:
    job.checkpoint_requested = 0.0
    job.checkpoint_reason = ""
    state.giving_way.discard(job.id)
