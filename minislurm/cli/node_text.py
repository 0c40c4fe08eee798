"""What sinfo and `scontrol show node` both say of a node."""

from __future__ import annotations

import pwd

from minislurm.cli.resource_text import NULL
from minislurm.domain.node import Node


def geometry(node: Node) -> tuple[int, int, int]:
    """Sockets, cores per socket, threads per core. They multiply to the node's CPUs, declared or found."""
    facts = node.facts
    found = (facts.sockets, facts.cores_per_socket, facts.threads_per_core)
    if found[0] * found[1] * found[2] == node.cpus:
        return found
    return (1, node.cpus, 1)


def features_text(node: Node) -> str:
    return ",".join(node.spec.features) or NULL


def host_name(node: Node) -> str:
    return node.facts.host_name or node.name


def address(node: Node) -> str:
    return node.spec.address or node.facts.address or node.name


def cpu_load_text(node: Node) -> str:
    return f"{node.cpu_load:.2f}" if _has_registered(node) else "N/A"


def free_memory_text(node: Node) -> str:
    return str(node.free_memory_mib) if _has_registered(node) else "N/A"


def user_text(user_id: int) -> str:
    """The name on this host; else the number."""
    try:
        return pwd.getpwuid(user_id).pw_name
    except (KeyError, OverflowError):
        return str(user_id)


def _has_registered(node: Node) -> bool:
    return bool(node.facts.cpus)
