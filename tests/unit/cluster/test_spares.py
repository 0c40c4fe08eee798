"""Spare nodes take the place of lost ones at once, and nobody takes them in between."""

from __future__ import annotations

import pytest

from minislurm.cluster.messages import NodeGivenUp, NodeReport, NodeSilent, PrepareFailed, RunReport
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.states import JobState
from tests.builders import a_request
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import a_cluster, cancel, operate, refused_submission, state_of


def nodes_of(cluster: SimCluster, job_id: JobId) -> list[str]:
    return [str(part.node) for part in cluster.job(job_id).allocation]


def spares_of(cluster: SimCluster, job_id: JobId) -> list[str]:
    return [str(part.node) for part in cluster.job(job_id).spares]


def a_gang(cluster: SimCluster, nodes: int = 3, spares: int = 1, **changes: object) -> JobId:
    request = a_request(nodes, exclusive=True)
    job_id = cluster.submit(request=request, name="500", spare_nodes=spares, **changes)
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"
    return job_id


def lose(cluster: SimCluster, name: str) -> None:
    cluster.kill_node(name)
    cluster.tell(NodeSilent(NodeName(name), lost=True))
    cluster.run(1)
    cluster.tell(NodeGivenUp(NodeName(name)))


def test_a_gang_holds_its_spares_and_runs_without_them() -> None:
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    assert (nodes_of(cluster, job_id), spares_of(cluster, job_id)) == (["n1", "n2", "n3"], ["n4"])
    assert not cluster.nodes[NodeName("n4")].runs, "nothing of it is there"
    assert cluster.state.nodes[NodeName("n4")].cpus_used == 1
    cluster.run(600)
    assert state_of(cluster, job_id) == "COMPLETED"
    assert cluster.state.nodes[NodeName("n4")].cpus_used == 0


@pytest.mark.parametrize("lost", ["n1", "n2"])
def test_a_lost_node_is_replaced_at_once(lost: str) -> None:
    """Though others wait for every node, and did so before."""
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    waiting = [cluster.submit(name="50") for _ in range(8)]
    cluster.kill_node(lost)
    cluster.tell(NodeSilent(NodeName(lost), lost=True))
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.open_nodes) == (JobState.COMPLETING, (lost,)), "only the lost node is waited for"
    assert all(state_of(cluster, other) == "PENDING" for other in waiting)
    cluster.tell(NodeGivenUp(NodeName(lost)))
    cluster.run(1)
    left = sorted({"n1", "n2", "n3"} - {lost})
    assert (job.state, job.run) == (JobState.RUNNING, 2)
    assert (nodes_of(cluster, job_id), spares_of(cluster, job_id)) == ([*left, "n4"], [])
    assert (job.requeues, job.restart_reason) == ({"node_fail": 1}, "node_fail")
    assert all(state_of(cluster, other) == "PENDING" for other in waiting)


def test_without_a_spare_left_it_queues_again() -> None:
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    lose(cluster, "n2")
    cluster.run(1)
    lose(cluster, "n3")
    cluster.run(1)
    assert state_of(cluster, job_id) == "PENDING"
    for name in ("n2", "n3"):
        cluster.register(name)
    cluster.run(700)
    job = cluster.job(job_id)
    assert (job.run, job.requeues) == (3, {"node_fail": 2})


def test_a_lost_spare_harms_nothing() -> None:
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    lose(cluster, "n4")
    assert (cluster.job(job_id).run, spares_of(cluster, job_id)) == (1, [])
    assert cluster.state.nodes[NodeName("n4")].cpus_used == 0
    cluster.register("n4")
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"


def test_a_spare_whose_daemon_comes_anew_is_still_held() -> None:
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    cluster.register("n4")
    cluster.run(1)
    assert (state_of(cluster, job_id), spares_of(cluster, job_id)) == ("RUNNING", ["n4"])
    assert not cluster.nodes[NodeName("n4")].runs


def test_a_drained_spare_takes_no_place() -> None:
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    operate(cluster, "n4", "DRAIN", "bad fan")
    lose(cluster, "n2")
    assert state_of(cluster, job_id) == "PENDING"


def test_a_node_that_cannot_prepare_is_replaced_too() -> None:
    cluster = a_cluster(4, cpus=1)
    cluster.nodes[NodeName("n2")].answers = False
    job_id = cluster.submit(request=a_request(3, exclusive=True), name="500", spare_nodes=1)
    cluster.run(0.1)
    cluster.tell(PrepareFailed(NodeName("n2"), job_id, cluster.job(job_id).run, "no disk"))
    cluster.run(1)
    assert nodes_of(cluster, job_id) == ["n1", "n3", "n4"]
    assert state_of(cluster, job_id) == "RUNNING"


def test_a_cancelled_job_gives_all_back() -> None:
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    cluster.kill_node("n2")
    cluster.tell(NodeSilent(NodeName("n2"), lost=True))
    cluster.run(1)
    cancel(cluster, job_id)
    cluster.tell(NodeGivenUp(NodeName("n2")))
    assert state_of(cluster, job_id) == "CANCELLED"
    assert not any(node.cpus_used for node in cluster.state.nodes.values())


@pytest.mark.parametrize("action", ["requeue", "hold"])
def test_a_rule_may_say_otherwise(action: str) -> None:
    cluster = a_cluster(5, cpus=1)
    job_id = a_gang(cluster, on_node_fail=action)
    lose(cluster, "n2")
    cluster.run(1)
    assert cluster.job(job_id).held == ("user" if action == "hold" else "")
    assert (cluster.job(job_id).run, state_of(cluster, job_id)) == (
        (1, "PENDING") if action == "hold" else (2, "RUNNING")
    )


def test_it_survives_a_restart_of_the_controller() -> None:
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    cluster.kill_node("n2")
    cluster.tell(NodeSilent(NodeName("n2"), lost=True))
    cluster.restart_controller()
    cluster.run(1)
    cluster.tell(NodeGivenUp(NodeName("n2")))
    cluster.run(1)
    assert (cluster.job(job_id).run, nodes_of(cluster, job_id)) == (2, ["n1", "n3", "n4"])


def test_tasks_are_spread_as_without_spares() -> None:
    cluster = a_cluster(3)
    job_id = cluster.submit(request=a_request(2, tasks=8, gpus_total=0), name="50", spare_nodes=1)
    cluster.run(1)
    assert [part.tasks for part in cluster.job(job_id).parts] == [4, 4, 4]


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"request": a_request(2, tasks=3)}, "the same tasks and GPUs on every node"),
        ({"request": a_request(2, nodes_max=3)}, "a fixed number of nodes"),
        ({"is_batch": False}, "needs a batch script"),
    ],
)
def test_what_goes_with_spares(changes: dict[str, object], detail: str) -> None:
    refusal = refused_submission(a_cluster(4), spare_nodes=1, **changes)
    assert detail in refusal.details[0]


def test_replacing_needs_spares() -> None:
    refusal = refused_submission(a_cluster(4), on_node_fail="replace")
    assert "needs --spare-nodes" in refusal.details[0]


def script_fails(cluster: SimCluster, job_id: JobId) -> None:
    """As when its srun has lost a task."""
    job = cluster.job(job_id)
    assert job.batch_host is not None
    report = RunReport(job_id, job.run, "EXITED", 1)
    cluster.nodes[job.batch_host].runs[job_id, job.run] = report
    cluster.tell(NodeReport(job.batch_host, report))
    cluster.run(1)


def test_a_script_that_fails_since_a_node_is_lost_comes_back_as_well() -> None:
    """It knows of it before the controller does."""
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    cluster.kill_node("n2")
    script_fails(cluster, job_id)
    waiting = cluster.submit(name="50")
    cluster.run(1)
    assert (state_of(cluster, job_id), state_of(cluster, waiting)) == ("COMPLETING", "PENDING")
    lose(cluster, "n2")
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.run, job.requeues) == (JobState.RUNNING, 2, {"node_fail": 1})
    assert nodes_of(cluster, job_id) == ["n1", "n3", "n4"]


def test_without_spares_it_queues_again() -> None:
    cluster = a_cluster(3, cpus=1)
    job_id = cluster.submit(request=a_request(3, exclusive=True), name="500")
    cluster.run(1)
    cluster.kill_node("n2")
    script_fails(cluster, job_id)
    lose(cluster, "n2")
    job = cluster.job(job_id)
    assert (job.state, job.requeues) == (JobState.PENDING, {"node_fail": 1})


def test_a_script_that_fails_by_itself_has_failed() -> None:
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    script_fails(cluster, job_id)
    assert (state_of(cluster, job_id), cluster.job(job_id).exit_code) == ("FAILED", 1)
    assert not any(node.cpus_used for node in cluster.state.nodes.values())


def test_a_script_that_failed_on_the_node_that_is_lost_then_has_failed() -> None:
    """Its own node told of it."""
    cluster = a_cluster(4, cpus=1)
    job_id = a_gang(cluster)
    cluster.kill_node("n1")
    script_fails(cluster, job_id)
    lose(cluster, "n1")
    assert state_of(cluster, job_id) == "FAILED"
