"""Elastic jobs on the simulated cluster: what their runs get, when, and what they give back."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from minislurm.cluster.effects import Effect, EndRun
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job
from tests.builders import a_configuration, a_request
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import cancel

COOLDOWN_S = 60.0


class SlowCluster(SimCluster):
    """Runs take `slow_end_s` to end when they are told to."""

    slow_end_s = 0.0

    def perform(self, effect: Effect) -> None:
        if isinstance(effect, EndRun) and self.slow_end_s and not effect.kill and not self.lose_effects:
            self.later(self.slow_end_s, self._obey, effect)
        else:
            super().perform(effect)


def a_cluster(
    nodes: int = 4, *, cooldown_s: float = COOLDOWN_S, slow_end_s: float = 0.0, **sections: Any
) -> SlowCluster:
    """Scripts run for as long as the job's name says."""
    configuration = a_configuration(nodes, cpus=4, **sections)
    elastic = replace(configuration.elastic, grow_cooldown_s=cooldown_s)
    cluster = SlowCluster(replace(configuration, elastic=elastic), duration_of=lambda job: float(job.name))
    cluster.slow_end_s = slow_end_s
    return cluster


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


def test_a_job_that_waits_gets_what_was_lent() -> None:
    cluster = a_cluster()
    job_id = submit_elastic(cluster, 1, 4)
    cluster.run(1)
    rigid = submit_rigid(cluster, 2)
    cluster.run(1)
    job = cluster.job(job_id)
    assert (cluster.job(rigid).state.value, job.state.value) == ("RUNNING", "RUNNING")
    assert (len(job.allocation), job.run, job.requeues) == (2, 2, {"resize": 1})
    assert (job.resize_kind, job.resized_from) == ("shrink", 4)
    cluster.run(COOLDOWN_S + 120)
    assert len(job.allocation) == 4


def test_nobody_gets_more_than_is_lent() -> None:
    cluster = a_cluster()
    job_id = submit_elastic(cluster, 2, 4)
    cluster.run(1)
    rigid = submit_rigid(cluster, 3)
    cluster.run(1000)
    assert cluster.job(rigid).state.value == "PENDING"
    assert cluster.job(job_id).run == 1, "it gave nodes back for nobody"


def test_who_grows_does_not_grow_again_before_its_cooldown() -> None:
    cluster = a_cluster()
    for seconds in (100, 110):
        submit_rigid(cluster, 1, seconds=seconds)
    job_id = submit_elastic(cluster, 1, 4)
    cluster.run(105)
    assert len(cluster.job(job_id).allocation) == 3
    cluster.run(COOLDOWN_S - 6)
    assert len(cluster.job(job_id).allocation) == 3
    cluster.run(2)
    assert len(cluster.job(job_id).allocation) == 4


def test_sizes_go_in_steps() -> None:
    cluster = a_cluster(8)
    rigid = submit_rigid(cluster, 3, seconds=100)
    job_id = submit_elastic(cluster, 2, 8, step=2)
    doubling = a_cluster(8)
    submit_rigid(doubling, 3, seconds=100)
    doubled = submit_elastic(doubling, 2, 8, step=-1)
    cluster.run(1)
    doubling.run(1)
    assert len(cluster.job(job_id).allocation) == 4
    assert len(doubling.job(doubled).allocation) == 4
    cluster.run(200)
    assert cluster.job(rigid).state.is_final
    assert len(cluster.job(job_id).allocation) == 8
    submit_rigid(cluster, 3)
    cluster.run(1)
    assert len(cluster.job(job_id).allocation) == 4


def test_the_time_limit_goes_on_across_resizes() -> None:
    cluster = a_cluster()
    submit_rigid(cluster, 2, seconds=100)
    job_id = submit_elastic(cluster, 2, 4, time_limit_s=300.0)
    cluster.run(150)
    job = cluster.job(job_id)
    assert job.run == 2
    assert 299 < job.expected_end_time - cluster.now + 150 < 301
    cluster.run(151)
    assert job.state.value == "TIMEOUT"


def test_a_cancelled_job_does_not_come_back_and_frees_what_was_held() -> None:
    cluster = a_cluster(slow_end_s=10.0)
    submit_rigid(cluster, 2, seconds=100)
    job_id = submit_elastic(cluster, 2, 4)
    cluster.run_until(lambda: cluster.job(job_id).state.value == "COMPLETING")
    assert len(cluster.job(job_id).joining) == 2
    assert cancel(cluster, job_id) is None
    cluster.run(20)
    assert cluster.job(job_id).state.value == "CANCELLED"
    assert all(not node.jobs for node in cluster.state.nodes.values())
