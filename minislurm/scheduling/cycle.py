"""One scheduling pass: order -> filter -> place -> backfill.

Pure: a snapshot in, a plan out; no clock, no randomness, the same snapshot gives the same plan. Classes of
equal jobs are merged by the priority of their next job; the first job that cannot start blocks its class.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from minislurm.domain.states import Reason
from minislurm.scheduling.backfill import Backfill, Reservation, end_of
from minislurm.scheduling.draft import Draft
from minislurm.scheduling.filters import Filters, RequestKey, key_of
from minislurm.scheduling.model import Plan, RequestClass, Snapshot, Wait
from minislurm.scheduling.nodes import Counts, NodeTable, Share
from minislurm.scheduling.order import Queue, Ranking, Turn
from minislurm.scheduling.place import choose
from minislurm.scheduling.room import Room
from minislurm.scheduling.strategies import Strategies

#: Misfits for which it helps to see what each node lacks.
_NODE_REASONS = frozenset({Reason.PARTITION_CONFIG, Reason.BAD_CONSTRAINTS, Reason.NODES_UNAVAILABLE})


def schedule(snapshot: Snapshot) -> Plan:
    """What starts now and why the rest waits."""
    passing = steps(snapshot)
    while True:
        try:
            next(passing)
        except StopIteration as done:
            plan: Plan = done.value
            return plan


def steps(snapshot: Snapshot) -> Generator[None, None, Plan]:
    """The same pass in units of about a millisecond at most, so that a caller can do other things between."""
    table = yield from NodeTable.build(snapshot.nodes, snapshot.topology)
    ranking = Ranking(snapshot)
    draft, queue, cycle = Draft(), Queue(), _Cycle(snapshot, table)

    for jobs in snapshot.classes:
        turn = Turn(jobs, ranking.line(jobs))
        misfit = cycle.misfit(jobs) if jobs.jobs else None
        if misfit is not None:
            draft.wait(turn, misfit, misfit)
        elif jobs.jobs:
            queue.add(turn)
        yield

    while (turn_now := queue.pop()) is not None:
        turn = turn_now
        while turn.startable > 0 and (shares := cycle.find(turn.jobs)):
            draft.start(turn, table.place(shares))
            cycle.started(turn.jobs, shares)
            yield
        if turn.startable > 0:
            head, rest = yield from cycle.block(turn.jobs)
            draft.wait(turn, head, rest)
        else:
            if not turn.is_complete:
                draft.limit(turn)
            if turn.advance():
                queue.add(turn)
        yield
    return draft.plan()


class _Cycle:
    """What a pass knows by now: what is free, who is reserved for, which requests are known to be blocked."""

    def __init__(self, snapshot: Snapshot, table: NodeTable) -> None:
        self._settings = snapshot.settings
        self._now = snapshot.now
        self._table = table
        self._filters = Filters(table.inventory)
        self._strategies = Strategies(snapshot, table)
        self._backfill = Backfill(table.inventory, snapshot.now, snapshot.running)
        #: Partitions whose first blocked job has been met.
        self._heads: set[str] = set()
        #: Without backfill: nodes on which nothing more starts.
        self._closed = np.zeros(len(table.inventory), dtype=np.bool_)
        #: Blocked requests looked at behind a head.
        self._looked_at = 0
        #: In a pass less and less is free: what is blocked stays so, and whatever takes as long or longer.
        self._blocked: dict[RequestKey, tuple[float, Wait]] = {}
        #: The room of the class in turn, and how many of the table's changes it has seen.
        self._room: tuple[RequestClass, Room] | None = None
        self._seen = 0

    def misfit(self, jobs: RequestClass) -> Wait | None:
        """Why it cannot start whoever ends; such jobs hold nobody up."""
        reason = self._filters.misfit(jobs)
        if reason is None:
            return None
        if reason not in _NODE_REASONS:
            return Wait(reason)
        total = self._table.inventory.total
        return Wait(reason, self._filters.rejected(jobs, total, self._room_in(jobs, [total])))

    def find(self, jobs: RequestClass) -> list[Share] | None:
        """Where one more job of the class can start without delaying a reservation; None: nowhere."""
        if not self._is_in_turn(jobs) and (
            self._is_closed(jobs) or self._is_beyond_depth(jobs) or self._known_wait(jobs) is not None
        ):
            return None
        shares = choose(self._room_beside_reservations(jobs))
        return self._table.settle(shares) if shares and jobs.request.gpu_share_milli else shares

    def started(self, jobs: RequestClass, shares: list[Share]) -> None:
        self._backfill.started(shares, end_of(self._now, jobs.time_limit_s))

    def block(self, jobs: RequestClass) -> Generator[None, None, tuple[Wait, Wait]]:
        """The wait of the class' next job and that of those behind it. Reserves for a partition's first."""
        known = self._known_wait(jobs)
        if known is not None:
            return known, known
        if self._is_beyond_depth(jobs):
            wait = Wait(Reason.PRIORITY)
            return wait, wait
        wait = self._explain(jobs)
        yield
        partition = jobs.partition.name
        self._blocked[key_of(jobs)] = (end_of(self._now, jobs.time_limit_s), wait)
        if partition in self._heads:
            self._looked_at += 1
            return wait, wait
        self._heads.add(partition)
        if self._settings.backfill == "off":
            self._closed |= self._filters.members(jobs.partition).mask
            return wait, wait
        reservation = yield from self._backfill.reserve(
            partition, end_of(0.0, jobs.time_limit_s), self._table.free,
            lambda counts: choose(self._room_in(jobs, [counts])),
        )  # fmt: skip
        return (wait if reservation is None else self._planned(wait, reservation)), wait

    def _planned(self, wait: Wait, reservation: Reservation) -> Wait:
        names = self._table.inventory.names
        start = reservation.time if np.isfinite(reservation.time) else 0.0
        nodes = tuple(names[share.node] for share in reservation.shares)
        return Wait(wait.reason, wait.rejected, start, nodes)

    def _explain(self, jobs: RequestClass) -> Wait:
        """Resources: not even if it were first. Priority: it would fit, but others come before it."""
        now = self._room_in(jobs, [self._table.free])
        reason = Reason.RESOURCES if choose(now) is None else Reason.PRIORITY
        beside = now if self._is_closed(jobs) else self._room_beside_reservations(jobs)
        return Wait(reason, self._filters.rejected(jobs, self._table.free, beside))

    def _is_in_turn(self, jobs: RequestClass) -> bool:
        return self._room is not None and self._room[0] is jobs

    def _known_wait(self, jobs: RequestClass) -> Wait | None:
        end, wait = self._blocked.get(key_of(jobs), (0.0, None))
        return wait if end_of(self._now, jobs.time_limit_s) >= end else None

    def _is_beyond_depth(self, jobs: RequestClass) -> bool:
        return jobs.partition.name in self._heads and self._looked_at >= self._settings.backfill_depth

    def _is_closed(self, jobs: RequestClass) -> bool:
        if self._settings.backfill != "off" or not self._heads:
            return False
        return bool((self._closed & self._filters.members(jobs.partition).mask).any())

    def _room_beside_reservations(self, jobs: RequestClass) -> Room:
        """Kept while the same class is in turn: after a placement only its nodes are looked at again."""
        changes = self._table.changes
        if self._is_in_turn(jobs):
            assert self._room is not None
            room = self._room[1]
            if self._seen < len(changes):
                room.refresh(changes[self._seen :])
        else:
            reached = self._backfill.reached_by(end_of(self._now, jobs.time_limit_s))
            room = self._room_in(jobs, [self._table.free, *reached])
            self._room = (jobs, room)
        self._seen = len(changes)
        return room

    def _room_in(self, jobs: RequestClass, counts: list[Counts]) -> Room:
        filters = self._filters
        strategy = self._strategies.of(jobs)
        return Room(
            self._table.inventory, jobs.request, filters.bounds(jobs), filters.allowed(jobs), counts,
            strategy=strategy,
        )  # fmt: skip
