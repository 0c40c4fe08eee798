"""Conservative backfill: every blocked job gets a reservation, and nobody delays any of them.

Source: D. Feitelson and A. Mu'alem Weil, "Utilization and Predictability in Scheduling the IBM SP2 with
Backfilling", IPPS 1998. A job starts early only where it fits beside all reservations made before it.

What is free falls at the start of a reservation and rises at its end and at the ends of running jobs. So a
job can start at one of those rises, and it fits from there on if it fits then and at every start of a
reservation before its end. A profile of sums (`Profile`) skips the rises at which there is too little in
all; what it lets through is looked at node by node.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from minislurm.domain.configuration import Partition
from minislurm.scheduling.backfill import Backfill, Fit, Reservation, Segments, runs_past
from minislurm.scheduling.capacity import Capacity, Demand, Sums
from minislurm.scheduling.domains import Indexes
from minislurm.scheduling.filters import Filters
from minislurm.scheduling.model import Snapshot
from minislurm.scheduling.nodes import Counts, Share
from minislurm.scheduling.timeline import SortedShares, Timeline

#: Rises looked at node by node for one job; further on it has no reservation.
_ATTEMPTS = 200


class ConservativeBackfill(Backfill):
    def __init__(self, snapshot: Snapshot, filters: Filters, capacity: Capacity, timeline: Timeline) -> None:
        super().__init__(snapshot, filters, capacity, timeline)
        self.reservations_a_partition = snapshot.settings.conservative_depth
        self._profiles: dict[str, tuple[Partition, Profile]] = {}
        #: Ends of the present reservations, besides those of running jobs.
        self._rises: list[float] = []

    def started(self, shares: Sequence[Share], end: float) -> None:
        super().started(shares, end)
        self._profiles.clear()  # rare between reservations: made anew when it is needed

    def hold(self, partition: Partition, end: float, shares: Sequence[Share], free: Counts) -> None:
        super().hold(partition, end, shares, free)
        self._profiles.clear()

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
        """Earliest start beside everything reserved so far. None: none was found."""
        yield from self._load()
        yield from self._timeline.sort()
        profile = self._profile(partition, free)
        yield
        for edge in edges:
            profile.cut(edge)
        time = self._now
        for _ in range(_ATTEMPTS):
            time = profile.earliest(demand, duration_s, time)
            if time == inf:
                return None
            shares = fit(self._while(time, time + duration_s, free), time)
            if shares is not None:
                self._book(demand, time, time + duration_s, shares)
                then = self._timeline.sorted().released_by(time, free)
                return self._keep(partition.name, time, time + duration_s, tuple(shares), then)
            time = profile.next_rise(time)
            yield
        return None

    def _while(self, time: float, end: float, free: Counts) -> list[Counts]:
        """What is free at `time`, and at each start of a reservation between then and `end`."""
        then = self._timeline.sorted().released_by(time, free)
        for other in self.reservations:
            if other.time <= time and runs_past(other.end, time):
                then.take_all(other.shares)
        later = [
            other.beside for other in self.reservations if time < other.time and runs_past(end, other.time)
        ]
        return [then, *later]

    def _book(self, demand: Demand, time: float, end: float, shares: list[Share]) -> None:
        for partition, profile in self._profiles.values():
            profile.take(time, end, self._sums_in(partition, shares))

    def _profile(self, partition: Partition, free: Counts) -> Profile:
        found = self._profiles.get(partition.name)
        if found is None:
            profile = Profile(self._now, self._capacity.of(partition, free))
            self._release(profile, partition, self._timeline.sorted())
            for other in self.reservations:
                profile.take(other.time, other.end, self._sums_in(partition, other.shares))
            found = self._profiles[partition.name] = (partition, profile)
        return found[1]

    def _release(self, profile: Profile, partition: Partition, ends: SortedShares) -> None:
        inside = self._filters.members(partition).mask[ends.nodes]
        amounts = np.column_stack((ends.cpus, ends.memory_mib, ends.gpus.sum(axis=1)))
        profile.release(ends.ends[inside], amounts[inside])

    def _sums_in(self, partition: Partition, shares: Iterable[Share]) -> Sums:
        mask = self._filters.members(partition).mask
        inside = [share for share in shares if mask[share.node]]
        return Sums(
            sum(share.cpus for share in inside),
            sum(share.memory_mib for share in inside),
            # Of a share it is not known here whether it takes a GPU: these are upper bounds.
            sum(sum(share.gpus) for share in inside if not share.milli),
        )


class Profile:
    """What a partition has free in all, as a step function of time: `_free[i]` from `_times[i]` on."""

    def __init__(self, now: float, free: Sums) -> None:
        self._times = [now]
        self._free = [free]

    def release(self, ends: NDArray[np.float64], amounts: Indexes) -> None:
        """Of running jobs, in order of their ends; a row of amounts for each, as in `Sums`. Before any
        `take`."""
        (now,), (free,) = self._times, self._free
        times = np.append(now, np.maximum(ends, now))
        sums = np.concatenate(([free], amounts)).cumsum(axis=0)
        # Of several at one time the last has the sum of them all.
        is_last = np.append(times[1:] > times[:-1], True)
        self._times = times[is_last].tolist()
        self._free = [Sums(*row) for row in sums[is_last].tolist()]

    def take(self, start: float, end: float, amounts: Sums) -> None:
        first = self.cut(start)
        last = self.cut(end) if end != inf else len(self._times)
        for i in range(first, last):
            self._free[i] = Sums(*(have - less for have, less in zip(self._free[i], amounts, strict=True)))

    def earliest(self, demand: Demand, duration_s: float, after: float) -> float:
        """The first time from `after` on at which there is enough for so long; infinity: never."""
        times, free = self._times, self._free
        count = len(times)
        start = max(0, bisect_right(times, after) - 1)
        position = start
        while position < count:
            if free[position].is_short_of(demand):
                start = position = position + 1
                continue
            position += 1
            begin = max(times[start], after)
            if position == count or times[position] >= begin + duration_s:
                return begin
        return inf

    def next_rise(self, time: float) -> float:
        """The next time at which anything changes; infinity: never."""
        following = bisect_right(self._times, time)
        return self._times[following] if following < len(self._times) else inf

    def cut(self, time: float) -> int:
        """The index of the step that begins at that time; it is made where there is none."""
        i = bisect_left(self._times, time)
        if i == len(self._times) or self._times[i] != time:
            self._times.insert(i, time)
            self._free.insert(i, self._free[i - 1])
        return i
