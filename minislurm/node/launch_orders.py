"""The orders for shepherds: a batch script's, a step's. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from minislurm.domain.filenames import DEFAULT_ARRAY_OUTPUT, DEFAULT_OUTPUT, FilenameFields, fill
from minislurm.domain.ids import BATCH_STEP, StepId
from minislurm.node.environment import (
    Place,
    StepShape,
    batch_environment,
    entries,
    step_name,
    task_environments,
)
from minislurm.node.messages import Prepare
from minislurm.node.orders import ShepherdOrder, TaskOrder

#: Causes of requeues after which the log of the earlier runs must not be lost.
_KEEPING_CAUSES = ("preempt", "time_slice", "node_fail", "timeout", "task_fail", "resize")


class Where(Struct, frozen=True):
    """The spool's log, the step's control group ("" for none)."""

    log: str
    cgroup: str
    #: The node's lease, and between SIGTERM and SIGKILL when it has ended.
    lease: str = ""
    lease_kill_wait_s: float = 0.0


class StepRequest(Struct, frozen=True):
    """What srun asks one node to run. Output patterns: "" stands for srun's own streams."""

    shape: StepShape
    arguments: tuple[str, ...]
    work_dir: str
    environment: Mapping[str, str]
    std_in: str = ""
    std_out: str = ""
    std_err: str = ""
    append: bool = False
    output_mode: int = 0o600
    kill_on_disconnect: bool = True


def batch_order(
    prepare: Prepare, given: Mapping[str, str], place: Place, script: str, where: Where
) -> ShepherdOrder:
    spec = prepare.job.spec
    names = _fields(prepare, place)
    default = DEFAULT_OUTPUT if prepare.job.array_task_id is None else DEFAULT_ARRAY_OUTPUT
    std_out = fill(spec.std_out or default, names)
    task: TaskOrder = {
        "rank": 0,
        "environment": [],
        "std_in": fill(spec.std_in, names) if spec.std_in else os.devnull,
        "std_out": std_out,
        "std_err": fill(spec.std_err, names) if spec.std_err else std_out,
    }
    order = _order(prepare, place, where)
    order["arguments"] = [script, *spec.script_arguments]
    order["environment"] = entries(batch_environment(given, prepare, place))
    order["work_dir"] = spec.work_dir
    order["umask"] = spec.umask
    order["tasks"] = [task]
    order["append"] = appends(prepare)
    order["output_mode"] = spec.output_mode
    return order


def checkpoint_order(
    prepare: Prepare, step_id: StepId, given: Mapping[str, str], place: Place, where: Where
) -> ShepherdOrder:
    """The --checkpoint-command: as the batch script runs, at the end of its output."""
    order = batch_order(prepare, given, place, "/bin/sh", where)
    order["step_id"] = step_id
    order["arguments"] = ["/bin/sh", "-c", prepare.job.spec.checkpoint_command]
    order["environment"].append(f"MINISLURM_STEP={step_name(step_id)}")
    order["append"] = True
    order["tasks"][0]["std_in"] = os.devnull
    return order


def step_order(prepare: Prepare, request: StepRequest, place: Place, where: Where) -> ShepherdOrder:
    shape = request.shape
    shared, own = task_environments(request.environment, prepare, shape, place)
    order = _order(prepare, place, where)
    order["step_id"] = shape.step_id
    order["arguments"] = list(request.arguments)
    order["environment"] = entries(shared)
    order["work_dir"] = request.work_dir
    order["umask"] = shape.umask
    order["append"] = request.append
    order["output_mode"] = request.output_mode
    order["kill_on_disconnect"] = request.kill_on_disconnect
    for rank, environment in zip(shape.tasks, own, strict=True):
        names = _fields(prepare, place, shape, rank)
        order["tasks"].append(
            {
                "rank": rank,
                "environment": entries(environment),
                "std_in": fill(request.std_in, names),
                "std_out": fill(request.std_out, names),
                "std_err": fill(request.std_err, names),
            }
        )
    return order


def appends(prepare: Prepare) -> bool:
    """--open-mode; without it the first run and a user's requeue truncate, as in Slurm, but a run that was
    preempted or lost its node keeps the log of the runs before it."""
    given = prepare.job.spec.open_mode_append
    if given is not None:
        return given
    return prepare.restart_reason in _KEEPING_CAUSES


def _order(prepare: Prepare, place: Place, where: Where) -> ShepherdOrder:
    """What batch script and steps share; the rest empty."""
    spec = prepare.job.spec
    return {
        "job_id": prepare.key.job_id,
        "run": prepare.key.run,
        "step_id": BATCH_STEP,
        "node": place.node,
        "log": where.log,
        "user_id": spec.user_id,
        "group_id": spec.group_id,
        "user_name": spec.user_name,
        "arguments": [],
        "environment": [],
        "work_dir": "",
        "umask": 0o022,
        "tasks": [],
        "append": False,
        "output_mode": 0o600,
        "cgroup": where.cgroup,
        "kill_on_disconnect": False,
        "lease": where.lease,
        "lease_kill_wait_s": where.lease_kill_wait_s,
    }


def _fields(prepare: Prepare, place: Place, shape: StepShape | None = None, rank: int = 0) -> FilenameFields:
    job = prepare.job
    return FilenameFields(
        job_id=job.id,
        user_name=job.spec.user_name,
        job_name=job.name or job.spec.name,
        array_job_id=job.array_job_id if job.array_task_id is not None else 0,
        array_task_id=job.array_task_id,
        step_id=shape.step_id if shape is not None else None,
        node=place.node,
        node_index=shape.node_index if shape is not None else 0,
        task=rank,
    )
