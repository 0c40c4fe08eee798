"""What a pass asks where a job may have several components: where could it be at some time, and why does it
wait? (`components.py` has the answers.)"""

from __future__ import annotations

from minislurm.scheduling.backfill import Backfill, end_of
from minislurm.scheduling.components import MakeRoom, claims_of, fit_now, fit_then
from minislurm.scheduling.filters import Filters
from minislurm.scheduling.model import PRIORITY, RESOURCES, RequestClass, Wait
from minislurm.scheduling.nodes import Counts, NodeTable, Share
from minislurm.scheduling.openings import Openings
from minislurm.scheduling.place import choose
from minislurm.scheduling.reservations import Times
from minislurm.scheduling.rooms import RoomMaker
from minislurm.scheduling.workspace import Candidate

_NO_ROOM = "component {} of the heterogeneous job finds no room beside those before it"


class Together:
    def __init__(
        self,
        now: float,
        table: NodeTable,
        filters: Filters,
        openings: Openings,
        backfill: Backfill,
        room_in: RoomMaker,
    ) -> None:
        self._now = now
        self._table = table
        self._filters = filters
        self._openings = openings
        self._backfill = backfill
        self._room_in = room_in

    def find(self, candidate: Candidate) -> list[list[Share]] | None:
        """Where each component can start now without delaying a reservation; None: not all can."""
        components = candidate.components
        if not self._openings.has_licenses(claims_of(components)):
            return None
        return fit_now(components, self._table, self._reached_by, self._room_at(self._now))

    def shares(self, candidate: Candidate, counts: list[Counts], time: float) -> list[Share] | None:
        """Where a job of the class could be then, all its components together; None: it does not fit."""
        if not candidate.parts:
            return choose(self._room_at(time)(candidate, counts))
        fit = fit_then(candidate.components, counts, self._room_at(time))
        return fit.shares if fit.missing is None else None

    def segments(self, jobs: RequestClass, times: Times) -> list[int]:
        """Within each of these no node closes, to none of the components (`Openings.segments`)."""
        classes = (jobs, *jobs.parts)
        return sorted({index for one in classes for index in self._openings.segments(one, times)})

    def why(self, candidate: Candidate, end: float, *, explains: bool) -> Wait:
        """Why a heterogeneous job waits: Resources, not even if it were first; Priority, it would fit.
        Explained, with the first component that finds no room, and what nodes lack for it."""
        components, free, room = candidate.components, self._table.free, self._room_at(self._now)
        fit = fit_then(components, [free], room)
        wait = PRIORITY
        if fit.missing is not None:
            wait = RESOURCES
            if not self._openings.are_trivial and fit_then(components, [free], self._room_in).missing is None:
                jobs = components[fit.missing].jobs
                wait = Wait(self._openings.reason(jobs, self._filters.allowed(jobs)))
        elif explains:
            fit = fit_then(components, [free, *self._backfill.reached_by(end)], room)
        if not explains or fit.missing is None:
            return wait
        one = components[fit.missing]
        rejected = self._filters.rejected(one.jobs, fit.left[0], room(one, fit.left))
        return Wait(wait.reason, rejected, detail=_NO_ROOM.format(fit.missing))

    def _reached_by(self, jobs: RequestClass) -> list[Counts]:
        return self._backfill.reached_by(end_of(self._now, jobs.time_limit_s))

    def _room_at(self, time: float) -> MakeRoom:
        return lambda one, counts: self._room_in(one, counts, self._openings.allowed(one.jobs, time))
