"""Where a job stands among those of equal priority, and which job goes before all others.

Each order has one number, least first: ``sjf`` the expected run time, ``mlfq`` the level, ``auction`` the
bid, negated. It may change from pass to pass; within one it does not.

``mlfq``, levels by attained service, is two-dimensional least-attained-service scheduling made discrete (Gu
et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019, section 3): a job begins
at the first level, falls to the next when its GPUs times its time pass a threshold, and goes first come,
first served inside a level. It is raised to the first again once it has waited PROMOTEKNOB times as long as
it has run.

The guard of large gangs holds for every order that lets late jobs overtake: a large gang that has waited long
enough gets a fixed place, before everybody of its tier but those with an older such place. A place and not a
growing boost, because no boost is above every weight that a cluster may have, and because it then stays the
head, whose reservation nobody delays. It begins after the same wait in each case, so it cannot be gained by
splitting or resubmitting.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from minislurm.domain.configuration import Partition
from minislurm.domain.configuration_values import parse_levels
from minislurm.scheduling.accounts import AccountsPass
from minislurm.scheduling.capacity import Sums
from minislurm.scheduling.model import RequestClass, Snapshot

if TYPE_CHECKING:
    from minislurm.scheduling.order import Turn

_levels = lru_cache(maxsize=8)(parse_levels)


class Ranks:
    """The ranks of one pass."""

    def __init__(
        self, snapshot: Snapshot, accounts: AccountsPass, total: Callable[[Partition], Sums]
    ) -> None:
        """`total`: what the usable nodes of a partition have."""
        settings = snapshot.settings
        self._settings = settings
        self._now = snapshot.now
        self._accounts = accounts
        self._total = total
        self._levels = _levels(settings.mlfq_levels)
        self._promote = settings.mlfq_promote
        #: Who became eligible later than this has not waited long enough.
        self._long_ago = snapshot.now - (settings.large_gang_wait_s or inf)

    def is_lasting(self, turn: Turn) -> bool:
        """Does its place in the queue stay the same as time goes on?"""
        order = turn.jobs.partition.order or self._settings.order
        return order == "fifo" or (order == "sjf" and not self._settings.large_gang_wait_s)

    def rank(self, turn: Turn) -> float:
        """Of the turn's next job under the order of its partition; 0 where there is no such number."""
        jobs = turn.jobs
        rank = _RANKS.get(jobs.partition.order or self._settings.order)
        return 0.0 if rank is None else rank(self, jobs, turn.job.eligible_time)

    def has_fixed_place(self, turn: Turn) -> bool:
        """A large gang that has waited so long that nobody passes it any more."""
        return turn.job.eligible_time <= self._long_ago and self._is_large_gang(turn)

    def _is_large_gang(self, turn: Turn) -> bool:
        partition, candidate = turn.jobs.partition, turn.candidate
        if (partition.order or self._settings.order) == "fifo":
            return False  # there, nobody is overtaken; and who is before it came before it
        share, total, demand = self._settings.large_gang_share, self._total(partition), candidate.demand
        nodes = candidate.bounds.nodes_min
        return (
            demand.cpus > share * total.cpus
            or demand.gpus > share * total.gpus
            or (nodes > 1 and nodes > share * len(partition.nodes))
        )

    def expected(self, jobs: RequestClass, eligible_time: float) -> float:
        return jobs.expected_s or jobs.time_limit_s or inf

    def level(self, jobs: RequestClass, eligible_time: float) -> float:
        if not jobs.attained_service_s:
            return 0
        waited_s = self._now - eligible_time
        if self._promote and waited_s >= self._promote * jobs.attained_time_s:
            return 0
        return bisect_right(self._levels, jobs.attained_service_s)

    def bid(self, jobs: RequestClass, eligible_time: float) -> float:
        return -self._accounts.bid(jobs)


#: Functions and no methods of each `Ranks`: those would refer to it, and nothing of a pass would be let go of
#: before a search for cycles.
_RANKS: dict[str, Callable[[Ranks, RequestClass, float], float]] = {
    "sjf": Ranks.expected,
    "mlfq": Ranks.level,
    "auction": Ranks.bid,
}
