"""EASY backfill: the first blocked job of each partition gets a reservation, which nothing may delay.

Source: D. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995, with one reservation for each partition.

The shadow time is the earliest time at which the head fits when every running job ends at its limit. A job
that starts now and runs past it must leave the head's part free: it is placed on the least of what is free
now and what is free at the shadow time beside the head (`Reservation.beside`). Between the shadow times
only ends happen, so these instants are all that has to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from math import inf

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from minislurm.domain.configuration import Partition
from minislurm.scheduling.capacity import Capacity, Demand, Sums
from minislurm.scheduling.filters import Filters
from minislurm.scheduling.model import RunningJob, Snapshot
from minislurm.scheduling.nodes import Counts, Share
from minislurm.scheduling.timeline import Timeline, with_released

#: The shares of a job that starts at that time, of what is least of these counts; None: it does not fit.
Fit = Callable[[list[Counts], float], "list[Share] | None"]
#: Indexes of ascending times; from each to the next, more and more becomes free.
Segments = Callable[[NDArray[np.float64]], list[int]]


class Reservation(Struct, frozen=True):
    """The head of `partition` starts at `time` on these shares, and ends at `end`."""

    partition: str
    time: float
    end: float
    shares: tuple[Share, ...]
    #: What is free at `time` when the head has started. Kept up to date with later placements.
    beside: Counts
    #: Of `beside`, by partition; empty after every change.
    sums: dict[str, Sums] = field(default_factory=dict)

    def take_all(self, shares: Sequence[Share]) -> None:
        """None of them of the same node."""
        self.beside.take_all(shares)
        self.sums.clear()


class Backfill:
    """The reservations of this pass, in the order in which they were made."""

    #: So many blocked jobs of each partition get one.
    reservations_a_partition = 1

    def __init__(self, snapshot: Snapshot, filters: Filters, capacity: Capacity, timeline: Timeline) -> None:
        self._now = snapshot.now
        self._running: Sequence[RunningJob] | None = snapshot.running
        self._filters = filters
        self._capacity = capacity
        self._timeline = timeline
        self.reservations: list[Reservation] = []

    def started(self, shares: Sequence[Share], end: float) -> None:
        """A placement of this pass."""
        self._timeline.add(end, shares)
        for reservation in self.reservations:
            if runs_past(end, reservation.time):
                reservation.take_all(shares)

    def reached_by(self, end: float) -> list[Counts]:
        """What a job that starts now and runs until `end` must fit into, besides what is free now."""
        return [r.beside for r in self.reservations if runs_past(end, r.time)]

    def is_short(self, partition: Partition, demand: Demand, end: float) -> bool:
        """Whether a job that runs until `end` asks for more than some head leaves in all."""
        for reservation in self.reservations:
            if runs_past(end, reservation.time):
                sums = reservation.sums.get(partition.name)
                if sums is None:
                    sums = reservation.sums[partition.name] = self._capacity.of(partition, reservation.beside)
                if sums.is_short_of(demand):
                    return True
        return False

    def reserve(
        self,
        partition: Partition,
        duration_s: float,
        demand: Demand,
        free: Counts,
        fit: Fit,
        edges: Sequence[float] = (),
        segments: Segments = lambda times: [0],
        single: Share | None = None,
    ) -> Generator[None, None, Reservation | None]:
        """Earliest start for a head that would get what `fit` says, if nothing else were started.

        None: not even after everything has ended, because of an earlier reservation without an end.
        `edges`: times besides ends at which nodes open; `segments`: within each none closes. `single`: what
        `fit` says whenever it fits, where there is but one node. Yields between units of work.
        """
        yield from self._load()
        if single is not None and not self.reservations:
            earliest = self._timeline.earliest_in_single(single, free)
            if earliest is None:
                return None
            time, then = earliest
            return self._keep(partition.name, time, time + duration_s, (single,), then)
        yield from self._timeline.sort()
        ends = self._timeline.sorted()
        times = self._times(ends.ends, edges)
        yield
        from_index = self._first_with_enough(partition, demand, times)
        if from_index == len(times):
            return None
        found: dict[int, tuple[Counts, list[Share]]] = {}

        def fits(k: int) -> bool:
            time = float(times[k])
            then = self._available(time, free)
            shares = fit([then], time)
            if shares is not None:
                found[k] = then, shares
            return shares is not None

        first = yield from _first_of(from_index, segments(times), len(times), fits)
        if first is None:
            return None
        time = float(times[first])
        then, shares = found[first]
        if self.reservations:  # of which it was the least at any time from then on
            then = self._timeline.sorted().released_by(time, free)
        return self._keep(partition.name, time, time + duration_s, tuple(shares), then)

    def free_soon(self, free: Counts) -> Generator[None, None, Counts]:
        """What is free when those that are about to end have ended, beside everything reserved; below zero
        where a reservation is laid over what is still in use."""
        yield from self._load()
        return self._beside(self._now, free)

    def hold(self, partition: Partition, end: float, shares: Sequence[Share], free: Counts) -> None:
        """Keeps them for a job that starts as soon as others have ended, which they are about to do. `free`:
        what is there then, beside everything reserved."""
        beside = at_least_zero(free.copy())
        beside.take_all(shares)
        self.reservations.append(Reservation(partition.name, self._now, end, tuple(shares), beside))

    def leave_early(self, shares: Sequence[Share], end: float) -> None:
        """What was held until `end` is about to come free: also at the shadow times before that."""
        for i, other in enumerate(self.reservations):
            if runs_past(end, other.time):
                beside = with_released(other.beside, shares)
                self.reservations[i] = replace(other, beside=beside, sums={})

    def _times(self, ends: NDArray[np.float64], edges: Sequence[float]) -> NDArray[np.float64]:
        """Ascending, from now on: when something ends, and `edges`."""
        others = [self._now, *edges, *(reservation.end for reservation in self.reservations)]
        times = np.concatenate((others, ends[ends.searchsorted(self._now, side="right") :]))
        if len(others) > 1:
            times.sort()
        return times

    def _load(self) -> Generator[None, None, None]:
        if self._running is not None:
            yield from self._timeline.load(self._running)
            self._running = None

    def _first_with_enough(self, partition: Partition, demand: Demand, times: NDArray[np.float64]) -> int:
        """Before that time the partition's nodes have too little in all: no need to look at each."""
        ends, members = self._timeline.sorted(), self._filters.members(partition)
        index = 0
        for kind, (have, need) in enumerate(zip(self._capacity.now(partition), demand, strict=True)):
            if need > have:
                inside = members.mask[ends.nodes]
                enough = int((ends.freed(kind) * inside).cumsum().searchsorted(need - have))
                if enough == len(ends.ends):
                    return len(times)
                index = max(index, int(times.searchsorted(ends.ends[enough])))
        return index

    def _available(self, time: float, free: Counts) -> Counts:
        """What a further head may count on from that time on: earlier reservations come first, also those
        that begin later. Grows with time, so that the earliest time can be found by bisection."""
        then = self._beside(time, free)
        return at_least_zero(then) if self.reservations else then

    def _beside(self, time: float, free: Counts) -> Counts:
        then = self._timeline.sorted().released_by(time, free)
        for reservation in self.reservations:
            if runs_past(reservation.end, time):
                then.take_all(reservation.shares)
        return then

    def _keep(
        self, partition: str, time: float, end: float, shares: tuple[Share, ...], beside: Counts
    ) -> Reservation:
        """`beside`: what is free at that time but for reservations. It becomes the new one's own."""
        for other in self.reservations:
            if other.time <= time and runs_past(other.end, time):
                beside.take_all(other.shares)
            if time <= other.time and runs_past(end, other.time):
                other.take_all(shares)
        beside.take_all(shares)
        reservation = Reservation(partition, time, end, shares, beside)
        self.reservations.append(reservation)
        return reservation


def end_of(now: float, time_limit_s: float) -> float:
    """When a job that starts now ends at the latest. `time_limit_s` 0: no limit."""
    return now + time_limit_s if time_limit_s else inf


def runs_past(end: float, time: float) -> bool:
    """What has no end also holds its nodes at a shadow time that never comes."""
    return end > time or end == inf


def at_least_zero(counts: Counts) -> Counts:
    """In place."""
    for amounts in (counts.cpus, counts.memory_mib, counts.gpus):
        np.maximum(amounts, 0, out=amounts)
    return counts


def _first_of(
    start: int, segments: Sequence[int], count: int, holds: Callable[[int], bool]
) -> Generator[None, None, int | None]:
    """The least index from `start` on that holds, where later ones hold too within the same segment."""
    for low, high in zip(segments, [*segments[1:], count], strict=True):
        if high > start:
            found = yield from _first(max(low, start), high, holds)
            if found is not None:
                return found
    return None


def _first(start: int, count: int, holds: Callable[[int], bool]) -> Generator[None, None, int | None]:
    """The least index from `start` on that holds, by doubling steps, then bisection; later ones hold too."""
    low, step = start, 1
    high = start
    while not holds(high):
        yield
        if high == count - 1:
            return None
        low = high + 1
        high = min(high + step, count - 1)
        step *= 2
    while low < high:
        yield
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high
