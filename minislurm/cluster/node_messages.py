"""Nodes come, fall silent, answer again, and come back with what they still run."""

from __future__ import annotations

from copy import copy

from msgspec.structs import replace

from minislurm.cluster.checkpoints import decide_listener, decide_made
from minislurm.cluster.ending import end_run
from minislurm.cluster.events import (
    Event,
    JobUpdated,
    KnownRun,
    NodeChanged,
    NodeRegistered,
    NodeReleased,
)
from minislurm.cluster.het_jobs import without_repeats
from minislurm.cluster.messages import (
    AvoidanceOver,
    CheckpointListener,
    NodeAnswers,
    NodeGivenUp,
    NodeHealth,
    NodeReport,
    NodeSilent,
    RegisterNode,
    RunReport,
)
from minislurm.cluster.resizes import go_on_without
from minislurm.cluster.runs import current, decide_report
from minislurm.cluster.state import ClusterState
from minislurm.cluster.witnesses import choose_witnesses
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.job import EndCause, Job
from minislurm.domain.node import Node
from minislurm.domain.states import JobState, NodeState

SILENT = "Not responding"
Answer = list[Event] | Refusal


def decide_registration(state: ClusterState, message: RegisterNode, now: float) -> Answer:
    """What the daemon still holds is compared with what the state thinks runs there. Runs that are no
    longer anyone's are ended by `react`."""
    node = state.nodes.get(message.node)
    if node is None:
        return Refusal(RefusalCode.INVALID_NODE_NAME)
    known = tuple(KnownRun(run.job_id, run.run, run.phase == "CLEAN") for run in message.runs)
    events: list[Event] = [
        NodeRegistered(now, node.name, message.facts, known, choose_witnesses(state, node)),
        _answering(node, now),
    ]
    for run in message.runs:
        events += _catch_up_checkpoints(state, run, now)
        events += _catch_up(state, node, run, now)
    reported = {(run.job_id, run.run) for run in message.runs}
    for job_id in sorted(node.jobs):
        job = state.jobs[job_id]
        if (job.id, job.run) not in reported:
            events += _lost_on(state, job, node, now)
    return without_repeats(state, events) if state.het_jobs else events


def _answering(node: Node, now: float) -> NodeChanged:
    """Up again. A drain, and a DOWN that an operator set, are the operator's to lift. A drained node keeps
    the drain's reason when it is lost; that one comes back up, and still drained."""
    by_operator = node.state is NodeState.DOWN and node.reason not in ("", SILENT) and not node.drained
    reason = "" if node.reason == SILENT and not node.drained else node.reason
    return NodeChanged(
        now,
        node.name,
        NodeState.DOWN if by_operator else NodeState.UP,
        True,
        node.drained,
        reason,
        node.reason_time if reason else 0.0,
        node.reason_user_id if reason else 0,
        drained_by_health=node.drained_by_health,
    )


def _catch_up_checkpoints(state: ClusterState, run: RunReport, now: float) -> list[Event]:
    """Before its end: a run that comes back starts from the last of them."""
    listens = CheckpointListener(run.job_id, run.run)
    events = decide_listener(state, listens, now) if run.listens else []
    made = {(one.checkpoint.path, one.checkpoint.time): one for one in run.checkpoints}
    for one in made.values():
        # Whether it is what a run that gives way was asked for, its report tells, which comes next.
        events += decide_made(state, replace(one, answers=0.0), now)
    return events


def _catch_up(state: ClusterState, node: Node, run: RunReport, now: float) -> list[Event]:
    job = current(state, run.job_id, run.run)
    if run.node_lost and job is not None and job.state in (JobState.CONFIGURING, JobState.RUNNING):
        # It ended its part of the run itself, just before it was given up.
        released = (node.name,) if run.phase == "CLEAN" else ()
        return [end_run(state, job, EndCause.NODE_FAIL, now, released_nodes=released)]
    answer = decide_report(state, NodeReport(node.name, run, clean=run.phase == "CLEAN"), now)
    assert not isinstance(answer, Refusal)
    exited_clean = run.phase == "CLEAN" and job is not None and job.state is JobState.RUNNING
    if exited_clean and job is not None and job.batch_host == node.name and job.spec.is_batch:
        # Over before its end could be said: the report of the exit and of the clean-up in one.
        exited = RunReport(
            run.job_id,
            run.run,
            "EXITED",
            run.exit_code,
            run.exit_signal,
            run.start_time,
            run.end_time,
            run.launch_failed,
            run.out_of_memory,
        )
        answer = decide_report(state, NodeReport(node.name, exited, clean=True), now)
        assert not isinstance(answer, Refusal)
    return answer


def _lost_on(state: ClusterState, job: Job, node: Node, now: float) -> list[Event]:
    """The state has a run here that the daemon knows nothing of."""
    if node.name in [part.node for part in job.spares]:
        return []  # held, and nothing is to be there
    if job.state is JobState.COMPLETING:
        return [NodeReleased(now, job.id, job.run, node.name)] if node.name in job.open_nodes else []
    is_joining = any(part.node == node.name for part in job.joining)
    starts = job.state is JobState.CONFIGURING or is_joining
    if starts and node.name not in job.prepared_nodes:
        return []  # PREPARE never reached it; `react` sends it again
    if job.state is JobState.CONFIGURING:
        return [end_run(state, job, EndCause.LAUNCH_FAILURE, now, released_nodes=(node.name,))]
    without = go_on_without(job, node.name, now)
    return without or [end_run(state, job, EndCause.NODE_FAIL, now, released_nodes=(node.name,))]


def decide_silence(state: ClusterState, message: NodeSilent, now: float) -> Answer:
    node = state.nodes.get(message.node)
    if node is None or node.state is NodeState.UNKNOWN:
        return []
    if not message.lost:
        if not node.responding:
            return []
        return [_changed(node, now, node.state, responding=False)]
    if node.state is NodeState.DOWN and not node.responding:
        return []
    return [_changed(node, now, NodeState.DOWN, responding=False)]


def decide_given_up(state: ClusterState, message: NodeGivenUp, now: float) -> Answer:
    node = state.nodes.get(message.node)
    if node is None or node.state is not NodeState.DOWN or node.responding or node.given_up:
        return []
    return [replace(_changed(node, now, NodeState.DOWN, responding=False), given_up=True)]


def _changed(node: Node, now: float, new_state: NodeState, *, responding: bool) -> NodeChanged:
    reason, since, by = node.reason, node.reason_time, node.reason_user_id
    if new_state is NodeState.DOWN and not reason:
        reason, since, by = SILENT, now, 0
    changed = NodeChanged(now, node.name, new_state, responding, node.drained, reason, since, by)
    given_up = node.given_up and new_state is NodeState.DOWN
    return replace(changed, given_up=given_up, drained_by_health=node.drained_by_health)


def decide_answer(state: ClusterState, message: NodeAnswers, now: float) -> Answer:
    node = state.nodes.get(message.node)
    if node is None or node.responding:
        return []
    return [_answering(node, now)]


#: What a node that its own checks have drained says first.
HEALTH = "Health: "


def decide_health(state: ClusterState, message: NodeHealth, now: float) -> Answer:
    """A failing check drains the node, unless it is drained already. What the checks have drained they lift
    again, if the configuration lets them, and nobody has said anything since."""
    node = state.nodes.get(message.node)
    if node is None:
        return []
    reason = HEALTH + message.problem
    same = _changed(node, now, node.state, responding=node.responding)
    if message.problem and (not node.drained or (node.drained_by_health and node.reason != reason)):
        drained = replace(same, drained=True, reason=reason, reason_time=now, reason_user_id=0)
        return [replace(drained, drained_by_health=True)]
    if message.problem or not node.drained_by_health or not state.configuration.node.health_undrain:
        return []
    return [
        replace(same, drained=False, drained_by_health=False, reason="", reason_time=0.0, reason_user_id=0)
    ]


def decide_avoidance(state: ClusterState, message: AvoidanceOver, now: float) -> Answer:
    job = state.jobs.get(message.job_id)
    if job is None or job.state is not JobState.PENDING or not 0 < job.avoid_until <= now:
        return []
    changed = copy(job)
    changed.pending_tasks = list(job.pending_tasks)
    changed.avoided_nodes, changed.avoid_until = (), 0.0
    return [JobUpdated(now, changed)]


def welcome(state: ClusterState, node: Node, now: float) -> list[Event]:
    """Jobs that avoided a node for a failed launch may use it again once its daemon has come anew. One that
    was lost under them they avoid for longer."""
    events: list[Event] = []
    for job_id in [*state.queue.places, *sorted(state.elastic)]:
        job = state.jobs[job_id]
        ready = job.state is not JobState.COMPLETING and job.avoid_until <= now
        if node.name in job.avoided_nodes and ready:
            events.append(JobUpdated(now, _without_avoided(job, node)))
    return events


def _without_avoided(job: Job, node: Node) -> Job:
    changed = copy(job)
    changed.pending_tasks = list(job.pending_tasks)
    changed.avoided_nodes = tuple(n for n in job.avoided_nodes if n != node.name)
    return changed
