"""--deadline and --max-wait: a job that would start too late ends, at the moment when that is certain."""

from __future__ import annotations

import pytest

from minislurm.domain.errors import RefusalCode
from tests.builders import a_request
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import (
    a_cluster,
    after,
    hold,
    refused_submission,
    release,
    requeue,
    state_of,
    submit_after,
    update,
)


def full(cluster: SimCluster, seconds: int = 1000) -> int:
    """A job that keeps the only node busy for so long."""
    job = cluster.submit(name=str(seconds), request=a_request(exclusive=True))
    cluster.run(1)
    return job


def outcome(cluster: SimCluster, job_id: int) -> tuple[str, str]:
    return state_of(cluster, job_id), cluster.job(job_id).reason.value


def test_a_job_ends_when_it_can_no_longer_be_over_in_time() -> None:
    cluster = a_cluster(1)
    full(cluster)
    job = cluster.submit(deadline=cluster.now + 600, time_limit_s=500.0)
    cluster.run(99)
    assert state_of(cluster, job) == "PENDING"
    cluster.run(2)
    assert outcome(cluster, job) == ("DEADLINE", "DeadLine")
    assert cluster.job(job).end_time == pytest.approx(1_000_101.0)


@pytest.mark.parametrize("limit", [500.0, 0.0])
def test_a_job_that_can_starts(limit: float) -> None:
    cluster = a_cluster(1)
    job = cluster.submit(deadline=cluster.now + 600, time_limit_s=limit)
    cluster.run(5)
    assert state_of(cluster, job) == "RUNNING"


def test_one_that_never_could_ends_at_once() -> None:
    cluster = a_cluster(1)
    too_long = cluster.submit(deadline=cluster.now + 600, time_limit_s=601.0)
    late = cluster.submit(deadline=cluster.now + 600, time_limit_s=100.0, begin_time=cluster.now + 501)
    held = cluster.submit(deadline=cluster.now + 600, time_limit_s=700.0, hold=True)
    cluster.run(0.1)
    assert {outcome(cluster, job) for job in (too_long, late, held)} == {("DEADLINE", "DeadLine")}


def test_a_run_without_a_limit_is_ended_by_its_deadline() -> None:
    cluster = a_cluster(1)
    job = cluster.submit(name="1000", deadline=cluster.now + 60, time_limit_s=0.0)
    cluster.run(62)
    assert outcome(cluster, job) == ("DEADLINE", "DeadLine")


def test_a_deadline_may_change() -> None:
    cluster = a_cluster(1)
    full(cluster)
    job = cluster.submit(deadline=cluster.now + 60, time_limit_s=50.0)
    assert update(cluster, job, deadline=cluster.now - 1) is RefusalCode.INVALID_TIME_LIMIT
    assert update(cluster, job, deadline=cluster.now + 500) is None
    cluster.run(400)
    assert state_of(cluster, job) == "PENDING"
    assert update(cluster, job, deadline=0.0) is None
    cluster.run(200)
    assert state_of(cluster, job) == "PENDING"


@pytest.mark.parametrize("deadline", [-1.0, 1.0, float("nan"), float("inf")])
def test_a_deadline_that_is_none_is_refused(deadline: float) -> None:
    assert refused_submission(a_cluster(), deadline=deadline).code is RefusalCode.INVALID_TIME_LIMIT


def test_waiting_has_an_end() -> None:
    cluster = a_cluster(1)
    full(cluster)
    job = cluster.submit(max_wait_s=30.0)
    array = cluster.submit(max_wait_s=30.0, array_tasks=(0, 1))
    cluster.run(29)
    assert state_of(cluster, job) == "PENDING"
    cluster.run(2)
    assert outcome(cluster, job) == outcome(cluster, array) == ("DEADLINE", "MaxWait")


def test_only_the_time_in_which_it_could_start_counts() -> None:
    cluster = a_cluster(1)
    first = full(cluster, 100)
    dependent = submit_after(cluster, after("afterany", first), max_wait_s=30.0)
    held = cluster.submit(max_wait_s=30.0, request=a_request(exclusive=True))
    hold(cluster, held)
    cluster.run(90)
    assert (state_of(cluster, dependent), state_of(cluster, held)) == ("PENDING", "PENDING")
    cluster.run(12)
    assert state_of(cluster, dependent) in ("RUNNING", "COMPLETED")
    full(cluster)
    release(cluster, held)
    cluster.run(29)
    assert state_of(cluster, held) == "PENDING"
    cluster.run(2)
    assert outcome(cluster, held) == ("DEADLINE", "MaxWait")


def test_a_job_that_started_is_not_ended_and_waits_anew_after_a_requeue() -> None:
    cluster = a_cluster(1)
    job = cluster.submit(name="1000", max_wait_s=30.0, requeue=True, request=a_request(exclusive=True))
    cluster.run(100)
    assert state_of(cluster, job) == "RUNNING"
    blocker = cluster.submit(request=a_request(exclusive=True), name="1000")
    requeue(cluster, job)
    cluster.run(20)
    assert (state_of(cluster, blocker), state_of(cluster, job)) == ("RUNNING", "PENDING")
    cluster.run(20)
    assert outcome(cluster, job) == ("DEADLINE", "MaxWait")


def test_a_restart_asks_for_the_timers_again() -> None:
    cluster = a_cluster(1)
    full(cluster)
    waiting, due = (
        cluster.submit(max_wait_s=30.0),
        cluster.submit(deadline=cluster.now + 100, time_limit_s=60.0),
    )
    cluster.restart_controller()
    cluster.run(45)
    assert outcome(cluster, waiting) == ("DEADLINE", "MaxWait")
    assert outcome(cluster, due) == ("DEADLINE", "DeadLine")
