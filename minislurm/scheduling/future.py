"""A copy of the cluster that can be moved on in time: runs end at their limits, plans are carried out.

Pure. It starts from a snapshot and what the cluster knows of times to come (`Outlook`), and makes the
snapshot of any later instant. What has not changed are the same objects, so that a `Workspace` stays quick.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import Counter
from collections.abc import Container, Generator, Hashable, Iterable, Mapping, Sequence
from itertools import count
from math import inf

from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.domain import tres
from minislurm.domain.ids import Bitmap, JobId, indexes_of
from minislurm.domain.reservation import LicenseCount
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.tres import Tres
from minislurm.scheduling.backfill import end_of
from minislurm.scheduling.limits import Charged, charged_of
from minislurm.scheduling.model import (
    NodeAvailability,
    Placement,
    Plan,
    QueuedJob,
    RequestClass,
    RunningJob,
    Snapshot,
)

#: Classes, jobs or nodes looked at between two yields: about a millisecond.
_PIECE = 200


class After(Struct, frozen=True):
    """A dependency: so long (seconds) after all of these records have started, or ended."""

    job_ids: tuple[JobId, ...]
    starts: bool = False
    delay_s: float = 0.0


class Arrival(Struct, frozen=True):
    """A job that is not in the queue yet. `jobs`: its class, with this job alone; a class with the same key
    may wait already. It comes at `time`, or later when its dependencies are met (`any_one`: one is
    enough)."""

    jobs: RequestClass
    time: float = 0.0
    after: tuple[After, ...] = ()
    any_one: bool = False
    #: So many seconds after it came, if it still waits: what it becomes then (None: it leaves).
    patience: tuple[tuple[float, RequestClass | None], ...] = ()


class Turnover(Struct, frozen=True):
    """If it still waits then, the job becomes one of another class (`into`, with this job alone) or
    leaves."""

    time: float
    job_id: JobId
    into: RequestClass | None = None


class Outlook(Struct, frozen=True):
    """What the snapshot does not say of times to come."""

    #: How many tasks of an array may run at a time, where that is limited.
    array_limits: Mapping[JobId, int] = field(default_factory=dict)
    #: The array of a running task, where that is limited.
    array_of: Mapping[JobId, JobId] = field(default_factory=dict)
    #: Whom what runs is charged to, and how much; needed where there are accounts.
    charges: Mapping[JobId, tuple[Charged, Tres]] = field(default_factory=dict)
    #: When a job of the queue must have ended, its limit apart.
    deadlines: Mapping[JobId, float] = field(default_factory=dict)
    arrivals: tuple[Arrival, ...] = ()
    turnovers: tuple[Turnover, ...] = ()


class Future:
    """What takes long yields between units of work."""

    def __init__(self, snapshot: Snapshot, outlook: Outlook) -> None:
        """To be followed by `load`."""
        self.now = snapshot.now
        self._first = snapshot
        self._outlook = outlook
        self._nodes = list(snapshot.nodes)
        self._index = {node.name: i for i, node in enumerate(snapshot.nodes)}
        self._placed = max((node.last_placed for node in snapshot.nodes), default=0)
        self._licenses = dict(snapshot.licenses)
        self._ledger = snapshot.accounts.ledger.copy() if snapshot.accounts is not None else None
        self._charges = dict(outlook.charges)
        self._classes: dict[Hashable, RequestClass] = {}
        #: By the first job of each class that may start: it is among those that do, if any of the class is.
        self._front_of: dict[JobId, Hashable] = {}
        #: The classes of jobs that are looked for by name (`_find`).
        self._key_of: dict[JobId, Hashable] = {}
        self._runs = {run.job_id: run for run in snapshot.running}
        #: Simulated tasks have no record yet: their ids are -1, -2 …
        self._task_ids = count(-1, -1)
        #: Where a record is of a limited array: whose.
        self._array_of = dict(outlook.array_of)
        self._tasks_running = Counter(outlook.array_of.values())
        #: (end, job id) of what runs. What is past its limit ends at any moment.
        self._ends = [
            (max(run.end_time, self.now), run.job_id) for run in snapshot.running if run.end_time < inf
        ]
        heapq.heapify(self._ends)
        edges = {edge for r in snapshot.reservations for window in r.windows for edge in window}
        self._edges = sorted((edge for edge in edges if self.now < edge < inf), reverse=True)
        self._turnovers = sorted(outlook.turnovers, key=_latest_first)
        self._starts: dict[JobId, float] = {run.job_id: self.now for run in snapshot.running}
        self._end_of = {run.job_id: max(run.end_time, self.now) for run in snapshot.running}
        #: Of arrays whose tasks have not all started.
        self._ends_so_far: dict[JobId, float] = {}
        #: (time, position, arrival) of those whose time is known, and the others by what they wait for.
        self._coming: list[tuple[float, int, Arrival]] = []
        self._waiting_for: dict[JobId, list[int]] = {}

    def load(self) -> Generator[None, None, None]:
        """Reads the queue, and who comes later."""
        named = set(self._outlook.array_limits) | {turnover.job_id for turnover in self._turnovers}
        for number, jobs in enumerate(self._first.classes):
            if jobs.jobs:
                self._put(_key(jobs), jobs, jobs.jobs)
                if named:
                    yield from self._note_keys(jobs, named)
            if number % _PIECE == 0:
                yield
        for position in range(len(self._outlook.arrivals)):
            self._look_at(position, is_new=True)
            if position % _PIECE == 0:
                yield

    def _note_keys(self, jobs: RequestClass, named: Container[JobId]) -> Generator[None, None, None]:
        key = _key(jobs)
        for number, job in enumerate(jobs.jobs, 1):
            if job.job_id in named:
                self._key_of[job.job_id] = key
            if number % _PIECE == 0:
                yield

    # What is to come

    def next_instant(self) -> float:
        """When something changes by itself; infinity: never again. May be now."""
        times = [inf]
        if self._ends:
            times.append(self._ends[0][0])
        if self._edges:
            times.append(self._edges[-1])
        if self._coming:
            times.append(self._coming[0][0])
        if self._turnovers:
            times.append(self._turnovers[-1].time)
        return min(times)

    @property
    def has_waiting(self) -> bool:
        return bool(self._classes or self._coming or self._waiting_for)

    @property
    def has_coming(self) -> bool:
        """Jobs that are not in the queue yet, but will be."""
        return bool(self._coming)

    def advance(self, time: float) -> Generator[None, None, None]:
        """To that instant: all that happens up to then has happened."""
        self.now = max(self.now, time)
        while self._ends and self._ends[0][0] <= self.now:
            yield from self._end(heapq.heappop(self._ends)[1])
            yield
        while self._edges and self._edges[-1] <= self.now:
            self._edges.pop()
        while self._coming and self._coming[0][0] <= self.now:
            due, _, arrival = heapq.heappop(self._coming)
            yield from self._join(arrival.jobs, due)
            job_id = arrival.jobs.jobs[0].job_id
            for wait_s, into in arrival.patience:
                insort(self._turnovers, Turnover(due + wait_s, job_id, into), key=_latest_first)
            yield
        while self._turnovers and self._turnovers[-1].time <= self.now:
            yield from self._turn_over(self._turnovers.pop())
            yield

    def snapshot(self) -> Snapshot:
        accounts = self._first.accounts
        if accounts is not None and self._ledger is not None:
            accounts = replace(accounts, ledger=self._ledger)
        return replace(
            self._first,
            now=self.now,
            nodes=tuple(self._nodes),
            running=tuple(self._runs.values()),
            classes=tuple(self._classes.values()),
            licenses=dict(self._licenses),
            accounts=accounts,
        )

    # A plan is carried out

    def carry_out(self, plan: Plan) -> Generator[None, None, None]:
        by_job: dict[JobId, list[Placement]] = {}
        for placement in plan.placements:
            by_job.setdefault(placement.job_id, []).append(placement)
        keys = [key for job_id in by_job if (key := self._front_of.get(job_id)) is not None]
        for key in keys:
            yield from self._start_of(key, self._classes[key], by_job)

    def _start_of(
        self, key: Hashable, jobs: RequestClass, by_job: Mapping[JobId, Sequence[Placement]]
    ) -> Generator[None, None, None]:
        """The members that start stand at the front, but for arrays that are at their limit."""
        position = 0
        left: list[QueuedJob] = []
        while position < len(jobs.jobs):
            job = jobs.jobs[position]
            placements = by_job.get(job.job_id, ())
            if not placements and job.slots > 0:
                break
            position += 1
            for placement in placements:
                yield from self._start(jobs, job, placement)
                yield from self._start_parts(jobs, placement)
                yield
            tasks = job.tasks[len(placements) :]
            if tasks:
                left.append(replace(job, tasks=tasks, slots=self._slots(job.job_id, len(tasks))))
            else:
                self._tell_start_and_end(job.job_id)
        rest = jobs.jobs[position:]
        self._put(key, jobs, [*left, *rest] if left else rest)

    def _start_parts(self, jobs: RequestClass, placement: Placement) -> Generator[None, None, None]:
        """The other components of a heterogeneous job."""
        end = self._end_time(jobs, placement.job_id) if jobs.parts else inf
        for part, other in zip(jobs.parts, placement.parts, strict=True):
            yield from self._start(part, part.jobs[0], other, end)
            self._tell_start_and_end(other.job_id)

    def _start(
        self, jobs: RequestClass, job: QueuedJob, placement: Placement, end: float = inf
    ) -> Generator[None, None, None]:
        """`end`: when the leader of its heterogeneous job ends, and so all components."""
        request = jobs.request
        end = min(end, self._end_time(jobs, job.job_id))
        run = RunningJob(
            job.job_id if placement.task_id is None else JobId(next(self._task_ids)),
            end,
            placement.allocation,
            jobs.user_id,
            request.exclusive_user is not None,
            request.licenses,
        )
        self._runs[run.job_id] = run
        if end < inf:
            heapq.heappush(self._ends, (end, run.job_id))
        self._placed += 1
        yield from self._change_nodes(placement.allocation, taken=True)
        self._use(request.licenses, -1)
        if self._ledger is not None:
            who = charged_of(jobs)
            amounts = self._tres_of(placement.allocation)
            self._charges[run.job_id] = (who, amounts)
            self._ledger.charge(who, amounts)
        if job.job_id in self._outlook.array_limits:
            self._array_of[run.job_id] = job.job_id
            self._tasks_running[job.job_id] += 1
        self._ends_so_far[job.job_id] = max(end, self._ends_so_far.get(job.job_id, 0.0))

    def _end_time(self, jobs: RequestClass, job_id: JobId) -> float:
        """By its limit, its deadline, or with its reservation."""
        end = min(end_of(self.now, jobs.time_limit_s), self._outlook.deadlines.get(job_id, inf))
        for reserved in self._first.reservations:
            if reserved.name == jobs.request.reservation and reserved.binds_time:
                end = min([end, *(stop for start, stop in reserved.windows if start <= self.now < stop)])
        return end

    def _end(self, job_id: JobId) -> Generator[None, None, None]:
        run = self._runs.pop(job_id)
        yield from self._change_nodes((*run.allocation, *run.leaving), taken=False)
        self._use(run.licenses, 1)
        charged = self._charges.pop(job_id, None)
        if charged is not None and self._ledger is not None:
            self._ledger.charge(*charged, -1)
        array_id = self._array_of.pop(job_id, None)
        if array_id is not None:
            self._tasks_running[array_id] -= 1
            yield from self._open_slots(array_id)

    def _use(self, licenses: Iterable[LicenseCount], sign: int) -> None:
        for license in licenses:
            if license.name in self._licenses:
                self._licenses[license.name] += sign * license.count

    def _tres_of(self, allocation: Iterable[NodeAllocation]) -> dict[str, int]:
        total: dict[str, int] = {}
        for part in allocation:
            amounts = {tres.CPU: part.cpu_count, tres.MEMORY: part.memory_mib, tres.NODE: 1}
            tres.add(total, {**amounts, tres.GPU: part.gpu_count})
            for gpu_type, bits in self._nodes[self._index[part.node]].gpus_by_type.items():
                tres.add(total, {tres.gpus_of_type(gpu_type): (part.gpus & bits).bit_count()})
        return total

    # Nodes

    def _change_nodes(self, parts: Sequence[NodeAllocation], *, taken: bool) -> Generator[None, None, None]:
        for number, part in enumerate(parts, 1):
            i = self._index.get(part.node)
            if i is not None:  # it may have left the configuration
                node = self._nodes[i]
                self._nodes[i] = _with(node, part, self._placed) if taken else _without(node, part)
            if number % _PIECE == 0:
                yield

    # Classes

    def _put(self, key: Hashable, jobs: RequestClass, members: Sequence[QueuedJob]) -> None:
        before = self._classes.pop(key, None) if not members else self._classes.get(key)
        if before is not None:
            self._front_of.pop(_front(before.jobs), None)
        if members:
            self._classes[key] = jobs if jobs.jobs is members else replace(jobs, jobs=members)
            self._front_of[_front(members)] = key

    def _join(self, jobs: RequestClass, eligible_time: float) -> Generator[None, None, None]:
        """The one job of `jobs` joins its class, from then on."""
        key, job = _key(jobs), jobs.jobs[0]
        slots = self._slots(job.job_id, len(job.tasks) or 1)
        # As snapshots have it: among jobs of equal standing the order is that of becoming eligible.
        job = replace(job, eligible_time=eligible_time, submit_time=eligible_time, slots=slots)
        there = self._classes.get(key)
        members = (yield from _listed(there.jobs)) if there is not None else []
        insort(members, job, key=lambda member: (member.eligible_time, member.job_id))
        self._put(key, there or jobs, members)
        self._key_of[job.job_id] = key

    def _turn_over(self, turnover: Turnover) -> Generator[None, None, None]:
        found = yield from self._find(turnover.job_id)
        if found is None:
            return
        key, members, position = found
        job = members.pop(position)
        self._put(key, self._classes[key], members)
        if turnover.into is not None:
            yield from self._join(replace(turnover.into, jobs=(job,)), job.eligible_time)

    def _slots(self, job_id: JobId, tasks: int) -> int:
        limit = self._outlook.array_limits.get(job_id)
        return tasks if limit is None else max(0, min(tasks, limit - self._tasks_running[job_id]))

    def _open_slots(self, array_id: JobId) -> Generator[None, None, None]:
        found = yield from self._find(array_id)
        if found is not None:
            key, members, position = found
            job = members[position]
            members[position] = replace(job, slots=self._slots(array_id, len(job.tasks)))
            self._put(key, self._classes[key], members)

    def _find(self, job_id: JobId) -> Generator[None, None, tuple[Hashable, list[QueuedJob], int] | None]:
        """The class of a job that waits, a copy of its members, and where it is among them."""
        key = self._key_of.get(job_id)
        jobs = self._classes.get(key)
        if jobs is None:
            return None
        members = yield from _listed(jobs.jobs)
        position = next((i for i, job in enumerate(members) if job.job_id == job_id), None)
        return None if position is None else (key, members, position)

    # Dependencies

    def _tell_start_and_end(self, job_id: JobId) -> None:
        """All of the record has started, so it is known when it ends."""
        self._starts[job_id] = self.now
        self._end_of[job_id] = self._ends_so_far.pop(job_id)
        for position in self._waiting_for.pop(job_id, ()):
            self._look_at(position)

    def _look_at(self, position: int, *, is_new: bool = False) -> None:
        """Puts the arrival among the coming ones, if it is known when it comes."""
        arrival = self._outlook.arrivals[position]
        times = [self._met_at(after) for after in arrival.after]
        due = (min(times) if arrival.any_one else max(times)) if times else 0.0
        if due < inf:
            self._forget(position, arrival)
            heapq.heappush(self._coming, (max(self.now, due, arrival.time), position, arrival))
        elif is_new:
            for after in arrival.after:
                for job_id in after.job_ids:
                    self._waiting_for.setdefault(job_id, []).append(position)

    def _forget(self, position: int, arrival: Arrival) -> None:
        for after in arrival.after:
            for job_id in after.job_ids:
                others = self._waiting_for.get(job_id, [])
                if position in others:
                    others.remove(position)
                if not others:
                    self._waiting_for.pop(job_id, None)

    def _met_at(self, after: After) -> float:
        times = self._starts if after.starts else self._end_of
        known = [times.get(job_id, inf) for job_id in after.job_ids]
        return max(known, default=0.0) + after.delay_s


def _latest_first(turnover: Turnover) -> tuple[float, int]:
    return -turnover.time, -turnover.job_id


def _listed(members: Sequence[QueuedJob]) -> Generator[None, None, list[QueuedJob]]:
    """A copy. A snapshot's members are made when they are first looked at, which takes a while."""
    if isinstance(members, list):
        return members.copy()
    found: list[QueuedJob] = []
    for first in range(0, len(members), _PIECE):
        found.extend(members[i] for i in range(first, min(first + _PIECE, len(members))))
        yield
    return found


def _front(members: Sequence[QueuedJob]) -> JobId:
    """The first that may start; where all are arrays at their limits, the first."""
    return next((job.job_id for job in members if job.slots > 0), members[0].job_id)


def _key(jobs: RequestClass) -> Hashable:
    return id(jobs) if jobs.key is None else jobs.key


def _with(node: NodeAvailability, part: NodeAllocation, placement: int) -> NodeAvailability:
    shares = node.gpu_shares
    if part.gpu_share_milli:
        shares = _shared(node, part, part.gpu_share_milli)
    return replace(
        node,
        cpus_free=Bitmap(node.cpus_free & ~part.cpus),
        memory_free_mib=node.memory_free_mib - part.memory_mib,
        gpus_free=Bitmap(node.gpus_free & ~part.gpus),
        gpu_shares=shares,
        jobs=node.jobs + 1,
        last_placed=placement,
    )


def _without(node: NodeAvailability, part: NodeAllocation) -> NodeAvailability:
    freed, shares = part.gpus, node.gpu_shares
    if part.gpu_share_milli:
        shares = _shared(node, part, -part.gpu_share_milli)
        in_use = sum(1 << gpu for gpu, _ in shares)
        freed = Bitmap(freed & ~in_use)
    return replace(
        node,
        cpus_free=Bitmap(node.cpus_free | part.cpus),
        memory_free_mib=node.memory_free_mib + part.memory_mib,
        gpus_free=Bitmap(node.gpus_free | freed),
        gpu_shares=shares,
        jobs=max(0, node.jobs - 1),
    )


def _shared(node: NodeAvailability, part: NodeAllocation, milli: int) -> tuple[tuple[int, int], ...]:
    shares = dict(node.gpu_shares)
    (gpu,) = indexes_of(part.gpus)
    shares[gpu] = shares.get(gpu, 0) + milli
    return tuple((index, used) for index, used in shares.items() if used)
