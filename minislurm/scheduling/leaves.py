"""A room's amounts by leaf domain, kept up to date with placements, so that a gang looks at racks and not at
every node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from minislurm.scheduling.domains import Indexes, Layout
from minislurm.scheduling.nodes import Where

if TYPE_CHECKING:
    from minislurm.scheduling.room import Room

#: The cost of a node that may not be taken.
NEVER = 1 << 62


class Sums:
    """Of an amount by node: the sum of each leaf."""

    __slots__ = ("_leaf_of_node", "by_leaf", "by_node")

    def __init__(self, layout: Layout, by_node: Indexes) -> None:
        self._leaf_of_node = layout.leaf_of_node
        self.by_node = by_node
        some = np.flatnonzero(by_node)
        sums = np.bincount(layout.leaf_of_node[some], weights=by_node[some], minlength=layout.leaf_count)
        self.by_leaf: Indexes = sums.astype(np.int64)

    def set(self, where: Indexes, amounts: Indexes) -> None:
        """`where`: nodes, none of them twice."""
        change = amounts - self.by_node[where]
        self.by_node[where] = amounts
        np.add.at(self.by_leaf, self._leaf_of_node[where], change)


class Least:
    """Of a cost by node: the least of each leaf."""

    __slots__ = ("_by_leaf", "_layout", "by_node")

    def __init__(self, layout: Layout, by_node: Indexes) -> None:
        self._layout = layout
        self.by_node = by_node
        self._by_leaf: Indexes | None = None

    @property
    def by_leaf(self) -> Indexes:
        """Made when it is first asked for: where there is one leaf, nobody does."""
        if self._by_leaf is None:
            self._by_leaf = self._layout.least_of(self.by_node)
        return self._by_leaf

    def set(self, where: Indexes, costs: Indexes) -> None:
        self.by_node[where] = costs
        if self._by_leaf is None:
            return
        leaves = self._layout.leaf_of_node[where]
        self._by_leaf[leaves] = self._layout.least_of(self.by_node, leaves)


class RoomByLeaf:
    """What the placement of a room's gang asks of its leaves; made when it is first asked for."""

    __slots__ = ("_amount", "_cost", "_even", "_room", "_whole")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._even: Sums | None = None
        self._amount: Sums | None = None
        self._cost: Least | None = None
        self._whole: Sums | None = None

    @property
    def is_new(self) -> bool:
        """Nothing was asked for so far."""
        return self._even is None and self._amount is None and self._cost is None

    @property
    def even(self) -> Sums:
        """1 for each node that takes its part where `nodes_max` nodes share evenly."""
        if self._even is None:
            room = self._room
            self._even = Sums(room.inventory.layout, self._takes_its_part(room.tasks, room.gpus))
        return self._even

    @property
    def amount(self) -> Sums:
        """GPUs, if the request counts these, else tasks."""
        if self._amount is None:
            room = self._room
            self._amount = Sums(room.inventory.layout, self._gives(room.tasks, room.gpus).copy())
        return self._amount

    @property
    def cost(self) -> Least:
        """The score of each node that takes the whole gang."""
        if self._cost is None:
            room = self._room
            self._cost = Least(room.inventory.layout, self._costs(slice(None), room.tasks, room.gpus))
        return self._cost

    @property
    def whole(self) -> Sums:
        """1 for each node that takes the whole gang."""
        if self._whole is None:
            self._whole = Sums(self._room.inventory.layout, (self.cost.by_node < NEVER).astype(np.int64))
        return self._whole

    def refresh(self, where: Indexes, tasks: Indexes, gpus: Indexes | None) -> None:
        """After the room has changed on these nodes, none of them twice, to these amounts."""
        if self._even is not None:
            self._even.set(where, self._takes_its_part(tasks, gpus))
        if self._amount is not None:
            self._amount.set(where, self._gives(tasks, gpus))
        if self._cost is not None:
            costs = self._costs(where, tasks, gpus)
            self._cost.set(where, costs)
            if self._whole is not None:
                self._whole.set(where, (costs < NEVER).astype(np.int64))

    def _takes_its_part(self, tasks: Indexes, gpus: Indexes | None) -> Indexes:
        room, count = self._room, self._room.bounds.nodes_max
        takes: NDArray[np.bool_] = tasks >= -(-room.bounds.tasks_of(count) // count)
        if gpus is not None:
            takes &= gpus >= -(-room.request.gpus_total // count)
        return takes.astype(np.int64)

    @staticmethod
    def _gives(tasks: Indexes, gpus: Indexes | None) -> Indexes:
        return tasks if gpus is None else (tasks > 0) * gpus

    def _costs(self, where: Where, tasks: Indexes, gpus: Indexes | None) -> Indexes:
        room = self._room
        fits: NDArray[np.bool_] = tasks >= room.bounds.tasks
        if gpus is not None:
            fits &= gpus >= room.request.gpus_total
        return np.where(fits, room.scores(where), NEVER)
