"""Nodes that fail runs again and again, and jobs that stay away from nodes that failed them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cluster.messages import NodeHealth, NodeReport, PrepareFailed, RunReport
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.node import Node
from tests.builders import a_configuration, a_request
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import operate, running, state_of

N1 = NodeName("n1")


def a_cluster(nodes: int = 2, jobs: dict[str, Any] | None = None, **node: Any) -> SimCluster:
    configuration = a_configuration(nodes, cpus=2)
    settings = {"drain_after_launch_failures": 0, **node}
    configuration = replace(
        configuration,
        node=replace(configuration.node, **settings),
        jobs=replace(configuration.jobs, **(jobs or {})),
    )
    return SimCluster(configuration, duration_of=lambda job: 1e6)


def on_n1(cluster: SimCluster, user_id: int = 1000) -> JobId:
    job_id = cluster.submit(request=a_request(required_nodes=(N1,)), user_id=user_id)
    cluster.run(0.1)
    return job_id


def end(cluster: SimCluster, job_id: JobId, code: int = 0, signal: int = 0) -> None:
    cluster.nodes[N1].runs.pop((job_id, cluster.job(job_id).run), None)
    report = RunReport(job_id, cluster.job(job_id).run, "EXITED", code, signal)
    cluster.tell(NodeReport(N1, report, clean=True))
    cluster.run(0.1)


def n1(cluster: SimCluster) -> Node:
    return cluster.state.nodes[N1]


def test_scripts_of_many_users_that_fail_drain_the_node_with_the_evidence() -> None:
    cluster = a_cluster()
    for user_id, code in ((1, 3), (2, 0), (3, 4), (4, 5)):
        end(cluster, on_n1(cluster, user_id), code)
        assert not n1(cluster).drained
    end(cluster, on_n1(cluster, 5), signal=9)
    assert n1(cluster).drained
    assert n1(cluster).reason == (
        "4 of the last 5 runs failed here: job 1 exit 3, job 3 exit 4, job 4 exit 5, job 5 signal 9"
    )


def test_one_users_failing_scripts_are_not_the_nodes_fault() -> None:
    cluster = a_cluster()
    for _ in range(12):
        end(cluster, on_n1(cluster), 1)
    assert not n1(cluster).drained


def test_launches_of_different_jobs_that_fail_drain_it() -> None:
    cluster = a_cluster(lemon_failures=3)
    for _ in range(3):
        assert not n1(cluster).drained
        job_id = cluster.submit(request=a_request(2, exclusive=True))
        cluster.nodes[N1].answers = False
        cluster.run(0.005)
        cluster.tell(PrepareFailed(N1, job_id, cluster.job(job_id).run, "no disk"))
        cluster.run(0.1)
    assert n1(cluster).reason.startswith("3 of the last 3 runs failed here: job 1 launch failed")


def test_failures_that_are_long_ago_are_forgotten() -> None:
    cluster = a_cluster()
    for user_id in range(1, 4):
        end(cluster, on_n1(cluster, user_id), 1)
    for _ in range(9):
        end(cluster, on_n1(cluster))
    end(cluster, on_n1(cluster, 7), 1)
    assert not n1(cluster).drained
    for _ in range(20):
        end(cluster, on_n1(cluster))
    assert n1(cluster).outcomes == ()


def test_a_healthy_node_remembers_nothing() -> None:
    cluster = a_cluster()
    end(cluster, on_n1(cluster))
    assert n1(cluster).outcomes == ()


def test_whoever_lifts_the_drain_begins_anew() -> None:
    cluster = a_cluster()
    for user_id in range(1, 5):
        end(cluster, on_n1(cluster, user_id), 1)
    assert n1(cluster).drained
    assert operate(cluster, "n1", "RESUME") is None
    end(cluster, on_n1(cluster, 9), 1)
    assert not n1(cluster).drained


def test_it_may_be_switched_off() -> None:
    cluster = a_cluster(lemon_failures=0)
    for user_id in range(1, 9):
        end(cluster, on_n1(cluster, user_id), 1)
    assert not n1(cluster).drained


# Avoiding


def lose(cluster: SimCluster, name: str) -> None:
    cluster.kill_node(name)
    cluster.declare_lost(name)


def test_a_job_stays_away_from_a_node_that_was_lost_under_it() -> None:
    cluster = a_cluster(2)
    job_id = cluster.submit(request=a_request(exclusive=True))
    cluster.run(0.1)
    blocker = cluster.submit(request=a_request(exclusive=True, required_nodes=(NodeName("n2"),)))
    cluster.run(0.1)
    lose(cluster, "n1")
    cluster.register("n1")
    cluster.run(1)
    assert running(cluster) == {blocker}, "n1 is free, and back"
    assert cluster.job(job_id).avoided_nodes == ("n1",)
    cluster.run(601)
    assert (state_of(cluster, job_id), cluster.job(job_id).allocation[0].node) == ("RUNNING", "n1")


def test_the_time_goes_on_over_a_restart_of_the_controller() -> None:
    cluster = a_cluster(2)
    job_id = cluster.submit(request=a_request(exclusive=True))
    cluster.run(0.1)
    cluster.submit(request=a_request(exclusive=True, required_nodes=(NodeName("n2"),)))
    cluster.run(0.1)
    lose(cluster, "n1")
    cluster.restart_controller()
    cluster.register("n1")
    cluster.run(601)
    assert state_of(cluster, job_id) == "RUNNING"


@pytest.mark.parametrize("request_", [a_request(required_nodes=(N1,)), a_request(2)])
def test_a_job_that_has_nowhere_else_to_go_avoids_nothing(request_: Any) -> None:
    cluster = a_cluster(2)
    job_id = cluster.submit(request=request_)
    cluster.run(0.1)
    lose(cluster, "n1")
    cluster.register("n1")
    cluster.run(1)
    assert (state_of(cluster, job_id), cluster.job(job_id).run) == ("RUNNING", 2)


def test_it_may_be_switched_off_too() -> None:
    cluster = a_cluster(3, jobs={"avoid_failed_node_s": 0.0})
    job_id = cluster.submit()
    cluster.run(0.1)
    lose(cluster, "n1")
    assert cluster.job(job_id).avoided_nodes == ()


# Health


def health(cluster: SimCluster, problem: str) -> None:
    cluster.tell(NodeHealth(N1, problem))


def test_a_failing_check_drains_and_a_passing_one_undrains() -> None:
    cluster = a_cluster()
    health(cluster, "")
    health(cluster, "GPU 0: XID 79")
    assert (n1(cluster).drained, n1(cluster).reason) == (True, "Health: GPU 0: XID 79")
    health(cluster, "no space")
    assert n1(cluster).reason == "Health: no space"
    health(cluster, "")
    assert (n1(cluster).drained, n1(cluster).reason, n1(cluster).is_usable) == (False, "", True)


def test_an_operators_drain_is_never_lifted() -> None:
    cluster = a_cluster()
    operate(cluster, "n1", "DRAIN", "bad fan")
    health(cluster, "no space")
    health(cluster, "")
    assert (n1(cluster).drained, n1(cluster).reason) == (True, "bad fan")


def test_what_an_operator_has_said_of_a_health_drain_stands() -> None:
    """Even without another reason."""
    cluster = a_cluster()
    health(cluster, "no space")
    operate(cluster, "n1", "DRAIN")
    health(cluster, "")
    assert n1(cluster).drained


def test_it_stays_drained_where_the_configuration_wants_it() -> None:
    cluster = a_cluster(health_undrain=False)
    health(cluster, "no space")
    health(cluster, "")
    assert n1(cluster).drained


def test_a_drain_by_health_outlasts_a_loss() -> None:
    cluster = a_cluster()
    health(cluster, "no space")
    lose(cluster, "n1")
    cluster.register("n1")
    assert n1(cluster).drained
    health(cluster, "")
    assert not n1(cluster).drained


def test_the_same_twice_says_nothing_new() -> None:
    cluster = a_cluster()
    health(cluster, "no space")
    assert not cluster.tell(NodeHealth(N1, "no space")).events
    health(cluster, "")
    assert not cluster.tell(NodeHealth(N1, "")).events
    assert not cluster.tell(NodeHealth(NodeName("nope"), "x")).events
