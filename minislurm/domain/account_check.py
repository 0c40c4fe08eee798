"""What is wrong with a tree of accounts: names, parents, guarantees, QOS. One line for each thing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from minislurm.domain import tres
from minislurm.domain.accounts import (
    QOS_FLAGS,
    QOS_PREEMPT_MODES,
    ROOT,
    Account,
    AccountTree,
    Association,
    AssociationLimits,
    Qos,
)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*\Z")
_MOST = 2**53
_MOST_CREDITS = 1e9


def problems(tree: AccountTree) -> Iterator[str]:
    """Nothing for a tree that can be used."""
    circular = False
    for account in tree.accounts.values():
        yield from _name("account", account.name)
        if account.name == ROOT:
            if account.parent:
                circular = True
                yield "root: has no parent"
        elif account.parent not in tree.accounts:
            yield f"{account.name}: no such parent account {account.parent or '(none)'}"
        elif _is_circular(tree, account):
            circular = True
            yield f"{account.name}: would be its own parent (parent {account.parent})"
    for user in tree.users.values():
        yield from _name("user", user.name)
        if user.default_account and tree.association(user.default_account, user.name) is None:
            yield f"user {user.name}: is not in its default account {user.default_account}"
    for key in tree.associations:
        if key.account not in tree.accounts:
            yield f"user {key.user}: no such account {key.account}"
        if key.user not in tree.users:
            yield f"account {key.account}: no such user {key.user}"
    yield from _qos(tree)
    yield from _amounts(tree)
    if not circular:
        for account in tree.accounts.values():
            yield from _guarantees(tree, account)


def _name(kind: str, name: str) -> Iterator[str]:
    if _NAME.match(name) is None:
        yield f"{kind} {name!r}: a name is letters, digits and '_', '.', '@', '+', '-'"


def _is_circular(tree: AccountTree, account: Account) -> bool:
    seen, name = {account.name}, account.parent
    while name in tree.accounts and name not in seen:
        seen.add(name)
        name = tree.accounts[name].parent
    return name == account.name


def _qos(tree: AccountTree) -> Iterator[str]:
    for qos in tree.qos.values():
        yield from _name("QOS", qos.name)
        for flag in qos.flags:
            if flag not in QOS_FLAGS:
                yield f"QOS {qos.name}: flag {flag} is not supported (there are {', '.join(QOS_FLAGS)})"
        yield from _preemption(tree, qos)
    named: list[tuple[str, Account | Association]] = [(a.name, a) for a in tree.accounts.values()]
    named += [(f"user {a.user} in {a.account}", a) for a in tree.associations.values()]
    for where, item in named:
        for name in (*item.qos, *filter(None, (item.default_qos,))):
            if name not in tree.qos:
                yield f"{where}: no such QOS {name}"
        if item.default_qos and item.qos and item.default_qos not in item.qos:
            yield f"{where}: the default QOS {item.default_qos} is not among its QOS"


def _preemption(tree: AccountTree, qos: Qos) -> Iterator[str]:
    """Whom its jobs may preempt, and nobody in a circle: A drives out B, B drives out A."""
    for name in qos.preempt:
        if name not in tree.qos:
            yield f"QOS {qos.name}: no such QOS {name} to preempt"
    if qos.preempt_mode not in QOS_PREEMPT_MODES:
        listed = ", ".join(mode for mode in QOS_PREEMPT_MODES if mode)
        yield f"QOS {qos.name}: PreemptMode {qos.preempt_mode} is not supported (there are cluster, {listed})"
    for what, seconds in (("PreemptExemptTime", qos.preempt_exempt_s), ("GraceTime", qos.grace_s)):
        if seconds is not None and not 0 <= seconds <= _MOST:
            yield f"QOS {qos.name}: {what} must be 0 or more seconds"
    below, left = set[str](), list(qos.preempt)
    while left:
        name = left.pop()
        if name not in below and name in tree.qos:
            below.add(name)
            left += tree.qos[name].preempt
    if qos.name in below:
        yield f"QOS {qos.name}: would preempt itself (Preempt={','.join(qos.preempt)})"


def _amounts(tree: AccountTree) -> Iterator[str]:
    """Amounts that only a damaged or foreign client sends; the commands check what they read."""
    for account in tree.accounts.values():
        tables = (account.guarantee, account.borrow_limit, account.lend_limit, account.limits.group_tres)
        yield from _table(account.name, *tables, account.limits.max_tres_per_job)
        yield from _weight(account.name, account.weight)
        yield from _budget(account)
    for item in tree.associations.values():
        where = f"user {item.user} in {item.account}"
        yield from _table(where, item.limits.group_tres, item.limits.max_tres_per_job)
        yield from _weight(where, item.weight)
    for where, ranged in _with_ranges(tree):
        lowest, highest = ranged.min_priority, ranged.max_priority
        if lowest is not None and highest is not None and lowest > highest:
            yield f"{where}: MinPriority {lowest} is above MaxPriority {highest}"
    for qos in tree.qos.values():
        yield from _table(f"QOS {qos.name}", qos.group_tres, qos.max_tres_per_user, qos.max_tres_per_job)


def _with_ranges(tree: AccountTree) -> Iterator[tuple[str, AssociationLimits | Qos]]:
    yield from ((account.name, account.limits) for account in tree.accounts.values())
    yield from ((f"user {item.user} in {item.account}", item.limits) for item in tree.associations.values())
    yield from ((f"QOS {qos.name}", qos) for qos in tree.qos.values())


def _table(where: str, *tables: dict[str, int]) -> Iterator[str]:
    for table in tables:
        for name, amount in table.items():
            if not tres.is_tres(name):
                yield f"{where}: unknown TRES {name}"
            elif not 0 <= amount <= _MOST:
                yield f"{where}: {name}={amount} is no amount"


def _weight(where: str, weight: int) -> Iterator[str]:
    if not 0 <= weight <= _MOST:
        yield f"{where}: the fairshare must be 0 or more"


def _budget(account: Account) -> Iterator[str]:
    if account.budget is not None and not 0 <= account.budget <= _MOST_CREDITS:
        yield f"{account.name}: budget {account.budget:g} is not from 0 to {_MOST_CREDITS:g} credits"
    period_s = account.budget_period_s
    if period_s is not None and not 1 <= period_s <= _MOST:
        yield f"{account.name}: the budget's period must be a second or more"
    if period_s is not None and account.budget is None:
        yield f"{account.name}: has a period of its budget, but no budget"


def _guarantees(tree: AccountTree, account: Account) -> Iterator[str]:
    """Those below must fit into the account's own; that must fit under its limit."""
    where = tree.shown_path(account.name)
    for name in tres.sorted_names(account.guarantee):
        own = account.guarantee[name]
        parts = {child: tree.guarantee(child).get(name, 0) for child in tree.children[account.name]}
        total = sum(parts.values())
        if total > own:
            listed = " + ".join(
                f"{child} {tres.format_amount(name, amount)}" for child, amount in parts.items() if amount
            )
            yield (
                f"{where}: guarantees of {name} below it come to {tres.format_amount(name, total)} "
                f"({listed}), its own is {tres.format_amount(name, own)}"
            )
    guaranteed = tree.guarantee(account.name)
    for name, limit in account.limits.group_tres.items():
        if guaranteed.get(name, 0) > limit:
            yield (
                f"{where}: guarantee of {name} {tres.format_amount(name, guaranteed[name])} "
                f"is over its limit {tres.format_amount(name, limit)}"
            )
