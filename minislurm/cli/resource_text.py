"""Resources in Slurm's notation: ``cpu=8,mem=62.50G,node=2,billing=8,gres/gpu=4``, ``gpu:2(IDX:0-1)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minislurm.domain.arrays import format_tasks
from minislurm.domain.ids import indexes_of
from minislurm.domain.job import JobSpec
from minislurm.domain.memory import format_memory
from minislurm.domain.node import Node
from minislurm.domain.resources import GpuGroup, NodeAllocation, ResourceRequest

NULL = "(null)"


def tres_text(
    cpus: int,
    memory_mib: int,
    nodes: int | None,
    gpus: float,
    *,
    gpus_by_type: Mapping[str, float] | None = None,
    billing: bool = True,
) -> str:
    """Trackable resources; what is 0 is left out, `nodes` None too."""
    parts = [f"cpu={cpus}"] if cpus else []
    if memory_mib:
        parts.append(f"mem={format_memory(memory_mib)}")
    if nodes is not None:
        parts.append(f"node={nodes}")
    if billing and cpus:
        parts.append(f"billing={cpus}")
    if gpus:
        parts.append(f"gres/gpu={gpus_text(gpus)}")
    for name, count in sorted((gpus_by_type or {}).items()):
        if name and count and "|" not in name:
            parts.append(f"gres/gpu:{name}={gpus_text(count)}")
    return ",".join(parts)


def gpus_text(gpus: float) -> str:
    """``2``, ``0.5``."""
    return f"{gpus:.10g}"


def allocation_tres(allocation: Sequence[NodeAllocation], gpu_type: str) -> str:
    """TRES of a run. `gpu_type` "": the job asked for GPUs of any type."""
    gpus = sum(part.gpu_milli for part in allocation) / 1000
    return tres_text(
        sum(part.cpu_count for part in allocation),
        sum(part.memory_mib for part in allocation),
        len(allocation),
        gpus,
        gpus_by_type={gpu_type: gpus},
    )


def request_tres(request: ResourceRequest) -> str:
    """TRES that a pending job will get at least."""
    nodes, cpus = request_nodes(request), request_cpus(request)
    gpus: float = request_gpus(request)
    if request.gpu_share_milli:
        gpus = request.gpu_share_milli * (nodes if request.gpu_share_of_node else request.tasks) / 1000
    by_type = {request.gpu_type: gpus}
    return tres_text(cpus, request_memory(request), nodes, gpus, gpus_by_type=by_type)


def request_nodes(request: ResourceRequest) -> int:
    """The fewest nodes that the request's own numbers allow."""
    if request.tasks_per_node:
        return max(request.nodes_min, -(-request.tasks // request.tasks_per_node))
    return request.nodes_min


def request_cpus(request: ResourceRequest) -> int:
    nodes = request_nodes(request)
    return max(max(request.tasks, nodes) * request.cpus_per_task, nodes * request.cpus_per_node_min)


def request_gpus(request: ResourceRequest) -> int:
    return max(
        request.gpus_total,
        request.gpus_per_node * request_nodes(request),
        request.gpus_per_task * request.tasks,
    )


def request_memory(request: ResourceRequest) -> int:
    return max(
        request.memory_per_node_mib * request_nodes(request),
        request.memory_per_cpu_mib * request_cpus(request),
        request.memory_per_gpu_mib * request_gpus(request),
    )


def min_cpus_per_node(request: ResourceRequest) -> int:
    """MinCPUsNode: what every node must at least have free."""
    return max(request.cpus_per_task * max(request.tasks_per_node, 1), request.cpus_per_node_min)


def min_memory(request: ResourceRequest) -> int:
    """squeue's MIN_MEMORY: per node, or per CPU where the job asked that way."""
    return request.memory_per_node_mib or request.memory_per_cpu_mib


def memory_text(mib: int, *, convert: bool = True) -> str:
    """`convert` False (--noconvert): always in M."""
    return format_memory(mib) if convert or not mib else f"{mib}M"


def index_list(bitmap: int) -> str:
    """``0-3,6``; "" for none."""
    return format_tasks(indexes_of(bitmap))


def gpu_name(gpu_type: str) -> str:
    """Of alternatives ("a100|h100") it is not known here which one it was."""
    return f"gpu:{gpu_type}" if gpu_type and "|" not in gpu_type else "gpu"


def gres_text(groups: Sequence[GpuGroup]) -> str:
    """``gpu:8``, ``gpu:a100:4,gpu:h100:4``, "(null)"."""
    return ",".join(f"{gpu_name(group.type)}:{group.count}" for group in groups if group.count) or NULL


def gres_used_text(node: Node) -> str:
    """``gpu:2(IDX:0-1)``, ``gpu:0(IDX:N/A)``, ``gpu:1(IDX:3),share:0.5(IDX:3)``; without GPUs "(null)"."""
    parts, first = [], 0
    for group in node.gpus:
        used = node.gpus_used & (((1 << group.count) - 1) << first)
        first += group.count
        parts.append(f"{gpu_name(group.type)}:{used.bit_count()}(IDX:{index_list(used) or 'N/A'})")
    # Of those, the shared ones and how much of each is given away.
    parts += [f"share:{gpus_text(milli / 1000)}(IDX:{gpu})" for gpu, milli in sorted(node.gpu_shares.items())]
    return ",".join(parts) or NULL


def allocated_gres_text(part: NodeAllocation, gpu_type: str) -> str:
    """One node's GPUs of a run; "" for none."""
    if not part.gpus:
        return ""
    return f"{gpu_name(gpu_type)}:{gpus_text(part.gpu_milli / 1000)}(IDX:{index_list(part.gpus)})"


def tres_per_node(spec: JobSpec) -> str:
    """What was asked for each node with --gres or --gpus-per-node, ``gres:gpu:2``; "" for nothing."""
    return _gres_request(spec.gres, spec.gpus_per_node)


def tres_per_job(spec: JobSpec) -> str:
    return _gres_request("", spec.gpus)


def tres_per_task(spec: JobSpec) -> str:
    return _gres_request("", spec.gpus_per_task)


def _gres_request(gres: str, gpus: str) -> str:
    """`gres` is a whole list (gpu:2,…), `gpus` is what follows "gpu:" (2, a100:2)."""
    items = [item for item in gres.split(",") if item]
    items += [f"gpu:{item.strip()}" for item in gpus.split(",") if item.strip()]
    return ",".join(f"gres:{item}" for item in items)
