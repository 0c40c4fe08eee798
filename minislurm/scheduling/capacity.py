"""Upper bounds by partition: what its nodes have free in all.

In a full cluster most requests that cannot start are found out by three comparisons, without a look at any
node. A bound never says that something fits, only that it cannot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minislurm.domain.configuration import Partition
from minislurm.domain.resources import ResourceRequest
from minislurm.scheduling.filters import Filters
from minislurm.scheduling.needs import Bounds
from minislurm.scheduling.nodes import Counts, Share


class Demand(NamedTuple):
    """The least that a request takes of all its nodes together."""

    cpus: int
    memory_mib: int
    gpus: int


class Sums(NamedTuple):
    """What the usable nodes of a partition have free; memory and GPUs of every type together."""

    cpus: int
    memory_mib: int
    gpus: int

    def is_short_of(self, demand: Demand) -> bool:
        return demand.cpus > self.cpus or demand.gpus > self.gpus or demand.memory_mib > self.memory_mib


def demand_of(request: ResourceRequest, bounds: Bounds) -> Demand:
    cpus = max(bounds.tasks * request.cpus_per_task, bounds.nodes_min * request.cpus_per_node_min)
    gpus = max(
        request.gpus_total, bounds.tasks * request.gpus_per_task, bounds.nodes_min * request.gpus_per_node
    )
    memory = max(
        bounds.nodes_min * request.memory_per_node_mib,
        cpus * request.memory_per_cpu_mib,
        gpus * request.memory_per_gpu_mib,
    )
    return Demand(cpus, memory, gpus)


class Capacity:
    """The sums of what is free now, kept up to date with the placements of a pass."""

    def __init__(self, filters: Filters, free: Counts) -> None:
        self._filters = filters
        self._free = free
        self._sums: dict[str, tuple[Partition, Sums]] = {}

    def is_short_of(self, partition: Partition, demand: Demand) -> bool:
        found = self._sums.get(partition.name)
        cpus, memory_mib, gpus = found[1] if found is not None else self.now(partition)
        return demand.cpus > cpus or demand.gpus > gpus or demand.memory_mib > memory_mib

    def now(self, partition: Partition) -> Sums:
        found = self._sums.get(partition.name)
        if found is None:
            found = self._sums[partition.name] = (partition, self.of(partition, self._free))
        return found[1]

    def of(self, partition: Partition, counts: Counts) -> Sums:
        """Amounts below zero, of a time that reservations are laid over, count as nothing."""
        nodes = self._filters.members(partition).nodes
        if len(nodes) == 1:
            return _sums_of_one(counts, nodes[0])
        return Sums(
            int(np.maximum(counts.cpus[nodes], 0).sum()),
            int(np.maximum(counts.memory_mib[nodes], 0).sum()),
            int(np.maximum(counts.gpus[:, nodes], 0).sum()) if len(counts.gpus) else 0,
        )

    def started(self, shares: list[Share]) -> None:
        for name, (partition, sums) in self._sums.items():
            mask = self._filters.members(partition).mask
            cpus, memory_mib, gpus = sums
            for share in shares:
                if mask[share.node]:
                    cpus -= share.cpus
                    memory_mib -= share.memory_mib
                    # Of a share it is not known here whether it opens a GPU; too much is no harm to a bound.
                    gpus -= 0 if share.milli else sum(share.gpus)
            self._sums[name] = (partition, Sums(cpus, memory_mib, gpus))


def _sums_of_one(counts: Counts, node: int) -> Sums:
    """The same without operations on arrays, which cost a microsecond or two however short these are."""
    gpus = sum([max(int(count), 0) for count in counts.gpus[:, node]]) if len(counts.gpus) else 0
    return Sums(max(int(counts.cpus[node]), 0), max(int(counts.memory_mib[node]), 0), gpus)
