"""Job steps as ``squeue -s`` and ``scontrol show step`` show them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from minislurm.cli.columns import Field
from minislurm.cli.job_fields import time_text
from minislurm.cli.job_row import JobRow
from minislurm.cli.resource_text import NULL
from minislurm.domain.hostlist import compress
from minislurm.domain.ids import BATCH_STEP
from minislurm.domain.job import Job, Step
from minislurm.domain.states import JobState
from minislurm.domain.times import format_duration


class StepRow(Struct, frozen=True):
    """A step that runs, with its job."""

    row: JobRow
    step: Step

    @property
    def step_text(self) -> str:
        return "batch" if self.step.is_batch else str(self.step.id)

    @property
    def display_id(self) -> str:
        """``12.0``, ``12_3.batch``."""
        return f"{self.row.display_id}.{self.step_text}"

    @property
    def name(self) -> str:
        return self.step.name or self.step_text

    @property
    def node_list(self) -> str:
        return compress(self.step.nodes)

    @property
    def elapsed_s(self) -> float:
        return max(0.0, (self.step.end_time or self.row.now) - self.step.start_time)

    @property
    def order(self) -> tuple[int, int, int, int]:
        # The batch step has the id -1, and is the first.
        return (*self.row.order, self.step.id)


def step_rows(rows: Iterable[JobRow]) -> list[StepRow]:
    """The running steps of these jobs, in the order of the jobs."""
    return [
        StepRow(row, step)
        for row in rows
        for step in _steps(row.job)
        if not step.end_time and step.state in (JobState.RUNNING, JobState.COMPLETING)
    ]


def _steps(job: Job) -> list[Step]:
    """Its steps; for a batch job that runs also the script, of which the controller keeps no record."""
    steps = dict(job.steps)
    if job.spec.is_batch and job.state is JobState.RUNNING and job.batch_host and BATCH_STEP not in steps:
        steps[BATCH_STEP] = Step(BATCH_STEP, "batch", (job.batch_host,), start_time=job.start_time)
    return sorted(steps.values(), key=lambda step: step.id)


StepField = Field[StepRow]

_ID = Field[StepRow]("STEPID", lambda step: step.display_id, lambda step: step.order)
_NAME = Field[StepRow]("NAME", lambda step: step.name)
_TASKS = Field[StepRow]("TASKS", lambda step: str(step.step.tasks), lambda step: step.step.tasks)
_TIME_LIMIT = Field[StepRow](
    "TIME_LIMIT",
    lambda step: format_duration(step.step.time_limit_s),
    lambda step: float("inf") if step.step.time_limit_s is None else step.step.time_limit_s,
)
_TIME = Field[StepRow]("TIME", lambda step: format_duration(step.elapsed_s), lambda step: step.elapsed_s)
_NODE_LIST = Field[StepRow]("NODELIST", lambda step: step.node_list)
_PARTITION = Field[StepRow]("PARTITION", lambda step: step.row.job.partition)
_START_TIME = Field[StepRow](
    "START_TIME", lambda step: time_text(step.step.start_time), lambda step: step.step.start_time
)
_USER = Field[StepRow]("USER", lambda step: step.row.job.spec.user_name)
_USER_ID = Field[StepRow](
    "UID", lambda step: str(step.row.job.spec.user_id), lambda step: step.row.job.spec.user_id
)

LETTERS: dict[str, StepField] = {
    "b": Field("TRES_PER_JOB", lambda step: NULL),
    "i": _ID,
    "j": _NAME,
    "l": _TIME_LIMIT,
    "u": _USER,
    "A": _TASKS,
    "M": _TIME,
    "N": _NODE_LIST,
    "P": _PARTITION,
    "S": _START_TIME,
    "U": _USER_ID,
}

NAMES: dict[str, StepField] = {
    "arrayjobid": Field("ARRAY_JOB_ID", lambda step: str(step.row.array_job_id)),
    "arraytaskid": Field("ARRAY_TASK_ID", lambda step: step.row.task_text),
    "jobid": Field("JOB_ID", lambda step: str(step.row.job.id)),
    "name": _NAME,
    "nodes": _NODE_LIST,
    "nodelist": _NODE_LIST,
    "numtasks": _TASKS,
    "partition": _PARTITION,
    "starttime": _START_TIME,
    "stepid": _ID,
    "stepname": _NAME,
    "stepstate": Field("STEP_STATE", lambda step: step.step.state.value),
    "timelimit": _TIME_LIMIT,
    "timeused": _TIME,
    "userid": _USER_ID,
    "username": _USER,
}
