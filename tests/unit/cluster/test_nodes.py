"""Nodes come, fall silent, are lost and come back; what an operator has said of them stands."""

from __future__ import annotations

import pytest

from minislurm.cluster.effects import EndRun, ForgetRun, PrepareRun, StartRun
from minislurm.cluster.messages import (
    Configure,
    NodeAnswers,
    NodeReport,
    NodeSilent,
    RegisterNode,
    RunReport,
    UpdateNode,
)
from minislurm.domain import configuration_file
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.domain.node import Node
from minislurm.domain.states import JobState, NodeState, Reason
from tests.builders import a_configuration, a_request, facts
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import USER, a_cluster, cancel, operate, running, state_of, tell

N1, N2 = NodeName("n1"), NodeName("n2")


def node(cluster: SimCluster, name: str = "n1") -> Node:
    return cluster.state.nodes[NodeName(name)]


def a_gang(cluster: SimCluster, **changes: object) -> JobId:
    job_id = cluster.submit(request=a_request(2), name="50", **changes)
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"
    return job_id


def lose(cluster: SimCluster, name: str) -> None:
    cluster.kill_node(name)
    cluster.declare_lost(name)


# Silence


def test_a_silent_node_gets_no_new_work_and_keeps_its_own() -> None:
    cluster = a_cluster(1)
    first = cluster.submit(name="50")
    cluster.run(1)
    cluster.tell(NodeSilent(N1))
    second = cluster.submit()
    cluster.run(1)
    assert running(cluster) == {first}
    assert cluster.reason(second) == "ReqNodeNotAvail"
    assert node(cluster).state is NodeState.UP
    cluster.tell(NodeAnswers(N1))
    cluster.run(1)
    assert running(cluster) == {first, second}


def test_silence_and_answers_that_repeat_say_nothing_new() -> None:
    cluster = a_cluster(1)
    assert not cluster.tell(NodeAnswers(N1)).events
    assert cluster.tell(NodeSilent(N1)).events
    assert not cluster.tell(NodeSilent(N1)).events
    assert cluster.tell(NodeSilent(N1, lost=True)).events
    assert not cluster.tell(NodeSilent(N1, lost=True)).events
    assert not cluster.tell(NodeSilent(NodeName("nope"))).events


def test_a_lost_node_is_down_with_the_reason() -> None:
    cluster = a_cluster(1)
    lose(cluster, "n1")
    assert (node(cluster).state, node(cluster).reason) == (NodeState.DOWN, "Not responding")
    assert node(cluster).reason_time == cluster.now


def test_jobs_of_a_lost_node_are_requeued() -> None:
    cluster = a_cluster(3, cpus=1)
    job_id = a_gang(cluster)
    lose(cluster, "n2")
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.run, job.requeues) == (JobState.RUNNING, 2, {"node_fail": 1})
    assert [p.node for p in job.allocation] == ["n1", "n3"]
    assert node(cluster, "n2").cpus_used == 0


@pytest.mark.parametrize("changes", [{"requeue": False}, {"is_batch": False}])
def test_jobs_that_may_not_be_requeued_end(changes: dict[str, bool]) -> None:
    cluster = a_cluster(3)
    job_id = a_gang(cluster, **changes)
    lose(cluster, "n2")
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.reason) == (JobState.NODE_FAIL, Reason.NODE_DOWN)


def test_an_ending_job_does_not_wait_for_a_lost_node() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    cluster.kill_node("n2")
    cancel(cluster, job_id)
    cluster.run(5)
    assert state_of(cluster, job_id) == "COMPLETING"
    cluster.declare_lost("n2")
    assert state_of(cluster, job_id) == "CANCELLED"


def test_a_node_lost_in_prepare_counts_as_a_failed_launch() -> None:
    cluster = a_cluster(3)
    cluster.nodes[N2].answers = False
    job_id = cluster.submit(request=a_request(2), name="50")
    cluster.run(1)
    lose(cluster, "n2")
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.run, job.requeues) == (JobState.RUNNING, 2, {"launch_failure": 1})


# Coming back


def test_a_node_that_comes_back_runs_again() -> None:
    cluster = a_cluster(1)
    lose(cluster, "n1")
    cluster.register("n1")
    assert (node(cluster).state, node(cluster).reason) == (NodeState.UP, "")
    cluster.submit(name="50")
    cluster.run(1)
    assert len(running(cluster)) == 1


def test_no_new_work_before_old_runs_are_gone() -> None:
    """Given up and requeued, it comes back with the old run still there: never both at once."""
    cluster = a_cluster(1)
    job_id = cluster.submit(name="500")
    cluster.run(1)
    cluster.cut_off("n1")
    cluster.declare_lost("n1")
    cluster.run(1)
    assert state_of(cluster, job_id) == "PENDING"
    still = RunReport(job_id, RunNumber(1), "RUNNING", start_time=1.0)
    cluster.nodes[N1].runs = {}
    transaction = cluster.tell(RegisterNode(N1, facts(), (still,)))
    ends = [e for e in transaction.effects if isinstance(e, EndRun)]
    assert [(e.node, e.run, e.kill) for e in ends] == [("n1", 1, True)]
    assert node(cluster).stale_runs == (f"{job_id}.1",)
    assert not node(cluster).is_usable
    cluster.tell(NodeReport(N1, RunReport(job_id, RunNumber(1), "EXITED")))
    assert not node(cluster).is_usable, "ended, not gone"
    cluster.tell(NodeReport(N1, RunReport(job_id, RunNumber(1), "CLEAN")))
    cluster.nodes[N1].alive = True
    cluster.run(1)
    assert (state_of(cluster, job_id), cluster.job(job_id).run) == ("RUNNING", 2)


def test_a_stale_run_that_is_only_a_record_is_forgotten() -> None:
    cluster = a_cluster(1)
    clean = RunReport(JobId(77), RunNumber(3), "CLEAN")
    transaction = cluster.tell(RegisterNode(N1, facts(), (clean,)))
    assert [e.job_id for e in transaction.effects if isinstance(e, ForgetRun)] == [77]
    assert node(cluster).is_usable


def test_a_run_that_the_daemon_does_not_know_is_lost() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster, requeue=False)
    cluster.nodes[N2].runs.clear()
    cluster.register("n2")
    cluster.run(1)
    assert state_of(cluster, job_id) == "NODE_FAIL"


def test_a_job_that_ended_while_the_controller_was_away() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(name="50")
    cluster.run(1)
    ended = RunReport(job_id, RunNumber(1), "CLEAN", 3, start_time=1.0, end_time=cluster.now + 4)
    cluster.now += 100
    cluster.nodes[N1].runs.clear()
    cluster.tell(RegisterNode(N1, facts(), (ended,)))
    job = cluster.job(job_id)
    assert (job.state, job.exit_code) == (JobState.FAILED, 3)
    assert job.end_time == ended.end_time, "not the time of the return"


def test_a_gang_whose_script_exited_meanwhile_is_ended_on_all_its_nodes() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    exited = RunReport(job_id, RunNumber(1), "EXITED", 3, end_time=cluster.now)
    cluster.nodes[N1].runs.clear()
    cluster.tell(RegisterNode(N1, facts(), (exited,)))
    cluster.run(1)
    assert (state_of(cluster, job_id), cluster.job(job_id).exit_code) == ("FAILED", 3)


def test_a_running_job_goes_on_when_its_daemon_comes_back() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    cluster.cut_off("n1")
    cluster.run(5)
    cluster.register("n1")
    cluster.run(1)
    assert (state_of(cluster, job_id), cluster.job(job_id).run) == ("RUNNING", 1)


def test_prepare_is_said_again_to_a_node_that_missed_it() -> None:
    cluster = a_cluster(2, prepare_timeout_s=1000.0)
    cluster.nodes[N2].answers = False
    job_id = cluster.submit(request=a_request(2), name="50")
    cluster.run(1)
    transaction = cluster.tell(RegisterNode(N2, facts(), ()))
    assert [(e.node, e.job_id) for e in transaction.effects if isinstance(e, PrepareRun)] == [("n2", job_id)]
    assert (state_of(cluster, job_id), cluster.job(job_id).run) == ("CONFIGURING", 1)


def test_start_is_said_again_to_a_node_that_missed_it() -> None:
    cluster = a_cluster(2, prepare_timeout_s=1000.0)
    cluster.lose_effects = False
    cluster.nodes[N2].answers = False
    job_id = cluster.submit(request=a_request(2), name="50")
    cluster.run(1)
    cluster.lose_effects = True  # both are prepared, and START never left
    ready = RunReport(job_id, RunNumber(1), "PREPARED")
    cluster.tell(NodeReport(N2, ready))
    transaction = cluster.tell(RegisterNode(N1, facts(), (ready,)))
    assert [e.node for e in transaction.effects if isinstance(e, StartRun)] == ["n1"]


def test_the_end_is_said_again_to_a_node_that_missed_it() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    cluster.cut_off("n2")
    cancel(cluster, job_id)
    cluster.run(2)
    assert cluster.job(job_id).open_nodes == ("n2",)
    cluster.register("n2")
    cluster.run(1)
    assert state_of(cluster, job_id) == "CANCELLED"


def test_an_unknown_node_is_refused() -> None:
    assert tell(a_cluster(1), RegisterNode(NodeName("nope"), facts())) is RefusalCode.INVALID_NODE_NAME


# Operators


def test_drain_lets_jobs_end_and_takes_no_more() -> None:
    cluster = a_cluster(1)
    first = cluster.submit(name="5")
    cluster.run(1)
    assert operate(cluster, "n1", "DRAIN", "bad fan") is None
    second = cluster.submit()
    cluster.run(10)
    assert state_of(cluster, first) == "COMPLETED"
    assert state_of(cluster, second) == "PENDING"
    assert operate(cluster, "n1", "RESUME") is None
    cluster.run(1)
    assert state_of(cluster, second) == "RUNNING"
    assert (node(cluster).reason, node(cluster).reason_time) == ("", 0.0)


@pytest.mark.parametrize("state", ["DRAIN", "DOWN"])
def test_a_reason_must_be_given(state: str) -> None:
    cluster = a_cluster(1)
    refusal = cluster.tell(UpdateNode(N1, OPERATOR, state)).refusal
    assert refusal is not None
    assert refusal.details == ("You must specify a reason",)
    assert operate(cluster, "n1", None, "looked at") is None
    assert operate(cluster, "n1", state) is None, "there is one already"


def test_registration_does_not_lift_a_drain() -> None:
    cluster = a_cluster(1)
    operate(cluster, "n1", "DRAIN", "bad fan")
    since = node(cluster).reason_time
    lose(cluster, "n1")
    cluster.run(10)
    cluster.register("n1")
    assert (node(cluster).state, node(cluster).drained) == (NodeState.UP, True)
    assert (node(cluster).reason, node(cluster).reason_time) == ("bad fan", since)
    cluster.restart_controller()
    assert node(cluster).drained


def test_an_operators_down_survives_registration() -> None:
    cluster = a_cluster(1)
    assert operate(cluster, "n1", "DOWN", "on fire") is None
    cluster.register("n1")
    cluster.tell(NodeSilent(N1))
    cluster.tell(NodeAnswers(N1))
    assert (node(cluster).state, node(cluster).reason) == (NodeState.DOWN, "on fire")
    assert operate(cluster, "n1", "RESUME") is None
    assert node(cluster).is_usable


def test_a_lost_node_is_not_made_an_operators_without_a_reason() -> None:
    """Why it is DOWN says who may lift it."""
    cluster = a_cluster(1)
    lose(cluster, "n1")
    assert operate(cluster, "n1", "DOWN") is RefusalCode.NOT_SUPPORTED
    assert operate(cluster, "n1", "DOWN", "stays so") is None
    cluster.register("n1")
    assert node(cluster).state is NodeState.DOWN


def test_resume_of_a_node_that_is_silent_waits_for_it() -> None:
    cluster = a_cluster(1)
    operate(cluster, "n1", "DOWN", "on fire")
    cluster.kill_node("n1")
    assert operate(cluster, "n1", "RESUME") is None
    assert not node(cluster).is_usable
    cluster.register("n1")
    assert node(cluster).is_usable


def test_down_ends_what_runs_there() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster, requeue=False)
    operate(cluster, "n2", "DOWN", "on fire")
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.reason) == (JobState.NODE_FAIL, Reason.NODE_DOWN)


def test_a_node_set_down_while_its_run_lives_is_cleaned_before_it_is_used_again() -> None:
    """An operator's DOWN says nothing of the processes there."""
    cluster = a_cluster(1)
    job_id = cluster.submit(name="500")
    cluster.run(1)
    operate(cluster, "n1", "DOWN", "on fire")
    operate(cluster, "n1", "RESUME")
    cluster.run(5)
    assert cluster.nodes[N1].started == [(job_id, 1), (job_id, 2)]
    assert state_of(cluster, job_id) == "RUNNING"


def test_who_may_change_a_node() -> None:
    cluster = a_cluster(1)
    assert tell(cluster, UpdateNode(N1, USER, "DRAIN", "x")) is RefusalCode.ACCESS
    assert operate(cluster, "nope", "DRAIN", "x") is RefusalCode.INVALID_NODE_NAME
    assert operate(cluster, "n1", "BOGUS", "x") is RefusalCode.NOT_SUPPORTED


# Configuration


def test_a_node_taken_out_of_the_configuration_keeps_its_jobs() -> None:
    cluster = a_cluster(2)
    cluster.submit(name="50", request=a_request(required_nodes=(N2,)))
    cluster.run(1)
    cluster.tell(Configure(configuration_file.to_json(a_configuration(1))))
    assert set(cluster.state.nodes) == {"n1", "n2"}
    cluster.run(60)
    assert cluster.all_ended()
    cluster.tell(Configure(configuration_file.to_json(a_configuration(1, cpus=9))))
    assert set(cluster.state.nodes) == {"n1"}
