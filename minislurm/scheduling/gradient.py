"""Placement by the steepest descent of fragmentation (FGD): each job goes where it spoils least.

Source: Q. Weng et al., USENIX ATC'23; the measure itself is in `fragmentation.py`.

Scores of a request are kept and only those of nodes that have changed are worked out again; nodes in the same
state share one computation. Thus thousands of jobs of some hundred kinds cost little more than the hundred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from minislurm.scheduling.domains import Indexes
from minislurm.scheduling.fragmentation import Floats, Fragmentation, gradient_score, most_frequent
from minislurm.scheduling.model import RequestClass, Snapshot, TypicalRequest
from minislurm.scheduling.needs import bounds_of, cpus_on_node, gpus_on_node, share_on_node
from minislurm.scheduling.nodes import WHOLE, Mask, NodeTable, Where
from minislurm.scheduling.strategies import RANK_BITS, Ranked, amounts_on_node

if TYPE_CHECKING:
    from minislurm.scheduling.room import Room

#: Node states compared at once: bounds the memory of a batch.
_BATCH = 2000
#: Fewer states than this are not worth being compared.
_FEW = 500
#: How much a thousandth without CPUs counts beside one that is fragmented, in "fgd-balanced": anything from
#: 0.5 to 4 does about the same.
_STRANDED = 2.0
#: Above the node's place in the order of names.
_SCORE_BIT = 20
#: Bytes by which the memory of kept scores is bounded, and what those of one request take for each node.
_BYTES, _BYTES_A_NODE = 48 << 20, 16
#: So many typical requests are enough, even where all are different.
_MOST = 500
#: Jobs counted between two yields: about a millisecond.
_PIECE = 300


class _Kept(Struct):
    """The scores of one request: 0 to 100 by node, the GPU that a share would come from (-1: a whole one),
    and how many of the table's changes they have seen."""

    score: Indexes
    gpu: Indexes
    seen: int


class Gradient(Ranked):
    """The highest score first; of equals the node whose name comes first.

    `balanced`: what the node's CPUs could not serve counts as lost, too (see `Fragmentation`).
    """

    def __init__(
        self, table: NodeTable, typical: Iterable[TypicalRequest], *, balanced: bool = False
    ) -> None:
        inventory = table.inventory
        self._table = table
        weight = _STRANDED if balanced else 0.0
        self._measure = Fragmentation(tuple(typical), tuple(inventory.rows) or ("",), stranded=weight)
        self._exists = inventory.gpu_row >= 0
        #: The first GPU's type stands for the node's.
        first = inventory.gpu_row[:, 0] if inventory.gpu_row.shape[1] else np.full(len(inventory), -1)
        self._type = np.maximum(first, 0)
        self._place = inventory.place_by_name
        self._left = np.zeros_like(inventory.gpu_row)
        self._seen = len(table.changes)
        self._look_at(range(len(inventory)))
        self._kept: dict[tuple[object, ...], _Kept] = {}
        self._most = max(4, _BYTES // (_BYTES_A_NODE * max(1, len(inventory))))

    def rank(self, room: Room, where: Where) -> Indexes:
        kept = self._scores(room)
        rank: Indexes = (100 - kept.score[where]) << _SCORE_BIT
        rank += self._place[where]
        return np.minimum(rank, (1 << RANK_BITS) - 1)

    def gpu(self, room: Room, node: int, parts: Indexes, milli: int) -> int | None:
        gpu = int(self._scores(room).gpu[node])
        if gpu >= 0 and parts[gpu] >= milli:
            return gpu
        # A whole one, unless a reservation needs that, or the amount differs from what was scored.
        return -1 if gpu < 0 and room.whole_gpus(np.array([node]))[0] > 0 else None

    # --- what is kept ------------------------------------------------------------------------------------

    def _scores(self, room: Room) -> _Kept:
        changes = self._table.changes
        if self._seen < len(changes):
            self._look_at(changes.since(self._seen).tolist())
            self._seen = len(changes)
        request = room.request
        amounts = amounts_on_node(room)
        key = (*amounts, request.gpu_type, request.gpu_memory_min_mib, request.gpu_capability_min)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= self._most:
                del self._kept[next(iter(self._kept))]
            score, gpu = self._score(room, amounts, np.arange(len(self._type)))
            kept = self._kept[key] = _Kept(score, gpu, len(changes))
        elif kept.seen < len(changes):
            where = changes.since(kept.seen)
            kept.score[where], kept.gpu[where] = self._score(room, amounts, where)
            kept.seen = len(changes)
        return kept

    def _look_at(self, nodes: Sequence[int]) -> None:
        """What is left of the GPUs of these nodes."""
        used = self._table.free.shared[nodes]
        width = used.shape[1]
        size = -(-width // 8)
        every = b"".join([self._table.gpu_bits[node].to_bytes(size, "little") for node in nodes])
        by_byte = np.frombuffer(every, dtype=np.uint8).reshape(len(nodes), size)
        free = np.unpackbits(by_byte, axis=1, count=width, bitorder="little")
        self._left[nodes] = np.where(used > 0, WHOLE - used, free.astype(np.int64) * WHOLE)

    # --- scores ------------------------------------------------------------------------------------------

    def _score(self, room: Room, amounts: tuple[int, int, int], nodes: Indexes) -> tuple[Indexes, Indexes]:
        """Score and GPU by node."""
        cpus, gpus, milli = amounts
        free, left = self._table.free.cpus[nodes], self._left[nodes]
        if milli:
            return self._score_of_share(room, nodes, free, cpus, milli)
        after = left
        if gpus:
            whole = (left == WHOLE) & self._will_do(room, nodes)
            after = np.where(whole & (whole.cumsum(axis=1) <= gpus), 0, left)
        everywhere = np.arange(len(nodes))
        score = self._descents(nodes, free, left, everywhere, free - cpus, after)
        return score, np.full(len(nodes), -1, dtype=np.int64)

    def _score_of_share(
        self, room: Room, nodes: Indexes, free: Indexes, cpus: int, milli: int
    ) -> tuple[Indexes, Indexes]:
        """Tries every GPU of every node; GPUs of a node that have as much left count once."""
        left = self._left[nodes]
        count, width = left.shape
        fits = (left >= milli) & self._will_do(room, nodes)
        for gpu in range(1, width):
            fits[:, gpu] &= (left[:, :gpu] != left[:, gpu : gpu + 1]).all(axis=1)
        node, gpu_of = np.nonzero(fits)
        after = left[node]
        after[np.arange(len(node)), gpu_of] -= milli
        scores = np.full((count, max(1, width)), -1, dtype=np.int64)
        scores[node, gpu_of] = self._descents(nodes, free, left, node, free[node] - cpus, after)
        gpu = scores.argmax(axis=1)
        every = np.arange(count)
        is_whole = left[every, gpu] == WHOLE if width else np.ones(count, dtype=np.bool_)
        return np.maximum(scores[every, gpu], 0), np.where(is_whole, -1, gpu)

    def _descents(
        self, nodes: Indexes, free: Indexes, left: Indexes, node: Indexes, free_after: Indexes, after: Indexes
    ) -> Indexes:
        """The score of each way to place it: the k-th leaves `after[k]` on the node at position `node[k]`."""
        types = self._type[nodes]
        amounts = self._amounts(
            np.concatenate((free, free_after)),
            np.concatenate((left, after)),
            np.concatenate((types, types[node])),
        )
        return gradient_score(amounts[: len(nodes)][node], amounts[len(nodes) :])

    def _amounts(self, cpus: Indexes, left: Indexes, types: Indexes) -> Floats:
        """The measure of many node states, each different one computed once. The order of GPUs in a node does
        not matter to it."""
        if len(cpus) < _FEW:
            return self._measure.amounts(cpus, left, types)
        states = np.column_stack((types, cpus, np.sort(left, axis=1)))
        order = np.lexsort(states.T)
        ranked = states[order]
        is_new = np.concatenate(([True], (ranked[1:] != ranked[:-1]).any(axis=1)))
        different = ranked[is_new]
        found = [
            self._measure.amounts(some[:, 1], some[:, 2:], some[:, 0])
            for some in np.array_split(different, -(-len(different) // _BATCH))
        ]
        amounts = np.empty(len(cpus), dtype=np.float64)
        amounts[order] = np.concatenate(found)[np.cumsum(is_new) - 1]
        return amounts

    def _will_do(self, room: Room, nodes: Indexes) -> Mask:
        """GPUs of a type that the request accepts, by node and index."""
        request, inventory = room.request, self._table.inventory
        if not (request.gpu_type or request.gpu_memory_min_mib or request.gpu_capability_min):
            every: Mask = self._exists[nodes]
            return every
        rows = inventory.rows_for(request.gpu_type, request.gpu_memory_min_mib, request.gpu_capability_min)
        of_type = np.take_along_axis(rows[:, nodes].T, np.maximum(inventory.gpu_row[nodes], 0), axis=1)
        will_do: Mask = self._exists[nodes] & of_type
        return will_do


def typical_of(snapshot: Snapshot) -> Generator[None, None, tuple[TypicalRequest, ...]]:
    """What the running and the queued jobs ask of a node: the most frequent that make up 95 % of them. Yields
    between units of work."""
    seen: Counter[TypicalRequest] = Counter()
    for number, run in enumerate(snapshot.running):
        if number % _PIECE == 0:
            yield
        for part in run.allocation[:1]:
            # Which type it asked for is not known any more.
            seen[TypicalRequest(0.0, part.cpu_count, part.gpu_count, part.gpu_share_milli or WHOLE)] += 1
    looked_at = 0
    for jobs in snapshot.classes:
        request = _of_class(jobs)
        for job in jobs.jobs:
            seen[request] += len(job.tasks) or 1
            if (looked_at := looked_at + 1) % _PIECE == 0:
                yield
    whole = sum(seen.values()) or 1
    return most_frequent(replace(request, weight=count / whole) for request, count in seen.items())[:_MOST]


def _of_class(jobs: RequestClass) -> TypicalRequest:
    request, bounds = jobs.request, bounds_of(jobs.request, jobs.partition)
    tasks = -(-bounds.tasks_of(bounds.nodes_min) // max(1, bounds.nodes_min))
    gpus = max(gpus_on_node(request, tasks), -(-request.gpus_total // max(1, bounds.nodes_min)))
    milli = share_on_node(request, tasks)
    return TypicalRequest(
        0.0, cpus_on_node(request, tasks), 1 if milli else gpus, milli or WHOLE, request.gpu_type
    )
