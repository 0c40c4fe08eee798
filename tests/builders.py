"""Short makers of domain objects, so that a test shows only what matters to it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from minislurm.domain.configuration import Configuration, DomainSpec, Partition
from minislurm.domain.ids import NodeName
from minislurm.domain.job import JobSpec
from minislurm.domain.node import NodeFacts, NodeSpec
from minislurm.domain.resources import GpuGroup, ResourceRequest


def a_node(
    name: str,
    *,
    cpus: int = 8,
    memory_mib: int = 16_000,
    gpus: int = 0,
    gpu_type: str = "",
    features: tuple[str, ...] = (),
    weight: int = 1,
) -> NodeSpec:
    groups = (GpuGroup(gpus, gpu_type),) if gpus else ()
    return NodeSpec(
        NodeName(name),
        cpus=cpus,
        memory_mib=memory_mib,
        gpus=groups,
        gpus_declared=True,
        features=features,
        weight=weight,
    )


def facts(**changes: Any) -> NodeFacts:
    return replace(
        NodeFacts(cpus=8, memory_mib=16_000, host_name="host", address="127.0.0.1", step_port=1), **changes
    )


def a_request(nodes: int = 1, **changes: Any) -> ResourceRequest:
    """`nodes` nodes with one single-CPU task each, unless `changes` say otherwise."""
    base = ResourceRequest(nodes_min=nodes, nodes_max=nodes, tasks=nodes, cpus_per_task=1)
    return replace(base, **changes)


def a_spec(
    name: str = "job",
    *,
    request: ResourceRequest | None = None,
    user_id: int = 1000,
    partition: str = "batch",
    **changes: Any,
) -> JobSpec:
    base = JobSpec(
        name=name,
        user_id=user_id,
        group_id=user_id,
        user_name=f"user{user_id}",
        group_name=f"group{user_id}",
        partition=partition,
        work_dir="/tmp",
        request=request or a_request(),
        is_batch=True,
        script_hash="0" * 64,
    )
    return replace(base, **changes)


def a_configuration(
    nodes: int = 4, *, cpus: int = 8, gpus: int = 0, racks: int = 0, memory_mib: int = 16_000, **sections: Any
) -> Configuration:
    """Nodes n1…, one partition "batch" over them, `racks` equal racks r1…"""
    specs = tuple(a_node(f"n{i}", cpus=cpus, gpus=gpus, memory_mib=memory_mib) for i in range(1, nodes + 1))
    names = tuple(spec.name for spec in specs)
    topology: tuple[DomainSpec, ...] = ()
    if racks:
        size = -(-nodes // racks)
        topology = tuple(
            DomainSpec(f"r{k + 1}", "rack", "", names[k * size : (k + 1) * size]) for k in range(racks)
        )
    partition = Partition("batch", nodes=names, default=True)
    return replace(Configuration(nodes=specs, partitions=(partition,), topology=topology), **sections)
