"""Heterogeneous jobs: what is asked of one component or of all, and what follows for the others."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cluster.decide import decide
from minislurm.cluster.effects import PrepareRun, StartRun
from minislurm.cluster.events import JobSubmitted, RunStarted
from minislurm.cluster.messages import (
    CancelJob,
    EndAllocation,
    HoldJob,
    Message,
    NodeReport,
    PlacementProposed,
    ReleaseJob,
    RequeueJob,
    RunReport,
    SignalJob,
    UpdateJob,
)
from minislurm.cluster.snapshot import snapshot
from minislurm.domain.configuration import License
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.domain.job import JobSpec
from minislurm.domain.reservation import LicenseCount
from minislurm.domain.views import JobChanges, JobTarget
from minislurm.scheduling.cycle import schedule
from tests.builders import a_configuration, a_request, a_spec
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import OTHER, USER, a_cluster, after, cancel, state_of

MASTER = a_spec("30", request=a_request(1, cpus_per_task=8))
WORKERS = a_spec("30", request=a_request(2, cpus_per_task=4))


def states(cluster: SimCluster) -> list[str]:
    return [job.state.value for job in cluster.state.jobs.values()]


def one(offset: int, job_id: int = 1) -> JobTarget:
    return JobTarget(JobId(job_id), het_offset=offset)


def refused(cluster: SimCluster, message: Message) -> RefusalCode | None:
    refusal = cluster.tell(message).refusal
    return refusal.code if refusal is not None else None


@pytest.fixture
def cluster() -> SimCluster:
    return a_cluster(3)


@pytest.fixture
def running(cluster: SimCluster) -> SimCluster:
    cluster.submit_components(MASTER, WORKERS)
    cluster.run(1.0)
    assert states(cluster) == ["RUNNING", "RUNNING"]
    return cluster


@pytest.fixture
def waiting(cluster: SimCluster) -> SimCluster:
    """Behind a job that holds a node for 30 s."""
    cluster.submit(name="30")
    cluster.run(1.0)
    cluster.submit_components(MASTER, WORKERS, MASTER)
    assert states(cluster)[1:] == ["PENDING"] * 3
    return cluster


# Submitted as a whole


def test_ids_in_a_row_and_one_event(cluster: SimCluster) -> None:
    leader = cluster.submit_components(MASTER, WORKERS, WORKERS)
    jobs = [cluster.job(leader + i) for i in range(3)]
    assert [(job.id, job.het_job_id, job.het_job_offset) for job in jobs] == [(1, 1, 0), (2, 1, 1), (3, 1, 2)]
    assert [job.spec.is_batch for job in jobs] == [True, False, False]
    assert [job.spec.script_hash for job in jobs] == ["0" * 64, "", ""]
    assert cluster.submit() == 4
    assert all(job.eligible_time for job in jobs)


def test_a_repeated_request_makes_no_second_one(cluster: SimCluster) -> None:
    cluster.submit_components(MASTER, WORKERS)
    (request_id,) = cluster.state.requests
    message = cluster.state.requests[request_id]
    again = cluster.tell(_submission(MASTER, WORKERS, request_id=request_id))
    assert (again.events, message.job_id) == ([], 1)


def _submission(*specs: JobSpec, request_id: str = "r") -> Any:
    from minislurm.cluster.messages import SubmitJob

    return SubmitJob(specs[0], USER, request_id, specs[1:])


@pytest.mark.parametrize(
    ("specs", "code", "detail"),
    [
        (
            (MASTER, replace(WORKERS, request=a_request(1, cpus_per_task=9))),
            RefusalCode.NODE_CONFIGURATION,
            "Component 1 of the heterogeneous job can not be accepted",
        ),
        (
            (replace(MASTER, partition="nosuch"), WORKERS),
            RefusalCode.INVALID_PARTITION,
            "Component 0 of the heterogeneous job can not be accepted",
        ),
        ((MASTER, replace(WORKERS, array_tasks=(1, 2))), RefusalCode.INVALID_ARRAY, "no array"),
        ((replace(MASTER, array_tasks=(1,)), WORKERS), RefusalCode.INVALID_ARRAY, "no array"),
        ((replace(MASTER, is_batch=False), WORKERS), RefusalCode.NOT_SUPPORTED, "no script"),
    ],
)
def test_one_that_cannot_be_accepted_refuses_all(
    cluster: SimCluster, specs: tuple[JobSpec, ...], code: RefusalCode, detail: str
) -> None:
    with pytest.raises(Refusal) as error:
        cluster.submit_components(*specs)
    assert error.value.code is code
    assert detail in error.value.details[-1]
    assert not cluster.state.jobs


def test_the_number_of_jobs_counts_all_components(cluster: SimCluster) -> None:
    limits = replace(cluster.state.configuration.limits, max_job_count=3)
    cluster.state.configure(replace(cluster.state.configuration, limits=limits))
    cluster.submit(hold=True)
    with pytest.raises(Refusal) as error:
        cluster.submit_components(MASTER, WORKERS, WORKERS)
    assert error.value.code is RefusalCode.TOO_MANY_JOBS
    assert cluster.submit_components(MASTER, WORKERS) == 2


def test_a_component_is_its_leaders_users(cluster: SimCluster) -> None:
    """Whatever a request says of the others: nobody submits for somebody else."""
    other = replace(WORKERS, user_id=0, user_name="root", group_id=0, group_name="root")
    leader = cluster.submit_components(MASTER, other)
    spec = cluster.job(leader + 1).spec
    assert (spec.user_id, spec.user_name, spec.group_id) == (1000, "user1000", 1000)


# Started as a whole


def test_a_component_is_never_placed_alone(cluster: SimCluster) -> None:
    cluster.pass_rank = 9
    message = _submission(MASTER, WORKERS, WORKERS)
    handled = decide(cluster.state, message, cluster.now)
    assert isinstance(handled, list)
    assert isinstance(handled[0], JobSubmitted)
    cluster.tell(message)
    (placement,) = schedule(snapshot(cluster.state, cluster.now)).placements
    for part in (
        replace(placement, parts=()),
        replace(placement, parts=placement.parts[:1]),
        replace(placement, parts=placement.parts[::-1]),
        placement.parts[0],
    ):
        assert refused(cluster, PlacementProposed(part)) is RefusalCode.TRY_LATER
    assert refused(cluster, PlacementProposed(placement)) is None
    assert states(cluster) == ["CONFIGURING"] * 3


def test_two_components_are_not_placed_on_the_same_cpus(cluster: SimCluster) -> None:
    """The state checks the whole plan, not each part of it."""
    small = a_spec("30", request=a_request(1, cpus_per_task=2, memory_per_node_mib=9000))
    cluster.tell(_submission(small, small))
    (placement,) = schedule(snapshot(cluster.state, cluster.now)).placements
    twice = replace(placement, parts=(replace(placement.parts[0], allocation=placement.allocation),))
    assert refused(cluster, PlacementProposed(twice)) is RefusalCode.TRY_LATER
    part = replace(placement.allocation[0], cpus=0b1100)
    memory = replace(placement, parts=(replace(placement.parts[0], allocation=(part,)),))
    assert refused(cluster, PlacementProposed(memory)) is RefusalCode.TRY_LATER
    assert refused(cluster, PlacementProposed(placement)) is None


def test_licenses_are_counted_for_all_components() -> None:
    configuration = a_configuration(2, licenses=(License("a", 1),))
    cluster = SimCluster(configuration)
    one_license = a_spec(request=a_request(1, licenses=(LicenseCount("a", 1),)))
    cluster.tell(_submission(one_license, one_license))
    cluster.run(5.0)
    assert states(cluster) == ["PENDING", "PENDING"]


def test_nothing_starts_before_all_nodes_are_ready(cluster: SimCluster) -> None:
    """Not even the script of a leader on a single node, which starts by itself otherwise."""
    cluster.nodes[NodeName("n3")].answers = False
    effects: list[Any] = []
    cluster.tell(_submission(MASTER, WORKERS))
    (placement,) = schedule(snapshot(cluster.state, cluster.now)).placements
    transaction = cluster.tell(PlacementProposed(placement))
    prepares = [effect for effect in transaction.effects if isinstance(effect, PrepareRun)]
    assert [effect.start for effect in prepares] == [False] * 3
    cluster.run(1.0)
    assert states(cluster) == ["CONFIGURING"] * 2
    missing = [n for job in cluster.state.jobs.values() for n in (p.node for p in job.allocation)
               if n not in job.prepared_nodes]  # fmt: skip
    assert missing == ["n3"]
    (job,) = [job for job in cluster.state.jobs.values() if "n3" not in job.prepared_nodes
              and any(p.node == "n3" for p in job.allocation)]  # fmt: skip
    transaction = cluster.tell(NodeReport(NodeName("n3"), RunReport(job.id, RunNumber(1), "PREPARED")))
    effects = [effect.node for effect in transaction.effects if isinstance(effect, StartRun)]
    assert sorted(effects) == ["n1", "n2", "n3"]
    assert [e.job_id for e in transaction.events if isinstance(e, RunStarted)] == [2]


def test_start_is_said_again_after_a_restart(cluster: SimCluster) -> None:
    """START was in the journal and never sent: the script starts when its node is back, once."""
    cluster.tell(_submission(MASTER, WORKERS))
    cluster.run(0.015)  # all have prepared; their answers are on the way
    cluster.lose_effects = True
    cluster.run(1.0)
    assert states(cluster) == ["CONFIGURING", "RUNNING"]
    cluster.restart_controller()
    cluster.run(1.0)
    assert states(cluster) == ["RUNNING", "RUNNING"]
    assert sum(len(node.started) for node in cluster.nodes.values()) == 1


# Ended as a whole


def test_the_end_of_the_script_ends_all(running: SimCluster) -> None:
    running.exit_codes[JobId(1)] = 3
    running.run(60.0)
    assert states(running) == ["FAILED", "FAILED"]
    assert [job.exit_code for job in running.state.jobs.values()] == [3, 3]


def test_cancel(running: SimCluster) -> None:
    assert cancel(running, 1) is None
    running.run(1.0)
    assert states(running) == ["CANCELLED", "CANCELLED"]
    assert {job.cancelled_by for job in running.state.jobs.values()} == {1000}
    assert cancel(running, 1) is RefusalCode.ALREADY_DONE


@pytest.mark.parametrize("target", [one(1), JobTarget(JobId(2))])
def test_a_running_component_may_be_cancelled_alone(running: SimCluster, target: JobTarget) -> None:
    assert refused(running, CancelJob(target, USER)) is None
    running.run(1.0)
    assert states(running) == ["RUNNING", "CANCELLED"]
    running.run(60.0)
    assert states(running) == ["COMPLETED", "CANCELLED"]


def test_one_that_leaves_before_all_are_ready_takes_all_along(cluster: SimCluster) -> None:
    """The others wait for its nodes."""
    cluster.submit_components(a_spec(), a_spec())
    cluster.run(0.0)
    assert states(cluster) == ["CONFIGURING", "CONFIGURING"]
    assert refused(cluster, CancelJob(one(1), OPERATOR)) is None
    cluster.run(1.0)
    assert states(cluster) == ["CANCELLED", "CANCELLED"]


def test_the_leader_takes_all_along(running: SimCluster) -> None:
    assert refused(running, CancelJob(one(0), USER)) is None
    running.run(1.0)
    assert states(running) == ["CANCELLED", "CANCELLED"]


@pytest.mark.parametrize("target", [one(1, 2), one(0, 2), JobTarget(JobId(3))])
def test_a_waiting_component_is_not_touched_alone(waiting: SimCluster, target: JobTarget) -> None:
    messages: list[Message] = [
        CancelJob(target, USER),
        HoldJob(target, USER),
        ReleaseJob(target, USER),
        RequeueJob(target, USER),
    ]
    if target.het_offset != 0:
        messages.append(UpdateJob(target, OPERATOR, JobChanges(priority=5)))
    for message in messages:
        assert refused(waiting, message) is RefusalCode.HET_COMPONENT


def test_a_waiting_one_is_cancelled_as_a_whole(waiting: SimCluster) -> None:
    assert cancel(waiting, 2, by=OTHER) is RefusalCode.ACCESS
    assert cancel(waiting, 2) is None
    assert states(waiting) == ["RUNNING"] + ["CANCELLED"] * 3


def test_unknown_components(running: SimCluster) -> None:
    assert refused(running, CancelJob(one(2), USER)) is RefusalCode.INVALID_JOB_ID
    assert refused(running, CancelJob(one(1, 2), USER)) is RefusalCode.INVALID_JOB_ID
    plain = running.submit()
    assert refused(running, CancelJob(one(0, plain), USER)) is RefusalCode.INVALID_JOB_ID


def test_no_client_holds_a_component(running: SimCluster) -> None:
    assert refused(running, EndAllocation(JobId(2), USER)) is RefusalCode.NOT_SUPPORTED


def test_a_component_ends_by_its_own_limit_alone(cluster: SimCluster) -> None:
    cluster.submit_components(MASTER, replace(WORKERS, time_limit_s=5.0))
    cluster.run(10.0)
    assert states(cluster) == ["RUNNING", "TIMEOUT"]


def test_the_leaders_limit_ends_all(cluster: SimCluster) -> None:
    cluster.submit_components(replace(MASTER, time_limit_s=5.0), WORKERS)
    cluster.run(10.0)
    assert states(cluster) == ["TIMEOUT", "TIMEOUT"]


def test_signals_reach_all_components(running: SimCluster) -> None:
    assert refused(running, SignalJob(JobTarget(JobId(1)), USER, 10)) is None
    running.run(0.1)
    assert sorted(name for name, node in running.nodes.items() if node.signals) == ["n1", "n2", "n3"]
    assert refused(running, SignalJob(JobTarget(JobId(1)), USER, 12, batch_only=True)) is None
    running.run(0.1)
    assert sum(number == 12 for node in running.nodes.values() for _, number in node.signals) == 1


# Waits as a whole


def test_held_and_released(waiting: SimCluster) -> None:
    assert refused(waiting, HoldJob(JobTarget(JobId(2)), USER)) is None
    waiting.run(60.0)
    assert states(waiting)[1:] == ["PENDING"] * 3
    assert {waiting.job(i).reason.value for i in (2, 3, 4)} == {"JobHeldUser"}
    assert refused(waiting, ReleaseJob(JobTarget(JobId(2)), USER)) is None
    assert states(waiting)[1:] == ["PENDING"] * 3
    assert waiting.reason(3) == "PartitionConfig", "two whole nodes, and a half of two others"


def test_what_the_leader_waits_for_all_wait_for(cluster: SimCluster) -> None:
    first = cluster.submit(name="5")
    leader = cluster.submit_components(replace(MASTER, dependencies=(after("afterok", first),)), WORKERS)
    assert [cluster.job(leader + i).dependencies != () for i in (0, 1)] == [True, False]
    cluster.run(3.0)
    assert states(cluster)[1:] == ["PENDING", "PENDING"]
    cluster.run(5.0)
    assert states(cluster)[1:] == ["RUNNING", "RUNNING"]


def test_who_depends_on_it_waits_for_all_components(running: SimCluster) -> None:
    waits = running.submit(dependencies=(after("afterany", 1),))
    ok = running.submit(dependencies=(after("afterok", 1),))
    running.tell(CancelJob(one(1), USER))
    running.run(5.0)
    assert [state_of(running, job_id) for job_id in (waits, ok)] == ["PENDING", "PENDING"]
    running.run(60.0)
    assert state_of(running, waits) == "COMPLETED"
    assert running.reason(ok) == "DependencyNeverSatisfied"


def test_given_up_as_a_whole(waiting: SimCluster) -> None:
    """A deadline that comes too near by an update ends all of it."""
    until = waiting.now + 5.0
    changes = JobChanges(deadline=until, time_limit_s=60.0)
    assert refused(waiting, UpdateJob(JobTarget(JobId(2)), OPERATOR, changes)) is None
    waiting.run(1.0)
    assert states(waiting)[1:] == ["DEADLINE"] * 3


def test_a_change_of_one_or_of_all(waiting: SimCluster) -> None:
    assert refused(waiting, UpdateJob(one(1, 2), USER, JobChanges(time_limit_s=60.0))) is None
    assert [waiting.job(i).time_limit_s for i in (2, 3, 4)] != [60.0] * 3
    assert waiting.job(3).time_limit_s == 60.0
    assert refused(waiting, UpdateJob(JobTarget(JobId(2)), USER, JobChanges(comment="x"))) is None
    assert [waiting.job(i).comment for i in (2, 3, 4)] == ["x"] * 3


# Comes back as a whole


def test_requeue_brings_back_those_that_had_ended(running: SimCluster) -> None:
    running.tell(CancelJob(one(1), USER))
    running.run(1.0)
    assert refused(running, RequeueJob(JobTarget(JobId(1)), USER)) is None
    running.run(1.0)
    assert [(job.state.value, job.run) for job in running.state.jobs.values()] == [("RUNNING", 2)] * 2


def test_requeue_of_one_that_has_ended(running: SimCluster) -> None:
    running.run(60.0)
    assert states(running) == ["COMPLETED", "COMPLETED"]
    assert refused(running, RequeueJob(one(1), USER)) is RefusalCode.HET_COMPONENT
    assert refused(running, RequeueJob(JobTarget(JobId(1)), USER, hold=True)) is None
    assert [job.held for job in running.state.jobs.values()] == ["user", "user"]
    assert refused(running, ReleaseJob(JobTarget(JobId(1)), USER)) is None
    running.run(1.0)
    assert states(running) == ["RUNNING", "RUNNING"]


@pytest.mark.parametrize("requeue", [True, False])
def test_a_lost_node_acts_on_all(requeue: bool) -> None:
    """Also where two components are on it."""
    cluster = a_cluster(2)
    half = a_spec("30", request=a_request(1, cpus_per_task=4), requeue=requeue)
    cluster.submit_components(half, half, half)
    cluster.run(1.0)
    shared = [node.name for node in cluster.state.nodes.values() if len(node.jobs) == 2]
    cluster.kill_node(shared[0])
    cluster.declare_lost(shared[0])
    cluster.run(1.0)
    assert states(cluster) == (["PENDING"] if requeue else ["NODE_FAIL"]) * 3
    assert cluster.state.nodes[shared[0]].cpus_used == 0


def test_components_are_forgotten_together(running: SimCluster) -> None:
    """One that ended long ago is remembered as long as the others may come back with it."""
    age = running.state.configuration.timers.min_job_age_s
    running.submit(name="10000", partition="batch")
    running.tell(CancelJob(one(1), USER))
    running.run(20.0)
    from minislurm.cluster.messages import PurgeDue

    running.run(11.0 + age - 20.0)  # the leader has ended, but not so long ago
    running.tell(PurgeDue())
    assert JobId(2) in running.state.jobs
    running.run(age + 20.0)
    running.tell(PurgeDue())
    assert JobId(1) not in running.state.jobs
    assert JobId(2) not in running.state.jobs
    assert running.state.het_jobs == {}
