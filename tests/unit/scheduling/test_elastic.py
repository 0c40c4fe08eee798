"""Elastic runs in a pass: what they get when nobody else can use it, and who gets it back from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.domain.accounts import Account, AccountTree, AccountUser, Association, AssociationLimits
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.resources import NodeAllocation, ResourceRequest, size_within
from minislurm.domain.states import PartitionState
from minislurm.scheduling.accounts import AccountsSnapshot
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.fair_share import History
from minislurm.scheduling.limits import Charged, Ledger
from minislurm.scheduling.model import ElasticRun, NodeAvailability, Plan, RequestClass, RunningJob, Snapshot
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
    some_nodes,
    started,
)

NODES = 6


def whole(nodes: int = 1, **changes: Any) -> ResourceRequest:
    """Nodes of 4 CPUs, each as a whole."""
    return a_request(nodes, cpus_per_task=4, **changes)


def an_elastic(
    nodes: Sequence[NodeAvailability],
    on: Sequence[str],
    *,
    least: int = 1,
    most: int = 4,
    job: int = 1,
    minutes: float = 60.0,
    partition: dict[str, Any] | None = None,
    request: dict[str, Any] | None = None,
    tier: int = 1,
    **how: Any,
) -> RunningJob:
    """A run on these nodes, as wholes, that may have `least` to `most` of them."""
    asked = whole(least, nodes_max=most, tasks_follow_nodes=True, **(request or {}))
    jobs = RequestClass(asked, a_partition(nodes, **(partition or {})), 0.0, account="lab", user_name="ann")
    parts = [replace(a_run(name, cpus=range(4)).allocation[0]) for name in on]
    return RunningJob(
        JobId(job),
        NOW + minutes * 60.0,
        tuple(parts),
        start_time=NOW - 1000.0,
        partition="batch",
        tier=tier,
        elastic=ElasticRun(jobs, **how),
    )


def joined(plan: Plan, job: int = 1) -> list[str]:
    resizes = [resize for group in plan.resizes for resize in group if resize.job_id == job]
    return [part.node for resize in resizes for part in resize.joining]


def given_back(plan: Plan, job: int = 1) -> list[str]:
    return [n for group in plan.resizes for resize in group if resize.job_id == job for n in resize.leaving]


def test_it_gets_what_nobody_else_wants_up_to_its_most() -> None:
    nodes = some_nodes(NODES)
    run = an_elastic(nodes, ["n1"], most=4)
    assert joined(schedule(a_snapshot(nodes, running=[run]))) == ["n2", "n3", "n4"]


def test_who_waits_comes_first() -> None:
    nodes = some_nodes(NODES)
    run = an_elastic(nodes, ["n1"], most=6)
    jobs = a_class(a_partition(nodes), 7, 8, request=whole(2))
    plan = schedule(a_snapshot(nodes, jobs, running=[run]))
    assert started(plan) == [7, 8]
    assert len(joined(plan)) == 1


def test_a_head_finds_its_nodes_when_it_was_promised_them() -> None:
    """It waits for all nodes but the run's own; a run that lasts longer may not be on them then."""
    nodes = some_nodes(4)
    other = a_run("n4", cpus=range(4), minutes=10.0)
    head = a_class(a_partition(nodes), 7, request=whole(3), minutes=10.0)
    long = an_elastic(nodes, ["n1"], least=1, most=4, minutes=60.0)
    assert joined(schedule(a_snapshot(nodes, head, running=[other, long]))) == []
    short = an_elastic(nodes, ["n1"], least=1, most=4, minutes=10.0)
    assert joined(schedule(a_snapshot(nodes, head, running=[other, short]))) == ["n2", "n3"]


def test_it_leaves_alone_what_those_too_far_back_might_use() -> None:
    nodes = some_nodes(4)
    busy = a_run("n4", cpus=range(4), minutes=10.0)
    run = an_elastic(nodes, ["n1"], least=1, most=4, minutes=5.0)
    classes = [
        a_class(a_partition(nodes), 10 + k, request=whole(3, memory_per_node_mib=k + 1)) for k in range(4)
    ]
    assert joined(schedule(a_snapshot(nodes, *classes, running=[busy, run]))) == ["n2", "n3"]
    assert joined(schedule(a_snapshot(nodes, *classes, running=[busy, run], backfill_depth=1))) == []


@pytest.mark.parametrize(
    ("how", "wake"),
    [({"grow_from": NOW + 30}, NOW + 30), ({"grow_until": NOW}, None), ({"partition": "down"}, None)],
)
def test_not_now(how: dict[str, Any], wake: float | None) -> None:
    nodes = some_nodes(2)
    if "partition" in how:
        how = {"partition": {"state": PartitionState.DOWN}}
    plan = schedule(a_snapshot(nodes, running=[an_elastic(nodes, ["n1"], **how)]))
    assert plan.resizes == ()
    assert wake is None or plan.wake_time == wake


def test_it_waits_for_the_last_node_of_a_gang_that_is_letting_go() -> None:
    nodes = some_nodes(3)
    ending = replace(a_run("n2", cpus=range(4)), end_time=0.0, ending_since=NOW - 1)
    run = an_elastic(nodes, ["n1"])
    plan = schedule(a_snapshot(nodes, running=[ending, run]))
    assert (plan.resizes, plan.wake_time) == ((), NOW + 4)
    stuck = replace(ending, ending_since=NOW - 6)
    assert joined(schedule(a_snapshot(nodes, running=[stuck, run]))) == ["n3"]


@pytest.mark.parametrize(("step", "size"), [(0, 6), (2, 6), (3, 5), (-1, 4), (5, 2)])
def test_steps(step: int, size: int) -> None:
    nodes = some_nodes(NODES)
    run = an_elastic(nodes, ["n1", "n2"], least=2, most=8, request={"nodes_step": step})
    assert 2 + len(joined(schedule(a_snapshot(nodes, running=[run])))) == size


RACKS = (("n1", "n2"), ("n3", "n4"), ("n5", "n6"))


def test_the_nearest_racks_first() -> None:
    nodes = some_nodes(NODES)
    run = an_elastic(nodes, ["n3"], most=3)
    busy = a_run("n1", cpus=range(4))
    assert joined(schedule(a_snapshot(nodes, running=[run, busy], racks=RACKS))) == ["n4", "n5"]


@pytest.mark.parametrize(
    ("request_", "names"),
    [({"topology_level": "rack", "topology_required": True}, ["n4"]), ({"switches": 2}, ["n4", "n1", "n2"])],
)
def test_not_beyond_its_racks(request_: dict[str, Any], names: list[str]) -> None:
    nodes = some_nodes(NODES)
    run = an_elastic(nodes, ["n3"], most=6, request=request_)
    assert sorted(joined(schedule(a_snapshot(nodes, running=[run], racks=RACKS)))) == sorted(names)


def test_who_has_least_of_its_most_grows_first() -> None:
    nodes = some_nodes(4)
    runs = [an_elastic(nodes, ["n1", "n2"], job=1), an_elastic(nodes, ["n3"], job=2)]
    plan = schedule(a_snapshot(nodes, running=runs))
    assert (joined(plan, 1), joined(plan, 2)) == ([], ["n4"])


def limited(snapshot: Snapshot, cpus: int, run: RunningJob) -> Snapshot:
    """The run's account may have so many CPUs in all."""
    accounts = (Account("lab", limits=AssociationLimits({"cpu": cpus})),)
    tree = AccountTree(accounts, [AccountUser("ann", "lab")], [Association("lab", "ann")])
    ledger = Ledger(tree)
    held = {"cpu": 4 * len(run.allocation), "node": len(run.allocation)}
    ledger.charge(Charged("lab", "ann", ""), held)
    return replace(snapshot, accounts=AccountsSnapshot(tree, ledger, History(tree, {}, {}), {"cpu": 100}))


def test_no_more_than_its_account_may_have() -> None:
    nodes = some_nodes(NODES)
    run = an_elastic(nodes, ["n1"], most=6)
    plain = a_snapshot(nodes, running=[run])
    assert len(joined(schedule(limited(plain, 14, run)))) == 2
    assert joined(schedule(limited(plain, 7, run))) == []


# What it gives back


def test_as_few_nodes_as_it_takes() -> None:
    nodes = some_nodes(4)
    run = an_elastic(nodes, ["n1", "n2", "n3"])
    plan = schedule(a_snapshot(nodes, a_class(a_partition(nodes), 7, request=whole(2)), running=[run]))
    assert len(given_back(plan)) == 1
    assert plan.waits[JobId(7)].start_estimate == NOW
    assert set(plan.waits[JobId(7)].planned_nodes) == {"n4", *given_back(plan)}
    assert plan.resizes[0][0].preemptor == 7


def test_never_below_its_least_and_in_steps() -> None:
    nodes = some_nodes(4)
    head = a_class(a_partition(nodes), 7, request=whole(3))
    run = an_elastic(nodes, ["n1", "n2", "n3", "n4"], least=2)
    assert given_back(schedule(a_snapshot(nodes, head, running=[run]))) == []
    small = a_class(a_partition(nodes), 7, request=whole(1))
    doubling = an_elastic(nodes, ["n1", "n2", "n3", "n4"], least=2, request={"nodes_step": -1})
    assert len(given_back(schedule(a_snapshot(nodes, small, running=[doubling])))) == 2


def test_one_that_can_help_alone_before_several_and_the_one_that_restarts_the_least() -> None:
    nodes = some_nodes(6)
    head = a_class(a_partition(nodes), 7, request=whole(2))
    runs = [
        an_elastic(nodes, ["n1", "n2"], job=1),
        an_elastic(nodes, ["n3", "n4", "n5", "n6"], job=2),
    ]
    plan = schedule(a_snapshot(nodes, head, running=runs))
    assert (given_back(plan, 1), len(given_back(plan, 2))) == ([], 2)
    both = a_class(a_partition(nodes), 7, request=whole(4))
    plan = schedule(a_snapshot(nodes, both, running=runs))
    assert (len(given_back(plan, 1)), len(given_back(plan, 2))) == (1, 3)
    assert len(plan.resizes) == 1, "both or none"


def test_who_is_on_a_rack_that_is_needed_whole() -> None:
    nodes = some_nodes(NODES)
    head = a_class(a_partition(nodes), 7, request=whole(2, topology_level="rack", topology_required=True))
    run = an_elastic(nodes, ["n1", "n3", "n5", "n6"], least=2)
    busy = [a_run("n2", cpus=range(4)), a_run("n4", cpus=range(4))]
    plan = schedule(a_snapshot(nodes, head, running=[run, *busy], racks=RACKS))
    assert given_back(plan) == ["n6", "n5"]


@pytest.mark.parametrize(
    ("tier", "shrink_from", "gives"),
    [(1, 0.0, True), (2, 0.0, False), (0, NOW + 10, True), (1, NOW + 10, False)],
)
def test_from_whom_and_when(tier: int, shrink_from: float, gives: bool) -> None:
    nodes = some_nodes(2)
    head = a_class(a_partition(nodes), 7, request=whole(1))
    run = an_elastic(nodes, ["n1", "n2"], tier=tier, shrink_from=shrink_from)
    plan = schedule(a_snapshot(nodes, head, running=[run]))
    assert bool(given_back(plan)) is gives
    assert gives or tier == 2 or plan.wake_time == NOW + 10


def test_nobody_behind_a_head_is_let_past_it() -> None:
    nodes = some_nodes(4)
    busy = a_run("n4", cpus=range(4), minutes=30.0)
    run = an_elastic(nodes, ["n1", "n2", "n3"], minutes=30.0)
    partition = a_partition(nodes)
    head, small = a_class(partition, 7, request=whole(4)), a_class(partition, 8, request=whole(1))
    plan = schedule(a_snapshot(nodes, head, small, running=[busy, run]))
    assert given_back(plan) == []
    alone = schedule(a_snapshot(nodes, small, running=[busy, run]))
    assert len(given_back(alone)) == 1


def test_in_place_the_batch_script_stays_where_it_is() -> None:
    nodes = some_nodes(2)
    features = a_class(a_partition(nodes), 7, request=whole(1, excluded_nodes=(NodeName("n2"),)))
    run = an_elastic(nodes, ["n1", "n2"], restarts=False)
    assert given_back(schedule(a_snapshot(nodes, features, running=[run]))) == []
    restarting = an_elastic(nodes, ["n1", "n2"])
    assert given_back(schedule(a_snapshot(nodes, features, running=[restarting]))) == ["n1"]


def test_what_is_on_its_way_back_is_kept_for_whom_it_was() -> None:
    """The run gives n2 back; a smaller job that comes behind the head does not get it."""
    nodes = some_nodes(3)
    run = an_elastic(nodes, ["n1", "n2"])
    leaving = replace(run, allocation=run.allocation[:1], leaving=run.allocation[1:], elastic=None)
    busy_too = [replace(node, cpus_free=node.cpus_free) for node in nodes]
    head = a_class(a_partition(nodes), 7, request=whole(2), minutes=10.0)
    small = a_class(a_partition(nodes), 8, request=whole(1), minutes=10.0)
    taken = a_snapshot(busy_too, head, small, running=[run])
    plan = schedule(replace(taken, running=[leaving]))
    assert started(plan) == []
    assert set(plan.waits[JobId(7)].planned_nodes) == {"n2", "n3"}


# Laws


@st.composite
def situations(draw: st.DrawFn) -> Snapshot:
    nodes = [a_node(f"n{i}") for i in range(1, NODES + 1)]
    names = draw(st.permutations([node.name for node in nodes]))
    running: list[RunningJob] = []
    for number in range(draw(st.integers(1, 2))):
        count = draw(st.integers(1, 2))
        on, names = names[:count], names[count:]
        running.append(
            an_elastic(
                nodes,
                on,
                least=draw(st.integers(1, count)),
                most=draw(st.integers(count, NODES)),
                job=1 + number,
                minutes=draw(st.sampled_from([5.0, 20.0, 1000.0])),
                request={"nodes_step": draw(st.sampled_from([0, 2, -1]))},
                restarts=draw(st.booleans()),
                shrink_from=NOW + 1000.0,  # growth alone
            )
        )
    for name in names[: draw(st.integers(0, 3))]:
        running.append(
            a_run(name, cpus=range(draw(st.integers(1, 4))), minutes=draw(st.sampled_from([4.0, 15.0])))
        )
    partition = a_partition(nodes)
    classes = [
        a_class(
            partition,
            100 + k,
            request=a_request(draw(st.integers(1, 5)), cpus_per_task=draw(st.sampled_from([1, 4]))),
            minutes=draw(st.sampled_from([3.0, 30.0])),
        )
        for k in range(draw(st.integers(0, 3)))
    ]
    racks = draw(st.sampled_from([(), RACKS]))
    return a_snapshot(nodes, *classes, running=running, racks=racks)


@given(situations())
@settings(max_examples=200, deadline=None)
def test_growth_takes_nothing_from_anybody(snapshot: Snapshot) -> None:
    """What starts, who waits for what, and when the head is to start: as if the runs were rigid, before the
    growth and after it."""
    plan = schedule(snapshot)
    check(snapshot, plan)
    rigid = schedule(replace(snapshot, running=[replace(run, elastic=None) for run in snapshot.running]))
    assert plan.placements == rigid.placements
    assert plan.waits == rigid.waits
    taken = {part.node for placement in plan.placements for part in placement.allocation}
    runs = {run.job_id: run for run in snapshot.running}
    for (resize,) in plan.resizes:
        run = runs[resize.job_id]
        assert run.elastic is not None
        names = [part.node for part in resize.joining]
        assert not taken & set(names), "a whole node twice"
        taken |= set(names)
        size = len(run.allocation) + len(names)
        assert size_within(run.elastic.jobs.request, size) == size
        runs[run.job_id] = replace(run, allocation=(*run.allocation, *resize.joining), elastic=None)
    later = _after(snapshot, plan, list(runs.values()))
    for standing in rigid.standings:
        wait = standing.head
        if wait.start_estimate and schedule(later).waits[standing.jobs.jobs[0].job_id].start_estimate:
            new = schedule(later).waits[standing.jobs.jobs[0].job_id].start_estimate
            assert new <= wait.start_estimate, "a head is delayed"


def _after(snapshot: Snapshot, plan: Plan, running: list[RunningJob]) -> Snapshot:
    """The same instant, with the plan carried out."""
    placed = {placement.job_id: placement for placement in plan.placements}
    left = [replace(jobs, jobs=[j for j in jobs.jobs if j.job_id not in placed]) for jobs in snapshot.classes]
    for jobs in snapshot.classes:
        for job in jobs.jobs:
            if job.job_id in placed:
                parts: tuple[NodeAllocation, ...] = placed[job.job_id].allocation
                running.append(RunningJob(job.job_id, NOW + jobs.time_limit_s, parts))
    nodes = [a_node(node.name) for node in snapshot.nodes]
    used = a_snapshot(nodes, *[jobs for jobs in left if jobs.jobs], running=running)
    return replace(used, topology=snapshot.topology)


def test_nodes_of_a_start_are_in_steps() -> None:
    nodes = some_nodes(NODES)
    asked = whole(2, nodes_max=6, tasks_follow_nodes=True, nodes_step=3)
    plan = schedule(a_snapshot(nodes, a_class(a_partition(nodes), 7, request=asked)))
    assert len(nodes_of(plan, 7)) == 5
