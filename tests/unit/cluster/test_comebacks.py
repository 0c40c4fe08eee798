"""When a job comes back, for which cause, and when it has done so too often."""

from __future__ import annotations

import pytest

from minislurm.cluster.messages import NodeReport, RunReport
from minislurm.domain.comebacks import parse_requeue_limits
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.states import JobState
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import a_cluster, release, state_of

N1 = NodeName("n1")


def started(cluster: SimCluster, **changes: object) -> JobId:
    job_id = cluster.submit(name="500", **changes)
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"
    return job_id


def fail(cluster: SimCluster, job_id: JobId, code: int = 1) -> None:
    """Its script exits."""
    job = cluster.job(job_id)
    cluster.nodes[N1].runs.clear()
    cluster.tell(NodeReport(N1, RunReport(job_id, job.run, "EXITED", code), clean=True))
    cluster.run(1)


def lose(cluster: SimCluster) -> None:
    cluster.kill_node("n1")
    cluster.declare_lost("n1")
    cluster.register("n1")
    cluster.run(1)


def test_limits_are_read() -> None:
    assert parse_requeue_limits("node_fail:5, preempt:20") == {"node_fail": 5, "preempt": 20}
    assert parse_requeue_limits("") == {}


@pytest.mark.parametrize(
    "text", ["node_fail", "node_fail:", "bogus:1", "node_fail:-1", "node_fail:x", "user:3"]
)
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(ValueError, match="causes are"):
        parse_requeue_limits(text)


def test_a_job_over_its_limit_is_held_and_says_why() -> None:
    cluster = a_cluster(1)
    job_id = started(cluster, max_requeues={"node_fail": 2})
    for _ in range(2):
        lose(cluster)
        assert state_of(cluster, job_id) == "RUNNING"
    lose(cluster)
    job = cluster.job(job_id)
    assert (job.state, job.held, job.run) == (JobState.PENDING, "user", 3)
    assert cluster.reason(job_id) == "JobHoldMaxRequeue"
    assert release(cluster, job_id) is None
    cluster.run(1)
    assert (state_of(cluster, job_id), cluster.job(job_id).run) == ("RUNNING", 4)


def test_a_limit_of_one_cause_says_nothing_of_another() -> None:
    cluster = a_cluster(1)
    job_id = started(cluster, max_requeues={"node_fail": 0, "task_fail": 9}, on_task_fail="requeue")
    for _ in range(5):
        fail(cluster, job_id)
    assert (state_of(cluster, job_id), cluster.job(job_id).requeues) == ("RUNNING", {"task_fail": 5})
    lose(cluster)
    assert cluster.reason(job_id) == "JobHoldMaxRequeue"


def test_the_cluster_has_limits_for_who_says_nothing() -> None:
    """A job that kills its nodes does not go round for ever."""
    cluster = a_cluster(1)
    job_id = started(cluster)
    for _ in range(11):
        lose(cluster)
    assert cluster.job(job_id).requeues == {"node_fail": 11}
    assert cluster.reason(job_id) == "JobHoldMaxRequeue"


@pytest.mark.parametrize(
    ("action", "state", "held"),
    [("end", "NODE_FAIL", ""), ("requeue", "RUNNING", ""), ("hold", "PENDING", "user")],
)
def test_what_becomes_of_a_job_that_lost_a_node(action: str, state: str, held: str) -> None:
    cluster = a_cluster(1)
    job_id = started(cluster, on_node_fail=action)
    lose(cluster)
    assert (state_of(cluster, job_id), cluster.job(job_id).held) == (state, held)


@pytest.mark.parametrize(
    ("action", "state"), [("", "FAILED"), ("end", "FAILED"), ("requeue", "RUNNING"), ("hold", "PENDING")]
)
def test_what_becomes_of_a_job_whose_script_fails(action: str, state: str) -> None:
    cluster = a_cluster(1)
    job_id = started(cluster, on_task_fail=action)
    fail(cluster, job_id)
    assert state_of(cluster, job_id) == state
    if state == "RUNNING":
        assert cluster.job(job_id).restart_reason == "task_fail"


def test_a_script_that_ends_well_is_not_run_again() -> None:
    cluster = a_cluster(1)
    job_id = started(cluster, on_task_fail="requeue", requeue_on_timeout=True)
    fail(cluster, job_id, 0)
    assert state_of(cluster, job_id) == "COMPLETED"


def test_a_long_training_goes_on_across_time_limits() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(name="500", time_limit_s=100.0, requeue_on_timeout=True)
    cluster.run(350)
    job = cluster.job(job_id)
    assert (job.state, job.requeues, job.restart_reason) == (JobState.RUNNING, {"timeout": 3}, "timeout")


def test_without_it_the_limit_ends_a_job() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(name="500", time_limit_s=100.0)
    cluster.run(150)
    assert state_of(cluster, job_id) == "TIMEOUT"


def test_a_job_that_may_not_be_requeued_is_not() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(name="500", time_limit_s=100.0, requeue_on_timeout=True, requeue=False)
    cluster.run(150)
    assert state_of(cluster, job_id) == "TIMEOUT"
