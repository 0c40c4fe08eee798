"""What a request asks of one node, and of how many nodes."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from minislurm.domain.configuration import Partition
from minislurm.domain.resources import ResourceRequest, share_on_node
from minislurm.scheduling.features import nodes_counted

__all__ = [
    "Bounds", "anywhere", "bounds_of", "cpus_on_node", "gpus_on_node", "memory_on_node", "share_on_node",
    "wants_gpus",
]  # fmt: skip

NO_BOUND = 1 << 40


class Bounds(Struct, frozen=True):
    """How many tasks on how many nodes. Every node gets at least one task."""

    tasks: int
    nodes_min: int
    nodes_max: int
    #: As few nodes as it takes; otherwise as many as there are, up to `nodes_max`.
    fewest: bool
    #: Every node brings so many tasks; 0: their number is fixed.
    tasks_each: int = 0

    def tasks_of(self, nodes: int) -> int:
        """The tasks of a gang on so many nodes."""
        return max(self.tasks, self.tasks_each * nodes)

    @property
    def tasks_on_one(self) -> int:
        """No node gets more."""
        return self.tasks_each or self.tasks

    @property
    def possible(self) -> bool:
        return self.nodes_min <= self.nodes_max

    @property
    def tasks_on_a_node(self) -> int:
        """At least so many tasks have to go to some node, however many nodes there are."""
        return self.tasks_each or -(-self.tasks // max(1, self.nodes_max))


def bounds_of(request: ResourceRequest, partition: Partition) -> Bounds:
    """The partition's own bounds included. With fewer tasks than nodes, tasks are added: one a node."""
    counted = nodes_counted(request.features) if request.features else 0
    nodes_min = max(request.nodes_min, partition.min_nodes, len(request.required_nodes), counted, 1)
    each = -(-request.tasks // max(1, request.nodes_min)) if request.tasks_follow_nodes else 0
    tasks = max(request.tasks, nodes_min, each * nodes_min)
    nodes_max = min(
        request.nodes_max or NO_BOUND, partition.max_nodes or NO_BOUND, NO_BOUND if each else tasks
    )
    if request.gpus_total:
        nodes_max = min(nodes_max, request.gpus_total)
    fewest = not request.nodes_max and not request.spread
    return Bounds(tasks, nodes_min, nodes_max, fewest, each)


def anywhere(request: ResourceRequest) -> ResourceRequest:
    """The same request, were it all the same which domains the nodes are in."""
    return replace(request, topology_level="", topology_required=False, switches=0, segment=0)


def wants_gpus(request: ResourceRequest) -> bool:
    """Whole ones."""
    return bool(request.gpus_per_node or request.gpus_per_task or request.gpus_total)


def cpus_on_node(request: ResourceRequest, tasks: int) -> int:
    return max(tasks * request.cpus_per_task, request.cpus_per_node_min)


def gpus_on_node(request: ResourceRequest, tasks: int) -> int:
    """The least; of `gpus_total` a node gets at least one, and may get more."""
    return max(request.gpus_per_node, tasks * request.gpus_per_task, 1 if request.gpus_total else 0)


def memory_on_node(request: ResourceRequest, cpus: int, gpus: int) -> int:
    """MiB."""
    return max(
        request.memory_per_node_mib, request.memory_per_cpu_mib * cpus, request.memory_per_gpu_mib * gpus
    )
