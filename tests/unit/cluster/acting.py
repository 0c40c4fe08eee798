"""Requests in a line, on the simulated cluster: what a test of the core says is what was asked."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from minislurm.cluster.messages import (
    Caller,
    CancelJob,
    HoldJob,
    Message,
    ReleaseJob,
    RequeueJob,
    UpdateJob,
    UpdateNode,
)
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import JobId, NodeName, StepId
from minislurm.domain.job import Dependency, DependencyKind, Job
from minislurm.domain.views import JobChanges, JobTarget
from tests.builders import a_configuration
from tests.sim.cluster import OPERATOR, SimCluster

USER = Caller(1000)
OTHER = Caller(1001)


def a_cluster(
    nodes: int = 2, *, cpus: int = 8, seconds: float = 10.0, gpus: int = 0, **timers: Any
) -> SimCluster:
    """Scripts run for as long as the job's name says (``30``), else for `seconds`."""
    configuration = a_configuration(nodes, cpus=cpus, gpus=gpus)
    configuration = replace(configuration, timers=replace(configuration.timers, **timers))
    return SimCluster(
        configuration, duration_of=lambda job: float(job.name) if job.name.isdigit() else seconds
    )


def target(job_id: int, *tasks: int, step: int | None = None) -> JobTarget:
    return JobTarget(JobId(job_id), tasks, None if step is None else StepId(step))


def tell(cluster: SimCluster, message: Message) -> RefusalCode | None:
    """Carried out (None), or why not."""
    refusal = cluster.tell(message).refusal
    return refusal.code if refusal is not None else None


def cancel(cluster: SimCluster, job_id: int, *tasks: int, by: Caller = USER) -> RefusalCode | None:
    return tell(cluster, CancelJob(target(job_id, *tasks), by))


def hold(cluster: SimCluster, job_id: int, *tasks: int, by: Caller = USER, by_user: bool = False) -> Any:
    return tell(cluster, HoldJob(target(job_id, *tasks), by, by_user))


def release(cluster: SimCluster, job_id: int, *tasks: int, by: Caller = USER) -> RefusalCode | None:
    return tell(cluster, ReleaseJob(target(job_id, *tasks), by))


def requeue(cluster: SimCluster, job_id: int, *tasks: int, by: Caller = USER, hold: bool = False) -> Any:
    return tell(cluster, RequeueJob(target(job_id, *tasks), by, hold))


def update(cluster: SimCluster, job_id: int, *tasks: int, by: Caller = USER, **changes: Any) -> Any:
    return tell(cluster, UpdateJob(target(job_id, *tasks), by, JobChanges(**changes)))


def operate(cluster: SimCluster, node: str, state: str | None, reason: str | None = None) -> Any:
    return tell(cluster, UpdateNode(NodeName(node), OPERATOR, state, reason))


def after(kind: str, job_id: int = 0, task_id: int | None = None, *, minutes: float = 0) -> Dependency:
    return Dependency(DependencyKind(kind), JobId(job_id), task_id, 60 * minutes)


def submit_after(cluster: SimCluster, *clauses: Dependency, **changes: Any) -> JobId:
    return cluster.submit(dependencies=clauses, **changes)


def refused_submission(cluster: SimCluster, **changes: Any) -> Refusal:
    try:
        cluster.submit(**changes)
    except Refusal as refusal:
        return refusal
    raise AssertionError("it was accepted")


def task(cluster: SimCluster, array_id: int, task_id: int) -> Job:
    """The own record of an array's task."""
    record = cluster.state.task_record(JobId(array_id), task_id)
    assert record is not None, f"{array_id}_{task_id} has no record of its own"
    return record


def running(cluster: SimCluster) -> set[int]:
    return {int(j.id) for j in cluster.state.jobs.values() if j.state.value == "RUNNING"}


def state_of(cluster: SimCluster, job_id: int) -> str:
    return cluster.job(job_id).state.value
