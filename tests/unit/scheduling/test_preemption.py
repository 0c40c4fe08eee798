"""Which runs give way in one pass: the cheapest set that is enough, and only if it is; or a little later."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.domain.configuration import PreemptionSection
from minislurm.domain.preemption import PreemptionWish
from minislurm.domain.topology import Topology
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import Plan, RequestClass, RunningJob, Snapshot
from tests.builders import a_request
from tests.unit.scheduling.builders import NOW, a_class, a_job, a_partition, a_run, a_snapshot, some_nodes

NODES = some_nodes(4, cpus=8, gpus=8)
LOW = a_partition(NODES)
HIGH = a_partition(NODES, "urgent", priority_tier=2)


def a_victim(job: int, node: str, gpus: int = 8, *, started: float = 1000.0, **changes: Any) -> RunningJob:
    run = a_run(node, cpus=range(gpus), gpus=range(gpus), job=job, minutes=1000)
    return replace(run, start_time=NOW - started, partition="batch", preempt_mode="requeue", **changes)


def a_quarter(number: int) -> RunningJob:
    """Of n1: jobs 20 to 23, ten seconds old."""
    indexes = (2 * number, 2 * number + 1)
    run = a_run("n1", cpus=indexes, gpus=indexes, job=20 + number, minutes=1000)
    return replace(run, start_time=NOW - 10, partition="batch", preempt_mode="requeue")


def a_rival(job: int = 1, nodes: int = 1, *, waits_s: float = 0.0, **changes: Any) -> RequestClass:
    request = a_request(nodes, gpus_per_node=8, cpus_per_task=8)
    return a_class(HIGH, a_job(job, at=NOW - waits_s), request=request, **changes)


def a_full_cluster(*classes: RequestClass, running: list[RunningJob], **preemption: Any) -> Snapshot:
    snapshot = a_snapshot(NODES, *classes, running=running, racks=[["n1", "n2"], ["n3", "n4"]])
    return replace(
        snapshot, preemption=PreemptionSection(**{"mode": "requeue", "restart_s": 0.0, **preemption})
    )


def victims(plan: Plan) -> list[list[int]]:
    return [[int(job_id) for job_id, _ in one.victims] for one in plan.preemptions]


def reporting(job: int, node: str, unsaved: float, **changes: Any) -> RunningJob:
    return a_victim(job, node, saved_time=NOW - unsaved, reports=True, **changes)


def test_who_has_just_saved_gives_way_and_not_who_started_last() -> None:
    running = [
        reporting(11, "n1", 500), reporting(12, "n2", 5), reporting(13, "n3", 300),
        reporting(14, "n4", 100, started=100),
    ]  # fmt: skip
    plan = schedule(a_full_cluster(a_rival(), running=running))
    assert victims(plan) == [[12]]
    assert plan.preemptions[0].cost == 40
    assert plan.preemptions[0].costs == (40,)


def test_the_sets_that_were_weighed_are_told_with_what_they_cost() -> None:
    running = [reporting(10 + i, f"n{i}", 100 * i) for i in range(1, 5)]
    plan = schedule(a_full_cluster(a_rival(), running=running))
    (chosen,) = plan.preemptions
    assert victims(plan) == [[11]]
    assert [(list(a.victims), a.cost, a.why) for a in chosen.alternatives] == [
        ([12], 1600, "loses more"), ([13], 2400, "loses more"), ([14], 3200, "loses more"),
    ]  # fmt: skip


def test_a_set_with_too_many_runs_is_told_as_such() -> None:
    quarters = [a_quarter(i) for i in range(4)]
    running = [*quarters, *[a_victim(10 + i, f"n{i}", started=5000) for i in (2, 3, 4)]]
    plan = schedule(a_full_cluster(a_rival(), running=running, max_victims=2))
    assert victims(plan) == [[14]]
    assert any(
        set(a.victims) == {20, 21, 22, 23} and a.why == "more than 2 runs"
        for a in plan.preemptions[0].alternatives
    )
    assert victims(schedule(a_full_cluster(a_rival(), running=running))) == [[23, 22, 21, 20]]


def test_the_cheapest_is_given_back_if_it_does_not_help() -> None:
    """It is tried first, and frees a quarter of a node that others stay on."""
    stays = [replace(a_quarter(i), preempt_mode="off") for i in (1, 2, 3)]
    others = [a_victim(12, "n2", started=500), a_victim(13, "n3", started=600)]
    fixed = replace(a_victim(14, "n4"), preempt_mode="off")
    snapshot = a_full_cluster(a_rival(nodes=2), running=[a_quarter(0), *stays, *others, fixed])
    plan = schedule(replace(snapshot, topology=Topology()))
    assert victims(plan) == [[12, 13]]


def test_a_job_says_how_many_it_takes_at_most() -> None:
    running = [a_victim(10 + i, f"n{i}") for i in range(1, 5)]
    wish = PreemptionWish(max_victims=1)
    assert victims(schedule(a_full_cluster(a_rival(nodes=2, preemption=wish), running=running))) == []
    assert len(victims(schedule(a_full_cluster(a_rival(nodes=2), running=running)))[0]) == 2


def test_a_job_that_preempts_nobody() -> None:
    running = [a_victim(10 + i, f"n{i}") for i in range(1, 5)]
    plan = schedule(a_full_cluster(a_rival(preemption=PreemptionWish("never")), running=running))
    assert victims(plan) == []


def test_priorities_must_be_far_enough_apart() -> None:
    running = [a_victim(10 + i, f"n{i}", priority=900 + i) for i in range(1, 5)]
    rival = a_rival(fixed_priority=1003)
    assert victims(schedule(a_full_cluster(rival, running=running, min_priority_difference=100))) == [[13]]
    assert victims(schedule(a_full_cluster(rival, running=running, min_priority_difference=200))) == []
    own = a_rival(fixed_priority=1003, preemption=PreemptionWish(min_difference=102))
    assert victims(schedule(a_full_cluster(own, running=running))) == [[11]]


@pytest.mark.parametrize(
    ("order", "victim"), [("cost", 11), ("youngest", 14), ("priority", 13), ("nodes", 14), ("accounts", 12)]
)
def test_orders_of_other_systems(order: str, victim: int) -> None:
    running = [
        reporting(11, "n1", 5, started=900, priority=4, account="mine"),
        reporting(12, "n2", 500, started=800, priority=3, account="other"),
        reporting(13, "n3", 500, started=700, priority=2, account="mine"),
        reporting(14, "n4", 500, started=600, priority=3, account="mine"),
    ]
    rival = a_rival(account="mine")
    assert victims(schedule(a_full_cluster(rival, running=running, victim_order=order))) == [[victim]]


# Waiting for a checkpoint


def periodic(job: int, node: str, unsaved: float, interval: float = 600.0, **changes: Any) -> RunningJob:
    return reporting(job, node, unsaved, checkpoint_interval_s=interval, **changes)


def test_a_job_waits_for_a_checkpoint_that_is_near() -> None:
    running = [periodic(10 + i, f"n{i}", 590 if i == 2 else 400) for i in range(1, 5)]
    plan = schedule(a_full_cluster(a_rival(), running=running))
    assert victims(plan) == []
    assert plan.wake_time == NOW + 10
    wait = plan.waits[1]  # type: ignore[index]
    assert (wait.start_estimate, wait.planned_nodes) == (NOW + 10, ("n2",))


def test_it_does_not_wait_where_that_costs_more() -> None:
    """Twelve seconds of eight GPUs that wait against ten that are lost."""
    running = [periodic(10 + i, f"n{i}", 10, interval=22) for i in range(1, 5)]
    assert len(victims(schedule(a_full_cluster(a_rival(), running=running)))) == 1


def test_it_waits_no_longer_than_is_set() -> None:
    running = [periodic(10 + i, f"n{i}", 590) for i in range(1, 5)]
    for most, waited, is_held in [(5, 0, False), (20, 0, True), (20, 15, False), (0, 0, False)]:
        snapshot = a_full_cluster(a_rival(waits_s=waited), running=running, checkpoint_wait_s=float(most))
        assert (victims(schedule(snapshot)) == []) is is_held, (most, waited)


def test_a_checkpoint_that_is_late_is_not_waited_for() -> None:
    running = [periodic(10 + i, f"n{i}", 700) for i in range(1, 5)]
    assert len(victims(schedule(a_full_cluster(a_rival(), running=running)))) == 1


def test_what_is_waited_for_is_nobody_elses() -> None:
    """Two jobs, one run that is about to save: the second one takes another."""
    running = [periodic(10 + i, f"n{i}", 590 if i == 2 else 300 + i) for i in range(1, 5)]
    request = a_request(1, gpus_per_node=8, cpus_per_task=8)
    first = a_class(HIGH, a_job(1, at=NOW), request=request, nice=-9)
    second = a_class(HIGH, a_job(2, at=NOW), request=request)
    plan = schedule(a_full_cluster(first, second, running=running))
    assert [(one.job_id, one.nodes) for one in plan.preemptions] == [(2, ("n1",))]
    assert plan.waits[1].planned_nodes == ("n2",)  # type: ignore[index]


# Counter-examples


def test_eleven_jobs_are_not_killed_for_two_small_ones() -> None:
    """Spur#888: two one-GPU jobs, eleven runs; one GPU each is all that is taken."""
    nodes = some_nodes(11, cpus=8, gpus=8)
    low, high = a_partition(nodes), a_partition(nodes, "urgent", priority_tier=2)
    running = [
        replace(a_victim(10 + i, f"n{i}", started=100.0 * i), partition=low.name) for i in range(1, 12)
    ]
    jobs = a_class(high, 1, 2, request=a_request(1, gpus_per_node=1))
    snapshot = replace(a_snapshot(nodes, jobs, running=running), preemption=PreemptionSection(mode="requeue"))
    plan = schedule(snapshot)
    # The whole of a node comes free with the first: the second one has room beside it.
    assert victims(plan) == [[11]]
    assert plan.waits[2].planned_nodes == ("n1",)  # type: ignore[index]


def test_an_idle_node_and_one_victim_do() -> None:
    """Volcano#3291: nodes without victims count as well."""
    running = [a_victim(10 + i, f"n{i}") for i in (1, 2, 3)]
    plan = schedule(a_full_cluster(a_rival(nodes=2), running=running))
    assert len(victims(plan)[0]) == 1
    assert "n4" in plan.preemptions[0].nodes


def test_the_rack_is_chosen_before_its_victims() -> None:
    """KAI#1591, Kueue#10815: the two cheapest runs lie in two racks; the gang must have one."""
    unsaved = {"n1": 10, "n2": 500, "n3": 20, "n4": 300}
    running = [reporting(10 + int(node[1]), node, s) for node, s in unsaved.items()]
    rival = a_rival(nodes=2)
    request = replace(rival.request, topology_level="rack", topology_required=True)
    plan = schedule(a_full_cluster(replace(rival, request=request), running=running))
    assert sorted(victims(plan)[0]) == [13, 14]


def test_a_gang_gives_way_whole_and_is_charged_whole() -> None:
    """Volcano#3595: nobody takes one rank of a gang and leaves the rest."""
    two = replace(
        a_victim(11, "n1"), allocation=(*a_victim(11, "n1").allocation, *a_victim(11, "n2").allocation)
    )
    running = [
        replace(two, saved_time=NOW - 60, reports=True),
        reporting(13, "n3", 100),
        reporting(14, "n4", 110),
    ]
    assert victims(schedule(a_full_cluster(a_rival(), running=running))) == [[13]]


def test_nobody_gives_way_to_equals() -> None:
    """Spur#284."""
    running = [replace(a_victim(10 + i, f"n{i}"), tier=2) for i in range(1, 5)]
    assert victims(schedule(a_full_cluster(a_rival(), running=running))) == []


def test_what_will_end_soon_is_no_reason_to_touch_others() -> None:
    running = [a_victim(10 + i, f"n{i}") for i in range(1, 5)]
    running[3] = replace(running[3], end_time=0.0)  # it is ending
    plan = schedule(a_full_cluster(a_rival(), running=running))
    assert victims(plan) == []
    assert plan.waits[1].planned_nodes == ("n4",)  # type: ignore[index]
    assert plan.wake_time == inf


def test_who_has_a_claim_comes_first_of_all() -> None:
    """Kueue PR#14687: what others have left is not taken by a third job, of whatever tier."""
    highest = a_partition(NODES, "top", priority_tier=9)
    third = a_class(highest, 7, request=a_request(1, gpus_per_node=8, cpus_per_task=8))
    running = [replace(a_victim(10 + i, f"n{i}"), preempt_mode="off", tier=9) for i in (1, 2, 3)]
    plan = schedule(a_full_cluster(third, a_rival(claims=1, claim_time=NOW), running=running))
    assert [placement.job_id for placement in plan.placements] == [1]
