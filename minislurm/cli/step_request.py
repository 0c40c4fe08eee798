"""From srun's options to the step that is asked of the controller."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from minislurm.cli.job_options import JobOptions
from minislurm.cli.option_values import parse_gpus, parse_gres
from minislurm.cli.resource_request import node_names
from minislurm.domain.errors import UsageError
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job
from minislurm.domain.views import StepRequest

if TYPE_CHECKING:
    from minislurm.cli.srun import StepOptions


def name_of(program: str) -> str:
    return os.path.basename(program) or program


def step_request(
    job_id: JobId, values: StepOptions, program: str, warn: Callable[[str], None]
) -> StepRequest:
    """A step inside a job. Without a number of tasks each node of the step gets one."""
    nodes = values.nodes.minimum if values.nodes is not None else None
    node_list = node_names(values.nodelist)
    tasks, tasks_per_node = values.ntasks, values.ntasks_per_node
    if nodes is None and node_list:
        nodes = len(node_list)
    if nodes is not None and tasks is not None and tasks < nodes:
        warn(f"can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}")
        nodes = tasks
    return StepRequest(
        job_id=job_id,
        name=values.given.job_name or name_of(program),
        nodes=nodes,
        tasks=tasks,
        tasks_per_node=tasks_per_node,
        cpus_per_task=_cpus_per_task(values),
        node_list=node_list,
        excluded_nodes=node_names(values.exclude),
        time_limit_s=values.given.time or None,
    )


def _cpus_per_task(values: StepOptions) -> int | None:
    """The job's SLURM_CPUS_PER_TASK, which srun inherits, sized the job and does not size its steps."""
    if values.given.cpus_per_task is None and "SRUN_CPUS_PER_TASK" not in os.environ:
        return None
    return values.cpus_per_task


def whole_job(job: Job, values: StepOptions, program: str) -> StepRequest:
    """The step of a job that srun made for it: all nodes, and the tasks the job was sized for."""
    return StepRequest(
        job_id=job.id,
        name=values.job_name or name_of(program),
        nodes=len(job.allocation),
        tasks=sum(part.tasks for part in job.allocation),
        tasks_per_node=values.ntasks_per_node,
        cpus_per_task=values.cpus_per_task,
    )


#: Options that in Slurm give a step less than its job has. Here a step has all of it.
_NARROWING = (
    "gres", "gpus", "gpus_per_node", "gpus_per_task", "cpus_per_gpu", "mem", "mem_per_cpu", "mem_per_gpu",
    "exclusive", "constraint", "mincpus", "reservation", "licenses", "topology", "switches", "segment",
    "spread_job",
)  # fmt: skip


def needs_job(given: JobOptions) -> bool:
    """Must the job be known to tell whether the options hold?"""
    return any(getattr(given, name) for name in _NARROWING)


def check_resources(given: JobOptions, job: Job) -> None:
    """Raises UsageError, by name, for an option that would give the step less than the whole job.

    Those that ask for just what the job has on every node are met, and pass.
    """
    for name in _NARROWING:
        if getattr(given, name) and not _is_met(name, given, job):
            option = name.replace("_", "-")
            raise UsageError(
                f"--{option} inside a job is not supported by minislurm: a step has all that its job has"
            )


def _is_met(name: str, given: JobOptions, job: Job) -> bool:
    gpus = [part.gpu_count for part in job.allocation]
    if job.request.gpu_share_milli and name in ("gres", "gpus", "gpus_per_node", "gpus_per_task"):
        return bool(getattr(given, name) == getattr(job.spec, name))
    match name:
        case "gres":
            groups = parse_gres(given.gres or "")
            return all(count == sum(group.count for group in groups) for count in gpus)
        case "gpus_per_node":
            return all(count == parse_gpus(given.gpus_per_node or "0").count for count in gpus)
        case "gpus":
            return parse_gpus(given.gpus or "0").count == sum(gpus)
        case "mem":
            return all(part.memory_mib == given.mem for part in job.allocation)
        case "constraint":
            return given.constraint == job.spec.constraint
        case "topology":
            return given.topology is not None and given.topology.level == job.request.topology_level
        case "switches":
            return given.switches is not None and given.switches.count == job.spec.request.switches
        case "segment":
            return given.segment == job.request.segment
        case "spread_job":
            return job.request.spread
        case "mincpus":
            return all(part.cpu_count >= (given.mincpus or 0) for part in job.allocation)
    return bool(getattr(given, name) == getattr(job.spec, _SPEC_FIELDS.get(name, name)))


#: Where the job's specification calls an option otherwise. Exclusive use of CPUs by a step is never met.
_SPEC_FIELDS = {
    "mem_per_cpu": "memory_per_cpu_mib", "mem_per_gpu": "memory_per_gpu_mib", "exclusive": "is_batch",
}  # fmt: skip
