"""Start times beyond what passes were run for: by the work that comes first and the pace so far.

Pure, and rough: partitions that share nodes are one pool; its jobs are taken in the order of their priority,
and each starts when the CPU-seconds and GPU-seconds before it have been worked off at the pace at which the
pool was busy while the planner ran. No nodes are named.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Sequence
from math import ceil

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from minislurm.domain.configuration import Partition
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.states import Reason
from minislurm.domain.tres import CPU, GPU, add
from minislurm.scheduling.features import parse
from minislurm.scheduling.limits import least_tres
from minislurm.scheduling.model import RequestClass, Snapshot, Standing
from minislurm.scheduling.needs import bounds_of
from minislurm.scheduling.nodes import Counts, Inventory

#: Jobs between two yields: about a millisecond.
_PIECE = 200


#: Time alone does not help who waits for one of these.
NEVER = frozenset(
    {
        Reason.PARTITION_DOWN, Reason.PARTITION_INACTIVE, Reason.PARTITION_TIME_LIMIT,
        Reason.PARTITION_NODE_LIMIT, Reason.PARTITION_CONFIG, Reason.BAD_CONSTRAINTS,
        Reason.NODES_UNAVAILABLE, Reason.TOPOLOGY,
    }
)  # fmt: skip


class Pace:
    """How much of each node was in use, over time."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        size = len(inventory)
        self._seconds = 0.0
        self._used = np.zeros((2, size))

    def count(self, free: Counts, seconds: float) -> None:
        self._used += _amounts(self._inventory.total, free) * seconds
        self._seconds += seconds

    def of(self, nodes: Sequence[int]) -> tuple[float, float]:
        """CPUs and GPUs that were in use on these nodes, on average; all of them if no time has passed."""
        if self._seconds:
            amounts = self._used[:, nodes].sum(axis=1) / self._seconds
        else:
            total = self._inventory.total
            amounts = np.array([total.cpus[nodes].sum(), total.gpus[:, nodes].sum()], dtype=np.float64)
        return float(amounts[0]), float(amounts[1])


def _amounts(total: Counts, free: Counts) -> NDArray[np.float64]:
    gpus = total.gpus.sum(axis=0) - free.gpus.sum(axis=0)
    return np.array([total.cpus - free.cpus, gpus], dtype=np.float64)


class Start(Struct, frozen=True, gc=False):
    """The job starts then; its last task (of an array) then."""

    job_id: JobId
    first: float
    last: float


class _Entry(Struct, frozen=True, order=True, gc=False):
    """Smallest first. No two have the same job."""

    tier: int
    priority: int
    eligible_time: float
    job_id: JobId
    tasks: int
    #: Of each task.
    cpus: int
    gpus: int
    time_limit_s: float
    partition: str


def extrapolate(
    snapshot: Snapshot, standings: list[Standing], inventory: Inventory, pace: Pace
) -> Generator[None, None, list[Start]]:
    """Of all that wait there and can start, in no order. Takes the standings out of their list: to let go of
    a hundred thousand at once would take a while. Yields between units of work."""
    pools = yield from _pools(snapshot, inventory, pace)
    pieces: list[list[_Entry]] = [[]]
    whole_nodes = _WholeNodes(inventory)
    while standings:
        if len(standings) % _PIECE == 0:
            yield
        for entry in _entries(standings.pop(), whole_nodes):
            pieces[-1].append(entry)
            if len(pieces[-1]) == _PIECE:
                pieces[-1].sort()
                pieces.append([])
                yield
    pieces[-1].sort()
    found: list[Start] = []
    for entry in heapq.merge(*map(_taken, pieces)):
        found.append(pools[entry.partition].start(entry, snapshot.now))
        if len(found) % _PIECE == 0:
            yield
    return found


def _taken(piece: list[_Entry]) -> Iterator[_Entry]:
    piece.reverse()
    while piece:
        yield piece.pop()


def _entries(standing: Standing, whole_nodes: _WholeNodes) -> Iterator[_Entry]:
    if standing.head.reason in NEVER:
        return
    jobs, line = standing.jobs, standing.priority
    tier = -jobs.partition.priority_tier
    asked: dict[str, int] = {}
    for one in (jobs, *jobs.parts):
        exclusive = one.request.exclusive
        add(asked, whole_nodes.tres(one) if exclusive else least_tres(one.request, one.partition))
    cpus, gpus = asked.get(CPU, 0), asked.get(GPU, 0)
    for job in jobs.jobs[standing.first :]:
        priority = -line.unbounded_at(job.eligible_time)
        yield _Entry(
            tier, priority, job.eligible_time, job.job_id, len(job.tasks) or 1, cpus, gpus,
            jobs.time_limit_s, jobs.partition.name,
        )  # fmt: skip


class _WholeNodes:
    """What ``--exclusive`` takes: nodes as they are, of those that the job may use. Where they are not alike,
    as many as it takes of the average one."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        #: By partition and features: CPUs and GPUs of a node.
        self._averages: dict[tuple[str, str], tuple[float, float]] = {}

    def tres(self, jobs: RequestClass) -> dict[str, int]:
        request, bounds = jobs.request, bounds_of(jobs.request, jobs.partition)
        cpus, gpus = self._average(jobs)
        tasks = cpus // request.cpus_per_task
        if request.gpus_per_task:
            tasks = min(tasks, gpus // request.gpus_per_task)
        if request.tasks_per_node:
            tasks = min(tasks, request.tasks_per_node)
        nodes = max(bounds.nodes_min, ceil(bounds.tasks / max(1.0, tasks)))
        if request.gpus_total and gpus:
            nodes = max(nodes, ceil(request.gpus_total / gpus))
        nodes = max(bounds.nodes_min, min(nodes, bounds.nodes_max))
        return {CPU: round(nodes * cpus), GPU: round(nodes * gpus)}

    def _average(self, jobs: RequestClass) -> tuple[float, float]:
        key = jobs.partition.name, jobs.request.features
        found = self._averages.get(key)
        if found is None:
            inventory, fits = self._inventory, parse(jobs.request.features)
            index = inventory.index
            members = [index[name] for name in jobs.partition.nodes if name in index]
            nodes = [i for i in members if inventory.usable[i] and fits(inventory.features[i])] or members
            total = inventory.total
            found = float(total.cpus[nodes].mean()), float(total.gpus[:, nodes].sum(axis=0).mean())
            self._averages[key] = found
        return found


class _Pool:
    """What is worked off in a second, and how much there is to be done first: CPUs, GPUs."""

    def __init__(self, cpus: float, gpus: float) -> None:
        self._cpus, self._gpus = max(cpus, 1.0), max(gpus, 1.0)
        self._cpu_seconds = self._gpu_seconds = 0.0

    def start(self, entry: _Entry, now: float) -> Start:
        """When the work before it is done; its own is then before the next."""
        first = now + self._delay(entry)
        self._add(entry, entry.tasks - 1)
        last = now + self._delay(entry)
        self._add(entry, 1)
        return Start(entry.job_id, first, max(first, last))

    def _add(self, entry: _Entry, tasks: int) -> None:
        self._cpu_seconds += entry.cpus * entry.time_limit_s * tasks
        self._gpu_seconds += entry.gpus * entry.time_limit_s * tasks

    def _delay(self, entry: _Entry) -> float:
        by_cpus = self._cpu_seconds / self._cpus if entry.cpus else 0.0
        return max(by_cpus, self._gpu_seconds / self._gpus) if entry.gpus else by_cpus


def _pools(snapshot: Snapshot, inventory: Inventory, pace: Pace) -> Generator[None, None, dict[str, _Pool]]:
    """By partition: those that share nodes, directly or over others, are in one."""
    partitions: dict[str, Partition] = {}
    for number, jobs in enumerate(snapshot.classes):
        partitions.setdefault(jobs.partition.name, jobs.partition)
        if number % _PIECE == 0:
            yield
    #: The numbers of the groups that a node, and a group, has been found to be of.
    group_of: dict[NodeName, int] = {}
    merged_into = list(range(len(partitions)))
    for number, partition in enumerate(partitions.values()):
        yield
        for node in partition.nodes:
            other = _root(merged_into, group_of.setdefault(node, number))
            if other != (own := _root(merged_into, number)):
                merged_into[own] = other
    members: dict[int, list[int]] = {}
    for node, number in group_of.items():
        if node in inventory.index:
            members.setdefault(_root(merged_into, number), []).append(inventory.index[node])
    yield
    pools = {group: _Pool(*pace.of(nodes)) for group, nodes in members.items()}
    roots = (_root(merged_into, number) for number in range(len(partitions)))
    return {name: pools.get(root) or _Pool(0.0, 0.0) for name, root in zip(partitions, roots, strict=True)}


def _root(merged_into: list[int], group: int) -> int:
    while merged_into[group] != group:
        group = merged_into[group]
    return group
