"""Reservations: nodes kept for some users or accounts, or for maintenance, for a time; and licenses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from minislurm.domain.ids import NodeName


class ReservationFlag(Enum):
    """What `Flags=` of a reservation may say, in the order in which they are shown.

    Slurm's other flags are not built; the commands refuse them by name.
    """

    MAINT = "MAINT"
    #: Its jobs may start before it, end after it, and run on other nodes too.
    FLEX = "FLEX"
    #: May lie over another reservation.
    OVERLAP = "OVERLAP"
    #: Whatever runs on the nodes at its start goes on.
    IGNORE_JOBS = "IGNORE_JOBS"
    HOURLY = "HOURLY"
    DAILY = "DAILY"
    WEEKDAY = "WEEKDAY"
    WEEKEND = "WEEKEND"
    WEEKLY = "WEEKLY"
    #: Its jobs may run on other nodes too, in its time.
    ANY_NODES = "ANY_NODES"
    #: Jobs that still wait when it is over are not held.
    NO_HOLD_JOBS_AFTER_END = "NO_HOLD_JOBS_AFTER_END"
    #: The nodes were named; otherwise their number was.
    SPEC_NODES = "SPEC_NODES"
    ALL_NODES = "ALL_NODES"


#: Flags that make a reservation come again; at most one of them.
RECURRING = (
    ReservationFlag.HOURLY,
    ReservationFlag.DAILY,
    ReservationFlag.WEEKDAY,
    ReservationFlag.WEEKEND,
    ReservationFlag.WEEKLY,
)


class Reservation(Struct, frozen=True):
    """A reservation in the state. Replaced as a whole when it changes."""

    name: str
    start_time: float
    end_time: float
    nodes: tuple[NodeName, ...] = ()
    #: Both given: a user of an account that are both named. One of the two is always given.
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    #: "" where the nodes were named.
    partition: str = ""
    flags: tuple[ReservationFlag, ...] = ()
    #: Its start has been noted; jobs that wait for it have been looked at.
    begun: bool = False
    #: Of the request that made it: asked again, it makes no second one.
    request_id: str = ""

    def has(self, flag: ReservationFlag) -> bool:
        return flag in self.flags

    def is_active(self, now: float) -> bool:
        return self.start_time <= now < self.end_time

    def admits(self, user_name: str, account: str) -> bool:
        """May this user, charging this account, use it?"""
        if self.users and user_name not in self.users:
            return False
        return not self.accounts or account in self.accounts

    @property
    def recurs(self) -> bool:
        return any(self.has(flag) for flag in RECURRING)

    @property
    def binds_nodes(self) -> bool:
        """Its jobs run on its nodes only."""
        return not (self.has(ReservationFlag.FLEX) or self.has(ReservationFlag.ANY_NODES))

    def windows(self) -> Iterator[tuple[float, float]]:
        """Its times, (start, end): one, or without end those of a recurring reservation."""
        current = self
        yield current.start_time, current.end_time
        while current.recurs:
            current = current.next()
            yield current.start_time, current.end_time

    def touches(self, start: float, end: float) -> bool:
        """Does some time of it lie partly between `start` and `end`?"""
        for begun, over in self.windows():
            if begun >= end:
                return False
            if over > start:
                return True
        return False

    def next(self) -> Reservation:
        """The next time of a recurring reservation, at the same time of day in local time."""
        start = _next_start(self)
        return replace(self, start_time=start, end_time=start + self.end_time - self.start_time, begun=False)


def overlap(one: Reservation, other: Reservation) -> bool:
    """Do any of their times overlap? Two that recur are compared over eight days: all repeat by then."""
    last = max(one.end_time, other.end_time)
    if one.recurs and other.recurs:
        last += 8 * 86400.0
    for start, end in one.windows():
        if start >= last:
            return False
        if other.touches(start, end):
            return True
    return False


def _next_start(reservation: Reservation) -> float:
    if reservation.has(ReservationFlag.HOURLY):
        return reservation.start_time + 3600.0
    moment = datetime.fromtimestamp(reservation.start_time)
    step = 7 if reservation.has(ReservationFlag.WEEKLY) else 1
    while True:
        moment += timedelta(days=step)
        weekend = moment.weekday() >= 5
        if reservation.has(ReservationFlag.WEEKDAY) and weekend:
            continue
        if reservation.has(ReservationFlag.WEEKEND) and not weekend:
            continue
        return moment.timestamp()


class LicenseCount(Struct, frozen=True):
    """So many licenses of one name: what a job asks for."""

    name: str
    count: int = 1


def parse_licenses(text: str) -> tuple[LicenseCount, ...]:
    """``ansys:2,matlab``: names in order, each once. Raises ValueError."""
    counts: dict[str, int] = {}
    for item in text.split(","):
        name, colon, number = item.strip().partition(":")
        if not name or any(c in name for c in " @=*|;"):
            raise ValueError(f"invalid license: {item}")
        if colon and not (number.isascii() and number.isdigit() and len(number) < 7):
            raise ValueError(f"invalid license count: {item}")
        counts[name] = counts.get(name, 0) + (int(number) if colon else 1)
    return tuple(LicenseCount(name, counts[name]) for name in sorted(counts))


def format_licenses(licenses: tuple[LicenseCount, ...]) -> str:
    """``ansys:2,matlab:1``; "" for none."""
    return ",".join(f"{license.name}:{license.count}" for license in licenses)
