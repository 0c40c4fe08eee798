"""The columns of sinfo: every letter of ``-o`` and every name of ``-O``, with Slurm's headers.

A column also says what the nodes and partitions of one row must have in common for it: rows are grouped by
the columns that are shown.
"""

from __future__ import annotations

from collections.abc import Callable

from minislurm.cli.columns import Field
from minislurm.cli.node_group import NodeGroup, NodeLikeness, PartitionLikeness
from minislurm.cli.node_state import NodeStateText, node_state
from minislurm.cli.node_text import (
    address,
    features_text,
    geometry,
    host_name,
    user_text,
)
from minislurm.cli.resource_text import NULL, gres_text, gres_used_text
from minislurm.domain.hostlist import compress, natural_key
from minislurm.domain.node import Node
from minislurm.domain.times import format_duration, format_time
from minislurm.domain.views import NodeView, PartitionView

_AVAILABLE = {"UP": "up", "DOWN": "down", "DRAIN": "drain", "INACTIVE": "inact"}
_NO_LIMIT = float("inf")


class NodeField(Field[NodeGroup], frozen=True):
    partition_likeness: PartitionLikeness | None = None
    node_likeness: NodeLikeness | None = None
    #: Asked for only with --exact; otherwise the row shows the least with a "+".
    exact_likeness: NodeLikeness | None = None


def _of_partition(header: str, value: Callable[[PartitionView], str]) -> NodeField:
    return NodeField(header, lambda group: value(group.partition), partition_likeness=value)


def _of_node(header: str, value: Callable[[Node], str], without: str) -> NodeField:
    """`without`: for a row without nodes."""

    def show(group: NodeGroup) -> str:
        return value(group.first) if group.first is not None else without

    return NodeField(header, show, node_likeness=lambda view: value(view.node))


def _of_state(header: str, value: Callable[[NodeStateText], str]) -> NodeField:
    def show(group: NodeGroup) -> str:
        return value(group.state) if group.state is not None else "n/a"

    def key(group: NodeGroup) -> int:
        return group.state.number if group.state is not None else -1

    return NodeField(header, show, key, node_likeness=lambda view: value(node_state(view)))


def _least(header: str, value: Callable[[Node], int]) -> NodeField:
    """The least of the row's nodes, with a "+" where they differ."""

    def show(group: NodeGroup) -> str:
        amounts = {value(view.node) for view in group.nodes} or {0}
        return f"{min(amounts)}+" if len(amounts) > 1 else str(min(amounts))

    def key(group: NodeGroup) -> int:
        return min((value(view.node) for view in group.nodes), default=0)

    return NodeField(header, show, key, exact_likeness=lambda view: value(view.node))


def _range(header: str, value: Callable[[Node], float], text: Callable[[float], str]) -> NodeField:
    """``0.71-3.35``; "N/A" where no node has registered yet."""

    def show(group: NodeGroup) -> str:
        known = [value(view.node) for view in group.nodes if view.node.facts.cpus]
        if not known:
            return "N/A"
        least, most = text(min(known)), text(max(known))
        return least if least == most else f"{least}-{most}"

    def key(group: NodeGroup) -> float:
        return min((value(view.node) for view in group.nodes), default=0.0)

    return NodeField(header, show, key, exact_likeness=lambda view: value(view.node))


def _sct(group: NodeGroup) -> str:
    shapes = {geometry(view.node) for view in group.nodes} or {(0, 0, 0)}
    least = [min(shape[i] for shape in shapes) for i in range(3)]
    most = [max(shape[i] for shape in shapes) for i in range(3)]
    return ":".join(str(a) if a == b else f"{a}+" for a, b in zip(least, most, strict=True))


def _job_size(partition: PartitionView) -> str:
    least = max(1, partition.min_nodes)
    if partition.max_nodes is None:
        return f"{least}-infinite"
    return str(least) if partition.max_nodes == least else f"{least}-{partition.max_nodes}"


def _limit_text(seconds: float | None) -> str:
    return "infinite" if seconds is None else format_duration(seconds)


def _default_time(partition: PartitionView) -> str:
    return "n/a" if partition.default_time_s is None else format_duration(partition.default_time_s)


def _reason_user(node: Node) -> str:
    return user_text(node.reason_user_id) if node.reason else "Unknown"


def _reason_user_long(node: Node) -> str:
    return f"{_reason_user(node)}({node.reason_user_id})" if node.reason else "Unknown"


def _reason_time(node: Node) -> str:
    return format_time(node.reason_time) if node.reason else "Unknown"


def _counts(header: str, value: Callable[[NodeGroup], tuple[int, ...]]) -> NodeField:
    return NodeField(header, lambda group: "/".join(map(str, value(group))), value)


def _names(header: str, value: Callable[[Node], str]) -> NodeField:
    """A list of what each node is called; nodes called the same share a row, others do not."""

    def show(group: NodeGroup) -> str:
        return compress(sorted({value(view.node) for view in group.nodes}, key=natural_key))

    return NodeField(header, show, node_likeness=lambda view: value(view.node))


_PARTITION = NodeField(
    "PARTITION",
    lambda group: group.partition_name,
    lambda group: group.partition.name,
    partition_likeness=lambda partition: partition.name,
)
_PARTITION_NAME = NodeField(
    "PARTITION",
    lambda group: group.partition.name,
    partition_likeness=lambda partition: partition.name,
)
_AVAIL = _of_partition("AVAIL", lambda partition: _AVAILABLE.get(partition.state, partition.state.lower()))
_NODES_AI = _counts("NODES(A/I)", lambda group: group.node_counts()[:2])
_NODES_AIOT = _counts("NODES(A/I/O/T)", NodeGroup.node_counts)
_CPUS_AIOT = _counts("CPUS(A/I/O/T)", NodeGroup.cpu_counts)
_CPUS = _least("CPUS", lambda node: node.cpus)
_NODES = NodeField("NODES", lambda group: str(len(group.nodes)), lambda group: len(group.nodes))
_NODE_LIST = NodeField(
    "NODELIST",
    lambda group: group.node_list,
    lambda group: natural_key(group.first.name) if group.first is not None else (),
)
_FEATURES = _of_node("AVAIL_FEATURES", features_text, NULL)
_ACTIVE_FEATURES = _of_node("ACTIVE_FEATURES", features_text, NULL)
_FREE_MEMORY = _range("FREE_MEM", lambda node: node.free_memory_mib, lambda value: str(int(value)))
_CPU_LOAD = _range("CPU_LOAD", lambda node: node.cpu_load, lambda value: f"{value:.2f}")
_DISK = _least("TMP_DISK", lambda node: 0)
_MEMORY = _least("MEMORY", lambda node: node.memory_mib)
_WEIGHT = _least("WEIGHT", lambda node: node.weight)
_SOCKETS = _least("SOCKETS", lambda node: geometry(node)[0])
_CORES = _least("CORES", lambda node: geometry(node)[1])
_THREADS = _least("THREADS", lambda node: geometry(node)[2])
_SCT = NodeField("S:C:T", _sct, exact_likeness=lambda view: geometry(view.node))
_REASON = _of_node("REASON", lambda node: node.reason or "none", "none")
_USER = _of_node("USER", _reason_user, "Unknown")
_USER_LONG = _of_node("USER", _reason_user_long, "Unknown")
_TIMESTAMP = _of_node("TIMESTAMP", _reason_time, "Unknown")
_GRES = _of_node("GRES", lambda node: gres_text(node.gpus), NULL)
_HOST_NAMES = _names("HOSTNAMES", host_name)
_ADDRESSES = _names("NODE_ADDR", address)
_STATE_COMPACT = _of_state("STATE", lambda state: state.compact)
_STATE_LONG = _of_state("STATE", lambda state: state.long)
_VERSION = _of_node("VERSION", lambda node: node.facts.version or NULL, NULL)
_TIME = NodeField(
    "TIMELIMIT",
    lambda group: _limit_text(group.partition.max_time_s),
    lambda group: _NO_LIMIT if group.partition.max_time_s is None else group.partition.max_time_s,
    partition_likeness=lambda partition: partition.max_time_s,
)
_DEFAULT_TIME = _of_partition("DEFAULTTIME", _default_time)
_GROUPS = _of_partition("GROUPS", lambda partition: "all")
_ALLOC_NODES = _of_partition("ALLOCNODES", lambda partition: "all")
_OVERSUBSCRIBE = _of_partition("OVERSUBSCRIBE", lambda partition: "NO")
_MAX_CPUS = _of_partition("MAX_CPUS_PER_NODE", lambda partition: "UNLIMITED")
_JOB_FACTOR = _of_partition("PRIO_JOB_FACTOR", lambda partition: str(partition.priority_job_factor))
_TIER = _of_partition("PRIO_TIER", lambda partition: str(partition.priority_tier))
_PREEMPT = _of_partition("PREEMPT_MODE", lambda partition: partition.preempt_mode.upper())
_ROOT = _of_partition("ROOT", lambda partition: "no")
_SIZE = _of_partition("JOB_SIZE", _job_size)
_CLUSTER = _of_partition("CLUSTER", lambda partition: "N/A")

#: In the order in which ``%all`` shows them.
LETTERS: dict[str, NodeField] = {
    "a": _AVAIL,
    "b": _ACTIVE_FEATURES,
    "c": _CPUS,
    "d": _DISK,
    "e": _FREE_MEMORY,
    "f": _FEATURES,
    "g": _GROUPS,
    "h": _OVERSUBSCRIBE,
    "l": _TIME,
    "m": _MEMORY,
    "n": _HOST_NAMES,
    "o": _ADDRESSES,
    "p": _TIER,
    "r": _ROOT,
    "s": _SIZE,
    "t": _STATE_COMPACT,
    "u": _USER,
    "v": _VERSION,
    "w": _WEIGHT,
    "z": _SCT,
    "A": _NODES_AI,
    "B": _MAX_CPUS,
    "C": _CPUS_AIOT,
    "D": _NODES,
    "E": _REASON,
    "F": _NODES_AIOT,
    "G": _GRES,
    "H": _TIMESTAMP,
    "I": _JOB_FACTOR,
    "L": _DEFAULT_TIME,
    "M": _PREEMPT,
    "N": _NODE_LIST,
    "O": _CPU_LOAD,
    "P": _PARTITION,
    "R": _PARTITION_NAME,
    "S": _ALLOC_NODES,
    "T": _STATE_LONG,
    "U": _USER_LONG,
    "V": _CLUSTER,
    "X": _SOCKETS,
    "Y": _CORES,
    "Z": _THREADS,
}

NAMES: dict[str, NodeField] = {
    "allocmem": _least("ALLOCMEM", lambda node: node.memory_used_mib),
    "allocnodes": _ALLOC_NODES,
    "available": _AVAIL,
    "cluster": _CLUSTER,
    "comment": _of_node("COMMENT", lambda node: NULL, NULL),
    "cores": _CORES,
    "cpus": _CPUS,
    "cpusload": _CPU_LOAD,
    "cpusstate": _CPUS_AIOT,
    "defaulttime": _DEFAULT_TIME,
    "disk": _DISK,
    "extra": _of_node("EXTRA", lambda node: NULL, NULL),
    "features": _FEATURES,
    "features_act": _ACTIVE_FEATURES,
    "freemem": _FREE_MEMORY,
    "gres": _GRES,
    "gresused": _of_node("GRES_USED", gres_used_text, NULL),
    "groups": _GROUPS,
    "maxcpuspernode": _MAX_CPUS,
    "memory": _MEMORY,
    "nodeaddr": _ADDRESSES,
    "nodeai": _NODES_AI,
    "nodeaiot": _NODES_AIOT,
    "nodehost": _HOST_NAMES,
    "nodelist": _NODE_LIST,
    "nodes": _NODES,
    "oversubscribe": _OVERSUBSCRIBE,
    "partition": _PARTITION,
    "partitionname": _PARTITION_NAME,
    "port": _least("PORT", lambda node: node.facts.step_port),
    "preemptmode": _PREEMPT,
    "priority": _TIER,
    "priorityjobfactor": _JOB_FACTOR,
    "prioritytier": _TIER,
    "reason": _REASON,
    "root": _ROOT,
    "share": _OVERSUBSCRIBE,
    "size": _SIZE,
    "socketcorethread": _SCT,
    "sockets": _SOCKETS,
    "statecompact": _STATE_COMPACT,
    "statecomplete": _of_state("STATECOMPLETE", lambda state: state.complete),
    "statelong": _STATE_LONG,
    "threads": _THREADS,
    "time": _TIME,
    "timestamp": _TIMESTAMP,
    "user": _USER,
    "userlong": _USER_LONG,
    "version": _VERSION,
    "weight": _WEIGHT,
}


def node_name_likeness(view: NodeView) -> str:
    """Every node for itself (sinfo -N)."""
    return view.node.name
