"""What a scheduling pass is shown of the state."""

from __future__ import annotations

from minislurm.cluster.snapshot import snapshot
from minislurm.domain.ids import NodeName
from tests.builders import a_request
from tests.unit.cluster.acting import a_cluster, cancel


def test_a_run_that_is_ending_holds_only_what_it_has_not_let_go() -> None:
    """Counted as held and as free, a node would seem to have room for two."""
    cluster = a_cluster(2, cpus=4)
    job_id = cluster.submit(request=a_request(2, tasks=8), name="500", time_limit_s=1000.0)
    cluster.run(1)
    (running,) = snapshot(cluster.state, cluster.now).running
    assert [part.node for part in running.allocation] == ["n1", "n2"]
    assert running.end_time == cluster.job(job_id).start_time + 1000
    cluster.cut_off("n2")
    cancel(cluster, job_id)
    cluster.run(5)
    taken = snapshot(cluster.state, cluster.now)
    (ending,) = taken.running
    assert [part.node for part in ending.allocation] == ["n2"]
    assert ending.end_time <= cluster.now, "it is about to let go"
    free = {node.name: node.cpus_free.bit_count() for node in taken.nodes}
    assert free == {"n1": 4, "n2": 0}


def test_a_snapshot_stays_true_while_the_state_goes_on() -> None:
    cluster = a_cluster(1, cpus=1)
    cluster.submit(name="5", array_tasks=(0, 1, 2))
    waiting = cluster.submit()
    taken = snapshot(cluster.state, cluster.now)
    queued = [job.job_id for klass in taken.classes for job in klass.jobs]
    assert waiting in queued
    cluster.run(3)
    cancel(cluster, waiting)
    assert [job.job_id for klass in taken.classes for job in klass.jobs] == queued
    (node,) = taken.nodes
    assert node.cpus_free == 1


def test_nodes_that_may_not_be_used_are_marked() -> None:
    cluster = a_cluster(2)
    cluster.kill_node("n2")
    usable = {node.name: node.usable for node in snapshot(cluster.state, cluster.now).nodes}
    assert usable == {NodeName("n1"): True, NodeName("n2"): False}
