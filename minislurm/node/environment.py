"""The environment of batch scripts and of step tasks, as Slurm makes it. Pure.

Environments are dicts of strings as `os.fsdecode` makes them; `entries` and `parse` convert to and from
"NAME=value". Which variables exist follows slurm-contract and what a real Slurm 22.05 was seen to set.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from minislurm.domain.arrays import ArrayShape
from minislurm.domain.filenames import FilenameFields, fill
from minislurm.domain.hostlist import compress
from minislurm.domain.ids import BATCH_STEP, CHECKPOINT_STEP, StepId, indexes_of
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.layout import shorten
from minislurm.domain.resources import NodeAllocation
from minislurm.node import spool
from minislurm.node.messages import Prepare, RunKey

#: What an enclosing job may have left in the submitter's environment and this job may not set itself.
_OF_OTHER_JOBS = (
    "SLURM_ARRAY_", "SLURM_HET_", "SLURM_STEP", "SLURM_SRUN_", "SLURM_PACK_", "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_QOS", "SLURM_JOB_GPUS", "SLURM_JOB_RESERVATION", "SLURM_JOB_END_TIME", "SLURM_JOB_START_TIME",
    "SLURM_JOB_CONSTRAINTS", "SLURM_GPUS", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_CPUS_PER_",
    "SLURM_MEM_PER_",
    "SLURM_RESTART_COUNT", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_DISTRIBUTION", "SLURM_EXCLUSIVE",
    "SLURM_SHARDS_", "MINISLURM_GPU_SHARE",
    "MINISLURM_RESTART_REASON", "MINISLURM_STEP", "MINISLURM_CHECKPOINT_",
)  # fmt: skip
_GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


class Place(Struct, frozen=True):
    """What every environment made here shares."""

    node: str
    cluster: str
    #: Path for MINISLURM_CONF; "" for none.
    configuration_path: str = ""
    #: The daemon's spool directory: where its checkpoint socket is.
    spool: str = ""


class StepShape(Struct, frozen=True):
    """A step as one of its nodes sees it."""

    step_id: StepId
    node_index: int
    node_count: int
    task_count: int
    node_list: str
    tasks_per_node: str
    #: Global ranks on this node.
    tasks: tuple[int, ...]
    cpus_per_task: int | None = None
    topology_address: str = ""
    topology_pattern: str = ""
    umask: int = 0o022


def parse(entries_given: Iterable[bytes]) -> dict[str, str]:
    """ "NAME=value" entries; what has no "=" is dropped."""
    environment: dict[str, str] = {}
    for entry in entries_given:
        name, equals, value = os.fsdecode(entry).partition("=")
        if equals and name:
            environment[name] = value
    return environment


def entries(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def batch_environment(given: Mapping[str, str], prepare: Prepare, place: Place) -> dict[str, str]:
    """`given`: what the submitter passes on. SLURM_TASK_PID is added at the fork, when it is known.

    sbatch puts SLURM_SUBMIT_DIR into `given`: the specification holds only the working directory.
    """
    job = prepare.job
    environment = {name: value for name, value in given.items() if not _is_of_other_job(name)}
    environment.update(job_environment(prepare, place))
    environment.setdefault("SLURM_SUBMIT_DIR", job.spec.work_dir)
    environment |= {
        "ENVIRONMENT": "BATCH",
        "HOSTNAME": place.node,
        "SLURM_GTIDS": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_PRIO_PROCESS": "0",
        "MINISLURM_STEP": "batch",
    }
    return environment


def _is_of_other_job(name: str) -> bool:
    return name.startswith(_OF_OTHER_JOBS) or "_HET_GROUP_" in name or "_PACK_GROUP_" in name


def task_environments(
    given: Mapping[str, str], prepare: Prepare, shape: StepShape, place: Place
) -> tuple[dict[str, str], list[dict[str, str]]]:
    """(what the step's tasks on this node share, what each has besides). `given`: srun's own environment."""
    shared = dict(given)
    allocation = allocation_of(prepare.job, place.node)
    shared |= {
        "HOSTNAME": place.node,
        "SLURMD_NODENAME": place.node,
        "SLURM_JOB_ID": str(prepare.key.job_id),
        "SLURM_JOBID": str(prepare.key.job_id),
        "SLURM_STEP_ID": str(shape.step_id),
        "SLURM_STEPID": str(shape.step_id),
        "SLURM_STEP_NODELIST": shape.node_list,
        "SLURM_STEP_NUM_NODES": str(shape.node_count),
        "SLURM_STEP_NUM_TASKS": str(shape.task_count),
        "SLURM_STEP_TASKS_PER_NODE": shape.tasks_per_node,
        "SLURM_NODELIST": shape.node_list,
        "SLURM_NNODES": str(shape.node_count),
        "SLURM_NTASKS": str(shape.task_count),
        "SLURM_NPROCS": str(shape.task_count),
        "SLURM_TASKS_PER_NODE": shape.tasks_per_node,
        "SLURM_NODEID": str(shape.node_index),
        "SLURM_GTIDS": ",".join(map(str, shape.tasks)),
        "SLURM_CPUS_ON_NODE": str(allocation.cpu_count),
        "SLURM_UMASK": f"{shape.umask:04o}",
        "SLURM_PRIO_PROCESS": "0",
        "MINISLURM_RUN": str(prepare.key),
        "MINISLURM_STEP": str(shape.step_id),
        **checkpoint_line(prepare, place),
    }
    shared.pop("ENVIRONMENT", None)
    shared.setdefault("SLURM_DISTRIBUTION", "block")
    shared |= _topology(
        shape.topology_address or prepare.topology_address,
        shape.topology_pattern or prepare.topology_pattern,
    )
    if shape.cpus_per_task is not None:
        shared["SLURM_CPUS_PER_TASK"] = str(shape.cpus_per_task)
    if place.configuration_path:
        shared["MINISLURM_CONF"] = place.configuration_path
    shared |= _gpus(allocation) | _share(allocation, prepare.job.spec)
    if allocation.gpu_count:
        shared["SLURM_STEP_GPUS"] = shared["SLURM_JOB_GPUS"]
    tasks = [
        {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local)} for local, rank in enumerate(shape.tasks)
    ]
    return shared, tasks


def job_environment(prepare: Prepare, place: Place) -> dict[str, str]:
    """What any process of the run sees of its job, on this node."""
    job = prepare.job
    spec = job.spec
    node_list = compress([part.node for part in job.allocation])
    allocation = allocation_of(job, place.node)
    environment = {
        "SLURMD_NODENAME": place.node,
        "SLURM_CLUSTER_NAME": place.cluster,
        "SLURM_CPUS_ON_NODE": str(allocation.cpu_count),
        "SLURM_JOBID": str(job.id),
        "SLURM_JOB_CPUS_PER_NODE": shorten([part.cpu_count for part in job.allocation]),
        "SLURM_JOB_GID": str(spec.group_id),
        "SLURM_JOB_ID": str(job.id),
        "SLURM_JOB_NAME": job.name or spec.name,
        "SLURM_JOB_NODELIST": node_list,
        "SLURM_JOB_NUM_NODES": str(len(job.allocation)),
        "SLURM_JOB_PARTITION": job.partition or spec.partition,
        "SLURM_JOB_UID": str(spec.user_id),
        "SLURM_JOB_USER": spec.user_name,
        "SLURM_NNODES": str(len(job.allocation)),
        "SLURM_NODELIST": node_list,
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_SUBMIT_HOST": spec.submit_host,
        "SLURM_TASKS_PER_NODE": shorten([part.tasks for part in job.allocation]),
        "MINISLURM_RUN": str(prepare.key),
    }
    environment |= _topology(prepare.topology_address, prepare.topology_pattern)
    if prepare.controller_address:
        # As in Slurm with its protocol version and a plugin's id, of which tools want the first three.
        environment["SLURM_WORKING_CLUSTER"] = f"{place.cluster}:{prepare.controller_address}:9728:109"
    if place.configuration_path:
        environment["MINISLURM_CONF"] = place.configuration_path
    environment |= _as_given(spec, len(job.allocation))
    if job.request.reservation:
        environment["SLURM_JOB_RESERVATION"] = job.request.reservation
    environment |= _gpus(allocation) | _share(allocation, spec)
    environment |= _array(job, prepare.array) | _components(prepare.components)
    environment |= _times(job)
    if job.restarts:
        environment["SLURM_RESTART_COUNT"] = str(job.restarts)
    if prepare.restart_reason:
        environment["MINISLURM_RESTART_REASON"] = prepare.restart_reason
    if prepare.nodelist_file:
        environment["MINISLURM_NODELIST_FILE"] = prepare.nodelist_file
    return environment | checkpoint_line(prepare, place) | _checkpoints(prepare)


def checkpoint_line(prepare: Prepare, place: Place) -> dict[str, str]:
    """How a process on this node speaks to its daemon of checkpoints."""
    if not place.spool:
        return {}
    return {
        "MINISLURM_CHECKPOINT_SOCKET": f"{place.spool}/{spool.CHECKPOINT_SOCKET}",
        "MINISLURM_CHECKPOINT_REPORTS": spool.reports_directory(place.spool, *prepare.key),
    }


def step_marks(key: RunKey, step: str, place: Place) -> dict[str, str]:
    """Variables that the processes of a step have, and no others on this host: other daemons, of this cluster
    or of another, have runs of the same number."""
    reports = spool.reports_directory(place.spool, *key)
    return {"MINISLURM_RUN": str(key), "MINISLURM_STEP": step, "MINISLURM_CHECKPOINT_REPORTS": reports}


def checkpoint_directory(prepare: Prepare) -> str:
    """The job's --checkpoint-dir, the same on all nodes; "": none."""
    job = prepare.job
    if not job.spec.checkpoint_dir:
        return ""
    names = FilenameFields(
        job_id=job.id,
        user_name=job.spec.user_name,
        job_name=job.name or job.spec.name,
        array_job_id=job.array_job_id if job.array_task_id is not None else 0,
        array_task_id=job.array_task_id,
        node=job.batch_host,
    )
    return os.path.normpath(os.path.join(job.spec.work_dir, fill(job.spec.checkpoint_dir, names)))


def _checkpoints(prepare: Prepare) -> dict[str, str]:
    directory, resume = checkpoint_directory(prepare), prepare.resume
    environment = {"MINISLURM_CHECKPOINT_DIR": directory} if directory else {}
    if prepare.job.spec.checkpoint_interval_s:
        environment["MINISLURM_CHECKPOINT_INTERVAL"] = f"{prepare.job.spec.checkpoint_interval_s:g}"
    if resume is not None:
        environment["MINISLURM_CHECKPOINT_PATH"] = resume.path
        known = {"STEP": resume.step, "EPOCH": resume.epoch}
        environment |= {f"MINISLURM_CHECKPOINT_{name}": str(n) for name, n in known.items() if n >= 0}
    return environment


def allocation_of(job: Job, node: str) -> NodeAllocation:
    """This node's part of the run."""
    return next(part for part in job.allocation if part.node == node)


def _as_given(spec: JobSpec, node_count: int) -> dict[str, str]:
    """Variables that exist only where the option was given."""
    tasks = spec.tasks
    if tasks is None and spec.tasks_per_node is not None:
        tasks = spec.tasks_per_node * node_count
    values: dict[str, int | str | None] = {
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": spec.tasks_per_node,
        "SLURM_CPUS_PER_TASK": spec.cpus_per_task,
        "SLURM_CPUS_PER_GPU": spec.cpus_per_gpu,
        "SLURM_MEM_PER_NODE": spec.memory_per_node_mib,
        "SLURM_MEM_PER_CPU": spec.memory_per_cpu_mib,
        "SLURM_MEM_PER_GPU": spec.memory_per_gpu_mib,
        "SLURM_GPUS": spec.gpus or None,
        "SLURM_GPUS_PER_NODE": spec.gpus_per_node or None,
        "SLURM_GPUS_PER_TASK": spec.gpus_per_task or None,
        "SLURM_JOB_ACCOUNT": spec.account or None,
        "SLURM_JOB_QOS": spec.qos or None,
        "SLURM_JOB_CONSTRAINTS": spec.constraint or None,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _gpus(allocation: NodeAllocation) -> dict[str, str]:
    """Device indexes of this node's part. Without GPUs a job sees none, whatever its submitter could see."""
    if not allocation.gpu_count:
        return {}
    devices = ",".join(map(str, indexes_of(allocation.gpus)))
    return {
        **dict.fromkeys(_GPU_VARIABLES, devices),
        "SLURM_JOB_GPUS": devices,
        "SLURM_GPUS_ON_NODE": str(allocation.gpu_count),
    }


def _share(allocation: NodeAllocation, spec: JobSpec) -> dict[str, str]:
    """The part of its GPU that the run has; with --gres=shard:N also in shards, as in Slurm."""
    if not allocation.gpu_share_milli:
        return {}
    share = {"MINISLURM_GPU_SHARE": f"{allocation.gpu_share_milli / 1000:g}"}
    if "shard" in spec.gres:
        count = spec.gres.rpartition(":")[2]
        share["SLURM_SHARDS_ON_NODE"] = count if count.isdigit() else "1"
    return share


def _array(job: Job, array: ArrayShape | None) -> dict[str, str]:
    if array is None:
        return {}
    return {
        "SLURM_ARRAY_JOB_ID": str(job.array_job_id),
        "SLURM_ARRAY_TASK_ID": str(job.array_task_id),
        "SLURM_ARRAY_TASK_COUNT": str(array.count),
        "SLURM_ARRAY_TASK_MIN": str(array.first),
        "SLURM_ARRAY_TASK_MAX": str(array.last),
        "SLURM_ARRAY_TASK_STEP": str(array.step),
    }


def _components(components: Sequence[Job]) -> dict[str, str]:
    """What the script of a heterogeneous job sees of its components, under both names Slurm gave them."""
    values: dict[str, str] = {}
    for job in components:
        spec, offset = job.spec, job.het_job_offset
        given = _as_given(spec, len(job.allocation))
        of_this = {
            "JOB_ID": str(job.id),
            "JOB_NAME": job.name or spec.name,
            "JOB_PARTITION": job.partition or spec.partition,
            "JOB_NODELIST": compress([part.node for part in job.allocation]),
            "JOB_NUM_NODES": str(len(job.allocation)),
            "JOB_CPUS_PER_NODE": shorten([part.cpu_count for part in job.allocation]),
            "TASKS_PER_NODE": shorten([part.tasks for part in job.allocation]),
            **{name.removeprefix("SLURM_"): value for name, value in given.items()},
        }
        for name, value in of_this.items():
            values[f"SLURM_{name}_HET_GROUP_{offset}"] = value
            values[f"SLURM_{name}_PACK_GROUP_{offset}"] = value
    if components:
        values["SLURM_HET_SIZE"] = values["SLURM_PACK_SIZE"] = str(len(components))
    return values


def _times(job: Job) -> dict[str, str]:
    if not job.start_time:
        return {}
    times = {"SLURM_JOB_START_TIME": str(int(job.start_time))}
    if job.time_limit_s:
        times["SLURM_JOB_END_TIME"] = str(int(job.expected_end_time))
    return times


def _topology(address: str, pattern: str) -> dict[str, str]:
    if not address:
        return {}
    return {"SLURM_TOPOLOGY_ADDR": address, "SLURM_TOPOLOGY_ADDR_PATTERN": pattern}


def step_name(step_id: StepId) -> str:
    if step_id <= CHECKPOINT_STEP:
        return f"checkpoint{CHECKPOINT_STEP - step_id}"
    return "batch" if step_id == BATCH_STEP else str(step_id)
