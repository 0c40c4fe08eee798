"""Fair shares: Slurm's Fair Tree, and the order `fair`."""

from __future__ import annotations

import heapq
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.domain.accounts import Account, AccountTree, AccountUser, Association, AssociationLimits, Qos
from minislurm.domain.configuration import SchedulerSection
from minislurm.domain.tres import Tres
from minislurm.scheduling.accounts import AccountsPass, AccountsSnapshot
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.fair_share import FairOrder, History, Usage, UserKey, fair_tree
from minislurm.scheduling.limits import Charged, Ledger
from minislurm.scheduling.model import Snapshot
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    a_class,
    a_job,
    a_partition,
    a_snapshot,
    check,
    entitlements,
    some_nodes,
    started,
)

CPU = {"cpu": 1.0}


def a_tree(accounts: dict[str, tuple[str, int]], users: dict[str, tuple[str, int]]) -> AccountTree:
    """name -> (parent or account, weight). Slurm's root user has nothing to ask for."""
    return AccountTree(
        [Account(name, parent, weight=weight) for name, (parent, weight) in accounts.items()],
        [AccountUser(name, account) for name, (account, _) in users.items()],
        [
            Association("root", "root", weight=0),
            *(Association(account, name, weight=weight) for name, (account, weight) in users.items()),
        ],
    )


TREE = a_tree(
    {"a": ("root", 2), "b": ("root", 1)},
    {"ann": ("a", 1), "bob": ("a", 1), "cat": ("b", 1), "dan": ("b", 3)},
)


def order(tree: AccountTree, used: dict[str, float]) -> list[str]:
    """Users by their factor, greatest first."""
    account_of = {user.name: user.default_account for user in tree.users.values()}
    factors = fair_tree(tree, {(account_of[u], u): {"cpu": n} for u, n in used.items()}, CPU)
    users = [user for _, user in factors if user != "root"]
    return sorted(users, key=lambda user: (-factors[account_of[user], user], user))


def test_an_account_that_used_less_goes_first_with_all_its_users() -> None:
    # a: 2/3 of the weights, 120 of 160 used: 0.89; b: 1/3 and 40 of 160: 1.33.
    assert order(TREE, {"ann": 119, "bob": 1, "cat": 20, "dan": 20}) == ["dan", "cat", "bob", "ann"]
    # Now a is behind what it may use, and so is ann, though she used more than anybody else.
    assert order(TREE, {"ann": 60, "bob": 1, "cat": 20, "dan": 20}) == ["bob", "ann", "dan", "cat"]


def test_factors_lie_between_0_and_1_and_equals_share_one() -> None:
    factors = fair_tree(TREE, {("a", "ann"): {"cpu": 5.0}}, CPU)
    assert factors["b", "cat"] == factors["b", "dan"] == 1.0
    assert factors["a", "bob"] == pytest.approx(3 / 5)
    assert factors["a", "ann"] == pytest.approx(2 / 5)
    assert all(0.0 < factor <= 1.0 for factor in factors.values())


def test_siblings_that_tie_are_walked_as_one() -> None:
    """Slurm's documentation: the users of accounts that tie are ranked among each other."""
    tree = a_tree(
        {"a": ("root", 1), "b": ("root", 1)},
        {"ann": ("a", 1), "bob": ("a", 1), "cat": ("b", 1), "dan": ("b", 1)},
    )
    assert order(tree, {"ann": 30, "bob": 10, "cat": 25, "dan": 15}) == ["bob", "dan", "cat", "ann"]


def test_what_was_used_is_weighed() -> None:
    usage: Usage = {("a", "ann"): {"cpu": 10.0}, ("a", "bob"): {"gres/gpu": 1.0, "cpu": 1.0}}
    light = fair_tree(TREE, usage, {"cpu": 1.0, "gres/gpu": 1.0})
    heavy = fair_tree(TREE, usage, {"cpu": 1.0, "gres/gpu": 100.0})
    assert light["a", "bob"] > light["a", "ann"]
    assert heavy["a", "bob"] < heavy["a", "ann"]


usages = st.dictionaries(st.sampled_from(["ann", "bob", "cat", "dan"]), st.integers(0, 1000))


@given(usages, st.sampled_from(["ann", "bob", "cat", "dan"]), st.integers(1, 500))
def test_using_more_never_helps(used: dict[str, float], user: str, more: int) -> None:
    account = TREE.default_account(user)
    before = {(TREE.default_account(u), u): {"cpu": float(n)} for u, n in used.items()}
    after = {**before, (account, user): {"cpu": float(used.get(user, 0) + more)}}
    assert fair_tree(TREE, after, CPU)[account, user] <= fair_tree(TREE, before, CPU)[account, user]


def test_entitlements_are_weights_down_the_tree() -> None:
    parts = entitlements(TREE)
    assert parts["a", "ann"] == pytest.approx(1 / 3)
    assert parts["b", "dan"] == pytest.approx(1 / 4)
    assert sum(parts.values()) == pytest.approx(1.0)


# The order `fair`


def test_the_dominant_resource_counts() -> None:
    fair = FairOrder(TREE, {}, {}, {"cpu": 100, "gres/gpu": 4}, 0.0)
    fair.started("a", "ann", {"cpu": 30})
    fair.started("a", "bob", {"cpu": 1, "gres/gpu": 2})
    assert fair.key("a", "ann") < fair.key("a", "bob"), "30 of 100 CPUs is less than 2 of 4 GPUs"
    assert fair.key("b", "cat") < fair.key("a", "ann"), "b has nothing at all"


def test_other_resources_do_not_add_to_the_dominant_one() -> None:
    fair = FairOrder(TREE, {}, {}, {"cpu": 100, "gres/gpu": 4}, 0.0)
    fair.started("a", "ann", {"cpu": 40, "gres/gpu": 1})
    fair.started("a", "bob", {"gres/gpu": 2})
    assert fair.key("a", "ann") < fair.key("a", "bob")


def test_weights_count() -> None:
    fair = FairOrder(TREE, {("a", "ann"): {"cpu": 30}, ("b", "cat"): {"cpu": 20}}, {}, {"cpu": 100}, 0.0)
    assert fair.key("a", "bob") < fair.key("b", "dan"), "15 for each unit of weight, against 20"
    none = a_tree({"a": ("root", 0), "b": ("root", 1)}, {"ann": ("a", 1), "bob": ("b", 1)})
    fair = FairOrder(none, {("b", "bob"): {"cpu": 99}}, {}, {"cpu": 100}, 0.0)
    assert fair.key("b", "bob") < fair.key("a", "ann"), "no weight: last of all"


def test_the_past_counts_as_what_ran_on_average() -> None:
    """A CPU that ran for ever leaves usage of one half-life over ln 2: one CPU."""
    half_life = 100.0
    past: Usage = {("a", "ann"): {"cpu": 144.2695}}
    fair = FairOrder(TREE, {("b", "cat"): {"cpu": 1}}, past, {"cpu": 10}, half_life)
    assert fair.key("a", "ann")[0][0] == pytest.approx(0.1 / 2)
    assert fair.key("b", "cat")[0][0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("places", "weights"), [(8, (2, 3)), (32, (2, 3)), (10, (1, 1, 1)), (16, (5, 3, 2)), (7, (1, 2))]
)
@pytest.mark.parametrize("half_life_s", [3600.0, 7 * 86_400.0])
def test_in_the_long_run_shares_are_within_two_percent_of_entitlement(
    places: int, weights: tuple[int, ...], half_life_s: float
) -> None:
    """Accounts that always want all of some equal places, which no division gives out even."""
    names = [f"a{i}" for i in range(len(weights))]
    entitled = {name: weight / sum(weights) for name, weight in zip(names, weights, strict=True)}
    tree = a_tree(
        {name: ("root", weight) for name, weight in zip(names, weights, strict=True)},
        {f"u-{name}": (name, 1) for name in names},
    )
    chance, decay = random.Random(1), math.log(2) / half_life_s
    held, used, got = (dict.fromkeys(names, 0.0) for _ in range(3))
    ends: list[tuple[float, str]] = []
    now = 0.0
    while now < 40 * 3600:
        while len(ends) < places:
            running: dict[UserKey, Tres] = {(name, f"u-{name}"): {"cpu": int(held[name])} for name in names}
            past: Usage = {(name, f"u-{name}"): {"cpu": used[name]} for name in names}
            fair = FairOrder(tree, running, past, {"cpu": places}, half_life_s, len(ends))
            name = min(names, key=lambda name: fair.key(name, f"u-{name}"))
            held[name] += 1
            heapq.heappush(ends, (now + chance.uniform(60, 900), name))
        end, ended = heapq.heappop(ends)
        faded = math.exp(-decay * (end - now))
        for name in names:
            used[name] = used[name] * faded + held[name] * (1 - faded) / decay
            got[name] += held[name] * (end - now)
        held[ended] -= 1
        now = end
    for name, part in entitled.items():
        assert got[name] / sum(got.values()) == pytest.approx(part, rel=0.02), name


def test_what_was_not_used_gives_one_job_more_and_not_the_whole_cluster() -> None:
    """Both hold half of ten; b had everything until now, a nothing."""
    past: Usage = {("b", "cat"): {"cpu": 10 * 144.2695}}
    tree = a_tree({"a": ("root", 1), "b": ("root", 1)}, {"ann": ("a", 1), "cat": ("b", 1)})
    running: dict[UserKey, Tres] = {("a", "ann"): {"cpu": 5}, ("b", "cat"): {"cpu": 5}}
    fair = FairOrder(tree, running, past, {"cpu": 10}, 100.0, jobs=10)
    assert fair.key("a", "ann")[0][0] == pytest.approx((5 - 1) / 10)
    assert fair.key("b", "cat")[0][0] == pytest.approx((5 + 10 + 1) / 10)


def with_accounts(snapshot: Snapshot, tree: AccountTree, **changes: object) -> Snapshot:
    ledger = Ledger(tree)
    capacity = {"cpu": sum(node.cpus for node in snapshot.nodes)}
    accounts = AccountsSnapshot(tree, ledger, History(tree, {}, CPU), capacity)
    return replace(snapshot, accounts=replace(accounts, **changes))  # type: ignore[arg-type]


def test_shares_are_looked_at_again_as_jobs_start() -> None:
    """Twelve CPUs, a and b with weights 2 and 1; ann and cat have submitted all they have, ann first."""
    nodes = some_nodes(3, cpus=4)
    partition = a_partition(nodes, order="fair")
    snapshot = a_snapshot(
        nodes,
        a_class(partition, *range(1, 21), account="a", user_name="ann"),
        a_class(partition, *range(101, 121), account="b", user_name="cat"),
    )
    taken = with_accounts(snapshot, TREE)
    plan = schedule(taken)
    check(taken, plan)
    assert len([job for job in started(plan) if job < 100]) == 8
    assert len([job for job in started(plan) if job > 100]) == 4
    first_come = schedule(with_accounts(replace(snapshot, classes=[
        replace(jobs, partition=a_partition(nodes)) for jobs in snapshot.classes
    ]), TREE))  # fmt: skip
    assert len([job for job in started(first_come) if job < 100]) == 12, "by priority the first come first"


def test_another_class_of_the_same_user_moves_back_as_well() -> None:
    nodes = some_nodes(1, cpus=2)
    partition = a_partition(nodes, order="fair")
    equal = a_tree({"a": ("root", 1), "b": ("root", 1)}, {"ann": ("a", 1), "cat": ("b", 1)})
    taken = with_accounts(
        a_snapshot(
            nodes,
            a_class(partition, 1, account="a", user_name="ann"),
            a_class(partition, 2, account="a", user_name="ann", minutes=20),
            a_class(partition, 3, account="b", user_name="cat"),
        ),
        equal,
    )
    assert started(schedule(taken)) == [1, 3]


def test_an_array_gives_way_too() -> None:
    nodes = some_nodes(3, cpus=4)
    partition = a_partition(nodes, order="fair")
    taken = with_accounts(
        a_snapshot(
            nodes,
            a_class(partition, a_job(1, tasks=range(20)), account="a", user_name="ann"),
            a_class(partition, a_job(2, tasks=range(20)), account="b", user_name="cat"),
        ),
        TREE,
    )
    plan = schedule(taken)
    check(taken, plan)
    assert started(plan).count(1) == 8
    assert started(plan).count(2) == 4


@given(
    st.lists(
        st.tuples(st.sampled_from(["ann", "bob", "cat", "dan"]), st.integers(1, 4), st.integers(1, 3)),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_a_pass_with_accounts_is_a_pass(wanted: list[tuple[str, int, int]], fair: bool) -> None:
    nodes = some_nodes(4, cpus=4)
    partition = a_partition(nodes, order="fair" if fair else "multifactor")
    classes = [
        a_class(
            partition,
            *range(100 * k + 1, 100 * k + 4),
            request=a_request(count, cpus_per_task=cpus),
            account=TREE.default_account(user),
            user_name=user,
            nice=k,
        )
        for k, (user, cpus, count) in enumerate(wanted)
    ]
    taken = with_accounts(a_snapshot(nodes, *classes), TREE)
    plan = schedule(taken)
    check(taken, plan)
    assert schedule(taken) == plan, "the snapshot is as it was"


def test_factors_of_the_priority() -> None:
    tree = AccountTree(
        TREE.accounts.values(),
        TREE.users.values(),
        [*TREE.associations.values(), Association("b", "dan", priority=5)],
        [Qos("low", priority=10), Qos("high", priority=100)],
    )
    usage: Usage = {("a", "ann"): {"cpu": 5.0}}
    accounts = AccountsSnapshot(tree, Ledger(tree), History(tree, usage, CPU), {})
    settings = SchedulerSection(
        priority_weight_fair_share=1000, priority_weight_qos=100, priority_weight_association=10
    )
    jobs = a_class(a_partition([]), 1, account="a", user_name="ann", qos="low")
    taken = AccountsPass(accounts, settings)
    assert taken.priority(jobs) == pytest.approx(1000 * 2 / 5 + 100 * 10 / 100)
    assert taken.priority(replace(jobs, account="b", user_name="dan", qos="high")) == pytest.approx(1110)
    assert AccountsPass(None, settings).priority(jobs) == 0.0


def test_what_is_limited_holds_nobody_up_and_gets_no_reservation() -> None:
    tree = AccountTree(
        [Account("a"), Account("b")],
        [AccountUser("ann", "a"), AccountUser("bob", "b")],
        [Association("a", "ann"), Association("b", "bob")],
        [Qos("q", max_jobs_per_user=1)],
    )
    ledger = Ledger(tree)
    ledger.charge(Charged("b", "bob", "q"), {"cpu": 1})
    nodes = some_nodes(1, cpus=4)
    partition = a_partition(nodes)
    taken = with_accounts(
        a_snapshot(
            nodes,
            a_class(partition, 1, 2, account="a", user_name="ann", qos="q"),
            a_class(partition, 3, 4, account="b", user_name="bob", qos="q"),
            a_class(partition, 5, account="b", user_name="bob", qos="normal", minutes=99),
        ),
        tree,
        ledger=ledger,
    )
    plan = schedule(taken)
    assert started(plan) == [1, 5]
    assert {plan.waits[job].reason.value for job in (2, 3, 4)} == {"QOSMaxJobsPerUserLimit"}  # type: ignore[index]
    assert plan.waits[2].detail == "QOS q: 1 job of ann runs, at most 1"  # type: ignore[index]


def test_whole_nodes_count_for_what_they_are() -> None:
    """Exclusive nodes come to more CPUs than were asked for."""
    tree = AccountTree(
        [Account("a", limits=AssociationLimits({"cpu": 5}))],
        [AccountUser("ann", "a")],
        [Association("a", "ann")],
    )
    nodes = some_nodes(2, cpus=4)
    jobs = a_class(a_partition(nodes), 1, 2, request=a_request(exclusive=True), account="a", user_name="ann")
    plan = schedule(with_accounts(a_snapshot(nodes, jobs), tree))
    assert started(plan) == [1]
    assert plan.waits[2].reason.value == "AssocGrpCpuLimit"  # type: ignore[index]
