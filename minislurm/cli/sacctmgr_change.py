"""`sacctmgr add|modify|delete`: from the tree as it is and the words to what changes, and what to say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.cli.sacctmgr_words import (
    Words,
    changed_flags,
    changed_limits,
    changed_list,
    changed_tres,
    parse_budget,
    parse_grace,
    parse_limit,
    parse_preempt_mode,
    parse_wall,
    parse_weight,
    plain_error,
    split_names,
)
from minislurm.cli.word import Word
from minislurm.domain.accounts import (
    ROOT,
    Account,
    AccountChanges,
    AccountTree,
    AccountUser,
    Association,
    AssociationKey,
    Qos,
)
from minislurm.domain.errors import UsageError


class Proposal(Struct):
    """`changes` None or empty: nothing to do, which `nothing` says."""

    changes: AccountChanges = AccountChanges()
    lines: list[str] = field(default_factory=list)
    nothing: str = ""


class Editor(Struct, frozen=True):
    """Words on one kind of record. `cluster`: for what is printed, and to refuse another one."""

    tree: AccountTree
    cluster: str

    def check_cluster(self, words: Words) -> None:
        for name in words.names("cluster", keep_case=True):
            if name != self.cluster:
                raise plain_error(f"The cluster {name} is not this one ({self.cluster})")

    def _line(self, account: str, user: str = "") -> str:
        if user:
            return f"  C = {self.cluster:<10} A = {account:<20} U = {user:<9}"
        return f"  C = {self.cluster:<10} A = {account:<20}"

    # Adding

    def add_accounts(self, words: Words) -> Proposal:
        names = _required(words, "name", "account", "accounts")
        parent = (words.names("parent") or (ROOT,))[0]
        if parent not in self.tree.accounts:
            raise plain_error(f"Parent account {parent} doesn't exist.")
        new: list[Account] = []
        said: list[str] = []
        for name in names:
            if name in self.tree.accounts and not (name == ROOT and self.tree.is_empty):
                said.append(f" This account '{name}' already exists.  Not adding.")
                continue
            base = Account(name, parent, description=name, organization=name if parent == ROOT else parent)
            new.append(_changed_account(base, words.settings))
        if not new:
            return Proposal(lines=said, nothing=" Nothing new added.")
        first = new[0]
        lines = [*said, " Adding Account(s)", *(f"  {account.name}" for account in new), " Settings"]
        lines += [f"  Description     = {first.description}", f"  Organization    = {first.organization}"]
        lines += [" Associations", *(f"  A = {a.name:<10} C = {self.cluster:<10}" for a in new)]
        lines += _shown_settings(words.settings, ("parent", "description", "organization"))
        return Proposal(AccountChanges(accounts=tuple(new)), lines)

    def add_users(self, words: Words) -> Proposal:
        names = _required(words, "name", "user", "users", keep_case=True)
        default = (words.names("defaultaccount") or ("",))[0]
        accounts = words.names("account") or ((default,) if default else ())
        if not accounts:
            raise plain_error("Need name of account to add user to.")
        if default and default not in accounts:
            accounts = (*accounts, default)
        for account in accounts:
            if account not in self.tree.accounts:
                raise plain_error(f"This account '{account}' doesn't exist.")
        new_users: dict[str, AccountUser] = {}
        new: list[Association] = []
        for name in names:
            record = self.tree.users.get(name)
            if record is None or default:
                new_users[name] = AccountUser(name, default or accounts[0])
            for account in accounts:
                if self.tree.association(account, name) is None:
                    new.append(_changed_association(Association(account, name), words.settings))
        users = tuple(u for u in new_users.values() if self.tree.users.get(u.name) != u)
        if not new and not users:
            return Proposal(nothing=" Nothing new added.")
        lines: list[str] = []
        added = [user.name for user in users if user.name not in self.tree.users]
        if added:
            lines += [" Adding User(s)", *(f"  {name}" for name in added)]
        if default:
            lines += [" Settings =", f"  Default Account = {default}"]
        if new:
            lines.append(" Associations =")
            lines += [f"  U = {item.user:<9} A = {item.account:<10} C = {self.cluster:<10}" for item in new]
        lines += _shown_settings(words.settings, ("account", "defaultaccount"), " Non Default Settings")
        return Proposal(AccountChanges(users=users, associations=tuple(new)), lines)

    def add_qos(self, words: Words) -> Proposal:
        names = _required(words, "name", "qos", "QOS")
        settings = [word for word in words.settings if word.key != "qos"]
        new = [_changed_qos(Qos(n, description=n), settings) for n in names if n not in self.tree.qos]
        if not new:
            return Proposal(nothing=" Nothing new added.")
        lines = [" Adding QOS(s)", *(f"  {qos.name}" for qos in new)]
        lines += [" Settings", f"  Description    : {new[0].description}"]
        return Proposal(AccountChanges(qos=tuple(new)), lines)

    # Modifying

    def modify_accounts(self, words: Words) -> Proposal:
        chosen = self._accounts(words)
        changed = tuple(
            after for account in chosen if (after := _changed_account(account, words.settings)) != account
        )
        if not changed:
            return Proposal(nothing=" Nothing modified")
        lines = [" Modified account associations...", *(self._line(account.name) for account in changed)]
        return Proposal(AccountChanges(accounts=changed), lines)

    def modify_users(self, words: Words) -> Proposal:
        chosen = self._associations(words)
        default = next((word for word in words.settings if word.key == "defaultaccount"), None)
        settings = [word for word in words.settings if word.key != "defaultaccount"]
        changed = (
            tuple(after for item in chosen if (after := _changed_association(item, settings)) != item)
            if settings
            else ()
        )
        users: tuple[AccountUser, ...] = ()
        if default is not None:
            names = sorted({item.user for item in chosen})
            account = (split_names(default.value) or ("",))[0]
            for name in names:
                if self.tree.association(account, name) is None:
                    raise plain_error(f"User {name} is not in account {account}")
            users = tuple(
                AccountUser(name, account) for name in names if self.tree.default_account(name) != account
            )
        if not changed and not users:
            return Proposal(nothing=" Nothing modified")
        lines: list[str] = []
        if users:
            lines += [" Modified users...", *(f"  {user.name}" for user in users)]
        if changed:
            lines += [" Modified user associations..."]
            lines += [self._line(item.account, item.user) for item in changed]
        return Proposal(AccountChanges(users=users, associations=changed), lines)

    def modify_qos(self, words: Words) -> Proposal:
        names = words.names("name") or words.names("qos") or tuple(self.tree.qos)
        chosen = [self.tree.qos[name] for name in names if name in self.tree.qos]
        changed = tuple(after for qos in chosen if (after := _changed_qos(qos, words.settings)) != qos)
        if not changed:
            return Proposal(nothing=" Nothing modified")
        lines = [" Modified qos...", *(f"  {qos.name}" for qos in changed)]
        return Proposal(AccountChanges(qos=changed), lines)

    # Deleting

    def delete_accounts(self, words: Words) -> Proposal:
        """With the accounts below them and the users in them."""
        _refuse_settings(words, "name", "account", "parent", "cluster")
        if not (words.conditions.keys() - {"cluster"}):
            raise plain_error("No conditions given to remove, not executing.")
        gone = {name for account in self._accounts(words) for name in self._below(account.name)}
        if not gone:
            return Proposal(nothing=" Nothing deleted")
        keys = [key for key in self.tree.associations if key.account in gone]
        changes = self._without(keys)
        lines = [" Deleting accounts...", *(f"  {name}" for name in sorted(gone))]
        return Proposal(replace(changes, removed_accounts=tuple(sorted(gone))), lines)

    def delete_users(self, words: Words) -> Proposal:
        _refuse_settings(words, "name", "user", "account", "cluster")
        if not (words.conditions.keys() - {"cluster"}):
            raise plain_error("No conditions given to remove, not executing.")
        keys = [AssociationKey(item.account, item.user) for item in self._associations(words)]
        if not keys:
            return Proposal(nothing=" Nothing deleted")
        changes = self._without(keys)
        if words.names("account"):
            lines = [" Deleting user associations..."]
            lines += [self._line(key.account, key.user) for key in keys]
        else:
            lines = [" Deleting users...", *(f"  {name}" for name in changes.removed_users)]
        return Proposal(changes, lines)

    def delete_qos(self, words: Words) -> Proposal:
        """Nobody is left who may name it, or who would preempt it."""
        _refuse_settings(words, "name", "qos", "cluster")
        names = _required(words, "name", "qos", "QOS")
        gone = tuple(name for name in names if name in self.tree.qos)
        if not gone:
            return Proposal(nothing=" Nothing deleted")
        accounts = (_without_qos(item, gone) for item in self.tree.accounts.values())
        associations = (_without_qos(item, gone) for item in self.tree.associations.values())
        others = [
            replace(qos, preempt=tuple(name for name in qos.preempt if name not in gone))
            for qos in self.tree.qos.values()
            if qos.name not in gone
        ]
        changes = AccountChanges(
            accounts=tuple(item for item in accounts if self.tree.accounts[item.name] != item),
            associations=tuple(
                item for item in associations if self.tree.association(item.account, item.user) != item
            ),
            qos=tuple(qos for qos in others if self.tree.qos[qos.name] != qos),
            removed_qos=gone,
        )
        return Proposal(changes, [" Deleting QOS(s)...", *(f"  {name}" for name in gone)])

    # Choosing

    def _accounts(self, words: Words) -> list[Account]:
        names = words.names("name") or words.names("account")
        parents = words.names("parent")
        return [
            account
            for account in self.tree.accounts.values()
            if (not names or account.name in names) and (not parents or account.parent in parents)
        ]

    def _associations(self, words: Words) -> list[Association]:
        users = words.names("name", keep_case=True) or words.names("user", keep_case=True)
        accounts = words.names("account")
        return [
            item
            for item in self.tree.associations.values()
            if (not users or item.user in users) and (not accounts or item.account in accounts)
        ]

    def _below(self, account: str) -> Iterable[str]:
        yield account
        for child in self.tree.children[account]:
            yield from self._below(child)

    def _without(self, keys: Sequence[AssociationKey]) -> AccountChanges:
        """Users go with their last account; nobody's default account goes before the others."""
        gone: list[str] = []
        left: list[str] = []
        for user in sorted({key.user for key in keys}):
            accounts = set(self.tree.accounts_of(user))
            accounts -= {key.account for key in keys if key.user == user}
            if not accounts:
                gone.append(user)
            elif self.tree.default_account(user) not in accounts:
                left.append(user)
        if left:
            lines = [self._line(self.tree.default_account(user), user).rstrip() for user in left]
            text = "Error with request: You can not remove the default account of a user"
            raise UsageError("\n".join([" " + text, *lines]), prefix=False)
        return AccountChanges(removed_users=tuple(gone), removed_associations=tuple(keys))


def _required(
    words: Words, first: str, second: str, what: str, *, keep_case: bool = False
) -> tuple[str, ...]:
    names = words.names(first, keep_case=keep_case) or words.names(second, keep_case=keep_case)
    if not names:
        raise plain_error(f"Need name of {what} to add or remove.")
    return names


def _refuse_settings(words: Words, *allowed: str) -> None:
    for word in words.settings:
        if word.key not in allowed:
            raise plain_error(f"Unknown condition: {word.text}")


def _shown_settings(settings: Sequence[Word], but: tuple[str, ...], title: str = " Settings") -> list[str]:
    shown = [word for word in settings if word.key not in (*but, "name", "user", "account", "cluster")]
    return [title, *(f"  {word.key:<14}= {word.value}" for word in shown)] if shown else []


_CHOOSING = ("name", "account", "user", "cluster")


def _changed_account(account: Account, settings: Sequence[Word]) -> Account:
    for word in settings:
        limits = changed_limits(account.limits, word)
        if limits is not None:
            account = replace(account, limits=limits)
            continue
        changes: dict[str, Any]
        match word.key:
            case key if key in _CHOOSING:
                continue
            case "parent":
                changes = {"parent": (split_names(word.value) or ("",))[0]}
            case "description" | "organization":
                changes = {word.key: word.value}
            case "guarantee":
                changes = {"guarantee": changed_tres(account.guarantee, word)}
            case "borrowlimit":
                changes = {"borrow_limit": changed_tres(account.borrow_limit, word)}
            case "lendlimit":
                changes = {"lend_limit": changed_tres(account.lend_limit, word)}
            case "budget":
                changes = {"budget": parse_budget(word)}
                if changes["budget"] is None:
                    changes["budget_period_s"] = None
            case "budgetperiod":
                changes = {"budget_period_s": parse_wall(word)}
            case _:
                changes = _shared(account, word)
        account = replace(account, **changes)
    return account


def _changed_association(item: Association, settings: Sequence[Word]) -> Association:
    for word in settings:
        limits = changed_limits(item.limits, word)
        if limits is not None:
            item = replace(item, limits=limits)
        elif word.key not in (*_CHOOSING, "defaultaccount"):
            item = replace(item, **_shared(item, word))
    return item


def _shared(item: Account | Association, word: Word) -> dict[str, Any]:
    """What accounts and users in them have in common."""
    match word.key:
        case "fairshare":
            return {"weight": parse_weight(word)}
        case "priority":
            return {"priority": parse_limit(word) or 0}
        case "qos":
            return {"qos": changed_list(item.qos, word)}
        case "defaultqos":
            return {"default_qos": "" if word.value == "-1" else word.value.lower()}
    raise plain_error(f"Unknown option: {word.text}")


_QOS_NUMBERS = {
    "grpjobs": "group_jobs", "grpsubmit": "group_submit_jobs", "maxjobspu": "max_jobs_per_user",
    "maxsubmitpu": "max_submit_jobs_per_user", "maxjobs": "max_jobs_per_user",
    "maxsubmit": "max_submit_jobs_per_user", "minpriority": "min_priority", "maxpriority": "max_priority",
}  # fmt: skip
_QOS_TRES = {"grptres": "group_tres", "maxtres": "max_tres_per_job", "maxtrespu": "max_tres_per_user"}


def _changed_qos(qos: Qos, settings: Sequence[Word]) -> Qos:
    for word in settings:
        changes: dict[str, Any]
        if word.key in _QOS_NUMBERS:
            changes = {_QOS_NUMBERS[word.key]: parse_limit(word)}
        elif word.key in _QOS_TRES:
            name = _QOS_TRES[word.key]
            changes = {name: changed_tres(getattr(qos, name), word)}
        elif word.key == "maxwall":
            changes = {"max_wall_s": parse_wall(word)}
        elif word.key == "priority":
            changes = {"priority": parse_limit(word) or 0}
        elif word.key == "flags":
            changes = {"flags": changed_flags(qos.flags, word)}
        elif word.key == "preempt":
            changes = {"preempt": changed_list(qos.preempt, word)}
        elif word.key == "preemptmode":
            changes = {"preempt_mode": parse_preempt_mode(word)}
        elif word.key == "preemptexempttime":
            changes = {"preempt_exempt_s": parse_wall(word)}
        elif word.key == "gracetime":
            changes = {"grace_s": parse_grace(word)}
        elif word.key == "description":
            changes = {"description": word.value}
        elif word.key in ("name", "cluster"):
            continue
        else:
            raise plain_error(f"Unknown option: {word.text}")
        qos = replace(qos, **changes)
    return qos


def _without_qos(item: Any, gone: tuple[str, ...]) -> Any:
    default = "" if item.default_qos in gone else item.default_qos
    return replace(item, qos=tuple(name for name in item.qos if name not in gone), default_qos=default)
