"""The nodes as arrays: what they are (`Inventory`), what is free on them (`Counts`, `NodeTable`).

Counts decide whether something fits; bitmaps say which CPUs and GPUs it then gets. Only the table of the
present has bitmaps: for the future, counts are enough.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minislurm.domain.ids import Bitmap, lowest_bits
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.topology import Topology
from minislurm.scheduling.domains import Indexes, Layout
from minislurm.scheduling.model import NodeAvailability

Mask = NDArray[np.bool_]

#: Nodes read between two yields: about a millisecond.
_CHUNK = 1000


class Share(NamedTuple):
    """What a run takes from one node. `gpus`: one number for each GPU type of the inventory.

    A tuple, because one is made for every allocation of every running job in every pass.
    """

    node: int
    tasks: int
    cpus: int
    memory_mib: int
    gpus: tuple[int, ...]


class Counts:
    """Amounts by node: CPUs, memory in MiB, GPUs by type (types × nodes). int64 arrays."""

    __slots__ = ("cpus", "gpus", "memory_mib")

    def __init__(self, cpus: Indexes, memory_mib: Indexes, gpus: Indexes) -> None:
        self.cpus = cpus
        self.memory_mib = memory_mib
        self.gpus = gpus

    def copy(self) -> Counts:
        return Counts(self.cpus.copy(), self.memory_mib.copy(), self.gpus.copy())

    def take(self, share: Share) -> None:
        """May go below zero: a later reservation is laid over what is still in use."""
        self.cpus[share.node] -= share.cpus
        self.memory_mib[share.node] -= share.memory_mib
        if any(share.gpus):
            self.gpus[:, share.node] -= share.gpus

    def take_all(self, shares: Sequence[Share]) -> None:
        """The same for several shares, none of them of the same node."""
        if len(shares) < 4:
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
        "features", "has_gpus", "index", "known", "layout", "names", "rows", "total", "type_bits", "usable",
        "weight",
    )  # fmt: skip

    def __init__(self, nodes: Sequence[NodeAvailability], topology: Topology) -> None:
        self.names = tuple(node.name for node in nodes)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.features = tuple(node.features for node in nodes)
        self.layout = Layout.of(self.names, topology)
        self.usable = np.array([node.usable for node in nodes], dtype=np.bool_)
        self.weight = np.array([node.weight for node in nodes], dtype=np.int64)
        #: GPU type -> row of the GPU arrays. "" is the row of GPUs without a type, where there are any.
        self.rows: dict[str, int] = {}
        #: By row and node: the indexes of the GPUs of that type.
        self.type_bits: list[list[int]] = []
        cpus = np.array([node.cpus for node in nodes], dtype=np.int64)
        memory = np.array([node.memory_mib for node in nodes], dtype=np.int64)
        self.total = Counts(cpus, memory, np.zeros((0, len(nodes)), dtype=np.int64))
        self.has_gpus = np.array([node.gpus != 0 for node in nodes], dtype=np.bool_)
        #: False: never registered, so nobody knows yet what it has.
        self.known = cpus > 0

    def __len__(self) -> int:
        return len(self.names)

    def read_gpus(self, nodes: Sequence[NodeAvailability]) -> Generator[None, None, None]:
        """The second half of the construction. Yields between units of work."""
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
        self.total.gpus = self.count_gpus([node.gpus for node in nodes])

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

    def gpus_by_row(self, node: int, bits: int) -> tuple[int, ...]:
        return tuple((bits & row[node]).bit_count() for row in self.type_bits)

    def share_of(self, allocation: NodeAllocation) -> Share | None:
        """None: the node is not in this inventory."""
        node = self.index.get(allocation.node)
        if node is None:
            return None
        gpus = self.gpus_by_row(node, allocation.gpus) if self.type_bits else ()
        return Share(node, allocation.tasks, allocation.cpu_count, allocation.memory_mib, gpus)


class NodeTable:
    """What is free now. `changes` lists the nodes of every placement, so that whoever keeps something
    computed from the table can bring it up to date."""

    __slots__ = ("changes", "cpu_bits", "free", "gpu_bits", "inventory")

    def __init__(self, inventory: Inventory, free: Counts, cpu_bits: list[int], gpu_bits: list[int]) -> None:
        self.inventory = inventory
        self.free = free
        self.cpu_bits = cpu_bits
        self.gpu_bits = gpu_bits
        self.changes: list[int] = []

    @classmethod
    def build(cls, nodes: Sequence[NodeAvailability], topology: Topology) -> Generator[None, None, NodeTable]:
        """Yields between units of work."""
        inventory = Inventory(nodes, topology)
        yield from inventory.read_gpus(nodes)
        cpu_bits, gpu_bits = [int(node.cpus_free) for node in nodes], [int(node.gpus_free) for node in nodes]
        cpus = np.array([bits.bit_count() for bits in cpu_bits], dtype=np.int64)
        memory = np.array([node.memory_free_mib for node in nodes], dtype=np.int64)
        return cls(inventory, Counts(cpus, memory, inventory.count_gpus(gpu_bits)), cpu_bits, gpu_bits)

    def update(self, node: int, available: NodeAvailability) -> None:
        """What is free on one node, read anew."""
        self.cpu_bits[node] = int(available.cpus_free)
        self.gpu_bits[node] = int(available.gpus_free)
        self.free.cpus[node] = available.cpus_free.bit_count()
        self.free.memory_mib[node] = available.memory_free_mib
        if self.inventory.type_bits:
            self.free.gpus[:, node] = self.inventory.gpus_by_row(node, available.gpus_free)

    def copy(self) -> NodeTable:
        return NodeTable(self.inventory, self.free.copy(), self.cpu_bits.copy(), self.gpu_bits.copy())

    def place(self, shares: Sequence[Share]) -> tuple[NodeAllocation, ...]:
        """Takes the lowest free CPUs and GPUs of each share's node."""
        self.free.take_all(shares)
        self.changes += [share.node for share in shares]
        return tuple([self._place(*share) for share in shares])

    def _place(
        self, node: int, tasks: int, cpu_count: int, memory_mib: int, gpu_counts: tuple[int, ...]
    ) -> NodeAllocation:
        cpus = _lowest(self.cpu_bits[node], cpu_count)
        self.cpu_bits[node] ^= cpus
        gpus = 0
        for row, count in enumerate(gpu_counts):
            if count:
                gpus |= _lowest(self.gpu_bits[node] & self.inventory.type_bits[row][node], count)
        self.gpu_bits[node] ^= gpus
        return NodeAllocation(self.inventory.names[node], Bitmap(cpus), memory_mib, Bitmap(gpus), tasks)


def _lowest(bits: int, count: int) -> int:
    return bits if bits.bit_count() == count else lowest_bits(bits, count)
