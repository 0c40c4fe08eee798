"""A job as the commands show it: what follows from a `JobView` and the time of day. One place for all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec import Struct

from minislurm.cli.resource_text import allocation_tres, request_cpus, request_nodes, request_tres
from minislurm.domain.arrays import format_tasks
from minislurm.domain.dependencies import format_dependencies
from minislurm.domain.hostlist import compress
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.states import JobState
from minislurm.domain.views import JobTarget, JobView

#: Ended jobs that show why instead of where.
_EXPLAINED_STATES = frozenset(
    {JobState.PENDING, JobState.FAILED, JobState.TIMEOUT, JobState.DEADLINE, JobState.OUT_OF_MEMORY}
)
#: Length of an array's list of tasks (SLURM_BITSTR_LEN; 0: no bound).
_DEFAULT_TASK_LIST_LENGTH = 64


class JobRow(Struct, frozen=True):
    """One row. `tasks`: those of an array's undivided rest that it stands for; `single`: shown as ``2_4``."""

    view: JobView
    now: float
    tasks: tuple[int, ...] = ()
    single: bool = False
    #: False: amounts stay in their unit (--noconvert).
    convert: bool = True

    @property
    def job(self) -> Job:
        return self.view.job

    @property
    def array_job_id(self) -> JobId:
        """The array's id; for a plain job its own."""
        return self.job.array_job_id or self.job.id

    @property
    def in_array(self) -> bool:
        return self.job.is_array_task or bool(self.tasks)

    @property
    def display_id(self) -> str:
        """``12``, ``12_3``, ``12_[4-9%2]``, ``12+1``."""
        if self.job.is_component:
            return f"{self.job.het_job_id}+{self.job.het_job_offset}"
        if self.single or self.job.is_array_task:
            return f"{self.array_job_id}_{self.task_text}"
        return f"{self.array_job_id}_[{self.task_text}]" if self.tasks else str(self.job.id)

    @property
    def task_text(self) -> str:
        """``3``, ``4-9%2``; "N/A" outside of an array."""
        if self.job.array_task_id is not None:
            return str(self.job.array_task_id)
        if not self.tasks:
            return "N/A"
        return str(self.tasks[0]) if self.single else task_list(self.tasks, self.job.array_limit)

    @property
    def order(self) -> tuple[int, int, int]:
        """Submission order; of an array first what is pending, then its tasks; the components of a job."""
        if self.job.is_component:
            return self.job.het_job_id, 0, self.job.het_job_offset
        if self.job.array_task_id is not None:
            return self.array_job_id, 1, self.job.array_task_id
        return self.array_job_id, 0, self.tasks[0] if self.tasks else 0

    @property
    def het_ids(self) -> str:
        """``12-13``: the ids of all components; "" outside of a heterogeneous job."""
        return format_tasks(self.view.het_job_ids) if self.job.is_component else ""

    @property
    def is_pending(self) -> bool:
        return self.job.state is JobState.PENDING

    @property
    def reason(self) -> str:
        """One word: blanks would break every parser of a column."""
        text = self.view.reason or "None"
        if self.view.node_reason and text == "ReqNodeNotAvail":
            text += f",UnavailableNodes:{self.view.node_reason}"
        return text.replace(" ", "_")

    @property
    def reason_or_nodes(self) -> str:
        return f"({self.reason})" if self.job.state in _EXPLAINED_STATES else self.node_list

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        return () if self.is_pending else tuple(part.node for part in self.job.allocation)

    @property
    def node_list(self) -> str:
        return compress(self.nodes)

    @property
    def node_count(self) -> int:
        return len(self.nodes) or request_nodes(self.job.request)

    @property
    def cpu_count(self) -> int:
        if self.nodes:
            return sum(part.cpu_count for part in self.job.allocation)
        return request_cpus(self.job.request)

    @property
    def tres(self) -> str:
        request = self.job.request
        return allocation_tres(self.job.allocation, request.gpu_type) if self.nodes else request_tres(request)

    @property
    def priority(self) -> int:
        return 0 if self.job.held and self.is_pending else self.view.priority

    @property
    def dependency_text(self) -> str:
        """ "" for none."""
        return format_dependencies(
            self.job.dependencies, self.view.dependency_states, any_one=self.job.dependency_any
        )

    # Times. 0: not known.

    @property
    def elapsed_s(self) -> float:
        job = self.job
        if self.is_pending or not job.start_time:
            return 0.0
        end = job.end_time if job.end_time else self.now
        # Another host's clock may be behind ours; nothing has run for less than no time.
        return max(0.0, end - job.start_time - job.suspended_time_s)

    @property
    def time_limit_s(self) -> float | None:
        """None: no limit."""
        return self.job.time_limit_s or None

    @property
    def time_left_s(self) -> float | None:
        return None if self.time_limit_s is None else max(0.0, self.time_limit_s - self.elapsed_s)

    @property
    def preempt_time(self) -> float:
        """When the run that is shown was asked to give way; 0: it was not."""
        return self.job.preempt_time if self.job.preempt_time >= self.job.start_time else 0.0

    @property
    def start_time(self) -> float:
        """When it started; when it is expected to."""
        job = self.job
        if self.is_pending:
            return self.view.start_estimate or (job.begin_time if job.begin_time > self.now else 0.0)
        # Cancelled before it ever ran: Slurm shows the end as the start too.
        return job.start_time or job.end_time

    @property
    def end_time(self) -> float:
        """When it ended; when its limit will end it."""
        if self.job.end_time and not self.is_pending:
            return self.job.end_time
        if self.time_limit_s is None or not self.start_time:
            return 0.0
        return self.start_time + self.time_limit_s + self.job.suspended_time_s

    @property
    def eligible_time(self) -> float:
        if self.job.eligible_time:
            return self.job.eligible_time
        return self.job.begin_time if self.is_pending and not self.job.dependencies else 0.0

    @property
    def accrue_time(self) -> float:
        """Since when its age counts for its priority."""
        return 0.0 if self.job.held else self.job.eligible_time


def job_row(view: JobView, now: float, *, convert: bool = True) -> JobRow:
    return JobRow(view, now, tasks=tuple(view.job.pending_tasks), convert=convert)


def job_rows(views: Iterable[JobView], now: float, *, convert: bool = True) -> list[JobRow]:
    """One row for each record, in submission order."""
    return sorted((job_row(view, now, convert=convert) for view in views), key=lambda row: row.order)


def expanded(row: JobRow) -> Iterator[JobRow]:
    """One row for each task (squeue -r)."""
    if not row.tasks:
        yield row
    for task in row.tasks:
        yield JobRow(row.view, row.now, (task,), single=True, convert=row.convert)


def narrowed(row: JobRow, tasks: frozenset[int]) -> Iterator[JobRow]:
    """What of the row is about those tasks of its array: at most one row."""
    if row.job.array_task_id in tasks:
        yield row
    left = tuple(task for task in row.tasks if task in tasks)
    if left:
        yield JobRow(row.view, row.now, left, single=len(left) == 1, convert=row.convert)


def is_meant(row: JobRow, target: JobTarget) -> bool:
    """Does the target name the row's job, or one that it belongs to? (Which tasks is another question.)"""
    job = row.job
    if target.het_offset is not None:
        return (target.job_id, target.het_offset) == (job.het_job_id, job.het_job_offset)
    return target.job_id in (job.id, row.array_job_id, job.het_job_id)


def task_list(tasks: tuple[int, ...], limit: int) -> str:
    """``2-19%2``, cut as SLURM_BITSTR_LEN says: "..." stands for what does not fit."""
    text = format_tasks(tasks)
    length = _task_list_length()
    if length and len(text) > length - 3:
        text = text[: length - 4] + "..."
    return text + (f"%{limit}" if limit else "")


def _task_list_length() -> int:
    text = os.environ.get("SLURM_BITSTR_LEN", "")
    return int(text) if text.isascii() and text.isdigit() else _DEFAULT_TASK_LIST_LENGTH
