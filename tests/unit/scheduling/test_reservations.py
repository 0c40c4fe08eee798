"""Operators' reservations in the pass: nobody runs into them, and heads are planned around them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.topology import Topology
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import ReservedNodes, Snapshot
from minislurm.scheduling.nodes import Inventory
from minislurm.scheduling.reservations import Calendar
from minislurm.scheduling.work import finished
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    NOW,
    a_class,
    a_partition,
    a_run,
    a_snapshot,
    check,
    nodes_of,
    reason,
    some_nodes,
    started,
)

WHOLE = a_request(exclusive=True)


def reserved(name: str, *nodes: str, start: float, end: float, **more: object) -> ReservedNodes:
    """`start` and `end` in minutes from NOW."""
    window = (NOW + 60 * start, NOW + 60 * end)
    return replace(ReservedNodes(name, (window,), tuple(NodeName(n) for n in nodes)), **more)  # type: ignore[arg-type]


def with_reservations(snapshot: Snapshot, *reservations: ReservedNodes) -> Snapshot:
    return replace(snapshot, reservations=reservations)


def test_a_limit_that_reaches_into_maintenance_waits() -> None:
    nodes = some_nodes(1)
    partition = a_partition(nodes)
    jobs = [a_class(partition, i, minutes=m) for i, m in ((1, 10.0), (2, 11.0), (3, 0.0))]
    maintenance = reserved("m", "n1", start=10, end=20, maintenance=True)
    plan = schedule(with_reservations(a_snapshot(nodes, *jobs), maintenance))
    assert started(plan) == [1]
    plan = schedule(with_reservations(a_snapshot(nodes, *jobs[1:]), maintenance))
    assert started(plan) == []
    assert [reason(plan, i) for i in (2, 3)] == ["ReqNodeNotAvail, Reserved for maintenance"] * 2


def test_the_head_is_planned_after_the_maintenance() -> None:
    """Two nodes, one busy for 5 minutes; both are needed for 10, but the maintenance begins in 12."""
    nodes = some_nodes(2)
    partition = a_partition(nodes)
    head = a_class(partition, 1, request=a_request(2, exclusive=True), minutes=10)
    short = a_class(partition, 2, request=WHOLE, minutes=11)
    running = [a_run("n1", cpus=range(4), minutes=5)]
    snapshot = a_snapshot(nodes, head, short, running=running)
    assert schedule(snapshot).waits[JobId(1)].start_estimate == NOW + 5 * 60
    maintenance = reserved("m", "n1", "n2", start=12, end=30)
    plan = schedule(with_reservations(snapshot, maintenance))
    assert plan.waits[JobId(1)].start_estimate == NOW + 30 * 60
    assert started(plan) == [2]  # n2 would have been the head's in five minutes


def test_the_head_is_planned_before_the_maintenance_where_it_fits() -> None:
    nodes = some_nodes(2)
    partition = a_partition(nodes)
    head = a_class(partition, 1, request=a_request(2, exclusive=True), minutes=10)
    snapshot = a_snapshot(nodes, head, running=[a_run("n1", cpus=range(4), minutes=5)])
    plan = schedule(with_reservations(snapshot, reserved("m", "n1", "n2", start=15, end=30)))
    assert plan.waits[JobId(1)].start_estimate == NOW + 5 * 60


def test_a_job_of_a_reservation_keeps_no_place_for_the_others() -> None:
    nodes = some_nodes(2)
    partition = a_partition(nodes)
    own = a_class(partition, 1, request=replace(WHOLE, reservation="r"), minutes=10)
    head = a_class(partition, 2, request=a_request(1, exclusive=True), minutes=60)
    running = [a_run("n1", minutes=5), a_run("n2", minutes=5)]
    snapshot = a_snapshot(nodes, own, head, running=running)
    plan = schedule(with_reservations(snapshot, reserved("r", "n1", start=-1, end=90)))
    assert plan.waits[JobId(1)].planned_nodes == ("n1",)
    assert plan.waits[JobId(2)].planned_nodes == ("n2",)


@pytest.mark.parametrize(
    ("more", "user", "begins", "expected"),
    [
        ({}, "alice", -1, ["n1"]),
        ({}, "alice", 1, []),
        ({"users": ("alice",)}, "bob", -1, []),
        ({"accounts": ("physics",)}, "alice", -1, []),
        ({"binds_time": False, "binds_nodes": False}, "alice", 1, ["n1"]),
    ],
)
def test_who_starts_in_a_reservation(
    more: dict[str, object], user: str, begins: float, expected: list[str]
) -> None:
    nodes = some_nodes(2)
    jobs = a_class(a_partition(nodes), 1, request=replace(WHOLE, reservation="r"), user_name=user)
    plan = schedule(
        with_reservations(a_snapshot(nodes, jobs), reserved("r", "n1", start=begins, end=90, **more))
    )
    assert nodes_of(plan, 1) == expected
    if not expected:
        assert reason(plan, 1) == "Reservation"


def test_maintenance_over_a_reservation_keeps_its_jobs_off() -> None:
    nodes = some_nodes(2)
    partition = a_partition(nodes)
    own = a_class(partition, 1, 2, request=replace(WHOLE, reservation="r"), minutes=10)
    by = a_class(partition, 3, request=replace(WHOLE, reservation="m"), minutes=10)
    both = (
        reserved("r", "n1", "n2", start=-1, end=90),
        reserved("m", "n1", start=-1, end=90, maintenance=True, overrides=True),
    )
    plan = schedule(with_reservations(a_snapshot(nodes, own, by), *both))
    assert (nodes_of(plan, 1), nodes_of(plan, 2), nodes_of(plan, 3)) == (["n2"], [], ["n1"])


# Laws

windows = st.tuples(st.integers(0, 30), st.integers(1, 15)).map(lambda w: (float(w[0]), float(w[0] + w[1])))
node_sets = st.sets(st.sampled_from(["n1", "n2", "n3", "n4"]), min_size=1)
reservations = st.lists(
    st.builds(
        lambda i, w, n, maintenance, binds_time, binds_nodes: reserved(
            f"r{i}", *sorted(n), start=w[0] - 5, end=w[1] - 5,
            maintenance=maintenance, binds_time=binds_time, binds_nodes=binds_nodes,
        ),
        st.integers(0, 3), windows, node_sets, st.booleans(), st.booleans(), st.booleans(),
    ),
    max_size=3, unique_by=lambda r: r.name,
)  # fmt: skip
classes = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0, 1, 5, 10, 20]), st.sampled_from(["", "r0", "r1"])),
    min_size=1, max_size=6,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(reservations, classes, st.lists(st.tuples(st.integers(1, 4), st.integers(1, 12)), max_size=3))
def test_nobody_runs_into_a_reservation(
    kept: list[ReservedNodes], asked: list[tuple[int, int, str]], busy: list[tuple[int, int]]
) -> None:
    nodes = some_nodes(4)
    partition = a_partition(nodes)
    jobs = [
        a_class(partition, i, request=a_request(n, exclusive=True, reservation=name), minutes=float(m))
        for i, (n, m, name) in enumerate(asked, 1)
    ]
    runs = {f"n{n}": a_run(f"n{n}", minutes=float(m), job=900 + n) for n, m in busy}
    snapshot = with_reservations(a_snapshot(nodes, *jobs, running=list(runs.values())), *kept)
    plan = schedule(snapshot)
    check(snapshot, plan)
    by_name = {r.name: r for r in kept}
    for placement in plan.placements:
        mine = next(c for c in jobs if c.jobs[0].job_id == placement.job_id)
        names = {part.node for part in placement.allocation}
        own = by_name.get(mine.request.reservation)
        end = NOW + (mine.time_limit_s or 1e9)
        assert bool(mine.request.reservation) is (own is not None), "a reservation that is not there"
        if own is not None and own.binds_nodes:
            assert names <= set(own.nodes)
        if own is not None and own.binds_time:
            ((start, over),) = own.windows
            assert start <= NOW < over
            end = min(end, over)
        for other in kept:
            ((start, over),) = other.windows
            if other is not own and start < end and over > NOW:
                assert not names & set(other.nodes), "a job on nodes reserved for others"


@settings(max_examples=100, deadline=None)
@given(reservations, st.integers(1, 4), st.sampled_from([0, 1, 5, 10, 20]), st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 12)), min_size=1, max_size=4))  # fmt: skip
def test_the_start_of_a_head_is_the_earliest(
    kept: list[ReservedNodes], size: int, minutes: int, busy: list[tuple[int, int]]
) -> None:
    """Against a search over every minute."""
    nodes = some_nodes(4)
    head = a_class(a_partition(nodes), 1, request=a_request(size, exclusive=True), minutes=float(minutes))
    until = {f"n{n}": 0.0 for n in range(1, 5)} | {f"n{n}": float(m) for n, m in busy}
    runs = [a_run(name, minutes=m, job=900 + i) for i, (name, m) in enumerate(until.items()) if m]
    plan = schedule(with_reservations(a_snapshot(nodes, head, running=runs), *kept))

    def fits(minute: int) -> bool:
        start = NOW + 60 * minute
        end = start + 60 * (minutes or 1e6)
        free = {name for name, m in until.items() if m <= minute}
        for r in kept:
            ((begin, over),) = r.windows
            if begin < end and over > start:
                free -= {str(name) for name in r.nodes}
        return len(free) >= size

    earliest = next(minute for minute in range(200) if fits(minute))
    if not earliest:
        assert started(plan) == [1]
    else:
        assert plan.waits[JobId(1)].start_estimate == NOW + 60 * earliest


@settings(max_examples=100, deadline=None)
@given(reservations, st.sampled_from([0, 1, 5, 20]), st.sampled_from(["", "r0", "r1"]))
def test_within_a_segment_nothing_closes(kept: list[ReservedNodes], minutes: int, name: str) -> None:
    nodes = some_nodes(4)
    inventory = finished(Inventory.build(nodes, Topology()))
    calendar = Calendar(inventory, kept, NOW)
    jobs = a_class(a_partition(nodes), 1, request=a_request(reservation=name), minutes=float(minutes))
    duration = jobs.time_limit_s or float("inf")
    times = np.array(sorted({NOW + 60.0 * m for m in range(50)} | set(calendar.edges())))
    starts = calendar.segments(jobs, times, duration)
    assert starts[0] == 0
    for low, high in zip(starts, [*starts[1:], len(times)], strict=True):
        masks = [calendar.allowed(jobs, t, t + duration) for t in times[low:high]]
        for before, after in pairwise(masks):
            assert before is None or (before == after).all()
