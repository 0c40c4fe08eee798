"""Elastic jobs on the simulated cluster: what their runs get, when, and what they give back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cluster.effects import Effect, EndRun
from minislurm.cluster.explanation import explanation
from minislurm.cluster.messages import CheckpointListener, CheckpointMade
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.domain.job import Job
from minislurm.scheduling.work import finished
from tests.builders import a_configuration, a_request
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import cancel, operate, refused_submission, update

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


# Its bounds are changed


@pytest.mark.parametrize("mode", ["restart", "in-place"])
def test_an_update_lowers_and_raises_the_most(mode: str) -> None:
    cluster = a_cluster()
    job_id = submit_elastic(cluster, 2, 4, mode=mode)
    cluster.run(1)
    assert update(cluster, job_id, nodes_min=3, nodes_max=3) is None
    cluster.run(1)
    job = cluster.job(job_id)
    assert nodes_of(job) == ["n1", "n2", "n3"]
    assert job.resize_kind == "update"
    cluster.run(1000)
    assert len(job.allocation) == 3, "it does not grow beyond what it may have"
    assert update(cluster, job_id, nodes_min=2, nodes_max=4) is None
    cluster.run(1)
    assert len(cluster.job(job_id).allocation) == 4


def test_a_rigid_run_keeps_its_size() -> None:
    cluster = a_cluster()
    rigid = submit_rigid(cluster, 2)
    job_id = submit_elastic(cluster, 1, 2)
    cluster.run(1)
    assert update(cluster, rigid, nodes_min=1, nodes_max=1) is RefusalCode.JOB_NOT_PENDING
    assert update(cluster, job_id, nodes_min=3, nodes_max=4) is RefusalCode.INVALID_NODE_COUNT


# What may be elastic


@pytest.mark.parametrize(
    "changes",
    [
        {"elastic": "sometimes"},
        {"is_batch": False},
        {"elastic_signal": 10},
        {"request": a_request(2)},
        {"request": a_request(2, nodes_max=4, tasks=8)},
        {"request": a_request(2, nodes_max=3, tasks_follow_nodes=True, nodes_step=2)},
        {"request": a_request(2, nodes_max=4, tasks_follow_nodes=True, required_nodes=("n1",))},
        {"request": a_request(2, nodes_max=4, tasks_follow_nodes=True, features="[a|b]")},
    ],
)
def test_what_cannot_be_elastic_is_refused(changes: dict[str, Any]) -> None:
    cluster = a_cluster()
    wanted = {"request": a_request(2, nodes_max=4, tasks_follow_nodes=True), "elastic": "restart", **changes}
    assert refused_submission(cluster, **wanted).code is RefusalCode.INVALID_ELASTIC


# What is held, charged and counted


def test_who_comes_while_a_run_ends_to_grow_gets_what_is_held_for_it() -> None:
    cluster = a_cluster(slow_end_s=20.0)
    submit_rigid(cluster, 2, seconds=100)
    job_id = submit_elastic(cluster, 2, 4)
    cluster.run_until(lambda: cluster.job(job_id).state.value == "COMPLETING")
    rigid = submit_rigid(cluster, 1, seconds=10)
    cluster.run(1)
    assert cluster.job(rigid).state.value == "RUNNING"
    cluster.run(25)
    job = cluster.job(job_id)
    assert (len(job.allocation), job.requeues) == (3, {"resize": 1})


def test_a_larger_job_is_not_given_what_is_held() -> None:
    cluster = a_cluster(slow_end_s=20.0)
    submit_rigid(cluster, 2, seconds=100)
    job_id = submit_elastic(cluster, 2, 4)
    cluster.run_until(lambda: cluster.job(job_id).state.value == "COMPLETING")
    submit_rigid(cluster, 3, seconds=10)
    cluster.run(25)
    assert len(cluster.job(job_id).allocation) == 4


def test_what_is_kept_and_lost_meanwhile_is_done_without() -> None:
    cluster = a_cluster(slow_end_s=20.0)
    submit_rigid(cluster, 2, seconds=100)
    job_id = submit_elastic(cluster, 1, 4)
    cluster.run_until(lambda: cluster.job(job_id).state.value == "COMPLETING")
    for name in ("n1", "n4"):  # one that was to join, one that it had
        cluster.kill_node(name)
        cluster.declare_lost(name)
    cluster.run(25)
    job = cluster.job(job_id)
    assert (job.state.value, nodes_of(job)) == ("RUNNING", ["n3", "n2"])


def test_service_is_counted_by_what_was_held_when() -> None:
    cluster = a_cluster()
    submit_rigid(cluster, 2, seconds=100)
    job_id = submit_elastic(cluster, 2, 4, mode="in-place")
    cluster.run(200)
    assert cancel(cluster, job_id) is None
    cluster.run(1)
    job = cluster.job(job_id)
    assert job.attained_time_s == pytest.approx(200, abs=1)
    # Two nodes of 4 CPUs for half of the time, then four.
    assert job.attained_service_s == pytest.approx(100 * 8 + 100 * 16, rel=0.01)


# Nodes are lost


def test_a_run_that_loses_a_node_starts_anew_at_once_on_the_others() -> None:
    cluster = a_cluster()
    job_id = submit_elastic(cluster, 2, 4, requeue=True)
    cluster.run(10)
    rigid = submit_rigid(cluster, 4, seconds=10)
    cluster.kill_node("n2")
    cluster.declare_lost("n2")
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state.value, job.run, nodes_of(job)) == ("RUNNING", 2, ["n1", "n3", "n4"])
    assert (job.requeues, job.restart_reason) == ({"node_fail": 1}, "node_fail")
    assert cluster.job(rigid).state.value == "PENDING", "nobody came between"


def test_below_its_minimum_a_run_waits_like_any_other() -> None:
    cluster = a_cluster(3)
    job_id = submit_elastic(cluster, 3, 4, requeue=True)
    cluster.run(10)
    cluster.kill_node("n2")
    cluster.declare_lost("n2")
    cluster.run(1)
    assert cluster.job(job_id).state.value == "PENDING"
    assert all(not node.jobs for node in cluster.state.nodes.values())


def test_a_grown_run_that_cannot_start_on_a_new_node_starts_without_it() -> None:
    cluster = a_cluster()
    submit_rigid(cluster, 2)
    job_id = submit_elastic(cluster, 2, 4)
    cluster.run(50)
    cluster.nodes[NodeName("n1")].answers = False
    cluster.run(51 + cluster.state.configuration.timers.prepare_timeout_s)
    job = cluster.job(job_id)
    assert (job.state.value, set(nodes_of(job))) == ("RUNNING", {"n2", "n3", "n4"})
    assert job.requeues == {"resize": 1, "launch_failure": 1}
    cluster.run(COOLDOWN_S + 10)
    assert len(job.allocation) == 3, "the node that failed it is not tried again"


# Why it does not grow


def told(cluster: SlowCluster, job_id: JobId) -> str:
    said = finished(explanation(cluster.state, cluster.job(job_id), cluster.now))
    return " ".join(said.sentences)


def test_it_says_why_it_does_not_grow() -> None:
    cluster = a_cluster(5, slow_end_s=5.0)
    submit_rigid(cluster, 2, seconds=100)
    job_id = submit_elastic(cluster, 1, 4)
    cluster.run(1)
    assert "it has 3 of 1 to 4 nodes" in told(cluster, job_id)
    assert "It does not grow before" in told(cluster, job_id)
    cluster.run(COOLDOWN_S)
    assert "It does not grow. No node that it may use is free" in told(cluster, job_id)
    cluster.run_until(lambda: cluster.job(job_id).state.value == "COMPLETING")
    assert "It is about to get n1." in told(cluster, job_id)
    cluster.run(10)
    assert "from 3 nodes, into nodes that were idle." in told(cluster, job_id)
    assert "it has as many as it may have" in told(cluster, job_id)


# Nodes that are not heard of for a while, and nodes that come back


def test_a_node_that_is_silent_when_the_next_run_begins_gets_its_time_to_answer() -> None:
    """As after a restart of the controller, when none has been heard of."""
    cluster = a_cluster(slow_end_s=5.0)
    submit_rigid(cluster, 2, seconds=100)
    job_id = submit_elastic(cluster, 2, 4)
    cluster.run_until(lambda: cluster.job(job_id).state.value == "COMPLETING")
    cluster.cut_off("n1")
    cluster.run(6)
    assert (cluster.job(job_id).state.value, len(cluster.job(job_id).allocation)) == ("CONFIGURING", 4)
    cluster.register("n1")
    cluster.run(1)
    assert cluster.job(job_id).state.value == "RUNNING"


def test_nodes_that_do_not_join_are_drained_and_tried_again_when_they_come_anew() -> None:
    cluster = a_cluster(2)
    submit_rigid(cluster, 1)
    job_id = submit_elastic(cluster, 1, 2, mode="in-place")
    cluster.run(50)
    cluster.state.nodes[NodeName("n1")].launch_failures = 2
    cluster.nodes[NodeName("n1")].answers = False
    cluster.run(51 + cluster.state.configuration.timers.prepare_timeout_s)
    node = cluster.state.nodes[NodeName("n1")]
    assert (node.drained, node.reason) == (True, f"3 launches in a row failed, the last of job {job_id}")
    cluster.nodes[NodeName("n1")].answers = True
    cluster.register("n1")
    assert operate(cluster, "n1", "RESUME") is None
    cluster.run(COOLDOWN_S + 1)
    assert nodes_of(cluster.job(job_id)) == ["n2", "n1"]


def test_no_requeue_and_restarts_contradict_each_other() -> None:
    request = a_request(1, nodes_max=2, tasks_follow_nodes=True)
    refused = refused_submission(a_cluster(), request=request, elastic="restart", requeue=False)
    assert refused.code is RefusalCode.INVALID_ELASTIC


# Jobs that can save when they are asked


def a_saving_run(cluster: SlowCluster, *, most: int = 4) -> JobId:
    """It listens, and saves when it is told to (`save`)."""
    job_id = submit_elastic(cluster, 2, most)
    cluster.run(1)
    assert cluster.tell(CheckpointListener(job_id, RunNumber(1))).refusal is None
    return job_id


def save(cluster: SlowCluster, job_id: JobId) -> None:
    job = cluster.job(job_id)
    made = Checkpoint(job.run, "/saved", time=cluster.now)
    cluster.tell(CheckpointMade(job_id, job.run, made, answers=job.checkpoint_requested))


def test_a_run_is_asked_to_save_before_it_restarts() -> None:
    cluster = a_cluster()
    submit_rigid(cluster, 2, seconds=100)
    job_id = a_saving_run(cluster)
    cluster.run(101)
    job = cluster.job(job_id)
    assert (job.state.value, job.run, job.checkpoint_reason) == ("RUNNING", 1, "resize")
    assert len(job.joining) == 2, "nobody else gets them"
    save(cluster, job_id)
    cluster.run(1)
    assert (job.state.value, job.run, len(job.allocation)) == ("RUNNING", 2, 4)
    assert (job.requeues, job.preemptor) == ({"resize": 1}, 0)


def test_one_that_does_not_save_restarts_at_its_deadline() -> None:
    cluster = a_cluster()
    submit_rigid(cluster, 2, seconds=100)
    job_id = a_saving_run(cluster)
    cluster.run(101 + cluster.state.configuration.preemption.checkpoint_grace_s)
    job = cluster.job(job_id)
    assert (job.state.value, job.run, len(job.allocation)) == ("RUNNING", 2, 4)


def test_it_goes_on_when_whoever_it_was_asked_for_has_gone() -> None:
    cluster = a_cluster()
    job_id = a_saving_run(cluster)
    rigid = submit_rigid(cluster, 1)
    cluster.run(0.5)
    job = cluster.job(job_id)
    assert (job.state.value, job.leaving) == ("RUNNING", ("n4",))
    assert cancel(cluster, rigid) is None
    cluster.run(100)
    assert (job.state.value, job.run, len(job.allocation), job.leaving) == ("RUNNING", 1, 4, ())


def test_who_comes_while_it_saves_to_grow_gets_what_is_held_and_it_goes_on() -> None:
    cluster = a_cluster()
    submit_rigid(cluster, 2, seconds=100)
    job_id = a_saving_run(cluster)
    cluster.run(101)
    rigid = submit_rigid(cluster, 2, seconds=10)
    cluster.run(1)
    job = cluster.job(job_id)
    assert cluster.job(rigid).state.value == "RUNNING"
    assert (job.state.value, job.run, job.gives_way, job.is_resizing) == ("RUNNING", 1, False, False)


def test_nodes_that_are_lost_while_it_saves() -> None:
    cluster = a_cluster()
    submit_rigid(cluster, 2, seconds=100)
    job_id = a_saving_run(cluster)
    cluster.run(101)
    cluster.kill_node("n1")  # held for its next run
    cluster.declare_lost("n1")
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.run, [part.node for part in job.joining]) == (1, ["n2"])
    cluster.kill_node("n4")  # its own
    cluster.declare_lost("n4")
    cluster.run(1)
    assert (job.state.value, job.run, nodes_of(job)) == ("RUNNING", 2, ["n3", "n2"])
