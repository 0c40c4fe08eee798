"""The plan while it is being made."""

from __future__ import annotations

from math import inf

from minislurm.domain.ids import JobId
from minislurm.domain.resources import NodeAllocation
from minislurm.scheduling.model import (
    Asked,
    Placement,
    Plan,
    Preemption,
    PriorityLine,
    QueuedJob,
    RequestClass,
    Resize,
    Standing,
    Wait,
)
from minislurm.scheduling.order import Turn


class Draft:
    """Collects placements, and why each class waits."""

    def __init__(self) -> None:
        self._placements: list[Placement] = []
        self._standings: list[Standing] = []
        self._limited: list[tuple[QueuedJob, PriorityLine]] = []
        #: Most classes wait for one of few reasons.
        self._alone: dict[int, tuple[Wait]] = {}
        #: Which placements are of jobs that bid for them.
        self.bids: list[tuple[int, RequestClass]] = []
        self.preemptions: list[Preemption] = []
        #: See `Plan.wake_time`.
        self.wake_time = inf
        self.resizes: list[tuple[Resize, ...]] = []
        #: See `Plan.stays`.
        self.stays: dict[JobId, str] = {}

    def start(
        self, turn: Turn, allocation: tuple[NodeAllocation, ...], parts: tuple[Placement, ...] = ()
    ) -> None:
        """`parts`: of a heterogeneous job, where its other components start."""
        if turn.jobs.bid:
            self.bids.append((len(self._placements), turn.jobs))
        asked = asked_of(turn.jobs)
        priority = turn.priority.at(turn.job.eligible_time)
        placement = Placement(
            turn.job.job_id, turn.task_id, allocation, asked=asked, parts=parts, priority=priority
        )
        self._placements.append(placement)
        turn.start()

    @property
    def placed(self) -> int:
        """Placements so far."""
        return len(self._placements)

    def limit(self, turn: Turn) -> None:
        """The rest of the next job waits for the limit of its array."""
        self._limited.append((turn.job, turn.priority))

    def wait(self, turn: Turn, *why: Wait) -> None:
        """`why` of the jobs from the next one on; the last of them of all behind as well."""
        first = turn.position if turn.first_blocked < 0 else turn.first_blocked
        every = (*turn.waits, *why) if turn.waits else why
        if len(every) == 1:
            every = self._alone.setdefault(id(every[0]), every)
        self._standings.append(Standing(turn.jobs, turn.priority, first, every))

    def plan(self) -> Plan:
        waiting = tuple(self._standings), tuple(self._limited)
        preemptions, resizes = tuple(self.preemptions), tuple(self.resizes)
        stays = tuple(self.stays.items())
        return Plan(tuple(self._placements), *waiting, preemptions, self.wake_time, resizes, stays)


def asked_of(jobs: RequestClass) -> Asked:
    return Asked(jobs.request, jobs.partition.name, jobs.time_limit_s)
