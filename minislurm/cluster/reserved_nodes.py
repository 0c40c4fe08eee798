"""Which nodes a reservation gets: those that were named, or so many that are free in its time."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import NodeName
from minislurm.domain.job import Job
from minislurm.domain.reservation import Reservation, ReservationFlag, overlap
from minislurm.domain.states import NodeState
from minislurm.domain.views import ReservationChanges

_BY_NAME = (ReservationFlag.SPEC_NODES, ReservationFlag.ALL_NODES)


def changed_nodes(
    state: ClusterState, reservation: Reservation, changes: ReservationChanges
) -> Reservation | Refusal:
    """The reservation with the nodes that the changes ask for; its times and flags are the new ones."""
    if changes.nodes is not None:
        return _named(state, reservation, changes)
    if changes.node_count is not None:
        return _counted(state, reservation, changes.node_count)
    return reservation


def _named(
    state: ClusterState, reservation: Reservation, changes: ReservationChanges
) -> Reservation | Refusal:
    assert changes.nodes is not None
    every = changes.nodes.items == ("ALL",)
    if every:
        partition = state.partitions.get(reservation.partition)
        names: tuple[NodeName, ...] = tuple(state.nodes) if partition is None else partition.nodes
    else:
        asked = changes.nodes.applied_to(tuple(str(name) for name in reservation.nodes))
        names = tuple(NodeName(name) for name in asked)
    if any(name not in state.nodes for name in names):
        return Refusal(RefusalCode.INVALID_NODE_NAME)
    flags = set(reservation.flags) - set(_BY_NAME) | set(_BY_NAME if every else _BY_NAME[:1])
    return replace(
        reservation,
        nodes=_in_order(state, names),
        flags=tuple(flag for flag in ReservationFlag if flag in flags),
    )


def _counted(state: ClusterState, reservation: Reservation, count: int) -> Reservation | Refusal:
    """Nodes that it holds already come first; then free ones, on as few racks as they take."""
    partition = state.partitions.get(reservation.partition) or state.configuration.default_partition
    if partition is None:
        return Refusal(RefusalCode.INVALID_PARTITION)
    if not 0 < count <= len(partition.nodes):
        return Refusal(RefusalCode.INVALID_NODE_COUNT)
    held = [name for name in reservation.nodes if name in partition.nodes]
    free = [name for name in partition.nodes if name not in held and _is_free(state, name, reservation)]
    if len(held) + len(free) < count:
        return Refusal(RefusalCode.NODES_BUSY)
    names = (*held, *_by_rack(state, free, count - len(held)))[:count]
    flags = tuple(flag for flag in reservation.flags if flag not in _BY_NAME)
    return replace(reservation, nodes=_in_order(state, names), partition=partition.name, flags=flags)


def _is_free(state: ClusterState, name: NodeName, reservation: Reservation) -> bool:
    """Up, not held at its start by jobs of others, and in no other reservation at the same time."""
    node = state.nodes[name]
    if node.state is not NodeState.UP or node.drained:
        return False
    if not reservation.has(ReservationFlag.IGNORE_JOBS) and runs_into(state, name, reservation):
        return False
    others = (r for r in state.reservations.values() if r.name != reservation.name and name in r.nodes)
    return not any(overlap(other, reservation) for other in others)


def _by_rack(state: ClusterState, names: list[NodeName], count: int) -> list[NodeName]:
    """The smallest rack that holds them all; else the largest racks first."""
    racks: dict[str, list[NodeName]] = {}
    for name in names:
        racks.setdefault(state.topology.leaf_of_node.get(name, ""), []).append(name)
    enough = [rack for rack in racks.values() if len(rack) >= count]
    if enough:
        return min(enough, key=len)[:count]
    return [name for rack in sorted(racks.values(), key=len, reverse=True) for name in rack][:count]


def _in_order(state: ClusterState, names: Iterable[NodeName]) -> tuple[NodeName, ...]:
    """Each once, in the order of the configuration."""
    wanted = set(names)
    return tuple(name for name in state.nodes if name in wanted)


def runs_into(state: ClusterState, name: NodeName, reservation: Reservation) -> bool:
    """Does a run of another reservation, or of none, hold the node at the reservation's start?"""
    node = state.nodes.get(name)  # it may have left the configuration
    for job_id in node.jobs if node is not None else ():
        job = state.jobs[job_id]
        if job.request.reservation != reservation.name and run_end(state, job) > reservation.start_time:
            return True
    return False


def run_end(state: ClusterState, job: Job) -> float:
    """When a run is over at the latest: by its limit, its deadline, or with its reservation."""
    end = job.expected_end_time
    if job.deadline:
        end = min(end, job.deadline)
    own = state.reservations.get(job.request.reservation)
    if own is not None and not own.has(ReservationFlag.FLEX):
        end = min(end, own.end_time)
    return end
