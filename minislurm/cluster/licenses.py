"""Licenses and --exclusive=user: what a job's start takes besides nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import NodeName
from minislurm.domain.job import Job
from minislurm.domain.resources import ResourceRequest


def total_licenses(state: ClusterState) -> dict[str, int]:
    return {license.name: license.count for license in state.configuration.licenses}


def free_licenses(state: ClusterState) -> dict[str, int]:
    """By name. Below zero after a configuration with fewer than are in use."""
    used = state.licenses_used
    return {name: total - used.get(name, 0) for name, total in total_licenses(state).items()}


def refuse_licenses(state: ClusterState, request: ResourceRequest) -> Refusal | None:
    """More than there are could never start."""
    totals = total_licenses(state)
    if any(license.count > totals.get(license.name, -1) for license in request.licenses):
        return Refusal(RefusalCode.INVALID_LICENSES)
    return None


def has_licenses(state: ClusterState, *jobs: Job) -> bool:
    """Are there enough for all of them together?"""
    if not any(job.request.licenses for job in jobs):
        return True
    wanted: Counter[str] = Counter()
    for job in jobs:
        wanted.update({license.name: license.count for license in job.request.licenses})
    free = free_licenses(state)
    return all(count <= free.get(name, -1) for name, count in wanted.items())


def may_share(state: ClusterState, job: Job, names: Iterable[NodeName]) -> bool:
    """On a node that holds a job with --exclusive=user, all jobs are of one user."""
    user_id, is_alone = job.spec.user_id, job.request.exclusive_user is not None
    for name in names:
        for other_id in state.nodes[name].jobs:
            other = state.jobs[other_id]
            if other.spec.user_id != user_id and (is_alone or other.request.exclusive_user is not None):
                return False
    return True
