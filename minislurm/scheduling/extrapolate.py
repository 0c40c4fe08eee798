"""Start times beyond what passes were run for: by the work that comes first and the pace so far.

Pure, and rough: partitions that share nodes are one pool; its jobs are taken in the order of their priority,
and each starts when the CPU-seconds and GPU-seconds before it have been worked off at the pace at which the
pool was busy while the planner ran. No nodes are named.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minislurm.domain.ids import JobId
from minislurm.domain.tres import CPU, GPU, add
from minislurm.scheduling.limits import least_tres
from minislurm.scheduling.model import RequestClass, Snapshot, Standing
from minislurm.scheduling.nodes import Counts, Inventory

#: Jobs between two yields: about a millisecond.
_PIECE = 200


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


class Start(NamedTuple):
    """The job starts then; its last task (of an array) then."""

    job_id: JobId
    first: float
    last: float


class _Entry(NamedTuple):
    """Smallest first."""

    tier: int
    priority: int
    eligible_time: float
    job_id: JobId
    tasks: int
    jobs: RequestClass


def extrapolate(
    snapshot: Snapshot, standings: Iterable[Standing], inventory: Inventory, pace: Pace
) -> Generator[None, None, list[Start]]:
    """Of all that wait there, in the order in which they start. Yields between units of work."""
    pools = _Pools(snapshot, inventory, pace)
    pieces: list[list[_Entry]] = [[]]
    for standing in standings:
        for entry in _entries(standing):
            pieces[-1].append(entry)
            if len(pieces[-1]) == _PIECE:
                pieces[-1].sort()
                pieces.append([])
                yield
    pieces[-1].sort()
    found: list[Start] = []
    for entry in heapq.merge(*pieces):
        found.append(pools.of(entry.jobs.partition.name).start(entry, snapshot.now))
        if len(found) % _PIECE == 0:
            yield
    return found


def _entries(standing: Standing) -> Iterator[_Entry]:
    jobs, line = standing.jobs, standing.priority
    tier = -jobs.partition.priority_tier
    for job in jobs.jobs[standing.first :]:
        priority = -line.unbounded_at(job.eligible_time)
        yield _Entry(tier, priority, job.eligible_time, job.job_id, len(job.tasks) or 1, jobs)


class _Pool:
    def __init__(self, cpus: float, gpus: float) -> None:
        self._rates = {CPU: cpus, GPU: gpus}
        self._ahead = {CPU: 0.0, GPU: 0.0}
        #: By class, which the entries keep alive.
        self._asked: dict[int, dict[str, int]] = {}

    def start(self, entry: _Entry, now: float) -> Start:
        """When the work before it is done; its own is then before the next."""
        asked = self._asked.get(id(entry.jobs))
        if asked is None:
            asked = {}
            for jobs in (entry.jobs, *entry.jobs.parts):
                add(asked, least_tres(jobs.request, jobs.partition))
            self._asked[id(entry.jobs)] = asked
        first = now + self._delay(asked)
        for name in self._ahead:
            self._ahead[name] += asked.get(name, 0) * entry.jobs.time_limit_s * (entry.tasks - 1)
        last = now + self._delay(asked)
        for name in self._ahead:
            self._ahead[name] += asked.get(name, 0) * entry.jobs.time_limit_s
        return Start(entry.job_id, first, max(first, last))

    def _delay(self, asked: dict[str, int]) -> float:
        waits = [self._ahead[name] / max(rate, 1.0) for name, rate in self._rates.items() if asked.get(name)]
        return max(waits, default=0.0)


class _Pools:
    """Partitions that share nodes, directly or over others, are in one."""

    def __init__(self, snapshot: Snapshot, inventory: Inventory, pace: Pace) -> None:
        partitions = {jobs.partition.name: jobs.partition for jobs in snapshot.classes}
        self._of: dict[str, _Pool] = {}
        while partitions:
            name, first = partitions.popitem()
            names, nodes = [name], set(first.nodes)
            while joined := [n for n, other in partitions.items() if not nodes.isdisjoint(other.nodes)]:
                for n in joined:
                    nodes.update(partitions.pop(n).nodes)
                names += joined
            indexes = [inventory.index[node] for node in nodes if node in inventory.index]
            pool = _Pool(*pace.of(indexes))
            self._of.update(dict.fromkeys(names, pool))

    def of(self, partition: str) -> _Pool:
        return self._of[partition]
