"""Budgets: what runs under the order ``auction`` is paid for by the second, out of what a period gives."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.cluster.budgets import Budgets, SpendingRecord, rate_of
from minislurm.cluster.core import Transaction
from minislurm.cluster.events import RunPlaced
from minislurm.cluster.messages import ChangeAccounts, PlacementProposed
from minislurm.domain.accounts import Account, AccountChanges, AccountTree, AccountUser, Association
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import Bitmap, JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.times import format_time
from minislurm.scheduling.model import Placement
from tests.builders import a_configuration, a_request, a_spec
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import refused_submission, running, tell, update
from tests.unit.cluster.test_explanation import told

HOUR_S = 3600.0


def a_job(price: float, gpus: int = 1, account: str = "a", share: int = 0) -> Job:
    part = NodeAllocation(NodeName("n1"), Bitmap(0b1111), gpus=Bitmap((1 << gpus) - 1), gpu_share_milli=share)
    return Job(JobId(1), a_spec(account=account), allocation=(part,), price=price, bid=price)


def a_tree(budget: float = 10.0, period_s: float | None = None) -> AccountTree:
    accounts = [Account("a", budget=budget, budget_period_s=period_s), Account("b", "a"), Account("free")]
    return AccountTree(accounts)


# The clockwork


def test_a_run_is_paid_by_gpu_and_hour_and_else_by_cpu() -> None:
    for gpus, spent in ((2, 6.0), (0, 12.0)):
        budgets, tree = Budgets(), a_tree()
        budgets.started(tree, a_job(3, gpus), 100)
        assert budgets.spent(tree, "a", 100 + HOUR_S) == pytest.approx(spent)
        budgets.ended(tree, a_job(3, gpus), 100 + HOUR_S)
        assert budgets.credits(tree, 1e9) == {"a": pytest.approx(10 - spent)}


def test_the_nearest_account_above_pays() -> None:
    budgets, tree = Budgets(), a_tree()
    budgets.started(tree, a_job(3, account="b"), 0)
    budgets.started(tree, a_job(3, account="free"), 0)
    assert budgets.credits(tree, HOUR_S) == {"a": pytest.approx(7)}


def test_a_budget_is_given_anew_and_debts_stay() -> None:
    budgets, tree = Budgets({"a": SpendingRecord("a", 250.0, 4.0)}), a_tree(10, 100.0)
    assert budgets.spent(tree, "a", 299) == 4
    assert budgets.spent(tree, "a", 300) == 0
    budgets.spending["a"].spent = 25.0
    assert [budgets.spent(tree, "a", now) for now in (299, 300, 399, 400, 500)] == [25, 15, 15, 5, 0]


@given(
    st.floats(0, 50), st.integers(0, 40), st.floats(0, 400), st.floats(0, 700),
    st.sampled_from([1.0, 7.5, 100.0]), st.floats(0, 20),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_spending_is_what_period_after_period_comes_to(
    spent: float, rate: int, begin: float, passed_s: float, period_s: float, budget: float
) -> None:
    """The closed form against one boundary after another; and however often it is settled."""
    tree = a_tree(budget, period_s)
    price = float(rate) * 60.0
    budgets = Budgets({"a": SpendingRecord("a", begin, spent)})
    if price:
        budgets.started(tree, a_job(price), begin)
    now, end, expected = begin, begin + passed_s, spent
    while True:
        boundary = (int(now // period_s) + 1) * period_s
        if boundary > end:
            break
        expected = max(0.0, expected + price / HOUR_S * (boundary - now) - budget)
        now = boundary
    expected += price / HOUR_S * (end - now)
    assert budgets.spent(tree, "a", end) == pytest.approx(expected, abs=1e-6)
    budgets.settle_all(tree, begin + passed_s / 3)
    assert budgets.spent(tree, "a", end) == pytest.approx(expected, abs=1e-6)


def test_rates_add_up_exactly() -> None:
    budgets, tree = Budgets(), a_tree()
    jobs = [a_job(price, gpus) for price, gpus in ((0.1, 3), (0.2, 1), (0.000001, 7))]
    for job in jobs:
        budgets.started(tree, job, 0)
    for job in jobs:
        budgets.ended(tree, job, 10)
    assert budgets.rates == {}
    assert rate_of(a_job(0.1, 3)) == 300_000_000
    assert rate_of(a_job(0.1, 1, share=250)) == 25_000_000, "a quarter of a GPU"


# In the cluster


Kind = TypeVar("Kind", bound=SimCluster)


def a_cluster(
    nodes: int = 1, *, cpus: int = 1, budget: float = 1.0, period_s: float | None = None,
    of: type[Kind] = SimCluster,  # type: ignore[assignment]
) -> Kind:  # fmt: skip
    """Accounts a and b with that budget and a user of the same name; jobs run as long as their names say."""
    configuration = a_configuration(nodes, cpus=cpus)
    configuration = replace(configuration, scheduler=replace(configuration.scheduler, order="auction"))
    cluster = of(configuration, duration_of=lambda job: float(job.name))
    changes = AccountChanges(
        accounts=tuple(Account(name, budget=budget, budget_period_s=period_s) for name in "ab"),
        users=tuple(AccountUser(name, name) for name in "ab"),
        associations=tuple(Association(name, name) for name in "ab"),
    )
    assert tell(cluster, ChangeAccounts(changes, 0, OPERATOR)) is None
    return cluster


def bid(cluster: SimCluster, user: str, amount: float, seconds: float = 100, **changes: Any) -> JobId:
    return cluster.submit(name=f"{seconds:g}", user_name=user, bid=amount, **changes)


def left(cluster: SimCluster, account: str) -> float:
    accounts = cluster.state.accounts
    return accounts.budgets.credits(accounts.tree, cluster.now)[account]


def test_the_winner_is_charged_the_second_price_as_its_run_goes() -> None:
    cluster = a_cluster()
    bid(cluster, "a", 0.0, 10)
    cluster.run(1)
    loser, winner = bid(cluster, "a", 18), bid(cluster, "b", 36)
    cluster.run(20)
    assert running(cluster) == {winner}
    assert cluster.job(winner).price == 18
    before, then = left(cluster, "b"), cluster.now
    cluster.run(40)
    assert before - left(cluster, "b") == pytest.approx(18 * (cluster.now - then) / HOUR_S)
    cluster.run(60)
    assert running(cluster) == {loser}
    assert cluster.job(loser).price == 0, "nobody else wants it any more"
    assert left(cluster, "a") == 1
    assert 1 - left(cluster, "b") == pytest.approx(18 * 100 / HOUR_S, rel=0.01)


def test_without_credits_a_bid_is_nothing_until_the_budget_comes_again() -> None:
    cluster = a_cluster(budget=0.05, period_s=1000.0)
    bid(cluster, "b", 1, 300)
    cluster.run(0.5)
    bid(cluster, "a", 1)
    first = bid(cluster, "b", 72, 300)
    cluster.run(300)
    assert running(cluster) == {first}
    assert cluster.job(first).price == 1
    cluster.run(250)
    assert left(cluster, "b") < 0, "it goes on"
    second = bid(cluster, "b", 72)
    cluster.run(100)
    assert running(cluster)
    assert second not in running(cluster)
    cluster.run(350)
    assert 0 < left(cluster, "b") < 0.05, "what it owed is taken from the next budget"
    cluster.run(1000)
    assert left(cluster, "b") == 0.05


def test_why_says_what_is_left_of_the_budget() -> None:
    cluster = a_cluster(budget=0.05, period_s=1000.0)
    bid(cluster, "b", 1, 3000)
    cluster.run(1)
    waits = bid(cluster, "b", 72)
    cluster.run(1)

    def sentence() -> str:
        (found,) = (line for line in told(cluster, waits).sentences if "credits left" in line)
        return found

    assert sentence() == (
        "It bids 72 for a GPU- or CPU-hour; account b has 0.05 credits left of its budget of 0.05."
    )
    cluster.state.accounts.budgets.spending["b"] = SpendingRecord("b", cluster.now, 0.06)
    again = format_time((cluster.now // 1000 + 1) * 1000)
    assert sentence() == (
        "Its bid of 72 counts for nothing: account b has -0.01 credits left of its budget of 0.05; "
        f"it is given anew at {again}."
    )


def test_who_takes_no_bids_says_so() -> None:
    cluster = SimCluster(a_configuration(1))
    refusal = refused_submission(cluster, bid=1.0)
    assert refusal.code is RefusalCode.INVALID_BID
    assert refusal.details == ("partition batch does not take bids",)
    job = cluster.submit(hold=True)
    assert update(cluster, job, bid=1.0) is RefusalCode.INVALID_BID
    cluster = a_cluster()
    assert refused_submission(cluster, user_name="a", bid=float("nan")).code is RefusalCode.INVALID_BID
    assert refused_submission(cluster, user_name="a", bid=-1.0).code is RefusalCode.INVALID_BID


def test_a_waiting_job_may_raise_its_bid() -> None:
    cluster = a_cluster()
    bid(cluster, "a", 0, 10)
    cluster.run(1)
    bid(cluster, "a", 5)
    late = bid(cluster, "b", 1)
    assert update(cluster, late, bid=6.0) is None
    cluster.run(20)
    assert running(cluster) == {late}
    assert update(cluster, late, bid=7.0) is RefusalCode.JOB_NOT_PENDING


class Watched(SimCluster):
    """Nobody begins to pay who owes already, or more than was bid; and how much was bid for what has run."""

    def observe(self, transaction: Transaction) -> None:
        super().observe(transaction)
        for event in transaction.events:
            if isinstance(event, RunPlaced) and event.price:
                job = self.job(event.job_id)
                assert left(self, job.spec.user_name) > 0
                assert event.price <= job.spec.bid

    def most_paid(self, account: str) -> float:
        """What the account would have paid so far had every run cost what was bid for it."""
        return sum(
            job.spec.bid * job.request.tasks * ((job.end_time or self.now) - job.start_time + 1) / HOUR_S
            for job in self.state.jobs.values()
            if job.start_time and job.spec.user_name == account
        )


@given(st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_account_pays_no_more_than_it_bids_and_owes_no_more_than_what_runs(data: st.DataObject) -> None:
    cluster = a_cluster(
        2, cpus=2, budget=0.05, period_s=data.draw(st.sampled_from([None, 200.0])), of=Watched
    )
    for _ in range(data.draw(st.integers(5, 25))):
        bid(
            cluster, data.draw(st.sampled_from("ab")), float(data.draw(st.integers(0, 20))),
            data.draw(st.sampled_from([5, 40, 150])), request=a_request(data.draw(st.integers(1, 2))),
        )  # fmt: skip
        cluster.run(data.draw(st.integers(1, 60)))
        budgets, tree = cluster.state.accounts.budgets, cluster.state.accounts.tree
        for name in "ab":
            assert budgets.spent(tree, name, cluster.now) <= cluster.most_paid(name) + 1e-9


def test_a_price_that_can_no_longer_be_paid_is_no_placement() -> None:
    """A plan comes late: meanwhile the budget was taken away, or the bid lowered."""
    cluster = a_cluster(budget=0.0)
    allocation = (NodeAllocation(NodeName("n1"), Bitmap(1)),)
    job_id = bid(cluster, "a", 5)
    refused = tell(cluster, PlacementProposed(Placement(job_id, None, allocation, price=1.0)))
    assert refused is RefusalCode.TRY_LATER
    cluster = a_cluster(budget=1.0)
    job_id = bid(cluster, "a", 5)
    refused = tell(cluster, PlacementProposed(Placement(job_id, None, allocation, price=6.0)))
    assert refused is RefusalCode.TRY_LATER
    assert tell(cluster, PlacementProposed(Placement(job_id, None, allocation, price=5.0))) is None


def test_from_the_moment_that_an_account_has_a_budget_it_pays_itself() -> None:
    cluster = a_cluster()
    below = AccountChanges(accounts=(Account("b", "a"),))
    assert tell(cluster, ChangeAccounts(below, cluster.state.accounts.version, OPERATOR)) is None
    allocation = (NodeAllocation(NodeName("n1"), Bitmap(1)),)
    job_id = bid(cluster, "b", 36, 1000)
    assert tell(cluster, PlacementProposed(Placement(job_id, None, allocation, price=36.0))) is None
    cluster.run(10)
    own = AccountChanges(accounts=(Account("b", "a", budget=2.0),))
    assert tell(cluster, ChangeAccounts(own, cluster.state.accounts.version, OPERATOR)) is None
    cluster.run(20)
    assert left(cluster, "a") == pytest.approx(1 - 10 * 36 / HOUR_S)
    assert left(cluster, "b") == pytest.approx(2 - 20 * 36 / HOUR_S)
