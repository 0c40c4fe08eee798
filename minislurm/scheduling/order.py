"""Who is considered first: partition tier, then the order of the partition, then who was eligible first.

Orders: ``multifactor`` is Slurm's priority: factors between 0 and 1 (age, job size, partition, fair share,
QOS, association), each multiplied by its weight, plus the operator's site factor, minus nice. ``fifo`` takes
jobs as they became eligible, ``round-robin`` too, where a run that has had its time slice becomes eligible
anew; ``sjf``, ``mlfq`` and ``auction`` by a rank of their own (ranks.py); in all of
these site factor, nice and a priority that an operator has set come before that. ``fair`` goes by the fair
shares first (fair_share.py): a class moves back as its jobs start, so its place is looked at again when it
comes. A large gang that has waited long enough goes before all others of its tier (ranks.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator
from math import inf
from typing import TypeAlias

from minislurm.domain.configuration import SchedulerSection
from minislurm.scheduling.accounts import AccountsPass
from minislurm.scheduling.components import longest_s
from minislurm.scheduling.fair_share import FairKey
from minislurm.scheduling.model import AgeRule, PriorityLine, QueuedJob, RequestClass, Snapshot, Wait
from minislurm.scheduling.priority import Components
from minislurm.scheduling.ranks import Ranks
from minislurm.scheduling.workspace import Candidate

#: Tier negated, fair share, priority negated, rank in the partition's order, eligible and submission time,
#: job id, which no two turns share: smallest first.
Entry: TypeAlias = "tuple[int, FairKey, float, float, float, float, int, Turn]"

#: Orders whose jobs have no factors; only what an operator or a user has set counts before the rank.
_WITHOUT_FACTORS = frozenset({"fifo", "sjf", "mlfq", "auction", "round-robin"})
_NO_AGE = AgeRule(0.0, 0.0, 0.0)

#: Above every tier.
_CLAIM = 1 << 40

#: Entries sorted between two yields, and made: about a millisecond.
_PIECE, _READ = 1000, 250


class Ranking:
    """Computes priorities at the time of the snapshot."""

    def __init__(self, snapshot: Snapshot, accounts: AccountsPass, nodes: int, cpus: int) -> None:
        """`nodes`, `cpus`: of the whole cluster."""
        settings = snapshot.settings
        self._settings = settings
        self._accounts = accounts
        self._nodes = max(1, nodes)
        self._cpus = max(1, cpus)
        self._snapshot = snapshot
        self._age = _NO_AGE
        #: What `Candidate.base` depends on besides the class and the cluster: the settings, and the greatest
        #: `priority_job_factor`. Worked out when somebody's priority depends on it.
        self._signature: tuple[SchedulerSection, int] | None = None

    def line(self, candidate: Candidate) -> PriorityLine:
        if candidate.line is not None and candidate.ranking is self._settings:
            return candidate.line
        jobs = candidate.jobs
        if order_of(jobs, self._settings.order) in _WITHOUT_FACTORS:
            candidate.ranking = self._settings
            candidate.line = PriorityLine(_NO_AGE, jobs.site_factor - jobs.nice, jobs.fixed_priority)
            return candidate.line
        signature = self._signature or self._sign()
        if candidate.ranking is not signature:
            if candidate.ranking != signature:
                candidate.base = self._without_age(jobs)
            candidate.ranking = signature
        base = candidate.base + self._accounts.priority(jobs)
        return PriorityLine(self._age, base, jobs.fixed_priority, self._accounts.priority_range(jobs))

    def _sign(self) -> tuple[SchedulerSection, int]:
        highest = self._snapshot.job_factor_max
        if not highest:
            highest = max((c.partition.priority_job_factor for c in self._snapshot.classes), default=1)
        self._signature = (self._settings, max(1, highest))
        max_age_s = max(self._settings.priority_max_age_s, 1e-9)
        rate = self._settings.priority_weight_age / max_age_s
        self._age = AgeRule(self._snapshot.now, rate, max_age_s)
        return self._signature

    def _without_age(self, jobs: RequestClass) -> float:
        """The part of the priority that all jobs of the class share and that does not change."""
        size = self._settings.priority_weight_job_size * self._size_factor(jobs)
        return self._partition_part(jobs) + size + jobs.site_factor - jobs.nice

    def _partition_part(self, jobs: RequestClass) -> float:
        highest = (self._signature or self._sign())[1]
        factor = jobs.partition.priority_job_factor / highest
        return self._settings.priority_weight_partition * factor

    def components(self, jobs: RequestClass, eligible_time: float) -> Components:
        """The parts that `line` puts together, for one job of the class, as sprio shows them."""
        self._sign()
        settings = self._settings
        fair_share, qos, association = self._accounts.factors(jobs)
        waited_s = min(max(self._age.now - eligible_time, 0.0), self._age.max_age_s)
        return Components(
            site=jobs.site_factor,
            age=waited_s * self._age.rate,
            association=association,
            fair_share=fair_share,
            job_size=settings.priority_weight_job_size * self._size_factor(jobs),
            partition=self._partition_part(jobs),
            qos=qos,
            nice=jobs.nice,
        )

    def _size_factor(self, jobs: RequestClass) -> float:
        """0 for the smallest, 1 for the whole cluster, by nodes and CPUs alike; or the other way round."""
        request = jobs.request
        cpus = max(request.tasks * request.cpus_per_task, request.nodes_min * request.cpus_per_node_min)
        size = (min(1.0, request.nodes_min / self._nodes) + min(1.0, cpus / self._cpus)) / 2
        return 1.0 - size if self._settings.priority_favor_small else size


def components(snapshot: Snapshot, jobs: RequestClass, eligible_time: float) -> Components:
    """The parts of the multifactor priority of one job of the class, at the time of the snapshot."""
    accounts = AccountsPass(snapshot.accounts, snapshot.settings)
    cpus = sum(node.cpus for node in snapshot.nodes)
    return Ranking(snapshot, accounts, len(snapshot.nodes), cpus).components(jobs, eligible_time)


def order_of(jobs: RequestClass, default: str) -> str:
    return jobs.partition.order or default


class Turn:
    """A class's place in the queue: which of its jobs is next, and how much of that one has started.

    `limit_s`: so long its jobs take at most. `key`: what is true of one blocked turn is true of all with the
    same key that take as long or longer. `entry`: its entry in the queue, if that stays true as time goes on.
    """

    __slots__ = (
        "candidate", "entry", "first_blocked", "is_fresh", "job", "jobs", "key", "limit_s", "position",
        "priority", "startable", "started", "waits",
    )  # fmt: skip

    def __init__(self, candidate: Candidate, priority: PriorityLine) -> None:
        self.candidate = candidate
        self.jobs = candidate.jobs
        self.priority = priority
        self.limit_s = longest_s(self.jobs) if candidate.parts else self.jobs.time_limit_s or inf
        self.entry: Entry | None = None
        #: Nothing has come of it so far: the next pass may have it as it is.
        self.is_fresh = True
        self.key = (candidate.number, 0)
        self.position = 0
        #: Where the first job stands that cannot start; -1: all could so far. Those behind ask for the same.
        self.first_blocked = -1
        #: Why each job from there on waits.
        self.waits: list[Wait] = []
        self._turn_to(self.jobs.jobs[0])

    def _turn_to(self, job: QueuedJob) -> None:
        self.job = job
        #: Tasks of the job that start in this pass, and how many more of them may under its array's limit.
        self.started = 0
        self.startable = min(job.slots, len(job.tasks)) if job.tasks else job.slots

    @property
    def task_id(self) -> int | None:
        """The task that starts next; None for a plain job."""
        return self.job.tasks[self.started] if self.job.tasks else None

    @property
    def is_startable(self) -> bool:
        return self.startable > 0 and self.first_blocked < 0

    @property
    def is_complete(self) -> bool:
        return self.started >= (len(self.job.tasks) or 1)

    def begin(self, priority: PriorityLine) -> None:
        """A fresh one comes into another pass."""
        if self.priority is not priority:
            self.priority = priority
            self.entry = None

    def _come_of(self) -> None:
        # With its entry, in which it is itself, it would be let go of by a search for cycles alone.
        self.is_fresh, self.entry = False, None

    def start(self) -> None:
        self._come_of()
        self.started += 1
        self.startable -= 1

    def note(self, wait: Wait) -> None:
        """Why the next job waits; those behind it may have another reason."""
        self._come_of()
        if self.first_blocked < 0:
            self.first_blocked = self.position
        self.waits.append(wait)

    def advance(self) -> bool:
        """To the next job; False if there is none."""
        self._come_of()
        self.position += 1
        if self.position == len(self.jobs.jobs):
            return False
        self._turn_to(self.jobs.jobs[self.position])
        return True


class Queue:
    """Merges the classes by the next job of each. Within a class the order is that of its jobs.

    Most classes are never taken out again once they are in, so they are sorted in pieces and merged as far
    as anybody asks; a heap holds those that come back for their next job.
    """

    def __init__(self, accounts: AccountsPass, ranks: Ranks) -> None:
        self._accounts = accounts
        self._has_accounts = bool(accounts)
        self._ranks = ranks
        self._sorted: Iterator[Entry] = iter(())
        self._first: Entry | None = None
        self._heap: list[Entry] = []
        #: What the next pass may begin with, if the queue is short.
        self.lasting: list[Entry] = []
        #: Partitions whose jobs are taken shortest first, whatever their order.
        self._shortest_first: set[str] = set()

    def load(self, turns: Iterable[Turn], kept: Iterable[Entry] = ()) -> Generator[None, None, None]:
        """The classes as the pass finds them; `kept`: what is known already. Yields between units of work."""
        pieces: list[Iterator[Entry]] = []
        piece: list[Entry] = [*kept]
        for turn in turns:
            piece.append(self.entry(turn))
            if len(piece) % _READ == 0:
                yield
            if len(piece) == _PIECE:
                piece.sort(reverse=True)
                pieces.append(_taken_from_the_end(piece))
                piece = []
                yield
        piece.sort(reverse=True)
        self.lasting = [] if pieces else [entry for entry in piece if entry[-1].entry is entry]
        if pieces:
            self._sorted = heapq.merge(*pieces, _taken_from_the_end(piece))
        else:
            self._sorted = reversed(piece)
        self._first = next(self._sorted, None)

    def add(self, turn: Turn) -> None:
        heapq.heappush(self._heap, self.entry(turn))

    def pop(self) -> Turn | None:
        while True:
            entry = self._first
            if self._heap and (entry is None or self._heap[0] < entry):
                entry = heapq.heappop(self._heap)
            elif entry is None:
                return None
            else:
                self._first = next(self._sorted, None)
            turn = entry[-1]
            # Only fair shares change, and they only grow: a key that still holds is the least.
            if not entry[1] or self._fair_key(turn) == entry[1]:
                return turn
            self.add(turn)

    def is_overtaken(self, turn: Turn) -> bool:
        """Since it was popped, its jobs have started and somebody else has less of its fair share."""
        if not self._fair_key(turn):
            return False
        others = [entry for entry in (self._first, *self._heap[:1]) if entry is not None]
        return bool(others) and min(others) < self.entry(turn)

    def _fair_key(self, turn: Turn) -> FairKey:
        if not self._has_accounts:
            return ()
        if turn.jobs.claims or turn.jobs.partition.name in self._shortest_first:
            return ()
        if self._ranks.has_fixed_place(turn):
            return ()
        return self._accounts.fair_key(turn.jobs)

    def rest(self) -> Iterator[Turn]:
        """All that are left, in no order."""
        if self._first is not None:
            yield self._first[-1]
        for entry in self._sorted:
            yield entry[-1]
        for entry in self._heap:
            yield entry[-1]
        self._first, self._heap = None, []

    def turn_to_shortest_first(self, partition: str) -> Generator[None, None, None]:
        """From now on: behind a head, the shorter a job, the likelier it fits before the shadow time."""
        self._shortest_first.add(partition)
        yield from self.load(list(self.rest()))

    def entry(self, turn: Turn) -> Entry:
        if self._shortest_first or not turn.is_fresh:
            return self._make_entry(turn)
        entry = turn.entry
        if entry is None:
            entry = self._make_entry(turn)
            if self._ranks.is_lasting(turn) and not turn.candidate.is_choosy:
                turn.entry = entry
        return entry

    def _make_entry(self, turn: Turn) -> Entry:
        jobs, job = turn.jobs, turn.job
        partition, tier = jobs.partition, jobs.partition.priority_tier
        priority: float
        if jobs.claims:
            # Others give way to it, or have: nobody comes between that and its start, of whatever tier.
            tier, priority, rank = _CLAIM, inf, jobs.claim_time
        elif self._ranks.has_fixed_place(turn):
            priority, rank = inf, 0.0
        elif partition.name in self._shortest_first:
            priority, rank = 0, jobs.time_limit_s or inf
        else:
            priority, rank = turn.priority.unbounded_at(job.eligible_time), self._ranks.rank(turn)
        return (
            -tier, self._fair_key(turn), -priority, rank, job.eligible_time,
            job.submit_time, job.job_id, turn,
        )  # fmt: skip


def _taken_from_the_end(entries: list[Entry]) -> Iterator[Entry]:
    """Lets go of each when it is taken: of a hundred thousand at once would take a while."""
    while entries:
        yield entries.pop()
