"""What a pass knows by now: what is free, who is reserved for, which requests are known to be blocked; so
where a job can start, and why it cannot. `cycle.py` asks."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from math import isfinite

import numpy as np

from minislurm.domain.configuration import Partition
from minislurm.domain.preemption import NO_WISH
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import Reason
from minislurm.scheduling.accounts import AccountsPass
from minislurm.scheduling.backfill import Backfill, Reservation, at_least_zero, end_of
from minislurm.scheduling.capacity import Capacity
from minislurm.scheduling.components import claims_of, longest_s
from minislurm.scheduling.conservative import ConservativeBackfill
from minislurm.scheduling.draft import Draft
from minislurm.scheduling.elastic import Grower, Growth, changing
from minislurm.scheduling.limits import Hit, tres_of_shares
from minislurm.scheduling.model import (
    PRIORITY,
    RESOURCES,
    Preemption,
    RequestClass,
    Resize,
    Snapshot,
    Wait,
)
from minislurm.scheduling.nodes import Counts, Mask, Share
from minislurm.scheduling.openings import Openings
from minislurm.scheduling.order import Entry, Queue, Turn
from minislurm.scheduling.place import choose
from minislurm.scheduling.preemption import Victim, Victims, preemption_of, rival_of
from minislurm.scheduling.room import Room
from minislurm.scheduling.rooms import RoomMaker, Rooms
from minislurm.scheduling.single import fits
from minislurm.scheduling.strategies import Strategies
from minislurm.scheduling.surplus import Fit, Surplus
from minislurm.scheduling.together import Together
from minislurm.scheduling.workspace import Candidate, Head, Verdicts, Workspace

#: Misfits for which it helps to see what each node lacks.
_NODE_REASONS = frozenset({Reason.PARTITION_CONFIG, Reason.BAD_CONSTRAINTS, Reason.NODES_UNAVAILABLE})


class Chances:
    """What a pass knows by now: what is free, who is reserved for, which requests are known to be blocked."""

    def __init__(
        self,
        snapshot: Snapshot,
        workspace: Workspace,
        accounts: AccountsPass,
        queue: Queue,
        heads: Mapping[str, Partition],
        draft: Draft,
        *,
        explain: bool,
    ) -> None:
        self._settings = settings = snapshot.settings
        self._now = snapshot.now
        self._depth = settings.backfill_depth
        self._accounts = accounts
        self._has_accounts = bool(accounts)
        self._queue = queue
        self._explains = explain
        self._workspace = workspace
        self._table = workspace.table
        self._filters = workspace.filters
        self._strategies = Strategies(snapshot, workspace.table)
        self._capacity = Capacity(workspace.filters, workspace.table.free)
        kind = ConservativeBackfill if settings.backfill == "conservative" else Backfill
        self._openings = Openings(workspace.table.inventory, snapshot)
        self._snapshot = snapshot
        self._draft = draft
        self.victims = Victims(snapshot, workspace.table.inventory, accounts.laws)
        self.preemptions: list[Preemption] = []
        elastic = changing(snapshot)
        self.growth = Growth(snapshot, elastic, workspace.table.inventory, workspace.filters)
        self.surplus = Surplus(self._now, elastic, workspace.table.inventory)
        self.handbacks: list[tuple[Resize, ...]] = []
        self._backfill = kind(snapshot, workspace.filters, self._capacity, workspace.timeline)
        #: By `Candidate.head`: so many blocked jobs have been met, the head first.
        self._blocked_in: dict[str, int] = {}
        #: All that may come in `_blocked_in`, with their partitions.
        self._heads = heads
        #: Without backfill: nodes on which nothing more starts.
        self._closed: Mask | None = None
        #: Blocked requests looked at behind a head.
        self._looked_at = 0
        #: Whether the classes that are left are all too far back, whatever their order.
        self.is_over = False
        #: In a pass less and less is free: what is blocked stays so, and whatever takes as long or longer.
        #: By `Turn.key`: since which end.
        self._blocked: dict[tuple[int, int], tuple[float, Wait]] = {}
        #: What the last pass left, as far as it is still true.
        self._last: Verdicts | None = None
        self._heads_are_the_same = True
        #: Whether nothing but room decides where jobs may be. Known when all classes have been seen.
        self._is_plain = False
        keeps = settings.backfill == "easy" and not explain and self._openings.are_trivial
        # Time alone may bring a way to start, or to grow.
        keeps = keeps and not self.victims.matter and not self.surplus.matters
        if keeps and workspace.is_still and workspace.verdicts is not None:
            self._last = workspace.verdicts if workspace.verdicts.settings is settings else None
        workspace.verdicts = Verdicts(settings, self._blocked, {}, self._capacity) if keeps else None
        self._told = workspace.verdicts
        self._in_turn: Turn | None = None
        self._room_in = RoomMaker(workspace.table.inventory, workspace.filters, self._strategies)
        self._together = Together(
            self._now, self._table, self._filters, self._openings, self._backfill, self._room_in
        )
        self._rooms: Rooms | None = None

    def tell_users_apart(self, turns: list[Turn], kept: list[Entry]) -> None:
        """Once all classes have been seen: what is true of one user's jobs may not be of another's."""
        self._is_plain = self._openings.are_trivial
        users_matter = self._openings.users_matter
        if users_matter or self._workspace.users_matter:
            for turn in (*turns, *[entry[-1] for entry in kept]):
                turn.key = (turn.candidate.number, turn.jobs.user_id if users_matter else 0)
        self._workspace.users_matter = users_matter

    def load_strategies(self) -> Generator[None, None, None]:
        yield from self._strategies.load(self._heads.values())

    def misfit(self, candidate: Candidate) -> Wait | None:
        """Why it cannot start whoever ends; such jobs hold nobody up."""
        jobs = candidate.jobs
        closed = self._openings.misfit(jobs) if candidate.is_choosy else None
        for part in candidate.parts:
            closed = self._openings.misfit(part.jobs) or closed
        reason = candidate.misfit or closed
        if reason is None:
            return None
        if not self._explains or reason not in _NODE_REASONS:
            return Wait(reason)
        total = self._table.inventory.total
        return Wait(reason, self._filters.rejected(jobs, total, self._room_in(candidate, [total])))

    def find(self, turn: Turn) -> list[Share] | None:
        """Where one more job of the class can start without delaying a reservation; None: nowhere."""
        if self._in_turn is not turn:
            # Whoever was in turn and comes back meets what others have closed meanwhile.
            self._in_turn = None
            if self._known_wait(turn) is not None or self._is_closed(turn) or self._is_beyond_depth(turn):
                return None
        if self._is_plain and turn.candidate.single is not None:
            return self._find_in_single(turn, turn.candidate.single)
        if self._is_short(turn) or not self._openings.has_licenses(turn.jobs):
            return None
        shares = choose(self._room_beside_reservations(turn))
        return self._table.settle(shares) if shares and turn.jobs.request.gpu_share_milli else shares

    def _find_in_single(self, turn: Turn, share: Share) -> list[Share] | None:
        self._in_turn = turn
        if not fits(share, self._table.free):
            return None
        reached = self._backfill.reached_by(self._now + turn.limit_s)
        return [share] if all(fits(share, then) for then in reached) else None

    def limit(self, turn: Turn, shares: list[Share] | None = None) -> Wait | None:
        """What an account, a user or a QOS may not have more of (there, with `shares`)."""
        rows = self._table.inventory.rows
        return self._accounts.blocked(turn.jobs, shares, rows) if self._has_accounts else None

    def place(self, turn: Turn, shares: list[Share]) -> Generator[None, None, tuple[NodeAllocation, ...]]:
        """One more job of the class starts there."""
        return (yield from self._place(turn.jobs, shares, self._now + turn.limit_s))

    def _place(
        self, jobs: RequestClass, shares: list[Share], end: float
    ) -> Generator[None, None, tuple[NodeAllocation, ...]]:
        allocation = yield from self._table.place(shares)
        self._capacity.started(shares)
        self._backfill.started(shares, end)
        self._openings.started(jobs, shares)
        if self._has_accounts:
            self._accounts.started(jobs, shares, self._table.inventory.rows)
        return allocation

    # Heterogeneous jobs (components.py)

    def find_all(self, turn: Turn) -> list[list[Share]] | None:
        """Where all components can start without delaying a reservation; None: nowhere."""
        closed = self._is_closed(turn) or any(self._is_closed_to(part) for part in turn.jobs.parts)
        if closed or self._known_wait(turn) is not None or self._is_beyond_depth(turn):
            return None
        return None if self._is_short_now(turn) else self._together.find(turn.candidate)

    def limit_of_all(self, turn: Turn, found: list[list[Share]] | None = None) -> Wait | None:
        """As `limit`: each component counts on top of those before it."""
        rows = self._table.inventory.rows
        return self._accounts.blocked_together((turn.jobs, *turn.jobs.parts), found, rows)

    def place_all(
        self, turn: Turn, found: list[list[Share]]
    ) -> Generator[None, None, list[tuple[NodeAllocation, ...]]]:
        """The components start there."""
        allocations = []
        for jobs, shares in zip((turn.jobs, *turn.jobs.parts), found, strict=True):
            end = end_of(self._now, jobs.time_limit_s)
            allocations.append((yield from self._place(jobs, shares, end)))
        return allocations

    # Elastic runs (elastic.py)

    def grow(
        self, grower: Grower, skipped: Iterable[Partition]
    ) -> Generator[None, None, tuple[NodeAllocation, ...]]:
        """What the run gets besides what it has."""
        run, jobs, rows = grower.run, grower.jobs, self._table.inventory.rows
        if jobs.bid and not self._accounts.bid(jobs):
            return ()  # nothing is left to pay it with
        allowed: Mask = np.ones(len(self._table.inventory), dtype=np.bool_)
        open_now = self._openings.allowed(jobs, self._now)
        closed = [self._filters.members(partition).mask for partition in skipped]
        for mask in (~self._closed if self._closed is not None else None, open_now, *[~m for m in closed]):
            if mask is not None:
                allowed = allowed & mask

        def charge(jobs: RequestClass, before: Sequence[Share], after: Sequence[Share]) -> Hit | None:
            return self._accounts.change(jobs, before, after, rows)

        counts = [self._table.free, *self._backfill.reached_by(run.end_time)]
        shares = self.growth.find(grower, counts, allowed, charge)
        if not shares:
            return ()
        shares = self._table.settle(shares)
        allocation = yield from self._table.place(shares)
        self._capacity.started(shares)
        self._backfill.started(shares, run.end_time)
        self._openings.started(jobs, shares)
        return allocation

    # Blocked

    def why_behind_heads(self, turn: Turn) -> Wait | None:
        """Why the class waits, where that is seen at a glance and nothing is reserved for it: the most common
        turn by far where many wait. None: it has to be looked at."""
        candidate = turn.candidate
        blocked = self._blocked_in.get(candidate.head, 0)
        if (
            blocked < self._backfill.reservations_a_partition
            or self._has_accounts  # their limits come first
            or turn.startable < 1
            or turn.first_blocked >= 0
            or self._looked_at >= self._depth
        ):
            return None
        wait, is_new = self._known_wait(turn), turn.key not in self._blocked
        is_known = wait is not None
        if wait is None:
            is_short = self._capacity.is_short_of(turn.jobs.partition, candidate.demand)
            if not is_short or self._explains or turn.jobs.request.licenses:
                return None
            wait = RESOURCES
        if is_new or not is_known:
            self._blocked[turn.key] = (self._now + turn.limit_s, wait)
        self._blocked_in[candidate.head] = blocked + 1
        if is_new:
            self._looked_at += 1
            self.is_over = self._looked_at >= self._depth and len(self._blocked_in) == len(self._heads)
        return wait

    def block(self, turn: Turn) -> Generator[None, None, Wait]:
        """Why the next job of the class waits. Reserves for it where backfill says so."""
        jobs = turn.jobs
        wait = self._known_wait(turn)
        if wait is None and self._is_beyond_depth(turn):
            return PRIORITY
        is_new = turn.key not in self._blocked
        if wait is not None and is_new:
            self._blocked[turn.key] = (self._now + turn.limit_s, wait)
        if wait is None:
            claims = claims_of(turn.candidate.components) if jobs.parts else jobs
            lacking = self._openings.license_wait(claims)
            if lacking is not None:
                return lacking
            wait = self._why(turn)
            self._blocked[turn.key] = (self._now + turn.limit_s, wait)
            yield
        head = turn.candidate.head
        if wait.reason is Reason.RESOURCES and (
            not self._blocked_in.get(head) or self._accounts.is_entitled(jobs)
        ):
            held = yield from self.make_way(turn)
            if held is not None:
                return held
        position = self._blocked_in.get(head, 0)
        self._blocked_in[head] = position + 1
        if position:
            self._looked_at += is_new
        self.is_over = self._looked_at >= self._depth and len(self._blocked_in) == len(self._heads)
        if not position and self._settings.backfill_order == "shortest":
            yield from self._queue.turn_to_shortest_first(jobs.partition.name)
        if self._settings.backfill == "off":
            for closing in (jobs, *jobs.parts):
                mask = self._filters.members(closing.partition).mask
                self._closed = mask if self._closed is None else self._closed | mask
            return wait
        if position >= self._backfill.reservations_a_partition:
            return wait
        wait = yield from self._plan_head(turn, wait)
        return wait

    def make_way(self, turn: Turn) -> Generator[None, None, Wait | None]:
        """Runs that give way to the next job of the class, or elastic ones that give nodes back; what becomes
        free is kept for it. None: none may, or it would not start for all that."""
        jobs, victims = turn.jobs, self.victims
        if not (victims.matter or self.surplus.matters) or jobs.parts or turn.startable < 1:
            return None
        if not self._openings.has_licenses(jobs):
            return None
        open_now = self._openings.allowed(jobs, self._now)
        free = yield from self._backfill.free_soon(victims.with_leaving(self._table.free))
        rows = self._table.inventory.rows

        def fits(counts: Counts, gone: Sequence[Victim]) -> list[Share] | None:
            shares = choose(self._room_in(turn.candidate, [at_least_zero(counts.copy())], open_now))
            if shares is None or not self._has_accounts:
                return shares
            with victims.gone(gone):
                return shares if self._accounts.blocked_then(jobs, shares, rows) is None else None

        if self.surplus.matters and fits(free, ()) is None:
            wait = yield from self._hand_back(turn, free, lambda counts: fits(counts, ()))
            if wait is not None:
                return wait
        most = (jobs.preemption or NO_WISH).most(self._snapshot.preemption.max_victims)
        is_single = jobs.request.nodes_max == 1
        rival = rival_of(turn, self._snapshot, self._accounts)
        way = yield from victims.find(rival, free, fits, single_node=is_single, most=most)
        if way is None:
            return None
        victims.choose(way)
        self.surplus.spare([victim.run.job_id for victim in way.victims])
        for victim in way.victims:
            self._backfill.leave_early(victim.shares, victim.run.end_time)
        self._backfill.hold(jobs.partition, self._now + turn.limit_s, way.shares, way.then)
        if self._has_accounts:
            self._accounts.kept_for(jobs, way.shares, rows)
        names = tuple([self._table.inventory.names[share.node] for share in way.shares])
        if way.victims and way.time <= self._now:
            tres, after = tres_of_shares(way.shares, rows), self._draft.placed
            self.preemptions.append(preemption_of(way, turn.job.job_id, names, rival.priority, tres, after))
        return Wait(Reason.RESOURCES, start_estimate=way.time, planned_nodes=names)

    def _hand_back(self, turn: Turn, free: Counts, fits: Fit) -> Generator[None, None, Wait | None]:
        """The same by nodes that elastic runs have beyond their minimum. Only for the first that waits in its
        partition: whoever is behind a head would be let past it."""
        jobs, names = turn.jobs, self._table.inventory.names
        if self._blocked_in.get(turn.candidate.head, 0):
            return None
        found = yield from self.surplus.find(jobs.partition, self._filters.allowed(jobs), free, fits)
        if found is None:
            return None
        self.surplus.choose(found)
        self.victims.leave(found.given)
        for run, shares in found.given:
            self._backfill.leave_early(shares, run.end_time)
        self._backfill.hold(jobs.partition, self._now + turn.limit_s, found.shares, found.then)
        if self._has_accounts:
            self._accounts.kept_for(jobs, found.shares, self._table.inventory.rows)
        preemptor = turn.job.job_id
        resizes = [
            Resize(run.job_id, run.run, leaving=tuple([names[s.node] for s in shares]), preemptor=preemptor)
            for run, shares in found.given
        ]
        self.handbacks.append(tuple(resizes))
        planned = tuple([names[share.node] for share in found.shares])
        return Wait(Reason.RESOURCES, start_estimate=self._now, planned_nodes=planned)

    def _plan_head(self, turn: Turn, wait: Wait) -> Generator[None, None, Wait]:
        """Reserves for the next job of the class; `wait` with what is planned for it."""
        jobs = turn.jobs
        last = self._last_head(turn)
        if last is not None and last.reservation is not None:
            self._backfill.reservations.append(last.reservation)
            self._tell(turn, last)
            return last.wait
        reservation = yield from self._backfill.reserve(
            jobs.partition, longest_s(jobs), turn.candidate.demand, self._table.free,
            lambda counts, time: self._together.shares(turn.candidate, counts, time),
            self._openings.edges(), lambda times: self._together.segments(jobs, times),
            turn.candidate.single if self._is_plain else None,
        )  # fmt: skip
        if reservation is None:
            self._tell(turn, Head(turn.job.job_id, wait))
            return wait
        claims = claims_of(turn.candidate.components) if jobs.parts else jobs
        self._openings.planned(claims, reservation.shares, reservation.time)
        wait = self._planned(wait, reservation)
        is_first = len(self._backfill.reservations) == 1
        self._tell(turn, Head(turn.job.job_id, wait, reservation if is_first else None))
        return wait

    def _last_head(self, turn: Turn) -> Head | None:
        """The last pass' plan for the same job, if it still comes first and nothing has started."""
        last = self._last.heads.get(turn.candidate.head) if self._last is not None else None
        if (
            last is not None
            and last.job_id == turn.job.job_id
            and last.reservation is not None
            and last.reservation.time >= self._now
            and not self._table.changes
            and not self._backfill.reservations  # somebody new is before it
        ):
            return last
        self._heads_are_the_same = False
        return None

    def _tell(self, turn: Turn, head: Head) -> None:
        if self._told is not None:
            self._told.heads.setdefault(turn.candidate.head, head)

    def is_done_with(self, turn: Turn) -> bool:
        """Whether the jobs behind the blocked one need not be looked at: they ask for the same and get no
        reservation of their own."""
        blocked = self._blocked_in.get(turn.candidate.head, 0)
        return blocked >= self._backfill.reservations_a_partition or self._is_beyond_depth(turn)

    def why_beyond_depth(self, turn: Turn) -> Wait:
        return self._known_wait(turn) or PRIORITY

    def why_behind(self, turn: Turn, wait: Wait) -> tuple[Wait, ...]:
        """Why those behind the blocked job wait, where that differs."""
        known = self._known_wait(turn)
        return () if known is None or known is wait else (known,)

    def _planned(self, wait: Wait, reservation: Reservation) -> Wait:
        names = self._table.inventory.names
        start = reservation.time if isfinite(reservation.time) else 0.0
        nodes = tuple(dict.fromkeys([names[share.node] for share in reservation.shares]))
        return Wait(wait.reason, wait.rejected, start, nodes, wait.detail)

    def _why(self, turn: Turn) -> Wait:
        """Resources: not even if it were first. Priority: it would fit, but others come before it."""
        jobs, free = turn.jobs, self._table.free
        if not self._explains and self._is_short_now(turn):
            return RESOURCES
        single = turn.candidate.single
        if single is not None and self._is_plain and not self._explains:
            return PRIORITY if fits(single, free) else RESOURCES
        if jobs.parts:
            return self._together.why(turn.candidate, self._now + turn.limit_s, explains=self._explains)
        open_now = self._openings.allowed(jobs, self._now)
        now = self._room_in(turn.candidate, [free], open_now)
        wait = PRIORITY
        if choose(now) is None:
            wait = RESOURCES
            if open_now is not None and choose(alone := self._room_in(turn.candidate, [free])) is not None:
                wait = Wait(self._openings.reason(jobs, alone.tasks > 0))
        if not self._explains:
            return wait
        beside = now if self._is_closed(turn) else self._room_beside_reservations(turn)
        return Wait(wait.reason, self._filters.rejected(jobs, free, beside))

    def _is_short(self, turn: Turn) -> bool:
        """Without a look at the nodes: the partition has less free in all, now or when a head starts."""
        if self._is_short_now(turn):
            return True
        return self._backfill.is_short(turn.jobs.partition, turn.candidate.demand, self._now + turn.limit_s)

    def _is_short_now(self, turn: Turn) -> bool:
        return self._capacity.is_short_of(turn.jobs.partition, turn.candidate.demand)

    def _known_wait(self, turn: Turn) -> Wait | None:
        known = self._blocked.get(turn.key)
        if known is None and self._last is not None:
            known = self._last.blocked.get(turn.key)
            same_head = self._heads_are_the_same and turn.candidate.head in self._blocked_in
            if known is not None and known[1] is not RESOURCES and (not same_head or self._table.changes):
                # It waits because of a head, and might not beside another one, or by now for what a shorter
                # job that came after it has taken.
                return None
        return known[1] if known is not None and self._now + turn.limit_s >= known[0] else None

    def _is_beyond_depth(self, turn: Turn) -> bool:
        return self._looked_at >= self._depth and turn.candidate.head in self._blocked_in

    def _is_closed(self, turn: Turn) -> bool:
        return self._closed is not None and self._is_closed_to(turn.jobs)

    def _is_closed_to(self, jobs: RequestClass) -> bool:
        if self._closed is None:
            return False
        return bool((self._closed & self._filters.members(jobs.partition).mask).any())

    def _room_beside_reservations(self, turn: Turn) -> Room:
        """Kept for the classes that were in turn last: after a placement only its nodes are looked at."""
        jobs = turn.jobs
        self._in_turn = turn
        reached = self._backfill.reached_by(self._now + turn.limit_s)
        open_now = self._openings.allowed(jobs, self._now)
        # Reservations are only added, and what is free behind each is the same object throughout.
        key: Hashable = (turn.candidate.number, tuple(map(id, reached)))
        if open_now is not None:
            key = (key, id(jobs), self._openings.version)
        counts = [self._table.free, *reached]
        if self._rooms is None:
            self._rooms = Rooms(self._table.changes, len(self._table.inventory))
        return self._rooms.get(key, lambda: self._room_in(turn.candidate, counts, open_now))
