"""How many tasks of a request each node could take, and which node is liked best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from minislurm.domain.resources import ResourceRequest
from minislurm.scheduling.domains import Indexes
from minislurm.scheduling.leaves import RoomByLeaf
from minislurm.scheduling.needs import Bounds, wants_gpus
from minislurm.scheduling.nodes import Counts, Inventory, Mask

Where: TypeAlias = "slice | NDArray[np.int64]"

_EVERYWHERE = slice(None)
_SMALL = 256
#: The score's fields: weight above bit 28, GPU node, free GPUs above bit 16, free CPUs.
_WEIGHT_BIT, _GPU_NODE_BIT, _GPUS_BIT = 28, 27, 16
_GPUS_MOST, _CPUS_MOST = (1 << 11) - 1, (1 << 16) - 1


class Room:
    """One request against one or several counts: now, and at the times of the reservations it would reach
    into. What it takes must be there at all of them, so the least of them counts.

    `tasks[i]`: so many tasks fit on node i, at most the request's; 0 where none may go.
    `gpus[i]`: of `gpus_total` so many could come from node i; None where the request does not ask that way.
    `score[i]`: smaller is better.
    """

    __slots__ = (
        "_allowed", "_counts", "_row", "_spread", "bounds", "by_leaf", "free", "gpus", "inventory", "request",
        "score", "tasks",
    )  # fmt: skip

    def __init__(
        self,
        inventory: Inventory,
        request: ResourceRequest,
        bounds: Bounds,
        allowed: Mask,
        counts: Sequence[Counts],
        *,
        spread: bool = False,
    ) -> None:
        self.inventory = inventory
        self.request = request
        self.bounds = bounds
        self._allowed = allowed
        self._counts = counts
        self._spread = spread
        #: The row of the wanted GPU type; -1: of any type; -2: no node has that type.
        self._row = inventory.rows.get(request.gpu_type, -2) if request.gpu_type else -1
        self.free = counts[0] if len(counts) == 1 else _least(counts)
        self.tasks, self.gpus = self._evaluate(_EVERYWHERE)
        self.score = self._score(_EVERYWHERE)
        self.by_leaf = RoomByLeaf(self)

    def refresh(self, changed: Sequence[int]) -> None:
        """After placements on these nodes."""
        if len(self.tasks) <= _SMALL:
            # Cheaper than picking out the changed ones.
            if len(self._counts) > 1:
                self.free = _least(self._counts)
            self.tasks, self.gpus = self._evaluate(_EVERYWHERE)
            self.score = self._score(_EVERYWHERE)
            self.by_leaf = RoomByLeaf(self)
            return
        where = np.array(list(dict.fromkeys(changed)), dtype=np.int64)
        if len(self._counts) > 1:
            least = _least([_at(counts, where) for counts in self._counts])
            self.free.cpus[where] = least.cpus
            self.free.memory_mib[where] = least.memory_mib
            self.free.gpus[:, where] = least.gpus
        self.tasks[where], gpus = self._evaluate(where)
        if self.gpus is not None and gpus is not None:
            self.gpus[where] = gpus
        self.score[where] = self._score(where)
        self.by_leaf.refresh(where)

    def gpu_rows(self, node: int, count: int) -> tuple[int, ...]:
        """`count` GPUs of that node by type, of the wanted type or of whatever types are free."""
        rows = len(self.inventory.type_bits)
        if not count:
            return (0,) * rows
        taken = [0] * rows
        for row in range(rows) if self._row == -1 else (self._row,):
            taken[row] = min(count, max(0, int(self.free.gpus[row, node])))
            count -= taken[row]
        assert not count, "the node has fewer GPUs than its room says"
        return tuple(taken)

    def _evaluate(self, where: Where) -> tuple[Indexes, Indexes | None]:
        request = self.request
        cpus, memory = self.free.cpus[where], self.free.memory_mib[where]
        tasks: Indexes = cpus // request.cpus_per_task if request.cpus_per_task > 1 else cpus
        tasks = np.minimum(tasks, self.bounds.tasks_on_one)
        if request.tasks_per_node:
            tasks = np.minimum(tasks, request.tasks_per_node)
        fits = self._allowed[where]
        if request.cpus_per_node_min > request.cpus_per_task:
            fits = fits & (cpus >= request.cpus_per_node_min)
        if request.memory_per_node_mib:
            fits = fits & (memory >= request.memory_per_node_mib)
        if request.memory_per_cpu_mib:
            cpus_by_memory = memory // request.memory_per_cpu_mib
            tasks = np.minimum(tasks, cpus_by_memory // request.cpus_per_task)
            if request.cpus_per_node_min > request.cpus_per_task:
                fits = fits & (cpus_by_memory >= request.cpus_per_node_min)
        gpus: Indexes | None = None
        if wants_gpus(request):
            tasks, fits, gpus = self._evaluate_gpus(where, tasks, fits, memory)
        if request.exclusive:
            fits = fits & self._is_empty(where)
        return np.where(fits, tasks, 0), gpus if request.gpus_total else None

    def _evaluate_gpus(
        self, where: Where, tasks: Indexes, fits: Mask, memory: Indexes
    ) -> tuple[Indexes, Mask, Indexes]:
        request = self.request
        gpus = self._free_gpus(where)
        if request.memory_per_gpu_mib:
            gpus = np.minimum(gpus, memory // request.memory_per_gpu_mib)
        if request.gpus_per_task:
            tasks = np.minimum(tasks, gpus // request.gpus_per_task)
        least = max(request.gpus_per_node, 1 if request.gpus_total else 0)
        return tasks, fits & (gpus >= least), np.minimum(gpus, request.gpus_total)

    def _free_gpus(self, where: Where) -> Indexes:
        gpus = self.free.gpus[:, where]
        if self._row >= 0:
            row: Indexes = gpus[self._row]
            return row
        if self._row == -2 or not len(gpus):
            return np.zeros_like(self.free.cpus[where])
        # A row can be below zero for a time that later reservations are laid over.
        return gpus[0] if len(gpus) == 1 else np.asarray(np.maximum(gpus, 0).sum(axis=0))

    def _is_empty(self, where: Where) -> Mask:
        total = self.inventory.total
        empty: Mask = (self.free.cpus[where] == total.cpus[where]) & (
            self.free.memory_mib[where] == total.memory_mib[where]
        )
        if len(total.gpus):
            empty = empty & (self.free.gpus[:, where] == total.gpus[:, where]).all(axis=0)
        return empty

    def _score(self, where: Where) -> Indexes:
        inventory, now = self.inventory, self._counts[0]
        cpus = np.minimum(now.cpus[where], _CPUS_MOST)
        score: Indexes = (inventory.weight[where] << _WEIGHT_BIT) + (
            _CPUS_MOST - cpus if self._spread else cpus
        )
        if len(inventory.type_bits):
            gpus = np.minimum(now.gpus[:, where].sum(axis=0), _GPUS_MOST)
            score += (_GPUS_MOST - gpus if self._spread else gpus) << _GPUS_BIT
            if not wants_gpus(self.request):
                score += inventory.has_gpus[where].astype(np.int64) << _GPU_NODE_BIT
        return score


def _least(counts: Sequence[Counts]) -> Counts:
    least = counts[0].copy()
    for other in counts[1:]:
        np.minimum(least.cpus, other.cpus, out=least.cpus)
        np.minimum(least.memory_mib, other.memory_mib, out=least.memory_mib)
        np.minimum(least.gpus, other.gpus, out=least.gpus)
    return least


def _at(counts: Counts, where: Indexes) -> Counts:
    return Counts(counts.cpus[where], counts.memory_mib[where], counts.gpus[:, where])
