"""Elastic jobs: their runs get nodes and give nodes back, in place or with the next run (README.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from msgspec.structs import replace

from minislurm.cluster import licenses, reservations
from minislurm.cluster.accounts import change_hit, may_pay
from minislurm.cluster.checkpoints import give_way
from minislurm.cluster.events import (
    CheckpointWithdrawn,
    Event,
    NodeLeft,
    NodePrepared,
    NodesJoined,
    NodesNotJoined,
    ResizeBegun,
    RunPlaced,
    StepNodeEnded,
)
from minislurm.cluster.messages import ResizeProposed
from minislurm.cluster.reserved_nodes import run_end
from minislurm.cluster.room import fits
from minislurm.cluster.state import ClusterState
from minislurm.cluster.victims import tier_of
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.domain.job import Job
from minislurm.domain.node import Node
from minislurm.domain.resources import NodeAllocation, size_within
from minislurm.domain.states import JobState, NodeState
from minislurm.scheduling.model import Resize

NOBODY = JobId(0)
#: The cause of the requeue.
RESIZE = "resize"
GROW, SHRINK, UPDATE = "grow", "shrink", "update"
NODE_FAIL, LAUNCH_FAILURE = "node_fail", "launch_failure"

_SIGKILL = 9

#: Ends after which a run's next one may have its nodes at once.
_AT_ONCE = frozenset({RESIZE, "node_fail", "launch_failure"})


def decide_resize(state: ClusterState, message: ResizeProposed, now: float) -> list[Event] | Refusal:
    """A plan's resizes, checked against the state of this moment: all of them or none."""
    events: list[Event] = []
    for resize in message.resizes:
        job = state.jobs.get(resize.job_id)
        refusal = Refusal(RefusalCode.TRY_LATER, job_id=resize.job_id)
        if job is None or job.run != resize.run:
            return refusal
        if job.keeps_nodes and job.joining and _may_do_without(state, job, resize, now):
            events.append(NodesNotJoined(now, job.id, job.run, resize.leaving))
            if job.gives_way and len(resize.leaving) == len(job.joining):
                events.append(CheckpointWithdrawn(now, job.id, job.run))  # it need not go any more
            continue
        if not may_resize(job):
            return refusal
        if resize.joining:
            if resize.leaving or not _may_join(state, job, resize.joining, now):
                return refusal
            events += begin_resize(state, job, GROW, now, joining=resize.joining)
        else:
            if not _may_leave(state, job, resize, now):
                return refusal
            leaving, preemptor = resize.leaving, resize.preemptor
            events += begin_resize(state, job, SHRINK, now, leaving=leaving, preemptor=preemptor)
    return events


def may_resize(job: Job) -> bool:
    """Can its size be changed at all, at this moment?"""
    is_free = not (job.is_resizing or job.gives_way)
    return job.is_elastic and job.state is JobState.RUNNING and is_free


def _may_join(state: ClusterState, job: Job, joining: tuple[NodeAllocation, ...], now: float) -> bool:
    names = [part.node for part in joining]
    own = {part.node for part in job.allocation}
    parts = (*job.allocation, *joining)
    if not fits(state, joining) or own.intersection(names) or len(set(names)) < len(names):
        return False
    left_s = run_end(state, job) - now
    until_its_end = replace(job, time_limit_s=left_s if left_s < inf else 0.0)
    return (
        size_within(job.request, len(parts)) == len(parts)
        and grow_from(state, job) <= now
        and reservations.may_run(state, until_its_end, names, now)
        and licenses.may_share(state, job, names)
        and change_hit(state.accounts, job, parts, state.nodes) is None
        and may_pay(state.accounts, job, job.price, now)
    )


def _may_leave(state: ClusterState, job: Job, resize: Resize, now: float) -> bool:
    """Does somebody still wait for these nodes, and may the run be asked for them?"""
    preemptor = state.jobs.get(resize.preemptor)
    if preemptor is None or preemptor.id not in state.queue or preemptor.partition not in state.partitions:
        return False
    above = tier_of(state, preemptor) - tier_of(state, job)
    is_time = above > 0 or (above == 0 and shrink_from(state, job) <= now)
    return is_time and may_go(job, resize.leaving)


def _may_do_without(state: ClusterState, job: Job, resize: Resize, now: float) -> bool:
    """Are these held idle for its next run, while somebody waits for them?"""
    preemptor = state.jobs.get(resize.preemptor)
    if preemptor is None or preemptor.id not in state.queue or preemptor.partition not in state.partitions:
        return False
    joining = {part.node for part in job.joining}
    return bool(resize.leaving) and joining.issuperset(resize.leaving) and not resize.joining


def may_go(job: Job, leaving: tuple[NodeName, ...]) -> bool:
    """Is what is left of the run's nodes a size that it may have? In place its batch script stays."""
    names = [part.node for part in job.allocation]
    left = [name for name in names if name not in leaving]
    if not leaving or len(left) != len(names) - len(leaving) or len(left) < job.request.nodes_min:
        return False
    if job.resizes_in_place and left[0] != names[0]:
        return False
    return size_within(job.request, len(left)) == len(left)


def grow_from(state: ClusterState, job: Job) -> float:
    """Its run does not grow before that."""
    cooldown_s = state.configuration.elastic.grow_cooldown_s
    return max(job.start_time, job.resize_time) + cooldown_s


def most_nodes(state: ClusterState, job: Job) -> int:
    """The greatest size that it may have."""
    partition = state.partitions.get(job.partition)
    most = job.request.nodes_max
    if partition is not None and partition.max_nodes is not None:
        most = min(most, partition.max_nodes)
    return size_within(job.request, most)


def may_grow(state: ClusterState, job: Job, now: float) -> bool:
    """Is it only up to nodes and limits?"""
    return may_resize(job) and len(job.allocation) < most_nodes(state, job) and grow_from(state, job) <= now


def shrink_from(state: ClusterState, job: Job) -> float:
    """It is not asked for nodes before that, but by whom it has to give way to anyway."""
    cooldown_s = state.configuration.elastic.shrink_cooldown_s
    return job.resize_time + cooldown_s if job.resize_kind == SHRINK else 0.0


def begin_resize(
    state: ClusterState,
    job: Job,
    kind: str,
    now: float,
    *,
    joining: tuple[NodeAllocation, ...] = (),
    leaving: tuple[NodeName, ...] = (),
    preemptor: JobId = NOBODY,
) -> list[Event]:
    in_place = job.resizes_in_place
    begun = ResizeBegun(now, job.id, job.run, kind, joining, leaving, not in_place, preemptor)
    return [begun] if in_place else [begun, give_way(state, job, now, preemptor, RESIZE)]


# In place


def joined(job: Job, node: NodeName, now: float) -> list[Event]:
    """One of the nodes that are to join the run is ready."""
    names = [part.node for part in job.joining]
    if node not in names or node in job.prepared_nodes:
        return []
    events: list[Event] = [NodePrepared(now, job.id, job.run, node)]
    if all(name == node or name in job.prepared_nodes for name in names):
        events.append(NodesJoined(now, job.id, job.run, tuple(names)))
    return events


def not_joined(job: Job, failed: tuple[NodeName, ...], now: float) -> list[Event]:
    """All or none: the run goes on as it is, and the others are free again."""
    names = tuple([part.node for part in job.joining])
    return [NodesNotJoined(now, job.id, job.run, names, failed)]


def decide_timeout(state: ClusterState, job: Job, now: float) -> list[Event]:
    """Have those that are to join it had the time that a launch has?"""
    if job.state is not JobState.RUNNING or join_end(state, job) > now:
        return []
    silent = [part.node for part in job.joining if part.node not in job.prepared_nodes]
    return not_joined(job, tuple(silent), now)


def join_end(state: ClusterState, job: Job) -> float:
    return job.resize_time + state.configuration.timers.prepare_timeout_s


def left(job: Job, node: NodeName, now: float) -> list[Event]:
    """Nothing of the run is left on the node."""
    steps = [step for step in job.steps.values() if node in step.open_nodes]
    ends = [StepNodeEnded(now, job.id, job.run, step.id, (node,), 0, _SIGKILL) for step in steps]
    return [*ends, NodeLeft(now, job.id, job.run, node)]


def go_on_without(job: Job, node: NodeName, now: float) -> list[Event]:
    """A running job has lost the node: what follows where it can do without. []: it cannot."""
    if job.state is not JobState.RUNNING:
        return []
    if any(part.node == node for part in job.joining):
        if job.resizes_in_place:
            return not_joined(job, (node,), now)
        return [NodesNotJoined(now, job.id, job.run, (node,))]
    if not job.resizes_in_place:
        return []
    staying = [part.node for part in job.allocation if part.node not in (node, *job.leaving)]
    if node == job.batch_host or len(staying) < job.request.nodes_min:
        return []
    return left(job, node, now)


# With the next run


def keep_the_rest(
    state: ClusterState, job: Job, without: tuple[NodeName, ...], kind: str, now: float
) -> list[Event]:
    """Before the end of a run that has lost these nodes, or failed to start on them: the next one begins at
    once on the others. []: it waits like any other, since too few are left."""
    if job.spec.elastic != "restart" or job.is_resizing:
        return []
    left = [part for part in job.allocation if part.node not in without]
    if len(left) < job.request.nodes_min:
        return []
    return [ResizeBegun(now, job.id, job.run, kind, leaving=without, keeps_nodes=True)]


def next_run(state: ClusterState, job: Job, now: float) -> list[Event]:
    """What begins in the moment in which a run that has kept its nodes ends, so that nobody takes them in
    between. []: it does not come back, or too few of them are left; then it waits like any other."""
    if not job.keeps_nodes or job.requeue_cause not in _AT_ONCE or job.requeue_held:
        return []
    kept = [part for part in job.allocation if job.keeps(part.node)]
    parts = [part for part in (*kept, *job.joining) if _will_answer(state.nodes[part.node])]
    request = job.request
    # Its own reservation may be over by now.
    if len(parts) < request.nodes_min or not reservations.may_run(state, job, (), now):
        return []
    parts = parts[: size_within(request, len(parts))]
    used_s = job.limit_used_s + max(0.0, now - job.start_time - job.suspended_time_s)
    run = RunNumber(job.run + 1)
    return [
        RunPlaced(
            now, job.id, run, by_leaf(state, parts), job.pending_reason, job.start_priority, job.price, used_s
        )
    ]


def _will_answer(node: Node) -> bool:
    """One that is silent at the moment gets its time to answer, like all others: after a restart of the
    controller none has been heard of at first."""
    return node.state is NodeState.UP and not node.drained and not node.stale_runs


def by_leaf(state: ClusterState, parts: Sequence[NodeAllocation]) -> tuple[NodeAllocation, ...]:
    """Neighbours next to each other, so that ranks are; else as they come."""
    leaf_of_node = state.topology.leaf_of_node
    order = _numbered(leaf_of_node.get(part.node, "") for part in parts)
    return tuple(sorted(parts, key=lambda part: order[leaf_of_node.get(part.node, "")]))


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names))}
