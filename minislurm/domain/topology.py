"""The tree of domains over the nodes: racks, blocks, zones."""

from __future__ import annotations

from dataclasses import dataclass, field

from minislurm.domain.configuration import DomainSpec
from minislurm.domain.ids import NodeName


@dataclass(frozen=True, slots=True)
class Topology:
    """Domains by name; a node belongs to at most one leaf. Without domains all nodes share one leaf, ""."""

    domains: dict[str, DomainSpec] = field(default_factory=dict)
    leaf_of_node: dict[NodeName, str] = field(default_factory=dict)

    @classmethod
    def of(cls, specs: tuple[DomainSpec, ...]) -> Topology:
        return cls(
            domains={spec.name: spec for spec in specs},
            leaf_of_node={node: spec.name for spec in specs for node in spec.nodes},
        )

    def path(self, node: NodeName) -> tuple[str, ...]:
        """Domain names from the top to the node's leaf; () for a node in no domain."""
        names: list[str] = []
        name = self.leaf_of_node.get(node, "")
        while name:
            names.append(name)
            name = self.domains[name].parent
        return tuple(reversed(names))

    def address(self, node: NodeName) -> tuple[str, str]:
        """SLURM_TOPOLOGY_ADDR and its pattern: ("spine.rack1.n1", "switch.switch.node")."""
        path = self.path(node)
        return ".".join((*path, node)), ".".join(["switch"] * len(path) + ["node"])
