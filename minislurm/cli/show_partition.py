"""`scontrol show partition`."""

from __future__ import annotations

from minislurm.cli.record import record_text
from minislurm.cli.resource_text import tres_text
from minislurm.domain.hostlist import compress, natural_key
from minislurm.domain.times import format_duration_long
from minislurm.domain.views import PartitionView


def partition_text(partition: PartitionView, *, one_line: bool = False) -> str:
    return record_text(_lines(partition), one_line=one_line)


def _lines(partition: PartitionView) -> list[str]:
    tres = tres_text(
        partition.total_cpus,
        partition.total_memory_mib,
        len(partition.nodes),
        partition.total_gpus,
        gpus_by_type=partition.gpus_by_type,
    )
    return [
        f"PartitionName={partition.name}",
        f"AllowGroups={_names(partition.allow_groups)} "
        f"{_access('Accounts', partition.allow_accounts, partition.deny_accounts)} "
        f"{_access('Qos', partition.allow_qos, partition.deny_qos)}",
        f"AllocNodes=ALL Default={'YES' if partition.default else 'NO'} QoS={partition.qos or 'N/A'}",
        f"DefaultTime={_default_time(partition)} DisableRootJobs=NO ExclusiveUser=NO "
        f"GraceTime={_grace(partition)} Hidden=NO",
        f"MaxNodes={'UNLIMITED' if partition.max_nodes is None else partition.max_nodes} "
        f"MaxTime={format_duration_long(partition.max_time_s)} MinNodes={_min_nodes(partition)} LLN=NO "
        f"MaxCPUsPerNode=UNLIMITED",
        f"Nodes={compress(sorted(partition.nodes, key=natural_key))}",
        f"PriorityJobFactor={partition.priority_job_factor} PriorityTier={partition.priority_tier} "
        f"RootOnly=NO ReqResv=NO OverSubscribe=NO",
        f"OverTimeLimit=NONE PreemptMode={partition.preempt_mode.upper()}",
        f"State={partition.state} TotalCPUs={partition.total_cpus} TotalNodes={len(partition.nodes)} "
        f"SelectTypeParameters=NONE",
        "JobDefaults=(null)",
        f"{_default_memory(partition)} MaxMemPerNode=UNLIMITED",
        f"TRES={tres}",
        *_priority_range(partition),
    ]


def _priority_range(partition: PartitionView) -> list[str]:
    """minislurm's own line, where there is a range."""
    lowest, highest = partition.min_priority, partition.max_priority
    if lowest is None and highest is None:
        return []
    shown = ["NONE" if value is None else str(value) for value in (lowest, highest)]
    return [f"MinPriority={shown[0]} MaxPriority={shown[1]}"]


def _access(what: str, allowed: tuple[str, ...], denied: tuple[str, ...]) -> str:
    """Slurm shows the list of the denied where there is no other."""
    return f"Deny{what}={','.join(denied)}" if denied and not allowed else f"Allow{what}={_names(allowed)}"


def _names(allowed: tuple[str, ...]) -> str:
    return ",".join(allowed) or "ALL"


def _default_time(partition: PartitionView) -> str:
    return "NONE" if partition.default_time_s is None else format_duration_long(partition.default_time_s)


def _grace(partition: PartitionView) -> str:
    """Where nobody gives way there is none, as Slurm has it."""
    return f"{partition.preempt_grace_s if partition.preempt_mode != 'off' else 0:g}"


def _min_nodes(partition: PartitionView) -> int:
    """Slurm calls no minimum 0."""
    return partition.min_nodes if partition.min_nodes > 1 else 0


def _default_memory(partition: PartitionView) -> str:
    amount = partition.default_memory_per_cpu_mib
    return f"DefMemPerCPU={amount}" if amount else "DefMemPerNode=UNLIMITED"
