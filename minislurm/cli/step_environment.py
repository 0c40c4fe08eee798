"""The environment that all tasks of a step share; the node adds what differs between tasks and nodes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from minislurm.domain.hostlist import compress
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.layout import shorten
from minislurm.domain.views import StepGrant

#: Of an outer job or step, and wrong in this one unless they are set anew.
_OF_ANOTHER = (
    "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_TASK_PID", "SLURM_NTASKS_PER_NODE",
    "SLURMD_NODENAME", "SLURM_STEP_GPUS", "SLURM_CPUS_ON_NODE", "SLURM_GPUS_ON_NODE",
)  # fmt: skip


class Launcher(Struct, frozen=True):
    """What tasks are told about the srun that started them."""

    address: str
    port: int
    umask: int
    verbosity: int = 0


def step_environment(
    base: Mapping[bytes, bytes],
    grant: StepGrant,
    launcher: Launcher,
    *,
    cluster: str,
    tasks_per_node: int | None = None,
    step_name: str = "",
    submit_dir: str = "",
) -> tuple[bytes, ...]:
    """ "NAME=value" entries: `base` (what --export let through) and srun's own variables over it.

    `tasks_per_node`: as given to srun; `step_name`: the -J of srun; `submit_dir`: where srun was typed.
    """
    variables = {
        **_of_job(grant.job, grant),
        **_of_step(grant),
        **_of_launcher(launcher),
        "SLURM_CLUSTER_NAME": cluster,
    }
    if tasks_per_node is not None:
        variables["SLURM_NTASKS_PER_NODE"] = str(tasks_per_node)
    if step_name:
        variables["SLURM_JOB_NAME"] = step_name
    merged = {name: value for name, value in base.items() if name.decode(errors="replace") not in _OF_ANOTHER}
    if b"SLURM_SUBMIT_DIR" not in merged:  # else the batch script's submitter's
        variables["SLURM_SUBMIT_DIR"] = submit_dir or grant.job.spec.work_dir
    for name, value in variables.items():
        merged[name.encode()] = value.encode(errors="surrogateescape")
    return tuple(name + b"=" + value for name, value in merged.items())


def _of_job(job: Job, grant: StepGrant) -> dict[str, str]:
    allocation = grant.allocation or job.allocation
    nodes = compress([part.node for part in allocation])
    spec = job.spec
    variables = {
        "SLURM_JOB_ID": str(job.id),
        "SLURM_JOBID": str(job.id),
        "SLURM_JOB_NAME": job.name or spec.name,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(allocation)),
        "SLURM_JOB_CPUS_PER_NODE": shorten([part.cpu_count for part in allocation]),
        "SLURM_JOB_PARTITION": job.partition or spec.partition,
        "SLURM_JOB_UID": str(spec.user_id),
        "SLURM_JOB_GID": str(spec.group_id),
        "SLURM_JOB_USER": spec.user_name,
        "SLURM_SUBMIT_HOST": spec.submit_host,
        "SLURM_JOB_ACCOUNT": spec.account,
        "SLURM_JOB_QOS": spec.qos,
        **_as_given(spec),
    }
    if job.array_task_id is not None:
        variables["SLURM_ARRAY_JOB_ID"] = str(job.array_job_id)
        variables["SLURM_ARRAY_TASK_ID"] = str(job.array_task_id)
    if job.restarts:
        variables["SLURM_RESTART_COUNT"] = str(job.restarts)
    return {name: value for name, value in variables.items() if value}


def _as_given(spec: JobSpec) -> dict[str, str]:
    """Variables that exist only where the option was given."""
    numbers = {
        "SLURM_MEM_PER_NODE": spec.memory_per_node_mib,
        "SLURM_MEM_PER_CPU": spec.memory_per_cpu_mib,
        "SLURM_MEM_PER_GPU": spec.memory_per_gpu_mib,
        "SLURM_CPUS_PER_GPU": spec.cpus_per_gpu,
    }
    return {
        "SLURM_GPUS": spec.gpus,
        "SLURM_GPUS_PER_NODE": spec.gpus_per_node,
        "SLURM_GPUS_PER_TASK": spec.gpus_per_task,
        **{name: str(number) for name, number in numbers.items() if number is not None},
    }


def _of_step(grant: StepGrant) -> dict[str, str]:
    counts = [len(node.tasks) for node in grant.nodes]
    tasks = str(sum(counts))
    per_node = shorten(counts)
    step = str(grant.step_id)
    variables = {
        "SLURM_STEP_ID": step,
        "SLURM_STEPID": step,
        "SLURM_STEP_NODELIST": compress([node.node for node in grant.nodes]),
        "SLURM_STEP_NUM_NODES": str(len(counts)),
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_NNODES": str(len(counts)),
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_DISTRIBUTION": "block",
    }
    if grant.cpus_per_task is not None:
        variables["SLURM_CPUS_PER_TASK"] = str(grant.cpus_per_task)
    return variables


def _of_launcher(launcher: Launcher) -> dict[str, str]:
    return {
        "SLURM_LAUNCH_NODE_IPADDR": launcher.address,
        "SLURM_SRUN_COMM_HOST": launcher.address,
        "SLURM_SRUN_COMM_PORT": str(launcher.port),
        "SLURM_STEP_LAUNCHER_PORT": str(launcher.port),
        "SLURM_UMASK": f"{launcher.umask:04o}",
        "SRUN_DEBUG": str(3 + launcher.verbosity),
    }
