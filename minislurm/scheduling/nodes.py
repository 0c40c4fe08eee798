"""The nodes as arrays: what they are (`Inventory`), what is free on them (`Counts`, `NodeTable`).

Counts decide whether something fits; bitmaps say which CPUs and GPUs it then gets. Only the table of the
present has bitmaps: for the future, counts are enough.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from minislurm.domain.ids import Bitmap, indexes_of, lowest_bits
from minislurm.domain.resources import NodeAllocation, capability_number
from minislurm.domain.topology import Topology
from minislurm.scheduling.changes import Changes
from minislurm.scheduling.domains import Indexes, Layout
from minislurm.scheduling.gpu_links import closest
from minislurm.scheduling.model import NodeAvailability

Mask = NDArray[np.bool_]
Milli = NDArray[np.int64]
#: The nodes that are asked about.
Where: TypeAlias = "slice | Indexes"

#: A whole GPU in thousandths.
WHOLE = 1000

#: Nodes read between two yields: about a millisecond.
_CHUNK = 1000


class Share(NamedTuple):
    """What a run takes from one node. `gpus`: one number for each GPU type of the inventory.

    A share of one GPU: `milli` thousandths of the GPU with that index, or of any that is free as a whole
    (-1); `gpus` has a 1 for its type, which is what it takes or gives back where nobody else is on it.
    A tuple, because one is made for every allocation of every running job in every pass.
    """

    node: int
    tasks: int
    cpus: int
    memory_mib: int
    gpus: tuple[int, ...]
    milli: int = 0
    gpu: int = -1


class Counts:
    """Amounts by node: CPUs, memory in MiB, GPUs by type (types × nodes). int64 arrays.

    `gpus` are those free as a whole: which ones does not matter. GPUs in shared use are not among them;
    `shared` has their thousandths in use by node and index (0: not in shared use), for these do matter.
    """

    __slots__ = ("cpus", "gpus", "memory_mib", "shared")

    def __init__(self, cpus: Indexes, memory_mib: Indexes, gpus: Indexes, shared: Milli) -> None:
        self.cpus = cpus
        self.memory_mib = memory_mib
        self.gpus = gpus
        self.shared = shared

    def copy(self) -> Counts:
        return Counts(self.cpus.copy(), self.memory_mib.copy(), self.gpus.copy(), self.shared.copy())

    def take(self, share: Share) -> None:
        """May go below zero: a later reservation is laid over what is still in use."""
        self.cpus[share.node] -= share.cpus
        self.memory_mib[share.node] -= share.memory_mib
        if share.milli and share.gpu >= 0:
            if not self.shared[share.node, share.gpu]:
                self.gpus[:, share.node] -= share.gpus
            self.shared[share.node, share.gpu] += share.milli
        else:
            for row, count in enumerate(share.gpus):
                if count:
                    self.gpus[row, share.node] -= count

    def whole_gpus(self, where: Where) -> Indexes:
        """GPUs of all types together that are free as a whole, of these nodes."""
        # Most often there is one type, and one row is taken much quicker than several.
        gpus = self.gpus
        return gpus[0][where] if len(gpus) == 1 else np.asarray(gpus[:, where].sum(axis=0))

    def take_all(self, shares: Sequence[Share]) -> None:
        """The same for several shares."""
        # Components of a heterogeneous job may be on the same node, which arrays of indexes would count once.
        if len(shares) < 4 or shares[0].milli or len({share.node for share in shares}) < len(shares):
            for share in shares:
                self.take(share)
            return
        nodes = np.array([share.node for share in shares])
        self.cpus[nodes] -= np.array([share.cpus for share in shares])
        self.memory_mib[nodes] -= np.array([share.memory_mib for share in shares])
        if len(self.gpus):
            self.gpus[:, nodes] -= np.array([share.gpus for share in shares]).T


class Inventory:
    """What does not change during a pass. `index` is a node's position in every array."""

    __slots__ = (
        "_place_by_name", "_rows_for", "_type_attributes", "features", "gpu_row", "has_gpus", "index",
        "known", "layout", "links", "names", "rows", "total", "type_bits", "usable", "weight",
        "weights_differ",
    )  # fmt: skip

    def __init__(self, nodes: Sequence[NodeAvailability], layout: Layout) -> None:
        self.names = tuple(node.name for node in nodes)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.features = tuple(node.features for node in nodes)
        self.layout = layout
        self.usable = np.array([node.usable for node in nodes], dtype=np.bool_)
        self.weight = np.array([node.weight for node in nodes], dtype=np.int64)
        self.weights_differ = len(set(self.weight.tolist())) > 1
        #: GPU type -> row of the GPU arrays. "" is the row of GPUs without a type, where there are any.
        self.rows: dict[str, int] = {}
        #: By row and node: the indexes of the GPUs of that type.
        self.type_bits: list[list[int]] = []
        cpus = np.array([node.cpus for node in nodes], dtype=np.int64)
        memory = np.array([node.memory_mib for node in nodes], dtype=np.int64)
        most_gpus = max((node.gpus.bit_length() for node in nodes), default=0)
        none = np.zeros((0, len(nodes)), dtype=np.int64)
        self.total = Counts(cpus, memory, none, np.zeros((len(nodes), most_gpus), dtype=np.int64))
        #: By node and GPU index: the row of its type; -1: there is no such GPU.
        self.gpu_row = np.full((len(nodes), most_gpus), -1, dtype=np.int64)
        #: Matrix of links between GPUs by node, where it is known.
        self.links = {i: node.gpu_links for i, node in enumerate(nodes) if node.gpu_links}
        self._type_attributes = [node.gpu_attributes for node in nodes]
        self._rows_for: dict[tuple[str, int, str], Mask] = {}
        self._place_by_name: Indexes | None = None
        self.has_gpus = np.array([node.gpus != 0 for node in nodes], dtype=np.bool_)
        #: False: never registered, so nobody knows yet what it has.
        self.known = cpus > 0

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def build(cls, nodes: Sequence[NodeAvailability], topology: Topology) -> Generator[None, None, Inventory]:
        """Yields between units of work."""
        layout = yield from Layout.build([node.name for node in nodes], topology)
        yield
        inventory = cls(nodes, layout)
        yield from inventory._read_gpus(nodes)
        yield
        return inventory

    def _read_gpus(self, nodes: Sequence[NodeAvailability]) -> Generator[None, None, None]:
        for i, node in enumerate(nodes):
            if i % _CHUNK == 0:
                yield
            if not node.gpus:
                continue
            rest = int(node.gpus)
            for gpu_type, bits in node.gpus_by_type.items():
                self._row(gpu_type)[i] = int(bits)
                rest &= ~bits
            if rest:
                self._row("")[i] = rest
        yield
        self.total.gpus = self.count_gpus([node.gpus for node in nodes])
        # Few different sets of GPUs: one comparison each finds the nodes that have it.
        for row, of_type in enumerate(self.type_bits):
            yield
            for kind in set(of_type) - {0}:
                where = np.array([other == kind for other in of_type], dtype=np.bool_)
                for gpu in indexes_of(kind):
                    self.gpu_row[where, gpu] = row

    def rows_for(self, gpu_type: str, memory_min_mib: int, capability_min: str) -> Mask:
        """Types × nodes: GPUs of which types on which nodes will do. `gpu_type`: names joined by "|"."""
        key = (gpu_type, memory_min_mib, capability_min)
        mask = self._rows_for.get(key)
        if mask is None:
            mask = self._rows_for[key] = self._make_rows_for(*key)
        return mask

    def _make_rows_for(self, gpu_type: str, memory_min_mib: int, capability_min: str) -> Mask:
        wanted = set(gpu_type.split("|")) if gpu_type else set(self.rows)
        mask = np.zeros((len(self.type_bits), len(self.names)), dtype=np.bool_)
        least = capability_number(capability_min)
        for name, row in self.rows.items():
            if name not in wanted:
                continue
            mask[row] = True
            if memory_min_mib or least:
                for i, attributes in enumerate(self._type_attributes):
                    memory_mib, capability = attributes.get(name, (0, ""))
                    mask[row, i] = memory_mib >= memory_min_mib and capability_number(capability) >= least
        return mask

    def _row(self, gpu_type: str) -> list[int]:
        if gpu_type not in self.rows:
            self.rows[gpu_type] = len(self.rows)
            self.type_bits.append([0] * len(self.names))
        return self.type_bits[self.rows[gpu_type]]

    def count_gpus(self, bitmaps: Sequence[int]) -> Indexes:
        """The bitmaps' members by type: types × nodes."""
        counts = [
            [(bits & of_type).bit_count() for bits, of_type in zip(bitmaps, row, strict=True)]
            for row in self.type_bits
        ]
        return np.array(counts, dtype=np.int64).reshape(len(self.type_bits), len(bitmaps))

    @property
    def place_by_name(self) -> Indexes:
        """By node: where it stands in the order of names."""
        if self._place_by_name is None:
            order = sorted(range(len(self.names)), key=self.names.__getitem__)
            self._place_by_name = np.empty(len(order), dtype=np.int64)
            self._place_by_name[order] = np.arange(len(order))
        return self._place_by_name

    def gpus_by_row(self, node: int, bits: int) -> tuple[int, ...]:
        return tuple((bits & row[node]).bit_count() for row in self.type_bits)

    def share_of(self, allocation: NodeAllocation) -> Share | None:
        """None: the node is not in this inventory."""
        node = self.index.get(allocation.node)
        if node is None:
            return None
        gpus = self.gpus_by_row(node, allocation.gpus) if self.type_bits else ()
        share = Share(node, allocation.tasks, allocation.cpu_count, allocation.memory_mib, gpus)
        if allocation.gpu_share_milli:
            gpu = allocation.gpus.bit_length() - 1
            share = share._replace(milli=allocation.gpu_share_milli, gpu=gpu)
        return share


class PartialShares:
    """Those among some shares that take a part of a GPU, in the order of their ends, to be given back.

    Amounts that are the same whoever holds them can be summed up; a shared GPU is free as a whole only when
    the last one has left it, so these are looked at one GPU at a time.
    """

    __slots__ = ("_ends", "_gpus", "_millis", "_nodes", "_rows")

    def __init__(self, ends: Sequence[float], shares: Sequence[Share]) -> None:
        """`shares` in the order of their `ends`."""
        self._ends = np.array(ends, dtype=np.float64)
        self._nodes = np.array([share.node for share in shares], dtype=np.int64)
        self._gpus = np.array([share.gpu for share in shares], dtype=np.int64)
        self._millis = np.array([share.milli for share in shares], dtype=np.int64)
        self._rows = np.array([share.gpus.index(1) for share in shares], dtype=np.int64)

    def release_by(self, time: float, counts: Counts) -> None:
        """Adds what has ended by then to what is free."""
        count = int(np.searchsorted(self._ends, time, side="right"))
        if not count:
            return
        nodes, gpus = self._nodes[:count], self._gpus[:count]
        np.subtract.at(counts.shared, (nodes, gpus), self._millis[:count])
        width = counts.shared.shape[1]
        last, first = np.unique(nodes * width + gpus, return_index=True)
        empty = counts.shared[last // width, last % width] == 0
        np.add.at(counts.gpus, (self._rows[:count][first][empty], (last // width)[empty]), 1)


class NodeTable:
    """What is free now. `changes`: the nodes of every placement of the pass."""

    __slots__ = ("changes", "cpu_bits", "free", "gpu_bits", "inventory", "jobs", "turn", "turns")

    def __init__(self, inventory: Inventory, free: Counts, cpu_bits: list[int], gpu_bits: list[int]) -> None:
        self.inventory = inventory
        self.free = free
        self.cpu_bits = cpu_bits
        self.gpu_bits = gpu_bits
        self.changes = Changes(len(inventory))
        #: Runs by node; which placement was the last there; and which of all was.
        self.jobs = np.zeros(len(inventory), dtype=np.int64)
        self.turns = np.zeros(len(inventory), dtype=np.int64)
        self.turn = 0

    @classmethod
    def build(cls, nodes: Sequence[NodeAvailability], topology: Topology) -> Generator[None, None, NodeTable]:
        """Yields between units of work."""
        inventory = yield from Inventory.build(nodes, topology)
        cpu_bits, gpu_bits = [int(node.cpus_free) for node in nodes], [int(node.gpus_free) for node in nodes]
        cpus = np.array([bits.bit_count() for bits in cpu_bits], dtype=np.int64)
        memory = np.array([node.memory_free_mib for node in nodes], dtype=np.int64)
        shared = np.zeros_like(inventory.total.shared)
        for i, node in enumerate(nodes):
            for gpu, milli in node.gpu_shares:
                shared[i, gpu] = milli
        yield
        free = Counts(cpus, memory, inventory.count_gpus(gpu_bits), shared)
        yield
        table = cls(inventory, free, cpu_bits, gpu_bits)
        table.jobs[:] = [node.jobs for node in nodes]
        table.turns[:] = [node.last_placed for node in nodes]
        table.turn = int(table.turns.max(initial=0))
        return table

    def update(self, node: int, available: NodeAvailability) -> None:
        """What is free on one node, read anew."""
        self.cpu_bits[node] = int(available.cpus_free)
        self.gpu_bits[node] = int(available.gpus_free)
        self.free.cpus[node] = available.cpus_free.bit_count()
        self.free.memory_mib[node] = available.memory_free_mib
        if self.inventory.type_bits:
            self.free.gpus[:, node] = self.inventory.gpus_by_row(node, available.gpus_free)
            shared = self.free.shared[node]
            shared[:] = 0
            for gpu, milli in available.gpu_shares:
                shared[gpu] = milli
        self.jobs[node] = available.jobs
        self.turns[node] = available.last_placed

    def begin(self) -> None:
        """A new pass: all that the last one changed has been read anew."""
        self.changes.clear()
        self.turn = int(self.turns.max(initial=0)) if len(self.turns) != 1 else int(self.turns[0])

    def copy(self) -> NodeTable:
        table = NodeTable(self.inventory, self.free.copy(), self.cpu_bits.copy(), self.gpu_bits.copy())
        table.jobs[:], table.turns[:], table.turn = self.jobs, self.turns, self.turn
        return table

    def settle(self, shares: list[Share]) -> list[Share]:
        """The same with a GPU named for every share of one that no other run is on yet."""
        return [self._settle(share) if share.milli and share.gpu < 0 else share for share in shares]

    def _settle(self, share: Share) -> Share:
        of_type = self.inventory.type_bits[share.gpus.index(1)][share.node]
        return share._replace(gpu=_lowest(self.gpu_bits[share.node] & of_type, 1).bit_length() - 1)

    def place(self, shares: Sequence[Share]) -> Generator[None, None, tuple[NodeAllocation, ...]]:
        """Takes the lowest free CPUs of each share's node, and of its GPUs those that are closest. Yields
        between units of work, where there are many."""
        if len(shares) <= _CHUNK:
            self._take(shares)
            return tuple([self._place(*share) for share in shares])
        yield
        self._take(shares)
        allocation: list[NodeAllocation] = []
        for start in range(0, len(shares), _CHUNK):
            yield
            allocation += [self._place(*share) for share in shares[start : start + _CHUNK]]
        yield
        return tuple(allocation)

    def _take(self, shares: Sequence[Share]) -> None:
        self.free.take_all(shares)
        nodes = [share.node for share in shares]
        self.changes.add(nodes)
        if len(nodes) == 1:  # many times quicker than as an array
            (node,) = nodes
            self.turns[node] = self.turn + 1
            self.jobs[node] += 1
        else:
            self.turns[nodes] = range(self.turn + 1, self.turn + 1 + len(nodes))
            self.jobs[nodes] += 1
        self.turn += len(nodes)

    def _place(
        self,
        node: int,
        tasks: int,
        cpu_count: int,
        memory_mib: int,
        gpu_counts: tuple[int, ...],
        milli: int,
        gpu: int,
    ) -> NodeAllocation:
        cpus = _lowest(self.cpu_bits[node], cpu_count)
        self.cpu_bits[node] ^= cpus
        gpus = 1 << gpu if milli else self._whole_gpus(node, gpu_counts)
        self.gpu_bits[node] &= ~gpus
        return NodeAllocation(
            self.inventory.names[node], Bitmap(cpus), memory_mib, Bitmap(gpus), tasks, milli
        )

    def _whole_gpus(self, node: int, counts: tuple[int, ...]) -> int:
        """Those with the best links between them; where nobody knows the links, the lowest."""
        gpus, links = 0, self.inventory.links.get(node)
        for row, count in enumerate(counts):
            if count:
                free = self.gpu_bits[node] & self.inventory.type_bits[row][node]
                gpus |= closest(links, free, count, gpus) if links is not None else _lowest(free, count)
        return gpus


def _lowest(bits: int, count: int) -> int:
    return bits if bits.bit_count() == count else lowest_bits(bits, count)
