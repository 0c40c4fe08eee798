"""Do parts of an allocation fit into what is free on their nodes at this moment?"""

from __future__ import annotations

from minislurm.cluster.state import ClusterState
from minislurm.domain.node import Node
from minislurm.domain.resources import NodeAllocation


def fits(state: ClusterState, allocation: tuple[NodeAllocation, ...]) -> bool:
    """Parts of different nodes, all of which must be usable."""
    for part in allocation:
        node = state.nodes.get(part.node)
        if node is None or not node.is_usable or not has_room(node, part):
            return False
    return bool(allocation)


def has_room(node: Node, part: NodeAllocation) -> bool:
    if part.cpus & node.cpus_used or not node.has_free(part):
        return False
    return not part.cpus >> node.cpus and part.memory_mib <= node.memory_mib - node.memory_used_mib
