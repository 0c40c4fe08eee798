"""Who is considered first: partition tier, then multifactor priority, then who was eligible first.

The factors are those of Slurm's multifactor plugin, each between 0 and 1 and multiplied by its weight:
age, job size, partition, fair share, QOS, association; minus nice. Partitions of the order `fair` go by the
fair shares first (fair_share.py): a class moves back as its jobs start, so its place is looked at again when
it comes.
"""

from __future__ import annotations

import heapq

from minislurm.scheduling.accounts import AccountsPass
from minislurm.scheduling.fair_share import FairKey
from minislurm.scheduling.model import PriorityLine, QueuedJob, RequestClass, Snapshot

#: Tier, fair share, priority negated, eligible and submission time, job id: smallest first.
SortKey = tuple[int, FairKey, int, float, float, int]


class Ranking:
    """Computes priorities at the time of the snapshot."""

    def __init__(self, snapshot: Snapshot, accounts: AccountsPass | None = None) -> None:
        settings = snapshot.settings
        self._accounts = accounts or AccountsPass(snapshot.accounts, settings)
        self._now = snapshot.now
        self._settings = settings
        self._max_age_s = max(settings.priority_max_age_s, 1e-9)
        self._age_rate = settings.priority_weight_age / self._max_age_s
        self._nodes = max(1, len(snapshot.nodes))
        self._cpus = max(1, sum(node.cpus for node in snapshot.nodes))
        seen = max((c.partition.priority_job_factor for c in snapshot.classes), default=1)
        self._job_factor_max = max(1, snapshot.job_factor_max, seen)

    def _without_age(self, jobs: RequestClass) -> float:
        """The part of the priority that all jobs of the class share."""
        settings = self._settings
        partition = settings.priority_weight_partition * (
            jobs.partition.priority_job_factor / self._job_factor_max
        )
        partition += self._accounts.priority(jobs)
        return partition + settings.priority_weight_job_size * self._size_factor(jobs) - jobs.nice

    def _size_factor(self, jobs: RequestClass) -> float:
        """0 for the smallest, 1 for the whole cluster, by nodes and CPUs alike; or the other way round."""
        request = jobs.request
        cpus = max(request.tasks * request.cpus_per_task, request.nodes_min * request.cpus_per_node_min)
        size = (min(1.0, request.nodes_min / self._nodes) + min(1.0, cpus / self._cpus)) / 2
        return 1.0 - size if self._settings.priority_favor_small else size

    def line(self, jobs: RequestClass) -> PriorityLine:
        return PriorityLine(
            self._now, self._without_age(jobs), self._age_rate, self._max_age_s, jobs.fixed_priority
        )


class Turn:
    """A class's place in the queue: which of its jobs is next, and how much of that one has started."""

    __slots__ = ("jobs", "position", "priority", "started")

    def __init__(self, jobs: RequestClass, priority: PriorityLine) -> None:
        self.jobs = jobs
        self.priority = priority
        self.position = 0
        #: Tasks of the next job that start in this pass.
        self.started = 0

    @property
    def job(self) -> QueuedJob:
        return self.jobs.jobs[self.position]

    @property
    def startable(self) -> int:
        """So many more tasks of the next job may start under its array's limit."""
        job = self.job
        return min(job.slots, len(job.tasks) or 1) - self.started

    @property
    def task_id(self) -> int | None:
        """The task that starts next; None for a plain job."""
        return self.job.tasks[self.started] if self.job.tasks else None

    @property
    def is_complete(self) -> bool:
        return self.started >= (len(self.job.tasks) or 1)

    def advance(self) -> bool:
        """To the next job; False if there is none."""
        self.position += 1
        self.started = 0
        return self.position < len(self.jobs.jobs)


class Queue:
    """Merges the classes by the next job of each. Within a class the order is that of its jobs."""

    def __init__(self, accounts: AccountsPass | None = None) -> None:
        self._accounts = accounts
        self._heap: list[tuple[SortKey, int, Turn]] = []
        self._pushed = 0

    def add(self, turn: Turn) -> None:
        heapq.heappush(self._heap, self._entry(turn))

    def pop(self) -> Turn | None:
        while self._heap:
            key, _, turn = heapq.heappop(self._heap)
            # Only fair shares change, and they only grow: a key that still holds is the least.
            if not key[1] or self._fair_key(turn) == key[1]:
                return turn
            self.add(turn)
        return None

    def is_overtaken(self, turn: Turn) -> bool:
        """Since it was popped, its jobs have started and somebody else has less of its fair share."""
        fair = self._fair_key(turn)
        return bool(fair and self._heap and self._heap[0][0] < self._entry(turn)[0])

    def _fair_key(self, turn: Turn) -> FairKey:
        return self._accounts.fair_key(turn.jobs) if self._accounts is not None else ()

    def _entry(self, turn: Turn) -> tuple[SortKey, int, Turn]:
        job = turn.job
        priority = turn.priority.unbounded_at(job.eligible_time)
        key = (
            -turn.jobs.partition.priority_tier, self._fair_key(turn), -priority,
            job.eligible_time, job.submit_time, job.job_id,
        )  # fmt: skip
        # The running number keeps turns, which have no order, from being compared.
        self._pushed += 1
        return key, self._pushed, turn
