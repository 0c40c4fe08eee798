"""`scontrol show config`: Slurm's names for what minislurm has, then every key of its own."""

from __future__ import annotations

from minislurm.cluster.state import ClusterState
from minislurm.domain import configuration_text, version
from minislurm.domain.configuration import Configuration
from minislurm.domain.times import format_duration

#: Slurm's words; limits imply associations there, too.
_ENFORCED = {"off": "none", "associations": "associations", "limits": "associations,limits,qos"}


def configuration_values(configuration: Configuration, state: ClusterState, host: str) -> dict[str, str]:
    """Keys as Slurm spells them (tools read ClusterName, MinJobAge, MaxArraySize, ProctrackType,
    SelectTypeParameters, KillWait, SLURM_VERSION, AccountingStorageType …) and "section.key"."""
    return {**_slurm_keys(configuration, state, host), **configuration_text.effective(configuration)}


def _slurm_keys(configuration: Configuration, state: ClusterState, host: str) -> dict[str, str]:
    timers, limits, scheduler = configuration.timers, configuration.limits, configuration.scheduler
    per_cpu = configuration.jobs.default_memory_per_cpu_mib
    return {
        "AccountingStorageEnforce": _ENFORCED[configuration.accounts.enforce],
        "AccountingStorageType": "accounting_storage/none",
        "AuthType": "auth/jwt",
        "ClusterName": configuration.cluster.name,
        "CredType": "cred/jwt",
        "DefMemPerCPU" if per_cpu else "DefMemPerNode": str(per_cpu) if per_cpu else "UNLIMITED",
        "Epilog": configuration.node.epilog or "(null)",
        "FirstJobId": str(limits.first_job_id),
        "GresTypes": "gpu",
        "JobFileAppend": "0",
        "JobRequeue": "1" if configuration.jobs.requeue else "0",
        "KillWait": _seconds(timers.kill_wait_s),
        "Licenses": ",".join(f"{item.name}:{item.count}" for item in configuration.licenses) or "(null)",
        "MaxArraySize": str(limits.max_array_size),
        "MaxJobCount": str(limits.max_job_count),
        "MaxStepCount": str(limits.max_step_count),
        "MinJobAge": _seconds(timers.min_job_age_s),
        "MpiDefault": "none",
        "PreemptExemptTime": format_duration(configuration.preemption.exempt_s),
        "PreemptMode": configuration.preemption.mode.upper(),
        "PreemptType": f"preempt/{'partition_prio' if _preempts(configuration) else 'none'}",
        "PriorityDecayHalfLife": format_duration(configuration.accounts.decay_half_life_s),
        "PriorityMaxAge": _seconds(scheduler.priority_max_age_s),
        "PriorityType": "priority/multifactor",
        "PriorityWeightAge": str(scheduler.priority_weight_age),
        "PriorityWeightAssoc": str(scheduler.priority_weight_association),
        "PriorityWeightFairShare": str(scheduler.priority_weight_fair_share),
        "PriorityWeightQOS": str(scheduler.priority_weight_qos),
        "PriorityWeightJobSize": str(scheduler.priority_weight_job_size),
        "PriorityWeightPartition": str(scheduler.priority_weight_partition),
        "ProctrackType": f"proctrack/{configuration.node.tracking}",
        "Prolog": configuration.node.prolog or "(null)",
        "ReturnToService": "2",
        "SchedulerType": "sched/backfill" if scheduler.backfill != "off" else "sched/builtin",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CORE_MEMORY",
        "SLURM_CONF": configuration.path or "(null)",
        "SLURM_VERSION": version.SLURM_VERSION,
        "SlurmctldHost[0]": f"{host}({configuration.cluster.controller_host})",
        "SlurmctldPort": str(configuration.cluster.controller_port),
        "SlurmdTimeout": _seconds(timers.node_timeout_s),
        "SlurmdSpoolDir": configuration.node.spool_dir.replace("{node}", "%n"),
        "StateSaveLocation": configuration.cluster.state_dir,
        "TopologyPlugin": "topology/tree" if state.topology.domains else "topology/none",
    }


def _preempts(configuration: Configuration) -> bool:
    modes = (partition.preempt_mode for partition in configuration.partitions)
    return any(mode not in ("", "off") for mode in (configuration.preemption.mode, *modes))


def _seconds(value: float) -> str:
    return f"{value:g} sec"
