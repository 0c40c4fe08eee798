"""Who may start more: group limits, limits of users and QOS, and what may be borrowed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain.accounts import (
    Account,
    AccountTree,
    AccountUser,
    Association,
    AssociationLimits,
    Qos,
)
from minislurm.domain.tres import Tres
from minislurm.scheduling.limits import Charged, Holder, Ledger, Limits, RuleBook

DAY_S = 86400.0


def a_limit(group: Tres | None = None, **changes: Any) -> AssociationLimits:
    return AssociationLimits(dict(group or {}), **changes)


def some_limits(*accounts: Account, qos: tuple[Qos, ...] = (), capacity: Tres | None = None) -> Limits:
    """A user "ann" in each account."""
    associations = [Association(a.name, "ann") for a in accounts]
    tree = AccountTree(accounts, [AccountUser("ann", accounts[0].name)], associations, qos)
    return Limits(RuleBook(tree), Ledger(tree), capacity or {})


def ann(account: str, qos: str = "normal", user: str = "ann") -> Charged:
    return Charged(account, user, qos)


def reason(limits: Limits, who: Charged, asked: Tres, time_limit_s: float = 60.0) -> str:
    hit = limits.hit(who, asked, time_limit_s)
    return hit.reason.value if hit is not None else ""


def test_a_group_limit_holds_for_all_below() -> None:
    limits = some_limits(Account("a", limits=a_limit({"gres/gpu": 4})), Account("b", "a"), Account("c", "a"))
    limits.charge(ann("b"), {"cpu": 9, "gres/gpu": 3})
    assert reason(limits, ann("c"), {"gres/gpu": 1}) == ""
    assert reason(limits, ann("c"), {"gres/gpu": 2}) == "AssocGrpGRES"
    hit = limits.hit(ann("c"), {"gres/gpu": 2}, 60.0)
    assert hit is not None
    assert hit.detail == "account a: gres/gpu 3 in use, gres/gpu 2 asked, at most 4"
    assert reason(limits, ann("c"), {"cpu": 50}) == "", "what is not asked for does not matter"


def test_words_of_each_kind() -> None:
    for name, word in (
        ("cpu", "AssocGrpCpuLimit"),
        ("mem", "AssocGrpMemLimit"),
        ("node", "AssocGrpNodeLimit"),
        ("gres/gpu", "AssocGrpGRES"),
        ("gres/gpu:a100", "AssocGrpGRES"),
    ):
        limits = some_limits(Account("a", limits=a_limit({name: 1})))
        assert reason(limits, ann("a"), {name: 2}) == word


def test_numbers_of_jobs() -> None:
    limits = some_limits(Account("a", limits=a_limit(group_jobs=2, max_jobs=1)), Account("b", "a"))
    assert reason(limits, ann("a"), {"cpu": 1}) == ""
    limits.charge(ann("a"), {"cpu": 1})
    assert reason(limits, ann("a"), {"cpu": 1}) == "AssocMaxJobsLimit"
    assert reason(limits, ann("b"), {"cpu": 1}) == "", "a user's limit is for each account"
    limits.charge(ann("b"), {"cpu": 1})
    assert reason(limits, ann("b", user="bob"), {"cpu": 1}) == "AssocGrpJobsLimit"


def test_limits_of_a_job_by_itself() -> None:
    limits = some_limits(Account("a", limits=a_limit(max_tres_per_job={"cpu": 4}, max_wall_s=DAY_S)))
    assert reason(limits, ann("a"), {"cpu": 5}) == "AssocMaxCpuPerJobLimit"
    assert reason(limits, ann("a"), {"cpu": 4}, DAY_S) == ""
    assert reason(limits, ann("a"), {"cpu": 4}, DAY_S + 1) == "AssocMaxWallDurationPerJobLimit"
    assert reason(limits, ann("a"), {"cpu": 4}, 0.0) == "AssocMaxWallDurationPerJobLimit", "0: no end"


def test_a_qos_takes_the_place_of_limits_on_a_job_but_not_of_those_on_a_group() -> None:
    high = Qos("high", max_tres_per_job={"cpu": 8}, max_wall_s=2 * DAY_S, max_jobs_per_user=3)
    limits = some_limits(
        Account("a", limits=a_limit({"cpu": 9}, max_jobs=1, max_tres_per_job={"cpu": 2}, max_wall_s=DAY_S)),
        qos=(high,),
    )
    assert reason(limits, ann("a", "high"), {"cpu": 8}, 2 * DAY_S) == ""
    assert reason(limits, ann("a", "high"), {"cpu": 9}) == "QOSMaxCpuPerJobLimit"
    limits.charge(ann("a", "high"), {"cpu": 8})
    assert reason(limits, ann("a", "high"), {"cpu": 1}) == "", "MaxJobsPU comes before MaxJobs"
    assert reason(limits, ann("a", "high"), {"cpu": 2}) == "AssocGrpCpuLimit"


def test_limits_of_users_in_a_qos() -> None:
    qos = Qos("q", max_tres_per_user={"gres/gpu": 2}, group_tres={"gres/gpu": 3}, group_jobs=3)
    limits = some_limits(Account("a"), Account("b"), qos=(qos,))
    limits.charge(ann("a", "q"), {"gres/gpu": 2})
    assert reason(limits, ann("b", "q"), {"gres/gpu": 1}) == "QOSMaxGRESPerUser", "in whichever account"
    assert reason(limits, ann("b", "q", "bob"), {"gres/gpu": 2}) == "QOSGrpGRES"
    assert reason(limits, ann("b"), {"gres/gpu": 9}) == ""
    limits.charge(ann("b", "q", "bob"), {"cpu": 1})
    limits.charge(ann("b", "q", "bob"), {"cpu": 1})
    assert reason(limits, ann("b", "q", "bob"), {"cpu": 1}) == "QOSGrpJobsLimit"


def test_a_quota_of_nothing_is_not_no_quota() -> None:
    limits = some_limits(Account("a", limits=a_limit({"gres/gpu": 0}, max_jobs=0)))
    assert reason(limits, ann("a"), {"cpu": 1}) == "AssocMaxJobsLimit"
    limits = some_limits(Account("a", limits=a_limit({"gres/gpu": 0})))
    assert reason(limits, ann("a"), {"gres/gpu": 1}) == "AssocGrpGRES"


# Borrowing

GPU8 = {"gres/gpu": 8}


def test_the_borrow_limit_comes_on_top_of_the_guarantee() -> None:
    limits = some_limits(Account("a", guarantee={"gres/gpu": 4}, borrow_limit={"gres/gpu": 2}), capacity=GPU8)
    assert reason(limits, ann("a"), {"gres/gpu": 6}) == ""
    assert reason(limits, ann("a"), {"gres/gpu": 7}) == "AssocGrpGRES"


def test_what_is_not_lent_stays_free_for_its_owner() -> None:
    limits = some_limits(
        Account("a", guarantee={"gres/gpu": 4}, lend_limit={"gres/gpu": 1}),
        Account("b", guarantee={"gres/gpu": 4}),
        capacity=GPU8,
    )
    assert reason(limits, ann("b"), {"gres/gpu": 5}) == "", "its own and the one that is lent"
    hit = limits.hit(ann("b"), {"gres/gpu": 6}, 60.0)
    assert hit is not None
    assert "gres/gpu 3 kept for others" in hit.detail
    limits.charge(ann("a"), {"gres/gpu": 2})
    assert reason(limits, ann("b"), {"gres/gpu": 6}) == "AssocGrpGRES"
    assert reason(limits, ann("b"), {"gres/gpu": 5}) == "", "two used and one kept: three are not b's"
    limits.charge(ann("b"), {"gres/gpu": 5})
    assert reason(limits, ann("a"), {"gres/gpu": 1}) == ""
    assert reason(limits, ann("a"), {"gres/gpu": 2}) == "AssocGrpGRES", "there are no more"


def test_a_guarantee_of_an_account_above_covers_what_is_borrowed_inside() -> None:
    limits = some_limits(
        Account("p", guarantee={"gres/gpu": 4}),
        Account("p1", "p", guarantee={"gres/gpu": 2}, lend_limit={"gres/gpu": 0}),
        Account("p2", "p"),
        Account("q", guarantee={"gres/gpu": 4}, lend_limit={"gres/gpu": 0}),
        capacity=GPU8,
    )
    assert reason(limits, ann("p2"), {"gres/gpu": 2}) == ""
    assert reason(limits, ann("p2"), {"gres/gpu": 3}) == "AssocGrpGRES", "p1 keeps two, q four"
    limits.charge(ann("p2"), {"gres/gpu": 2})
    assert reason(limits, ann("p1"), {"gres/gpu": 2}) == "", "what it kept is there"


def test_who_is_within_its_guarantee_does_not_wait_for_what_others_keep() -> None:
    """c has borrowed three of a's; a takes what is idle, and who is short later reclaims it from c."""
    limits = some_limits(
        Account("a", guarantee={"gres/gpu": 4}),
        Account("b", guarantee={"gres/gpu": 4}, lend_limit={"gres/gpu": 0}),
        Account("c"),
        capacity=GPU8,
    )
    limits.charge(ann("c"), {"gres/gpu": 3})
    assert reason(limits, ann("a"), {"gres/gpu": 4}) == ""
    assert reason(limits, ann("c"), {"gres/gpu": 2}) == "AssocGrpGRES"


def test_nodes_that_several_jobs_share_are_not_used_up() -> None:
    """Each of them counts as one node for its account; the cluster has two."""
    limits = some_limits(
        Account("a", guarantee={"gres/gpu": 4}, lend_limit={"gres/gpu": 4}),
        capacity={"gres/gpu": 8, "node": 2},
    )
    for _ in range(4):
        assert reason(limits, ann("a"), {"gres/gpu": 1, "node": 1}) == ""
        limits.charge(ann("a"), {"gres/gpu": 1, "node": 1})


NAMES = ("a", "b", "c", "d")
PARENTS = {"a": "root", "b": "root", "c": "a", "d": "a"}
small = st.integers(0, 4)
maybe = st.one_of(st.just({}), small.map(lambda n: {"gres/gpu": n}))


@st.composite
def trees(draw: st.DrawFn) -> Limits:
    accounts = []
    for name in NAMES:
        guarantee = draw(small)
        accounts.append(
            Account(
                name,
                PARENTS[name],
                guarantee={"gres/gpu": guarantee * (2 if name == "a" else 1)} if name != "c" else {},
                borrow_limit=draw(maybe),
                lend_limit=draw(maybe),
                limits=a_limit(draw(maybe)),
            )
        )
    total = sum(a.guarantee.get("gres/gpu", 0) for a in accounts if a.parent == "root")
    return some_limits(*accounts, capacity={"gres/gpu": max(total, draw(st.integers(1, 12)))})


steps = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 3)), max_size=25)


@given(trees(), steps)
def test_use_is_never_over_a_limit_nor_over_what_may_be_borrowed(
    limits: Limits, jobs: list[tuple[str, int]]
) -> None:
    """Law of design.md, section 8, counted here without the code that is tested."""
    used = dict.fromkeys((*NAMES, "root"), 0)
    for account, amount in jobs:
        if limits.hit(ann(account), {"gres/gpu": amount}, 60.0) is None:
            limits.charge(ann(account), {"gres/gpu": amount})
            used[account] += amount
            used["root"] += amount
            if PARENTS[account] != "root":
                used[PARENTS[account]] += amount
    for name in NAMES:
        record = limits.tree.accounts[name]
        assert limits.ledger.of("account", name).tres.get("gres/gpu", 0) == used[name]
        most = record.limits.group_tres.get("gres/gpu")
        assert most is None or used[name] <= most
        if record.borrow_limit:
            own = limits.tree.guarantee(name).get("gres/gpu", 0)
            assert used[name] <= own + record.borrow_limit["gres/gpu"]
    if limits.tree.lends_less:
        assert used["root"] <= limits.capacity["gres/gpu"]


@given(steps, st.integers(0, 4), st.integers(0, 4))
def test_whoever_lends_nothing_always_finds_its_guarantee(
    jobs: list[tuple[str, int]], of_a: int, of_b: int
) -> None:
    limits = some_limits(
        Account("a", guarantee={"gres/gpu": of_a}, lend_limit={"gres/gpu": 0}),
        Account("b", guarantee={"gres/gpu": of_b}, lend_limit={"gres/gpu": 0}),
        Account("c"),
        Account("d"),
        capacity=GPU8,
    )
    for account, amount in jobs:
        if limits.hit(ann(account), {"gres/gpu": amount}, 60.0) is None:
            limits.charge(ann(account), {"gres/gpu": amount})
    for name, own in (("a", of_a), ("b", of_b)):
        left = own - limits.ledger.of("account", name).tres.get("gres/gpu", 0)
        if left > 0:
            assert limits.hit(ann(name), {"gres/gpu": left}, 60.0) is None
            limits.charge(ann(name), {"gres/gpu": left})


@given(steps)
def test_what_ended_leaves_nothing(jobs: list[tuple[str, int]]) -> None:
    limits = some_limits(*(Account(name, PARENTS[name]) for name in NAMES))
    for account, amount in jobs:
        limits.charge(ann(account), {"gres/gpu": amount})
    for account, amount in reversed(jobs):
        limits.charge(ann(account), {"gres/gpu": amount}, -1)
    assert limits.ledger.uses == {}
    assert Holder("account", "root") not in limits.ledger.uses
