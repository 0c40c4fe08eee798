"""`scontrol show node`."""

from __future__ import annotations

from collections.abc import Iterator

from minislurm.cli.node_state import node_state
from minislurm.cli.node_text import (
    address,
    cpu_load_text,
    features_text,
    free_memory_text,
    geometry,
    host_name,
    user_text,
)
from minislurm.cli.record import record_text
from minislurm.cli.resource_text import gres_text, gres_used_text, tres_text
from minislurm.domain.ids import indexes_of
from minislurm.domain.node import Node
from minislurm.domain.times import format_time
from minislurm.domain.views import NodeView


def node_text(view: NodeView, *, one_line: bool = False, details: bool = False) -> str:
    return record_text(list(_lines(view, details)), one_line=one_line)


def _lines(view: NodeView, details: bool) -> Iterator[str]:
    node, facts = view.node, view.node.facts
    sockets, cores, threads = geometry(node)
    architecture = f" Arch={facts.architecture}" if facts.architecture else ""
    yield f"NodeName={node.name}{architecture} CoresPerSocket={cores} "
    yield (
        f"CPUAlloc={node.cpus_used.bit_count()} CPUEfctv={node.cpus} CPUTot={node.cpus} "
        f"CPULoad={cpu_load_text(node)}"
    )
    yield f"AvailableFeatures={features_text(node)}"
    yield f"ActiveFeatures={features_text(node)}"
    yield f"Gres={gres_text(node.gpus)}"
    if details:
        yield "GresDrain=N/A"
        yield f"GresUsed={gres_used_text(node)}"
    version = f" Version={facts.version}" if facts.version else ""
    yield f"NodeAddr={address(node)} NodeHostName={host_name(node)} Port={facts.step_port}{version}"
    if facts.operating_system:
        yield f"OS={facts.operating_system} "
    yield (
        f"RealMemory={node.memory_mib} AllocMem={node.memory_used_mib} FreeMem={free_memory_text(node)} "
        f"Sockets={sockets} Boards=1"
    )
    state = node_state(view).record
    weight = node.weight
    yield f"State={state} ThreadsPerCore={threads} TmpDisk=0 Weight={weight} Owner=N/A MCS_label=N/A"
    if view.partitions:
        yield f"Partitions={','.join(view.partitions)} "
    yield f"BootTime={_time(facts.boot_time)} SlurmdStartTime={_time(facts.daemon_start_time)}"
    yield f"LastBusyTime={format_time(node.last_busy_time)}"
    yield f"CfgTRES={configured_tres(node)}"
    yield f"AllocTRES={used_tres(node)}"
    yield "CapWatts=n/a"
    yield "CurrentWatts=0 AveWatts=0"
    yield "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s"
    if node.reason:
        yield f"Reason={node.reason} [{user_text(node.reason_user_id)}@{format_time(node.reason_time)}]"


def configured_tres(node: Node) -> str:
    by_type: dict[str, int] = {}
    for group in node.gpus:
        by_type[group.type] = by_type.get(group.type, 0) + group.count
    return tres_text(node.cpus, node.memory_mib, None, node.gpu_count, gpus_by_type=by_type)


def used_tres(node: Node) -> str:
    """What runs hold of it; "" for nothing."""
    by_type: dict[str, float] = {}
    for index in indexes_of(node.gpus_used):
        name = gpu_type_at(node, index)
        by_type[name] = by_type.get(name, 0) + node.gpu_shares.get(index, 1000) / 1000
    return tres_text(
        node.cpus_used.bit_count(),
        node.memory_used_mib,
        None,
        sum(by_type.values()),
        gpus_by_type=by_type,
        billing=False,
    )


def gpu_type_at(node: Node, index: int) -> str:
    for group in node.gpus:
        if index < group.count:
            return group.type
        index -= group.count
    return ""


def _time(t: float) -> str:
    return format_time(t) if t else "None"
