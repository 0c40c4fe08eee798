"""The order ``auction``: who bids most goes first, and pays what the best of those left behind had bid.

A bid is for a GPU-hour (a CPU-hour, of a job without GPUs), out of the budget of the job's account, or of the
nearest one above that has a budget. Where nothing is left of it, the bid counts as 0.

The price is the second price (Vickrey, "Counterspeculation, Auctions, and Competitive Sealed Tenders",
Journal of Finance 16(1), 1961): the highest losing bid on what the job took, at most its own bid. A losing
bid on it is that of a class that waits at the end of the pass for nodes (not for a limit, a reservation, a
licence), may use at least one of the nodes that the job took, and is paid out of another budget: an account
does not bid against itself. The price holds for the whole run; where nobody else wanted the nodes it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec.structs import replace

from minislurm.domain.states import Reason
from minislurm.scheduling.accounts import AccountsPass
from minislurm.scheduling.filters import Filters
from minislurm.scheduling.model import Placement, Plan, RequestClass
from minislurm.scheduling.nodes import Mask

#: Who waits for this has lost to somebody.
_LOST = frozenset({Reason.RESOURCES, Reason.PRIORITY})


def with_prices(
    plan: Plan, winners: Sequence[tuple[int, RequestClass]], accounts: AccountsPass, filters: Filters
) -> Plan:
    """`winners`: which placements are of jobs that bid."""
    losers = sorted(_losers(plan, accounts), key=lambda loser: -loser[0])
    if not losers:
        return plan
    placements, masks = list(plan.placements), _Masks(filters)
    for index, jobs in winners:
        bid, payer = accounts.bid(jobs), accounts.payer(jobs)
        taken = chain.from_iterable(one.allocation for one in (placements[index], *placements[index].parts))
        rows = [filters.index_of(part.node) for part in taken]
        for losing_bid, loser in losers:
            if accounts.payer(loser) != payer and masks.of(loser)[rows].any():
                placements[index] = _priced(placements[index], jobs, min(bid, losing_bid))
                break
    return replace(plan, placements=tuple(placements))


def _losers(plan: Plan, accounts: AccountsPass) -> list[tuple[float, RequestClass]]:
    return [
        (bid, standing.jobs)
        for standing in plan.standings
        if (bid := accounts.bid(standing.jobs)) > 0 and any(wait.reason in _LOST for wait in standing.why)
    ]


def _priced(placement: Placement, jobs: RequestClass, price: float) -> Placement:
    """All components of a heterogeneous job pay the same, but none more than it bids."""
    if not price:
        return placement
    parts = [
        replace(part, price=min(price, other.bid))
        for part, other in zip(placement.parts, jobs.parts, strict=True)
    ]
    return replace(placement, price=price, parts=tuple(parts))


class _Masks:
    """The nodes that each class may use, looked up once."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._masks: dict[int, Mask] = {}

    def of(self, jobs: RequestClass) -> Mask:
        found = self._masks.get(id(jobs))
        if found is None:
            found = self._masks[id(jobs)] = self._filters.allowed(jobs)
        return found
