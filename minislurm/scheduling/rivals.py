"""Who has to give way to whom, if nothing else makes room. By themselves, for the core asks again.

Four causes, the first that holds counts: a higher tier; a QOS that names the other one in its ``Preempt``
(Slurm's preempt/qos); what an account takes back from those that borrow (`reclaim.py`); a time slice that is
over. No two jobs can drive each other out by them: tiers come first and are strictly ordered, QOS have no
cycle, what is taken back is never owed, and each slice is had first.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import inf
from typing import NamedTuple

from minislurm.domain.configuration import Partition
from minislurm.scheduling.limits import Charged
from minislurm.scheduling.model import RunningJob
from minislurm.scheduling.reclaim import Laws, Party, party_of


class Cause(Enum):
    """Why a run gives way."""

    TIER = "tier"
    QOS = "qos"
    GUARANTEE = "guarantee"
    FAIR_SHARE = "fair_share"
    TIME_SLICE = "time_slice"


class Rival(NamedTuple):
    """A job that would start in somebody's place."""

    partition: Partition
    #: Since when it waits.
    eligible_time: float
    #: Whom it is charged to, and what it asks for at least.
    party: Party = Party(Charged("", "", ""), {})
    priority: int = 0
    #: "never", "lower": only those below it; "borrowers": those that borrow as well.
    policy: str = "borrowers"
    #: Its priority is by so much above that of whoever gives way to it; 0: it does not matter.
    min_difference: int = 0
    #: The QOS that its own may preempt, and those above its own.
    preempts: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()


def cause_of(rival: Rival, run: RunningJob, now: float, laws: Laws | None = None) -> Cause | None:
    """Why the run gives way to the job now; None: it does not. `laws`: None where there are no accounts."""
    if not run.end_time:
        return None  # it is ending
    if rival.policy != "never" and run.preempt_mode != "off" and run.exempt_until <= now:
        cause = _cause(rival, run, laws)
        if cause is not None and _is_far_enough(rival, run):
            return cause
    return Cause.TIME_SLICE if is_sliced(rival, run, now) else None


def _cause(rival: Rival, run: RunningJob, laws: Laws | None) -> Cause | None:
    tier = rival.partition.priority_tier
    if run.tier > tier:
        return None
    if run.tier < tier or run.qos in rival.preempts:
        # Nobody's guarantee is touched, for whatever cause.
        if laws is not None and not laws.leaves_guarantees(rival.party, party_of(run)):
            return None
        return Cause.TIER if run.tier < tier else Cause.QOS
    if laws is None or rival.policy != "borrowers" or run.qos in rival.above:
        return None
    found = laws.may_take_back(rival.party, party_of(run))
    return Cause(found) if found else None


def _is_far_enough(rival: Rival, run: RunningJob) -> bool:
    return not rival.min_difference or rival.priority - run.priority >= rival.min_difference


def may_preempt(rival: Rival, run: RunningJob, now: float, laws: Laws | None = None) -> bool:
    return cause_of(rival, run, now, laws) is not None


def next_time(rival: Rival, run: RunningJob, now: float, laws: Laws | None = None) -> float:
    """From when on it will, if it does not yet; infinity: never."""
    times = (run.exempt_until, max(run.slice_end, rival.eligible_time + run.slice_s))
    return min((time for time in times if time > now and may_preempt(rival, run, time, laws)), default=inf)


def is_sliced(rival: Rival, run: RunningJob, now: float) -> bool:
    if run.partition != rival.partition.name or run.slice_end > now:
        return False
    # Who has just left would otherwise drive out the next of those that went on while nobody waited.
    return rival.eligible_time + run.slice_s <= now


def gives_way(run: RunningJob) -> bool:
    """To anybody, at any time? What is ending has, and what it frees is kept for whom it was."""
    return run.preempt_mode != "off" or run.slice_end < inf


def levels_of(preempts: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """By QOS that may preempt: above how many others, one above the other, it is. One that may preempt
    another is on a higher level."""
    levels = dict.fromkeys(preempts, 0)
    for _ in preempts:  # a chain has no more links than there are QOS
        for name, below in preempts.items():
            levels[name] = max((1 + levels.get(one, 0) for one in below), default=0)
    return levels


def preempted_by(preempts: Mapping[str, tuple[str, ...]], qos: str) -> frozenset[str]:
    """The QOS above this one: those that may preempt it, and those that may preempt these."""
    above: set[str] = set()
    grown = True
    while grown:
        grown = False
        for name, below in preempts.items():
            if name not in above and (qos in below or not above.isdisjoint(below)):
                above.add(name)
                grown = True
    return frozenset(above)
