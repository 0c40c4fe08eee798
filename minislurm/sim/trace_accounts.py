"""The accounts of a trace as a tree, for the policies that go by one, and what its jobs bid.

Each account of the trace (each user, of jobs that name none) is an account below root, all of the same weight
and with the same budget; nothing is limited.

- budget: unless one is given, as many credits in a period as the account's part of the cluster is worth at
  one credit for each GPU-hour (CPU-hour, on a cluster without GPUs).
- bids: as in the trace's column `bid`. Of a trace in which nobody bids they are drawn, one for each job in
  the trace's order, from a generator seeded by `--seed`: log-normal with median 1 credit an hour and shape
  0.5, rounded to thousandths.
"""

from __future__ import annotations

import random
import re

from msgspec import Struct
from msgspec.structs import replace

from minislurm.domain.accounts import Account, AccountChanges, AccountUser, Association
from minislurm.domain.errors import UsageError
from minislurm.sim.trace import TraceJob, Workload

_HOUR_S = 3600.0
_SHAPE = 0.5
#: What a name in an account tree is not made of.
_OTHER = re.compile(r"[^a-z0-9_.@+-]+")


class Budget(Struct, frozen=True):
    """Of each account. `credits` None: its part of the cluster."""

    credits: float | None = None
    period_s: float = 86400.0

    def each(self, units: int, accounts: int) -> float:
        if self.credits is not None:
            return self.credits
        return units * (self.period_s / _HOUR_S) / accounts


def charged(workload: Workload, policy: str) -> Workload:
    """Every job in an account, under names that a tree can have. Raises UsageError for a trace of one."""
    jobs = tuple(_charged(job) for job in workload.jobs)
    if len({job.account for job in jobs}) < 2:
        raise UsageError(f"--policy {policy}: the trace has no two accounts or users to share the cluster")
    return replace(workload, jobs=jobs)


def _charged(job: TraceJob) -> TraceJob:
    account = _name(job.account or job.user)
    # Nobody is named as root is, who may do all.
    user = _name(job.user or account)
    spec = job.spec
    if spec is not None:
        spec = replace(spec, account=account, user_name=user, qos="")
    return replace(job, account=account, user=user, spec=spec)


def _name(text: str) -> str:
    name = _OTHER.sub("_", text.lower()).lstrip("-") or "none"
    return f"{name}_" if name == "root" else name


def with_bids(workload: Workload, seed: int) -> Workload:
    if any(job.bid for job in workload.jobs):
        return workload
    draw = random.Random(f"bids {seed}")
    jobs = tuple(replace(job, bid=round(draw.lognormvariate(0.0, _SHAPE), 3)) for job in workload.jobs)
    return replace(workload, jobs=jobs)


def tree_of(workload: Workload, units: int, budget: Budget | None) -> AccountChanges:
    """Of jobs that are `charged`. `units`: GPUs, or CPUs, of the cluster; `budget` None: nobody has one."""
    names = sorted({job.account for job in workload.jobs})
    pairs = sorted({(job.account, job.user) for job in workload.jobs})
    credits = budget.each(units, len(names)) if budget is not None else None
    period_s = budget.period_s if budget is not None else None
    return AccountChanges(
        accounts=tuple(Account(name, budget=credits, budget_period_s=period_s) for name in names),
        users=tuple(AccountUser(user, account) for user, account in {user: a for a, user in pairs}.items()),
        associations=tuple(Association(account, user) for account, user in pairs),
    )
