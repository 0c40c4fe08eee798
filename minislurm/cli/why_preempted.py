"""`minislurm why --preempted`: when a job gave way, to whom, what was weighed, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator

from minislurm.cli.printable import printable
from minislurm.domain.hostlist import compress
from minislurm.domain.job import Job
from minislurm.domain.preemption import PreemptionRecord
from minislurm.domain.times import format_duration, format_time

_CAUSES = {
    "tier": "which is in a partition of a higher tier",
    "qos": "whose QOS may preempt its own",
    "guarantee": "whose account took back what it is guaranteed",
    "fair_share": "whose account took back its fair share",
    "time_slice": "whose turn it was: its own time slice was over",
}


def preempted_text(job: Job, shown_id: str) -> str:
    return "\n".join(_lines(job, shown_id))


def _lines(job: Job, shown_id: str) -> Iterator[str]:
    name = printable(job.name)
    if not job.preemptions:
        yield f"Job {shown_id} ({name}) has given way to nobody."
        return
    times = job.requeues.get("preempt", 0) + job.requeues.get("time_slice", 0)
    requeued = f", and was requeued for that {_times(times)}" if times else ""
    given = _times(len(job.preemptions))
    yield f"Job {shown_id} ({name}) has given way {given}{requeued}. The last comes first."
    request = job.request
    has_gpus = request.gpus_total or request.gpus_per_node or request.gpus_per_task or request.gpu_share_milli
    unit = "GPU-seconds" if has_gpus else "CPU-seconds"
    for record in reversed(job.preemptions):
        yield ""
        yield from _record(record, unit)


def _record(record: PreemptionRecord, unit: str) -> Iterator[str]:
    where = f" on {compress(record.nodes)}" if record.nodes else ""
    cause = _CAUSES.get(record.cause, record.cause)
    when = format_time(record.time)
    yield f"At {when} run {record.run} gave way to job {record.preemptor}{where}, {cause}."
    others = len(record.victims) - 1
    if others > 0:
        named = ", ".join(map(str, record.victims))
        yield f"  Together with {others} more: {named}; {record.total_cost:.0f} {unit} to be lost in all."
    yield f"  To be lost of it: {record.cost:.0f} {unit} (work not in a checkpoint, and the next start)."
    if record.true_cost is None:
        yield "  It has not let go of its nodes yet."
    else:
        took = format_duration(record.end_time - record.time)
        yield f"  Lost in truth: {record.true_cost:.0f} {unit}; it had let go of its nodes after {took}."
    if not record.alternatives:
        yield "  No other set of runs was found that would have done."
        return
    yield "  Also weighed:"
    for other in record.alternatives:
        jobs = "job" if len(other.victims) == 1 else "jobs"
        yield f"    {jobs} {', '.join(map(str, other.victims))}: {other.cost:.0f} {unit}, {other.why}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
