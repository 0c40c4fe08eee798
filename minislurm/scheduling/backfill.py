"""EASY backfill: the first blocked job of each partition gets a reservation, which nothing may delay.

Source: D. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995, with one reservation for each partition.

The shadow time is the earliest time at which the head fits when every running job ends at its limit. A job
that starts now and runs past it must leave the head's part free: it is placed on the least of what is free
now and what is free at the shadow time beside the head (`Reservation.beside`). Between the shadow times
only ends happen, so these instants are all that has to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from minislurm.scheduling.model import RunningJob
from minislurm.scheduling.nodes import Counts, Inventory, PartialShares, Share

#: Allocations read between two yields: about a millisecond.
_CHUNK = 500

Fit = Callable[[Counts], "list[Share] | None"]


@dataclass(frozen=True, slots=True)
class Reservation:
    """The head of `partition` starts at `time` on these shares, and ends at `end`."""

    partition: str
    time: float
    end: float
    shares: tuple[Share, ...]
    #: What is free at `time` when the head has started. Kept up to date with later placements.
    beside: Counts


class Timeline:
    """Which amounts come free on which node, and when. Built from the running jobs; placements follow."""

    def __init__(self, inventory: Inventory, now: float) -> None:
        self._inventory = inventory
        self._now = now
        self._ends: list[float] = []
        self._shares: list[Share] = []
        self._sorted = _SortedShares([], [], len(inventory.type_bits))

    def add_running(self, running: Iterable[RunningJob]) -> Generator[None, None, None]:
        """Yields between units of work. A run past its limit is about to end: it counts as ending now."""
        count = 0
        for job in running:
            for allocation in job.allocation:
                share = self._inventory.share_of(allocation)
                if share is not None:
                    self.add(job.end_time, share)
                count += 1
                if count % _CHUNK == 0:
                    yield

    def add(self, end: float, share: Share) -> None:
        self._ends.append(max(end, self._now))
        self._shares.append(share)

    def sorted(self) -> _SortedShares:
        if len(self._sorted.ends) != len(self._ends):
            self._sorted = _SortedShares(self._ends, self._shares, len(self._inventory.type_bits))
        return self._sorted


class _SortedShares:
    """The shares in the order of their ends, as arrays."""

    def __init__(self, ends: Sequence[float], shares: Sequence[Share], gpu_types: int) -> None:
        order = np.argsort(np.array(ends, dtype=np.float64), kind="stable")
        self.ends = np.array(ends, dtype=np.float64)[order]
        self._nodes = np.array([s.node for s in shares], dtype=np.int64)[order]
        self._cpus = np.array([s.cpus for s in shares], dtype=np.int64)[order]
        self._memory = np.array([s.memory_mib for s in shares], dtype=np.int64)[order]
        parts = [i for i in order.tolist() if shares[i].gpu >= 0]
        self._partial = PartialShares([ends[i] for i in parts], [shares[i] for i in parts])
        none = (0,) * gpu_types
        gpus = np.array([s.gpus if s.gpu < 0 else none for s in shares], dtype=np.int64).reshape(
            len(shares), gpu_types
        )
        self._gpus = gpus[order]

    def released_by(self, time: float, free: Counts) -> Counts:
        """What is free then, if nothing else starts."""
        count = int(np.searchsorted(self.ends, time, side="right"))
        then, nodes = free.copy(), self._nodes[:count]
        np.add.at(then.cpus, nodes, self._cpus[:count])
        np.add.at(then.memory_mib, nodes, self._memory[:count])
        for row in range(len(then.gpus)):
            np.add.at(then.gpus[row], nodes, self._gpus[:count, row])
        self._partial.release_by(time, then)
        return then


class Backfill:
    """The reservations of this pass, in the order in which they were made."""

    def __init__(self, inventory: Inventory, now: float, running: Sequence[RunningJob]) -> None:
        self._now = now
        self._running: Sequence[RunningJob] | None = running
        self._timeline = Timeline(inventory, now)
        self.reservations: list[Reservation] = []

    def started(self, shares: Iterable[Share], end: float) -> None:
        """A placement of this pass."""
        for share in shares:
            self._timeline.add(end, share)
            for reservation in self.reservations:
                if _runs_past(end, reservation.time):
                    reservation.beside.take(share)

    def reached_by(self, end: float) -> list[Counts]:
        """What a job that starts now and runs until `end` must fit into, besides what is free now."""
        return [r.beside for r in self.reservations if _runs_past(end, r.time)]

    def reserve(
        self, partition: str, duration_s: float, free: Counts, fit: Fit
    ) -> Generator[None, None, Reservation | None]:
        """Earliest start for a head that would get `fit(counts)`, if nothing else were started.

        None: not even after everything has ended, because of an earlier reservation without an end.
        Yields between units of work.
        """
        if self._running is not None:
            yield from self._timeline.add_running(self._running)
            self._running = None
        ends = self._timeline.sorted()
        times = np.unique(np.concatenate((ends.ends, [r.end for r in self.reservations], [self._now])))

        found: dict[int, list[Share] | None] = {}

        def fits(k: int) -> bool:
            found[k] = fit(self._available(float(times[k]), free))
            return found[k] is not None

        first = yield from _first(len(times), fits)
        shares = None if first is None else found[first]
        if first is None or shares is None:
            return None
        time = float(times[first])
        return self._keep(partition, time, time + duration_s, tuple(shares), free)

    def _available(self, time: float, free: Counts) -> Counts:
        """What a further head may count on from that time on: earlier reservations come first, also those
        that begin later. Grows with time, so that the earliest time can be found by bisection."""
        then = self._timeline.sorted().released_by(time, free)
        for reservation in self.reservations:
            if _runs_past(reservation.end, time):
                for share in reservation.shares:
                    then.take(share)
        if self.reservations:
            for amounts in (then.cpus, then.memory_mib, then.gpus):
                np.maximum(amounts, 0, out=amounts)
        return then

    def _keep(
        self, partition: str, time: float, end: float, shares: tuple[Share, ...], free: Counts
    ) -> Reservation:
        beside = self._timeline.sorted().released_by(time, free)
        for other in self.reservations:
            if other.time <= time and _runs_past(other.end, time):
                _take_all(beside, other.shares)
            if time <= other.time and _runs_past(end, other.time):
                _take_all(other.beside, shares)
        _take_all(beside, shares)
        reservation = Reservation(partition, time, end, shares, beside)
        self.reservations.append(reservation)
        return reservation


def end_of(now: float, time_limit_s: float) -> float:
    """When a job that starts now ends at the latest. `time_limit_s` 0: no limit."""
    return now + time_limit_s if time_limit_s else inf


def _runs_past(end: float, time: float) -> bool:
    """What has no end also holds its nodes at a shadow time that never comes."""
    return end > time or end == inf


def _take_all(counts: Counts, shares: Iterable[Share]) -> None:
    for share in shares:
        counts.take(share)


def _first(count: int, holds: Callable[[int], bool]) -> Generator[None, None, int | None]:
    """The least index that holds, by doubling steps and then bisection; later ones hold too."""
    low, step = 0, 1
    high = 0
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
