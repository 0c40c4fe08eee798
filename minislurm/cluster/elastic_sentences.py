"""An elastic job's size in sentences for people: what it has, and why it does not have more."""

from __future__ import annotations

from collections.abc import Iterator

from minislurm.cluster.resizes import grow_from, most_nodes
from minislurm.cluster.state import ClusterState
from minislurm.domain.hostlist import compress
from minislurm.domain.job import Job
from minislurm.domain.states import JobState
from minislurm.domain.times import format_time
from minislurm.scheduling.model import Plan

_WHY = {
    "grow": "into nodes that were idle",
    "shrink": "for a job that waited",
    "node_fail": "because a node was lost",
    "launch_failure": "because it could not start on a node",
    "update": "by scontrol update",
}


def size(state: ClusterState, job: Job, now: float) -> tuple[str, ...]:
    return tuple(_size(state, job, now)) if job.is_elastic and not job.state.is_final else ()


def _size(state: ClusterState, job: Job, now: float) -> Iterator[str]:
    request, count = job.request, len(job.allocation)
    how = "in place" if job.resizes_in_place else "by a restart"
    yield f"It is elastic, {how}: it has {count} of {request.nodes_min} to {request.nodes_max} nodes."
    if job.resize_time:
        why = _WHY.get(job.resize_kind, job.resize_kind)
        at = format_time(job.resize_time)
        yield f"Its size was last changed at {at}, from {job.resized_from} nodes, {why}."
    if job.joining:
        yield f"It is about to get {compress(part.node for part in job.joining)}."
    if job.leaving:
        yield f"It is giving back {compress(job.leaving)}."
    if job.state is not JobState.RUNNING or job.is_resizing:
        return
    if count >= most_nodes(state, job):
        yield "It does not grow: it has as many as it may have."
    elif grow_from(state, job) > now:
        yield f"It does not grow before {format_time(grow_from(state, job))} (elastic.grow_cooldown_s)."


def growth(job: Job, plan: Plan) -> tuple[str, ...]:
    """What a pass says of a run that may grow."""
    for group in plan.resizes:
        for resize in group:
            if resize.job_id == job.id and resize.joining:
                names = compress(part.node for part in resize.joining)
                return (f"The next scheduling pass gives it {names}.",)
    found = dict(plan.stays).get(job.id, "It would soon end anyway, or its partition starts nothing.")
    return (f"It does not grow. {found}",)
