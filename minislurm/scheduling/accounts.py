"""What a pass knows of accounts: who may start more (`limits.py`), and who should (`fair_share.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from minislurm.domain.accounts import AccountTree
from minislurm.domain.configuration import Partition, SchedulerSection
from minislurm.domain.tres import Tres
from minislurm.scheduling.fair_share import FairKey, FairOrder, History
from minislurm.scheduling.limits import (
    Charged,
    Hit,
    Ledger,
    Limits,
    PriorityRange,
    RuleBook,
    access_hit,
    charged_of,
    least_tres,
    priority_range,
    tres_of_shares,
)
from minislurm.scheduling.model import RequestClass, Snapshot, Wait
from minislurm.scheduling.reclaim import Laws, Party, party_of
from minislurm.scheduling.rivals import levels_of

if TYPE_CHECKING:
    from minislurm.scheduling.nodes import Share

_ANY_PRIORITY = PriorityRange()


class AccountsSnapshot(Struct, frozen=True):
    """The tree, what runs by whom, what was used, at the time of the snapshot."""

    tree: AccountTree
    ledger: Ledger
    #: What was used, decayed to about now.
    history: History
    #: What the cluster has.
    capacity: Tres
    half_life_s: float = 0.0
    #: The tree's limits, looked up; None: to be made.
    book: RuleBook | None = None
    #: False: nothing keeps a job from starting (`accounts.enforce`).
    enforces_limits: bool = True
    #: Credits left by account, of those that have a budget (`auction.py`).
    credits: Mapping[str, float] = field(default_factory=dict)
    #: Partitions take only the accounts and QOS that they allow.
    enforces_access: bool = True


class AccountsPass:
    """The accounts in one pass. Without a snapshot of them nothing is limited and every factor is 0."""

    def __init__(
        self, snapshot: AccountsSnapshot | None, settings: SchedulerSection, whole: Snapshot | None = None
    ) -> None:
        """`whole`: what the accounts are part of, where somebody may have to give way."""
        self._snapshot = snapshot
        self._settings = settings
        self._limits: Limits | None = None
        self._fair: FairOrder | None = None
        self._highest = (0, 0)
        if snapshot is not None:
            tree = snapshot.tree
            self._highest = (
                max((item.priority for item in tree.qos.values()), default=0),
                max((item.priority for item in tree.associations.values()), default=0),
            )
        if snapshot is not None and snapshot.enforces_limits:
            self._limits = Limits(
                snapshot.book or RuleBook(snapshot.tree), snapshot.ledger.copy(), snapshot.capacity
            )
        #: Who gives way to whom. Its limits are of what runs without what is about to end, and with those
        #: for whom that is kept.
        self.laws: Laws | None = None
        self._keeps = False
        self._least: dict[int, Party] = {}
        #: By QOS that may preempt others.
        self._levels: dict[str, int] = {}
        if whole is not None:
            self._levels = levels_of(whole.qos_preempts)
            if self._limits is not None and _may_give_way(whole):
                self.laws = _laws_of(whole, self._limits)

    def __bool__(self) -> bool:
        """Are there any?"""
        return self._snapshot is not None

    def blocked(
        self, jobs: RequestClass, shares: Sequence[Share] | None = None, rows: Mapping[str, int] | None = None
    ) -> Wait | None:
        """Why one more job of the class may not start (there, with `shares`); it holds nobody up."""
        if shares is None and (closed := self._closed(jobs)) is not None:
            return closed
        if self._limits is None:
            return None
        wait = self._limits.blocked(jobs, shares, rows)
        if wait is None and self._keeps and self.laws is not None:
            # Nor may it take the room under a limit that is kept for who comes before it.
            wait = self.laws.limits.blocked(jobs, shares, rows)
        return wait

    def _closed(self, jobs: RequestClass) -> Wait | None:
        """Why its partition does not take it at all."""
        if self._snapshot is None or not self._snapshot.enforces_access:
            return None
        hit = access_hit(self._snapshot.tree, jobs.partition, jobs.account, jobs.qos)
        return Wait(hit.reason, detail=hit.detail) if hit is not None else None

    def priority_range(self, jobs: RequestClass) -> PriorityRange | None:
        """In which the multifactor priority of the class is kept; None: it is free."""
        partition = jobs.partition
        if self._limits is None and partition.min_priority is None and partition.max_priority is None:
            return None
        rules = self._limits.book.of(charged_of(jobs)) if self._limits is not None else None
        found = priority_range(partition, rules)
        return None if found == _ANY_PRIORITY else found

    def blocked_together(
        self,
        classes: Sequence[RequestClass],
        found: Sequence[Sequence[Share]] | None = None,
        rows: Mapping[str, int] | None = None,
    ) -> Wait | None:
        """Why one more job of each of these classes may not start: each comes on top of those before it."""
        limits = self._limits
        if limits is None:
            return None
        charged: list[tuple[Charged, Tres]] = []
        try:
            for number, jobs in enumerate(classes):
                shares = found[number] if found is not None else None
                wait = limits.blocked(jobs, shares, rows)
                if wait is not None:
                    return wait
                amounts: Tres = least_tres(jobs.request, jobs.partition)
                if shares is not None:
                    amounts = tres_of_shares(shares, rows or {})
                charged.append((charged_of(jobs), amounts))
                limits.charge(*charged[-1])
            return None
        finally:
            for who, amounts in charged:
                limits.charge(who, amounts, -1)

    def change(
        self,
        jobs: RequestClass,
        before: Sequence[Share],
        after: Sequence[Share],
        rows: Mapping[str, int],
    ) -> Hit | None:
        """Why a run of the class may not have these shares instead of those. It is charged with them if it
        may."""
        limits = self._limits
        if limits is None:
            return None
        who, old, new = charged_of(jobs), tres_of_shares(before, rows), tres_of_shares(after, rows)
        limits.charge(who, old, -1)
        hit = limits.hit(who, new, jobs.time_limit_s)
        limits.charge(who, new if hit is None else old)
        return hit

    def started(self, jobs: RequestClass, shares: Sequence[Share], rows: Mapping[str, int]) -> None:
        if self._limits is not None:
            self._limits.started(jobs, shares, rows)
        if self.laws is not None:
            self.laws.charge(Party(charged_of(jobs), tres_of_shares(shares, rows)))
        if self._fair is not None:
            self._fair.started(jobs.account, jobs.user_name, tres_of_shares(shares, rows))

    # Who gives way

    def kept_for(self, jobs: RequestClass, shares: Sequence[Share], rows: Mapping[str, int]) -> None:
        """It will start there when others have gone."""
        if self.laws is not None:
            self._keeps = True
            self.laws.keep(Party(charged_of(jobs), tres_of_shares(shares, rows)))

    def blocked_then(
        self, jobs: RequestClass, shares: Sequence[Share], rows: Mapping[str, int]
    ) -> Wait | None:
        """As `blocked`, when those have gone that are about to."""
        limits = self._limits if self.laws is None else self.laws.limits
        closed = self._closed(jobs)
        return closed if limits is None or closed is not None else limits.blocked(jobs, shares, rows)

    def party(self, jobs: RequestClass) -> Party:
        """Whom one more job of the class is charged to, and what it asks for at least."""
        found = self._least.get(id(jobs))
        if found is None:
            asked = least_tres(jobs.request, jobs.partition) if self.laws is not None else {}
            found = self._least[id(jobs)] = Party(charged_of(jobs), asked)
        return found

    def is_entitled(self, jobs: RequestClass) -> bool:
        """With one more job of the class, is its account still within what is its own?"""
        return self.laws is not None and self.laws.is_entitled(self.party(jobs))

    def priority(self, jobs: RequestClass) -> float:
        """The fair-share, QOS and association parts of the multifactor priority: weight × factor of each."""
        return sum(self.factors(jobs))

    def factors(self, jobs: RequestClass) -> tuple[float, float, float]:
        """The same one by one."""
        if self._snapshot is None:
            return 0.0, 0.0, 0.0
        tree, settings = self._snapshot.tree, self._settings
        qos, association = tree.qos.get(jobs.qos), tree.association(jobs.account, jobs.user_name)
        factor = self._snapshot.history.factor(jobs.account, jobs.user_name)
        by_qos = by_association = 0.0
        highest_qos, highest_association = self._highest
        if qos is not None and highest_qos:
            by_qos = settings.priority_weight_qos * qos.priority / highest_qos
        if association is not None and highest_association:
            by_association = settings.priority_weight_association * association.priority / highest_association
        return settings.priority_weight_fair_share * factor, by_qos, by_association

    def bid(self, jobs: RequestClass) -> float:
        """What the class offers for a GPU- or CPU-hour; nothing while its account has no credits left."""
        if not jobs.bid or self._snapshot is None:
            return 0.0
        payer = self._snapshot.tree.payer(jobs.account)
        return jobs.bid if self._snapshot.credits.get(payer, 0.0) > 0 else 0.0

    def payer(self, jobs: RequestClass) -> str:
        """The account out of whose budget the class pays; "" for nobody."""
        return "" if self._snapshot is None else self._snapshot.tree.payer(jobs.account)

    def is_fair(self, partition: Partition) -> bool:
        """Does the partition go by the order `fair`?"""
        return self._snapshot is not None and (partition.order or self._settings.order) == "fair"

    def fair_key(self, jobs: RequestClass) -> FairKey:
        """Where the class stands under the order `fair`, () for any other; never less than before.

        A QOS that may preempt another comes before it: who may take the other's place while it runs need not
        wait behind it. Then, where accounts take back what is theirs, those that are within it.
        """
        key = self._fair_share_key(jobs)
        if self.laws is not None and self.laws.reclaims:
            key = (((0.0 if self.is_entitled(jobs) else 1.0), ""), *key)
        return ((-float(self._levels.get(jobs.qos, 0)), ""), *key) if self._levels else key

    def _fair_share_key(self, jobs: RequestClass) -> FairKey:
        taken = self._snapshot
        if taken is None or not self.is_fair(jobs.partition):
            return ()
        if self._fair is None:
            ledger = self._limits.ledger if self._limits else taken.ledger
            users = [(holder, use) for holder, use in ledger.uses.items() if holder.kind == "user"]
            running = {(holder.name, holder.user): use.tres for holder, use in users}
            count = sum(use.jobs for _, use in users)
            self._fair = FairOrder(
                taken.tree, running, taken.history.usage, taken.capacity, taken.half_life_s, count
            )
        return self._fair.key(jobs.account, jobs.user_name)


def _may_give_way(whole: Snapshot) -> bool:
    return whole.preemption.reclaim != "off" or any(run.preempt_mode != "off" for run in whole.running)


def _laws_of(whole: Snapshot, limits: Limits) -> Laws:
    then = Limits(limits.book, limits.ledger.copy(), limits.capacity)
    for run in whole.running:
        if not run.end_time:
            then.charge(*party_of(run), -1)
    classes = [part for jobs in whole.classes for part in (jobs, *jobs.parts)]
    waiting = [(jobs.account, jobs.user_name) for jobs in classes if jobs.jobs]
    return Laws(whole.preemption.reclaim, then, waiting)
