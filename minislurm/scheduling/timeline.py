"""Which amounts come free on which node, and when: the ends of the running jobs, in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Generator, Iterable, Sequence
from operator import attrgetter, itemgetter

import numpy as np

from minislurm.domain.ids import JobId
from minislurm.domain.resources import NodeAllocation
from minislurm.scheduling.domains import Indexes
from minislurm.scheduling.model import RunningJob
from minislurm.scheduling.nodes import Counts, Inventory, PartialShares, Share
from minislurm.scheduling.work import finished

#: Allocations read between two yields: about a millisecond.
_CHUNK = 500
#: Shares put into arrays between two yields.
_SORTED = 2000

_AMOUNTS = attrgetter("node", "cpus", "memory_mib")


class Timeline:
    """Kept from pass to pass: `load` reads only what has changed; placements of the pass follow."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._now = 0.0
        self._known: dict[JobId, tuple[RunningJob, tuple[Share, ...]]] = {}
        #: (end, job id) of the running jobs, ascending.
        self._order: list[tuple[float, JobId]] = []
        #: What runs that go on are about to give back.
        self._leaving: dict[JobId, tuple[Share, ...]] = {}
        #: Placements of this pass.
        self._ends: list[float] = []
        self._shares: list[Share] = []
        self._sorted: SortedShares | None = None

    def begin(self, now: float) -> None:
        """A new pass: the placements of the last one are running jobs by now, or were refused."""
        self._now = now
        if self._ends:
            self._ends, self._shares, self._sorted = [], [], None

    def load(self, running: Iterable[RunningJob]) -> Generator[None, None, None]:
        """Yields between units of work."""
        current = {job.job_id: job for job in running}
        gone = [job_id for job_id, (job, _) in self._known.items() if current.get(job_id) is not job]
        for job_id in gone:
            job, _ = self._known.pop(job_id)
            del self._order[bisect_left(self._order, (job.end_time, job_id))]
            self._leaving.pop(job_id, None)
        if gone:
            self._sorted = None
        count = 0
        for job_id in [job_id for job_id in current if job_id not in self._known]:
            job = current[job_id]
            self._sorted = None
            self._known[job_id] = (job, self._shares_of(job.allocation))
            if job.leaving:
                self._leaving[job_id] = self._shares_of(job.leaving)
            insort(self._order, (job.end_time, job_id))
            count += len(job.allocation)
            if count >= _CHUNK:
                count = 0
                yield

    def _shares_of(self, parts: Iterable[NodeAllocation]) -> tuple[Share, ...]:
        shares = (self._inventory.share_of(allocation) for allocation in parts)
        return tuple([share for share in shares if share is not None])

    def add(self, end: float, shares: Sequence[Share]) -> None:
        self._ends += [end] * len(shares)
        self._shares += shares
        self._sorted = None

    def earliest_in_single(self, share: Share, free: Counts) -> tuple[float, Counts] | None:
        """When a share fits on the cluster's only node, if nothing else starts, and what is free then. None:
        not even after everything has ended."""
        ends = [(0.0, shares) for shares in self._leaving.values()]
        ends += [(end, self._known[job_id][1]) for end, job_id in self._order]
        if self._ends:
            ends += [(end, (placed,)) for end, placed in zip(self._ends, self._shares, strict=True)]
            ends.sort(key=itemgetter(0))
        cpus, memory_mib = int(free.cpus[0]), int(free.memory_mib[0])
        time = self._now
        for end, shares in ends:
            if end > time:
                if share.cpus <= cpus and share.memory_mib <= memory_mib:
                    break
                time = end
            for freed in shares:
                cpus += freed.cpus
                memory_mib += freed.memory_mib
        if share.cpus > cpus or share.memory_mib > memory_mib:
            return None
        then = free.copy()
        then.cpus[0], then.memory_mib[0] = cpus, memory_mib
        return time, then

    def sorted(self) -> SortedShares:
        if self._sorted is None:
            for _ in self.sort():
                pass
        assert self._sorted is not None
        return self._sorted

    def sort(self) -> Generator[None, None, None]:
        """Does the work of `sorted` beforehand. Yields between units of it."""
        if self._sorted is not None:
            return
        ends, shares = list(self._ends), list(self._shares)
        leaving = [share for some in self._leaving.values() for share in some]
        ends, shares = ends + [0.0] * len(leaving), shares + leaving
        read = len(shares)
        for end, job_id in self._order:
            for share in self._known[job_id][1]:
                ends.append(end)
                shares.append(share)
            if len(shares) - read > _SORTED:
                read = len(shares)
                yield
        in_order = not self._ends
        types = len(self._inventory.type_bits)
        self._sorted = yield from SortedShares.build(ends, shares, types, in_order=in_order)


class SortedShares:
    """The shares in the order of their ends, as arrays. A run past its limit is about to end."""

    @classmethod
    def build(
        cls, ends: Sequence[float], shares: Sequence[Share], gpu_types: int, *, in_order: bool = False
    ) -> Generator[None, None, SortedShares]:
        """`in_order`: the ends ascend already. Yields between units of work."""
        columns = np.zeros((len(shares), 3), dtype=np.int64)
        gpus = np.zeros((len(shares), gpu_types), dtype=np.int64)
        for start in range(0, len(shares), _SORTED):
            some = shares[start : start + _SORTED]
            columns[start : start + len(some)] = list(map(_AMOUNTS, some))
            if gpu_types:
                gpus[start : start + len(some)] = [share.gpus for share in some]
            yield
        return cls(ends, shares, columns, gpus, in_order=in_order)

    def __init__(
        self,
        ends: Sequence[float],
        shares: Sequence[Share],
        columns: Indexes,
        gpus: Indexes,
        *,
        in_order: bool,
    ) -> None:
        """`columns`: node, CPUs and memory of each share, one row each; `gpus`: by type, likewise."""
        times = np.array(ends, dtype=np.float64)
        if not in_order:
            order = times.argsort(kind="stable")
            times, columns, gpus = times[order], columns[order], gpus[order]
        self.ends = times
        self.nodes: Indexes = columns[:, 0]
        self.cpus: Indexes = columns[:, 1]
        self.memory_mib: Indexes = columns[:, 2]
        #: At most: a share counts as a whole GPU. What it truly gives back depends on who else is on it.
        self.gpus: Indexes = gpus
        self._whole = gpus
        parts = [i for i, share in enumerate(shares) if share.gpu >= 0]
        if parts:
            parts.sort(key=ends.__getitem__)
            is_part = np.array([share.gpu >= 0 for share in shares], dtype=np.bool_)
            is_part = is_part if in_order else is_part[order]
            self._whole = np.where(is_part[:, None], 0, gpus)
        self._partial = PartialShares([ends[i] for i in parts], [shares[i] for i in parts])

    def freed(self, kind: int) -> Indexes:
        """By share: CPUs, memory in MiB, GPUs of every type together (in the order of `Sums`)."""
        return (self.cpus, self.memory_mib)[kind] if kind < 2 else np.asarray(self.gpus.sum(axis=1))

    def released_by(self, time: float, free: Counts) -> Counts:
        """What is free then, if nothing else starts."""
        count = int(self.ends.searchsorted(time, side="right"))
        then, nodes = free.copy(), self.nodes[:count]
        np.add.at(then.cpus, nodes, self.cpus[:count])
        np.add.at(then.memory_mib, nodes, self.memory_mib[:count])
        for row in range(len(then.gpus)):
            np.add.at(then.gpus[row], nodes, self._whole[:count, row])
        self._partial.release_by(time, then)
        return then


def with_released(free: Counts, shares: Sequence[Share]) -> Counts:
    """What is free when these have been given back."""
    if not shares:
        return free
    ends = finished(SortedShares.build([0.0] * len(shares), shares, len(free.gpus), in_order=True))
    return ends.released_by(0.0, free)
