"""`scontrol show step`."""

from __future__ import annotations

from minislurm.cli.record import record_text
from minislurm.cli.resource_text import NULL
from minislurm.cli.step_row import StepRow
from minislurm.domain.times import format_duration_long, format_time


def step_text(step: StepRow, *, one_line: bool = False) -> str:
    job, record = step.row.job, step.step
    lines = [
        f"StepId={step.display_id} UserId={job.spec.user_id} StartTime={format_time(record.start_time)} "
        f"TimeLimit={format_duration_long(record.time_limit_s)}",
        f"State={record.state.value} Partition={job.partition} NodeList={step.node_list or NULL}",
        f"Nodes={len(record.nodes)} CPUs={_cpus(step)} Tasks={record.tasks} Name={step.name} Network={NULL}",
        f"TRES={NULL}",
        f"ResvPorts={NULL}",
        "CPUFreqReq=Default",
        f"SrunHost:Pid={NULL}:0",
    ]
    return record_text(lines, one_line=one_line)


def _cpus(step: StepRow) -> int:
    """The batch step has no CPUs of its own: it shares those of the other steps."""
    return 0 if step.step.is_batch else step.step.tasks * step.row.job.request.cpus_per_task
