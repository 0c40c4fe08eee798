"""Run times of similar jobs, the service that a job had, and an operator's factor."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cluster import history
from minislurm.cluster.history import History
from minislurm.cluster.snapshot import snapshot
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import JobId
from minislurm.domain.job import EndCause, Job
from tests.builders import a_configuration, a_request, a_spec
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import cancel, requeue, running, update


def a_run(name: str = "a", seconds: float = 10.0, end: float = 100.0, **changes: Any) -> Job:
    spec = a_spec(name, request=changes.pop("request", a_request()))
    job = Job(JobId(1), spec, name=name, start_time=end - seconds, end_cause=EndCause.EXIT)
    return replace(job, **changes)


def a_cluster(**scheduler: Any) -> SimCluster:
    """One CPU; scripts run for as long as the job's comment says."""
    configuration = a_configuration(1, cpus=1)
    settings = replace(configuration.scheduler, **scheduler)
    return SimCluster(
        replace(configuration, scheduler=settings), duration_of=lambda job: float(job.comment or 10)
    )


# The history


def test_the_mean_of_the_last_two_of_the_same_name() -> None:
    found = History()
    for seconds in (1000, 10, 30):
        found.note(a_run("a", seconds), 100)
    found.note(a_run("b", 500), 100)
    assert found.expected_s(1000, "a", a_request(), 0) == 20
    assert found.expected_s(1000, "a", a_request(), 15) == 15, "within the limit"


def test_else_those_of_the_same_size_and_else_nothing() -> None:
    found = History()
    found.note(a_run("a", 10, request=a_request(2)), 100)
    assert found.expected_s(1000, "new", a_request(2), 60) == 10
    assert found.expected_s(1000, "new", a_request(3), 60) == 0
    assert found.expected_s(1000, "new", a_request(2, gpus_per_node=1), 60) == 0
    assert found.expected_s(1001, "a", a_request(2), 60) == 0, "another user's"


@pytest.mark.parametrize("cause", [EndCause.CANCEL, EndCause.NODE_FAIL, EndCause.REQUEUE])
def test_a_run_that_was_cut_off_says_nothing(cause: EndCause) -> None:
    found = History()
    found.note(a_run(end_cause=cause), 100)
    assert not found.records
    found.note(a_run(end_cause=EndCause.TIME_LIMIT), 100)
    assert found.records


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_RECORDS", 20)
    found = History()
    for number in range(60):
        found.note(a_run(f"j{number}", end=1000.0 + number), 1000.0 + number)
        assert len(found.records) <= 20
    assert (1000, "name j59") in found.records
    assert (1000, "name j0") not in found.records
    assert found.expected_s(1000, "j0", a_request(), 0) == 10, "the size has just been seen"


def test_sjf_goes_by_what_the_user_did_before() -> None:
    """Both ask for an hour; one of them always takes two seconds."""
    cluster = a_cluster(order="sjf", sjf_by="history")
    for name, seconds in (("long", "50"), ("short", "2")):
        cluster.submit(name=name, comment=seconds, time_limit_s=3600)
        cluster.run(60)
    cluster.submit(name="other", comment="20", time_limit_s=3600)
    cluster.run(1)
    long, short = (
        cluster.submit(name=name, comment=seconds, time_limit_s=3600)
        for name, seconds in (("long", "50"), ("short", "2"))
    )
    cluster.run(20)
    assert running(cluster) == {short}
    cluster.run(5)
    assert running(cluster) == {long}


def test_what_ends_meanwhile_counts_for_those_that_wait() -> None:
    cluster = a_cluster(order="sjf", sjf_by="history")
    cluster.submit(name="a", comment="5", time_limit_s=3600)
    cluster.run(1)
    waiting = cluster.submit(name="a", comment="5", time_limit_s=3600, request=a_request(1, nodes_max=2))
    assert [jobs.expected_s for jobs in snapshot(cluster.state, cluster.now).classes] == [0.0]
    update(cluster, waiting, nice=1)  # b goes before it
    cluster.submit(name="b", comment="100", time_limit_s=3600)
    cluster.run(7)
    found = {jobs.jobs[0].job_id: jobs.expected_s for jobs in snapshot(cluster.state, cluster.now).classes}
    assert found == {waiting: pytest.approx(5, abs=0.5)}


def test_names_make_no_classes_where_nobody_asks_for_them() -> None:
    for by, count in (("limit", 1), ("history", 2)):
        cluster = a_cluster(order="sjf", sjf_by=by)
        for name in ("busy", "a", "b"):
            cluster.submit(name=name)
            cluster.run(0.5)
        assert len(cluster.state.queue.classes) == count


# Attained service


def test_a_requeued_job_keeps_what_it_had_and_falls() -> None:
    cluster = a_cluster(order="mlfq", mlfq_levels="5", mlfq_promote=0.0)
    first = cluster.submit(comment="100")
    cluster.run(10)
    second = cluster.submit(comment="20")
    requeue(cluster, first, by=OPERATOR)
    cluster.run(5)
    assert running(cluster) == {second}
    job = cluster.job(first)
    assert job.attained_time_s == pytest.approx(10, abs=0.5)
    assert job.attained_service_s == pytest.approx(10, abs=0.5)
    cluster.run(20)
    assert running(cluster) == {first}
    requeue(cluster, first, by=OPERATOR)
    cluster.run(1)
    assert cluster.job(first).attained_time_s > 10.5, "over all its runs"


def test_service_is_of_gpus_where_there_are_any() -> None:
    configuration = a_configuration(2, cpus=8, gpus=4)
    cluster = SimCluster(configuration, duration_of=lambda job: 10.0)
    gpu_job = cluster.submit(request=a_request(2, gpus_per_node=3, cpus_per_task=2))
    cpu_job = cluster.submit(request=a_request(2, cpus_per_task=3))
    cluster.run(20)
    service = [cluster.job(job_id).attained_service_s for job_id in (gpu_job, cpu_job)]
    assert service == [pytest.approx(60, rel=0.05), pytest.approx(60, rel=0.05)]


# Site factor


def test_only_an_operator_sets_the_site_factor() -> None:
    cluster = a_cluster()
    cluster.submit(comment="5")
    cluster.run(1)
    late, later = cluster.submit(), cluster.submit()
    assert update(cluster, later, site_factor=10) is RefusalCode.ACCESS
    assert update(cluster, later, by=OPERATOR, site_factor=10) is None
    cluster.run(6)
    assert running(cluster) == {later}
    assert cancel(cluster, late) is None
