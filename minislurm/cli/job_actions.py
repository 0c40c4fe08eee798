"""scontrol's actions on jobs: hold, release, requeue, update. Reports on each target as Slurm does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from minislurm.cli.application import print_line
from minislurm.cli.update import JobUpdate, NodeUpdate, PartitionUpdate, UpdateError, parse_update
from minislurm.domain.arrays import format_tasks
from minislurm.domain.errors import RefusalCode
from minislurm.domain.hostlist import expand
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.job_targets import format_target, parse_target, split_targets
from minislurm.domain.views import JobQuery, JobTarget, Outcome

if TYPE_CHECKING:
    from minislurm.rpc.client import ControllerClient

#: What Slurm prints after a failed hold or release.
_SUSPEND_ERROR = "slurm_suspend error"


def act(client: ControllerClient, keyword: str, words: Sequence[str]) -> int:
    """``scontrol hold 12 13_[1-3]``; returns the exit code."""
    targets, unreadable = read_targets(client, words)
    summary = _SUSPEND_ERROR if keyword in ("hold", "uhold", "release") else ""
    for text in unreadable:
        print_line(f"{RefusalCode.INVALID_JOB_ID.value} for job {text}")
    exit_code = 1 if unreadable else 0
    if unreadable and summary and not targets:
        print_line(f"{summary}: {RefusalCode.INVALID_JOB_ID.value}")
    if not targets:
        return exit_code
    match keyword:
        case "hold" | "uhold":
            outcomes = client.hold(targets, by_user=keyword == "uhold")
        case "release":
            outcomes = client.release(targets)
        case "checkpoint":
            outcomes = client.request_checkpoint(targets)
        case _:
            outcomes = client.requeue(targets, hold=keyword == "requeuehold")
    return max(exit_code, report_outcomes(outcomes, summary))


def update(client: ControllerClient, words: Sequence[str], now: float) -> int:
    """``scontrol update``; returns the exit code."""
    match parse_update(words, now):
        case NodeUpdate() as change:
            try:
                names = [NodeName(name) for name in expand(change.names)]
            except ValueError as error:
                raise UpdateError("slurm_update error: Invalid node name specified") from error
            client.update_node(names, state=change.state, reason=change.reason, weight=change.weight)
            return 0
        case PartitionUpdate() as change:
            client.update_partition(change.name, change.state, change.settings)
            return 0
        case JobUpdate() as change:
            return _update_jobs(client, change)


def _update_jobs(client: ControllerClient, change: JobUpdate) -> int:
    words = [change.job_ids] if change.job_ids else [f"jobname={','.join(change.names)}"]
    targets, unreadable = read_targets(client, words)
    for text in unreadable:
        print_line(f"{RefusalCode.INVALID_JOB_ID.value} for job {text}")
    exit_code = 1 if unreadable else 0
    outcomes: list[Outcome] = []
    if change.time_limit_change_s:
        for target in targets:
            limits = _time_limits(client, target)
            if not limits:
                print_line(f"{RefusalCode.INVALID_JOB_ID.value} for job {format_target(target)}")
                return 1
            for one, limit in limits:
                changed = max(60.0, limit + change.time_limit_change_s) if limit else 0.0
                outcomes += client.update_job([one], replace(change.changes, time_limit_s=changed))
    elif targets:
        outcomes = client.update_job(targets, change.changes)
    return max(exit_code, report_outcomes(outcomes))


def _time_limits(client: ControllerClient, target: JobTarget) -> list[tuple[JobTarget, float]]:
    """Seconds, 0: no limit; of each component of a heterogeneous job. []: no such job."""
    jobs = [view.job for view in client.list_jobs(JobQuery(job_ids=(target.job_id,)))]
    components = [job for job in jobs if job.is_component]
    if components and target.het_offset is None and target.job_id == components[0].het_job_id:
        return [(JobTarget(target.job_id, het_offset=j.het_job_offset), j.time_limit_s) for j in components]
    for job in jobs:
        offset = target.job_id - job.het_job_id if target.het_offset is None else target.het_offset
        if job.is_component and offset != job.het_job_offset:
            continue
        tasks = {job.array_task_id, *job.pending_tasks}
        if not target.tasks or not tasks.isdisjoint(target.tasks):
            return [(target, job.time_limit_s)]
    return []


def read_targets(client: ControllerClient, words: Sequence[str]) -> tuple[list[JobTarget], list[str]]:
    """The jobs named by ``12,13_4``, ``jobid=12`` or ``jobname=x``, and the words that name none."""
    targets: list[JobTarget] = []
    unreadable: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key.lower() in ("jobname", "name"):
            named = _jobs_named(client, tuple(value.split(",")))
            targets += named
            if not named:
                unreadable.append(value)
            continue
        for item in split_targets(value if equals else word):
            try:
                target = parse_target(item)
            except ValueError:
                unreadable.append(item)
                continue
            if target.step_id is None:
                targets.append(target)
            else:
                unreadable.append(item)
    return targets, unreadable


def _jobs_named(client: ControllerClient, names: tuple[str, ...]) -> list[JobTarget]:
    """Each once; an array whose tasks differ is named by its id."""
    ids = dict.fromkeys(_base_id(view.job) for view in client.list_jobs(JobQuery()) if view.job.name in names)
    return [JobTarget(job_id) for job_id in ids]


def _base_id(job: Job) -> JobId:
    return job.het_job_id or job.array_job_id or job.id


def report_outcomes(outcomes: Sequence[Outcome], summary: str = "") -> int:
    """Prints what went wrong; of an array partly done, every task. Returns the exit code."""
    last = ""
    by_job: dict[JobId, list[Outcome]] = {}
    for outcome in outcomes:
        by_job.setdefault(outcome.target.job_id, []).append(outcome)
    for job_id, parts in by_job.items():
        messages = [str(part.refusal) for part in parts if part.refusal is not None]
        if not messages:
            continue
        last = messages[-1]
        for detail in dict.fromkeys(d for p in parts if p.refusal is not None for d in p.refusal.details):
            print_line(detail)
        if len(parts) == 1:
            print_line(f"{last} for job {format_target(parts[0].target)}")
        else:
            for line in _lines_of_array(job_id, parts):
                print_line(line)
    if last and summary:
        print_line(f"{summary}: {last}")
    return 1 if last else 0


def _lines_of_array(job_id: JobId, parts: Sequence[Outcome]) -> list[str]:
    """``12_0-1: No error``, ``12_2-3: Job is pending execution``."""
    tasks: dict[str, list[int]] = {}
    for part in parts:
        message = str(part.refusal) if part.refusal is not None else "No error"
        tasks.setdefault(message, []).extend(part.target.tasks)
    return [
        f"{job_id}_{format_tasks(numbers)}: {message}" if numbers else f"{job_id}: {message}"
        for message, numbers in tasks.items()
    ]
