"""A run from its placement to its end: two phases, limits, signals, steps; what is late or of another run."""

from __future__ import annotations

import pytest

from minislurm.cluster.effects import EndRun, PrepareRun, StartRun
from minislurm.cluster.messages import (
    CreateStep,
    NodeReport,
    PlacementProposed,
    PrepareFailed,
    PrepareTimeout,
    RunReport,
    StepEnded,
    SubmitJob,
    TimeLimitReached,
)
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import Bitmap, JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import SignalBeforeEnd
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState, Reason
from minislurm.domain.views import StepRequest
from minislurm.scheduling.model import Placement
from tests.builders import a_request, a_spec
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import OTHER, USER, a_cluster, cancel, requeue, state_of, tell, update

N1, N2 = NodeName("n1"), NodeName("n2")


def a_gang(cluster: SimCluster, *, name: str = "50", **changes: object) -> JobId:
    job_id = cluster.submit(request=a_request(2), name=name, **changes)
    cluster.run(1)
    return job_id


def report(cluster: SimCluster, node: str, phase: str, job_id: int, run: int = 1, **values: object) -> int:
    """How many events it led to."""
    said = RunReport(JobId(job_id), RunNumber(run), phase, **values)  # type: ignore[arg-type]
    return len(cluster.tell(NodeReport(NodeName(node), said)).events)


def a_placement(job_id: int, *parts: NodeAllocation, task_id: int | None = None) -> PlacementProposed:
    return PlacementProposed(Placement(JobId(job_id), task_id, parts))


def on(node: str, cpus: int = 1, **changes: int) -> NodeAllocation:
    return NodeAllocation(NodeName(node), cpus=Bitmap(cpus), **changes)  # type: ignore[arg-type]


# Placing


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (on("nope"),),
        (on("n1", 0b1_0000_0000),),
        (on("n1", 0b10, gpus=1),),
        (on("n1", 0b10, memory_mib=16_001),),
        (on("n2"),),
        (on("n1", 0b1),),
    ],
    ids=["none", "unknown node", "no such CPU", "no such GPU", "memory", "drained", "CPU in use"],
)
def test_what_does_not_fit_is_refused(parts: tuple[NodeAllocation, ...]) -> None:
    """A plan is checked again: the state may have gone on while it was made."""
    cluster = a_cluster(2)
    cluster.submit(name="50")
    cluster.run(1)
    cluster.state.nodes[N2].drained = True
    cluster.state.touch_node(N2)
    transaction = cluster.tell(SubmitJob(a_spec(), USER, "r"))
    assert transaction.refusal is None
    assert tell(cluster, a_placement(2, *parts)) is RefusalCode.TRY_LATER
    assert tell(cluster, a_placement(2, on("n1", 0b10))) is None


def test_only_what_waits_is_placed() -> None:
    cluster = a_cluster(2)
    held = cluster.submit(hold=True)
    running = cluster.submit()
    cluster.run(1)
    for job_id in (held, running, 99):
        assert tell(cluster, a_placement(job_id, on("n2"))) is RefusalCode.TRY_LATER


def test_a_task_that_is_gone_is_not_placed() -> None:
    cluster = a_cluster(1)
    cluster.tell(SubmitJob(a_spec(array_tasks=(0, 1), array_limit=1), USER, "r"))
    assert tell(cluster, a_placement(1, on("n1"), task_id=7)) is RefusalCode.TRY_LATER
    assert tell(cluster, a_placement(1, on("n1"), task_id=0)) is None
    assert tell(cluster, a_placement(1, on("n1", 0b10), task_id=1)) is RefusalCode.TRY_LATER, "%1"


# PREPARE and START


def test_a_gang_starts_when_all_are_ready() -> None:
    cluster = a_cluster(2)
    cluster.nodes[N2].answers = False
    transaction = cluster.tell(SubmitJob(a_spec(request=a_request(2)), USER, "r"))
    assert not transaction.refusal
    placed = cluster.tell(a_placement(1, on("n1"), on("n2")))
    prepares = [e for e in placed.effects if isinstance(e, PrepareRun)]
    assert [(e.node, e.start) for e in prepares] == [("n1", False), ("n2", False)]
    cluster.run(1)
    assert state_of(cluster, 1) == "CONFIGURING"
    assert not cluster.nodes[N1].started
    last = cluster.tell(NodeReport(N2, RunReport(JobId(1), RunNumber(1), "PREPARED")))
    assert [e.node for e in last.effects if isinstance(e, StartRun)] == ["n1", "n2"]


def test_a_single_node_starts_by_itself() -> None:
    cluster = a_cluster(1)
    cluster.tell(SubmitJob(a_spec(), USER, "r"))
    placed = cluster.tell(a_placement(1, on("n1")))
    assert [e.start for e in placed.effects if isinstance(e, PrepareRun)] == [True]


def test_prepare_that_fails_somewhere_starts_nowhere() -> None:
    cluster = a_cluster(3, cpus=1)
    cluster.nodes[N2].answers = False
    job_id = a_gang(cluster)
    assert [p.node for p in cluster.job(job_id).allocation] == ["n1", "n2"]
    transaction = cluster.tell(PrepareFailed(N2, job_id, RunNumber(1), "prolog"))
    assert {e.node for e in transaction.effects if isinstance(e, EndRun) and e.kill} == {"n1", "n2"}
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.run) == (JobState.RUNNING, 2)
    assert [p.node for p in job.allocation] == ["n1", "n3"], "without the node that failed"
    assert job.requeues == {"launch_failure": 1}
    assert job.restarts == 0, "SLURM_RESTART_COUNT does not count what never began"
    assert all(key[1] == 2 for node in cluster.nodes.values() for key in node.started)
    assert cluster.state.nodes[N2].launch_failures == 1


def test_a_failed_launch_waits_with_the_reason() -> None:
    cluster = a_cluster(2)
    cluster.nodes[N2].answers = False
    job_id = a_gang(cluster)
    submitted = cluster.job(job_id).submit_time
    cluster.tell(PrepareFailed(N2, job_id, RunNumber(1), "prolog"))
    cluster.run(0.05)
    job = cluster.job(job_id)
    assert (job.state, job.avoided_nodes, job.submit_time) == (JobState.PENDING, ("n2",), submitted)
    cluster.run(30)
    assert state_of(cluster, job_id) == "PENDING"
    assert cluster.reason(job_id) not in ("None", "Priority")


def test_the_node_may_be_used_again_once_its_daemon_has_come_anew() -> None:
    cluster = a_cluster(2)
    cluster.nodes[N2].answers = False
    job_id = a_gang(cluster)
    cluster.tell(PrepareFailed(N2, job_id, RunNumber(1), "prolog"))
    cluster.run(5)
    cluster.nodes[N2].answers = True
    cluster.register("n2")
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"


def test_a_users_requeue_forgets_which_nodes_failed() -> None:
    cluster = a_cluster(3, cpus=1)
    cluster.nodes[N2].answers = False
    job_id = a_gang(cluster)
    cluster.tell(PrepareFailed(N2, job_id, RunNumber(1), "prolog"))
    cluster.run(1)
    assert cluster.job(job_id).avoided_nodes == ("n2",)
    requeue(cluster, job_id)
    cluster.run(1)
    assert cluster.job(job_id).avoided_nodes == ()


def test_the_jobs_own_fault_is_no_nodes_fault() -> None:
    cluster = a_cluster(2)
    cluster.nodes[N2].answers = False
    job_id = a_gang(cluster)
    cluster.tell(PrepareFailed(N2, job_id, RunNumber(1), "no such user", job_fault=True))
    cluster.run(1)
    job = cluster.job(job_id)
    assert (job.state, job.reason) == (JobState.FAILED, Reason.JOB_LAUNCH_FAILURE)
    assert cluster.state.nodes[N2].launch_failures == 0


def test_a_silent_node_in_prepare() -> None:
    """The others are not kept waiting past the deadline, and nothing of the gang runs on."""
    cluster = a_cluster(3, cpus=1, prepare_timeout_s=20.0)
    cluster.nodes[N2].answers = False
    job_id = a_gang(cluster)
    cluster.run(18)
    assert state_of(cluster, job_id) == "CONFIGURING"
    cluster.run(3)
    job = cluster.job(job_id)
    assert (job.state, job.run) == (JobState.RUNNING, 2)
    assert "n2" not in [p.node for p in job.allocation]
    assert cluster.state.nodes[N2].cpus_used == 0


def test_a_silent_single_node_is_waited_for() -> None:
    """It starts by itself: whether it has, only its answer tells."""
    cluster = a_cluster(2, prepare_timeout_s=20.0)
    cluster.nodes[N1].answers = False
    job_id = cluster.submit(name="50")
    cluster.run(1)
    assert [p.node for p in cluster.job(job_id).allocation] == ["n1"]
    cluster.run(20.5)
    job = cluster.job(job_id)
    assert job.run == 2, "the node said that it holds nothing"
    assert [p.node for p in job.allocation] == ["n2"]


def test_a_late_prepare_timeout_has_lost_its_point() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    before = len(cluster.journal)
    cluster.tell(PrepareTimeout(job_id, RunNumber(1)))
    cluster.tell(PrepareFailed(N2, job_id, RunNumber(1), "late"))
    assert len(cluster.journal) == before
    requeue(cluster, job_id)
    cluster.nodes[N2].answers = False
    cluster.run(1)
    assert (state_of(cluster, job_id), cluster.job(job_id).run) == ("CONFIGURING", 2)
    cluster.tell(PrepareTimeout(job_id, RunNumber(1)))
    cluster.tell(PrepareFailed(N2, job_id, RunNumber(1), "of the first run"))
    assert state_of(cluster, job_id) == "CONFIGURING"


def test_launch_failures_in_a_row_drain_the_node() -> None:
    cluster = a_cluster(1)
    for count in range(1, 4):
        cluster.nodes[N1].answers = False
        job_id = cluster.submit()
        cluster.run(1)
        cluster.tell(PrepareFailed(N1, job_id, RunNumber(1), "prolog"))
        assert cluster.state.nodes[N1].launch_failures == count
        cluster.run(1)
    node = cluster.state.nodes[N1]
    assert node.drained
    assert node.reason == "3 launches in a row failed, the last of job 3"


def test_a_launch_that_succeeds_ends_the_row() -> None:
    cluster = a_cluster(1)
    for _ in range(2):
        cluster.nodes[N1].answers = False
        job_id = cluster.submit()
        cluster.run(1)
        cluster.tell(PrepareFailed(N1, job_id, RunNumber(1), "prolog"))
        cluster.run(1)
        cluster.nodes[N1].answers = True
    cluster.submit(name="5")
    cluster.run(1)
    assert cluster.state.nodes[N1].launch_failures == 0
    assert not cluster.state.nodes[N1].drained


# Ends


@pytest.mark.parametrize(
    ("values", "state", "reason"),
    [
        ({}, "COMPLETED", Reason.NONE),
        ({"exit_code": 3}, "FAILED", Reason.NON_ZERO_EXIT),
        ({"exit_signal": 11}, "FAILED", Reason.RAISED_SIGNAL),
        ({"exit_signal": 9, "out_of_memory": True}, "OUT_OF_MEMORY", Reason.OUT_OF_MEMORY),
        ({"exit_code": 1, "launch_failed": True}, "FAILED", Reason.JOB_LAUNCH_FAILURE),
    ],
)
def test_final_states(values: dict[str, int], state: str, reason: Reason) -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    ended_at = cluster.now - 0.5
    assert report(cluster, "n1", "EXITED", job_id, end_time=ended_at, **values) == 1
    assert state_of(cluster, job_id) == "COMPLETING"
    cluster.run(5)
    job = cluster.job(job_id)
    assert (job.state.value, job.reason) == (state, reason)
    assert (job.exit_code, job.exit_signal) == (values.get("exit_code", 0), values.get("exit_signal", 0))
    assert job.end_time == ended_at, "when the script ended, not when the last node let go"


def test_a_node_is_free_when_it_has_let_go_not_before() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    cluster.nodes[N2].alive = False
    report(cluster, "n1", "EXITED", job_id)
    cluster.run(5)
    assert cluster.job(job_id).open_nodes == ("n2",)
    assert cluster.state.nodes[N1].cpus_used == 0
    assert cluster.state.nodes[N2].cpus_used != 0


def test_reports_of_another_run_change_nothing() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    requeue(cluster, job_id)
    cluster.run(1)
    assert cluster.job(job_id).run == 2
    for phase in ("PREPARED", "RUNNING", "EXITED", "CLEAN"):
        for run in (1, 3):
            assert report(cluster, "n1", phase, job_id, run, exit_code=1) == 0
    assert report(cluster, "n1", "EXITED", 77) == 0


def test_reports_that_come_twice_change_nothing() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    assert report(cluster, "n1", "PREPARED", job_id) == 0
    assert report(cluster, "n1", "RUNNING", job_id) == 0
    cluster.nodes[N2].alive = False
    assert report(cluster, "n1", "EXITED", job_id, exit_code=3) == 1
    assert report(cluster, "n1", "EXITED", job_id, exit_code=4) == 0
    cluster.run(1)
    assert report(cluster, "n1", "CLEAN", job_id) == 0
    assert cluster.job(job_id).exit_code == 3


def test_only_the_batch_host_ends_the_job() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    assert report(cluster, "n2", "EXITED", job_id, exit_code=1) == 0
    assert state_of(cluster, job_id) == "RUNNING"


def test_a_node_that_is_not_part_of_the_run_says_nothing() -> None:
    cluster = a_cluster(3)
    job_id = a_gang(cluster)
    assert report(cluster, "n3", "EXITED", job_id, exit_code=1) == 0


# Time limits and signals before the end


def test_time_limit() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster, time_limit_s=30.0)
    started = cluster.job(job_id).start_time
    cluster.run(28)
    assert state_of(cluster, job_id) == "RUNNING"
    cluster.run(3)
    job = cluster.job(job_id)
    assert (job.state, job.reason) == (JobState.TIMEOUT, Reason.TIME_LIMIT)
    assert 30.0 <= job.end_time - started < 30.1


def test_the_time_limit_counts_from_the_start_of_this_run() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster, time_limit_s=30.0)
    cluster.run(20)
    requeue(cluster, job_id)
    cluster.run(25)
    assert (state_of(cluster, job_id), cluster.job(job_id).run) == ("RUNNING", 2)
    cluster.tell(TimeLimitReached(job_id, RunNumber(1)))
    cluster.tell(TimeLimitReached(job_id, RunNumber(2)))
    assert state_of(cluster, job_id) == "RUNNING", "of the first run, and too early"
    cluster.run(6)
    assert state_of(cluster, job_id) == "TIMEOUT"


def test_the_time_limit_outlives_a_restart() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster, time_limit_s=30.0)
    cluster.run(15)
    cluster.restart_controller()
    cluster.run(16)
    assert state_of(cluster, job_id) == "TIMEOUT"


@pytest.mark.parametrize("shell_only", [True, False])
def test_signal_before_the_end(shell_only: bool) -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster, time_limit_s=40.0, signal=SignalBeforeEnd(10, 15.0, shell_only))
    cluster.run(23)
    assert not cluster.nodes[N1].signals
    cluster.run(2)
    assert cluster.nodes[N1].signals == [((job_id, 1), 10)]
    assert bool(cluster.nodes[N2].signals) is not shell_only
    cluster.restart_controller()
    cluster.run(10)
    assert len(cluster.nodes[N1].signals) == 1, "once"


def test_a_signal_longer_before_the_end_than_the_limit_comes_at_the_start() -> None:
    cluster = a_cluster(1)
    cluster.submit(name="50", time_limit_s=40.0, signal=SignalBeforeEnd(10, 100.0))
    cluster.run(1)
    assert len(cluster.nodes[N1].signals) == 1


def test_a_changed_limit_moves_the_signal() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(name="500", time_limit_s=100.0, signal=SignalBeforeEnd(10, 15.0))
    cluster.run(1)
    assert update(cluster, job_id, time_limit_s=50.0) is None
    cluster.run(35)
    assert len(cluster.nodes[N1].signals) == 1
    cluster.run(16)
    assert state_of(cluster, job_id) == "TIMEOUT"


def test_a_limit_lowered_and_raised_again_gives_one_signal() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(name="500", time_limit_s=100.0, signal=SignalBeforeEnd(10, 15.0))
    cluster.run(1)
    update(cluster, job_id, time_limit_s=50.0)
    cluster.run(40)
    update(cluster, job_id, time_limit_s=100.0, by=OPERATOR)
    cluster.run(55)
    assert cluster.nodes[N1].signals == [((job_id, 1), 10)]


def test_each_run_gets_its_signal() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(name="500", time_limit_s=40.0, signal=SignalBeforeEnd(10, 15.0))
    cluster.run(30)
    requeue(cluster, job_id)
    cluster.run(30)
    assert cluster.nodes[N1].signals == [((job_id, 1), 10), ((job_id, 2), 10)]


# Steps


def a_step(cluster: SimCluster, job_id: int, request_id: str = "", **changes: object) -> StepId | Refusal:
    request = StepRequest(JobId(job_id), **changes)  # type: ignore[arg-type]
    transaction = cluster.tell(CreateStep(request, USER, request_id))
    if transaction.refusal is not None:
        return transaction.refusal
    return StepId(cluster.job(job_id).next_step_id - 1)


def refused(answer: StepId | Refusal) -> RefusalCode:
    assert isinstance(answer, Refusal)
    return answer.code


def test_steps_are_numbered_and_end_node_by_node() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    assert a_step(cluster, job_id) == 0
    assert a_step(cluster, job_id, node_list=(N2,)) == 1
    assert cluster.job(job_id).steps[StepId(0)].open_nodes == ("n1", "n2")
    assert cluster.job(job_id).steps[StepId(1)].nodes == ("n2",)
    run = RunNumber(1)
    assert len(cluster.tell(StepEnded(N1, job_id, run, StepId(0), 3)).events) == 1
    assert not cluster.tell(StepEnded(N1, job_id, run, StepId(0), 4)).events, "twice"
    assert not cluster.tell(StepEnded(N2, job_id, RunNumber(2), StepId(0), 4)).events, "of another run"
    assert cluster.job(job_id).steps[StepId(0)].open_nodes == ("n2",)
    cluster.tell(StepEnded(N2, job_id, run, StepId(0), 1))
    job = cluster.job(job_id)
    assert list(job.steps) == [1]
    assert job.derived_exit_code == 3, "the highest"
    assert a_step(cluster, job_id) == 2, "numbers are not used again"


def test_the_derived_exit_prefers_signals() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    for code, number in ((7, 0), (0, 9), (5, 0)):
        step_id = a_step(cluster, job_id, node_list=(N1,))
        assert isinstance(step_id, int)
        cluster.tell(StepEnded(N1, job_id, RunNumber(1), step_id, code, number))
    job = cluster.job(job_id)
    assert (job.derived_exit_code, job.derived_exit_signal) == (0, 9)


def test_steps_end_with_their_run() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    a_step(cluster, job_id)
    cancel(cluster, job_id)
    cluster.run(1)
    (step,) = cluster.job(job_id).steps.values()
    assert (step.state, step.open_nodes) == (JobState.CANCELLED, ())
    requeue(cluster, job_id)
    cluster.run(1)
    assert cluster.job(job_id).steps == {}
    assert a_step(cluster, job_id) == 0


def test_steps_of_jobs_that_do_not_run() -> None:
    cluster = a_cluster(2)
    waiting = cluster.submit(hold=True)
    job_id = a_gang(cluster, name="5")
    assert refused(a_step(cluster, waiting)) is RefusalCode.JOB_PENDING
    assert refused(a_step(cluster, 99)) is RefusalCode.INVALID_JOB_ID
    cluster.run(10)
    assert refused(a_step(cluster, job_id)) is RefusalCode.EXPIRED
    running = a_gang(cluster)
    assert tell(cluster, CreateStep(StepRequest(running), OTHER)) is RefusalCode.ACCESS


def test_a_step_fits_into_its_allocation() -> None:
    cluster = a_cluster(2)
    job_id = cluster.submit(request=a_request(2, tasks=6), name="50")
    cluster.run(1)
    held = sum(part.cpu_count for part in cluster.job(job_id).allocation)
    assert held == 6
    assert refused(a_step(cluster, job_id, tasks=7)) is RefusalCode.STEP_TOO_MANY_TASKS
    assert refused(a_step(cluster, job_id, tasks=6, cpus_per_task=2)) is RefusalCode.STEP_TOO_MANY_TASKS
    assert refused(a_step(cluster, job_id, tasks_per_node=9)) is RefusalCode.STEP_TOO_MANY_TASKS
    too_many = a_step(cluster, job_id, nodes=3)
    assert isinstance(too_many, Refusal)
    assert too_many.details == ("Only allocated 2 nodes asked for 3",)
    assert refused(a_step(cluster, job_id, node_list=(NodeName("n9"),))) is RefusalCode.STEP_NODES
    assert refused(a_step(cluster, job_id, excluded_nodes=(N1, N2))) is RefusalCode.STEP_NODE_COUNT
    assert a_step(cluster, job_id, tasks=6) == 0


def test_which_nodes_and_how_many_tasks() -> None:
    cluster = a_cluster(2)
    job_id = cluster.submit(request=a_request(2, tasks=4, tasks_per_node=2), name="50")
    cluster.run(1)

    def layout(**changes: object) -> list[tuple[str, int]]:
        step_id = a_step(cluster, job_id, **changes)
        assert isinstance(step_id, int)
        step = cluster.job(job_id).steps[step_id]
        return list(zip(step.nodes, step.tasks_per_node, strict=True))

    assert layout() == [("n1", 1), ("n2", 1)]
    assert layout(tasks=1) == [("n1", 1)]
    assert layout(tasks=3) == [("n1", 2), ("n2", 1)]
    assert layout(nodes=1, tasks=2) == [("n1", 2)]
    assert layout(tasks_per_node=2) == [("n1", 2), ("n2", 2)]
    assert layout(excluded_nodes=(N1,), tasks=2) == [("n2", 2)]


@pytest.mark.parametrize("changes", [{"tasks": 0}, {"nodes": 0}])
def test_a_step_of_nothing_is_refused(changes: dict[str, int]) -> None:
    """No node would ever report its end."""
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    assert refused(a_step(cluster, job_id, **changes)) is RefusalCode.INVALID_NODE_COUNT


def test_the_same_request_makes_one_step() -> None:
    cluster = a_cluster(2)
    job_id = a_gang(cluster)
    assert a_step(cluster, job_id, "abc") == 0
    assert a_step(cluster, job_id, "abc") == 0
    record = cluster.state.requests["abc"]
    assert (record.job_id, record.step_id) == (job_id, 0)
    assert len(cluster.job(job_id).steps) == 1
