"""Accounts, users, associations and QOS: who may use how much (design.md, section 8; Slurm's words).

Every account has a parent; "root" is above all and always there. An association is a user in an account; only
through one may the user submit (Slurm: AccountingStorageEnforce). A QOS is a class of service that jobs name.
The QOS "normal" and the user "root" in the account "root" are always there.

Limits on `Grp…` hold at every account on the way up. Of the limits on one job or one user, that of the QOS
counts; where it has none, that of the association; else that of the nearest account above.

A guarantee that is not used may be borrowed: by others as far as `lend_limit` lets its owner lend, and by an
account beyond its own guarantee as far as its `borrow_limit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.domain import tres
from minislurm.domain.tres import Tres

ROOT = "root"
NORMAL = "normal"
#: What this version knows of Slurm's flags of a QOS.
QOS_FLAGS = ("DenyOnLimit", "OverPartQOS")
#: What becomes of a QOS' jobs that give way; "": what their partition says.
QOS_PREEMPT_MODES = ("", "requeue", "cancel")
K = TypeVar("K")
T = TypeVar("T")


class AssociationLimits(Struct, frozen=True):
    """None, or a TRES that is absent: no limit."""

    #: Of all running jobs together: GrpTRES, GrpJobs; GrpSubmit: waiting ones too.
    group_tres: dict[str, int] = field(default_factory=dict)
    group_jobs: int | None = None
    group_submit_jobs: int | None = None
    #: Of each user: MaxJobs, MaxSubmit.
    max_jobs: int | None = None
    max_submit_jobs: int | None = None
    #: Of each job: MaxTRES, MaxWall.
    max_tres_per_job: dict[str, int] = field(default_factory=dict)
    max_wall_s: float | None = None
    #: In which range priorities are kept, and users may choose one (MinPriority, MaxPriority: ours).
    min_priority: int | None = None
    max_priority: int | None = None


class Account(Struct, frozen=True):
    name: str
    #: "" for root alone.
    parent: str = ROOT
    description: str = ""
    organization: str = ""
    #: Its part of what the parent has, against its siblings' (Slurm: Fairshare).
    weight: int = 1
    #: For the association factor of the priority.
    priority: int = 0
    limits: AssociationLimits = AssociationLimits()
    #: Always to be had, by reclaiming if need be. A TRES that is absent: what those below have together.
    guarantee: dict[str, int] = field(default_factory=dict)
    #: So much beyond its guarantee at most; absent: as much as there is.
    borrow_limit: dict[str, int] = field(default_factory=dict)
    #: So much of its guarantee is lent while it is not used; absent: all of it.
    lend_limit: dict[str, int] = field(default_factory=dict)
    #: The QOS that jobs may name; empty: as the parent.
    qos: tuple[str, ...] = ()
    default_qos: str = ""
    #: Credits that its jobs, and those of accounts below without a budget, may bid in each period;
    #: None: its parent's.
    budget: float | None = None
    #: None: the budget is given once.
    budget_period_s: float | None = None


class Association(Struct, frozen=True):
    account: str
    user: str
    weight: int = 1
    priority: int = 0
    limits: AssociationLimits = AssociationLimits()
    qos: tuple[str, ...] = ()
    default_qos: str = ""


class AccountUser(Struct, frozen=True):
    name: str
    default_account: str = ""


class Qos(Struct, frozen=True):
    name: str
    description: str = ""
    priority: int = 0
    #: DenyOnLimit: what is over a limit by itself is refused at submission instead of waiting.
    #: OverPartQOS: its limits come before those of the partition's QOS.
    flags: tuple[str, ...] = ()
    group_tres: dict[str, int] = field(default_factory=dict)
    group_jobs: int | None = None
    group_submit_jobs: int | None = None
    max_tres_per_user: dict[str, int] = field(default_factory=dict)
    max_jobs_per_user: int | None = None
    max_submit_jobs_per_user: int | None = None
    max_tres_per_job: dict[str, int] = field(default_factory=dict)
    max_wall_s: float | None = None
    min_priority: int | None = None
    max_priority: int | None = None
    #: The QOS whose jobs its own may preempt (Preempt).
    preempt: tuple[str, ...] = ()
    #: What becomes of its jobs when they give way, one of `QOS_PREEMPT_MODES`.
    preempt_mode: str = ""
    #: As victims; None: as the partition has it (PreemptExemptTime, GraceTime).
    preempt_exempt_s: float | None = None
    grace_s: float | None = None

    @property
    def denies(self) -> bool:
        return "DenyOnLimit" in self.flags

    def beyond(self, other: Qos) -> Qos:
        """What it limits where the other one says nothing."""
        changes: dict[str, object] = {}
        for name in self.__struct_fields__:
            mine, taken = getattr(self, name), getattr(other, name)
            if isinstance(mine, dict):
                changes[name] = {key: most for key, most in mine.items() if key not in taken}
            elif taken is not None and name.startswith(("group_", "max_", "min_")):
                changes[name] = None
        return replace(self, **changes)


class AssociationKey(Struct, frozen=True):
    account: str
    user: str


class AccountChanges(Struct, frozen=True):
    """Records as they are to be, and those that are to go. All of it or nothing."""

    accounts: tuple[Account, ...] = ()
    users: tuple[AccountUser, ...] = ()
    associations: tuple[Association, ...] = ()
    qos: tuple[Qos, ...] = ()
    removed_accounts: tuple[str, ...] = ()
    removed_users: tuple[str, ...] = ()
    removed_associations: tuple[AssociationKey, ...] = ()
    removed_qos: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self == AccountChanges()


class AccountTree:
    """The records and what follows from them. Never changed: `changed` makes another one."""

    def __init__(
        self,
        accounts: Iterable[Account] = (),
        users: Iterable[AccountUser] = (),
        associations: Iterable[Association] = (),
        qos: Iterable[Qos] = (),
    ) -> None:
        self.accounts = {item.name: item for item in accounts}
        self.users = {item.name: item for item in users}
        self.associations = {AssociationKey(item.account, item.user): item for item in associations}
        self.qos = {item.name: item for item in qos}
        #: No account was ever added: then nothing here decides anything.
        self.is_empty = not self.accounts
        self.accounts.setdefault(ROOT, Account(ROOT, parent="", description="default root account"))
        # Slurm's root user is in the root account from the start.
        self.users.setdefault(ROOT, AccountUser(ROOT, ROOT))
        self.associations.setdefault(AssociationKey(ROOT, ROOT), Association(ROOT, ROOT))
        self.qos.setdefault(NORMAL, Qos(NORMAL, description="Normal QOS default"))
        self.children: dict[str, list[str]] = {name: [] for name in self.accounts}
        for name in sorted(self.accounts):
            if self.accounts[name].parent in self.children:
                self.children[self.accounts[name].parent].append(name)
        #: The users in each account.
        self.members: dict[str, list[Association]] = {}
        for key in sorted(self.associations, key=lambda key: (key.account, key.user)):
            self.members.setdefault(key.account, []).append(self.associations[key])
        self._paths: dict[str, tuple[str, ...]] = {}
        self._guarantees: dict[str, dict[str, int]] = {}
        self.lends_less = any(account.lend_limit for account in self.accounts.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccountTree) and self._records() == other._records()

    __hash__ = None  # type: ignore[assignment]

    def _records(self) -> tuple[object, ...]:
        return (self.is_empty, self.accounts, self.users, self.associations, self.qos)

    def records(self) -> AccountChanges:
        """All of them, for the snapshot; `AccountTree().changed(records())` is this tree again."""
        accounts = () if self.is_empty else tuple(self.accounts.values())
        return AccountChanges(
            accounts,
            tuple(self.users.values()),
            tuple(self.associations.values()),
            tuple(self.qos.values()),
        )

    # Reading

    def path(self, account: str) -> tuple[str, ...]:
        """From the account up to root; ("root",) for one that is not there."""
        found = self._paths.get(account)
        if found is None:
            names: list[str] = []
            name = account
            while name in self.accounts and name not in names:
                names.append(name)
                name = self.accounts[name].parent
            if not names or names[-1] != ROOT:
                names.append(ROOT)
            found = self._paths[account] = tuple(names)
        return found

    def shown_path(self, account: str) -> str:
        return "/".join(reversed(self.path(account)))

    def guarantee(self, account: str) -> Tres:
        """Its own, and for each TRES that it does not name what the accounts below have together."""
        found = self._guarantees.get(account)
        if found is None:
            found = {}
            for child in self.children[account]:
                tres.add(found, self.guarantee(child))
            found |= self.accounts[account].guarantee
            self._guarantees[account] = found
        return found

    def payer(self, account: str) -> str:
        """The nearest account, from here upwards, that has a budget; "" for none."""
        for name in self.path(account):
            if self.accounts[name].budget is not None:
                return name
        return ""

    def qos_in_force(self, qos: str, partition_qos: str = "") -> tuple[Qos, ...]:
        """The QOS whose limits hold for a job, with only those that do: of each limit, that of the
        partition's QOS comes first, unless the job's own has the flag OverPartQOS."""
        own, over = self.qos.get(qos), self.qos.get(partition_qos)
        if own is None or over is None or own is over:
            return tuple(item for item in (over or own,) if item is not None)
        first, second = (own, over) if "OverPartQOS" in own.flags else (over, own)
        return first, second.beyond(first)

    def association(self, account: str, user: str) -> Association | None:
        return self.associations.get(AssociationKey(account, user))

    def accounts_of(self, user: str) -> list[str]:
        return sorted(key.account for key in self.associations if key.user == user)

    def default_account(self, user: str) -> str:
        """Whom a job of the user is charged to that names no account; "" for nobody."""
        record = self.users.get(user)
        return record.default_account if record is not None else ""

    def allowed_qos(self, account: str, user: str) -> tuple[str, ...]:
        """The list nearest to the user; "normal" where there is none at all."""
        return self._nearest(account, user, lambda item: item.qos or None) or (NORMAL,)

    def default_qos(self, account: str, user: str) -> str:
        allowed = self.allowed_qos(account, user)
        default = self._nearest(account, user, lambda item: item.default_qos or None)
        if default is None:
            return NORMAL if NORMAL in allowed else allowed[0]
        return default

    def user_limit(self, account: str, user: str, of: Callable[[AssociationLimits], T | None]) -> T | None:
        """A limit that accounts pass on to their users: the nearest one that is set."""
        return self._nearest(account, user, lambda item: of(item.limits))

    def max_tres_per_job(self, account: str, user: str) -> dict[str, int]:
        result: dict[str, int] = {}
        for item in self._lineage(account, user):
            for name, amount in item.limits.max_tres_per_job.items():
                result.setdefault(name, amount)
        return result

    def _nearest(self, account: str, user: str, of: Callable[[Account | Association], T | None]) -> T | None:
        for item in self._lineage(account, user):
            found = of(item)
            if found is not None:
                return found
        return None

    def _lineage(self, account: str, user: str) -> Iterator[Account | Association]:
        association = self.association(account, user)
        if association is not None:
            yield association
        for name in self.path(account):
            yield self.accounts[name]

    # Changing

    def changed(self, changes: AccountChanges) -> AccountTree:
        accounts = {k: v for k, v in self.accounts.items() if k not in changes.removed_accounts}
        users = {k: v for k, v in self.users.items() if k not in changes.removed_users}
        associations = {k: v for k, v in self.associations.items() if k not in changes.removed_associations}
        qos = {k: v for k, v in self.qos.items() if k not in changes.removed_qos}
        accounts |= {item.name: item for item in changes.accounts}
        users |= {item.name: item for item in changes.users}
        associations |= {AssociationKey(item.account, item.user): item for item in changes.associations}
        qos |= {item.name: item for item in changes.qos}
        if self.is_empty and not changes.accounts:
            accounts.pop(ROOT)  # not yet a record
        return AccountTree(accounts.values(), users.values(), associations.values(), qos.values())

    def changes_to(self, other: AccountTree) -> AccountChanges:
        """What has to happen for this tree to become the other one."""
        return AccountChanges(
            accounts=_new(self.accounts, other.accounts),
            users=_new(self.users, other.users),
            associations=_new(self.associations, other.associations),
            qos=_new(self.qos, other.qos),
            removed_accounts=_gone(self.accounts, other.accounts),
            removed_users=_gone(self.users, other.users),
            removed_associations=_gone(self.associations, other.associations),
            removed_qos=_gone(self.qos, other.qos),
        )

    def with_default_accounts(self) -> AccountTree:
        """A user's first account is the default one, until another is named."""
        users = dict(self.users)
        for key in sorted(self.associations, key=lambda key: (key.user, key.account)):
            record = users.setdefault(key.user, AccountUser(key.user))
            if not record.default_account:
                users[key.user] = replace(record, default_account=key.account)
        return AccountTree(
            self.accounts.values(), users.values(), self.associations.values(), self.qos.values()
        )


def _new(before: Mapping[K, T], after: Mapping[K, T]) -> tuple[T, ...]:
    return tuple(item for key, item in after.items() if before.get(key) != item)


def _gone(before: Mapping[T, object], after: Mapping[T, object]) -> tuple[T, ...]:
    return tuple(key for key in before if key not in after)
