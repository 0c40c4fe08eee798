"""`minislurm why`: why a job waits, when it will start, and what would help."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from minislurm.cli.application import print_error
from minislurm.cli.printable import printable
from minislurm.domain.errors import RefusalCode
from minislurm.domain.hostlist import compress
from minislurm.domain.job_targets import format_target, parse_target
from minislurm.domain.times import format_duration, format_time

if TYPE_CHECKING:
    from minislurm.domain.job import Job
    from minislurm.domain.views import Explanation, HeadAhead, JobTarget
    from minislurm.rpc.client import ControllerClient


def why(
    job: Annotated[str, typer.Argument(metavar="JOBID[_TASK]", help="A job, or a task of an array.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    preempted: Annotated[
        bool,
        typer.Option("--preempted", help="When and to whom it gave way, what was weighed, what it cost."),
    ] = False,
) -> None:
    """Say why a job waits, who is before it, when it will start, and what would let it start sooner.

    Every proposal was tried on a copy of the queue. The start assumes that jobs take as long as they may, and
    that nothing is submitted meanwhile.
    """
    from minislurm.cli.connection import connect
    from minislurm.domain.errors import Refusal

    target = _target(job)
    try:
        if target is None:
            raise Refusal(RefusalCode.INVALID_JOB_ID)
        with connect() as client:
            if preempted:
                _say_preempted(client, target, as_json=as_json)
                return
            told = client.explain(target)
    except Refusal as refusal:
        print_error("minislurm", str(refusal))
        raise typer.Exit(1) from None
    print(json.dumps(to_builtins(told), indent=2) if as_json else explanation_text(told))


def _say_preempted(client: ControllerClient, target: JobTarget, *, as_json: bool) -> None:
    """Raises Refusal."""
    from minislurm.cli.why_preempted import preempted_text
    from minislurm.domain.errors import Refusal
    from minislurm.domain.views import JobQuery

    views = client.list_jobs(JobQuery((target.job_id,), include_ended=True))
    jobs = [view.job for view in views if _is_meant(view.job, target)]
    if not jobs:
        raise Refusal(RefusalCode.INVALID_JOB_ID)
    if as_json:
        print(json.dumps(to_builtins(jobs[0].preemptions), indent=2))
    else:
        print(preempted_text(jobs[0], format_target(target)))


def _is_meant(job: Job, target: JobTarget) -> bool:
    if target.tasks:
        return job.array_task_id == target.tasks[0] or target.tasks[0] in job.pending_tasks
    return target.het_offset is None or job.het_job_offset == target.het_offset


def _target(text: str) -> JobTarget | None:
    try:
        target = parse_target(text)
    except ValueError:
        return None
    return target if target.step_id is None and len(target.tasks) < 2 else None


#: Where the pass' own word says too little.
_LABELS = {"reserved": "kept for jobs before it, or reserved", "not required": "not among those it names"}


def explanation_text(told: Explanation) -> str:
    return "\n".join(_lines(told))


def short_lines(told: Explanation) -> Iterator[str]:
    """For `scontrol show job -d`."""
    for sentence in told.sentences:
        yield f"  Why={printable(sentence)}"
    if told.rejected:
        counts = ",".join(f"{label}:{count}" for label, count in told.rejected.items())
        yield f"  WhyNotNodes={counts}"
    if told.ahead:
        yield f"  JobsAhead={told.ahead} First={','.join(map(str, told.first_ahead))}"
    for proposal in told.proposals:
        yield f"  Try={printable(proposal.command)} StartTime={_short_time(proposal.start, told.now)}"


def _lines(told: Explanation) -> Iterator[str]:
    reason = f" ({told.reason})" if told.reason != "None" and told.state == "PENDING" else ""
    name = printable(told.name)
    yield f"Job {told.shown_id} ({name}) in partition {told.partition} is {told.state}{reason}."
    yield from (printable(sentence) for sentence in told.sentences)
    if told.state != "PENDING":
        return
    yield from _nodes(told)
    yield from _queue(told)
    yield ""
    yield _start(told)
    if told.proposals:
        yield ""
        now = all(proposal.starts_now for proposal in told.proposals)
        yield (
            "Any one of these would let it start now:"
            if now
            else "Any one of these would let it start sooner:"
        )
        for proposal in told.proposals:
            when = "" if proposal.starts_now else f", {_when(proposal.start, told.now)}"
            yield f"  {printable(proposal.text)}{when}:"
            yield f"      {printable(proposal.command)}"


def _nodes(told: Explanation) -> Iterator[str]:
    if not told.rejected:
        return
    yield ""
    yield f"Of the {_count(told.partition_nodes, 'node')} of partition {told.partition}:"
    width = max(len(str(count)) for count in told.rejected.values())
    for label, count in sorted(told.rejected.items(), key=lambda item: -item[1]):
        yield f"  {count:>{width}} {_LABELS.get(label, label)}"
    left = told.partition_nodes - sum(told.rejected.values())
    if left > 0:
        yield f"  {left:>{width}} could take a part of it now"


def _queue(told: Explanation) -> Iterator[str]:
    if not told.ahead and not told.heads:
        return
    yield ""
    if told.ahead:
        named = ", ".join(map(str, told.first_ahead))
        more = ", …" if told.ahead > len(told.first_ahead) else ""
        verb = "wants" if told.ahead == 1 else "want"
        jobs = _count(told.ahead, "job")
        yield f"{jobs} before it {verb} the same nodes: {named}{more} (its priority is {told.priority})."
    if told.ahead_but_waiting:
        verbs = ("waits", "holds") if told.ahead_but_waiting == 1 else ("wait", "hold")
        yield f"{told.ahead_but_waiting} more {verbs[0]} for something else and {verbs[1]} nobody up."
    for head in told.heads:
        yield _head(head, told.now)


def _head(head: HeadAhead, now: float) -> str:
    planned = f"{compress(head.nodes)} {_when(head.start, now)}" if head.start else f"{compress(head.nodes)}"
    if head.is_cause:
        return f"It would delay job {head.job_id}, for which {planned} is kept."
    return f"For job {head.job_id}, {planned} is kept."


def _start(told: Explanation) -> str:
    if not told.start_estimate:
        return "Nobody can say when it will start."
    where = f" on {compress(told.planned_nodes)}" if told.planned_nodes else ""
    when = _when(told.start_estimate, told.now)
    return f"Expected start: {when}{where}, if jobs take as long as they may and nothing is submitted before."


def _when(start: float, now: float) -> str:
    if start <= now:
        return "now"
    return f"at {format_time(start)} (in {format_duration(start - now)})"


def _short_time(start: float, now: float) -> str:
    return "now" if start <= now else format_time(start)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
