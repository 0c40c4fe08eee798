"""Nodes that fail runs again and again ("lemons"): found by what became of their last runs, and drained with
the evidence. And nodes that a job avoids because they failed it."""

from __future__ import annotations

from collections.abc import Iterator

from minislurm.cluster.events import NodeChanged, RunEnding
from minislurm.cluster.state import ClusterState
from minislurm.domain.ids import NodeName
from minislurm.domain.job import EndCause, Job
from minislurm.domain.node import Node, RunOutcome
from minislurm.domain.states import JobState

#: So many runs of a node are remembered, from the first failed one on.
REMEMBERED = 20


def note_outcomes(state: ClusterState, job: Job, event: RunEnding) -> None:
    """Called by `apply`. A node on which nothing failed lately remembers nothing."""
    for part in job.allocation:
        node = state.nodes[part.node]
        failure = _failure_on(node, event)
        if failure is None or not (failure or node.outcomes):
            continue
        outcome = RunOutcome(job.id, job.spec.user_id, failure)
        kept = (*node.outcomes, outcome)[-REMEMBERED:]
        node.outcomes = kept if any(one.failure for one in kept) else ()
        state.touch_node(node.name)


def _failure_on(node: Node, event: RunEnding) -> str | None:
    """In words; "": it ended well. None: its end says nothing of the node."""
    if node.name in event.avoid_nodes:
        return "launch failed"
    if event.cause is EndCause.NODE_FAIL:
        return "node lost" if node.name in event.lost_nodes else None
    if event.cause is not EndCause.EXIT:
        return None
    if event.state is JobState.COMPLETED:
        return ""
    return f"signal {event.exit_signal}" if event.exit_signal else f"exit {event.exit_code}"


def drain_lemons(state: ClusterState, event: RunEnding) -> Iterator[NodeChanged]:
    """Follows from the end of a run."""
    for part in state.jobs[event.job_id].allocation:
        node = state.nodes[part.node]
        if not node.outcomes or node.drained:
            continue
        evidence = _evidence(state, node)
        if evidence:
            yield NodeChanged(
                event.time,
                node.name,
                node.state,
                node.responding,
                True,
                evidence,
                event.time,
                0,
                node.given_up,
            )


def _evidence(state: ClusterState, node: Node) -> str:
    """Why it is a lemon; "": it is none. One job's launches, and one user's failing scripts, count once: they
    may be to blame themselves."""
    settings = state.configuration.node
    latest = node.outcomes[-settings.lemon_runs :]
    counted: dict[tuple[str, int], RunOutcome] = {}
    for outcome in latest:
        if outcome.failure:
            by_node = outcome.failure in ("launch failed", "node lost")
            counted["job" if by_node else "user", outcome.job_id if by_node else outcome.user_id] = outcome
    if not settings.lemon_failures or len(counted) < settings.lemon_failures:
        return ""
    said = ", ".join(f"job {outcome.job_id} {outcome.failure}" for outcome in counted.values())
    return f"{len(counted)} of the last {len(latest)} runs failed here: {said}"


def nodes_to_avoid(state: ClusterState, job: Job, lost: tuple[NodeName, ...]) -> tuple[NodeName, ...]:
    """Those of the lost nodes that its next run need not use: it must still find enough others."""
    if not lost or not state.configuration.jobs.avoid_failed_node_s:
        return ()
    request, partition = job.request, state.partitions.get(job.partition)
    avoided = tuple(name for name in lost if name not in request.required_nodes)
    if partition is None or job.is_component:  # components avoid all that one of them does
        return ()
    left = set(partition.nodes) - set(request.excluded_nodes) - set(avoided)
    return avoided if len(left) >= request.nodes_min else ()
