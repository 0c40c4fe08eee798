from __future__ import annotations

from msgspec.structs import replace

from minislurm.domain.ids import JobId
from minislurm.scheduling.cycle import schedule
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    NOW,
    a_class,
    a_job,
    a_partition,
    a_run,
    a_snapshot,
    check,
    reason,
    some_nodes,
    started,
)

ONE_CPU = some_nodes(1, cpus=1)
BATCH = a_partition(ONE_CPU)


def test_submission_order_decides_between_equals() -> None:
    plan = schedule(a_snapshot(ONE_CPU, a_class(BATCH, 7, minutes=1), a_class(BATCH, 3)))
    assert started(plan) == [3]


def test_tier_comes_before_priority() -> None:
    urgent = a_partition(ONE_CPU, "urgent", priority_tier=2)
    plan = schedule(
        a_snapshot(ONE_CPU, a_class(BATCH, 1, fixed_priority=10**6), a_class(urgent, 2, fixed_priority=1))
    )
    assert started(plan) == [2]


def test_a_fixed_priority_replaces_the_computed_one() -> None:
    plan = schedule(a_snapshot(ONE_CPU, a_class(BATCH, 1), a_class(BATCH, 2, fixed_priority=5000)))
    assert started(plan) == [2]
    plan = schedule(a_snapshot(ONE_CPU, a_class(BATCH, 1), a_class(BATCH, 2, fixed_priority=5)))
    assert plan.priorities == {JobId(2): 5}


def test_age_counts_from_the_eligible_time_up_to_its_limit() -> None:
    blocked = a_partition(ONE_CPU, max_nodes=1)
    old, older = a_job(1, at=NOW - 500), a_job(2, at=NOW - 5000)
    young = a_job(3, at=NOW - 250)
    jobs = a_class(blocked, old, older, young, request=a_request(2))
    plan = schedule(
        a_snapshot(
            ONE_CPU, jobs, priority_max_age_s=500.0, priority_weight_age=1000, priority_weight_partition=0
        )
    )
    assert plan.priorities == {JobId(1): 1001, JobId(2): 1001, JobId(3): 501}


def test_nice_lowers_and_keeps_its_order_below_one() -> None:
    jobs = [a_class(BATCH, i, nice=nice, minutes=i) for i, nice in ((1, 9000), (2, 8000), (3, 7000))]
    plan = schedule(a_snapshot(ONE_CPU, *jobs))
    assert started(plan) == [3]
    assert set(plan.priorities.values()) == {1}
    plan = schedule(a_snapshot(ONE_CPU, *jobs[:2]))
    assert started(plan) == [2]


def test_partition_factor_is_relative_to_the_greatest() -> None:
    low = a_partition(ONE_CPU, "low", priority_job_factor=1)
    high = a_partition(ONE_CPU, "high", priority_job_factor=4)
    full = a_request(tasks=2)  # nobody can start
    snapshot = a_snapshot(
        ONE_CPU, a_class(low, 1, request=full), a_class(high, 2, request=full), priority_weight_age=0
    )
    assert schedule(snapshot).priorities == {JobId(1): 251, JobId(2): 1001}
    wider = replace(snapshot, job_factor_max=8)
    assert schedule(wider).priorities == {JobId(1): 126, JobId(2): 501}


def test_job_size_favors_large_or_small() -> None:
    nodes = some_nodes(4)
    batch = a_partition(nodes)
    small, large = a_class(batch, 1), a_class(batch, 2, request=a_request(4, cpus_per_task=4))
    assert started(schedule(a_snapshot(nodes, small, large, priority_weight_job_size=1000))) == [2]
    plan = schedule(a_snapshot(nodes, small, large, priority_weight_job_size=1000, priority_favor_small=True))
    assert started(plan) == [1]


def test_classes_are_merged_by_their_next_job() -> None:
    nodes = some_nodes(1, cpus=4)
    batch = a_partition(nodes)
    plan = schedule(a_snapshot(nodes, a_class(batch, 1, 4, 5), a_class(batch, 2, 3, minutes=1)))
    assert started(plan) == [1, 2, 3, 4]
    assert reason(plan, 5) == "Resources"


def test_array_tasks_start_in_order_within_their_limit() -> None:
    nodes = some_nodes(1, cpus=4)
    jobs = a_class(a_partition(nodes), a_job(1, tasks=(3, 5, 8), slots=2), a_job(2))
    snapshot = a_snapshot(nodes, jobs)
    plan = schedule(snapshot)
    check(snapshot, plan)
    assert [(p.job_id, p.task_id) for p in plan.placements] == [(1, 3), (1, 5), (2, None)]
    assert reason(plan, 1) == "JobArrayTaskLimit"


def test_the_rest_of_an_array_waits_for_resources_or_its_limit() -> None:
    nodes = some_nodes(1, cpus=2)
    batch = a_partition(nodes)
    jobs = a_class(batch, a_job(1, tasks=range(5)), a_job(2, tasks=range(5), slots=0), a_job(3))
    snapshot = a_snapshot(nodes, jobs)
    plan = schedule(snapshot)
    check(snapshot, plan)
    assert started(plan) == [1, 1]
    assert [reason(plan, i) for i in (1, 2, 3)] == ["Resources", "JobArrayTaskLimit", "Resources"]


def test_an_array_at_its_limit_holds_nobody_up() -> None:
    nodes = some_nodes(1, cpus=1)
    batch = a_partition(nodes)
    plan = schedule(
        a_snapshot(nodes, a_class(batch, a_job(1, tasks=range(5), slots=0)), a_class(batch, 2, minutes=99))
    )
    assert started(plan) == [2]


def test_fifo_takes_jobs_as_they_became_eligible() -> None:
    classes = [a_class(BATCH, a_job(1, at=5)), a_class(BATCH, a_job(2, at=3), minutes=1)]
    weights = {"priority_weight_job_size": 0, "priority_weight_age": 1000}
    assert started(schedule(a_snapshot(ONE_CPU, *classes, order="fifo", **weights))) == [2]
    urgent = replace(classes[0], fixed_priority=9)
    assert started(schedule(a_snapshot(ONE_CPU, urgent, classes[1], order="fifo"))) == [1]


def test_sjf_takes_the_shortest_limit_first_and_no_limit_last() -> None:
    classes = [a_class(BATCH, 1, minutes=0), a_class(BATCH, 2, minutes=9), a_class(BATCH, 3, minutes=4)]
    assert started(schedule(a_snapshot(ONE_CPU, *classes, order="sjf"))) == [3]
    assert started(schedule(a_snapshot(ONE_CPU, *classes[:2], order="sjf"))) == [2]


def test_a_partition_has_its_own_order() -> None:
    nodes = some_nodes(2, cpus=1)
    short, first = a_partition(nodes[:1], "short", order="sjf"), a_partition(nodes[1:], "first")
    classes = [a_class(p, i + k, minutes=9 - k) for i, p in ((1, short), (11, first)) for k in (0, 1)]
    assert sorted(started(schedule(a_snapshot(nodes, *classes, order="fifo")))) == [2, 11]


def test_behind_the_head_the_shortest_may_come_first() -> None:
    """One CPU is free until the head starts in ten minutes: either of two jobs can use it."""
    nodes = some_nodes(1, cpus=2)
    batch = a_partition(nodes)
    classes = [
        a_class(batch, 1, request=a_request(cpus_per_task=2), minutes=5),
        a_class(batch, 2, minutes=10),
        a_class(batch, 3, minutes=3),
    ]
    running = [a_run("n1", minutes=10)]
    assert started(schedule(a_snapshot(nodes, *classes, running=running))) == [2]
    snapshot = a_snapshot(nodes, *classes, running=running, backfill_order="shortest")
    assert started(schedule(snapshot)) == [3]
    assert schedule(snapshot).waits[JobId(1)].start_estimate == NOW + 600
