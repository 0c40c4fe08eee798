"""The tree of domains over the nodes: racks, blocks, zones; of any depth.

It comes from the configuration, and for nodes that the configuration puts nowhere from what their daemons
report: ``zone=a/block=b2/rack=r7``, from the top down.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from minislurm.domain.configuration import DomainSpec
from minislurm.domain.ids import NodeName

_LABEL = re.compile(r"([A-Za-z0-9_.-]+)=([A-Za-z0-9_.-]+)\Z")

#: (level, name) from the top down.
Labels = tuple[tuple[str, str], ...]


def parse_labels(text: str) -> Labels:
    """``level=name/level=name…``; "" for none. Raises ValueError with what is wrong."""
    labels = []
    for part in filter(None, text.strip().split("/")):
        match = _LABEL.match(part)
        if match is None:
            raise ValueError(f"{part!r} is not level=name (letters, digits, '_', '.' and '-')")
        labels.append((match[1], match[2]))
    return tuple(labels)


class Topology(Struct, frozen=True):
    """Domains by name; a node belongs to at most one leaf. Without domains all nodes share one leaf, ""."""

    domains: dict[str, DomainSpec] = field(default_factory=dict)
    leaf_of_node: dict[NodeName, str] = field(default_factory=dict)

    @classmethod
    def of(cls, specs: tuple[DomainSpec, ...], reported: Mapping[NodeName, str] | None = None) -> Topology:
        """`reported`: what nodes say of themselves; it counts for those that `specs` put nowhere."""
        domains = {spec.name: spec for spec in specs}
        leaf_of_node = {node: spec.name for spec in specs for node in spec.nodes}
        paths = {
            name: _labels_or_none(text)
            for name, text in sorted((reported or {}).items())
            if text and name not in leaf_of_node
        }
        names = _unique_names(domains, paths.values())
        for node, path in paths.items():
            parent = ""
            for depth, (level, _) in enumerate(path, start=1):
                name = names[path[:depth]]
                domains.setdefault(name, DomainSpec(name, level, parent))
                parent = name
            if parent:
                leaf_of_node[node] = parent
        return cls(domains, leaf_of_node)

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

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(spec.level for spec in self.domains.values()))

    def domain_at(self, node: NodeName, level: str) -> str:
        """The node's domain of that level, the lowest if there are several; "" for none."""
        name = self.leaf_of_node.get(node, "")
        while name and self.domains[name].level != level:
            name = self.domains[name].parent
        return name


def _labels_or_none(text: str) -> Labels:
    """A node's report that cannot be read puts it nowhere: its daemon refuses such a text at its start."""
    try:
        return parse_labels(text)
    except ValueError:
        return ()


def _unique_names(domains: Mapping[str, DomainSpec], paths: Iterable[Labels]) -> dict[Labels, str]:
    """A name for each reported domain. Where two blocks have a rack "r1" each, the block's name is put
    before: "b1-r1". A reported path that is a configured one names the same domains."""
    found = dict.fromkeys(path[:depth] for path in paths for depth in range(1, len(path) + 1))
    configured = {_path_of(domains, name): name for name in domains}
    with_name: dict[str, int] = {}
    for path in found:
        with_name[path[-1][1]] = with_name.get(path[-1][1], 0) + 1
    names: dict[Labels, str] = {}
    taken = set(domains)
    for path in sorted(found, key=lambda path: (len(path), path)):
        name = configured.get(path)
        if name is None:
            name = path[-1][1]
            if (with_name[name] > 1 or name in taken) and len(path) > 1:
                name = f"{names[path[:-1]]}-{name}"
            while name in taken:
                name = f"{path[-1][0]}-{name}"
        taken.add(name)
        names[path] = name
    return names


def _path_of(domains: Mapping[str, DomainSpec], name: str) -> Labels:
    labels: list[tuple[str, str]] = []
    while name:
        labels.append((domains[name].level, name))
        name = domains[name].parent
    return tuple(reversed(labels))
