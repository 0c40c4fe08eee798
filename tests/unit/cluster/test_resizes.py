"""Elastic jobs on the simulated cluster: what their runs get, when, and what they give back."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from minislurm.cluster.effects import Effect, EndRun
from minislurm.domain.ids import JobId, NodeName
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


# In place


def test_nodes_join_and_leave_a_run_that_goes_on() -> None:
    cluster = a_cluster()
    submit_rigid(cluster, 2)
    job_id = submit_elastic(cluster, 2, 4, mode="in-place")
    cluster.run(102)
    job = cluster.job(job_id)
    assert (job.run, job.state.value, nodes_of(job)) == (1, "RUNNING", ["n3", "n4", "n1", "n2"])
    assert cluster.nodes[NodeName("n3")].told == [(job_id, 1)]
    rigid = submit_rigid(cluster, 2)
    cluster.run(1)
    assert cluster.job(rigid).state.value == "RUNNING"
    assert (job.run, nodes_of(job), job.requeues) == (1, ["n3", "n4"], {})
    cluster.run(200)
    assert len(job.allocation) == 4


def test_a_node_that_does_not_get_ready_does_not_join() -> None:
    cluster = a_cluster(5)
    submit_rigid(cluster, 3)
    job_id = submit_elastic(cluster, 2, 5, mode="in-place")
    cluster.run(50)
    cluster.nodes[NodeName("n1")].answers = False
    cluster.run(52)
    job = cluster.job(job_id)
    assert len(job.joining) == 3
    timeout = cluster.state.configuration.timers.prepare_timeout_s
    cluster.run(timeout)
    assert (job.joining, nodes_of(job)) == ((), ["n4", "n5"])
    assert not cluster.state.nodes[NodeName("n2")].jobs, "the others are free again"
    cluster.run(COOLDOWN_S)
    assert nodes_of(job) == ["n4", "n5", "n2", "n3"], "it goes without the node that failed it"


def test_a_lost_node_is_done_without() -> None:
    cluster = a_cluster()
    job_id = submit_elastic(cluster, 2, 4, mode="in-place")
    cluster.run(10)
    job = cluster.job(job_id)
    cluster.kill_node("n3")
    cluster.declare_lost("n3")
    cluster.run(1)
    assert (job.run, job.state.value, nodes_of(job)) == (1, "RUNNING", ["n1", "n2", "n4"])
    assert job.resize_kind == "node_fail"
    cluster.kill_node("n1")
    cluster.declare_lost("n1")
    cluster.run(5)
    assert job.run == 2, "without its batch host it starts anew"


def test_below_its_minimum_it_starts_anew() -> None:
    cluster = a_cluster(3)
    job_id = submit_elastic(cluster, 3, 4, mode="in-place")
    cluster.run(10)
    cluster.kill_node("n3")
    cluster.declare_lost("n3")
    cluster.run(1)
    assert (cluster.job(job_id).state.value, cluster.job(job_id).requeues) == ("PENDING", {"node_fail": 1})


def test_a_controller_that_dies_while_nodes_join() -> None:
    cluster = a_cluster()
    submit_rigid(cluster, 2)
    job_id = submit_elastic(cluster, 2, 4, mode="in-place")
    cluster.run(100)
    while not cluster.job(job_id).joining:
        cluster.run(0.005)
    cluster.restart_controller()
    cluster.run(1)
    assert len(cluster.job(job_id).allocation) == 4
    assert cluster.job(job_id).run == 1
