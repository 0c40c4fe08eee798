"""Who bids most goes first, and pays what the best of those left behind had bid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.domain.accounts import Account, AccountTree, AccountUser, Association
from minislurm.scheduling.accounts import AccountsSnapshot
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.fair_share import History
from minislurm.scheduling.limits import Ledger
from minislurm.scheduling.model import NodeAvailability, Plan, RequestClass, Snapshot
from tests.builders import a_request
from tests.unit.scheduling.builders import a_class, a_job, a_partition, a_run, a_snapshot, some_nodes, started

ONE_CPU = some_nodes(1, cpus=1)
BATCH = a_partition(ONE_CPU)
#: a and b have budgets of their own, c pays out of a's, and d has none.
TREE = AccountTree(
    [Account("a", budget=100.0), Account("b", budget=100.0), Account("c", "a"), Account("d")],
    [AccountUser("ann", "a")],
    [Association(name, "ann") for name in "abcd"],
)


def an_auction(
    nodes: Sequence[NodeAvailability], *classes: RequestClass, credits: Mapping[str, float] | None = None,
    **changes: Any,
) -> Snapshot:  # fmt: skip
    accounts = AccountsSnapshot(
        TREE, Ledger(TREE), History(TREE, {}, {}), {"cpu": 8}, credits=credits or {"a": 1.0, "b": 1.0}
    )
    return replace(a_snapshot(nodes, *classes, order="auction", **changes), accounts=accounts)


def bidder(job_id: int, account: str, bid: float, **changes: Any) -> RequestClass:
    changes.setdefault("partition", BATCH)
    partition = changes.pop("partition")
    return a_class(partition, job_id, account=account, user_name="ann", bid=bid, **changes)


def prices(plan: Plan) -> dict[int, float]:
    return {placement.job_id: placement.price for placement in plan.placements}


def test_the_highest_bid_wins_and_pays_the_second() -> None:
    jobs = [bidder(1, "a", 2), bidder(2, "b", 5), bidder(3, "a", 3)]
    assert prices(schedule(an_auction(ONE_CPU, *jobs))) == {2: 3}


def test_equal_bids_go_by_who_came_first_and_pay_their_bid() -> None:
    assert prices(schedule(an_auction(ONE_CPU, bidder(2, "a", 5), bidder(1, "b", 5)))) == {1: 5}


def test_an_account_does_not_bid_against_itself() -> None:
    assert prices(schedule(an_auction(ONE_CPU, bidder(1, "a", 5), bidder(2, "c", 4)))) == {1: 0}
    jobs = [bidder(1, "a", 5), bidder(2, "c", 4), bidder(3, "b", 1)]
    assert prices(schedule(an_auction(ONE_CPU, *jobs))) == {1: 1}


def test_who_has_no_credits_bids_nothing_and_comes_last() -> None:
    jobs = [bidder(1, "d", 9), bidder(2, "a", 9), bidder(3, "b", 1)]
    assert prices(schedule(an_auction(ONE_CPU, *jobs, credits={"a": 0.0, "b": 1.0}))) == {3: 0}
    assert prices(schedule(an_auction(ONE_CPU, *jobs, credits={"a": -5.0, "b": -1.0}))) == {1: 0}


def test_a_loser_that_could_not_have_used_the_nodes_does_not_count() -> None:
    nodes = some_nodes(2, cpus=1)
    left, right = a_partition(nodes[:1], "left"), a_partition(nodes[1:], "right")
    jobs = [
        bidder(1, "a", 9, partition=left),
        bidder(2, "b", 3, partition=left),
        bidder(3, "a", 8, partition=right),
        bidder(4, "b", 5, partition=right),
    ]
    assert prices(schedule(an_auction(nodes, *jobs))) == {1: 3, 3: 5}
    excluded = bidder(2, "b", 3, partition=left, request=a_request(excluded_nodes=("n1",)))
    assert prices(schedule(an_auction(nodes, jobs[0], excluded))) == {1: 0}


def test_a_higher_bid_that_found_no_room_costs_no_more_than_ones_own() -> None:
    """The gang waits for the whole node; the small one is over before it could start."""
    nodes = some_nodes(1, cpus=2)
    batch = a_partition(nodes)
    gang = bidder(1, "b", 9, partition=batch, request=a_request(1, cpus_per_task=2))
    small = bidder(2, "a", 4, partition=batch, minutes=1)
    assert prices(schedule(an_auction(nodes, gang, small, running=[a_run("n1")]))) == {2: 4}


# Laws


@st.composite
def auctions(draw: st.DrawFn) -> Snapshot:
    nodes = some_nodes(draw(st.integers(1, 3)), cpus=draw(st.integers(1, 4)))
    batch = a_partition(nodes)
    classes = [
        a_class(
            batch,
            *(
                a_job(10 * number + k, at=float(draw(st.integers(0, 3))))
                for k in range(draw(st.integers(1, 2)))
            ),
            request=a_request(draw(st.integers(1, len(nodes))), cpus_per_task=draw(st.integers(1, 2))),
            minutes=draw(st.sampled_from([0, 1, 60])),
            account=draw(st.sampled_from("abcd")),
            user_name="ann",
            bid=draw(st.sampled_from([0.0, 1.0, 2.0, 3.0])),
        )
        for number in range(1, draw(st.integers(1, 6)) + 1)
    ]
    credits = {name: draw(st.sampled_from([-1.0, 0.0, 5.0])) for name in "ab"}
    backfill = draw(st.sampled_from(["easy", "conservative", "off"]))
    return an_auction(nodes, *classes, credits=credits, backfill=backfill)


def _effective(snapshot: Snapshot, jobs: RequestClass) -> float:
    assert snapshot.accounts is not None
    return jobs.bid if snapshot.accounts.credits.get(TREE.payer(jobs.account), 0) > 0 else 0


@given(auctions())
@settings(max_examples=150, deadline=None)
def test_nobody_pays_more_than_the_bid_nor_without_credits(snapshot: Snapshot) -> None:
    plan = schedule(snapshot)
    bids = {job.job_id: _effective(snapshot, jobs) for jobs in snapshot.classes for job in jobs.jobs}
    losing = [bids[job_id] for job_id in plan.waits]
    for placement in plan.placements:
        assert 0 <= placement.price <= bids[placement.job_id]
        assert placement.price in (0, bids[placement.job_id], *losing)


@given(auctions(), st.data())
@settings(max_examples=150, deadline=None)
def test_raising_a_bid_never_makes_a_job_start_later(snapshot: Snapshot, data: st.DataObject) -> None:
    """All its jobs that start now do so as well with the higher bid."""
    raised = data.draw(st.integers(0, len(snapshot.classes) - 1))
    classes = list(snapshot.classes)
    before = set(started(schedule(snapshot)))
    higher = classes[raised].bid + data.draw(st.sampled_from([0.5, 1.0, 9.0]))
    classes[raised] = replace(classes[raised], bid=higher)
    after = set(started(schedule(replace(snapshot, classes=classes))))
    own = {job.job_id for job in classes[raised].jobs}
    assert before & own <= after
