"""What accounts have spent of their budgets on runs under the order ``auction``.

Like usage (`accounts.py`), spending is exact at every moment without a clock: known as of the last change,
from there it follows from what the runs pay. At the end of each period (counted from the Unix epoch) a budget
is given anew: what was spent is worth nothing any more, what was spent beyond the budget is still owed, and
what was left is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import Struct

from minislurm.domain.accounts import AccountTree
from minislurm.domain.job import Job

_HOUR_S = 3600.0
#: Rates are whole numbers of this part of a credit an hour, so that they add up exactly: a price has
#: millionths, what is held has thousandths.
_PART = 1e-9


class SpendingRecord(Struct):
    """What the account has spent in the period of `time`, until then, in credits."""

    account: str
    time: float = 0.0
    spent: float = 0.0


@dataclass(slots=True)
class Budgets:
    spending: dict[str, SpendingRecord] = field(default_factory=dict)
    #: Accounts whose records differ from the stored snapshot.
    touched: set[str] = field(default_factory=set, compare=False)
    #: What their runs pay, in units of `_PART` of a credit an hour. Derived.
    rates: dict[str, int] = field(default_factory=dict, compare=False)

    def started(self, tree: AccountTree, job: Job, now: float) -> None:
        self._change(tree, job, now, 1)

    def ended(self, tree: AccountTree, job: Job, now: float) -> None:
        self._change(tree, job, now, -1)

    def _change(self, tree: AccountTree, job: Job, now: float, sign: int) -> None:
        payer = tree.payer(job.spec.account) if job.price else ""
        if payer:
            self._settle(tree, payer, now)
            self._pay(payer, sign * rate_of(job))

    def _pay(self, payer: str, rate: int) -> None:
        self.rates[payer] = self.rates.get(payer, 0) + rate
        if not self.rates[payer]:
            del self.rates[payer]

    def _settle(self, tree: AccountTree, account: str, now: float) -> None:
        spent = self.spent(tree, account, now)
        record = self.spending.setdefault(account, SpendingRecord(account, now))
        record.spent, record.time = spent, max(record.time, now)
        self.touched.add(account)

    def settle_all(self, tree: AccountTree, now: float) -> None:
        for account in {*self.spending, *self.rates}:
            self._settle(tree, account, now)

    def recount(self, tree: AccountTree, active: Iterable[Job]) -> None:
        """Who pays for what runs, anew; records of accounts without a budget go."""
        self.rates.clear()
        for job in active:
            payer = tree.payer(job.spec.account) if job.price else ""
            if payer:
                self._pay(payer, rate_of(job))
        for account in [a for a in self.spending if tree.payer(a) != a]:
            del self.spending[account]
            self.touched.add(account)

    def spent(self, tree: AccountTree, account: str, now: float) -> float:
        """Credits spent in the period of `now`, with what is still owed from those before."""
        record, rate = self.spending.get(account), self.rates.get(account, 0) * _PART / _HOUR_S
        if record is None:
            return 0.0
        found = tree.accounts.get(account)
        period_s = found.budget_period_s if found is not None else None
        passed_s = max(0.0, now - record.time)
        if not period_s or found is None:
            return record.spent + rate * passed_s
        budget = found.budget or 0.0
        begun = int(now // period_s) - int(record.time // period_s)
        if begun <= 0:
            return record.spent + rate * passed_s
        # To the end of the record's period; then whole periods, each of which pays rate × period and is given
        # the budget (all of them at once: the sum only falls to 0 or only grows); then what there is of this.
        first_s = (record.time // period_s + 1) * period_s - record.time
        spent = max(0.0, record.spent + rate * first_s - budget)
        spent = max(0.0, spent + (begun - 1) * (rate * period_s - budget))
        return spent + rate * (now - (now // period_s) * period_s)

    def credits(self, tree: AccountTree, now: float) -> dict[str, float]:
        """What is left, by account, of those with a budget. Below 0: owed for runs that went on."""
        return {
            account.name: account.budget - self.spent(tree, account.name, now)
            for account in tree.accounts.values()
            if account.budget is not None
        }


def rate_of(job: Job) -> int:
    """What the job's run pays, in units of `_PART` of a credit an hour."""
    return int(job.price * 1_000_000 + 0.5) * held_milli(job)


def held_milli(job: Job) -> int:
    """Thousandths of GPUs that the run holds, or of its CPUs where it has none. Nodes that are to join it are
    held for it alone."""
    parts = (*job.allocation, *job.joining) if job.joining else job.allocation
    gpus = sum(part.gpu_share_milli or 1000 * part.gpu_count for part in parts)
    return gpus or sum(1000 * part.cpu_count for part in parts)


def is_amount(value: float) -> bool:
    """Of credits. Beyond the highest, millionths could no longer be told apart."""
    return math.isfinite(value) and 0 <= value <= 1e9
