"""Which nodes a node asks when it loses the controller (what for: `contacts.py`)."""

from __future__ import annotations

from collections.abc import Iterator

from minislurm.cluster.state import ClusterState
from minislurm.domain.ids import NodeName
from minislurm.domain.node import Node
from minislurm.domain.states import NodeState

#: Odd, so that a majority is more than one of them.
WITNESSES = 3


def choose_witnesses(state: ClusterState, node: Node) -> tuple[NodeName, ...]:
    """Those that it has stay as long as they are up: until it hears of others, it goes by these. The rest
    from other leaf domains, each from another one if there are so many; nodes that answer before those that
    have not come yet, and nodes that are DOWN last. Neighbours, so that all are asked about equally often."""
    chosen = [name for name in node.witnesses if name in state.nodes and _is_up(state.nodes[name])]
    leaf_of = state.topology.leaf_of_node
    leaves = {leaf_of.get(name, "") for name in (node.name, *chosen)}
    has_leaves = len(set(leaf_of.values())) > 1
    passes = (
        *([(True, _answers), (True, _is_not_down)] if has_leaves else []),
        (False, _answers),
        (False, _is_not_down),
        (False, _is_down),
    )
    for fresh_leaf, is_fit in passes:
        if len(chosen) >= WITNESSES:
            break
        for other in _neighbours(state, node):
            leaf = leaf_of.get(other.name, "")
            if not is_fit(other) or other.name in chosen or (fresh_leaf and leaf in leaves):
                continue
            chosen.append(other.name)
            leaves.add(leaf)
            if len(chosen) >= WITNESSES:
                break
    return tuple(chosen[:WITNESSES])


def majority_of(witnesses: int) -> int:
    """So many of them decide; none decides for a node without witnesses."""
    return witnesses // 2 + 1


def _neighbours(state: ClusterState, node: Node) -> Iterator[Node]:
    """All others, those before it first: they have registered earlier when a cluster starts."""
    names = list(state.nodes)
    place = names.index(node.name)
    for name in (*names[place - 1 :: -1][:place], *names[:place:-1]):
        yield state.nodes[name]


def _answers(node: Node) -> bool:
    return node.state is NodeState.UP and node.responding


def _is_up(node: Node) -> bool:
    return node.state is NodeState.UP


def _is_down(node: Node) -> bool:
    return node.state is NodeState.DOWN


def _is_not_down(node: Node) -> bool:
    return not _is_down(node)
