"""Makes a fact so. Simple and total: whatever had to be decided was decided before."""

from __future__ import annotations

from minislurm.cluster import apply_jobs, apply_runs
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
from minislurm.cluster.losses import forget_preemption
from minislurm.cluster.state import ClusterState, RequestRecord
from minislurm.domain import configuration_file
from minislurm.domain.exhaustive import assert_never
from minislurm.domain.ids import JobId, RunNumber, StepId
from minislurm.domain.node import Node
from minislurm.domain.states import JobState, Reason


def apply(state: ClusterState, event: Event) -> None:
    match event:
        case JobSubmitted():
            apply_jobs.submit(state, event)
        case RunPlaced():
            apply_runs.place(state, event)
        case RunStarted():
            job = apply_jobs.touch(state, event.job_id)  # it holds nodes as before: no index differs
            job.state = JobState.RUNNING
            job.claims, job.claim_time = 0, 0.0
            job.start_time = event.time
            for part in job.allocation:
                state.nodes[part.node].launch_failures = 0
        case RunEnding():
            apply_runs.begin_ending(state, event)
            if event.decision is not None:
                apply_runs.claim(state, event.decision)
        case RunEnded():
            apply_runs.end_run(state, event)
        case ClusterConfigured():
            # What was used until now was used under the settings of until now.
            state.accounts.settle_all(event.time)
            state.configure(configuration_file.from_json(event.configuration))
            state.configuration_text = event.configuration
        case JobUpdated():
            apply_jobs.update(state, event.job)
        case JobRequeued():
            apply_jobs.requeue_ended(state, event)
        case JobEligible():
            job = apply_jobs.changing(state, event.job_id)
            job.eligible_time = event.time
            job.reason = Reason.NONE
            state.index_job(job)
        case DependencySettled():
            job = apply_jobs.changing(state, event.job_id)
            job.dependencies = event.remaining
            job.reason = Reason.DEPENDENCY_NEVER_SATISFIED if event.never else apply_jobs.waiting_reason(job)
            state.index_job(job)
        case TaskDetached():
            apply_jobs.detach(state, event)
        case NodePrepared():
            job = apply_jobs.touch(state, event.job_id)
            job.prepared_nodes = (*job.prepared_nodes, event.node)
        case NodeReleased():
            job = apply_jobs.touch(state, event.job_id)
            job.open_nodes = tuple(n for n in job.open_nodes if n != event.node)
            apply_runs.let_go(state, job, event.node, event.time)
        case PendingEnded():
            apply_jobs.end_pending(state, event)
        case JobSignalled():
            if event.before_end:
                apply_jobs.touch(state, event.job_id).signal_sent = True
        case StepCreated():
            job = apply_jobs.touch(state, event.job_id)
            job.next_step_id = StepId(event.step.id + 1)
            job.steps[event.step.id] = event.step
            apply_jobs.remember(state, RequestRecord(event.request_id, event.time, job.id, event.step.id))
        case StepNodeEnded():
            apply_runs.end_step_on_nodes(state, event)
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
            apply_jobs.remember(state, RequestRecord(event.request_id, event.time))
        case JobsPurged():
            for job_id in event.job_ids:
                apply_jobs.forget(state, job_id)
        case RequestHandled():
            apply_jobs.remember(state, RequestRecord(event.request_id, event.time, event.job_id))
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
            apply_runs.begin_resize(state, event)
        case NodesJoined():
            job = apply_jobs.touch(state, event.job_id)
            job.allocation, job.joining = (*job.allocation, *job.joining), ()
            for name in event.nodes:
                state.nodes[name].launch_failures = 0
        case NodesNotJoined():
            job = apply_jobs.touch(state, event.job_id)
            for name in event.failed_nodes:
                state.nodes[name].launch_failures += 1
            job.avoided_nodes = (*job.avoided_nodes, *event.failed_nodes)
            for part in job.joining:
                if part.node in event.nodes:
                    apply_runs.release(state, job, part, event.time)
            job.prepared_nodes = tuple([n for n in job.prepared_nodes if n not in event.nodes])
            left = tuple([part for part in job.joining if part.node not in event.nodes])
            apply_runs.change_held(state, job, job.allocation, left, event.time)
        case NodeLeft():
            apply_runs.leave(state, event)
        case CheckpointReported():
            apply_runs.keep_checkpoint(state, event)
        case CheckpointRequested():
            apply_runs.ask(state, event)
            if event.decision is not None:
                apply_runs.claim(state, event.decision)
        case CheckpointWithdrawn():
            # Until its deadline the run may still end because it was asked to.
            job = apply_jobs.touch(state, event.job_id)
            apply_runs.stop_asking(state, job)
            forget_preemption(job)
            if job.keeps_nodes and not job.joining:
                job.leaving, job.keeps_nodes = (), False  # it goes on, with what it has
        case CheckpointListening():
            apply_jobs.touch(state, event.job_id).checkpoint_listens = True
        case CheckpointDropped():
            apply_jobs.touch(state, event.job_id).checkpoints_dropped += 1
        case _:
            assert_never(event)


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
