"""When each job that waits would start, as it is and with the changes: a table, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import to_builtins

from minislurm.domain import hostlist
from minislurm.domain.times import format_duration, format_time
from minislurm.sim import report_text
from minislurm.sim.from_cluster import Answer
from minislurm.sim.live import Waiting

_LONGEST_NAME = 16


def render(answer: Answer) -> str:
    """Jobs in the order in which they would start as things are, then the figures side by side."""
    text = [f"The queue of {answer.cluster} at {format_time(answer.taken)}, played forward on a copy."]
    text += [f"  {note}" for note in answer.notes]
    if not answer.futures[0].waiting:
        return "\n".join([*text, "No job waits."])
    return "\n".join([*text, "", *_starts(answer), "", report_text.render(answer.variants)])


def _starts(answer: Answer) -> list[str]:
    names = [one.policy.name for one in answer.variants]
    head = ["JOBID", "PARTITION", "USER", "NAME", *names]
    if len(names) == 1:
        head = [*head[:-1], "START", "NODELIST"]
    rows = [head]
    for jobs in _by_start(answer):
        first = jobs[0]
        trace = first.outcome.trace
        row = [first.job_id, trace.partition, trace.user, trace.name[:_LONGEST_NAME]]
        row += [_start(job, first, answer.taken) for job in jobs]
        if len(jobs) == 1:
            row.append(hostlist.compress(first.nodes))
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(r, widths, strict=True)).rstrip() for r in rows
    ]


def _by_start(answer: Answer) -> Sequence[tuple[Waiting, ...]]:
    """Of each job its places in all variants, which have the same jobs in the same order."""
    together = list(zip(*(future.waiting for future in answer.futures), strict=True))
    never = float("inf")

    def key(jobs: tuple[Waiting, ...]) -> tuple[float, tuple[object, ...]]:
        start = jobs[0].start_s
        return never if start is None else start, hostlist.natural_key(jobs[0].job_id)

    return sorted(together, key=key)


def _start(job: Waiting, as_it_is: Waiting, taken: float) -> str:
    if job.start_s is None:
        return f"never ({job.outcome.why or 'None'})"
    text = format_time(taken + job.start_s)
    if job is as_it_is or as_it_is.start_s is None:
        return text
    earlier_s = as_it_is.start_s - job.start_s
    if abs(earlier_s) < 1:
        return text
    return f"{text} ({'-' if earlier_s > 0 else '+'}{format_duration(abs(earlier_s))})"


def as_json(answer: Answer) -> str:
    """Times are Unix seconds; a start of null: never, and `why`."""
    content = {
        "cluster": answer.cluster,
        "taken": answer.taken,
        "notes": answer.notes,
        "variants": [
            {
                "name": one.policy.name,
                "summary": one.policy.summary,
                "metrics": to_builtins(one.metrics),
                "jobs": [_as_dict(job, answer.taken) for job in future.waiting],
            }
            for one, future in zip(answer.variants, answer.futures, strict=True)
        ],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _as_dict(job: Waiting, taken: float) -> dict[str, object]:
    outcome = job.outcome
    return {
        "job": job.job_id,
        "name": outcome.trace.name,
        "user": outcome.trace.user,
        "account": outcome.trace.account,
        "partition": outcome.trace.partition,
        "submit": taken + outcome.submit_s,
        "start": None if job.start_s is None else taken + job.start_s,
        "end": taken + outcome.end_s if outcome.state is not None else None,
        "state": outcome.state.value if outcome.state is not None else None,
        "nodes": list(job.nodes),
        "why": outcome.why,
    }
