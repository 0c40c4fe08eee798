"""Jobs of a higher tier take the nodes of those of a lower one: whose, when, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.cluster.events import RunEnded
from minislurm.cluster.messages import CancelJob, CheckpointMade, HoldJob, PreemptionProposed, UpdateJob
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.configuration import Partition, PreemptionSection
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import JobId, RunNumber
from minislurm.domain.job import Job
from minislurm.domain.preemption import REMEMBERED
from minislurm.domain.states import JobState
from minislurm.domain.views import JobChanges, JobTarget
from minislurm.scheduling.model import Preemption
from tests.builders import a_configuration, a_request
from tests.sim.cluster import OPERATOR, SimCluster

FOR_EVER = float("inf")


def a_cluster(nodes: int = 4, *, racks: int = 0, partition: dict[str, Any] | None = None, **preemption: Any):
    """Partitions "batch" (tier 1) and "urgent" (tier 2) over the same nodes of 8 CPUs."""
    configuration = a_configuration(
        nodes, racks=racks, preemption=PreemptionSection(**{"mode": "requeue", **preemption})
    )
    (batch,) = configuration.partitions
    low = replace(batch, **(partition or {}))
    high = Partition("urgent", batch.nodes, priority_tier=2)
    configuration = replace(configuration, partitions=(low, high))
    return SimCluster(configuration, duration_of=lambda job: 10.0 if job.partition == "urgent" else FOR_EVER)


def whole(nodes: int = 1, **changes: Any):
    return a_request(nodes, cpus_per_task=8, **changes)


def submit(cluster: SimCluster, partition: str = "batch", nodes: int = 1, **changes: Any) -> JobId:
    job_id = cluster.submit(partition=partition, request=whole(nodes, **changes))
    cluster.run(0.1)
    return job_id


def running(cluster: SimCluster) -> set[int]:
    return {int(job.id) for job in cluster.state.jobs.values() if job.state is JobState.RUNNING}


def test_a_job_of_a_higher_tier_takes_the_node_of_a_lower_one_and_gives_it_back() -> None:
    cluster = a_cluster(1)
    low = submit(cluster)
    cluster.run(50)
    high = submit(cluster, "urgent")
    cluster.run(1)
    assert running(cluster) == {high}
    job = cluster.job(low)
    assert job.state is JobState.PENDING
    assert job.requeues == {"preempt": 1}
    assert (job.restart_reason, job.preemptor) == ("preempt", high)
    assert job.preempt_time == pytest.approx(cluster.job(high).start_time, abs=1)
    cluster.run(11)
    assert running(cluster) == {low}
    assert cluster.job(low).run == 2


@pytest.mark.parametrize("tier", [1, 2, 3])
def test_equals_and_betters_are_left_alone(tier: int) -> None:
    cluster = a_cluster(1, partition={"priority_tier": tier})
    low = submit(cluster)
    submit(cluster, "urgent")
    cluster.run(5)
    assert (low in running(cluster)) is (tier >= 2)


def test_nothing_is_preempted_unless_asked_for() -> None:
    assert PreemptionSection().mode == "off"
    cluster = a_cluster(1, mode="off")
    low = submit(cluster)
    submit(cluster, "urgent")
    cluster.run(100)
    assert running(cluster) == {low}


def test_a_partition_has_its_own_mode() -> None:
    cluster = a_cluster(1, partition={"preempt_mode": "off"})
    low = submit(cluster)
    submit(cluster, "urgent")
    cluster.run(100)
    assert running(cluster) == {low}
    cluster = a_cluster(1, mode="off", partition={"preempt_mode": "cancel"})
    low = submit(cluster)
    submit(cluster, "urgent")
    cluster.run(5)
    assert cluster.job(low).state is JobState.PREEMPTED


def test_what_may_not_be_requeued_ends_as_preempted() -> None:
    cluster = a_cluster(1)
    low = cluster.submit(request=whole(), requeue=False)
    cluster.run(0.1)
    submit(cluster, "urgent")
    cluster.run(1)
    assert cluster.job(low).state is JobState.PREEMPTED


def test_the_cheapest_goes_and_nobody_besides() -> None:
    """Four runs of one node each; one node is wanted. The youngest has done the least."""
    cluster = a_cluster(4)
    jobs = []
    for _ in range(4):
        jobs.append(submit(cluster))
        cluster.run(100)
    high = submit(cluster, "urgent")
    cluster.run(1)
    assert running(cluster) == {*jobs[:3], high}


def test_a_gang_gives_way_whole_so_two_small_ones_may_be_cheaper() -> None:
    cluster = a_cluster(4)
    gang = submit(cluster, nodes=2)
    small = [submit(cluster) for _ in range(2)]
    cluster.run(100)
    high = submit(cluster, "urgent", nodes=2)
    cluster.run(1)
    # The same work is lost; of equals those who started last go.
    assert running(cluster) in ({gang, high}, {*small, high})
    assert len(cluster.job(high).allocation) == 2


def test_whoever_is_not_needed_stays() -> None:
    """The cheapest run alone frees too little, and is not touched: the dearer one frees enough by itself."""
    cluster = a_cluster(2)
    gang = submit(cluster, nodes=1)
    cluster.run(50)
    little = cluster.submit(request=a_request(1, cpus_per_task=4))
    cluster.run(1)
    high = submit(cluster, "urgent", nodes=1, required_nodes=(cluster.job(gang).allocation[0].node,))
    cluster.run(1)
    assert running(cluster) == {little, high}


def test_nobody_is_touched_if_it_would_not_help() -> None:
    cluster = a_cluster(2, partition={})
    low = submit(cluster)
    kept = cluster.submit(partition="urgent", request=whole(), name="kept")
    cluster.run(0.1)
    assert running(cluster) == {low, kept}
    submit(cluster, "urgent", nodes=2)
    cluster.run(1)
    # It needs both nodes, and one is held by its own tier.
    assert low in running(cluster)


def test_only_racks_that_would_do_are_emptied() -> None:
    """A gang of two that must share a rack: the two cheapest runs lie in different racks and stay."""
    cluster = a_cluster(4, racks=2)
    jobs = {int(job): cluster.job(job).allocation[0].node for job in [submit(cluster) for _ in range(4)]}
    rack = {"n1": 1, "n2": 1, "n3": 2, "n4": 2}
    high = submit(cluster, "urgent", nodes=2, topology_level="rack", topology_required=True)
    cluster.run(1)
    left = {rack[jobs[job]] for job in running(cluster) if job != high}
    assert len(left) == 1
    assert {rack[part.node] for part in cluster.job(high).allocation} == {1, 2} - left


def test_a_young_run_is_left_alone_for_a_while() -> None:
    cluster = a_cluster(1, exempt_s=60.0)
    low = submit(cluster)
    high = submit(cluster, "urgent")
    cluster.run(50)
    assert running(cluster) == {low}
    cluster.run(11)  # nothing happens in between that would call for a pass
    assert running(cluster) == {high}


def test_a_job_is_preempted_no_oftener_than_allowed() -> None:
    cluster = a_cluster(1, limit_per_job=2)
    low = submit(cluster)
    for _ in range(3):
        high = submit(cluster, "urgent")
        cluster.run(30)
        assert cluster.job(high).state is (JobState.COMPLETED if high < 4 else JobState.PENDING)
    assert cluster.job(low).requeues == {"preempt": 2}
    assert running(cluster) == {low}


def test_no_more_victims_than_allowed() -> None:
    cluster = a_cluster(4, max_victims=2)
    jobs = {submit(cluster) for _ in range(4)}
    submit(cluster, "urgent", nodes=3)
    cluster.run(1)
    assert running(cluster) == jobs
    high = submit(cluster, "urgent", nodes=2)
    cluster.run(1)
    # Behind the one that cannot start nobody preempts: it comes first.
    assert high not in running(cluster)


def test_several_at_once_each_get_their_own() -> None:
    cluster = a_cluster(4)
    for _ in range(4):
        submit(cluster)
    high = [cluster.submit(partition="urgent", request=whole()) for _ in range(3)]
    cluster.run(1)
    assert set(high) <= running(cluster)
    assert len(running(cluster)) == 4


def test_what_is_freed_is_not_taken_by_others_meanwhile() -> None:
    """Two jobs preempt; while the second node is still being left, nobody slips onto either."""
    cluster = a_cluster(2)
    for _ in range(2):
        submit(cluster)
    small = cluster.submit(request=a_request(1, cpus_per_task=1))
    silent = cluster.nodes[cluster.job(2).allocation[0].node]
    silent.alive = False
    high = submit(cluster, "urgent", nodes=2)
    later = submit(cluster, "urgent")
    cluster.run(5)
    assert cluster.job(1).state is JobState.PENDING
    assert running(cluster) == set()
    assert cluster.reason(high) == "Resources"
    silent.runs.clear()
    cluster.register(silent.name)
    cluster.run(1)
    assert running(cluster) == {high}
    cluster.run(11)
    assert running(cluster) == {later, small}


def test_an_array_preempts_task_by_task() -> None:
    cluster = a_cluster(4)
    for _ in range(4):
        submit(cluster)
    cluster.submit(partition="urgent", request=whole(), array_tasks=(0, 1, 2))
    cluster.run(1)
    assert len([job for job in cluster.state.jobs.values() if job.requeues]) == 3


def test_a_victim_that_is_cancelled_meanwhile_does_not_come_back() -> None:
    cluster = a_cluster(1)
    low = submit(cluster)
    cluster.nodes[cluster.job(low).allocation[0].node].alive = False  # it does not answer yet
    submit(cluster, "urgent")
    cluster.run(1)
    assert cluster.job(low).state is JobState.COMPLETING
    cluster.tell(CancelJob(JobTarget(low), OPERATOR))
    assert cluster.job(low).requeue_cause == ""


@pytest.mark.parametrize("what", ["run", "tier", "mode", "gone"])
def test_a_plan_is_checked_again(what: str) -> None:
    cluster = a_cluster(1, partition={"preempt_mode": "off"} if what == "mode" else {})
    low = submit(cluster)
    preemptor = JobId(99) if what == "gone" else submit(cluster, "batch" if what == "tier" else "urgent")
    if what not in ("mode", "tier", "gone"):
        cluster = a_cluster(1, exempt_s=1000.0)
        low = submit(cluster)
        preemptor = submit(cluster, "urgent")
    run = RunNumber(7) if what == "run" else RunNumber(1)
    told = cluster.tell(PreemptionProposed(Preemption(preemptor, ((low, run),), ())))
    assert told.refusal is not None
    assert told.refusal.code is RefusalCode.TRY_LATER
    assert running(cluster) == {low}


#: A case takes a while, and a few jobs are easily read.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
#: (urgent, nodes, CPUs on each, seconds until the next is submitted)
A_JOB = st.tuples(st.booleans(), st.integers(1, 3), st.integers(1, 8), st.integers(0, 40))
JOBS = st.lists(A_JOB, min_size=1, max_size=14)


@settings(max_examples=60, deadline=None, phases=NO_SHRINKING, suppress_health_check=[HealthCheck.too_slow])
@given(JOBS, st.integers(0, 2), st.sampled_from([0.0, 15.0]))
def test_whoever_preempts_starts_there_and_needs_every_victim(
    jobs: list[tuple[bool, int, int, int]], racks: int, exempt_s: float
) -> None:
    """Churn: every preemptor starts on nodes of its victims, in the tier above theirs, unless another run has
    ended first, and all jobs end."""
    cluster = a_cluster(4, racks=racks, exempt_s=exempt_s)
    cluster.duration_of = lambda job: 20.0
    taken: dict[JobId, set[str]] = {}
    asked: dict[JobId, tuple[float, set[JobId]]] = {}
    ends: list[tuple[float, JobId]] = []
    tell = cluster.tell

    def watched(message: Any) -> Any:
        if isinstance(message, PreemptionProposed):
            plan = message.preemption
            nodes = {part.node for job_id, _ in plan.victims for part in cluster.job(job_id).allocation}
            assert plan.job_id not in taken, "it preempts twice"
            taken[plan.job_id] = nodes
            asked[plan.job_id] = cluster.now, {job_id for job_id, _ in plan.victims}
            for job_id, _ in plan.victims:
                victim = cluster.job(job_id)
                assert victim.partition == "batch"
                assert cluster.now >= victim.start_time + exempt_s
        told = tell(message)
        ends.extend((event.time, event.job_id) for event in told.events if isinstance(event, RunEnded))
        return told

    cluster.tell = watched  # type: ignore[method-assign]
    for urgent, nodes, cpus, wait_s in jobs:
        cluster.submit(
            partition="urgent" if urgent else "batch",
            request=a_request(nodes, cpus_per_task=cpus),
            time_limit_s=1000.0,
        )
        cluster.run(wait_s)
    cluster.run_until(cluster.all_ended, 100_000)
    for job_id, nodes in taken.items():
        started: Job = cluster.job(job_id)
        assert started.state is JobState.COMPLETED
        since, victims = asked[job_id]
        another_way = any(since <= time <= started.start_time and end not in victims for time, end in ends)
        assert another_way or {part.node for part in started.allocation} & nodes


def test_a_new_head_of_a_higher_tier_moves_the_plans_of_those_below() -> None:
    """A plan that was made when nobody was before it is not kept (every pass is compared with a new one)."""
    cluster = a_cluster(4, mode="off")
    cluster.duration_of = lambda job: 20.0
    for partition, nodes, cpus in [("urgent", 3, 6), ("batch", 2, 7), ("urgent", 3, 7)]:
        cluster.submit(partition=partition, request=a_request(nodes, cpus_per_task=cpus), time_limit_s=1000.0)
        cluster.run(1)
    assert cluster.plan().waits[JobId(2)].start_estimate > cluster.plan().waits[JobId(3)].start_estimate


# What is remembered


def report(cluster: SimCluster, job_id: JobId, *, ago: float = 0.0, duration_s: float = 1.0) -> None:
    """The run has made a checkpoint."""
    run, time = cluster.job(job_id).run, cluster.now - ago
    made = Checkpoint(run, f"/checkpoints/{job_id}.{time}", time=time, duration_s=duration_s)
    assert cluster.tell(CheckpointMade(job_id, run, made)).refusal is None


def test_a_preemption_is_remembered_with_what_it_cost() -> None:
    cluster = a_cluster(2, restart_s=5.0)
    old, young = submit(cluster), submit(cluster)
    cluster.run(100)
    report(cluster, old, ago=20)
    report(cluster, young, ago=50)
    high = submit(cluster, "urgent")
    cluster.run(1)
    (record,) = cluster.job(old).preemptions
    assert (record.run, record.preemptor, record.cause, record.victims) == (1, high, "tier", (old,))
    assert record.cost == record.total_cost == pytest.approx(8 * 25, rel=0.02)
    assert [(a.victims, a.why) for a in record.alternatives] == [((young,), "loses more")]
    assert record.true_cost == pytest.approx(8 * 25, rel=0.02)
    assert record.end_time == pytest.approx(cluster.now, abs=2)
    assert cluster.replayed().jobs[old].preemptions[0].alternatives == record.alternatives
    assert cluster.job(young).preemptions == ()


def test_what_came_true_is_counted_when_the_last_node_has_let_go() -> None:
    """It saved while it was given its grace, and then took ten seconds more to leave."""
    cluster = a_cluster(1, restart_s=0.0)
    low = submit(cluster)
    cluster.run(100)
    node = cluster.nodes[cluster.job(low).allocation[0].node]
    node.alive = False
    submit(cluster, "urgent")
    cluster.run(3)
    assert cluster.job(low).preemptions[0].true_cost is None
    report(cluster, low, duration_s=2.0)
    cluster.run(10)
    node.runs.clear()
    cluster.register(node.name)
    cluster.run(1)
    (record,) = cluster.job(low).preemptions
    assert record.cost == pytest.approx(800, rel=0.05)
    assert record.true_cost == pytest.approx(8 * (10 + 2), rel=0.05)


def test_only_the_last_are_remembered() -> None:
    cluster = a_cluster(1)
    low = submit(cluster)
    for _ in range(REMEMBERED + 2):
        submit(cluster, "urgent")
        cluster.run(15)
    records = cluster.job(low).preemptions
    assert [record.run for record in records] == list(range(3, REMEMBERED + 3))


def test_a_job_waits_for_its_victims_next_checkpoint() -> None:
    cluster = a_cluster(1, checkpoint_wait_s=60.0, restart_s=0.0)
    low = submit(cluster)
    for _ in range(3):  # every hundred seconds
        cluster.run(100)
        report(cluster, low)
    cluster.run(90)
    high = submit(cluster, "urgent")
    cluster.run(8)
    assert running(cluster) == {low}
    cluster.run(1.5)
    report(cluster, low)
    cluster.run(1.5)
    assert running(cluster) == {high}
    assert cluster.job(low).preemptions[0].cost < 8 * 3


def test_a_checkpoint_that_does_not_come_is_not_waited_for_again() -> None:
    cluster = a_cluster(1, checkpoint_wait_s=60.0, restart_s=0.0)
    low = submit(cluster)
    for _ in range(3):
        cluster.run(100)
        report(cluster, low)
    cluster.run(90)
    high = submit(cluster, "urgent")
    cluster.run(11)
    assert running(cluster) == {high}


# Claims


def test_nobody_of_a_higher_tier_takes_what_others_have_left() -> None:
    """A third job comes while the victim still leaves; its turn comes after the preemptor's."""
    cluster = a_cluster(1)
    low = submit(cluster)
    silent = cluster.nodes[cluster.job(low).allocation[0].node]
    silent.alive = False
    high = submit(cluster, "urgent")
    assert cluster.job(high).claims == 1
    third = submit(cluster, "urgent")
    cluster.tell(UpdateJob(JobTarget(third), OPERATOR, JobChanges(priority=4_000_000_000)))
    silent.runs.clear()
    cluster.register(silent.name)
    cluster.run(1)
    assert running(cluster) == {high}
    assert cluster.job(high).claims == 0


def test_a_claim_is_lost_by_who_asks_for_something_else() -> None:
    cluster = a_cluster(2)
    victims = [submit(cluster) for _ in range(2)]
    for node in cluster.nodes.values():
        node.alive = False
    high = submit(cluster, "urgent")
    assert cluster.job(high).claims == 1
    assert len([job for job in victims if cluster.job(job).state is JobState.COMPLETING]) == 1
    cluster.tell(UpdateJob(JobTarget(high), OPERATOR, JobChanges(comment="mine")))
    assert cluster.job(high).claims == 1
    cluster.tell(HoldJob(JobTarget(high), OPERATOR))
    assert cluster.job(high).claims == 0


# Time slices


def a_sliced_cluster(nodes: int = 1, slice_s: float = 100.0, **changes: Any) -> SimCluster:
    configuration = a_configuration(nodes)
    scheduler = replace(configuration.scheduler, order="round-robin", time_slice_s=slice_s)
    cluster = SimCluster(replace(configuration, scheduler=scheduler, **changes))
    cluster.duration_of = lambda job: FOR_EVER
    return cluster


def test_time_slices_go_round() -> None:
    cluster = a_sliced_cluster()
    for _ in range(3):
        submit(cluster)
    seen = []
    for _ in range(7):
        seen += sorted(running(cluster))
        cluster.run(101)
    assert seen == [1, 2, 3, 1, 2, 3, 1]
    assert cluster.job(1).requeues == {"time_slice": 3}
    assert cluster.job(1).restart_reason == "time_slice"


def test_nobody_gives_way_to_nobody() -> None:
    cluster = a_sliced_cluster()
    low = submit(cluster)
    cluster.run(1000)
    assert cluster.job(low).run == 1
    other = submit(cluster)
    cluster.run(99)
    assert running(cluster) == {low}, "who comes waits for a slice as well"
    cluster.run(2)
    assert running(cluster) == {other}


def test_who_may_not_be_requeued_runs_to_the_end() -> None:
    cluster = a_sliced_cluster()
    low = cluster.submit(request=whole(), requeue=False)
    cluster.run(0.1)
    submit(cluster)
    cluster.run(1000)
    assert running(cluster) == {low}


def test_a_gang_gets_its_turn_among_small_ones() -> None:
    """It needs all four nodes: whoever has had a slice leaves, and the others when theirs is over."""
    cluster = a_sliced_cluster(4)
    for wait_s in (0, 20, 20, 20):
        submit(cluster)
        cluster.run(wait_s)
    gang = submit(cluster, nodes=4)
    cluster.run(90)
    assert len(running(cluster)) == 4
    cluster.run(15)  # the last of the four has had its slice
    assert running(cluster) == {gang}
    cluster.run(101)
    assert running(cluster) == {1, 2, 3, 4}


def test_no_more_leave_than_are_needed_and_the_longest_first() -> None:
    cluster = a_sliced_cluster(3)
    for _ in range(3):
        submit(cluster)
        cluster.run(10)
    cluster.run(200)
    other = submit(cluster)
    cluster.run(101)
    assert running(cluster) == {2, 3, other}
    cluster.run(50)
    assert running(cluster) == {2, 3, other}, "the first has not waited for a slice yet"
    cluster.run(50)
    assert running(cluster) == {1, 3, other}


def test_other_partitions_have_no_part_in_it() -> None:
    configuration = a_configuration(1)
    (batch,) = configuration.partitions
    sliced = replace(batch, order="round-robin")
    plain = Partition("plain", batch.nodes)
    scheduler = replace(configuration.scheduler, time_slice_s=10.0)
    cluster = SimCluster(replace(configuration, scheduler=scheduler, partitions=(sliced, plain)))
    cluster.duration_of = lambda job: FOR_EVER
    low = submit(cluster)
    submit(cluster, "plain")
    cluster.run(100)
    assert running(cluster) == {low}


def test_what_a_slice_frees_is_kept_for_all_who_wait_for_it() -> None:
    """Two wait for nodes of a gang that has left only the first so far: a small job does not slip onto it."""
    cluster = a_sliced_cluster(3)
    gang = submit(cluster, nodes=3)
    third = submit(cluster, required_nodes=("n3",))
    others = submit(cluster, nodes=2, excluded_nodes=("n3",))
    cluster.run(50)
    small = cluster.submit(request=a_request(1, cpus_per_task=1))
    silent = [cluster.nodes[part.node] for part in cluster.job(gang).allocation[1:]]
    for node in silent:
        node.alive = False
    cluster.run(51)
    assert cluster.job(gang).open_nodes == ("n2", "n3")
    assert running(cluster) == set()
    for node in silent:
        node.runs.clear()
        cluster.register(node.name)
    cluster.run(1)
    assert running(cluster) == {third, others}
    assert cluster.job(small).state is JobState.PENDING
