"""sinfo's rows: nodes of a partition that look alike in all that is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from minislurm.cli.node_state import NodeStateText, node_state
from minislurm.domain.hostlist import compress, natural_key
from minislurm.domain.ids import NodeName
from minislurm.domain.node import Node
from minislurm.domain.views import NodeView, PartitionView

#: What two nodes, or two partitions, must have in common to share a row.
NodeLikeness = Callable[[NodeView], Any]
PartitionLikeness = Callable[[PartitionView], Any]


@dataclass(frozen=True)
class NodeGroup:
    """One row. `nodes` empty: a partition of which no node passed the filters."""

    partition: PartitionView
    nodes: tuple[NodeView, ...]
    #: Place of the partition in the configuration.
    position: int = 0

    @property
    def first(self) -> Node | None:
        return self.nodes[0].node if self.nodes else None

    @property
    def partition_name(self) -> str:
        return self.partition.name + ("*" if self.partition.default else "")

    @cached_property
    def node_list(self) -> str:
        return compress(sorted((view.node.name for view in self.nodes), key=natural_key))

    @cached_property
    def states(self) -> tuple[NodeStateText, ...]:
        return tuple(node_state(view) for view in self.nodes)

    @property
    def state(self) -> NodeStateText | None:
        return self.states[0] if self.states else None

    def node_counts(self) -> tuple[int, int, int, int]:
        """Allocated, idle, other, total."""
        shares = [state.share for state in self.states]
        return shares.count("alloc"), shares.count("idle"), shares.count("other"), len(shares)

    def cpu_counts(self) -> tuple[int, int, int, int]:
        allocated = idle = other = 0
        for view, state in zip(self.nodes, self.states, strict=True):
            used = view.node.cpus_used.bit_count()
            allocated += used
            if state.cpus_lost:
                other += view.node.cpus - used
            else:
                idle += view.node.cpus - used
        return allocated, idle, other, allocated + idle + other


def group_nodes(
    partitions: Sequence[PartitionView],
    nodes: Mapping[NodeName, NodeView],
    partition_likenesses: Iterable[PartitionLikeness],
    node_likenesses: Iterable[NodeLikeness],
    *,
    keep_empty: bool = True,
) -> list[NodeGroup]:
    """Rows in the order of the configuration. `nodes`: those that passed the filters.

    Partitions that are alike share rows, and a node counts once in each. `keep_empty`: a partition without
    any node has a row all the same, unless one like it has some.
    """
    partition_aspects, node_aspects = tuple(partition_likenesses), tuple(node_likenesses)
    places: dict[Any, tuple[PartitionView, int]] = {}
    members: dict[Any, dict[Any, dict[NodeName, NodeView]]] = {}
    for position, partition in enumerate(partitions):
        kind = tuple(aspect(partition) for aspect in partition_aspects)
        places.setdefault(kind, (partition, position))
        rows = members.setdefault(kind, {})
        for name in partition.nodes:
            if name in nodes:
                view = nodes[name]
                rows.setdefault(tuple(aspect(view) for aspect in node_aspects), {})[name] = view
    groups: list[NodeGroup] = []
    for kind, (partition, position) in places.items():
        groups += [NodeGroup(partition, tuple(row.values()), position) for row in members[kind].values()]
        if not members[kind] and keep_empty:
            groups.append(NodeGroup(partition, (), position))
    return groups
