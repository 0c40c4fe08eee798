"""Will it ever fit? What the nodes of the partition could not hold even if all were idle is refused at
submission, as in Slurm, instead of waiting for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minislurm.cluster.snapshot import kept_availability
from minislurm.cluster.state import ClusterState
from minislurm.domain.configuration import Partition
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.node import Node
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.states import Reason
from minislurm.scheduling.needs import Bounds, bounds_of, cpus_on_node, gpus_on_node, memory_on_node

if TYPE_CHECKING:
    from minislurm.scheduling.ever import Ever

_WHY = {
    Reason.PARTITION_CONFIG: "The nodes of partition {} could not hold it even if all were idle",
    Reason.BAD_CONSTRAINTS: "Partition {} has not enough nodes that the constraints allow",
    Reason.TOPOLOGY: "Partition {} has no domain of the required level that could hold it",
}


def refuse_what_never_fits(
    state: ClusterState, request: ResourceRequest, partition: Partition
) -> Refusal | None:
    """`request`: with the defaults of the cluster filled in."""
    if _surely_fits(state, request, partition):
        return None
    outside = set(request.required_nodes) - set(partition.nodes) if request.required_nodes else None
    if outside:
        return Refusal(RefusalCode.NODES_NOT_IN_PARTITION)
    why = _ever(state).misfit(request, partition)
    if why is None:
        return None
    return Refusal(RefusalCode.NODE_CONFIGURATION, details=(_WHY[why].format(partition.name),))


def _ever(state: ClusterState) -> Ever:
    found = state.kept.ever
    if found is None:
        from minislurm.scheduling.ever import Ever  # with NumPy, which a restart need not wait for

        nodes = [kept_availability(state, node) for node in state.nodes.values()]
        found = state.kept.ever = Ever(nodes, state.topology)
    return found


def _surely_fits(state: ClusterState, request: ResourceRequest, partition: Partition) -> bool:
    """The common case, decided by the kinds of nodes: the fewest nodes that are asked for would do, any of
    them, or a single one of some kind."""
    if (
        request.features or request.required_nodes or request.excluded_nodes or request.limits_domains
        or request.gpu_share_milli or request.gpus_total or request.tasks_follow_nodes
    ):  # fmt: skip
        return False
    bounds = bounds_of(request, partition)
    if not bounds.possible or bounds.nodes_min > len(partition.nodes):
        return False
    fits = (_holds(node, request, bounds) for node in state.kinds_in(partition))
    return any(fits) if bounds.nodes_min == 1 else all(fits)


def _holds(node: Node, request: ResourceRequest, bounds: Bounds) -> bool:
    """Its part of a gang on the fewest nodes."""
    tasks = -(-bounds.tasks // bounds.nodes_min)
    if 0 < request.tasks_per_node < tasks:
        return False
    cpus, gpus = cpus_on_node(request, tasks), gpus_on_node(request, tasks)
    return (
        node.cpus >= cpus
        and node.memory_mib >= memory_on_node(request, cpus, gpus)
        and (not gpus or node.suitable_gpus(request).bit_count() >= gpus)
    )
