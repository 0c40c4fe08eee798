"""Licenses and --exclusive=user in the pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.reservation import LicenseCount
from minislurm.domain.resources import ResourceRequest
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import RunningJob, Snapshot
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


def licensed(**counts: int) -> ResourceRequest:
    return a_request(licenses=tuple(LicenseCount(name, count) for name, count in sorted(counts.items())))


def with_licenses(snapshot: Snapshot, **free: int) -> Snapshot:
    return replace(snapshot, licenses=free)


def holding(run: RunningJob, **counts: int) -> RunningJob:
    return replace(run, licenses=tuple(LicenseCount(name, count) for name, count in counts.items()))


# Licenses


def test_who_lacks_a_license_holds_up_nobody_else() -> None:
    nodes = some_nodes(1, cpus=2)
    partition = a_partition(nodes)
    first = a_class(partition, 1, request=licensed(ansys=3))
    others = a_class(partition, 2, 3, minutes=0)
    plan = schedule(with_licenses(a_snapshot(nodes, first, others), ansys=2))
    assert started(plan) == [2, 3]
    assert reason(plan, 1) == "Licenses"
    assert not plan.waits[JobId(1)].start_estimate


def test_a_license_that_nobody_has_is_waited_for() -> None:
    nodes = some_nodes(1)
    plan = schedule(a_snapshot(nodes, a_class(a_partition(nodes), 1, request=licensed(bogus=1))))
    assert reason(plan, 1) == "Licenses"


def test_licenses_are_kept_for_the_first_who_waits() -> None:
    """4 in all, 3 held for 5 minutes. The first wants all; a later one may use the free one till then."""
    nodes = some_nodes(4)
    partition = a_partition(nodes)
    running = [holding(a_run("n1", minutes=5), ansys=3)]
    first = a_class(partition, 1, request=licensed(ansys=4))
    short = a_class(partition, 2, request=licensed(ansys=1), minutes=5)
    long = a_class(partition, 3, request=licensed(ansys=1), minutes=6)
    plan = schedule(with_licenses(a_snapshot(nodes, first, short, long, running=running), ansys=1))
    assert started(plan) == [2]
    plan = schedule(with_licenses(a_snapshot(nodes, first, long, running=running), ansys=1))
    assert started(plan) == []
    modest = a_class(partition, 1, request=licensed(ansys=3))
    plan = schedule(with_licenses(a_snapshot(nodes, modest, long, running=running), ansys=1))
    assert started(plan) == [3]  # enough is left beside the first


def test_licenses_are_kept_for_a_head_that_waits_for_nodes() -> None:
    """The head needs n1, which is busy for 8 minutes, and both licenses; n2 is idle."""
    nodes = some_nodes(2, cpus=1)
    partition = a_partition(nodes)
    head = a_class(partition, 1, request=replace(licensed(ansys=2), required_nodes=(NodeName("n1"),)))
    running = [a_run("n1", minutes=8)]
    late, short = (a_class(partition, 2, request=licensed(ansys=1), minutes=m) for m in (9, 8))
    plain = a_class(partition, 3, minutes=9)
    for other, expected in ((late, []), (short, [2]), (plain, [3])):
        snapshot = with_licenses(a_snapshot(nodes, head, other, running=running), ansys=2)
        plan = schedule(snapshot)
        assert started(plan) == expected
        assert reason(plan, 1) == "Resources"


license_counts = st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(license_counts, st.sampled_from([0, 1, 5])), min_size=1, max_size=8),
    st.dictionaries(st.sampled_from("ab"), st.integers(-1, 4)),
    st.lists(st.tuples(license_counts, st.integers(0, 6)), max_size=3),
)
def test_never_more_licenses_than_there_are(
    asked: list[tuple[dict[str, int], int]], free: Mapping[str, int], held: list[tuple[dict[str, int], int]]
) -> None:
    nodes = some_nodes(3)
    partition = a_partition(nodes)
    classes = [
        a_class(partition, 10 * i, 10 * i + 1, request=licensed(**counts), minutes=float(m))
        for i, (counts, m) in enumerate(asked, 1)
    ]
    running = [
        holding(a_run("n1", cpus=(i,), minutes=float(m), job=900 + i), **c) for i, (c, m) in enumerate(held)
    ]
    snapshot = with_licenses(a_snapshot(nodes, *classes, running=running), **free)
    plan = schedule(snapshot)
    check(snapshot, plan)
    taken: Counter[str] = Counter()
    for placement in plan.placements:
        request = next(c.request for c in classes if placement.job_id in [j.job_id for j in c.jobs])
        taken.update({license.name: license.count for license in request.licenses})
    for name, count in taken.items():
        assert not count or count <= free.get(name, 0)


# --exclusive=user


def alone(user: int) -> ResourceRequest:
    return a_request(exclusive_user=user)


def test_nodes_are_shared_by_one_user_only() -> None:
    nodes = some_nodes(2)
    partition = a_partition(nodes)
    mine = a_class(partition, 1, 2, request=alone(1), user_id=1)
    my_plain = a_class(partition, 3, user_id=1)
    theirs = a_class(partition, 4, user_id=2)
    plan = schedule(a_snapshot(nodes, mine, my_plain, theirs))
    assert nodes_of(plan, 1) == nodes_of(plan, 2) == nodes_of(plan, 3) == ["n1"]
    assert nodes_of(plan, 4) == ["n2"]


def test_nobody_joins_a_run_that_is_alone_nor_does_it_join_others() -> None:
    nodes = some_nodes(2)
    partition = a_partition(nodes)
    running = [
        replace(a_run("n1", minutes=5, job=901), user_id=1, exclusive_user=True),
        replace(a_run("n2", minutes=7, job=902), user_id=1),
    ]
    theirs = a_class(partition, 1, request=a_request(2), user_id=2)
    their_own = a_class(partition, 2, request=alone(2), user_id=2)
    plan = schedule(a_snapshot(nodes, theirs, their_own, running=running))
    assert started(plan) == []
    assert plan.waits[JobId(1)].start_estimate == NOW + 5 * 60
    plan = schedule(a_snapshot(nodes, replace(their_own), running=running))
    assert plan.waits[JobId(2)].start_estimate == NOW + 5 * 60


def test_a_run_past_its_limit_is_still_there() -> None:
    nodes = some_nodes(1)
    running = [replace(a_run("n1", minutes=-1), user_id=1)]
    jobs = a_class(a_partition(nodes), 1, request=alone(2), user_id=2)
    assert started(schedule(a_snapshot(nodes, jobs, running=running))) == []


def test_one_user_blocked_does_not_block_another() -> None:
    nodes = some_nodes(1)
    partition = a_partition(nodes)
    running = [replace(a_run("n1"), user_id=1, exclusive_user=True)]
    plan = schedule(
        a_snapshot(nodes, a_class(partition, 1, user_id=2), a_class(partition, 2, user_id=1), running=running)
    )
    assert started(plan) == [2]


def test_a_head_that_will_be_alone_is_not_joined_past_its_start() -> None:
    nodes = some_nodes(1)
    partition = a_partition(nodes)
    running = [replace(a_run("n1", minutes=5), user_id=2)]
    head = a_class(partition, 1, request=alone(1), user_id=1)
    late, short = (a_class(partition, i, minutes=m, user_id=2) for i, m in ((2, 6.0), (3, 5.0)))
    assert started(schedule(a_snapshot(nodes, head, late, short, running=running))) == [3]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.booleans(), st.integers(1, 3), st.sampled_from([0, 2, 8])), max_size=8
    ),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.booleans(), st.integers(1, 6)), max_size=3),
)
def test_no_node_of_a_job_that_is_alone_is_shared_with_others(
    asked: list[tuple[int, bool, int, int]], running: list[tuple[int, int, bool, int]]
) -> None:
    nodes = some_nodes(3)
    partition = a_partition(nodes)
    there: dict[str, list[tuple[int, bool]]] = {node.name: [] for node in nodes}
    runs = []
    for i, (node, user, is_alone, minutes) in enumerate(running):
        if all(u == user or not (a or is_alone) for u, a in there[f"n{node}"]):
            there[f"n{node}"].append((user, is_alone))
            run = a_run(f"n{node}", cpus=(i,), minutes=float(minutes), job=900 + i)
            runs.append(replace(run, user_id=user, exclusive_user=is_alone))
    classes = [
        a_class(
            partition, i, minutes=float(m), user_id=user,
            request=a_request(size, exclusive_user=user if is_alone else None),
        )
        for i, (user, is_alone, size, m) in enumerate(asked, 1)
    ]  # fmt: skip
    snapshot = a_snapshot(nodes, *classes, running=runs)
    plan = schedule(snapshot)
    check(snapshot, plan)
    for placement in plan.placements:
        user, is_alone, _, _ = asked[placement.job_id - 1]
        for part in placement.allocation:
            there[part.node].append((user, is_alone))
    for stays in there.values():
        assert not any(is_alone for _, is_alone in stays) or len({user for user, _ in stays}) == 1
