"""Who has to give way to whom, if nothing else makes room. By themselves, for the core asks again."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from minislurm.domain.configuration import Partition
from minislurm.scheduling.model import RunningJob


class Rival(NamedTuple):
    """A job that would start in somebody's place."""

    partition: Partition
    #: Since when it waits.
    eligible_time: float


def may_preempt(rival: Rival, run: RunningJob, now: float) -> bool:
    """Does the run give way to the job now? To one of a higher tier, and to one beside it in a partition with
    time slices when it has lasted, and the other has waited, for a slice. So no two jobs can drive each
    other out, but that each has its slice."""
    is_ending = not run.end_time
    return not is_ending and (is_outranked(rival.partition, run, now) or is_sliced(rival, run, now))


def next_time(rival: Rival, run: RunningJob, now: float) -> float:
    """From when on it will, if it does not yet; infinity: never."""
    times = (run.exempt_until, max(run.slice_end, rival.eligible_time + run.slice_s))
    return min((time for time in times if time > now and may_preempt(rival, run, time)), default=inf)


def is_outranked(partition: Partition, run: RunningJob, now: float) -> bool:
    return run.preempt_mode != "off" and run.tier < partition.priority_tier and run.exempt_until <= now


def is_sliced(rival: Rival, run: RunningJob, now: float) -> bool:
    if run.partition != rival.partition.name or run.slice_end > now:
        return False
    # Who has just left would otherwise drive out the next of those that went on while nobody waited.
    return rival.eligible_time + run.slice_s <= now


def gives_way(run: RunningJob) -> bool:
    """To anybody, at any time? What is ending has, and what it frees is kept for whom it was."""
    return run.preempt_mode != "off" or run.slice_end < inf
