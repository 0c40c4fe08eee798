"""What may keep a job from nodes that have room: reservations, other users' jobs, missing licenses.

The one object that a pass asks about all three; without any of them every answer is None, at no cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from minislurm.domain.states import Reason
from minislurm.scheduling.licenses import Licenses
from minislurm.scheduling.model import RequestClass, Snapshot, Wait
from minislurm.scheduling.nodes import Inventory, Mask, Share
from minislurm.scheduling.reservations import Calendar, Times
from minislurm.scheduling.tenants import Tenants


class Openings:
    def __init__(self, inventory: Inventory, snapshot: Snapshot) -> None:
        self._now = snapshot.now
        self._calendar = Calendar(inventory, snapshot.reservations, snapshot.now)
        self._tenants = Tenants(inventory, snapshot.running, snapshot.now)
        self._licenses = Licenses(snapshot.licenses, snapshot.running, snapshot.now)

    @property
    def version(self) -> int:
        """Changes whenever a placement may change what `allowed` says."""
        return self._tenants.version

    @property
    def users_matter(self) -> bool:
        """May classes of different users find different nodes? Known when all classes have been seen."""
        return self._tenants.matter

    def misfit(self, jobs: RequestClass) -> Reason | None:
        """Why nothing of the class can start before its reservation says so. Asked once for every class."""
        self._tenants.see(jobs)
        return self._calendar.misfit(jobs)

    def has_licenses(self, jobs: RequestClass) -> bool:
        wanted = jobs.request.licenses
        return not wanted or self._licenses.suffice(wanted, self._now + duration_of(jobs))

    def license_wait(self, jobs: RequestClass) -> Wait | None:
        """For a class that lacks licenses: it holds up nobody, but keeps those that it waits for."""
        if self.has_licenses(jobs):
            return None
        self._licenses.claim(jobs.request.licenses, self._now)
        return Wait(Reason.LICENSES)

    def allowed(self, jobs: RequestClass, start: float) -> Mask | None:
        """Nodes on which a job of the class could be if it started then; None: all."""
        end = start + duration_of(jobs)
        reserved = self._calendar.allowed(jobs, start, end)
        shared = self._tenants.allowed(jobs, start, end)
        if reserved is None or shared is None:
            return shared if reserved is None else reserved
        both: Mask = reserved & shared
        return both

    def reason(self, jobs: RequestClass, wanted: Mask) -> Reason:
        """Of a class that would fit now if it had these nodes to itself."""
        found = self._calendar.reason(jobs, wanted, self._now + duration_of(jobs))
        return found or Reason.RESOURCES

    def started(self, jobs: RequestClass, shares: Iterable[Share]) -> None:
        end = self._now + duration_of(jobs)
        self._tenants.add(jobs, shares, self._now, end)
        self._licenses.take(jobs.request.licenses, end)

    def planned(self, jobs: RequestClass, shares: Iterable[Share], time: float) -> None:
        """A head is to start there and then: whoever starts before it leaves it what it needs besides."""
        self._tenants.add(jobs, shares, time, inf)
        self._licenses.claim(jobs.request.licenses, time)

    # For the search of an earliest start

    def edges(self) -> list[float]:
        """Times besides the ends of jobs at which something may become possible."""
        return self._calendar.edges()

    def segments(self, jobs: RequestClass, times: Times) -> list[int]:
        """See `Calendar.segments`."""
        return self._calendar.segments(jobs, times, duration_of(jobs))


def duration_of(jobs: RequestClass) -> float:
    """Seconds that a job of the class may take; infinity without a limit."""
    return jobs.time_limit_s or inf
