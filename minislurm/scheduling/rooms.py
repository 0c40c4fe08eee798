"""How the rooms of a pass are made, and those of the requests that were in turn last, kept up to date with
placements instead of made anew."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from minislurm.scheduling.changes import Changes
from minislurm.scheduling.filters import Filters
from minislurm.scheduling.nodes import Counts, Inventory, Mask
from minislurm.scheduling.room import Room
from minislurm.scheduling.strategies import Strategies
from minislurm.scheduling.workspace import Candidate

#: Bytes by which the memory of kept rooms is bounded, and what one takes for each node.
_BYTES, _BYTES_A_NODE = 48 << 20, 64


class RoomMaker:
    """The way of one pass, for single jobs and for components alike."""

    def __init__(self, inventory: Inventory, filters: Filters, strategies: Strategies) -> None:
        self._inventory = inventory
        self._filters = filters
        self._strategies = strategies

    def __call__(self, candidate: Candidate, counts: list[Counts], open_nodes: Mask | None = None) -> Room:
        """`open_nodes`: what reservations and other users leave at that time; None: all."""
        jobs, allowed = candidate.jobs, self._filters.allowed(candidate.jobs)
        if open_nodes is not None:
            allowed = allowed & open_nodes
        strategy = self._strategies.of(jobs)
        return Room(self._inventory, jobs.request, candidate.bounds, allowed, counts, strategy=strategy)


class Rooms:
    """`changes`: those of the pass; they grow. `nodes`: of the cluster."""

    def __init__(self, changes: Changes, nodes: int) -> None:
        self._changes = changes
        self._most = max(4, _BYTES // (_BYTES_A_NODE * max(1, nodes)))
        #: With the number of changes that each has seen; the one used last is the last.
        self._kept: OrderedDict[Hashable, tuple[Room, int]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Room]) -> Room:
        """The room known by `key` as it is now. `make` sees everything that was changed so far."""
        kept = self._kept.pop(key, None)
        if kept is None:
            room = make()
            if len(self._kept) >= self._most:
                self._kept.popitem(last=False)
        else:
            room, seen = kept
            if seen < len(self._changes):
                room.refresh(self._changes.since(seen))
        self._kept[key] = (room, len(self._changes))
        return room
