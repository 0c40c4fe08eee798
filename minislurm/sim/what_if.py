"""What would be otherwise: nodes added to a live cluster, settings changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from minislurm.cluster.state import ClusterState
from minislurm.domain import configuration_file
from minislurm.domain.configuration import Configuration, DomainSpec
from minislurm.domain.errors import UsageError
from minislurm.domain.ids import NodeName
from minislurm.domain.node import Node, NodeFacts
from minislurm.domain.states import JobState
from minislurm.domain.topology import parse_labels
from minislurm.sim import policy
from minislurm.sim.live import Change
from minislurm.sim.nodes_to_add import NodesToAdd
from minislurm.sim.policy import Policy


class WhatIf(Struct, frozen=True):
    """Changes that all belong to one another: `overrides` are ``section.key=value``."""

    added: tuple[NodesToAdd, ...] = ()
    overrides: tuple[str, ...] = ()
    placement: str = ""

    @property
    def is_nothing(self) -> bool:
        return self == WhatIf()

    def words(self) -> str:
        parts = [f"{item.count} nodes more" + (f" like {item.like}" * bool(item.like)) for item in self.added]
        return "; ".join([*parts, *self.overrides, *([f"placement {self.placement}"] * bool(self.placement))])

    def on(self, state: ClusterState, rule: Policy) -> Change:
        """As a change of that cluster. Raises ConfigurationError, UsageError."""
        configuration, added = state.configuration, dict[NodeName, NodeFacts]()
        for number, item in enumerate(self.added, start=1):
            configuration, facts = _with_nodes(configuration, state, item, f"added{number}")
            added |= facts
        if self.overrides:
            text = configuration_file.to_toml(configuration)
            configuration = configuration_file.parse(text, "--set", self.overrides)
        if self.placement:
            configuration = policy.with_placement(configuration, self.placement)
        if rule.by_accounts:
            _check_accounts(state, rule)
        return Change(rule.on(configuration), added)


def _check_accounts(state: ClusterState, rule: Policy) -> None:
    tree = state.accounts.tree
    if tree.is_empty:
        raise UsageError(f"--policy {rule.name}: the cluster has no accounts")
    if not rule.takes_bids:
        return
    if all(account.budget is None for account in tree.accounts.values()):
        raise UsageError(f"--policy {rule.name}: no account has a budget to bid from")
    if not any(job.bid for job in state.jobs.values() if job.state is JobState.PENDING):
        raise UsageError(f"--policy {rule.name}: none of the jobs that wait has a bid")


def _with_nodes(
    configuration: Configuration, state: ClusterState, item: NodesToAdd, rack: str
) -> tuple[Configuration, dict[NodeName, NodeFacts]]:
    """Nodes of the same kind, in the same partitions, in a rack of their own beside that of their model."""
    model = _model(state, item.like)
    names = _new_names(configuration, model.name, item.count)
    specs = tuple(replace(model.spec, name=name, address="") for name in names)
    partitions = tuple(
        replace(partition, nodes=(*partition.nodes, *names)) if model.name in partition.nodes else partition
        for partition in configuration.partitions
    )
    topology, facts = configuration.topology, replace(model.facts, host_name="", address="", step_port=0)
    beside = next((spec for spec in topology if model.name in spec.nodes), None)
    if beside is not None:
        taken = {spec.name for spec in topology}
        while rack in taken:
            rack += "x"
        topology = (*topology, DomainSpec(rack, beside.level, beside.parent, names))
    elif facts.topology:
        *above, (level, _) = parse_labels(facts.topology)
        path = "/".join("=".join(label) for label in (*above, (level, rack)))
        facts = replace(facts, topology=path)
    changed = replace(
        configuration, nodes=(*configuration.nodes, *specs), partitions=partitions, topology=topology
    )
    return changed, dict.fromkeys(names, facts)


def _model(state: ClusterState, like: str) -> Node:
    if like:
        node = state.nodes.get(NodeName(like))
        if node is None:
            raise UsageError(f"--add-nodes: the cluster has no node {like}")
        _check_known(node)
        return node
    nodes = [node for node in state.nodes.values() if state.partitions_of_node.get(node.name) and node.cpus]
    if not nodes:
        raise UsageError("--add-nodes: the cluster has no node that they could be like")
    kinds = Counter((node.cpus, node.memory_mib, node.gpus, node.spec.features) for node in nodes)
    kind = max(kinds, key=lambda key: kinds[key])
    return next(n for n in nodes if (n.cpus, n.memory_mib, n.gpus, n.spec.features) == kind)


def _check_known(node: Node) -> None:
    if not node.cpus:
        raise UsageError(
            f"--add-nodes: nobody knows what node {node.name} has: its daemon has never come, and the "
            "configuration does not say"
        )


def _new_names(configuration: Configuration, model: NodeName, count: int) -> tuple[NodeName, ...]:
    """The model's name with the next numbers; "n4" for the fourth of n1, n2, n3."""
    taken = {spec.name for spec in configuration.nodes}
    stem = model.rstrip("0123456789")
    digits = len(model) - len(stem)
    numbered = [name[len(stem) :] for name in taken if name.startswith(stem)]
    last = max((int(text) for text in numbered if text.isascii() and text.isdigit()), default=0)
    return tuple(NodeName(f"{stem}{last + number:0{digits}d}") for number in range(1, count + 1))


def variants(what_if: WhatIf, policies: Sequence[str]) -> list[tuple[Policy, WhatIf]]:
    """The columns: as it is, then with the changes, or with the changes under each policy."""
    found = [(Policy("as it is", "as the cluster is configured now"), WhatIf())]
    words = what_if.words()
    for name in dict.fromkeys(policies):
        rule = policy.named(name)
        summary = f"{words}; {rule.summary}" if words else rule.summary
        found.append((replace(rule, summary=summary), what_if))
    if not policies and not what_if.is_nothing:
        found.append((Policy("changed", words), what_if))
    return found
