"""How many tasks of a request each node could take, and which node is liked best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minislurm.domain.resources import ResourceRequest
from minislurm.scheduling.domains import Indexes
from minislurm.scheduling.leaves import RoomByLeaf
from minislurm.scheduling.needs import Bounds, share_on_node, wants_gpus
from minislurm.scheduling.nodes import WHOLE, Counts, Inventory, Mask, Where
from minislurm.scheduling.strategies import BINPACK, Strategy

_EVERYWHERE = slice(None)
_SMALL = 256


class Room:
    """One request against one or several counts: now, and at the times of the reservations it would reach
    into. What it takes must be there at all of them, so the least of them counts.

    `tasks[i]`: so many tasks fit on node i, at most the request's; 0 where none may go.
    `gpus[i]`: of `gpus_total` so many could come from node i; None where the request does not ask that way.
    """

    __slots__ = (
        "_allowed", "_row", "_rows", "_strategy", "bounds", "by_leaf", "counts", "free", "gpus", "inventory",
        "request", "tasks",
    )  # fmt: skip

    def __init__(
        self,
        inventory: Inventory,
        request: ResourceRequest,
        bounds: Bounds,
        allowed: Mask,
        counts: Sequence[Counts],
        *,
        strategy: Strategy = BINPACK,
    ) -> None:
        self.inventory = inventory
        self.request = request
        self.bounds = bounds
        self._allowed = allowed
        self.counts = counts
        self._strategy = strategy
        #: The row of the wanted GPU type; -1: of any type; -2: no node has that type; -3: see `_rows`.
        self._row = inventory.rows.get(request.gpu_type, -2) if request.gpu_type else -1
        self._rows: Mask | None = None
        if "|" in request.gpu_type or request.gpu_memory_min_mib or request.gpu_capability_min:
            self._row = -3
            self._rows = inventory.rows_for(
                request.gpu_type, request.gpu_memory_min_mib, request.gpu_capability_min
            )
        self.free = counts[0] if len(counts) == 1 else _least(counts)
        self.tasks, self.gpus = self._evaluate(_EVERYWHERE)
        self.by_leaf = RoomByLeaf(self)

    def refresh(self, where: Indexes) -> None:
        """After placements on these nodes, none of them twice."""
        if len(self.tasks) <= _SMALL:
            # Cheaper than picking out the changed ones.
            if len(self.counts) > 1:
                self.free = _least(self.counts)
            self.tasks, self.gpus = self._evaluate(_EVERYWHERE)
            self.by_leaf = RoomByLeaf(self)
            return
        if len(self.counts) > 1:
            least = _least([_at(counts, where) for counts in self.counts])
            self.free.cpus[where] = least.cpus
            self.free.memory_mib[where] = least.memory_mib
            self.free.gpus[:, where] = least.gpus
        tasks, gpus = self._evaluate(where)
        self.tasks[where] = tasks
        if self.gpus is not None and gpus is not None:
            self.gpus[where] = gpus
        self.by_leaf.refresh(where, tasks, gpus)

    def scores(self, where: Where) -> Indexes:
        """Of these nodes, as the strategy has it; smaller is better. Not kept: most gangs only ask about the
        nodes of one leaf."""
        return self._strategy.scores(self, where)

    def gpu_rows(self, node: int, count: int) -> tuple[int, ...]:
        """`count` GPUs of that node by type, of the wanted type or of whatever types are free."""
        rows = len(self.inventory.type_bits)
        if not count:
            return (0,) * rows
        taken = [0] * rows
        for row in self._rows_on(node):
            taken[row] = min(count, max(0, int(self.free.gpus[row, node])))
            count -= taken[row]
        assert not count, "the node has fewer GPUs than its room says"
        return tuple(taken)

    def part_of_gpu(self, node: int, milli: int) -> tuple[int, tuple[int, ...]]:
        """Which GPU of that node a share comes from, -1 for one that is free as a whole; and its type, as
        `gpu_rows` has it for one GPU."""
        where = np.array([node], dtype=np.int64)
        parts = self.parts_left(where)[0]
        gpu = self._strategy.gpu(self, node, parts, milli)
        if gpu is None:
            # The tightest fit.
            fitting = np.flatnonzero(parts >= milli)
            gpu = int(fitting[parts[fitting].argmin()]) if len(fitting) else -1
        if gpu < 0:
            return -1, self.gpu_rows(node, 1)
        row = int(self.inventory.gpu_row[node, gpu])
        return gpu, tuple(int(other == row) for other in range(len(self.inventory.type_bits)))

    def parts_left(self, where: Where) -> Indexes:
        """Thousandths that are left of the GPUs in shared use now, by node and GPU: what is there at all the
        times that count. 0 for GPUs that are not in shared use or of another type."""
        shared = self.counts[0].shared[where]
        rows = self.inventory.gpu_row[where]
        left: Indexes = np.where(shared > 0, WHOLE - shared, 0)
        if not left.any():
            return left
        for later in self.counts[1:]:
            then = later.shared[where]
            # By then its users may have left it; then it is one of those free as a whole.
            whole = np.take_along_axis(later.gpus[:, where].T, np.maximum(rows, 0), axis=1) > 0
            left = np.minimum(left, np.where(then > 0, WHOLE - then, np.where(whole, WHOLE, 0)))
        if self._row >= 0:
            left = np.where(rows == self._row, left, 0)
        elif self._rows is not None:
            fits = np.take_along_axis(self._rows[:, where].T, np.maximum(rows, 0), axis=1)
            left = np.where(fits, left, 0)
        return left if self._row != -2 else np.zeros_like(left)

    def _rows_on(self, node: int) -> Sequence[int]:
        if self._rows is not None:
            return [int(row) for row in np.flatnonzero(self._rows[:, node])]
        return range(len(self.inventory.type_bits)) if self._row == -1 else (self._row,)

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
        if request.gpu_share_milli:
            tasks = np.minimum(tasks, self._tasks_on_a_gpu(where))
        if request.exclusive:
            fits = fits & self._is_empty(where)
        return tasks * fits, gpus if request.gpus_total else None

    def _evaluate_gpus(
        self, where: Where, tasks: Indexes, fits: Mask, memory: Indexes
    ) -> tuple[Indexes, Mask, Indexes]:
        request = self.request
        gpus = self.whole_gpus(where)
        if request.memory_per_gpu_mib:
            gpus = np.minimum(gpus, memory // request.memory_per_gpu_mib)
        if request.gpus_per_task:
            tasks = np.minimum(tasks, gpus // request.gpus_per_task)
        least = max(request.gpus_per_node, 1 if request.gpus_total else 0)
        fits = fits & (gpus >= least)
        return tasks, fits, np.minimum(gpus, request.gpus_total) if request.gpus_total else gpus

    def _tasks_on_a_gpu(self, where: Where) -> Indexes:
        """All tasks of a node share one GPU."""
        most = np.where(self.whole_gpus(where) > 0, WHOLE, 0)
        parts = self.parts_left(where)
        if parts.shape[1]:
            most = np.maximum(most, parts.max(axis=1))
        one = share_on_node(self.request, 1)
        tasks: Indexes = most // one
        return np.where(tasks > 0, self.bounds.tasks_on_one, 0) if self.request.gpu_share_of_node else tasks

    def whole_gpus(self, where: Where) -> Indexes:
        """GPUs of a type that will do, free as a whole."""
        gpus = self.free.gpus
        if self._rows is not None:
            return np.asarray((np.maximum(gpus[:, where], 0) * self._rows[:, where]).sum(axis=0))
        if self._row == -2 or not len(gpus):
            return np.zeros_like(self.free.cpus[where])
        if self._row >= 0 or len(gpus) == 1:
            row: Indexes = gpus[max(self._row, 0)][where]
            return row
        # A row can be below zero for a time that later reservations are laid over.
        return np.asarray(np.maximum(gpus[:, where], 0).sum(axis=0))

    def _is_empty(self, where: Where) -> Mask:
        total = self.inventory.total
        empty: Mask = (self.free.cpus[where] == total.cpus[where]) & (
            self.free.memory_mib[where] == total.memory_mib[where]
        )
        if len(total.gpus):
            empty = empty & (self.free.gpus[:, where] == total.gpus[:, where]).all(axis=0)
        return empty


def _least(counts: Sequence[Counts]) -> Counts:
    least = counts[0].copy()
    for other in counts[1:]:
        np.minimum(least.cpus, other.cpus, out=least.cpus)
        np.minimum(least.memory_mib, other.memory_mib, out=least.memory_mib)
        np.minimum(least.gpus, other.gpus, out=least.gpus)
    return least


def _at(counts: Counts, where: Indexes) -> Counts:
    return Counts(counts.cpus[where], counts.memory_mib[where], counts.gpus[:, where], counts.shared[where])
