"""Slurm's resource options, read together: how many nodes, tasks, CPUs and GPUs they come to."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct

from minislurm.cli.job_options import JobOptions
from minislurm.cli.option_values import (
    GpuPart,
    SwitchCount,
    parse_gpu_part,
    parse_gpus,
    parse_gres,
    parse_shards,
)
from minislurm.domain.errors import Refusal, RefusalCode, UsageError
from minislurm.domain.hostlist import expand
from minislurm.domain.ids import NodeName
from minislurm.domain.reservation import LicenseCount, parse_licenses
from minislurm.domain.resources import GpuGroup, ResourceRequest

Warn = Callable[[str], None]


class Resources(Struct, frozen=True):
    request: ResourceRequest
    #: As the job's environment shows them: None where neither given nor implied by what was given.
    tasks: int | None
    tasks_per_node: int | None


class _Gpus(Struct):
    """How many, in the ways they can be asked for; 0: not that way."""

    per_node: int = 0
    per_task: int = 0
    total: int = 0
    type: str = ""
    #: Or a share of one GPU, in thousandths: of each task, or of all tasks of a node together.
    share_milli: int = 0
    share_of_node: bool = False


class _Shape(Struct):
    """Nodes and tasks while they are worked out. `nodes_max` 0: as few nodes as it takes."""

    nodes_min: int
    nodes_max: int
    nodes_given: bool
    tasks: int | None
    tasks_per_node: int | None

    @property
    def fixed_nodes(self) -> int | None:
        return self.nodes_min if self.nodes_max == self.nodes_min else None


def resources_of(options: JobOptions, warn: Warn, shards_per_gpu: int = 0) -> Resources:
    """Raises UsageError for options that contradict each other and Refusal for bad node names and counts.

    `shards_per_gpu`: as configured; 0: there are no shards.
    """
    required, excluded = node_names(options.nodelist), node_names(options.exclude)
    gpus = _share_of(options, shards_per_gpu) or _gpus_of(options)
    shape = _shape_of(options, required, warn)
    if gpus.share_milli and options.gpus is not None:
        _fix_nodes(shape, 1)
    _settle_gpus(gpus, shape)
    _check_memory(options, gpus)
    cpus_per_task, cpus_per_node = _cpus(options, gpus, shape)
    if shape.tasks is not None:
        tasks = shape.tasks
    else:
        tasks = (shape.tasks_per_node or 1) * shape.nodes_min
    switches = options.switches or SwitchCount(0)
    if switches.wait_s == 0.0:
        switches = SwitchCount(0)  # not worth any wait
    request = ResourceRequest(
        nodes_min=shape.nodes_min,
        nodes_max=shape.nodes_max,
        tasks=tasks,
        tasks_per_node=shape.tasks_per_node or 0,
        cpus_per_task=cpus_per_task,
        cpus_per_node_min=max(cpus_per_node, options.mincpus or 0),
        memory_per_node_mib=options.mem or 0,
        memory_per_cpu_mib=options.mem_per_cpu or 0,
        memory_per_gpu_mib=options.mem_per_gpu or 0,
        gpus_per_node=gpus.per_node,
        gpus_per_task=gpus.per_task,
        gpus_total=gpus.total,
        gpu_type=gpus.type,
        exclusive=options.exclusive == "node",
        required_nodes=required,
        excluded_nodes=excluded,
        features=options.constraint,
        reservation=options.reservation,
        licenses=_licenses(options.licenses),
        exclusive_user=os.getuid() if options.exclusive == "user" else None,
        topology_level=options.topology.level if options.topology else "",
        topology_required=options.topology is not None and options.topology.required,
        switches=switches.count,
        switches_wait_s=switches.wait_s or 0.0,
        segment=options.segment or 0,
        spread=options.spread_job,
        tasks_follow_nodes=shape.tasks is None and 0 < shape.nodes_min < shape.nodes_max,
        nodes_step=_step(options),
        gpu_share_milli=gpus.share_milli,
        gpu_share_of_node=gpus.share_of_node,
        gpu_memory_min_mib=options.gpu_memory_min or 0,
        gpu_capability_min=options.gpu_capability_min or "",
    )
    return Resources(request, shape.tasks, shape.tasks_per_node)


def node_names(text: str) -> tuple[NodeName, ...]:
    """A hostlist, or with a slash the name of a file that holds one. Raises Refusal."""
    try:
        if "/" in text:
            with open(text, encoding="utf-8") as file:
                text = ",".join(file.read().split())
        return tuple(NodeName(name) for name in dict.fromkeys(expand(text)))
    except (OSError, ValueError) as error:
        raise Refusal(RefusalCode.INVALID_NODE_NAME) from error


def _step(options: JobOptions) -> int:
    for name in ("elastic_step", "elastic_signal"):
        if getattr(options, name) is not None and not options.elastic:
            raise UsageError(f"--{name.replace('_', '-')} needs --elastic")
    return options.elastic_step or 0


def _licenses(text: str) -> tuple[LicenseCount, ...]:
    try:
        return parse_licenses(text) if text else ()
    except ValueError as error:
        raise Refusal(RefusalCode.INVALID_LICENSES) from error


def _shape_of(options: JobOptions, required: tuple[NodeName, ...], warn: Warn) -> _Shape:
    tasks, tasks_per_node = options.ntasks, options.ntasks_per_node
    if options.nodes is None:
        least = -(-tasks // tasks_per_node) if tasks is not None and tasks_per_node is not None else 1
        # Naming three nodes without saying how many means these three.
        nodes_min = max(least, len(required))
        nodes_max = len(required) if required and tasks is None else 0
        return _Shape(nodes_min, nodes_max, False, tasks, tasks_per_node)
    nodes_min, nodes_max = options.nodes.minimum, options.nodes.maximum
    if nodes_max < 1 or nodes_max < len(required):
        raise Refusal(RefusalCode.INVALID_NODE_COUNT)
    nodes_min = max(nodes_min, len(required))
    if tasks is not None and tasks < nodes_min:
        warn(f"can't run {tasks} processes on {nodes_min} nodes, setting nnodes to {tasks}")
        nodes_min, nodes_max = max(tasks, len(required)), max(tasks, len(required))
    if tasks is not None and tasks_per_node is not None and tasks > tasks_per_node * nodes_max:
        warn(
            f"can't honor --ntasks-per-node set to {tasks_per_node} which doesn't match the requested tasks "
            f"{tasks} with the maximum number of requested nodes {nodes_max}. Ignoring --ntasks-per-node."
        )
        tasks_per_node = None
    return _Shape(nodes_min, nodes_max, True, tasks, tasks_per_node)


def _share_of(options: JobOptions, shards_per_gpu: int) -> _Gpus | None:
    """A part of one GPU, where that is what is asked for."""
    asked: dict[str, GpuPart] = {}
    for name in ("gpus", "gpus_per_node", "gpus_per_task"):
        part = parse_gpu_part(getattr(options, name) or "")
        if part is not None:
            asked[name] = part
    shards = parse_shards(options.gres) if options.gres is not None else None
    if shards is not None and shards.shards:
        asked["gres"] = shards
    if not asked:
        return None
    names = ("gpus", "gpus_per_node", "gpus_per_task", "gres", "cpus_per_gpu", "mem_per_gpu", "exclusive")
    others = [name.replace("_", "-") for name in names if getattr(options, name) and name not in asked]
    if len(asked) > 1 or others:
        other = others[0] if others else list(asked)[1].replace("_", "-")
        raise UsageError(f"a part of a GPU cannot be combined with --{other}")
    if "gpus_per_task" in asked and options.ntasks is None and options.ntasks_per_node is None:
        raise UsageError("--gpus-per-task used without either --gpus or -n/--ntasks is not allowed.")
    ((name, part),) = asked.items()
    milli = part.milli or _milli_of_shards(part.shards, shards_per_gpu)
    if milli == 1000:
        return _Gpus(per_node=1, type=part.type)
    return _Gpus(type=part.type, share_milli=milli, share_of_node=name != "gpus_per_task")


def _milli_of_shards(shards: int, shards_per_gpu: int) -> int:
    """Rounded down, so that all shards of a GPU fit on it."""
    if not shards_per_gpu:
        raise UsageError("GPUs have no shards here ([jobs] shards_per_gpu is 0); ask for a part: --gpus=0.5")
    if shards > shards_per_gpu:
        raise UsageError(
            f"--gres=shard:{shards}: a job gets shards of one GPU only, and a GPU has {shards_per_gpu}"
        )
    return shards * 1000 // shards_per_gpu


def _gpus_of(options: JobOptions) -> _Gpus:
    gpus = _Gpus()
    types: set[str] = set()

    def add(group: GpuGroup) -> int:
        if group.count:
            types.add(group.type)
        return group.count

    if options.gres is not None:
        gpus.per_node = sum(add(group) for group in parse_gres(options.gres))
    if options.gpus_per_node is not None:
        per_node = add(parse_gpus(options.gpus_per_node))
        if options.gres is not None and gpus.per_node and per_node != gpus.per_node:
            raise UsageError("--gres and --gpus-per-node do not agree")
        gpus.per_node = per_node
    if options.gpus_per_task is not None:
        gpus.per_task = add(parse_gpus(options.gpus_per_task))
    if options.gpus is not None:
        gpus.total = add(parse_gpus(options.gpus))
    named = types - {""}
    if len(named) > 1 or (options.gres is not None and len(types) > 1 and "," in options.gres):
        raise UsageError("several types of GPU in one job are not supported by minislurm")
    gpus.type = named.pop() if named else ""
    return gpus


def _settle_gpus(gpus: _Gpus, shape: _Shape) -> None:
    """Leaves GPUs asked for in one way only; the other ways become numbers of nodes and tasks."""
    tasks_given = shape.tasks is not None or shape.tasks_per_node is not None
    if gpus.per_task and not (gpus.total or gpus.per_node or tasks_given):
        raise UsageError("--gpus-per-task used without either --gpus or -n/--ntasks is not allowed.")
    if gpus.total and gpus.per_node:
        _fix_nodes(shape, _whole(gpus.total, gpus.per_node, "--gpus", "--gpus-per-node"))
        gpus.total = 0
    if gpus.total and gpus.per_task:
        tasks = _whole(gpus.total, gpus.per_task, "--gpus", "--gpus-per-task")
        if shape.tasks is not None and shape.tasks != tasks:
            raise UsageError("--gpus, --gpus-per-task and --ntasks do not agree")
        if shape.nodes_given and shape.nodes_min > tasks:
            raise UsageError("--gpus, --gpus-per-task and --nodes do not agree")
        shape.tasks = tasks
        gpus.total = 0
    if gpus.per_node and gpus.per_task:
        most = _whole(gpus.per_node, gpus.per_task, "--gpus-per-node", "--gpus-per-task")
        if (shape.tasks_per_node or 0) > most:
            raise UsageError("--gpus-per-node, --gpus-per-task and --ntasks-per-node do not agree")
        shape.tasks_per_node = shape.tasks_per_node or most
        gpus.per_task = 0


def _fix_nodes(shape: _Shape, nodes: int) -> None:
    if shape.nodes_given:
        if not shape.nodes_min <= nodes <= shape.nodes_max:
            raise UsageError("--gpus, --gpus-per-node and --nodes do not agree")
    elif shape.nodes_min > nodes or (shape.tasks is not None and shape.tasks < nodes):
        raise UsageError("--gpus, --gpus-per-node and the number of tasks do not agree")
    shape.nodes_min = shape.nodes_max = nodes


def _whole(amount: int, part: int, amount_name: str, part_name: str) -> int:
    if amount % part:
        raise UsageError(f"{amount_name} is not a multiple of {part_name}")
    return amount // part


def _check_memory(options: JobOptions, gpus: _Gpus) -> None:
    given = [value for value in (options.mem, options.mem_per_cpu, options.mem_per_gpu) if value is not None]
    if len(given) > 1:
        raise UsageError("--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")
    if options.mem_per_gpu is not None and not (gpus.per_node or gpus.per_task or gpus.total):
        raise UsageError("--mem-per-gpu needs GPUs (--gpus, --gpus-per-node, --gpus-per-task or --gres)")


def _cpus(options: JobOptions, gpus: _Gpus, shape: _Shape) -> tuple[int, int]:
    """CPUs for each task, and the least on each node."""
    per_task = options.cpus_per_task or 1
    if options.cpus_per_gpu is None:
        return per_task, 0
    if options.cpus_per_task is not None:
        raise UsageError("--cpus-per-task and --cpus-per-gpu are mutually exclusive.")
    if gpus.per_task:
        return options.cpus_per_gpu * gpus.per_task, 0
    if gpus.per_node:
        return per_task, options.cpus_per_gpu * gpus.per_node
    if not gpus.total:
        raise UsageError("--cpus-per-gpu needs GPUs (--gpus, --gpus-per-node, --gpus-per-task or --gres)")
    nodes = shape.fixed_nodes or (1 if (shape.tasks or 1) == 1 else None)
    if nodes is None:
        raise UsageError("--cpus-per-gpu with --gpus needs a number of nodes (--nodes)")
    return per_task, options.cpus_per_gpu * -(-gpus.total // nodes)
