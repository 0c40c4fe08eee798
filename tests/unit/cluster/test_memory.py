"""What is remembered, and for how long: ended jobs, request ids, stored scripts."""

from __future__ import annotations

from minislurm.cluster.messages import PurgeDue, RememberRequest
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import a_cluster, cancel, hold, requeue, task


def purge(cluster: SimCluster) -> None:
    cluster.tell(PurgeDue())


def test_ended_jobs_are_forgotten_when_old_enough() -> None:
    cluster = a_cluster(min_job_age_s=100.0)
    job_id = cluster.submit(name="5")
    cluster.run(100)
    purge(cluster)
    assert job_id in cluster.state.jobs
    cluster.run(10)
    purge(cluster)
    assert job_id not in cluster.state.jobs
    assert not cluster.state.ended


def test_ids_go_on_after_a_purge() -> None:
    cluster = a_cluster(min_job_age_s=1.0)
    last = [cluster.submit(name="1") for _ in range(3)][-1]
    cluster.run(20)
    purge(cluster)
    assert not cluster.state.jobs
    cluster.restart_controller()
    assert cluster.submit() == last + 1


def test_what_waits_or_runs_is_never_forgotten() -> None:
    cluster = a_cluster(min_job_age_s=1.0)
    running, held = cluster.submit(name="1000"), cluster.submit()
    hold(cluster, held)
    cluster.run(100)
    purge(cluster)
    assert set(cluster.state.jobs) == {running, held}


def test_a_requeued_job_is_not_forgotten() -> None:
    cluster = a_cluster(min_job_age_s=10.0)
    job_id = cluster.submit(name="5")
    cluster.run(12)
    requeue(cluster, job_id, hold=True)
    cluster.run(50)
    purge(cluster)
    assert job_id in cluster.state.jobs


def test_an_array_is_forgotten_with_its_last_record() -> None:
    cluster = a_cluster(1, cpus=1, min_job_age_s=10.0)
    array = cluster.submit(name="8", array_tasks=(0, 1))
    cluster.run(20)
    first = task(cluster, array, 0).id
    purge(cluster)
    assert first not in cluster.state.jobs
    assert array in cluster.state.arrays
    assert cluster.state.arrays[array].ended_tasks == {0: "COMPLETED", 1: "COMPLETED"}
    cluster.run(20)
    purge(cluster)
    assert not cluster.state.arrays
    assert not cluster.state.tasks


def test_request_ids_are_forgotten_when_old_enough() -> None:
    cluster = a_cluster(request_memory_s=100.0)
    cluster.tell(RememberRequest("abc"))
    cluster.run(99)
    purge(cluster)
    assert "abc" in cluster.state.requests
    cluster.run(2)
    purge(cluster)
    assert "abc" not in cluster.state.requests


def test_a_purge_with_nothing_to_do_writes_nothing() -> None:
    cluster = a_cluster()
    cluster.submit()
    before = len(cluster.journal)
    purge(cluster)
    assert len(cluster.journal) == before


def test_scripts_are_counted_by_the_jobs_that_use_them() -> None:
    cluster = a_cluster(min_job_age_s=1.0)
    one = cluster.submit(script_hash="a", environment_hash="e", hold=True)
    cluster.submit(script_hash="a", environment_hash="", hold=True)
    array = cluster.submit(script_hash="b", array_tasks=(0, 1, 2), hold=True)
    assert cluster.state.blob_uses == {"a": 2, "e": 1, "b": 1}
    cancel(cluster, array, 1)
    assert cluster.state.blob_uses["b"] == 2
    cancel(cluster, one)
    cancel(cluster, array)
    cluster.run(5)
    purge(cluster)
    assert cluster.state.blob_uses == {"a": 1}
