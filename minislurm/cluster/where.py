"""May a request ask for these features and for this place in the topology?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.node import Node
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.topology import Topology
from minislurm.scheduling.features import constraint_of


def check_features(request: ResourceRequest, nodes: Sequence[Node]) -> Refusal | None:
    """Refuses an expression that cannot be read, or a feature that no node of the partition has."""
    if not request.features:
        return None
    try:
        wanted = constraint_of(request.features).names
    except ValueError as error:
        return Refusal(RefusalCode.INVALID_FEATURE, details=(str(error),))
    known = {feature for node in nodes for feature in node.spec.features}
    if wanted <= known:
        return None
    return Refusal(RefusalCode.INVALID_FEATURE)


def check_topology(topology: Topology, request: ResourceRequest, nodes: Sequence[Node]) -> Refusal | None:
    """Refuses a level that is not there, a required level whose domains are too small, odd segments."""
    segment = request.segment
    if segment and (request.nodes_max != request.nodes_min or request.nodes_min % segment):
        detail = f"--segment={segment} needs a fixed number of nodes that it divides"
        return Refusal(RefusalCode.INVALID_NODE_COUNT, details=(detail,))
    if segment and request.required_nodes:
        detail = f"--segment={segment} chooses the nodes itself: --nodelist cannot be given besides"
        return Refusal(RefusalCode.NOT_SUPPORTED, details=(detail,))
    if any(not node.cpus for node in nodes):
        return None  # where a node stands may not be known before it registers
    if segment and _largest(topology, "", nodes) < segment:
        detail = f"--segment={segment} is more nodes than any leaf domain of the topology has"
        return Refusal(RefusalCode.NODE_CONFIGURATION, details=(detail,))
    level = request.topology_level
    if not level:
        return None
    if level not in topology.levels:
        known = ", ".join(topology.levels) or "none"
        return Refusal(
            RefusalCode.NODE_CONFIGURATION, details=(f"Invalid topology level {level!r}; there are: {known}",)
        )
    largest = _largest(topology, level, nodes)
    if request.topology_required and request.nodes_min > largest:
        detail = f"no {level} has {request.nodes_min} nodes of the partition; the largest has {largest}"
        return Refusal(RefusalCode.NODE_CONFIGURATION, details=(detail,))
    return None


def _largest(topology: Topology, level: str, nodes: Sequence[Node]) -> int:
    """Nodes of the largest domain of that level ("": of the largest leaf)."""
    if level:
        counts = Counter(topology.domain_at(node.name, level) for node in nodes)
        del counts[""]
    else:
        counts = Counter(topology.leaf_of_node.get(node.name, "") for node in nodes)
    return max(counts.values(), default=0)
