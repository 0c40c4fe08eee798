"""Who may start more: the limits of accounts, users in them and QOS, and what may be borrowed.

Pure. `Ledger` knows what runs by whom; `Limits` asks it whether one more job may start. A pass works on a
copy, so that jobs of one pass count against the same headroom; the cluster asks its own before a plan's
placement becomes a fact.

Borrowing. An account may go beyond its guarantee up to its borrow limit, as far as what the others keep back
stays free: of its guarantee each account keeps what its lend limit does not lend, less what it uses itself.
On the way up from the job's account this is summed up (`kept`); at an account whose own guarantee covers it,
it is settled, and nothing above has to be asked but the limits themselves: whoever is then short reclaims it
from those who borrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from minislurm.domain import tres
from minislurm.domain.accounts import ROOT, AccountTree, AssociationLimits, Qos
from minislurm.domain.configuration import Partition
from minislurm.domain.partition_access import refused_account, refused_qos
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.states import Reason
from minislurm.domain.times import format_duration
from minislurm.domain.tres import CPU, GPU, MEMORY, NODE, Tres
from minislurm.scheduling.model import RequestClass, Wait
from minislurm.scheduling.needs import bounds_of

if TYPE_CHECKING:
    from minislurm.scheduling.nodes import Share


class Charged(NamedTuple):
    """Whom a job is charged to."""

    account: str
    user: str
    qos: str
    #: The QOS of the partition, whose limits come before those of the job's own; "": none.
    partition_qos: str = ""


class Holder(NamedTuple):
    """Somebody who holds resources: an account, a user in it, a QOS, a user in a QOS ("": all of them)."""

    kind: str
    name: str
    user: str = ""


class Use(Struct, frozen=True):
    """What runs. Replaced, never changed, so that a copy of the ledger costs next to nothing."""

    jobs: int = 0
    tres: dict[str, int] = field(default_factory=dict)


_NOTHING = Use()


class Ledger:
    """What runs, by account (those below included), user in an account, QOS, user in a QOS."""

    __slots__ = ("_known", "_tree", "uses")

    def __init__(self, tree: AccountTree, uses: dict[Holder, Use] | None = None) -> None:
        self._tree = tree
        self.uses = {} if uses is None else uses
        #: Who was charged before; all that holds of them follows from the tree.
        self._known: dict[Charged, tuple[Holder, ...]] = {}

    def copy(self) -> Ledger:
        copied = Ledger(self._tree, dict(self.uses))
        copied._known = self._known
        return copied

    def of(self, kind: str, name: str, user: str = "") -> Use:
        return self.uses.get(Holder(kind, name, user), _NOTHING)

    def charge(self, who: Charged, amounts: Tres, sign: int = 1) -> None:
        """`sign` -1: it has ended."""
        for holder in self._holders(who):
            before = self.uses.get(holder, _NOTHING)
            total = dict(before.tres)
            tres.add(total, amounts, sign)
            jobs = before.jobs + sign
            if jobs or total:
                self.uses[holder] = Use(jobs, total)
            else:
                self.uses.pop(holder, None)

    def _holders(self, who: Charged) -> tuple[Holder, ...]:
        known = self._known.get(who)
        if known is None:
            accounts = (Holder("account", name) for name in self._tree.path(who.account))
            holders = [*accounts, Holder("user", who.account, who.user)]
            for name in dict.fromkeys((who.qos, who.partition_qos or who.qos)):
                holders += [Holder("qos", name), Holder("qos user", name, who.user)]
            known = self._known[who] = tuple(holders)
        return known


class Hit(NamedTuple):
    """A limit that is in the way."""

    reason: Reason
    detail: str


def access_hit(tree: AccountTree, partition: Partition, account: str, qos: str) -> Hit | None:
    """Why the partition does not take jobs of this account and QOS at all."""
    if partition.allow_accounts or partition.deny_accounts:
        why = refused_account(partition, account)
        if why:
            return Hit(Reason.ACCOUNT_NOT_ALLOWED, why)
    if partition.allow_qos or partition.deny_qos:
        why = refused_qos(partition, qos)
        if why:
            return Hit(Reason.QOS_NOT_ALLOWED, why)
    if partition.qos and partition.qos not in tree.qos:
        # Taken for one without limits, it would let everything through.
        return Hit(
            Reason.INVALID_QOS, f"partition {partition.name} has a QOS that is not there: {partition.qos}"
        )
    return None


_KINDS = {CPU: 0, MEMORY: 1, NODE: 2, GPU: 3}
_ASSOC_GROUP = (
    Reason.ASSOC_GRP_CPU, Reason.ASSOC_GRP_MEMORY, Reason.ASSOC_GRP_NODE, Reason.ASSOC_GRP_GRES,
)  # fmt: skip
_ASSOC_JOB = (
    Reason.ASSOC_MAX_CPU_PER_JOB, Reason.ASSOC_MAX_MEMORY_PER_JOB, Reason.ASSOC_MAX_NODE_PER_JOB,
    Reason.ASSOC_MAX_GRES_PER_JOB,
)  # fmt: skip
_QOS_GROUP = (Reason.QOS_GRP_CPU, Reason.QOS_GRP_MEMORY, Reason.QOS_GRP_NODE, Reason.QOS_GRP_GRES)
_QOS_JOB = (
    Reason.QOS_MAX_CPU_PER_JOB, Reason.QOS_MAX_MEMORY_PER_JOB, Reason.QOS_MAX_NODE_PER_JOB,
    Reason.QOS_MAX_GRES_PER_JOB,
)  # fmt: skip
_QOS_USER = (
    Reason.QOS_MAX_CPU_PER_USER, Reason.QOS_MAX_MEMORY_PER_USER, Reason.QOS_MAX_NODE_PER_USER,
    Reason.QOS_MAX_GRES_PER_USER,
)  # fmt: skip
_Words = tuple[Reason, Reason, Reason, Reason]


class Rules(Struct, frozen=True):
    """All that limits the jobs of one `Charged`, looked up once."""

    #: That of the partition and that of the job, each with the limits that hold.
    qos: tuple[Qos, ...]
    #: Of a job: TRES by the QOS (with its name), and those it says nothing of by the association.
    job_by_qos: tuple[tuple[str, dict[str, int]], ...]
    job_by_association: dict[str, int]
    wall_s: float | None
    #: Whose limit that is; "": the association's.
    wall_qos: str
    #: Of the user in the account, where the QOS does not say.
    max_jobs: int | None
    #: The user in the account and the accounts up to root, as far as they have a group limit.
    groups: tuple[tuple[AssociationLimits, Holder, str], ...]
    #: Something on the way up is guaranteed or may be borrowed.
    borrows: bool
    #: The range of priorities, by the QOS, else by the association; None: open.
    min_priority: int | None = None
    max_priority: int | None = None


class RuleBook:
    """The rules of a tree. Made once for each tree and shared by all passes."""

    def __init__(self, tree: AccountTree) -> None:
        self.tree = tree
        self._rules: dict[Charged, Rules] = {}

    def of(self, who: Charged) -> Rules:
        rules = self._rules.get(who)
        if rules is None:
            rules = self._rules[who] = self._make(who)
        return rules

    def _make(self, who: Charged) -> Rules:
        tree, account, user = self.tree, who.account, who.user
        qos = tree.qos_in_force(who.qos, who.partition_qos)
        by_qos = {name for item in qos for name in item.max_tres_per_job}
        by_association = tree.max_tres_per_job(account, user)
        path = tree.path(account)
        groups = [(tree.accounts[name].limits, Holder("account", name), f"account {name}") for name in path]
        association = tree.association(account, user)
        if association is not None:
            groups.insert(
                0, (association.limits, Holder("user", account, user), f"{user} in account {account}")
            )
        wall_s, wall_qos = tree.user_limit(account, user, lambda limits: limits.max_wall_s), ""
        max_jobs = tree.user_limit(account, user, lambda limits: limits.max_jobs)
        lowest = tree.user_limit(account, user, lambda limits: limits.min_priority)
        highest = tree.user_limit(account, user, lambda limits: limits.max_priority)
        for item in qos:
            lowest = lowest if item.min_priority is None else item.min_priority
            highest = highest if item.max_priority is None else item.max_priority
            if item.max_wall_s is not None:
                wall_s, wall_qos = item.max_wall_s, item.name
            if item.max_jobs_per_user is not None:
                max_jobs = None
        return Rules(
            qos=qos,
            job_by_qos=tuple((item.name, item.max_tres_per_job) for item in qos if item.max_tres_per_job),
            job_by_association={k: v for k, v in by_association.items() if k not in by_qos},
            wall_s=wall_s,
            wall_qos=wall_qos,
            max_jobs=max_jobs,
            groups=tuple(item for item in groups if item[0].group_tres or item[0].group_jobs is not None),
            borrows=tree.lends_less or any(tree.accounts[name].borrow_limit for name in path),
            min_priority=lowest,
            max_priority=highest,
        )


class PriorityRange(NamedTuple):
    """In which priorities are kept; None: open. Where the two contradict each other, the highest counts."""

    lowest: int | None = None
    highest: int | None = None

    def holds(self, priority: int) -> bool:
        return (self.lowest or 0) <= priority and (self.highest is None or priority <= self.highest)


def priority_range(partition: Partition, rules: Rules | None) -> PriorityRange:
    """Of the jobs that the rules are for: the partition's, made narrower by what they say."""
    lowest, highest = partition.min_priority, partition.max_priority
    if rules is not None:
        if rules.min_priority is not None:
            lowest = max(lowest or 0, rules.min_priority)
        if rules.max_priority is not None:
            highest = rules.max_priority if highest is None else min(highest, rules.max_priority)
    return PriorityRange(lowest, highest)


class Limits:
    """`capacity`: what the whole cluster has, for what may be borrowed. Keeps `ledger` up to date."""

    def __init__(self, book: RuleBook, ledger: Ledger, capacity: Tres) -> None:
        self.book = book
        self.tree = book.tree
        self.ledger = ledger
        self.capacity = capacity
        #: What each account keeps back for itself and those below; made when first asked for.
        self._kept: dict[str, dict[str, int]] = {}

    # For a pass

    def blocked(
        self, jobs: RequestClass, shares: Sequence[Share] | None = None, rows: Mapping[str, int] | None = None
    ) -> Wait | None:
        """Why one more job of the class may not start, wherever; with `shares`, there. `rows`: the GPU types
        of the shares (`Inventory.rows`)."""
        asked = (
            least_tres(jobs.request, jobs.partition) if shares is None else tres_of_shares(shares, rows or {})
        )
        hit = self.hit(charged_of(jobs), asked, jobs.time_limit_s)
        return None if hit is None else Wait(hit.reason, detail=hit.detail)

    def started(self, jobs: RequestClass, shares: Sequence[Share], rows: Mapping[str, int]) -> None:
        self.charge(charged_of(jobs), tres_of_shares(shares, rows))

    def charge(self, who: Charged, amounts: Tres, sign: int = 1) -> None:
        self.ledger.charge(who, amounts, sign)
        if self._kept:
            for name in self.tree.path(who.account):
                self._kept.pop(name, None)

    # The question itself

    def hit(self, who: Charged, asked: Tres, time_limit_s: float) -> Hit | None:
        """The first limit that one more job with `asked` would break."""
        rules = self.book.of(who)
        hit = _job_hit(rules, who, asked, time_limit_s)
        for qos in rules.qos:
            hit = hit or self._qos_hit(qos, who, asked)
        return hit or self._account_hit(rules, who, asked)

    def _qos_hit(self, qos: Qos, who: Charged, asked: Tres) -> Hit | None:
        mine = self.ledger.of("qos user", qos.name, who.user)
        if qos.max_jobs_per_user is not None and mine.jobs >= qos.max_jobs_per_user:
            detail = f"QOS {qos.name}: {_run(mine.jobs, who.user)}, at most {qos.max_jobs_per_user}"
            return Hit(Reason.QOS_MAX_JOBS_PER_USER, detail)
        all_ = self.ledger.of("qos", qos.name)
        if qos.group_jobs is not None and all_.jobs >= qos.group_jobs:
            detail = f"QOS {qos.name}: {_run(all_.jobs)}, at most {qos.group_jobs}"
            return Hit(Reason.QOS_GRP_JOBS, detail)
        name = _first_over(asked, qos.max_tres_per_user, mine.tres)
        if name is not None:
            most, used = qos.max_tres_per_user[name], mine.tres.get(name, 0)
            return _hit(_QOS_USER, name, f"QOS {qos.name}", most, used, asked, f"of {who.user}")
        name = _first_over(asked, qos.group_tres, all_.tres)
        if name is not None:
            most, used = qos.group_tres[name], all_.tres.get(name, 0)
            return _hit(_QOS_GROUP, name, f"QOS {qos.name}", most, used, asked)
        return None

    def _account_hit(self, rules: Rules, who: Charged, asked: Tres) -> Hit | None:
        uses = self.ledger.uses
        if rules.max_jobs is not None:
            running = self.ledger.of("user", who.account, who.user).jobs
            if running >= rules.max_jobs:
                detail = f"account {who.account}: {_run(running, who.user)}, at most {rules.max_jobs}"
                return Hit(Reason.ASSOC_MAX_JOBS, detail)
        for limits, holder, label in rules.groups:
            use = uses.get(holder, _NOTHING)
            if limits.group_jobs is not None and use.jobs >= limits.group_jobs:
                return Hit(Reason.ASSOC_GRP_JOBS, f"{label}: {_run(use.jobs)}, at most {limits.group_jobs}")
            name = _first_over(asked, limits.group_tres, use.tres)
            if name is not None:
                used = use.tres.get(name, 0)
                return _hit(_ASSOC_GROUP, name, label, limits.group_tres[name], used, asked)
        if rules.borrows:
            for name, amount in asked.items():
                hit = self._borrowing_hit(who.account, name, amount) if amount else None
                if hit is not None:
                    return hit
        return None

    def _borrowing_hit(self, account: str, name: str, amount: int) -> Hit | None:
        """May the account take `amount` more of the TRES `name`, given what others are guaranteed?"""
        kept, below = 0, ""
        covered = False
        for above in self.tree.path(account):
            used = self.ledger.of("account", above).tres.get(name, 0)
            guarantee = self.tree.guarantee(above).get(name, 0)
            if below and not covered and self.tree.lends_less:
                kept += sum(self._kept_by(c, name) for c in self.tree.children[above] if c != below)
            most, what = self._most(above, name, guarantee)
            if most is not None and used + amount + (0 if covered else kept) > most:
                held = 0 if covered else kept
                detail = f"account {above}: {_text(name, used)} in use, {_text(name, amount)} asked"
                if held:
                    detail += f", {_text(name, held)} kept for others"
                return Hit(_ASSOC_GROUP[_kind(name)], f"{detail}, {what} {_text(name, most)}")
            covered = covered or (guarantee > 0 and used + amount + kept <= guarantee)
            below = above
        return None

    def _most(self, account: str, name: str, guarantee: int) -> tuple[int | None, str]:
        record = self.tree.accounts[account]
        limits: list[tuple[int, str]] = []
        if name in record.limits.group_tres:
            limits.append((record.limits.group_tres[name], "its limit is"))
        if name in record.borrow_limit:
            limits.append((guarantee + record.borrow_limit[name], "with what it may borrow it has"))
        # Not of nodes: one that several jobs share counts for each of them.
        if account == ROOT and self.tree.lends_less and name in self.capacity and name != NODE:
            limits.append((self.capacity[name], "the cluster has"))
        return min(limits) if limits else (None, "")

    def _kept_by(self, account: str, name: str) -> int:
        """What the account, or those below it, do not lend and do not use."""
        cached = self._kept.setdefault(account, {})
        found = cached.get(name)
        if found is None:
            record = self.tree.accounts[account]
            found = sum(self._kept_by(child, name) for child in self.tree.children[account])
            if name in record.lend_limit:
                used = self.ledger.of("account", account).tres.get(name, 0)
                own = self.tree.guarantee(account).get(name, 0) - record.lend_limit[name]
                found = max(found, own - used)
            cached[name] = found
        return found


def _job_hit(rules: Rules, who: Charged, asked: Tres, time_limit_s: float) -> Hit | None:
    """Limits on the job by itself: it waits until they are changed, whatever else runs."""
    for qos, most in rules.job_by_qos:
        name = _first_over(asked, most)
        if name is not None:
            return _hit(_QOS_JOB, name, f"QOS {qos}", most[name], 0, asked)
    name = _first_over(asked, rules.job_by_association)
    if name is not None:
        return _hit(_ASSOC_JOB, name, f"account {who.account}", rules.job_by_association[name], 0, asked)
    if rules.wall_s is None or 0 < time_limit_s <= rules.wall_s:
        return None
    if rules.wall_qos:
        return Hit(Reason.QOS_MAX_WALL, f"QOS {rules.wall_qos}: {_wall(time_limit_s, rules.wall_s)}")
    return Hit(Reason.ASSOC_MAX_WALL, f"account {who.account}: {_wall(time_limit_s, rules.wall_s)}")


def least_tres(request: ResourceRequest, partition: Partition) -> dict[str, int]:
    """What a job takes at least. Whole nodes may come to more; a share of a GPU counts as one."""
    bounds = bounds_of(request, partition)
    nodes, tasks = bounds.nodes_min, bounds.tasks
    cpus = max(tasks * request.cpus_per_task, nodes * request.cpus_per_node_min)
    gpus = max(request.gpus_total, tasks * request.gpus_per_task, nodes * request.gpus_per_node)
    if request.gpu_share_milli:
        gpus = nodes
    memory = max(
        nodes * request.memory_per_node_mib,
        cpus * request.memory_per_cpu_mib,
        gpus * request.memory_per_gpu_mib,
    )
    result = {CPU: cpus, MEMORY: memory, NODE: nodes, GPU: gpus}
    if request.gpu_type and "|" not in request.gpu_type:
        result[tres.gpus_of_type(request.gpu_type)] = gpus
    return {name: amount for name, amount in result.items() if amount}


def tres_of_shares(shares: Sequence[Share], rows: Mapping[str, int]) -> dict[str, int]:
    result: dict[str, int] = {}
    types = {tres.gpus_of_type(gpu_type): row for gpu_type, row in rows.items() if gpu_type}
    for share in shares:
        tres.add(result, {CPU: share.cpus, MEMORY: share.memory_mib, NODE: 1, GPU: sum(share.gpus)})
        if any(share.gpus):
            tres.add(result, {name: share.gpus[row] for name, row in types.items()})
    return result


def charged_of(jobs: RequestClass) -> Charged:
    return Charged(jobs.account, jobs.user_name, jobs.qos, jobs.partition.qos)


def _first_over(asked: Tres, most: Tres, used: Tres | None = None) -> str | None:
    """The first TRES of which `asked` on top of `used` is over its limit. A limit holds only what is asked
    for: a job without GPUs does not wait because too many are in use."""
    for name, limit in most.items():
        amount = asked.get(name, 0)
        if amount and amount + (used.get(name, 0) if used else 0) > limit:
            return name
    return None


def _hit(words: _Words, name: str, label: str, most: int, used: int, asked: Tres, whose: str = "") -> Hit:
    of_whom = f" {whose}" if whose else ""
    in_use = "" if words in (_QOS_JOB, _ASSOC_JOB) else f"{_text(name, used)} in use{of_whom}, "
    detail = f"{label}: {in_use}{_text(name, asked[name])} asked, at most {tres.format_amount(name, most)}"
    return Hit(words[_kind(name)], detail)


def _kind(name: str) -> int:
    return _KINDS.get(name, _KINDS[GPU])


def _run(jobs: int, user: str = "") -> str:
    """How many jobs run, in words."""
    of_whom = f" of {user}" if user else ""
    return f"1 job{of_whom} runs" if jobs == 1 else f"{jobs} jobs{of_whom} run"


def _wall(asked_s: float, most_s: float) -> str:
    asked = f"a time limit of {format_duration(asked_s)}" if asked_s else "no time limit"
    return f"{asked} asked, at most {format_duration(most_s)}"


def _text(name: str, amount: int) -> str:
    return f"{name} {tres.format_amount(name, amount)}"
