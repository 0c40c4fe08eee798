"""Elastic jobs on the simulated cluster: what their runs get, when, and what they give back."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from minislurm.domain.ids import JobId
from minislurm.domain.job import Job
from tests.builders import a_configuration, a_request
from tests.sim.cluster import SimCluster

COOLDOWN_S = 60.0


def a_cluster(
    nodes: int = 4, *, cpus: int = 4, cooldown_s: float = COOLDOWN_S, **sections: Any
) -> SimCluster:
    """Scripts run for as long as the job's name says."""
    configuration = a_configuration(nodes, cpus=cpus, **sections)
    elastic = replace(configuration.elastic, grow_cooldown_s=cooldown_s)
    return SimCluster(replace(configuration, elastic=elastic), duration_of=lambda job: float(job.name))


def submit_elastic(
    cluster: SimCluster,
    least: int,
    most: int,
    *,
    mode: str = "restart",
    step: int = 0,
    seconds: int = 10_000,
    **changes: Any,
) -> JobId:
    request = a_request(
        least, nodes_max=most, tasks=least, tasks_follow_nodes=True, exclusive=True, nodes_step=step
    )
    return cluster.submit(name=str(seconds), request=request, elastic=mode, **changes)


def submit_rigid(cluster: SimCluster, nodes: int, *, seconds: int = 100, **changes: Any) -> JobId:
    return cluster.submit(name=str(seconds), request=a_request(nodes, exclusive=True), **changes)


def nodes_of(job: Job) -> list[str]:
    return [part.node for part in job.allocation]


def test_a_run_grows_when_its_neighbour_has_ended() -> None:
    cluster = a_cluster()
    submit_rigid(cluster, 2)
    job_id = submit_elastic(cluster, 2, 4)
    cluster.run(99)
    job = cluster.job(job_id)
    assert (job.run, nodes_of(job)) == (1, ["n3", "n4"])
    cluster.run(2)
    assert (job.run, job.state.value) == (2, "RUNNING")
    assert set(nodes_of(cluster.job(job_id))) == {"n1", "n2", "n3", "n4"}
    assert job.requeues == {"resize": 1}
    assert job.restart_reason == "resize"
