from __future__ import annotations

from typing import Any

import pytest

from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import RequestClass
from minislurm.scheduling.order import components
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    NOW,
    a_class,
    a_job,
    a_partition,
    a_run,
    a_snapshot,
    some_nodes,
    started,
)

ONE_CPU = some_nodes(1, cpus=1)
BATCH = a_partition(ONE_CPU)


def first(*classes: RequestClass, **settings: Any) -> int:
    return started(schedule(a_snapshot(ONE_CPU, *classes, **settings)))[0]


# sjf


def test_sjf_goes_by_what_is_expected_and_else_by_the_limit() -> None:
    expected = a_class(BATCH, 1, minutes=60, expected_s=50)
    unknown = a_class(BATCH, 2, minutes=1)
    assert first(expected, unknown, order="sjf") == 1
    assert first(a_class(BATCH, 1, minutes=60, expected_s=70), unknown, order="sjf") == 2
    endless = a_class(BATCH, 3, minutes=0)
    assert first(endless, a_class(BATCH, 4, minutes=600), order="sjf") == 4


# mlfq


def attained(job_id: int, service_s: float, time_s: float = 10_000.0, **changes: Any) -> RequestClass:
    return a_class(BATCH, job_id, attained_service_s=service_s, attained_time_s=time_s, **changes)


def test_mlfq_goes_by_level_and_inside_one_by_who_came_first() -> None:
    levels = {"order": "mlfq", "mlfq_levels": "100,1000"}
    assert first(attained(1, 100), attained(2, 99), **levels) == 2  # a level begins at its threshold
    assert first(attained(1, 999), attained(2, 100), **levels) == 1
    assert first(attained(1, 1000), attained(2, 999), **levels) == 2
    assert first(attained(1, 1e9), attained(2, 1000), **levels) == 1  # there is no level below the last
    assert first(attained(2, 0, 0), attained(1, 99), **levels) == 1


def test_mlfq_raises_who_waits_many_times_as_long_as_it_ran() -> None:
    fresh = a_class(BATCH, a_job(2, at=NOW - 1))
    settings = {"order": "mlfq", "mlfq_levels": "100", "mlfq_promote": 8.0}

    def starved(waited_s: float) -> RequestClass:
        return a_class(BATCH, a_job(1, at=NOW - waited_s), attained_service_s=400, attained_time_s=100)

    assert first(starved(799), fresh, **settings) == 2
    assert first(starved(800), fresh, **settings) == 1
    assert first(starved(900), fresh, **{**settings, "mlfq_promote": 0.0}) == 2


def test_an_operators_priority_and_nice_come_before_the_level() -> None:
    levels = {"order": "mlfq", "mlfq_levels": "100"}
    assert first(attained(1, 0), attained(2, 500, fixed_priority=5), **levels) == 2
    assert first(attained(1, 0, nice=1), attained(2, 500), **levels) == 2
    assert first(attained(1, 0), attained(2, 500, site_factor=1), **levels) == 2


# Large gangs


GUARD = {"large_gang_wait_s": 500.0, "large_gang_share": 0.5}


@pytest.mark.parametrize("order", ["multifactor", "sjf", "mlfq", "auction", "fair"])
def test_a_large_gang_that_has_waited_long_goes_first(order: str) -> None:
    nodes = some_nodes(4, cpus=1)
    batch = a_partition(nodes)

    def order_of(waited_s: float, size: int, **changes: Any) -> list[int]:
        large = a_class(batch, a_job(1, at=NOW - waited_s), request=a_request(size), minutes=60, nice=10_000)
        small = a_class(batch, a_job(2, at=NOW - 1), minutes=1)
        snapshot = a_snapshot(nodes, large, small, order=order, **{**GUARD, **changes})
        return started(schedule(snapshot))

    assert order_of(500, 4) == [1]
    assert order_of(499, 4) == [2]
    assert order_of(900, 2) == [2, 1]  # half is not more than half
    assert order_of(900, 4, large_gang_wait_s=0.0) == [2]


def test_the_place_is_kept_by_a_reservation() -> None:
    """Everything is busy for five minutes; one of a minute may go before it, one of ten may not."""
    nodes = some_nodes(2, cpus=2)
    batch = a_partition(nodes)
    large = a_class(batch, a_job(1, at=NOW - 900), request=a_request(2, cpus_per_task=2), nice=10_000)
    short, long = a_class(batch, a_job(2, at=NOW), minutes=1), a_class(batch, a_job(3, at=NOW), minutes=10)
    running = [a_run("n1", cpus=(0, 1)), a_run("n2", cpus=(0,))]
    guarded = a_snapshot(nodes, large, short, long, running=running, **GUARD)
    assert started(schedule(guarded)) == [2]
    open_to_all = a_snapshot(nodes, large, long, running=running, large_gang_wait_s=0.0)
    assert started(schedule(open_to_all)) == [3]


def test_of_two_large_gangs_the_older_goes_first_and_tiers_still_count() -> None:
    nodes = some_nodes(2, cpus=1)
    batch, urgent = a_partition(nodes), a_partition(nodes, "urgent", priority_tier=2)
    gangs = [a_class(batch, a_job(i, at=NOW - at), request=a_request(2)) for i, at in ((1, 600), (2, 700))]
    assert started(schedule(a_snapshot(nodes, *gangs, **GUARD))) == [2]
    small = a_class(urgent, a_job(3, at=NOW))
    assert started(schedule(a_snapshot(nodes, *gangs, small, **GUARD)))[0] == 3


def test_one_node_is_no_large_gang_because_the_partition_has_few() -> None:
    nodes = some_nodes(1, cpus=4)
    batch = a_partition(nodes)
    jobs = [
        a_class(batch, a_job(1, at=NOW - 900), nice=1, request=a_request(1, cpus_per_task=2)),
        a_class(batch, a_job(2, at=NOW), request=a_request(1, cpus_per_task=4)),
    ]
    assert started(schedule(a_snapshot(nodes, *jobs, **GUARD, priority_weight_age=0))) == [2]


# The parts of the priority


def test_the_parts_come_to_the_priority() -> None:
    nodes = some_nodes(4)
    low = a_partition(nodes, "low", priority_job_factor=1)
    high = a_partition(nodes, "high", priority_job_factor=4)
    jobs = a_class(
        low, a_job(1, at=NOW - 250), request=a_request(4, cpus_per_task=5), nice=7, site_factor=4000
    )
    snapshot = a_snapshot(
        nodes, jobs, a_class(high, 2), priority_weight_job_size=100, priority_max_age_s=1000.0
    )
    parts = components(snapshot, jobs, NOW - 250)
    assert parts._asdict() == {
        "site": 4000, "age": 250.0, "association": 0.0, "fair_share": 0.0, "job_size": 100.0,
        "partition": 250.0, "qos": 0.0, "nice": 7,
    }  # fmt: skip
    assert schedule(snapshot).priorities == {1: 1 + 4000 + 250 + 100 + 250 - 7}


def test_the_site_factor_is_added_and_may_be_negative() -> None:
    assert first(a_class(BATCH, 1), a_class(BATCH, 2, site_factor=1)) == 2
    assert first(a_class(BATCH, 1, site_factor=-1), a_class(BATCH, 2)) == 2
