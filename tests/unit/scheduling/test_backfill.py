"""EASY backfill. Four nodes of 4 CPUs unless said; times in minutes after NOW."""

from __future__ import annotations

from math import inf

import pytest

from minislurm.domain.ids import JobId
from minislurm.scheduling.cycle import schedule
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    NOW,
    a_class,
    a_node,
    a_partition,
    a_run,
    a_snapshot,
    check,
    nodes_of,
    reason,
    some_nodes,
    started,
)

NODES = some_nodes(4)
BATCH = a_partition(NODES)
WHOLE = a_request(4, cpus_per_task=4)
#: n1 is busy for 5 minutes, n2 for 20.
BUSY = [a_run("n1", cpus=range(4), minutes=5, job=901), a_run("n2", cpus=range(4), minutes=20, job=902)]


def test_the_head_is_told_when_and_where_it_starts() -> None:
    head = a_class(BATCH, 1, 2, request=a_request(3, cpus_per_task=4))
    plan = schedule(a_snapshot(NODES, head, running=BUSY))
    wait = plan.waits[JobId(1)]
    assert wait.start_estimate == NOW + 5 * 60
    assert wait.planned_nodes == ("n1", "n3", "n4")
    assert plan.waits[JobId(2)].start_estimate == 0.0
    assert reason(plan, 1) == reason(plan, 2) == "Resources"


def test_a_job_that_ends_before_the_shadow_time_is_backfilled() -> None:
    head = a_class(BATCH, 1, request=WHOLE)
    short = a_class(BATCH, 2, minutes=20)
    long = a_class(BATCH, 3, minutes=21)
    snapshot = a_snapshot(NODES, head, short, long, running=BUSY)
    plan = schedule(snapshot, explain=True)
    check(snapshot, plan)
    assert started(plan) == [2]
    assert [reason(plan, i) for i in (1, 3)] == ["Resources", "Priority"]
    assert plan.waits[JobId(3)].rejected == {"cpus busy": 2, "reserved": 2}


def test_a_long_job_is_backfilled_beside_the_reservation() -> None:
    nodes = some_nodes(5)
    batch = a_partition(nodes)
    head = a_class(batch, 1, request=a_request(4, cpus_per_task=4))
    long = a_class(batch, 2, 3, minutes=999, request=a_request(cpus_per_task=4))
    plan = schedule(a_snapshot(nodes, head, long, running=[BUSY[0], a_run("n2", minutes=5, job=902)]))
    assert plan.waits[JobId(1)].planned_nodes == ("n1", "n2", "n3", "n4")
    assert (started(plan), nodes_of(plan, 2)) == ([2], ["n5"])
    assert reason(plan, 3) == "Priority"


def test_room_beside_the_head_on_its_own_node_counts_at_the_shadow_time() -> None:
    nodes = some_nodes(1, cpus=4)
    batch = a_partition(nodes)
    head = a_class(batch, 1, request=a_request(cpus_per_task=3))
    ones = a_class(batch, 2, 3, minutes=999)
    plan = schedule(a_snapshot(nodes, head, ones, running=[a_run("n1", cpus=(0, 1))]))
    assert started(plan) == [2]


def test_gpus_of_the_heads_type_are_kept_for_it() -> None:
    node = a_node("n1", cpus=8, gpus=4, gpus_by_type={"a": 0b0011, "h": 0b1100})
    batch = a_partition([node])
    head = a_class(batch, 1, request=a_request(cpus_per_task=7, gpus_per_node=2, gpu_type="h"))
    any_type = a_class(batch, 2, minutes=999, request=a_request(gpus_per_node=2))
    running = [a_run("n1", cpus=(0, 1), gpus=(0,))]
    plan = schedule(a_snapshot([node], head, any_type, running=running))
    assert started(plan) == []  # one of the two free GPUs that are not the head's is busy
    assert reason(plan, 2) == "Priority"
    one = a_class(batch, 2, minutes=999, request=a_request(gpus_per_node=1))
    plan = schedule(a_snapshot([node], head, one, running=running))
    assert plan.placements[0].allocation[0].gpus == 0b0010


def test_memory_beside_the_head_counts_at_the_shadow_time() -> None:
    nodes = some_nodes(1, cpus=8, memory_mib=1000)
    batch = a_partition(nodes)
    head = a_class(batch, 1, request=a_request(memory_per_node_mib=700))
    running = [a_run("n1", memory_mib=500)]
    beside = a_class(batch, 2, minutes=999, request=a_request(memory_per_node_mib=300))
    plan = schedule(a_snapshot(nodes, head, beside, running=running))
    assert started(plan) == [2]
    above = a_class(batch, 2, minutes=999, request=a_request(memory_per_node_mib=301))
    plan = schedule(a_snapshot(nodes, head, above, running=running))
    assert (started(plan), reason(plan, 2)) == ([], "Priority")


def test_a_job_must_leave_room_for_all_heads_that_run_at_once() -> None:
    """Both heads hold two of the four nodes from minute 20 on; nothing is left for a long third job."""
    urgent = a_partition(NODES, "urgent", priority_tier=9)
    busy = [a_run(f"n{i}", cpus=range(1, 4), minutes=20, job=900 + i) for i in range(1, 5)]
    pair = a_request(2, cpus_per_task=4)
    classes = [a_class(urgent, 1, request=pair), a_class(BATCH, 2, request=pair)]
    plan = schedule(a_snapshot(NODES, *classes, a_class(BATCH, 3, minutes=999), running=busy))
    assert {plan.waits[JobId(i)].start_estimate for i in (1, 2)} == {NOW + 20 * 60}
    assert (started(plan), reason(plan, 3)) == ([], "Priority")


def test_the_later_head_is_laid_over_the_earlier_one() -> None:
    """At minute 10 the first head leaves one of n1's CPUs; at minute 20 the second one takes it as well."""
    nodes = some_nodes(1, cpus=6)
    urgent, batch = a_partition(nodes, "urgent", priority_tier=9), a_partition(nodes)
    busy = [a_run("n1", cpus=(2, 3), minutes=10), a_run("n1", cpus=(4, 5), minutes=20, job=901)]
    three = a_request(cpus_per_task=3)
    classes = [a_class(urgent, 1, request=three, minutes=99), a_class(batch, 2, request=three, minutes=99)]
    plan = schedule(a_snapshot(nodes, *classes, a_class(batch, 3, minutes=99), running=busy))
    assert [plan.waits[JobId(i)].start_estimate for i in (1, 2)] == [NOW + 10 * 60, NOW + 20 * 60]
    assert (started(plan), reason(plan, 3)) == ([], "Priority")


def test_the_earlier_head_counts_who_starts_before_it() -> None:
    """The first head waits for n2; by then the second one runs on n1, and nothing more fits there."""
    nodes = some_nodes(2)
    urgent, left = a_partition(nodes, "urgent", priority_tier=9), a_partition(nodes[:1], "left")
    busy = [a_run("n1", cpus=(1, 2, 3), minutes=10), a_run("n2", cpus=range(4), minutes=20, job=901)]
    first = a_class(urgent, 1, request=a_request(2, cpus_per_task=2), minutes=99)
    second = a_class(left, 2, request=a_request(cpus_per_task=2), minutes=99)
    plan = schedule(a_snapshot(nodes, first, second, a_class(left, 3, minutes=99), running=busy))
    assert [plan.waits[JobId(i)].start_estimate for i in (1, 2)] == [NOW + 20 * 60, NOW + 10 * 60]
    assert (started(plan), reason(plan, 3)) == ([], "Priority")


@pytest.mark.parametrize("count", range(1, 20))
def test_the_earliest_time_is_found_wherever_it_is(count: int) -> None:
    """The head needs all of one node, whose CPUs come free one a minute."""
    nodes = some_nodes(1, cpus=20)
    runs = [a_run("n1", cpus=(i,), minutes=i + 1, job=900 + i) for i in range(19)]
    head = a_class(a_partition(nodes), 1, request=a_request(cpus_per_task=count + 1))
    wait = schedule(a_snapshot(nodes, head, running=runs)).waits[JobId(1)]
    assert wait.start_estimate == NOW + count * 60


def test_off_starts_nothing_behind_the_head() -> None:
    other_nodes = [a_node("m1")]
    nodes = [*NODES, *other_nodes]
    overlapping = a_partition(NODES[2:], "overlapping")
    apart = a_partition(other_nodes, "apart")
    classes = [
        a_class(BATCH, 1, request=WHOLE),
        a_class(BATCH, 2, minutes=1),
        a_class(overlapping, 3, minutes=1),
        a_class(apart, 4),
    ]
    plan = schedule(a_snapshot(nodes, *classes, running=BUSY, backfill="off"))
    assert started(plan) == [4]
    assert [reason(plan, i) for i in (1, 2, 3)] == ["Resources", "Priority", "Priority"]


def test_off_holds_for_a_class_that_has_just_started_one_of_its_jobs() -> None:
    """Its next job comes after the blocked one, though it would fit, and was looked at last."""
    node = a_request(cpus_per_task=4)
    small = a_class(BATCH, 1, 3, request=node)
    large = a_class(BATCH, 2, request=a_request(2, cpus_per_task=4))
    plan = schedule(a_snapshot(NODES, small, large, running=BUSY, backfill="off", order="fifo"))
    assert started(plan) == [1]
    assert [reason(plan, i) for i in (2, 3)] == ["Resources", "Priority"]


def test_only_so_many_blocked_requests_are_looked_at() -> None:
    head = a_class(BATCH, 1, request=WHOLE)
    misses = [a_class(BATCH, i, request=a_request(3, cpus_per_task=i)) for i in (3, 4)]
    hit = a_class(BATCH, 5, minutes=1)
    assert started(schedule(a_snapshot(NODES, head, *misses, hit, running=BUSY))) == [5]
    plan = schedule(a_snapshot(NODES, head, *misses, hit, running=BUSY, backfill_depth=1))
    assert started(plan) == []
    assert [reason(plan, i) for i in (3, 4, 5)] == ["Resources", "Priority", "Priority"]


def test_equal_requests_of_other_standing_are_known_to_wait() -> None:
    """Same request, another nice value: told from the first, without another look."""
    head = a_class(BATCH, 1, request=WHOLE)
    one, two = (a_class(BATCH, i, request=a_request(3, cpus_per_task=4), nice=i) for i in (2, 3))
    plan = schedule(a_snapshot(NODES, head, one, two, running=BUSY, backfill_depth=1))
    assert [reason(plan, i) for i in (2, 3)] == ["Resources", "Resources"]


def test_every_partition_has_its_own_head() -> None:
    nodes = some_nodes(4)
    left, right = a_partition(nodes[:2], "left"), a_partition(nodes[2:], "right")
    pair = a_request(2, cpus_per_task=4)
    running = [a_run("n1", minutes=5, job=901), a_run("n3", minutes=8, job=902)]
    plan = schedule(
        a_snapshot(nodes, a_class(left, 1, request=pair), a_class(right, 2, request=pair), running=running)
    )
    assert plan.waits[JobId(1)].start_estimate == NOW + 5 * 60
    assert plan.waits[JobId(2)].start_estimate == NOW + 8 * 60


def test_a_second_head_on_the_same_nodes_comes_after_the_first() -> None:
    urgent = a_partition(NODES, "urgent", priority_tier=9)
    first = a_class(urgent, 1, request=WHOLE, minutes=10)
    second = a_class(BATCH, 2, request=WHOLE, minutes=10)
    plan = schedule(a_snapshot(NODES, second, first, running=BUSY))
    assert plan.waits[JobId(1)].start_estimate == NOW + 20 * 60
    assert plan.waits[JobId(2)].start_estimate == NOW + 30 * 60


def test_a_second_head_may_start_before_the_first_where_it_is_not_in_its_way() -> None:
    urgent = a_partition(NODES, "urgent", priority_tier=9)
    first = a_class(urgent, 1, request=WHOLE)
    second = a_class(BATCH, 2, request=a_request(3, cpus_per_task=4), minutes=15)
    plan = schedule(a_snapshot(NODES, first, second, running=BUSY))
    assert plan.waits[JobId(1)].start_estimate == NOW + 20 * 60
    assert plan.waits[JobId(2)].start_estimate in (NOW + 5 * 60, NOW + 30 * 60)
    assert reason(plan, 2) == "Resources"


def test_a_run_without_a_limit_gives_no_estimate_but_keeps_its_nodes_for_the_head() -> None:
    running = [a_run("n1", cpus=range(4), minutes=inf)]
    head = a_class(BATCH, 1, request=WHOLE)
    short = a_class(BATCH, 2, minutes=60)
    endless = a_class(BATCH, 3, minutes=0)
    plan = schedule(a_snapshot(NODES, head, short, endless, running=running))
    assert plan.waits[JobId(1)].start_estimate == 0.0
    assert set(plan.waits[JobId(1)].planned_nodes) == {"n1", "n2", "n3", "n4"}
    assert started(plan) == [2]
    assert reason(plan, 3) == "Priority"


def test_a_head_behind_an_endless_reservation_gets_none() -> None:
    urgent = a_partition(NODES, "urgent", priority_tier=9)
    first = a_class(urgent, 1, request=WHOLE, minutes=0)
    second = a_class(BATCH, 2, request=WHOLE)
    plan = schedule(a_snapshot(NODES, first, second, running=BUSY))
    assert plan.waits[JobId(2)].start_estimate == 0.0
    assert plan.waits[JobId(2)].planned_nodes == ()


def test_a_run_past_its_limit_is_expected_to_end_now() -> None:
    running = [a_run("n1", cpus=range(4), minutes=-3)]
    plan = schedule(
        a_snapshot(NODES, a_class(BATCH, 1, request=WHOLE), a_class(BATCH, 2, minutes=1), running=running)
    )
    assert plan.waits[JobId(1)].start_estimate == NOW
    assert started(plan) == []


def test_the_golden_queue() -> None:
    """golden/squeue.txt: a whole-cluster job waits for Resources, a small one behind it for Priority."""
    nodes = some_nodes(8, cpus=16)
    batch = a_partition(nodes)
    plan = schedule(
        a_snapshot(
            nodes,
            a_class(batch, 3, request=a_request(8, exclusive=True), minutes=30),
            a_class(batch, 7, minutes=30),
            running=[a_run("n1", cpus=range(6)), a_run("n2", cpus=range(2))],
        )
    )
    assert [reason(plan, i) for i in (3, 7)] == ["Resources", "Priority"]
