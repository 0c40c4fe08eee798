"""Which nodes a class may use when, because of reservations.

A job that is no reservation's may not be on reserved nodes in the reservation's time: its limit decides, and
without one it never ends. A reservation's jobs may use its nodes only, in its time only, unless it is
flexible (Slurm's FLEX). The nodes that a class may use change at the edges of these times, in both
directions, so a search for the earliest start goes from one such time to the next (`segments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from minislurm.domain.states import Reason
from minislurm.scheduling.model import RequestClass, ReservedNodes
from minislurm.scheduling.nodes import Inventory, Mask

Times = NDArray[np.float64]


class _Held(Struct, frozen=True):
    """A reservation with its nodes as a mask, and its times."""

    reserved: ReservedNodes
    nodes: Mask
    starts: Times
    ends: Times

    def touches(self, start: float, end: float) -> bool:
        return bool(((self.starts < end) & (self.ends > start)).any())

    def end_at(self, time: float) -> float | None:
        """When the window ends that is open then; None: none is."""
        is_open = (self.starts <= time) & (time < self.ends)
        return float(self.ends[is_open][0]) if is_open.any() else None


class Calendar:
    """The reservations of a snapshot, over the nodes of its inventory."""

    def __init__(self, inventory: Inventory, reservations: Sequence[ReservedNodes], now: float) -> None:
        self._size = len(inventory)
        self._now = now
        self._held = {reserved.name: _held(reserved, inventory) for reserved in reservations}

    def __bool__(self) -> bool:
        return bool(self._held)

    def misfit(self, jobs: RequestClass) -> Reason | None:
        """Why its own reservation lets the class start nothing now: it is gone, not its, or not begun."""
        name = jobs.request.reservation
        if not name:
            return None
        own = self._held.get(name)
        if own is None:
            return Reason.RESERVATION
        reserved = own.reserved
        if (reserved.users and jobs.user_name not in reserved.users) or (
            reserved.accounts and jobs.account not in reserved.accounts
        ):
            return Reason.RESERVATION
        closed = reserved.binds_time and own.end_at(self._now) is None
        return Reason.RESERVATION if closed else None

    def allowed(self, jobs: RequestClass, start: float, end: float) -> Mask | None:
        """Nodes on which a job of the class may be from `start` to `end`; None: on all."""
        if not self._held:
            return None
        own = self._held.get(jobs.request.reservation)
        mask: Mask = np.ones(self._size, dtype=np.bool_)
        if own is not None:
            if own.reserved.binds_time:
                over = own.end_at(start)
                if over is None:
                    return np.zeros(self._size, dtype=np.bool_)
                end = min(end, over)
            if own.reserved.binds_nodes:
                mask = own.nodes.copy()
            if own.reserved.overrides:
                return mask
        for held in self._held.values():
            if held is not own and held.touches(start, end):
                mask &= ~held.nodes
        return mask

    def reason(self, jobs: RequestClass, wanted: Mask, end: float) -> Reason | None:
        """What keeps a job off nodes that it would otherwise have now; None: no reservation does."""
        own = self._held.get(jobs.request.reservation)
        found: Reason | None = None
        for held in self._held.values():
            if held is own or not held.touches(self._now, end) or not (held.nodes & wanted).any():
                continue
            if held.reserved.maintenance:
                return Reason.MAINTENANCE
            found = Reason.NODES_RESERVED
        return found

    def edges(self) -> list[float]:
        """Starts and ends to come."""
        times = [edge for held in self._held.values() for w in held.reserved.windows for edge in w]
        return [time for time in times if self._now < time < inf]

    def segments(self, jobs: RequestClass, times: Times, duration_s: float) -> list[int]:
        """Indexes of `times` (ascending) at which the nodes that the class may use begin to differ from
        those before; the first is 0. Between two of them only more and more becomes free."""
        if not self._held:
            return [0]
        changes = np.zeros(len(times), dtype=np.bool_)
        changes[:1] = True
        for held in self._held.values():
            is_own = held.reserved.name == jobs.request.reservation
            for start, end in held.reserved.windows:
                # Its own jobs: in its time. Others: when the job would end after its start, before its end.
                first = start if is_own else start - duration_s
                inside = (times >= first if is_own else times > first) & (times < end)
                changes[1:] |= inside[1:] != inside[:-1]
        return [int(i) for i in np.flatnonzero(changes)]


def _held(reserved: ReservedNodes, inventory: Inventory) -> _Held:
    nodes: Mask = np.zeros(len(inventory), dtype=np.bool_)
    nodes[[inventory.index[name] for name in reserved.nodes if name in inventory.index]] = True
    windows = np.array(reserved.windows, dtype=np.float64).reshape(-1, 2)
    return _Held(reserved, nodes, windows[:, 0], windows[:, 1])
