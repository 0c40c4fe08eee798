"""Conservative backfill: every blocked job has a start planned, and nobody delays it."""

from __future__ import annotations

from math import inf

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.domain.ids import JobId
from minislurm.scheduling.capacity import Demand, Sums
from minislurm.scheduling.conservative import Profile
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import Snapshot
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

FOUR = some_nodes(4)
BATCH = a_partition(FOUR)
#: All four nodes are busy for five minutes.
BUSY = [a_run(f"n{i}", cpus=range(4), minutes=5) for i in range(1, 5)]


def planned(snapshot: Snapshot) -> dict[int, float]:
    """Minutes from now by job."""
    waits = schedule(snapshot).waits
    return {job_id: (wait.start_estimate - NOW) / 60 for job_id, wait in waits.items() if wait.start_estimate}


def test_every_job_is_told_when_it_starts() -> None:
    classes = [
        a_class(BATCH, 1, request=a_request(3, cpus_per_task=4), minutes=10),
        a_class(BATCH, 2, request=a_request(2, cpus_per_task=4), minutes=10),
        a_class(BATCH, 3, request=a_request(1, cpus_per_task=4), minutes=10),
    ]
    snapshot = a_snapshot(FOUR, *classes, running=BUSY, backfill="conservative")
    # The third fits beside the first; the second has to wait for it.
    assert planned(snapshot) == {1: 5, 2: 15, 3: 5}


def test_equal_jobs_are_planned_one_after_the_other() -> None:
    jobs = a_class(BATCH, 1, 2, 3, request=a_request(4, cpus_per_task=4), minutes=10)
    snapshot = a_snapshot(FOUR, jobs, running=BUSY, backfill="conservative")
    assert planned(snapshot) == {1: 5, 2: 15, 3: 25}
    assert planned(replace(snapshot, settings=replace(snapshot.settings, backfill="easy"))) == {1: 5}


def test_tasks_of_an_array_are_planned_like_jobs() -> None:
    array = a_class(BATCH, a_job(1, tasks=(0, 1)), request=a_request(4, cpus_per_task=4), minutes=10)
    behind = a_class(BATCH, 2, request=a_request(4, cpus_per_task=4), minutes=10)
    assert planned(a_snapshot(FOUR, array, behind, running=BUSY, backfill="conservative")) == {1: 5, 2: 25}


def test_only_so_many_have_a_start_planned() -> None:
    jobs = a_class(BATCH, *range(1, 9), request=a_request(4, cpus_per_task=4), minutes=10)
    snapshot = a_snapshot(FOUR, jobs, running=BUSY, backfill="conservative", conservative_depth=3)
    assert planned(snapshot) == {1: 5, 2: 15, 3: 25}
    assert len(schedule(snapshot).waits) == 8


def test_a_job_may_not_delay_the_second_one_that_waits() -> None:
    """EASY lets the last job start, since it leaves the head alone; conservative does not: the second job's
    three nodes would be one short."""
    nodes = some_nodes(4)
    batch = a_partition(nodes)
    running = [a_run(f"n{i}", cpus=range(4), minutes=5) for i in (1, 2)]
    classes = [
        a_class(batch, 1, request=a_request(2, cpus_per_task=4, required_nodes=("n1", "n2")), minutes=10),
        a_class(batch, 2, request=a_request(4, cpus_per_task=4), minutes=10),
        a_class(batch, 3, request=a_request(2, cpus_per_task=4), minutes=20),
    ]
    easy = a_snapshot(nodes, *classes, running=running)
    assert started(schedule(easy)) == [3]
    conservative = a_snapshot(nodes, *classes, running=running, backfill="conservative")
    plan = schedule(conservative)
    assert (started(plan), reason(plan, 3)) == ([], "Priority")
    assert planned(conservative) == {1: 5, 2: 15, 3: 25}


def test_a_gap_before_a_reservation_is_used() -> None:
    running = [a_run("n1", cpus=range(4), minutes=30)]
    classes = [
        a_class(BATCH, 1, request=a_request(4, cpus_per_task=4), minutes=10),
        a_class(BATCH, 2, request=a_request(3, cpus_per_task=4), minutes=30),
        a_class(BATCH, 3, request=a_request(1, cpus_per_task=4), minutes=31),
    ]
    plan = schedule(a_snapshot(FOUR, *classes, running=running, backfill="conservative"))
    assert started(plan) == [2]
    assert plan.waits[JobId(3)].start_estimate == NOW + 40 * 60


jobs = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 30)), min_size=1, max_size=8)
ends = st.lists(st.integers(1, 40), min_size=4, max_size=4)


@given(jobs=jobs, ends=ends)
@settings(max_examples=150, deadline=None)
def test_no_plan_is_broken_by_those_behind(jobs: list[tuple[int, int, int]], ends: list[int]) -> None:
    """The planned start of each job is what it is without the jobs behind it, and whoever starts now leaves
    it so: replayed at the planned times, the jobs never need more than there is."""
    running = [a_run(f"n{i}", cpus=range(3), minutes=end) for i, end in enumerate(ends, 1)]
    classes = [
        a_class(BATCH, job_id, request=a_request(nodes, cpus_per_task=cpus), minutes=minutes)
        for job_id, (nodes, cpus, minutes) in enumerate(jobs, 1)
    ]
    snapshot = a_snapshot(FOUR, *classes, running=running, backfill="conservative")
    plan = schedule(snapshot)
    check(snapshot, plan)
    for count in range(1, len(classes)):
        before = schedule(replace(snapshot, classes=classes[:count]))
        assert [p.job_id for p in before.placements] == [j for j in started(plan) if j <= count]
        for job_id, wait in before.waits.items():
            assert plan.waits[job_id] == wait


amounts = st.integers(0, 5)


@given(
    takes=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10), amounts), max_size=6),
    releases=st.lists(st.tuples(st.integers(0, 20), amounts), max_size=6),
    need=amounts,
    duration=st.integers(1, 8),
    after=st.integers(0, 20),
)
@settings(max_examples=300, deadline=None)
def test_the_profile_finds_the_first_gap(
    takes: list[tuple[int, int, int]],
    releases: list[tuple[int, int]],
    need: int,
    duration: int,
    after: int,
) -> None:
    profile = Profile(0.0, Sums(5, 0, 0))
    ordered = sorted(releases)
    amounts = np.array([(amount, 0, 0) for _, amount in ordered], dtype=np.int64).reshape(-1, 3)
    profile.release(np.array([float(t) for t, _ in ordered]), amounts)
    for start, length, amount in takes:
        profile.take(start, start + length, Sums(amount, 0, 0))

    def free(time: int) -> int:
        return (
            5
            + sum(amount for t, amount in releases if t <= time)
            - sum(amount for start, length, amount in takes if start <= time < start + length)
        )

    expected = inf
    for begin in range(after, 60):
        if all(free(time) >= need for time in range(begin, begin + duration)):
            expected = begin
            break
    assert profile.earliest(Demand(need, 0, 0), duration, after) == expected
