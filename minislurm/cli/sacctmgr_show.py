"""`sacctmgr show`: accounts, users, associations and QOS in columns, as Slurm prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from minislurm.cli.printable import printable
from minislurm.cli.sacctmgr_words import Words, plain_error
from minislurm.domain.accounts import (
    ROOT,
    Account,
    AccountTree,
    Association,
    AssociationLimits,
    Qos,
)
from minislurm.domain.times import format_duration, format_duration_long
from minislurm.domain.tres import format_tres
from minislurm.domain.views import AccountsView

T = TypeVar("T")


class Field(Struct, Generic[T], frozen=True):
    header: str
    width: int
    value: Callable[[T], str]


class Style(Struct, frozen=True):
    """`separator` "": columns of a width; otherwise text between it, with one at the end if `trailing`."""

    header: bool = True
    separator: str = ""
    trailing: bool = False


class Row(Struct, frozen=True):
    """An association: of an account (`user` ""), or of a user in it."""

    view: AccountsView
    record: Account | Association

    @property
    def tree(self) -> AccountTree:
        return self.view.tree

    @property
    def account(self) -> str:
        return self.record.name if isinstance(self.record, Account) else self.record.account

    @property
    def user(self) -> str:
        return "" if isinstance(self.record, Account) else self.record.user

    @property
    def limits(self) -> AssociationLimits:
        return self.record.limits

    @property
    def qos(self) -> str:
        return ",".join(sorted(self.tree.allowed_qos(self.account, self.user)))

    def of_account(self, text: Callable[[Account], str]) -> str:
        return text(self.record) if isinstance(self.record, Account) else ""


def number(value: int | None) -> str:
    return "" if value is None else str(value)


def duration(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def long_duration(seconds: float | None) -> str:
    return "" if seconds is None else format_duration_long(seconds)


def credits_text(amount: float | None) -> str:
    return "" if amount is None else f"{amount:.10g}"


def left_text(amount: float | None) -> str:
    """Of a budget; it falls all the time, so that no more than hundredths are worth reading."""
    return "" if amount is None else f"{amount:.2f}"


def _nothing(item: object) -> str:
    return ""


#: In the order of `show assoc`; those after DefaultQOS' GrpTRESRunMin are shown when asked for.
ASSOCIATION_FIELDS: dict[str, Field[Row]] = {
    "cluster": Field("Cluster", 10, lambda row: row.view.cluster),
    "account": Field("Account", 10, lambda row: row.account),
    "user": Field("User", 10, lambda row: row.user),
    "partition": Field("Partition", 10, _nothing),
    "share": Field("Share", 9, lambda row: str(row.record.weight)),
    "priority": Field("Priority", 10, lambda row: number(row.record.priority or None)),
    "grpjobs": Field("GrpJobs", 7, lambda row: number(row.limits.group_jobs)),
    "grptres": Field("GrpTRES", 13, lambda row: format_tres(row.limits.group_tres)),
    "grpsubmit": Field("GrpSubmit", 9, lambda row: number(row.limits.group_submit_jobs)),
    "grpwall": Field("GrpWall", 11, _nothing),
    "grptresmins": Field("GrpTRESMins", 13, _nothing),
    "maxjobs": Field("MaxJobs", 7, lambda row: number(row.limits.max_jobs)),
    "maxtres": Field("MaxTRES", 13, lambda row: format_tres(row.limits.max_tres_per_job)),
    "maxtrespernode": Field("MaxTRESPerNode", 14, _nothing),
    "maxsubmit": Field("MaxSubmit", 9, lambda row: number(row.limits.max_submit_jobs)),
    "maxwall": Field("MaxWall", 11, lambda row: duration(row.limits.max_wall_s)),
    "maxtresmins": Field("MaxTRESMins", 13, _nothing),
    "qos": Field("QOS", 20, lambda row: row.qos),
    "defaultqos": Field("Def QOS", 9, lambda row: row.record.default_qos),
    "grptresrunmin": Field("GrpTRESRunMin", 13, _nothing),
    "parentname": Field("Par Name", 10, lambda row: row.of_account(lambda account: account.parent)),
    "guarantee": Field(
        "Guarantee", 13, lambda row: row.of_account(lambda account: format_tres(account.guarantee))
    ),
    "borrowlimit": Field(
        "BorrowLimit", 13, lambda row: row.of_account(lambda account: format_tres(account.borrow_limit))
    ),
    "lendlimit": Field(
        "LendLimit", 13, lambda row: row.of_account(lambda account: format_tres(account.lend_limit))
    ),
    "budget": Field("Budget", 10, lambda row: row.of_account(lambda account: credits_text(account.budget))),
    "budgetperiod": Field(
        "BudgetPeriod", 12, lambda row: row.of_account(lambda account: duration(account.budget_period_s))
    ),
    "left": Field(
        "Left", 10, lambda row: row.of_account(lambda account: left_text(row.view.credits.get(account.name)))
    ),
    "minpriority": Field("MinPriority", 11, lambda row: number(row.limits.min_priority)),
    "maxpriority": Field("MaxPriority", 11, lambda row: number(row.limits.max_priority)),
}
_ASSOCIATION_DEFAULT = list(ASSOCIATION_FIELDS)[:20]

ACCOUNT_FIELDS: dict[str, Field[Row]] = {
    "account": Field("Account", 10, lambda row: row.account),
    "description": Field("Descr", 20, lambda row: row.tree.accounts[row.account].description),
    "organization": Field("Org", 20, lambda row: row.tree.accounts[row.account].organization),
}
_ACCOUNT_DEFAULT = list(ACCOUNT_FIELDS)

USER_FIELDS: dict[str, Field[Row]] = {
    "user": Field("User", 10, lambda row: row.user),
    "defaultaccount": Field("Def Acct", 10, lambda row: row.tree.default_account(row.user)),
    "adminlevel": Field("Admin", 9, lambda row: "Administrator" if row.user == "root" else "None"),
}
_USER_DEFAULT = list(USER_FIELDS)

QOS_FIELDS: dict[str, Field[Qos]] = {
    "name": Field("Name", 10, lambda qos: qos.name),
    "priority": Field("Priority", 10, lambda qos: str(qos.priority)),
    "gracetime": Field("GraceTime", 10, lambda qos: long_duration(qos.grace_s or 0.0)),
    "preempt": Field("Preempt", 10, lambda qos: ",".join(sorted(qos.preempt))),
    "preemptexempttime": Field("PreemptExemptTime", 19, lambda qos: long_duration(qos.preempt_exempt_s)),
    "preemptmode": Field("PreemptMode", 11, lambda qos: qos.preempt_mode or "cluster"),
    "flags": Field("Flags", 40, lambda qos: ",".join(qos.flags)),
    "usagethres": Field("UsageThres", 10, _nothing),
    "usagefactor": Field("UsageFactor", 11, lambda qos: "1.000000"),
    "grptres": Field("GrpTRES", 13, lambda qos: format_tres(qos.group_tres)),
    "grptresmins": Field("GrpTRESMins", 13, _nothing),
    "grptresrunmin": Field("GrpTRESRunMin", 13, _nothing),
    "grpjobs": Field("GrpJobs", 7, lambda qos: number(qos.group_jobs)),
    "grpsubmit": Field("GrpSubmit", 9, lambda qos: number(qos.group_submit_jobs)),
    "grpwall": Field("GrpWall", 11, _nothing),
    "maxtres": Field("MaxTRES", 13, lambda qos: format_tres(qos.max_tres_per_job)),
    "maxtrespernode": Field("MaxTRESPerNode", 14, _nothing),
    "maxtresmins": Field("MaxTRESMins", 13, _nothing),
    "maxwall": Field("MaxWall", 11, lambda qos: duration(qos.max_wall_s)),
    "maxtrespu": Field("MaxTRESPU", 13, lambda qos: format_tres(qos.max_tres_per_user)),
    "maxjobspu": Field("MaxJobsPU", 9, lambda qos: number(qos.max_jobs_per_user)),
    "maxsubmitpu": Field("MaxSubmitPU", 11, lambda qos: number(qos.max_submit_jobs_per_user)),
    "maxtrespa": Field("MaxTRESPA", 13, _nothing),
    "maxjobspa": Field("MaxJobsPA", 9, _nothing),
    "maxsubmitpa": Field("MaxSubmitPA", 11, _nothing),
    "mintres": Field("MinTRES", 13, _nothing),
    "description": Field("Descr", 20, lambda qos: qos.description),
    "minpriority": Field("MinPriority", 11, lambda qos: number(qos.min_priority)),
    "maxpriority": Field("MaxPriority", 11, lambda qos: number(qos.max_priority)),
}
_QOS_DEFAULT = list(QOS_FIELDS)[:-3]

#: Other spellings of columns.
_SAME = {
    "acct": "account", "accounts": "account", "users": "user", "fairshare": "share", "shares": "share",
    "desc": "description", "descr": "description", "org": "organization", "defaultacct": "defaultaccount",
    "defacct": "defaultaccount", "admin": "adminlevel", "defqos": "defaultqos", "qoslevel": "qos",
    "maxtresperjob": "maxtres", "maxtrespj": "maxtres", "maxwalldurationperjob": "maxwall",
    "maxsubmitjobs": "maxsubmit", "grpsubmitjobs": "grpsubmit", "maxtresperuser": "maxtrespu",
    "maxjobsperuser": "maxjobspu", "maxsubmitjobsperuser": "maxsubmitpu", "parent": "parentname",
    "maxsubmitjobspu": "maxsubmitpu", "grptresrunmins": "grptresrunmin",
}  # fmt: skip
_COLUMN = re.compile(r"(?P<name>[A-Za-z_]+)(?:%(?P<left>-?)(?P<width>[0-9]{1,4}))?\Z")


def show_accounts(view: AccountsView, words: Words, style: Style) -> list[str]:
    tree = view.tree
    names = words.names("name") or words.names("account")
    chosen = [tree.accounts[name] for name in sorted(tree.accounts) if not names or name in names]
    rows = [Row(view, account) for account in chosen]
    if "withassoc" in words.conditions:
        shown = [row for account in chosen for row in _rows_of(view, account.name)]
        default = [*_ACCOUNT_DEFAULT, "cluster", "parentname", "user", *_ASSOCIATION_DEFAULT[4:]]
        return _table(shown, {**ASSOCIATION_FIELDS, **ACCOUNT_FIELDS}, default, words, style)
    return _table(rows, {**ASSOCIATION_FIELDS, **ACCOUNT_FIELDS}, _ACCOUNT_DEFAULT, words, style)


def show_users(view: AccountsView, words: Words, style: Style) -> list[str]:
    names = words.names("name", keep_case=True) or words.names("user", keep_case=True)
    accounts = words.names("account")
    rows = [
        Row(view, item)
        for item in sorted(view.tree.associations.values(), key=lambda item: (item.user, item.account))
        if (not names or item.user in names) and (not accounts or item.account in accounts)
    ]
    fields = {**ASSOCIATION_FIELDS, **USER_FIELDS}
    given = [name for name, _, _ in _columns(words, fields, [])]
    if "withassoc" in words.conditions:
        default = [*_USER_DEFAULT, "cluster", "account", *_ASSOCIATION_DEFAULT[3:]]
        return _table(rows, fields, default, words, style)
    if set(given) <= set(_USER_DEFAULT):
        # One line a user; columns of associations give one for each of them.
        rows = list({row.user: row for row in rows}.values())
    return _table(rows, fields, _USER_DEFAULT, words, style)


def show_associations(view: AccountsView, words: Words, style: Style) -> list[str]:
    accounts, users = words.names("account"), words.names("user", keep_case=True)
    rows = [
        row
        for row in _rows_of(view, ROOT, below=True)
        if (not accounts or row.account in accounts) and (not users or row.user in users)
    ]
    fields = dict(ASSOCIATION_FIELDS)
    left: frozenset[str] = frozenset()
    if "tree" in words.conditions:
        fields["account"], left = Field("Account", 20, _indented), frozenset({"account"})
    return _table(rows, fields, _ASSOCIATION_DEFAULT, words, style, left)


def show_qos(view: AccountsView, words: Words, style: Style) -> list[str]:
    names = words.names("name") or words.names("qos")
    rows = [qos for qos in view.tree.qos.values() if not names or qos.name in names]
    return _table(rows, QOS_FIELDS, _QOS_DEFAULT, words, style)


def _indented(row: Row) -> str:
    depth = len(row.tree.path(row.account)) - (0 if row.user else 1)
    return " " * depth + row.account


def _rows_of(view: AccountsView, account: str, *, below: bool = False) -> Iterable[Row]:
    """The account, its users, then what is below it."""
    yield Row(view, view.tree.accounts[account])
    for item in view.tree.members.get(account, []):
        yield Row(view, item)
    if below:
        for child in view.tree.children[account]:
            yield from _rows_of(view, child, below=True)


def _columns(
    words: Words, fields: Mapping[str, Field[T]], default: Sequence[str]
) -> list[tuple[str, int, bool]]:
    """(field, width, left) of ``format=``, or the default ones."""
    text = words.conditions.get("format", "")
    if not text:
        return [(name, fields[name].width, False) for name in default]
    result: list[tuple[str, int, bool]] = []
    for word in filter(None, text.split(",")):
        match = _COLUMN.match(word)
        name = match["name"].lower() if match is not None else ""
        name = _SAME.get(name, name)
        if match is None or name not in fields:
            fitting = {
                _SAME.get(known, known)
                for known in (*fields, *_SAME)
                if len(name) > 2 and known.startswith(name) and _SAME.get(known, known) in fields
            }
            if match is None or len(fitting) != 1:
                raise plain_error(f"Unknown field '{word}'")
            name = fitting.pop()
        width = int(match["width"]) if match["width"] else fields[name].width
        result.append((name, width, bool(match["left"])))
    return result


def _table(
    rows: Sequence[T],
    fields: Mapping[str, Field[T]],
    default: Sequence[str],
    words: Words,
    style: Style,
    left: frozenset[str] = frozenset(),
) -> list[str]:
    columns = [(fields[name], width, is_left or name in left)
               for name, width, is_left in _columns(words, fields, default)]  # fmt: skip
    lines: list[str] = []
    if style.separator:
        end = style.separator if style.trailing else ""
        if style.header:
            lines.append(style.separator.join(field.header for field, _, _ in columns) + end)
        lines += [
            style.separator.join(printable(field.value(row)) for field, _, _ in columns) + end for row in rows
        ]
        return lines
    if style.header:
        lines.append("".join(_fit(field.header, width, is_left) + " " for field, width, is_left in columns))
        lines.append("".join("-" * width + " " for _, width, _ in columns))
    for row in rows:
        texts = (_fit(printable(field.value(row)), width, is_left) for field, width, is_left in columns)
        lines.append("".join(text + " " for text in texts))
    return lines


def _fit(text: str, width: int, left: bool) -> str:
    """What is too long ends in "+"."""
    if len(text) > width:
        text = text[: max(0, width - 1)] + "+"
    return text.ljust(width) if left else text.rjust(width)
