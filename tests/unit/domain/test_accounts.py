"""The account tree: paths, what is passed on, and what is wrong with one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain.account_check import problems
from minislurm.domain.accounts import (
    Account,
    AccountChanges,
    AccountTree,
    AccountUser,
    Association,
    AssociationLimits,
    Qos,
)


def a_tree(*accounts: Account, users: str = "", qos: tuple[Qos, ...] = ()) -> AccountTree:
    """`users`: "ann:lab bob:lab,physics"; the first account is the default one."""
    associations = [
        Association(account, user)
        for user, _, names in (word.partition(":") for word in users.split())
        for account in names.split(",")
    ]
    tree = AccountTree(accounts, (), associations, qos)
    return AccountTree(
        tree.accounts.values(),
        [AccountUser(u.partition(":")[0], u.partition(":")[2].split(",")[0]) for u in users.split()],
        associations,
        qos,
    )


def wrong(*accounts: Account, users: str = "", qos: tuple[Qos, ...] = ()) -> list[str]:
    return list(problems(a_tree(*accounts, users=users, qos=qos)))


def test_nothing_was_ever_added() -> None:
    tree = AccountTree()
    assert tree.is_empty
    assert tree.path("nowhere") == ("root",)
    assert not list(problems(tree))
    assert tree.changed(AccountChanges(qos=(Qos("high"),))).is_empty, "a QOS alone makes no account"
    assert not tree.changed(AccountChanges(accounts=(Account("a"),))).is_empty


def test_the_way_up() -> None:
    tree = a_tree(Account("physics"), Account("lab", "physics"))
    assert tree.path("lab") == ("lab", "physics", "root")
    assert tree.shown_path("lab") == "root/physics/lab"


def test_the_nearest_limit_counts() -> None:
    tree = a_tree(
        Account("a", limits=AssociationLimits(max_jobs=9, max_tres_per_job={"cpu": 8, "gres/gpu": 2})),
        Account("b", "a", limits=AssociationLimits(max_tres_per_job={"cpu": 4}), qos=("high",)),
        users="ann:b",
        qos=(Qos("high"),),
    )
    assert tree.user_limit("b", "ann", lambda limits: limits.max_jobs) == 9
    assert tree.max_tres_per_job("b", "ann") == {"cpu": 4, "gres/gpu": 2}
    assert tree.allowed_qos("b", "ann") == ("high",)
    assert tree.default_qos("b", "ann") == "high", "normal is not among its QOS"
    assert tree.allowed_qos("a", "ann") == ("normal",)


def test_guarantees_over_the_parents_are_named_with_their_sums() -> None:
    lines = wrong(
        Account("physics", guarantee={"gres/gpu": 8, "mem": 102400}),
        Account("lab1", "physics", guarantee={"gres/gpu": 6}),
        Account("group", "physics"),
        Account("lab2", "group", guarantee={"gres/gpu": 3, "mem": 1024}),
    )
    assert lines == [
        "root/physics: guarantees of gres/gpu below it come to 9 (group 3 + lab1 6), its own is 8"
    ]


def test_a_guarantee_over_the_limit() -> None:
    lines = wrong(Account("a", guarantee={"cpu": 8}, limits=AssociationLimits({"cpu": 4})))
    assert lines == ["root/a: guarantee of cpu 8 is over its limit 4"]


def test_parents_that_are_not_there_or_go_round() -> None:
    assert wrong(Account("a", "b")) == ["a: no such parent account b"]
    lines = wrong(Account("a", "b"), Account("b", "a"))
    assert lines == ["a: would be its own parent (parent b)", "b: would be its own parent (parent a)"]
    assert wrong(Account("root", "root")) == ["root: has no parent"]
    assert "root: has no parent" in wrong(Account("root", "a"), Account("a"))


def test_names_amounts_and_qos() -> None:
    assert "account 'a b'" in wrong(Account("a b"))[0]
    assert wrong(Account("a", qos=("fast",))) == ["a: no such QOS fast"]
    assert wrong(Account("a", guarantee={"gpus": 1})) == ["a: unknown TRES gpus"]
    assert wrong(Account("a", weight=-1)) == ["a: the fairshare must be 0 or more"]
    assert "flag NoDecay is not supported" in wrong(Account("a"), qos=(Qos("q", flags=("NoDecay",)),))[0]
    assert wrong(Account("a"), users="ann:b") == ["user ann: no such account b"]
    tree = a_tree(Account("a"), users="ann:a")
    gone = tree.changed(AccountChanges(users=(AccountUser("ann", "b"),)))
    assert list(problems(gone)) == ["user ann: is not in its default account b"]


amounts = st.dictionaries(st.sampled_from(["cpu", "gres/gpu", "mem"]), st.integers(0, 9), max_size=2)
some_accounts = st.lists(
    st.builds(
        Account,
        st.sampled_from("abcdef"),
        st.sampled_from(["root", "a", "b", "c"]),
        guarantee=amounts,
        weight=st.integers(0, 5),
    ),
    max_size=6,
)


@given(some_accounts, some_accounts)
def test_changes_lead_from_one_tree_to_the_other(before: list[Account], after: list[Account]) -> None:
    one, other = AccountTree(before), AccountTree([*after, Account("x")])
    assert one.changed(one.changes_to(other)) == other


@given(some_accounts)
def test_a_tree_without_problems_keeps_its_guarantees_inside(accounts: list[Account]) -> None:
    tree = AccountTree(accounts)
    if list(problems(tree)):
        return
    for name, account in tree.accounts.items():
        for tres, own in account.guarantee.items():
            assert sum(tree.guarantee(child).get(tres, 0) for child in tree.children[name]) <= own
