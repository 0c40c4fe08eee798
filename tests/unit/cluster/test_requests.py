"""What users and operators may do to jobs, in every state a job can be in."""

from __future__ import annotations

import pytest

from minislurm.cluster.effects import EndRun, SignalRun
from minislurm.cluster.messages import (
    Caller,
    CancelJob,
    CreateStep,
    EndAllocation,
    RememberRequest,
    SignalJob,
)
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import BATCH_STEP, JobId, NodeName
from minislurm.domain.job import EndCause
from minislurm.domain.states import JobState, Reason
from minislurm.domain.views import StepRequest
from tests.builders import a_request
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import (
    OTHER,
    USER,
    a_cluster,
    cancel,
    hold,
    release,
    requeue,
    state_of,
    target,
    tell,
    update,
)

STATES = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "COMPLETED")


def a_job_in(cluster: SimCluster, state: str, **changes: object) -> JobId:
    """A job of two nodes, brought to `state` and left there (COMPLETING: as long as n2 is silent)."""
    if state == "PENDING":
        changes["hold"] = True
    if state == "CONFIGURING":
        cluster.nodes[NodeName("n2")].answers = False
    job_id = cluster.submit(request=a_request(2), name="10", **changes)
    cluster.run(1)
    if state in ("COMPLETING", "COMPLETED"):
        cluster.run(5)
        cluster.nodes[NodeName("n2")].alive = state != "COMPLETING"
        cluster.run(10)
    assert state_of(cluster, job_id) == state
    return job_id


# Cancel


@pytest.mark.parametrize("state", STATES)
def test_cancel_in_every_state(state: str) -> None:
    cluster = a_cluster(2, prepare_timeout_s=1000.0)
    job_id = a_job_in(cluster, state)
    assert cancel(cluster, job_id, by=OTHER) is RefusalCode.ACCESS
    answer = cancel(cluster, job_id)
    cluster.run(1)
    job = cluster.job(job_id)
    if state in ("COMPLETING", "COMPLETED"):
        assert answer is RefusalCode.ALREADY_DONE
        assert job.end_state is JobState.COMPLETED
    else:
        assert answer is None
        assert (job.state, job.cancelled_by) == (JobState.CANCELLED, 1000)
        assert not cluster.state.active
    assert cluster.state.nodes[NodeName("n1")].cpus_used == 0


def test_an_operator_cancels_anyones_job() -> None:
    cluster = a_cluster()
    job_id = a_job_in(cluster, "RUNNING")
    assert cancel(cluster, job_id, by=OPERATOR) is None
    assert cluster.job(job_id).cancelled_by == 0


def test_cancel_ends_the_run_on_every_node_by_term_first() -> None:
    cluster = a_cluster()
    job_id = a_job_in(cluster, "RUNNING")
    transaction = cluster.tell(CancelJob(target(job_id), USER))
    ends = [e for e in transaction.effects if isinstance(e, EndRun)]
    assert [(e.node, e.run, e.cause, e.kill) for e in ends] == [
        ("n1", 1, EndCause.CANCEL, False),
        ("n2", 1, EndCause.CANCEL, False),
    ]


def test_cancel_an_unknown_job() -> None:
    assert cancel(a_cluster(), 999) is RefusalCode.INVALID_JOB_ID


def test_cancel_while_it_goes_back_to_pending_keeps_it_ended() -> None:
    cluster = a_cluster()
    job_id = a_job_in(cluster, "RUNNING")
    requeue(cluster, job_id)
    assert cancel(cluster, job_id) is None
    cluster.run(5)
    job = cluster.job(job_id)
    assert (job.state, job.cancelled_by, job.restarts) == (JobState.CANCELLED, 1000, 0)


def test_cancel_the_batch_script_alone() -> None:
    """`scancel -b`: killed at once; the job failed by signal 9."""
    cluster = a_cluster()
    job_id = a_job_in(cluster, "RUNNING")
    transaction = cluster.tell(CancelJob(target(job_id), USER, batch_only=True))
    assert all(e.kill for e in transaction.effects if isinstance(e, EndRun))
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.reason, job.exit_signal) == (JobState.FAILED, Reason.RAISED_SIGNAL, 9)


# Signals


def signals(cluster: SimCluster, *arguments: object, **options: object) -> list[tuple[str, object]] | object:
    transaction = cluster.tell(SignalJob(*arguments, **options))  # type: ignore[arg-type]
    if transaction.refusal is not None:
        return transaction.refusal.code
    return [(e.node, e.step_id) for e in transaction.effects if isinstance(e, SignalRun)]


def test_signals_go_where_they_are_sent() -> None:
    cluster = a_cluster()
    job_id = a_job_in(cluster, "RUNNING")
    request = StepRequest(job_id, tasks=1, node_list=(NodeName("n2"),))
    assert tell(cluster, CreateStep(request, USER, "s")) is None
    assert signals(cluster, target(job_id), USER, 10) == [("n1", None), ("n2", None)]
    assert signals(cluster, target(job_id), USER, 10, batch_only=True) == [("n1", BATCH_STEP)]
    assert signals(cluster, target(job_id, step=0), USER, 10) == [("n2", 0)]
    assert signals(cluster, target(job_id, step=7), USER, 10) is RefusalCode.INVALID_JOB_ID
    assert signals(cluster, target(job_id), OTHER, 10) is RefusalCode.ACCESS
    assert state_of(cluster, job_id) == "RUNNING"


def test_sigkill_is_a_cancel() -> None:
    cluster = a_cluster()
    job_id = a_job_in(cluster, "RUNNING")
    assert signals(cluster, target(job_id), USER, 9) == []
    cluster.run(1)
    assert state_of(cluster, job_id) == "CANCELLED"


@pytest.mark.parametrize("state", ["PENDING", "CONFIGURING", "COMPLETING", "COMPLETED"])
def test_a_signal_needs_a_running_job(state: str) -> None:
    cluster = a_cluster(prepare_timeout_s=1000.0)
    job_id = a_job_in(cluster, state)
    refusal = signals(cluster, target(job_id), USER, 10)
    expected = RefusalCode.INVALID_JOB_ID if state == "COMPLETED" else RefusalCode.TRY_LATER
    assert refusal is expected


# Hold and release


def test_hold_by_user_and_admin() -> None:
    cluster = a_cluster()
    job_id = cluster.submit()
    assert hold(cluster, job_id, by=OTHER) is RefusalCode.ACCESS
    assert hold(cluster, job_id) is None
    assert cluster.reason(job_id) == "JobHeldUser"
    assert release(cluster, job_id) is None
    assert hold(cluster, job_id, by=OPERATOR) is None
    assert cluster.reason(job_id) == "JobHeldAdmin"
    assert release(cluster, job_id) is RefusalCode.ACCESS, "an operator's hold is the operator's to lift"
    assert release(cluster, job_id, by=OPERATOR) is None
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"


def test_uhold_by_an_operator_can_be_released_by_the_user() -> None:
    cluster = a_cluster()
    job_id = cluster.submit()
    assert hold(cluster, job_id, by=OPERATOR, by_user=True) is None
    assert cluster.reason(job_id) == "JobHeldUser"
    assert release(cluster, job_id) is None


def test_a_user_does_not_turn_an_operators_hold_into_their_own() -> None:
    cluster = a_cluster()
    job_id = cluster.submit()
    hold(cluster, job_id, by=OPERATOR)
    hold(cluster, job_id)
    assert cluster.reason(job_id) == "JobHeldAdmin"
    assert release(cluster, job_id) is RefusalCode.ACCESS


@pytest.mark.parametrize("state", STATES[1:])
def test_only_a_pending_job_is_held_or_released(state: str) -> None:
    cluster = a_cluster(prepare_timeout_s=1000.0)
    job_id = a_job_in(cluster, state)
    assert hold(cluster, job_id) is RefusalCode.JOB_NOT_PENDING
    assert release(cluster, job_id) is RefusalCode.JOB_NOT_PENDING


def test_release_keeps_a_begin_time() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(hold=True, begin_time=cluster.now + 100)
    release(cluster, job_id)
    assert cluster.reason(job_id) == "BeginTime"
    cluster.run(99)
    assert state_of(cluster, job_id) == "PENDING"
    cluster.run(2)
    assert state_of(cluster, job_id) == "RUNNING"


def test_a_hold_outlives_a_restart() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(hold=True)
    cluster.restart_controller()
    cluster.run(10)
    assert cluster.reason(job_id) == "JobHeldUser"


# Requeue


def test_requeue_a_running_job() -> None:
    cluster = a_cluster()
    job_id = a_job_in(cluster, "RUNNING")
    cluster.run(3)
    assert requeue(cluster, job_id) is None
    assert state_of(cluster, job_id) == "COMPLETING"
    asked = cluster.now
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.run, job.restarts) == (JobState.RUNNING, 2, 1)
    assert asked < job.submit_time < job.start_time
    assert job.requeues == {"user": 1}
    assert job.restart_reason == "user"
    assert job.end_cause is None
    cluster.run(20)
    assert state_of(cluster, job_id) == "COMPLETED"


def test_requeue_delay() -> None:
    cluster = a_cluster(requeue_delay_s=120.0)
    job_id = a_job_in(cluster, "RUNNING")
    requeue(cluster, job_id)
    cluster.run(100)
    assert cluster.reason(job_id) == "BeginTime"
    cluster.run(25)
    assert state_of(cluster, job_id) == "RUNNING"


def test_requeue_a_configuring_job() -> None:
    cluster = a_cluster(prepare_timeout_s=1000.0)
    job_id = a_job_in(cluster, "CONFIGURING")
    cluster.nodes[NodeName("n2")].answers = True
    assert requeue(cluster, job_id) is None
    cluster.run(1)
    assert (state_of(cluster, job_id), cluster.job(job_id).run) == ("RUNNING", 2)


@pytest.mark.parametrize("failed", [True, False])
def test_requeue_an_ended_job(failed: bool) -> None:
    cluster = a_cluster()
    cluster.exit_codes[JobId(1)] = 3 * failed
    job_id = cluster.submit(name="5")
    cluster.run(7)
    assert cluster.job(job_id).exit_code == 3 * failed
    assert requeue(cluster, job_id) is None
    job = cluster.job(job_id)
    assert (job.exit_code, job.end_time) == (0, 0.0)
    cluster.run(1)
    assert (job.run, state_of(cluster, job_id)) == (2, "RUNNING")


def test_requeue_a_cancelled_job() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(hold=True)
    cancel(cluster, job_id)
    assert requeue(cluster, job_id) is None
    assert cluster.job(job_id).cancelled_by is None
    assert cluster.reason(job_id) == "JobHeldUser", "it was held before, and is so now"


def test_requeue_a_completing_job() -> None:
    cluster = a_cluster()
    job_id = a_job_in(cluster, "COMPLETING")
    assert requeue(cluster, job_id) is None
    cluster.register("n2")
    cluster.run(1)
    assert (state_of(cluster, job_id), cluster.job(job_id).run) == ("RUNNING", 2)


def test_requeue_a_pending_job() -> None:
    cluster = a_cluster()
    assert requeue(cluster, a_job_in(cluster, "PENDING")) is RefusalCode.JOB_PENDING


def test_requeue_where_it_is_forbidden() -> None:
    cluster = a_cluster()
    job_id = a_job_in(cluster, "RUNNING", requeue=False)
    assert requeue(cluster, job_id) is RefusalCode.DISABLED
    assert update(cluster, job_id, requeue=True) is None
    assert requeue(cluster, job_id) is None


def test_requeue_an_allocation() -> None:
    cluster = a_cluster()
    assert requeue(cluster, cluster.submit(is_batch=False)) is RefusalCode.NOT_BATCH


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "COMPLETED"])
def test_requeue_with_a_hold(state: str) -> None:
    cluster = a_cluster()
    job_id = a_job_in(cluster, state)
    assert requeue(cluster, job_id, hold=True) is None
    if state == "COMPLETING":
        cluster.register("n2")
    cluster.run(5)
    job = cluster.job(job_id)
    assert (job.state, job.held) == (JobState.PENDING, "user")
    assert cluster.reason(job_id) == "JobHeldUser"
    release(cluster, job_id)
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"


def test_requeues_are_counted_by_cause() -> None:
    cluster = a_cluster(3, cpus=1)
    job_id = cluster.submit(name="500", request=a_request(2))
    cluster.run(1)
    requeue(cluster, job_id)
    cluster.run(1)
    node = cluster.job(job_id).allocation[1].node
    cluster.kill_node(node)
    cluster.declare_lost(node)
    cluster.run(1)
    job = cluster.job(job_id)
    assert job.requeues == {"user": 1, "node_fail": 1}
    assert (job.restarts, job.run, job.restart_reason) == (2, 3, "node_fail")


# Updates


def test_time_limit_of_a_running_job() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(name="1000", time_limit_s=100.0)
    cluster.run(50)
    assert update(cluster, job_id, time_limit_s=200.0) is RefusalCode.ACCESS
    assert update(cluster, job_id, time_limit_s=200.0, by=OPERATOR) is None
    cluster.run(100)
    assert state_of(cluster, job_id) == "RUNNING", "the old timer has lost its point"
    assert update(cluster, job_id, time_limit_s=60.0) is None, "less is anyone's own matter"
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.reason) == (JobState.TIMEOUT, Reason.TIME_LIMIT)


def test_no_limit_is_more_than_any() -> None:
    """0 stands for none."""
    cluster = a_cluster()
    limited = cluster.submit(name="1000", time_limit_s=100.0)
    unlimited = cluster.submit(name="1000")
    cluster.run(1)
    assert update(cluster, limited, time_limit_s=0.0) is RefusalCode.ACCESS
    assert update(cluster, unlimited, time_limit_s=50.0) is None
    cluster.run(60)
    assert state_of(cluster, unlimited) == "TIMEOUT"


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_time_limit_that_is_none(seconds: float) -> None:
    cluster = a_cluster()
    job_id = cluster.submit(hold=True)
    assert update(cluster, job_id, time_limit_s=seconds) is RefusalCode.INVALID_TIME_LIMIT


def test_what_users_may_not_set() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(hold=True, nice=5)
    assert update(cluster, job_id, nice=4) is RefusalCode.ACCESS
    assert update(cluster, job_id, nice=6) is None
    assert update(cluster, job_id, priority=9) is RefusalCode.ACCESS
    assert update(cluster, job_id, comment="x", by=OTHER) is RefusalCode.ACCESS
    assert update(cluster, job_id, nice=0, priority=9, by=OPERATOR) is None
    job = cluster.job(job_id)
    assert (job.nice, job.priority, job.comment) == (0, 9, "")


def test_a_refused_change_changes_nothing() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(hold=True)
    before = len(cluster.journal)
    assert update(cluster, job_id, comment="new", name="new", partition="nosuch") is (
        RefusalCode.INVALID_PARTITION
    )
    assert len(cluster.journal) == before
    assert cluster.job(job_id).name == "job"


def test_the_request_of_a_pending_job() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(request=a_request(9), name="50")
    cluster.run(1)
    assert update(cluster, job_id, nodes_min=2) is None
    request = cluster.job(job_id).request
    assert (request.nodes_min, request.nodes_max, request.tasks) == (2, 2, 2)
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"
    assert update(cluster, job_id, nodes_min=1) is RefusalCode.JOB_NOT_PENDING
    assert update(cluster, job_id, name="still", comment="fine") is None


def test_a_request_that_no_node_can_meet_is_refused() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(hold=True)
    assert update(cluster, job_id, cpus_per_task=99) is RefusalCode.NODE_CONFIGURATION
    assert update(cluster, job_id, nodes_min=0) is RefusalCode.INVALID_NODE_COUNT
    assert update(cluster, job_id, required_nodes="nope") is RefusalCode.INVALID_NODE_NAME


def test_a_bad_list_of_nodes_is_refused() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(hold=True)
    assert update(cluster, job_id, required_nodes="n[1-") is RefusalCode.INVALID_NODE_NAME


def test_begin_time_of_a_pending_job() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(begin_time=cluster.now + 1000)
    assert update(cluster, job_id, begin_time=cluster.now + 10) is None
    cluster.run(11)
    assert state_of(cluster, job_id) == "RUNNING"
    held = cluster.submit(hold=True)
    assert update(cluster, held, begin_time=cluster.now + 10) is None
    assert cluster.reason(held) == "JobHeldUser"


def test_begin_time_put_off() -> None:
    cluster = a_cluster(1, cpus=1)
    cluster.submit(name="20")
    job_id = cluster.submit()
    cluster.run(1)
    assert update(cluster, job_id, begin_time=cluster.now + 50) is None
    assert cluster.reason(job_id) == "BeginTime"
    cluster.run(45)
    assert state_of(cluster, job_id) == "PENDING"
    cluster.run(10)
    assert state_of(cluster, job_id) == "RUNNING"


def test_an_ended_job_is_not_changed() -> None:
    cluster = a_cluster()
    assert update(cluster, a_job_in(cluster, "COMPLETED"), comment="x") is RefusalCode.ALREADY_DONE


# Allocations without a script


def test_end_of_an_allocation() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(is_batch=False, request=a_request(2))
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING", "from the moment that all nodes are ready"
    assert tell(cluster, EndAllocation(job_id, OTHER)) is RefusalCode.ACCESS
    assert tell(cluster, EndAllocation(job_id, USER, exit_code=4)) is None
    assert tell(cluster, EndAllocation(job_id, USER, exit_code=9)) is None, "again is no error"
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.exit_code, job.reason) == (JobState.FAILED, 4, Reason.NON_ZERO_EXIT)


def test_end_of_an_allocation_that_never_began() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(is_batch=False, request=a_request(5))
    assert tell(cluster, EndAllocation(job_id, USER)) is None
    assert state_of(cluster, job_id) == "CANCELLED"


def test_a_client_that_is_gone() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(is_batch=False)
    cluster.run(1)
    assert tell(cluster, EndAllocation(job_id, USER, lost=True)) is None
    cluster.run(1)
    assert state_of(cluster, job_id) == "CANCELLED"


def test_a_batch_job_is_no_allocation_to_let_go() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit()
    assert tell(cluster, EndAllocation(job_id, USER)) is RefusalCode.NOT_SUPPORTED
    assert tell(cluster, EndAllocation(JobId(99), USER)) is RefusalCode.INVALID_JOB_ID


# Requests are remembered


def test_a_remembered_request() -> None:
    cluster = a_cluster()
    assert len(cluster.tell(RememberRequest("abc")).events) == 1
    assert not cluster.tell(RememberRequest("abc")).events
    assert not cluster.tell(RememberRequest("")).events
    cluster.restart_controller()
    assert "abc" in cluster.state.requests


def test_owners_are_told_apart_from_operators() -> None:
    cluster = a_cluster()
    job_id = cluster.submit(hold=True)
    root_by_number_alone = Caller(0)
    assert cancel(cluster, job_id, by=root_by_number_alone) is RefusalCode.ACCESS
