"""The account tree in the state: its records, what runs and waits by whom, and what was used.

Usage is exact at every moment without a clock: it is known as of the last start or end of a job of the user,
and from there it follows from what runs since (`settle`). While no account was ever added nothing is counted:
nobody asks, and it would be a tenth of what a job costs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.cluster.budgets import Budgets
from minislurm.domain import tres
from minislurm.domain.account_check import problems
from minislurm.domain.accounts import (
    NORMAL,
    ROOT,
    AccountChanges,
    AccountTree,
    AssociationLimits,
)
from minislurm.domain.configuration import AccountsSection, Partition
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import NodeName
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.node import Node
from minislurm.domain.partition_access import allows_groups
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import FINAL_STATES, NodeState, Reason
from minislurm.domain.tres import parse_weights
from minislurm.scheduling.accounts import AccountsSnapshot
from minislurm.scheduling.fair_share import History, UserKey
from minislurm.scheduling.limits import Charged, Hit, Ledger, Limits, RuleBook, access_hit, priority_range

_HISTORY_LASTS_S = 5.0
_LN_2 = math.log(2.0)
#: Less than this is nothing (TRES-seconds).
_NOTHING = 1e-6


class UsageRecord(Struct):
    """What the user's jobs in the account have used, as of `time`, decayed until then."""

    account: str
    user: str
    time: float = 0.0
    tres_seconds: dict[str, float] = field(default_factory=dict)


def jobs_in(job: Job) -> int:
    """Submitted jobs that the record stands for: each task of an array is one."""
    return 0 if job.state.is_final else len(job.pending_tasks) or 1


class AccountsState(Struct):
    tree: AccountTree = field(default_factory=AccountTree)
    #: Counts the changes, so that two operators do not overwrite each other's.
    version: int = 0
    usage: dict[UserKey, UsageRecord] = field(default_factory=dict)
    settings: AccountsSection = AccountsSection()
    budgets: Budgets = field(default_factory=Budgets)

    # Derived.
    #: By partition, of those that have one.
    partition_qos: dict[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=lambda: _limits(AccountTree()))
    submitted: Counter[Charged] = field(default_factory=Counter)
    #: Usage records that differ from the stored snapshot, and whether the tree does.
    touched_usage: set[UserKey] = field(default_factory=set)
    touched_tree: bool = False
    #: Nodes are as they were when `limits.capacity` was worked out.
    capacity_is_known: bool = False
    #: What passes were last shown of the usage, and when it was worked out.
    _history: tuple[float, History | None] = (0.0, None)

    @property
    def are_enforced(self) -> bool:
        """May only users of an account submit?"""
        return not self.tree.is_empty and self.settings.enforce != "off"

    @property
    def limits_are_enforced(self) -> bool:
        return not self.tree.is_empty and self.settings.enforce == "limits"

    # What runs and waits

    def charged_of(self, job: Job) -> Charged:
        spec = job.spec
        return Charged(spec.account, spec.user_name, spec.qos, self.partition_qos.get(job.partition, ""))

    def started(self, job: Job, now: float) -> None:
        self._charge(job, now, 1)
        self.budgets.started(self.tree, job, now)

    def ended(self, job: Job, now: float) -> None:
        self._charge(job, now, -1)
        self.budgets.ended(self.tree, job, now)

    def _charge(self, job: Job, now: float, sign: int) -> None:
        if self.tree.is_empty:
            return
        who = self.charged_of(job)
        self.settle(who, now)
        self.limits.charge(who, tres.as_dict(job.allocated_tres), sign)

    def count(self, job: Job, sign: int) -> None:
        """Takes a record's jobs into the number of submitted ones, or out of it."""
        if not self.tree.is_empty and job.state not in FINAL_STATES:
            who = self.charged_of(job)
            submitted = self.submitted.get(who, 0) + sign * (len(job.pending_tasks) or 1)
            if submitted:
                self.submitted[who] = submitted
            else:
                self.submitted.pop(who, None)

    def recount(self, active: Sequence[Job]) -> None:
        """What runs, anew from the jobs that hold nodes."""
        self.limits = _limits(self.tree, self.limits.capacity)
        for job in [] if self.tree.is_empty else active:
            self.limits.charge(self.charged_of(job), tres.as_dict(job.allocated_tres))
        self.budgets.recount(self.tree, active)

    def _recount_submitted(self, jobs: Iterable[Job]) -> None:
        self.submitted.clear()
        for job in jobs:
            self.count(job, 1)

    def set_partition_qos(self, partition_qos: dict[str, str], jobs: Iterable[Job]) -> None:
        """From now on these are the QOS of the partitions. `jobs`: all there are."""
        if partition_qos == self.partition_qos:
            return
        self.partition_qos = partition_qos
        every = list(jobs)
        self._recount_submitted(every)
        self.recount([job for job in every if job.state.holds_nodes])

    def measure(self, nodes: Iterable[Node]) -> None:
        """What the cluster has, if that may have changed: the nodes that are up and not drained.

        When it is asked for and not at each change: ten thousand nodes register one by one.
        """
        if self.capacity_is_known:
            return
        self.capacity_is_known = True
        total: dict[str, int] = {}
        for node in nodes:
            if node.state is not NodeState.UP or node.drained:
                continue
            amounts = {tres.CPU: node.cpus, tres.MEMORY: node.memory_mib, tres.NODE: 1}
            tres.add(total, {**amounts, tres.GPU: node.gpu_count})
            for group in node.gpus:
                if group.type:
                    tres.add(total, {tres.gpus_of_type(group.type): group.count})
        self.limits.capacity = total

    # Usage

    def settle(self, who: Charged, now: float) -> None:
        """Brings the user's usage up to `now`, before what runs changes."""
        key = (who.account, who.user)
        record = self.usage.get(key)
        if record is None:
            record = self.usage[key] = UsageRecord(who.account, who.user, now)
        record.tres_seconds = self.usage_at(record, now)
        record.time = max(record.time, now)
        self.touched_usage.add(key)

    def settle_all(self, now: float) -> None:
        for record in self.usage.values():
            self.settle(Charged(record.account, record.user, ""), now)

    def usage_at(self, record: UsageRecord, now: float) -> dict[str, float]:
        """TRES-seconds, those of the past fading by half in each half-life.

        A constant rate r over t seconds leaves the integral of r · 2^(-(t - s)/h) over s from 0 to t:
        r · (1 - 2^(-t/h)) · h / ln 2.
        """
        passed = max(0.0, now - record.time)
        if not passed:
            return record.tres_seconds
        half_life = self.settings.decay_half_life_s
        left, grown = 1.0, passed
        if half_life:
            left = 2.0 ** (-passed / half_life)
            grown = -math.expm1(-passed / half_life * _LN_2) * half_life / _LN_2
        rates = self.limits.ledger.of("user", record.account, record.user).tres
        result = {name: amount * left for name, amount in record.tres_seconds.items()}
        for name, rate in rates.items():
            result[name] = result.get(name, 0.0) + rate * grown
        return {name: amount for name, amount in result.items() if amount > _NOTHING}

    # The tree

    def change(self, changes: AccountChanges, jobs: Iterable[Job], active: Sequence[Job], now: float) -> None:
        """`jobs`: all there are; `active`: those that hold nodes."""
        # What was paid until now was paid by whom the tree of until now says.
        self.budgets.settle_all(self.tree, now)
        was_empty = self.tree.is_empty
        self.tree = self.tree.changed(changes)
        self.version += 1
        self._history = (0.0, None)
        self.touched_tree = True
        for key in [(key.account, key.user) for key in changes.removed_associations]:
            if self.usage.pop(key, None) is not None:
                self.touched_usage.add(key)
        self.recount(active)
        if self.tree.is_empty is not was_empty:
            self._recount_submitted(jobs)
            for job in active:  # from now on it is counted what they use
                self.settle(self.charged_of(job), now)
        self.budgets.settle_all(self.tree, now)  # from now on by the new tree

    def snapshot(self, now: float, nodes: Iterable[Node]) -> AccountsSnapshot | None:
        """As a pass sees it; None while no account was ever added."""
        if self.tree.is_empty:
            return None
        self.measure(nodes)
        return AccountsSnapshot(
            tree=self.tree,
            ledger=self.limits.ledger.copy(),
            history=self._history_at(now),
            capacity=dict(self.limits.capacity),
            half_life_s=self.settings.decay_half_life_s,
            book=self.limits.book,
            enforces_limits=self.limits_are_enforced,
            enforces_access=self.are_enforced,
            credits=self.budgets.credits(self.tree, now),
        )

    def _history_at(self, now: float) -> History:
        """Worked out every few seconds and not in every pass, as by Slurm's PriorityCalcPeriod."""
        time, history = self._history
        if history is None or not time <= now < time + _HISTORY_LASTS_S:
            usage = {key: self.usage_at(record, now) for key, record in self.usage.items()}
            history = History(self.tree, usage, parse_weights(self.settings.billing_weights))
            self._history = (now, history)
        return history


def _limits(tree: AccountTree, capacity: tres.Tres | None = None) -> Limits:
    return Limits(RuleBook(tree), Ledger(tree), capacity or {})


# Submissions


def with_account(accounts: AccountsState, spec: JobSpec) -> JobSpec | Refusal:
    """The specification with the account and the QOS that it is charged to.

    Nothing is made up, and nothing refused, while no account was ever added.
    """
    if accounts.tree.is_empty:
        return spec
    tree, user = accounts.tree, spec.user_name
    account = spec.account.lower() or tree.default_account(user)
    if accounts.are_enforced and tree.association(account, user) is None:
        return Refusal(RefusalCode.INVALID_ACCOUNT)
    qos = spec.qos.lower() or tree.default_qos(account, user)
    if accounts.are_enforced and (qos not in tree.qos or qos not in _allowed(tree, account, user)):
        return Refusal(RefusalCode.INVALID_QOS)
    return replace(spec, account=account, qos=qos)


def _allowed(tree: AccountTree, account: str, user: str) -> tuple[str, ...]:
    return tree.allowed_qos(account, user) if account in tree.accounts else (NORMAL,)


def refuse_access(accounts: AccountsState, spec: JobSpec, partition: Partition) -> Refusal | None:
    """Does the partition take jobs of this account and this QOS, and of the groups of this user?"""
    if not allows_groups(partition, spec.groups):
        return Refusal(RefusalCode.PARTITION_GROUPS)
    if not accounts.are_enforced:
        return None
    hit = access_hit(accounts.tree, partition, spec.account, spec.qos)
    if hit is None:
        return None
    is_account = hit.reason is Reason.ACCOUNT_NOT_ALLOWED
    code = RefusalCode.INVALID_ACCOUNT if is_account else RefusalCode.INVALID_QOS
    return Refusal(code, details=(hit.detail,))


def refuse_priority(accounts: AccountsState, job: Job, partition: Partition) -> Refusal | None:
    """May a user choose the job's priority? Only where a highest one is set, and in the range."""
    rules = accounts.limits.book.of(accounts.charged_of(job)) if accounts.limits_are_enforced else None
    allowed = priority_range(partition, rules)
    if allowed.highest is None:
        return Refusal(RefusalCode.ACCESS, job_id=job.id)
    if job.priority is None or allowed.holds(job.priority):
        return None
    detail = f"the priority must be from {allowed.lowest or 0} to {allowed.highest}"
    return Refusal(RefusalCode.ACCESS, details=(detail,), job_id=job.id)


def longest_s(accounts: AccountsState, spec: JobSpec, partition: Partition) -> float | None:
    """The limit that a job gets that names none, where QOS or association have one; seconds."""
    if not accounts.limits_are_enforced:
        return None
    return accounts.limits.book.of(Charged(spec.account, spec.user_name, spec.qos, partition.qos)).wall_s


def refuse_job(
    accounts: AccountsState,
    job: Job,
    asked: tres.Tres,
    before: Job | None = None,
    beside: Sequence[Job] = (),
) -> Refusal | None:
    """Slurm refuses what comes on top of the number of submitted jobs; and, where the QOS says
    DenyOnLimit, what is over a limit all by itself. Anything else waits. `before`: as the job is now;
    `beside`: jobs of the same submission."""
    if not accounts.limits_are_enforced:
        return None
    reason = _submit_hit(accounts, job, before, beside)
    who = accounts.charged_of(job)
    if reason is None and any(qos.denies for qos in accounts.tree.qos_in_force(who.qos, who.partition_qos)):
        alone = Limits(accounts.limits.book, Ledger(accounts.tree), {})
        hit = alone.hit(who, asked, job.time_limit_s)
        reason = hit.reason if hit is not None else None
    if reason is None:
        return None
    return Refusal(RefusalCode.ACCOUNTING_POLICY, details=(reason.value,), job_id=job.id)


def _submit_hit(
    accounts: AccountsState, job: Job, before: Job | None, beside: Sequence[Job]
) -> Reason | None:
    tree, who, more = accounts.tree, accounts.charged_of(job), jobs_in(job)
    known = accounts.charged_of(before) if before is not None else None

    def over(most: int | None, counts: Callable[[Charged], bool]) -> bool:
        """Sums up only where there is a limit, and where the job was not counted already."""
        if most is None or (known is not None and counts(known)):
            return False
        others = sum(n for k, n in accounts.submitted.items() if counts(k))
        others += sum(jobs_in(other) for other in beside if counts(accounts.charged_of(other)))
        return more + others > most

    per_user = False
    for qos in tree.qos_in_force(who.qos, who.partition_qos):
        name, most = qos.name, qos.max_submit_jobs_per_user
        per_user = per_user or most is not None
        if over(most, lambda k, name=name: k.user == who.user and name in k[2:]):  # type: ignore[misc]
            return Reason.QOS_MAX_SUBMIT_JOBS_PER_USER
        if over(qos.group_submit_jobs, lambda k, name=name: name in k[2:]):  # type: ignore[misc]
            return Reason.QOS_GRP_SUBMIT_JOBS
    if not per_user:
        most = tree.user_limit(who.account, who.user, _max_submit)
        if over(most, lambda k: (k.account, k.user) == (who.account, who.user)):
            return Reason.ASSOC_MAX_SUBMIT_JOBS
    association = tree.association(who.account, who.user)
    if association is not None and over(
        association.limits.group_submit_jobs, lambda k: (k.account, k.user) == (who.account, who.user)
    ):
        return Reason.ASSOC_GRP_SUBMIT_JOBS
    for name in tree.path(who.account):
        most = tree.accounts[name].limits.group_submit_jobs
        if over(most, lambda k, name=name: name in tree.path(k.account)):  # type: ignore[misc]
            return Reason.ASSOC_GRP_SUBMIT_JOBS
    return None


def _max_submit(limits: AssociationLimits) -> int | None:
    return limits.max_submit_jobs


# Placements


def placement_hit(
    accounts: AccountsState, job: Job, allocation: Iterable[NodeAllocation], nodes: dict[NodeName, Node]
) -> Hit | None:
    """A plan's placement is asked again when it comes: others may have started meanwhile."""
    if not accounts.limits_are_enforced:
        return None
    accounts.measure(nodes.values())
    asked = tres.as_dict(tres.tres_of_allocation(allocation, nodes))
    return accounts.limits.hit(accounts.charged_of(job), asked, job.time_limit_s)


def change_hit(
    accounts: AccountsState, job: Job, allocation: Iterable[NodeAllocation], nodes: dict[NodeName, Node]
) -> Hit | None:
    """The same of a run that would hold this instead of what it holds."""
    if not accounts.limits_are_enforced:
        return None
    accounts.measure(nodes.values())
    limits = Limits(accounts.limits.book, accounts.limits.ledger.copy(), accounts.limits.capacity)
    who = accounts.charged_of(job)
    limits.charge(who, tres.as_dict(job.allocated_tres), -1)
    return limits.hit(who, tres.as_dict(tres.tres_of_allocation(allocation, nodes)), job.time_limit_s)


def components_hit(
    accounts: AccountsState,
    placed: Iterable[tuple[Job, Iterable[NodeAllocation]]],
    nodes: dict[NodeName, Node],
) -> Hit | None:
    """The same of jobs that start together: each comes on top of those before it."""
    if not accounts.limits_are_enforced:
        return None
    accounts.measure(nodes.values())
    limits = Limits(accounts.limits.book, accounts.limits.ledger.copy(), accounts.limits.capacity)
    for job, allocation in placed:
        asked = tres.as_dict(tres.tres_of_allocation(allocation, nodes))
        who = accounts.charged_of(job)
        hit = limits.hit(who, asked, job.time_limit_s)
        if hit is not None:
            return hit
        limits.charge(who, asked)
    return None


def may_pay(accounts: AccountsState, job: Job, price: float, now: float) -> bool:
    """Still no more than it bids now, out of a budget that is not yet spent."""
    if not price:
        return True
    payer = accounts.tree.payer(job.spec.account)
    return price <= job.bid and accounts.budgets.credits(accounts.tree, now).get(payer, 0.0) > 0


# Changes


def refuse_changes(accounts: AccountsState, changes: AccountChanges, jobs: Iterable[Job]) -> Refusal | None:
    """Why the tree may not become so. `jobs`: all there are."""
    if ROOT in (*changes.removed_accounts, *changes.removed_users):
        return Refusal(RefusalCode.INVALID_ACCOUNTS, details=("root: cannot be removed",))
    if NORMAL in changes.removed_qos:
        return Refusal(RefusalCode.INVALID_ACCOUNTS, details=(f"QOS {NORMAL}: cannot be removed",))
    found = tuple(problems(accounts.tree.changed(changes)))
    if found:
        return Refusal(RefusalCode.INVALID_ACCOUNTS, details=found)
    needed = sorted(name for name, qos in accounts.partition_qos.items() if qos in changes.removed_qos)
    if needed:
        lines = tuple(f"QOS {accounts.partition_qos[name]}: partition {name} has it" for name in needed)
        return Refusal(RefusalCode.INVALID_ACCOUNTS, details=lines)
    return _refuse_active(changes, jobs)


def _refuse_active(changes: AccountChanges, jobs: Iterable[Job]) -> Refusal | None:
    """Slurm: what jobs are charged to stays until they have ended."""
    accounts, users = set(changes.removed_accounts), set(changes.removed_users)
    pairs = {(key.account, key.user) for key in changes.removed_associations}
    qos = set(changes.removed_qos)
    if not (accounts or users or pairs or qos):
        return None
    lines = tuple(
        f"JobID = {job.id} A = {who.account} U = {who.user_name} Q = {who.qos}"
        for job in jobs
        if not job.state.is_final
        and (
            (who := job.spec).account in accounts
            or who.user_name in users
            or (who.account, who.user_name) in pairs
            or who.qos in qos
        )
    )
    return Refusal(RefusalCode.JOBS_ACTIVE, details=lines) if lines else None
