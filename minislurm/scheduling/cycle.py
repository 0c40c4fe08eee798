"""One scheduling pass: order -> filter -> place -> backfill.

Pure: a snapshot in, a plan out; no clock, no randomness, the same snapshot gives the same plan. Classes of
equal jobs are merged by the order of their next job; the first job that cannot start blocks its class.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from minislurm.domain.states import Reason
from minislurm.scheduling.backfill import Backfill, Reservation, end_of
from minislurm.scheduling.capacity import Capacity
from minislurm.scheduling.conservative import ConservativeBackfill
from minislurm.scheduling.draft import Draft
from minislurm.scheduling.model import TASK_LIMIT, Plan, RequestClass, Snapshot, Wait
from minislurm.scheduling.nodes import Counts, Share
from minislurm.scheduling.order import Queue, Ranking, Turn
from minislurm.scheduling.place import choose
from minislurm.scheduling.room import Room
from minislurm.scheduling.workspace import Candidate, Workspace

#: Misfits for which it helps to see what each node lacks.
_NODE_REASONS = frozenset({Reason.PARTITION_CONFIG, Reason.BAD_CONSTRAINTS, Reason.NODES_UNAVAILABLE})

_RESOURCES, _PRIORITY = Wait(Reason.RESOURCES), Wait(Reason.PRIORITY)


def schedule(snapshot: Snapshot, workspace: Workspace | None = None, *, explain: bool = False) -> Plan:
    """What starts now and why the rest waits."""
    passing = steps(snapshot, workspace, explain=explain)
    while True:
        try:
            next(passing)
        except StopIteration as done:
            plan: Plan = done.value
            return plan


def steps(
    snapshot: Snapshot, workspace: Workspace | None = None, *, explain: bool = False
) -> Generator[None, None, Plan]:
    """The same pass in units of about a millisecond at most, so that a caller can do other things between.

    `workspace`: that of the last pass, if there is one. `explain`: counts by what they lack the nodes that
    cannot take a job.
    """
    workspace = workspace if workspace is not None else Workspace()
    yield from workspace.load(snapshot)
    ranking = Ranking(snapshot, workspace.table.inventory)
    draft, queue = Draft(), Queue(snapshot.settings.order)
    cycle = _Cycle(snapshot, workspace, queue, explain=explain)

    turns: list[Turn] = []
    for jobs in snapshot.classes:
        if not jobs.jobs:
            continue
        candidate = workspace.candidate(jobs)
        turn = Turn(candidate, ranking.line(candidate))
        if candidate.misfit is None:
            turns.append(turn)
        else:
            draft.wait(turn, cycle.misfit(candidate))
        yield
    yield from queue.load(turns)

    while (turn_now := queue.pop()) is not None:
        turn = turn_now
        while turn.startable > 0 and (shares := cycle.find(turn)):
            draft.start(turn, workspace.table.place(shares))
            cycle.started(turn, shares)
            yield
        if turn.startable > 0:
            wait = yield from cycle.block(turn)
            for _ in range(1, turn.startable):
                if not cycle.is_done_with(turn):
                    yield from cycle.block(turn)  # a task of the same array
            if cycle.is_done_with(turn):
                draft.wait(turn, wait, *cycle.why_behind(turn, wait))
                if cycle.is_over:
                    break
                yield
                continue
            turn.note(wait)
        elif turn.first_blocked >= 0:
            turn.note(TASK_LIMIT)
        elif not turn.is_complete:
            draft.limit(turn)
        if turn.advance():
            queue.add(turn)
        elif turn.waits:
            draft.wait(turn)
        yield
    for turn in queue.rest():
        draft.wait(turn, cycle.why_beyond_depth(turn))
        yield
    return draft.plan()


class _Cycle:
    """What a pass knows by now: what is free, who is reserved for, which requests are known to be blocked."""

    def __init__(self, snapshot: Snapshot, workspace: Workspace, queue: Queue, *, explain: bool) -> None:
        self._settings = settings = snapshot.settings
        self._now = snapshot.now
        self._queue = queue
        self._explains = explain
        self._table = workspace.table
        self._filters = workspace.filters
        self._capacity = Capacity(workspace.filters, workspace.table.free)
        kind = ConservativeBackfill if settings.backfill == "conservative" else Backfill
        self._backfill = kind(snapshot, workspace.filters, self._capacity, workspace.timeline)
        #: By partition: so many blocked jobs have been met, the head first.
        self._blocked_in: dict[str, int] = {}
        self._partition_count = len({jobs.partition.name for jobs in snapshot.classes if jobs.jobs})
        #: Without backfill: nodes on which nothing more starts.
        self._closed = np.zeros(len(workspace.table.inventory), dtype=np.bool_)
        #: Blocked requests looked at behind a head.
        self._looked_at = 0
        #: In a pass less and less is free: what is blocked stays so, and whatever takes as long or longer.
        #: By `Candidate.number`: since which end.
        self._blocked: dict[int, tuple[float, Wait]] = {}
        #: The room of the class in turn, and how many of the table's changes it has seen.
        self._room: tuple[RequestClass, Room] | None = None
        self._seen = 0

    def misfit(self, candidate: Candidate) -> Wait:
        """Why it cannot start whoever ends; such jobs hold nobody up."""
        jobs, reason = candidate.jobs, candidate.misfit
        assert reason is not None
        if not self._explains or reason not in _NODE_REASONS:
            return Wait(reason)
        total = self._table.inventory.total
        return Wait(reason, self._filters.rejected(jobs, total, self._room_in(jobs, [total])))

    def find(self, turn: Turn) -> list[Share] | None:
        """Where one more job of the class can start without delaying a reservation; None: nowhere."""
        jobs = turn.jobs
        if turn.first_blocked >= 0:
            return None
        if not self._is_in_turn(jobs) and (
            self._is_closed(jobs) or self._is_beyond_depth(jobs) or self._known_wait(turn) is not None
        ):
            return None
        if self._is_short(turn.candidate):
            return None
        return choose(self._room_beside_reservations(jobs))

    def started(self, turn: Turn, shares: list[Share]) -> None:
        self._capacity.started(shares)
        self._backfill.started(shares, end_of(self._now, turn.jobs.time_limit_s))

    def block(self, turn: Turn) -> Generator[None, None, Wait]:
        """Why the next job of the class waits. Reserves for it where backfill says so."""
        jobs = turn.jobs
        wait = self._known_wait(turn)
        if wait is None and self._is_beyond_depth(jobs):
            return _PRIORITY
        is_new = wait is None
        if wait is None:
            wait = self._why(turn)
            self._blocked[turn.candidate.number] = (end_of(self._now, jobs.time_limit_s), wait)
            yield
        partition = jobs.partition.name
        position = self._blocked_in.get(partition, 0)
        self._blocked_in[partition] = position + 1
        if position:
            self._looked_at += is_new
        elif self._settings.backfill_order == "shortest":
            yield from self._queue.turn_to_shortest_first(partition)
        if self._settings.backfill == "off":
            self._closed |= self._filters.members(jobs.partition).mask
            return wait
        if position >= self._backfill.reservations_a_partition:
            return wait
        reservation = yield from self._backfill.reserve(
            jobs.partition, end_of(0.0, jobs.time_limit_s), turn.candidate.demand, self._table.free,
            lambda counts: choose(self._room_in(jobs, counts)),
        )  # fmt: skip
        return wait if reservation is None else self._planned(wait, reservation)

    def is_done_with(self, turn: Turn) -> bool:
        """Whether the jobs behind the blocked one need not be looked at: they ask for the same and get no
        reservation of their own."""
        blocked = self._blocked_in.get(turn.jobs.partition.name, 0)
        return blocked >= self._backfill.reservations_a_partition or self._is_beyond_depth(turn.jobs)

    @property
    def is_over(self) -> bool:
        """Whether the classes that are left are all too far back, whatever their order."""
        return (
            self._looked_at >= self._settings.backfill_depth
            and len(self._blocked_in) == self._partition_count
        )

    def why_beyond_depth(self, turn: Turn) -> Wait:
        return self._known_wait(turn) or _PRIORITY

    def why_behind(self, turn: Turn, wait: Wait) -> tuple[Wait, ...]:
        """Why those behind the blocked job wait, where that differs."""
        known = self._known_wait(turn)
        return () if known is None or known is wait else (known,)

    def _planned(self, wait: Wait, reservation: Reservation) -> Wait:
        names = self._table.inventory.names
        start = reservation.time if np.isfinite(reservation.time) else 0.0
        nodes = tuple([names[share.node] for share in reservation.shares])
        return Wait(wait.reason, wait.rejected, start, nodes)

    def _why(self, turn: Turn) -> Wait:
        """Resources: not even if it were first. Priority: it would fit, but others come before it."""
        jobs, free = turn.jobs, self._table.free
        if not self._explains and self._capacity.now(jobs.partition).is_short_of(turn.candidate.demand):
            return _RESOURCES
        now = self._room_in(jobs, [free])
        wait = _RESOURCES if choose(now) is None else _PRIORITY
        if not self._explains:
            return wait
        beside = now if self._is_closed(jobs) else self._room_beside_reservations(jobs)
        return Wait(wait.reason, self._filters.rejected(jobs, free, beside))

    def _is_short(self, candidate: Candidate) -> bool:
        """Without a look at the nodes: the partition has less free in all, now or when a head starts."""
        jobs = candidate.jobs
        if self._capacity.now(jobs.partition).is_short_of(candidate.demand):
            return True
        end = end_of(self._now, jobs.time_limit_s)
        return self._backfill.is_short(jobs.partition, candidate.demand, end)

    def _is_in_turn(self, jobs: RequestClass) -> bool:
        return self._room is not None and self._room[0] is jobs

    def _known_wait(self, turn: Turn) -> Wait | None:
        known = self._blocked.get(turn.candidate.number)
        if known is None:
            return None
        return known[1] if end_of(self._now, turn.jobs.time_limit_s) >= known[0] else None

    def _is_beyond_depth(self, jobs: RequestClass) -> bool:
        return self._looked_at >= self._settings.backfill_depth and jobs.partition.name in self._blocked_in

    def _is_closed(self, jobs: RequestClass) -> bool:
        if self._settings.backfill != "off" or not self._blocked_in:
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
        spread = (jobs.partition.placement or self._settings.placement) == "spread"
        return Room(
            self._table.inventory, jobs.request, filters.bounds(jobs), filters.allowed(jobs), counts,
            spread=spread,
        )  # fmt: skip
