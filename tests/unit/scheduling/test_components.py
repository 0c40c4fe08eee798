"""Heterogeneous jobs in a pass: whole or not at all, one place in the order, one reservation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.domain.accounts import Account, AccountTree, AccountUser, Association, AssociationLimits
from minislurm.domain.configuration import Partition
from minislurm.domain.ids import JobId
from minislurm.domain.reservation import LicenseCount
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.states import Reason
from minislurm.scheduling.accounts import AccountsSnapshot
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.fair_share import History
from minislurm.scheduling.limits import Ledger
from minislurm.scheduling.model import Plan, RequestClass, Snapshot
from minislurm.scheduling.workspace import Workspace
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    NOW,
    a_class,
    a_node,
    a_partition,
    a_run,
    a_snapshot,
    nodes_of,
    predict,
    some_nodes,
)


def a_het_class(
    partition: Partition, first: int, *requests: ResourceRequest, minutes: float = 10.0, **changes: Any
) -> RequestClass:
    """Its components are jobs `first`, `first` + 1 …"""
    leader, *parts = [
        a_class(partition, first + i, request=request, minutes=minutes, key=("het", first + i), **changes)
        for i, request in enumerate(requests)
    ]
    return replace(leader, parts=tuple(parts))


def placed(plan: Plan, job_id: int) -> dict[int, list[str]]:
    """Nodes of each component; {} if the job does not start."""
    for placement in plan.placements:
        if placement.job_id == job_id:
            return {
                int(one.job_id): [str(part.node) for part in one.allocation]
                for one in (placement, *placement.parts)
            }
    return {}


def reason(plan: Plan, job_id: int) -> Reason:
    return plan.waits[JobId(job_id)].reason


MASTER, WORKERS = a_request(1, cpus_per_task=4), a_request(2, cpus_per_task=2, gpus_per_node=1)


def test_components_of_different_shapes_start_together() -> None:
    nodes = [a_node("n1"), a_node("n2", gpus=1), a_node("n3", gpus=1)]
    plan = schedule(a_snapshot(nodes, a_het_class(a_partition(nodes), 1, MASTER, WORKERS)))
    assert placed(plan, 1) == {1: ["n1"], 2: ["n2", "n3"]}


def test_later_components_find_what_the_earlier_left() -> None:
    """Two components share a node, but none of its CPUs, GPUs or memory."""
    nodes = [a_node("n1", cpus=4, gpus=2, memory_mib=1000)]
    half = a_request(1, cpus_per_task=2, gpus_per_node=1, memory_per_node_mib=500)
    plan = schedule(a_snapshot(nodes, a_het_class(a_partition(nodes), 1, half, half)))
    (placement,) = plan.placements
    parts = [one.allocation[0] for one in (placement, *placement.parts)]
    assert [(part.cpus, part.gpus) for part in parts] == [(0b0011, 0b01), (0b1100, 0b10)]


def test_parts_of_one_gpu() -> None:
    """The second joins the GPU that the first has opened; a third has no room on it."""
    nodes = [a_node("n1", cpus=4, gpus=1)]
    part = a_request(1, gpu_share_milli=500)
    partition = a_partition(nodes)
    plan = schedule(a_snapshot(nodes, a_het_class(partition, 1, part, part)))
    (placement,) = plan.placements
    assert [one.allocation[0].gpus for one in (placement, *placement.parts)] == [1, 1]
    assert (
        reason(schedule(a_snapshot(nodes, a_het_class(partition, 1, *[part] * 3))), 1)
        is Reason.PARTITION_CONFIG
    )


def test_whole_nodes_are_shared_with_no_other_component() -> None:
    nodes = some_nodes(2)
    whole, small = a_request(1, exclusive=True), a_request(1)
    plan = schedule(a_snapshot(nodes, a_het_class(a_partition(nodes), 1, small, whole)))
    assert placed(plan, 1) == {1: ["n1"], 2: ["n2"]}


def test_neither_starts_where_only_one_fits() -> None:
    """Each fits by itself; job 3, which fits beside nothing of it, goes ahead only as backfill allows."""
    nodes = some_nodes(2)
    running = [a_run("n1", cpus=range(4), minutes=30)]
    het = a_het_class(a_partition(nodes), 1, MASTER, MASTER, minutes=60)
    partition = a_partition(nodes)
    short = a_class(partition, 3, request=MASTER, minutes=20)
    long = a_class(partition, 4, request=MASTER, minutes=60)
    plan = schedule(a_snapshot(nodes, het, short, running=running))
    assert placed(plan, 1) == {}
    assert reason(plan, 1) is Reason.RESOURCES
    assert nodes_of(plan, 3) == ["n2"]
    plan = schedule(a_snapshot(nodes, het, long, running=running))
    assert reason(plan, 4) is Reason.PRIORITY
    assert plan.waits[JobId(1)].start_estimate == NOW + 1800
    assert sorted(plan.waits[JobId(1)].planned_nodes) == ["n1", "n2"]


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_it_starts_when_all_fit(backfill: str) -> None:
    """One reservation, at the earliest time at which all components fit."""
    nodes = some_nodes(3)
    running = [a_run("n1", cpus=range(4), minutes=10), a_run("n2", cpus=range(4), minutes=40)]
    het = a_het_class(a_partition(nodes), 1, a_request(1, cpus_per_task=4), a_request(2, cpus_per_task=3))
    forecast = predict(a_snapshot(nodes, het, running=running, backfill=backfill))
    assert forecast.estimates[JobId(1)].start == NOW + 2400
    assert forecast.estimates[JobId(2)].start == NOW + 2400
    nodes_planned = {*forecast.estimates[JobId(1)].nodes, *forecast.estimates[JobId(2)].nodes}
    assert nodes_planned == {"n1", "n2", "n3"}


def test_components_end_with_the_leader_in_a_forecast() -> None:
    nodes = some_nodes(1)
    leader = a_class(a_partition(nodes), 1, request=a_request(1, cpus_per_task=2), minutes=10)
    part = a_class(a_partition(nodes), 2, request=a_request(1, cpus_per_task=2), minutes=60)
    after = a_class(a_partition(nodes), 3, request=MASTER, minutes=5)
    forecast = predict(a_snapshot(nodes, replace(leader, parts=(part,)), after))
    assert forecast.estimates[JobId(3)].start == NOW + 600


def test_a_component_that_ends_before_a_head_may_use_its_nodes() -> None:
    """What counts for a reservation is how long each component takes."""
    nodes = some_nodes(3)
    running = [a_run("n1", cpus=range(4), minutes=30)]
    partition = a_partition(nodes)
    head = a_class(partition, 1, request=a_request(2, cpus_per_task=4), minutes=60, fixed_priority=10**6)
    head = replace(head, request=replace(head.request, required_nodes=("n1", "n2")))
    short = a_class(partition, 2, request=a_request(1, cpus_per_task=4), minutes=20)
    long = a_class(partition, 3, request=a_request(1, cpus_per_task=4), minutes=600)
    plan = schedule(a_snapshot(nodes, head, replace(short, parts=(long,)), running=running))
    assert placed(plan, 2) == {2: ["n2"], 3: ["n3"]}
    plan = schedule(
        a_snapshot(nodes, head, replace(long, parts=(replace(long, jobs=short.jobs),)), running=running)
    )
    assert placed(plan, 3) == {}


def test_one_that_has_less_choice_is_not_kept_from_its_nodes() -> None:
    """Whatever their order: the first of these three likes what the others must have."""
    nodes = [a_node("n1"), a_node("n2", features=frozenset({"fast"})), a_node("n3", gpus=1)]
    anywhere = a_request(1, cpus_per_task=4)
    fast, gpu = replace(anywhere, features="fast"), replace(anywhere, gpus_per_node=1)
    partition = a_partition(nodes)
    assert placed(schedule(a_snapshot(nodes, a_het_class(partition, 1, anywhere, gpu, fast))), 1) == {
        1: ["n1"], 2: ["n3"], 3: ["n2"],
    }  # fmt: skip


def test_what_can_never_fit_holds_nobody_up() -> None:
    nodes = some_nodes(2)
    partition = a_partition(nodes)
    never = a_het_class(partition, 1, MASTER, MASTER, MASTER)
    after = a_class(partition, 9, request=a_request(2, cpus_per_task=4))
    plan = schedule(a_snapshot(nodes, never, after))
    assert reason(plan, 1) is Reason.PARTITION_CONFIG
    assert nodes_of(plan, 9) == ["n1", "n2"]


def test_a_node_that_is_down_is_named_as_the_cause() -> None:
    nodes = [a_node("n1"), a_node("n2", usable=False)]
    plan = schedule(a_snapshot(nodes, a_het_class(a_partition(nodes), 1, MASTER, MASTER)))
    assert reason(plan, 1) is Reason.NODES_UNAVAILABLE


def test_components_in_two_partitions() -> None:
    nodes = some_nodes(3)
    first, second = a_partition(nodes[:1], "first"), a_partition(nodes[1:], "second")
    leader = a_class(first, 1, request=MASTER)
    workers = a_class(second, 2, request=a_request(2, cpus_per_task=4))
    het = replace(leader, parts=(workers,))
    assert placed(schedule(a_snapshot(nodes, het)), 1) == {1: ["n1"], 2: ["n2", "n3"]}
    plan = schedule(a_snapshot(nodes, het, running=[a_run("n3", cpus=(0,))]))
    assert reason(plan, 1) is Reason.RESOURCES
    assert plan.waits[JobId(1)].planned_nodes == ("n1", "n2", "n3")


def test_licenses_are_counted_together() -> None:
    nodes = some_nodes(1)
    one = a_request(1, licenses=(LicenseCount("a", 1),))
    het = a_het_class(a_partition(nodes), 1, one, one)
    enough = replace(a_snapshot(nodes, het), licenses={"a": 2})
    assert placed(schedule(enough), 1)
    assert reason(schedule(replace(enough, licenses={"a": 1})), 1) is Reason.LICENSES


def test_the_component_without_room_is_named() -> None:
    nodes = some_nodes(2)
    het = a_het_class(a_partition(nodes), 1, a_request(1, cpus_per_task=2), MASTER, minutes=60)
    running = [a_run("n1", cpus=(0,)), a_run("n2", cpus=(0,))]
    plan = schedule(a_snapshot(nodes, het, running=running), explain=True)
    wait = plan.waits[JobId(1)]
    assert wait.reason is Reason.RESOURCES
    assert wait.rejected == {"cpus busy": 2}
    assert wait.detail.startswith("component 1 of the heterogeneous job")


TREE = AccountTree(
    [Account("a", limits=AssociationLimits({"cpu": 6}), budget=9.0), Account("b", budget=9.0)],
    [AccountUser("ann", "a")],
    [Association(name, "ann") for name in "ab"],
)


def with_accounts(snapshot: Snapshot) -> Snapshot:
    credits = {"a": 1.0, "b": 1.0}
    accounts = AccountsSnapshot(TREE, Ledger(TREE), History(TREE, {}, {}), {"cpu": 16}, credits=credits)
    return replace(snapshot, accounts=accounts)


def test_limits_hold_for_all_components_together() -> None:
    """Six CPUs: two components of three may start, three of them wait and hold nobody up."""
    nodes = some_nodes(4)
    partition, part = a_partition(nodes), a_request(1, cpus_per_task=3)
    ann = {"account": "a", "user_name": "ann"}
    two = a_het_class(partition, 1, part, part, **ann)
    assert placed(schedule(with_accounts(a_snapshot(nodes, two))), 1)
    three = a_het_class(partition, 11, part, part, part, **ann)
    behind = a_class(partition, 21, request=part, **ann)
    plan = schedule(with_accounts(a_snapshot(nodes, three, behind)))
    assert reason(plan, 11) is Reason.ASSOC_GRP_CPU
    assert nodes_of(plan, 21)


def test_all_components_pay_the_same_price() -> None:
    """The loser wanted what the second component took."""
    nodes = some_nodes(2)
    partition = a_partition(nodes)
    winner = a_het_class(partition, 1, MASTER, MASTER, account="a", user_name="ann", bid=5.0)
    winner = replace(winner, request=replace(MASTER, cpus_per_task=1, required_nodes=("n1",)))
    loser = a_class(partition, 9, request=replace(MASTER, required_nodes=("n2",)), account="b", bid=2.0)
    loser = replace(loser, user_name="ann")
    (placement,) = schedule(with_accounts(a_snapshot(nodes, winner, loser, order="auction"))).placements
    assert (placement.price, placement.parts[0].price) == (2.0, 2.0)


# Laws

amounts = st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(0, 2))


@settings(max_examples=80, deadline=None)
@given(
    jobs=st.lists(st.lists(amounts, min_size=1, max_size=3), min_size=1, max_size=5),
    minutes=st.lists(st.integers(1, 60), min_size=5, max_size=5),
    busy=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60)), max_size=3, unique_by=lambda run: run[0]),
    backfill=st.sampled_from(["easy", "conservative", "off"]),
)
def test_whole_or_not_at_all(
    jobs: list[list[tuple[int, int, int]]], minutes: list[int], busy: list[tuple[int, int]], backfill: str
) -> None:
    """Every component of what starts has its nodes, nothing is given twice, and the plan does not depend on
    what the workspace knows."""
    nodes = [a_node(f"n{i}", cpus=4, gpus=2) for i in range(4)]
    partition = a_partition(nodes)
    classes = []
    for number, shapes in enumerate(jobs):
        requests = [a_request(n, cpus_per_task=cpus, gpus_per_node=gpus) for n, cpus, gpus in shapes]
        classes.append(a_het_class(partition, 10 * number + 1, *requests, minutes=minutes[number]))
    running = [a_run(f"n{i}", cpus=(0, 1), gpus=(0,), minutes=end) for i, end in busy]
    snapshot: Snapshot = a_snapshot(nodes, *classes, running=running, backfill=backfill)
    plan = schedule(snapshot)
    taken: dict[str, int] = {}
    gpus: dict[str, int] = {}
    free = {str(node.name): node for node in snapshot.nodes}
    started = {placement.job_id: placement for placement in plan.placements}
    for jobs_of in classes:
        placement = started.get(jobs_of.jobs[0].job_id)
        if placement is None:
            continue
        members = (jobs_of, *jobs_of.parts)
        parts = (placement, *placement.parts)
        assert [one.job_id for one in parts] == [member.jobs[0].job_id for member in members]
        for one, member in zip(parts, members, strict=True):
            assert len({part.node for part in one.allocation}) == member.request.nodes_min
            for part in one.allocation:
                assert part.cpu_count >= member.request.cpus_per_task
                assert part.gpu_count >= member.request.gpus_per_node
                assert not part.cpus & taken.get(part.node, 0)
                assert not part.gpus & gpus.get(part.node, 0)
                assert not part.cpus & ~free[part.node].cpus_free
                assert not part.gpus & ~free[part.node].gpus_free
                taken[part.node] = taken.get(part.node, 0) | part.cpus
                gpus[part.node] = gpus.get(part.node, 0) | part.gpus
    waiting = {jobs_of.jobs[0].job_id for jobs_of in classes} - started.keys()
    assert waiting == plan.waits.keys()
    workspace = Workspace()
    assert schedule(snapshot, workspace) == schedule(snapshot, workspace) == plan


@settings(max_examples=60, deadline=None)
@given(
    shapes=st.lists(amounts, min_size=2, max_size=3),
    others=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 90)), max_size=5),
    busy=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60)), max_size=4, unique_by=lambda run: run[0]),
)
def test_nobody_behind_it_delays_it(
    shapes: list[tuple[int, int, int]], others: list[tuple[int, int, int]], busy: list[tuple[int, int]]
) -> None:
    """It starts, with others behind it, when it would alone."""
    nodes = [a_node(f"n{i}", cpus=4, gpus=2) for i in range(4)]
    partition = a_partition(nodes)
    requests = [a_request(n, cpus_per_task=cpus, gpus_per_node=gpus) for n, cpus, gpus in shapes]
    het = a_het_class(partition, 1, *requests, fixed_priority=99)
    running = [a_run(f"n{i}", cpus=range(3), gpus=(0,), minutes=end) for i, end in busy]
    behind = [
        a_class(partition, 20 + i, request=a_request(n, cpus_per_task=cpus), minutes=m, fixed_priority=9 - i)
        for i, (n, cpus, m) in enumerate(others)
    ]
    alone = predict(a_snapshot(nodes, het, running=running)).estimates.get(JobId(1))
    beside = predict(a_snapshot(nodes, het, *behind, running=running)).estimates.get(JobId(1))
    assert (alone is None) == (beside is None)
    assert alone is None or beside is None or beside.start == alone.start
