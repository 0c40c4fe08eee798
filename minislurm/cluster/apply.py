"""Makes a fact so. Simple and total: whatever had to be decided was decided before."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from minislurm.cluster.budgets import held_milli
from minislurm.cluster.events import (
    AccountsChanged,
    CheckpointDropped,
    CheckpointListening,
    CheckpointReported,
    CheckpointRequested,
    CheckpointWithdrawn,
    ClusterConfigured,
    DependencySettled,
    Event,
    JobEligible,
    JobRequeued,
    JobSignalled,
    JobsPurged,
    JobSubmitted,
    JobUpdated,
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
    RequestHandled,
    RequestsForgotten,
    ReservationChanged,
    ReservationEnded,
    ResizeBegun,
    RunEnded,
    RunEnding,
    RunPlaced,
    RunStarted,
    StaleRunEnded,
    StepCreated,
    StepNodeEnded,
    TaskDetached,
)
from minislurm.cluster.lemons import note_outcomes
from minislurm.cluster.losses import count_true_cost, forget_preemption, remember_preemption
from minislurm.cluster.state import ArraySummary, ClusterState, RequestRecord
from minislurm.domain import configuration_file
from minislurm.domain.checkpoint import with_reported
from minislurm.domain.exhaustive import assert_never
from minislurm.domain.ids import Bitmap, JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import EndCause, Job
from minislurm.domain.node import Node
from minislurm.domain.preemption import PreemptionRecord
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState, Reason
from minislurm.domain.tres import tres_of_allocation


def apply(state: ClusterState, event: Event) -> None:
    match event:
        case JobSubmitted():
            _submit(state, event)
        case RunPlaced():
            _place(state, event)
        case RunStarted():
            job = _touch(state, event.job_id)  # it holds nodes as before: no index differs
            job.state = JobState.RUNNING
            job.claims, job.claim_time = 0, 0.0
            job.start_time = event.time
            for part in job.allocation:
                state.nodes[part.node].launch_failures = 0
        case RunEnding():
            _begin_ending(state, event)
            if event.decision is not None:
                _claim(state, event.decision)
        case RunEnded():
            _end_run(state, event)
        case ClusterConfigured():
            # What was used until now was used under the settings of until now.
            state.accounts.settle_all(event.time)
            state.configure(configuration_file.from_json(event.configuration))
            state.configuration_text = event.configuration
        case JobUpdated():
            _update(state, event.job)
        case JobRequeued():
            _requeue_ended(state, event)
        case JobEligible():
            job = _changing(state, event.job_id)
            job.eligible_time = event.time
            job.reason = Reason.NONE
            state.index_job(job)
        case DependencySettled():
            job = _changing(state, event.job_id)
            job.dependencies = event.remaining
            job.reason = Reason.DEPENDENCY_NEVER_SATISFIED if event.never else _waiting_reason(job)
            state.index_job(job)
        case TaskDetached():
            _detach(state, event)
        case NodePrepared():
            job = _touch(state, event.job_id)
            job.prepared_nodes = (*job.prepared_nodes, event.node)
        case NodeReleased():
            job = _touch(state, event.job_id)
            job.open_nodes = tuple(n for n in job.open_nodes if n != event.node)
            _let_go(state, job, event.node, event.time)
        case PendingEnded():
            _end_pending(state, event)
        case JobSignalled():
            if event.before_end:
                _touch(state, event.job_id).signal_sent = True
        case StepCreated():
            job = _touch(state, event.job_id)
            job.next_step_id = StepId(event.step.id + 1)
            job.steps[event.step.id] = event.step
            _remember(state, RequestRecord(event.request_id, event.time, job.id, event.step.id))
        case StepNodeEnded():
            _end_step_on_nodes(state, event)
        case NodeRegistered():
            _register(state, event)
        case StaleRunEnded():
            node = state.nodes[event.node]
            node.stale_runs = tuple(run for run in node.stale_runs if run != event.run)
            state.touch_node(node.name)
        case NodeChanged():
            _change_node(state, event)
        case PartitionChanged():
            state.partition_states[event.name] = event.state
            state.partition_changed(event.name)
            state.kept.running.clear()
        case PartitionUpdated():
            state.set_partition(event.name, event.settings)
        case AccountsChanged():
            state.change_accounts(event.changes, event.time)
            state.kept.running.clear()  # its QOS may say what becomes of a run
            _remember(state, RequestRecord(event.request_id, event.time))
        case JobsPurged():
            for job_id in event.job_ids:
                _forget(state, job_id)
        case RequestHandled():
            _remember(state, RequestRecord(event.request_id, event.time, event.job_id))
        case RequestsForgotten():
            for request_id in event.request_ids:
                state.requests.pop(request_id, None)
                state.touched.requests.add(request_id)
        case ReservationChanged():
            state.reservations[event.reservation.name] = event.reservation
            state.touched.reservations.add(event.reservation.name)
            state.kept.running.clear()  # it may end its runs
        case ReservationEnded():
            del state.reservations[event.name]
            state.touched.reservations.add(event.name)
            state.kept.running.clear()
        case NodeWeightChanged():
            state.nodes[event.node].changed_weight = event.weight
            state.touch_node(event.node)
        case ResizeBegun():
            _begin_resize(state, event)
        case NodesJoined():
            job = _touch(state, event.job_id)
            job.allocation, job.joining = (*job.allocation, *job.joining), ()
            for name in event.nodes:
                state.nodes[name].launch_failures = 0
        case NodesNotJoined():
            job = _touch(state, event.job_id)
            for name in event.failed_nodes:
                state.nodes[name].launch_failures += 1
            job.avoided_nodes = (*job.avoided_nodes, *event.failed_nodes)
            for part in job.joining:
                if part.node in event.nodes:
                    _release(state, job, part, event.time)
            job.prepared_nodes = tuple([n for n in job.prepared_nodes if n not in event.nodes])
            left = tuple([part for part in job.joining if part.node not in event.nodes])
            _change_held(state, job, job.allocation, left, event.time)
        case NodeLeft():
            _leave(state, event)
        case CheckpointReported():
            _keep_checkpoint(state, event)
        case CheckpointRequested():
            _ask(state, event)
            if event.decision is not None:
                _claim(state, event.decision)
        case CheckpointWithdrawn():
            # Until its deadline the run may still end because it was asked to.
            job = _touch(state, event.job_id)
            _stop_asking(state, job)
            forget_preemption(job)
            if job.keeps_nodes and not job.joining:
                job.leaving, job.keeps_nodes = (), False  # it goes on, with what it has
        case CheckpointListening():
            _touch(state, event.job_id).checkpoint_listens = True
        case CheckpointDropped():
            _touch(state, event.job_id).checkpoints_dropped += 1
        case _:
            assert_never(event)


def _touch(state: ClusterState, job_id: JobId) -> Job:
    state.touch_job(job_id)
    return state.jobs[job_id]


def _changing(state: ClusterState, job_id: JobId) -> Job:
    """The record, out of all indexes; the caller takes it back in with `index_job`."""
    job = _touch(state, job_id)
    state.unindex_job(job)
    return job


def _remember(state: ClusterState, record: RequestRecord) -> None:
    if record.request_id:
        state.requests[record.request_id] = record
        state.touched.requests.add(record.request_id)


def _waiting_reason(job: Job) -> Reason:
    if job.held:
        return Reason.HELD_USER if job.held == "user" else Reason.HELD_ADMIN
    return Reason.DEPENDENCY if job.dependencies else Reason.NONE


# Jobs


def _submit(state: ClusterState, event: JobSubmitted) -> None:
    for job in (event.job, *event.components):
        state.jobs[job.id] = job
        state.touch_job(job.id)
        state.next_job_id = JobId(max(state.next_job_id, job.id + 1))
        state.count_blobs(job, 1)
        if job.is_array_rest:
            state.arrays[job.id] = ArraySummary(job.id)
            state.touched.arrays.add(job.id)
        if job.is_component:
            state.join_components(job)
        state.index_job(job)
    _remember(state, RequestRecord(event.request_id, event.time, event.job.id))


def _update(state: ClusterState, job: Job) -> None:
    before = _changing(state, job.id)
    if job.held or (job.partition, job.request) != (before.partition, before.request):
        job.claims, job.claim_time = 0, 0.0  # what is kept for it was for another one
    if job.spec == before.spec:
        # Shared by all tasks of the array; the journal's copy would be one more.
        job.spec = before.spec
    state.jobs[job.id] = job
    state.index_job(job)


def _requeue_ended(state: ClusterState, event: JobRequeued) -> None:
    job = _changing(state, event.job_id)
    summary = state.arrays.get(job.array_job_id or job.id)
    if summary is not None:
        again = job.pending_tasks if job.is_array_rest else [job.array_task_id]
        for task_id in again:
            assert task_id is not None
            summary.ended_tasks.pop(task_id, None)
        if not job.is_array_rest:
            summary.live.add(job.id)
        state.touched.arrays.add(summary.id)
    _back_to_pending(job, event.time, "user", event.hold)
    state.index_job(job)


def _back_to_pending(job: Job, now: float, cause: str, hold: bool) -> None:
    # Counted before the next launch, so that a crash in between still uses up an attempt.
    job.requeues = {**job.requeues, cause: job.requeues.get(cause, 0) + 1}
    job.state = JobState.PENDING
    job.eligible_time = 0.0
    job.start_time = job.end_time = 0.0
    job.allocation = ()
    job.allocated_tres = ()
    job.price = 0.0
    job.prepared_nodes = ()
    job.end_cause = job.end_state = job.cancelled_by = None
    job.exit_code = job.exit_signal = 0
    job.requeue_cause = ""
    job.requeue_held = False
    job.signal_sent = False
    job.limit_used_s = job.service_time = 0.0
    job.switches_waived = False
    job.next_step_id = StepId(0)
    job.steps = {}
    job.checkpoint_deadline = 0.0
    job.checkpoint_listens = False
    if cause != "launch_failure":
        job.claims, job.claim_time = 0, 0.0
        job.restart_reason = cause
    if cause not in ("launch_failure", "resize"):
        job.submit_time = now
        if cause != "node_fail" or not job.avoid_until:
            job.avoided_nodes, job.avoid_until = (), 0.0
    job.held = "user" if hold else job.held
    job.reason = Reason.BEGIN_TIME
    if job.held or job.dependencies:
        job.reason = _waiting_reason(job)


def _detach(state: ClusterState, event: TaskDetached) -> None:
    rest = _changing(state, event.array_job_id)
    rest.pending_tasks.remove(event.task_id)
    if event.job_id == rest.id:
        task = rest
    else:
        task = replace(rest, id=event.job_id, pending_tasks=[], requeues={}, steps={})
        task.claims = min(1, rest.claims)
        rest.claims -= task.claims
        state.jobs[task.id] = task
        state.count_blobs(task, 1)
        state.next_job_id = JobId(max(state.next_job_id, task.id + 1))
        state.index_job(rest)
    task.array_job_id = event.array_job_id
    task.array_task_id = event.task_id
    state.touch_job(task.id)
    state.arrays[event.array_job_id].live.add(task.id)
    state.touched.arrays.add(event.array_job_id)
    state.index_job(task)


def _end_pending(state: ClusterState, event: PendingEnded) -> None:
    job = _changing(state, event.job_id)
    job.state = job.end_state = event.state
    job.reason = event.reason
    job.cancelled_by = event.cancelled_by
    job.start_time = job.end_time = event.time
    _count_ended(state, job)
    state.index_job(job)


def _count_ended(state: ClusterState, job: Job) -> None:
    """Writes a final state into the array's summary."""
    array_id = job.array_job_id or job.id
    summary = state.arrays.get(array_id)
    if summary is None:
        return
    assert job.end_state is not None
    summary.live.discard(job.id)
    ended = job.pending_tasks if job.is_array_rest else [job.array_task_id]
    for task_id in ended:
        assert task_id is not None
        summary.ended_tasks[task_id] = job.end_state.value
    summary.highest_exit_code = max(summary.highest_exit_code, job.exit_code)
    state.touched.arrays.add(array_id)


def _forget(state: ClusterState, job_id: JobId) -> None:
    job = _changing(state, job_id)
    del state.jobs[job_id]
    state.count_blobs(job, -1)
    if job.is_component:
        state.leave_components(job)
    array_id = job.array_job_id or job.id
    summary = state.arrays.get(array_id)
    if summary is not None and not summary.live and not any(state.array_records(array_id)):
        del state.arrays[array_id]
        state.touched.arrays.add(array_id)


# Runs


def _place(state: ClusterState, event: RunPlaced) -> None:
    job = _changing(state, event.job_id)
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


def _begin_ending(state: ClusterState, event: RunEnding) -> None:
    job = _touch(state, event.job_id)  # it holds nodes as before: no index differs
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
    _stop_asking(state, job)
    job.avoided_nodes = (*job.avoided_nodes, *event.avoid_nodes)
    job.replacing = event.replacing
    job.open_nodes = tuple(p.node for p in job.allocation if p.node not in event.released_nodes)
    if not event.replacing:
        _release_spares(state, job, event.time)
    for name in event.avoid_nodes:
        state.nodes[name].launch_failures += 1
        state.touch_node(name)
    for name in event.released_nodes:
        _let_go(state, job, name, event.time)


def _release_spares(state: ClusterState, job: Job, now: float) -> None:
    for part in job.spares:
        _release(state, job, part, now)
    job.spares = ()


def _claim(state: ClusterState, decision: PreemptionRecord) -> None:
    """What becomes free is the preemptor's: it comes before all others until it starts. Counted once for all
    that give way to one of its starts."""
    preemptor = state.jobs.get(decision.preemptor)
    if preemptor is None or preemptor.state is not JobState.PENDING or not decision.is_first:
        return
    _changing(state, preemptor.id)
    preemptor.claims += 1
    preemptor.claim_time = preemptor.claim_time or decision.time
    state.index_job(preemptor)


def _let_go(state: ClusterState, job: Job, name: NodeName, now: float) -> None:
    """Nothing of an ending run is left on the node. Its next run may be about to have it, if it is there."""
    joining = tuple([part for part in job.joining if part.node != name])
    if len(joining) < len(job.joining):
        _release(state, job, _part_on(job.joining, name), now)
        _change_held(state, job, job.allocation, joining, now)
        return
    if job.spares or job.replacing:
        _let_go_with_spares(state, job, name, now)
        return
    if job.keeps(name):
        if not state.nodes[name].is_lost:
            return
        job.leaving = (*job.leaving, name)
    _release(state, job, _part_on(job.allocation, name), now)


def _let_go_with_spares(state: ClusterState, job: Job, name: NodeName, now: float) -> None:
    """A job that is `replacing` keeps the node, if it is there."""
    if job.replacing and not state.nodes[name].is_lost:
        return
    _release(state, job, _part_on(job.parts, name), now)
    if job.replacing:
        job.allocation = tuple(part for part in job.allocation if part.node != name)
    job.spares = tuple(part for part in job.spares if part.node != name)


def _release(state: ClusterState, job: Job, part: NodeAllocation, now: float) -> None:
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


def _begin_resize(state: ClusterState, event: ResizeBegun) -> None:
    job = _touch(state, event.job_id)
    job.resize_time, job.resize_kind, job.resized_from = event.time, event.kind, len(job.allocation)
    job.leaving, job.keeps_nodes = event.leaving, event.keeps_nodes
    for part in event.joining:
        _take(state, job, part)
    if event.joining:
        _change_held(state, job, job.allocation, event.joining, event.time)


def _leave(state: ClusterState, event: NodeLeft) -> None:
    job = _touch(state, event.job_id)
    _release(state, job, _part_on(job.allocation, event.node), event.time)
    if event.node not in job.leaving:
        job.resize_time, job.resize_kind, job.resized_from = event.time, "node_fail", len(job.allocation)
    job.prepared_nodes = tuple([name for name in job.prepared_nodes if name != event.node])
    job.leaving = tuple([name for name in job.leaving if name != event.node])
    rest = tuple([part for part in job.allocation if part.node != event.node])
    _change_held(state, job, rest, job.joining, event.time)


def _change_held(
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


def _end_run(state: ClusterState, event: RunEnded) -> None:
    job = _changing(state, event.job_id)
    assert not job.open_nodes
    assert job.end_state is not None
    if job.is_resizing:
        for part in job.held_parts:  # for its next run, which takes them again at once, if it comes
            _release(state, job, part, event.time)
    state.accounts.ended(job, event.time)
    count_true_cost(state, job, event.time)
    _remember_run(state, job, event.end_time or event.time)
    job.joining, job.leaving, job.keeps_nodes = (), (), False
    for step in job.steps.values():
        if step.state is JobState.RUNNING:
            step.state, step.end_time, step.open_nodes = JobState.CANCELLED, event.time, ()
    if job.replacing:
        for part in job.allocation:
            _release(state, job, part, event.time)
        _release_spares(state, job, event.time)
        job.replacing = False
    if job.requeue_cause:
        launch_failed = job.end_cause is EndCause.LAUNCH_FAILURE
        over_limit = job.reason is Reason.MAX_REQUEUE
        _back_to_pending(job, event.time, job.requeue_cause, job.requeue_held)
        if over_limit and job.held:
            job.reason = Reason.MAX_REQUEUE
        elif launch_failed and not job.held:
            job.reason = Reason.LAUNCH_FAILED_REQUEUED
    else:
        job.state = job.end_state
        job.end_time = event.end_time
        _count_ended(state, job)
    state.index_job(job)


def _remember_run(state: ClusterState, job: Job, end_time: float) -> None:
    """What the run says of the job, and of others like it."""
    if not job.requeue_cause:
        state.history.note(job, end_time)
    if job.end_cause is not EndCause.LAUNCH_FAILURE:
        _count_service(job, end_time)


def _end_step_on_nodes(state: ClusterState, event: StepNodeEnded) -> None:
    job = _touch(state, event.job_id)
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


def _register(state: ClusterState, event: NodeRegistered) -> None:
    node = state.nodes[event.node]
    moved = node.facts.topology != event.facts.topology
    shape = _shape(node)
    node.facts = event.facts
    node.witnesses = event.witnesses
    # When the controller comes back, all of its nodes say again what it knows.
    if moved or _shape(node) != shape:
        state.kept.forget_kinds()
    if moved:
        state.place_nodes()
    node.stale_runs = tuple(
        run.key for run in event.runs if not run.clean and not is_current(state, node, run.job_id, run.run)
    )
    state.touch_node(node.name)
    state.accounts.capacity_is_known = False


def _shape(node: Node) -> tuple[object, ...]:
    return node.cpus, node.memory_mib, node.gpus


def is_current(state: ClusterState, node: Node, job_id: JobId, run: RunNumber) -> bool:
    """Does the state have this run on this node?"""
    return job_id in node.jobs and state.jobs[job_id].run == run


def _change_node(state: ClusterState, event: NodeChanged) -> None:
    node = state.nodes[event.node]
    if node.drained and not event.drained:
        node.outcomes = ()  # whoever lifts the drain has looked
    node.state = event.state
    node.responding = event.responding
    node.drained = event.drained
    node.reason = event.reason
    node.reason_time = event.reason_time
    node.reason_user_id = event.reason_user_id
    node.given_up = event.given_up
    node.drained_by_health = event.drained_by_health
    state.touch_node(node.name)
    state.accounts.capacity_is_known = False


# Checkpoints


def _keep_checkpoint(state: ClusterState, event: CheckpointReported) -> None:
    job = _touch(state, event.job_id)
    job.checkpoints, _ = with_reported(job.checkpoints, event.checkpoint, job.spec.checkpoint_keep)
    if event.answers and not job.gives_way:
        _stop_asking(state, job)


def _ask(state: ClusterState, event: CheckpointRequested) -> None:
    job = _touch(state, event.job_id)
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


def _stop_asking(state: ClusterState, job: Job) -> None:
    job.checkpoint_requested = 0.0
    job.checkpoint_reason = ""
    state.giving_way.discard(job.id)
