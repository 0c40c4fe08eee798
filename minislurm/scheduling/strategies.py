"""Which of the nodes that can take a request is liked best: the placement strategies by name.

A strategy gives each node a rank below 2^27, smaller is better, of equals the first node of the
configuration. Above the rank stand the node's weight and whether its GPUs would lie idle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from minislurm.domain.configuration import Partition
from minislurm.scheduling.domains import Indexes
from minislurm.scheduling.model import RequestClass, Snapshot, TypicalRequest
from minislurm.scheduling.needs import cpus_on_node, gpus_on_node, share_on_node, wants_gpus
from minislurm.scheduling.nodes import WHOLE, NodeTable, Where
from minislurm.scheduling.work import finished

if TYPE_CHECKING:
    from minislurm.scheduling.room import Room

#: The score's fields: weight above bit 28, GPU node, the strategy's rank.
_WEIGHT_BIT, _GPU_NODE_BIT, RANK_BITS = 28, 27, 27
#: The rank of binpack: opens a GPU that nobody shares yet, free GPUs, free CPUs.
_OPENS_BIT, _GPUS_BIT = 26, 16
_GPUS_MOST, _CPUS_MOST = (1 << 10) - 1, (1 << 16) - 1

#: So many placements back round robin tells nodes apart, and into so many parts it divides a turn.
_TURNS, _FRACTIONS = 1 << 21, 16


class Strategy(Protocol):
    """Lives for one pass. `where`: the nodes that are asked about."""

    def scores(self, room: Room, where: Where) -> Indexes:
        """By node, smaller is better; of nodes that cannot take the request it means nothing."""
        ...

    def gpu(self, room: Room, node: int, parts: Indexes, milli: int) -> int | None:
        """Where a share of a GPU of that node is taken from: the index of one in shared use, -1 for one that
        is free as a whole, None for the tightest fit. `parts`: what the shared ones have left."""
        ...


class Ranked(ABC):
    """A strategy that only ranks."""

    @abstractmethod
    def rank(self, room: Room, where: Where) -> Indexes:
        """A new array: by node, smaller is better, below 2^27."""

    def scores(self, room: Room, where: Where) -> Indexes:
        inventory, request = room.inventory, room.request
        score = self.rank(room, where)
        if inventory.weights_differ:
            score += inventory.weight[where] << _WEIGHT_BIT
        if len(inventory.type_bits) and not (wants_gpus(request) or request.gpu_share_milli):
            score += inventory.has_gpus[where].astype(np.int64) << _GPU_NODE_BIT
        return score

    def gpu(self, room: Room, node: int, parts: Indexes, milli: int) -> int | None:
        return None


class Binpack(Ranked):
    """The fullest first: fewest free GPUs, then fewest free CPUs. A shared GPU before one of its own."""

    def rank(self, room: Room, where: Where) -> Indexes:
        now = room.counts[0]
        rank = np.minimum(now.cpus[where], _CPUS_MOST)
        if len(now.gpus):
            rank += np.minimum(now.whole_gpus(where), _GPUS_MOST) << _GPUS_BIT
            if room.request.gpu_share_milli:
                parts = room.parts_left(where)
                opens = ~(parts >= share_on_node(room.request, 1)).any(axis=1)
                rank += opens.astype(np.int64) << _OPENS_BIT
        return rank


class Spread(Ranked):
    """The emptiest first: most free GPUs, then most free CPUs."""

    def rank(self, room: Room, where: Where) -> Indexes:
        now = room.counts[0]
        rank = _CPUS_MOST - np.minimum(now.cpus[where], _CPUS_MOST)
        if len(now.gpus):
            rank += (_GPUS_MOST - np.minimum(now.whole_gpus(where), _GPUS_MOST)) << _GPUS_BIT
        return rank


class LeastJobs(Ranked):
    """The fewest runs first, of equals the fullest."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def rank(self, room: Room, where: Where) -> Indexes:
        rank = np.minimum(self._table.jobs[where], _GPUS_MOST) << _GPUS_BIT
        rank += np.minimum(room.counts[0].cpus[where], _CPUS_MOST)
        return rank


class RoundRobin(Ranked):
    """In turn: the node whose last placement is the longest ago."""

    def __init__(self, table: NodeTable) -> None:
        self._turns = table.turns
        #: Fixed for the pass: what rooms have kept must still compare with what has changed since.
        self._first = table.turn - _TURNS

    def rank(self, room: Room, where: Where) -> Indexes:
        return self._since_start(where)

    def _since_start(self, where: Where) -> Indexes:
        """Numbers of the last placements, counted from the earliest that still matters."""
        return np.maximum(self._turns[where] - self._first, 0)


class WeightedRoundRobin(RoundRobin):
    """In turn, a node with twice as many GPUs (for jobs without, CPUs) twice as often: the one that is due
    first, where a node is due again after as many placements as it is smaller than all nodes together."""

    def rank(self, room: Room, where: Where) -> Indexes:
        total = room.inventory.total
        asks_gpus = wants_gpus(room.request) or room.request.gpu_share_milli
        sizes = np.maximum(total.gpus.sum(axis=0) if asks_gpus else total.cpus, 1)
        periods = sizes.sum() * _FRACTIONS // sizes[where]
        rank: Indexes = self._since_start(where) * _FRACTIONS + np.minimum(periods, _TURNS * _FRACTIONS)
        return rank


class Affinity(Ranked):
    """Each kind of job has its own order of the nodes, the same at every time: a job that comes again goes to
    where its data lie, if there is room, and a node that comes or goes moves no others.

    Source: highest random weight (rendezvous) hashing, D. Thaler and C. Ravishankar, IEEE/ACM ToN 1998.
    """

    def __init__(self, table: NodeTable) -> None:
        names = table.inventory.names
        self._nodes = np.array([crc32(name.encode()) for name in names], dtype=np.uint64)

    def rank(self, room: Room, where: Where) -> Indexes:
        request = room.request
        key = crc32((request.affinity or repr(request)).encode())
        mixed = _mixed(self._nodes[where] ^ np.uint64(key << 32))
        rank: Indexes = (mixed >> np.uint64(64 - RANK_BITS)).astype(np.int64)
        return rank


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64 (G. Steele, D. Lea and C. Flood, OOPSLA 2014): every bit depends on all."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


class BestFit(Ranked):
    """The least left over: half what is left of the CPUs, half what is left of the GPUs, each over what a
    large node has (128 CPUs or the most there are, 8 GPUs or the most there are)."""

    #: Steps of the rank between nothing and everything left.
    _SCALE = 1 << 25

    def __init__(self, table: NodeTable) -> None:
        total = table.inventory.total
        self._cpus = max(1, int(total.cpus.max(initial=1)))
        self._gpus = max(1, total.shared.shape[1]) * WHOLE

    def rank(self, room: Room, where: Where) -> Indexes:
        now = room.counts[0]
        cpus, gpus, milli = amounts_on_node(room)
        free = now.whole_gpus(where) * WHOLE
        shared = now.shared[where]
        free = free + np.where(shared > 0, WHOLE - shared, 0).sum(axis=1)
        left = (now.cpus[where] - cpus) / self._cpus + (free - gpus * WHOLE - milli) / self._gpus
        rank: Indexes = (np.clip(left / 2, 0.0, 1.0) * self._SCALE).astype(np.int64)
        return rank


def amounts_on_node(room: Room) -> tuple[int, int, int]:
    """What the request takes of one node, were its tasks dealt evenly: CPUs, GPUs, thousandths of one."""
    bounds, request = room.bounds, room.request
    nodes = max(1, bounds.nodes_min if bounds.fewest else bounds.nodes_max)
    tasks = -(-bounds.tasks_of(nodes) // nodes)
    gpus = max(gpus_on_node(request, tasks), -(-request.gpus_total // nodes))
    return cpus_on_node(request, tasks), gpus, share_on_node(request, tasks)


BINPACK = Binpack()


#: By the name that the configuration uses.
STRATEGIES: dict[str, Callable[[Strategies], Strategy]] = {
    "binpack": lambda _: BINPACK,
    "spread": lambda _: Spread(),
    "fgd": lambda those: _gradient(those),
    "fgd-balanced": lambda those: _gradient(those, balanced=True),
    "best-fit": lambda those: BestFit(those.table),
    "least-jobs": lambda those: LeastJobs(those.table),
    "round-robin": lambda those: RoundRobin(those.table),
    "weighted-round-robin": lambda those: WeightedRoundRobin(those.table),
    "affinity": lambda those: Affinity(those.table),
}
_ASKS_WHAT_IS_TYPICAL = frozenset({"fgd", "fgd-balanced"})


class Strategies:
    """Those of one pass, each made when it is first asked for."""

    table: NodeTable

    def __init__(self, snapshot: Snapshot, table: NodeTable) -> None:
        self.table = table
        self._snapshot = snapshot
        self._typical = snapshot.typical
        self._made: dict[str, Strategy] = {}

    def load(self, partitions: Iterable[Partition]) -> Generator[None, None, None]:
        """What takes long for these partitions' strategies. Yields between units of work."""
        for name in {self._name(partition) for partition in partitions} & _ASKS_WHAT_IS_TYPICAL:
            self._typical = yield from self._count()
            self._named(name)
            yield

    def of(self, jobs: RequestClass) -> Strategy:
        return self._named(self._name(jobs.partition))

    def _named(self, name: str) -> Strategy:
        strategy = self._made.get(name)
        if strategy is None:
            strategy = self._made[name] = STRATEGIES[name](self)
        return strategy

    @property
    def typical(self) -> tuple[TypicalRequest, ...]:
        """What jobs usually ask for: given, or what those of the snapshot do."""
        if not self._typical:
            self._typical = finished(self._count())
        return self._typical

    def _count(self) -> Generator[None, None, tuple[TypicalRequest, ...]]:
        from minislurm.scheduling.gradient import typical_of  # it builds on what is above

        if self._typical:
            return self._typical
        return (yield from typical_of(self._snapshot))

    def _name(self, partition: Partition) -> str:
        return partition.placement or self._snapshot.settings.placement


def _gradient(those: Strategies, *, balanced: bool = False) -> Strategy:
    from minislurm.scheduling.gradient import Gradient

    return Gradient(those.table, those.typical, balanced=balanced)
