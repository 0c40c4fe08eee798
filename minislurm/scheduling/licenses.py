"""Licenses: never more in use than there are, and none taken from a job that waits for them.

A job that lacks licenses holds up nobody who needs none of those. For the first that waits for a license the
free ones of that name are kept, as EASY backfill keeps nodes for a head: a later job may take one if it gives
it back before the first could start anyway, or if enough are left then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from msgspec import Struct

from minislurm.domain.reservation import LicenseCount
from minislurm.scheduling.model import RunningJob

Wanted = tuple[LicenseCount, ...]


class _Claim(Struct):
    """A blocked job can have its licenses at `time`; `beside`: what is then left for others, by name."""

    time: float
    beside: dict[str, int]


class Licenses:
    def __init__(self, free: Mapping[str, int], running: Sequence[RunningJob], now: float) -> None:
        self._free = dict(free)
        self._now = now
        #: (end, licenses) of all that hold some.
        self._held: list[tuple[float, Wanted]] = []
        if free:
            self._held += [(max(run.end_time, now), run.licenses) for run in running if run.licenses]
        self._claims: list[_Claim] = []

    def __bool__(self) -> bool:
        """Are there any at all?"""
        return bool(self._free)

    def suffice(self, wanted: Wanted, end: float) -> bool:
        """Are there enough for a job that starts now and ends at `end`, beside those kept for others?"""
        if not wanted:
            return True
        if any(license.count > self._free.get(license.name, -1) for license in wanted):
            return False
        return all(_has(c.beside, wanted) for c in self._claims if end > c.time or end == inf)

    def take(self, wanted: Wanted, end: float) -> None:
        """A placement of this pass."""
        if not wanted:
            return
        _add(self._free, wanted, -1)
        self._held.append((end, wanted))
        for claim in self._claims:
            if end > claim.time or end == inf:
                _add(claim.beside, wanted, -1)

    def claim(self, wanted: Wanted, earliest: float) -> None:
        """Keeps licenses for a blocked job that cannot start before `earliest`. Names that somebody before
        it waits for are not kept twice: who comes third waits for the first."""
        names = {name for claim in self._claims for name in claim.beside}
        wanted = tuple(license for license in wanted if license.name not in names)
        if not wanted:
            return
        then = {license.name: self._free.get(license.name, 0) for license in wanted}
        time = max(self._now, earliest)
        for end, given in sorted(self._held, key=lambda held: held[0]):
            if end > time and _has(then, wanted):
                break
            time = max(time, end)
            _add(then, tuple(license for license in given if license.name in then), 1)
        if not _has(then, wanted):
            time = inf
        _add(then, wanted, -1)
        self._claims.append(_Claim(time, {name: max(0, count) for name, count in then.items()}))


def _has(free: Mapping[str, int], wanted: Wanted) -> bool:
    """A name that is not in `free` is not kept for anybody there."""
    return all(license.count <= free.get(license.name, license.count) for license in wanted)


def _add(counts: dict[str, int], licenses: Wanted, sign: int) -> None:
    for license in licenses:
        if license.name in counts:
            counts[license.name] += sign * license.count
