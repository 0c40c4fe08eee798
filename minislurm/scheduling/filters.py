"""Which nodes a request may use, what it can never have, and what each rejected node lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct

from minislurm.domain.configuration import Partition
from minislurm.domain.ids import NodeName
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.states import PartitionState, Reason
from minislurm.scheduling.counted import could_be_met
from minislurm.scheduling.domains import Indexes
from minislurm.scheduling.features import parse
from minislurm.scheduling.model import RequestClass
from minislurm.scheduling.needs import (
    Bounds,
    anywhere,
    bounds_of,
    cpus_on_node,
    gpus_on_node,
    memory_on_node,
    share_on_node,
    wants_gpus,
)  # fmt: skip
from minislurm.scheduling.nodes import WHOLE, Counts, Inventory, Mask
from minislurm.scheduling.place import choose
from minislurm.scheduling.room import Room

#: What holds for one class holds for every class with the same key, whatever its priority.
RequestKey = tuple[ResourceRequest, str, tuple[NodeName, ...]]


def key_of(jobs: RequestClass) -> RequestKey:
    return jobs.request, jobs.partition.name, jobs.avoided_nodes


def asks_for_gpus(request: ResourceRequest) -> bool:
    """Whole ones, or a share of one."""
    return wants_gpus(request) or request.gpu_share_milli > 0


class Members(Struct, frozen=True):
    """A partition's nodes, and the poorest of those that can be used (CPUs, memory in MiB, GPUs)."""

    mask: Mask
    count: int
    #: Those that can be used.
    usable: Mask
    nodes: Indexes
    poorest: tuple[int, int, int]


class Filters:
    """Everything here depends on the configuration and on which nodes are up, not on what is free."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._members: dict[str, Members] = {}
        self._with_features: dict[str, Mask] = {}
        self._allowed: dict[RequestKey, Mask] = {}
        self._misfits: dict[RequestKey, Reason | None] = {}

    def members(self, partition: Partition) -> Members:
        found = self._members.get(partition.name)
        if found is None:
            mask = self._mask(partition.nodes)
            usable = mask & self._inventory.usable
            total = self._inventory.total
            poorest = (0, 0, 0)
            if usable.any():
                gpus = total.gpus[:, usable].sum(axis=0)
                poorest = (
                    int(total.cpus[usable].min()),
                    int(total.memory_mib[usable].min()),
                    int(gpus.min()),
                )
            found = Members(mask, int(mask.sum()), usable, np.flatnonzero(usable), poorest)
            self._members[partition.name] = found
        return found

    def index_of(self, node: NodeName) -> int:
        return self._inventory.index[node]

    def bounds(self, jobs: RequestClass) -> Bounds:
        return bounds_of(jobs.request, jobs.partition)

    def allowed(self, jobs: RequestClass) -> Mask:
        """Nodes on which the class may be placed now, were they free."""
        request = jobs.request
        if not (request.features or request.excluded_nodes or request.required_nodes or jobs.avoided_nodes):
            return self.members(jobs.partition).usable
        key = key_of(jobs)
        mask = self._allowed.get(key)
        if mask is None:
            mask = self.configured(jobs) & self._inventory.usable & ~self._mask(jobs.avoided_nodes)
            self._allowed[key] = mask
        return mask

    def suited(self, jobs: RequestClass) -> Mask:
        """Of these, the nodes with a GPU of the kind that is asked for, where one is."""
        mask, request = self.allowed(jobs), jobs.request
        if not asks_for_gpus(request):
            return mask
        return mask & (_gpus(self._inventory.total, self._inventory, request) > 0)

    def misfit(self, jobs: RequestClass) -> Reason | None:
        """Why the class can never start as things are configured, or not before a node is back."""
        state = jobs.partition.state
        if state is PartitionState.DOWN:
            return Reason.PARTITION_DOWN
        if state is PartitionState.INACTIVE:
            return Reason.PARTITION_INACTIVE
        limit_s = jobs.partition.max_time_s
        if limit_s is not None and not 0 < jobs.time_limit_s <= limit_s:
            return Reason.PARTITION_TIME_LIMIT
        key = key_of(jobs)
        if key not in self._misfits:
            self._misfits[key] = None if self._surely_fits(jobs) else self._misfit(jobs)
        return self._misfits[key]

    def _surely_fits(self, jobs: RequestClass) -> bool:
        """The common case, decided without a look at the nodes: even the poorest would do."""
        request, members = jobs.request, self.members(jobs.partition)
        if (
            request.features or request.required_nodes or request.excluded_nodes or jobs.avoided_nodes
            or request.gpu_type or request.gpu_share_milli or request.gpu_memory_min_mib
            or request.gpu_capability_min or request.limits_domains or request.tasks_follow_nodes
        ):  # fmt: skip
            return False
        bounds = bounds_of(request, jobs.partition)
        nodes = min(bounds.nodes_max, len(members.nodes))
        if nodes < bounds.nodes_min or not nodes:
            return False
        tasks = -(-bounds.tasks // nodes)
        if request.tasks_per_node and tasks > request.tasks_per_node:
            return False
        cpus = cpus_on_node(request, tasks)
        gpus = max(gpus_on_node(request, tasks), -(-request.gpus_total // nodes))
        most_cpus, most_memory, most_gpus = members.poorest
        return cpus <= most_cpus and gpus <= most_gpus and memory_on_node(request, cpus, gpus) <= most_memory

    def _misfit(self, jobs: RequestClass) -> Reason | None:
        request, partition = jobs.request, jobs.partition
        bounds, members = bounds_of(request, partition), self.members(partition)
        if partition.max_nodes is not None and bounds.nodes_min > partition.max_nodes:
            return Reason.PARTITION_NODE_LIMIT
        if bounds.nodes_min > members.count or 0 < request.nodes_max < partition.min_nodes:
            return Reason.PARTITION_NODE_LIMIT
        with_features = self._features(request.features)
        if int((members.mask & with_features).sum()) < bounds.nodes_min or not bounds.possible:
            return Reason.BAD_CONSTRAINTS
        if request.features and not could_be_met(
            self._inventory, members.mask & with_features, request.features, bounds.nodes_min
        ):
            return Reason.BAD_CONSTRAINTS
        required = self._mask(request.required_nodes)
        excluded = self._mask(request.excluded_nodes)
        if int((required & members.mask).sum()) < len(set(request.required_nodes)):
            return Reason.PARTITION_CONFIG
        if (required & (excluded | ~with_features)).any():
            return Reason.BAD_CONSTRAINTS
        if (required & ~self._inventory.usable).any():
            return Reason.NODES_UNAVAILABLE
        configured = self.configured(jobs)
        if not self._could_hold(request, bounds, configured):
            if request.limits_domains and self._could_hold(anywhere(request), bounds, configured):
                return Reason.TOPOLOGY
            unbounded = Bounds(bounds.tasks, bounds.nodes_min, bounds.tasks, bounds.fewest)
            if not request.nodes_max and self._could_hold(request, unbounded, configured):
                return Reason.PARTITION_NODE_LIMIT
            return Reason.PARTITION_CONFIG
        usable = configured & self._inventory.usable & ~self._mask(jobs.avoided_nodes)
        return None if self._could_hold(request, bounds, usable) else Reason.NODES_UNAVAILABLE

    def _could_hold(self, request: ResourceRequest, bounds: Bounds, allowed: Mask) -> bool:
        """Were all these nodes empty. Of a node that never registered everything is expected."""
        inventory = self._inventory
        room = Room(inventory, request, bounds, allowed, [inventory.total])
        unknown = np.flatnonzero(allowed & ~inventory.known)
        if len(unknown):
            # One node of that kind takes whatever the known ones cannot.
            return int((room.tasks > 0).sum()) + len(unknown) >= bounds.nodes_min
        return choose(room) is not None

    def configured(self, jobs: RequestClass) -> Mask:
        """Nodes on which the class may be placed when they are up."""
        request = jobs.request
        mask = self.members(jobs.partition).mask & self._features(request.features)
        mask &= ~self._mask(request.excluded_nodes)
        if request.required_nodes and len(request.required_nodes) >= self.bounds(jobs).nodes_max:
            mask &= self._mask(request.required_nodes)
        return mask

    def _features(self, expression: str) -> Mask:
        mask = self._with_features.get(expression)
        if mask is None:
            size = len(self._inventory)
            try:
                test = parse(expression)
                mask = np.fromiter((test(f) for f in self._inventory.features), np.bool_, size)
            except ValueError:
                mask = np.zeros(size, dtype=np.bool_)
            self._with_features[expression] = mask
        return mask

    def _mask(self, names: Iterable[NodeName]) -> Mask:
        mask = np.zeros(len(self._inventory), dtype=np.bool_)
        index = self._inventory.index
        mask[[index[name] for name in names if name in index]] = True
        return mask

    def rejected(self, jobs: RequestClass, free: Counts, beside: Room) -> dict[str, int]:
        """Nodes of the partition by the first thing that keeps a task away; those with room are left out.

        `beside`: the room that is left beside reservations.
        """
        remaining = self.members(jobs.partition).mask.copy()
        counts: dict[str, int] = {}
        for label, passes in self._checks(jobs, free, beside):
            failed = int(np.count_nonzero(remaining & ~passes))
            if failed:
                counts[label] = failed
                remaining &= passes
                if not remaining.any():
                    break
        return counts

    def _checks(self, jobs: RequestClass, free: Counts, beside: Room) -> Iterator[tuple[str, Mask]]:
        inventory, request = self._inventory, jobs.request
        total = inventory.total
        yield "down, drained or not responding", inventory.usable
        if request.excluded_nodes:
            yield "excluded", ~self._mask(request.excluded_nodes)
        if jobs.avoided_nodes:
            yield "launch failed here", ~self._mask(jobs.avoided_nodes)
        if request.features:
            yield "features", self._features(request.features)
        yield "not required", self.allowed(jobs)
        tasks = beside.bounds.tasks_on_a_node if not beside.bounds.fewest else 1
        cpus, gpus = cpus_on_node(request, tasks), gpus_on_node(request, tasks)
        memory = memory_on_node(request, cpus, gpus)
        yield "too few cpus", total.cpus >= cpus
        yield "too little memory", total.memory_mib >= memory
        if request.gpu_share_milli:
            gpus = 1
            part = share_on_node(request, 1)
            has_part = ((free.shared > 0) & (WHOLE - free.shared >= part)).any(axis=1)
        if gpus:
            yield "too few gpus", _gpus(total, inventory, request) >= gpus
            busy = _gpus(free, inventory, request) < gpus
            yield "gpus busy", ~busy | has_part if request.gpu_share_milli else ~busy
        yield "cpus busy", free.cpus >= cpus
        yield "memory busy", free.memory_mib >= memory
        if request.exclusive:
            empty = (free.cpus == total.cpus) & (free.memory_mib == total.memory_mib)
            yield "not idle", empty & (free.gpus == total.gpus).all(axis=0)
        yield "reserved", beside.tasks > 0


def _gpus(counts: Counts, inventory: Inventory, request: ResourceRequest) -> Indexes:
    if "|" in request.gpu_type or request.gpu_memory_min_mib or request.gpu_capability_min:
        rows = inventory.rows_for(request.gpu_type, request.gpu_memory_min_mib, request.gpu_capability_min)
        return np.asarray((counts.gpus * rows).sum(axis=0))
    if request.gpu_type:
        row = inventory.rows.get(request.gpu_type)
        return np.zeros_like(counts.cpus) if row is None else counts.gpus[row]
    return np.asarray(counts.gpus.sum(axis=0))
