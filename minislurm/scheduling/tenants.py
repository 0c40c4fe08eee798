"""``--exclusive=user``: nodes that are shared only by jobs of one user.

A job that asks for it goes where nobody else's jobs are, and while it is there nobody else's may join it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

import numpy as np
from msgspec import Struct

from minislurm.scheduling.model import RequestClass, RunningJob
from minislurm.scheduling.nodes import Inventory, Mask, Share


class _Stay(Struct, frozen=True):
    """A run, or what is reserved for a head, on some nodes from `start` to `end`."""

    user_id: int
    alone: bool
    nodes: tuple[int, ...]
    start: float
    end: float

    def bars(self, user_id: int, alone: bool) -> bool:
        return self.user_id != user_id and (self.alone or alone)


class Tenants:
    """Whose jobs are where, and until when."""

    def __init__(self, inventory: Inventory, running: Sequence[RunningJob], now: float) -> None:
        self._inventory = inventory
        self._running = running
        self._now = now
        self._stays: list[_Stay] = []
        #: Does the user of a job matter at all in this pass? Known when all classes have been seen.
        self.matter = False
        if True in [run.exclusive_user for run in running]:
            self._look()

    def see(self, jobs: RequestClass) -> None:
        """Called for every class, before the first is placed."""
        if _is_alone(jobs) and not self.matter:
            self._look()

    def _look(self) -> None:
        self.matter = True
        index = self._inventory.index
        for run in self._running:
            nodes = tuple(index[part.node] for part in run.allocation if part.node in index)
            end = max(run.end_time, self._now)
            self._stays.append(_Stay(run.user_id, run.exclusive_user, nodes, self._now, end))

    @property
    def version(self) -> int:
        return len(self._stays)

    def add(self, jobs: RequestClass, shares: Iterable[Share], start: float, end: float) -> None:
        """A placement of this pass, or what a head is to get."""
        if self.matter:
            nodes = tuple(share.node for share in shares)
            self._stays.append(_Stay(jobs.user_id, _is_alone(jobs), nodes, start, end))

    def allowed(self, jobs: RequestClass, start: float, end: float) -> Mask | None:
        """Nodes that the class may share with whoever is there from `start` to `end`; None: all."""
        if not self.matter:
            return None
        mask: Mask = np.ones(len(self._inventory), dtype=np.bool_)
        for stay in self._stays:
            # Later than now a head's place counts from the start, so that with time only more becomes free.
            before = stay.start >= end and start == self._now
            # A run past its limit is about to end, but still there.
            here = stay.end > start or stay.end == inf or start == self._now
            here = here and not before
            if here and stay.bars(jobs.user_id, _is_alone(jobs)):
                mask[list(stay.nodes)] = False
        return mask


def _is_alone(jobs: RequestClass) -> bool:
    return jobs.request.exclusive_user is not None
