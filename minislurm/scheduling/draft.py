"""The plan while it is being made."""

from __future__ import annotations

from minislurm.domain.resources import NodeAllocation
from minislurm.scheduling.model import Placement, Plan, PriorityLine, QueuedJob, RequestClass, Standing, Wait
from minislurm.scheduling.order import Turn


class Draft:
    """Collects placements, and why each class waits."""

    def __init__(self) -> None:
        self._placements: list[Placement] = []
        self._standings: list[Standing] = []
        self._limited: list[tuple[QueuedJob, PriorityLine]] = []
        #: Which placements are of jobs that bid for them.
        self.bids: list[tuple[int, RequestClass]] = []

    def start(
        self, turn: Turn, allocation: tuple[NodeAllocation, ...], parts: tuple[Placement, ...] = ()
    ) -> None:
        """`parts`: of a heterogeneous job, where its other components start."""
        if turn.jobs.bid:
            self.bids.append((len(self._placements), turn.jobs))
        self._placements.append(Placement(turn.job.job_id, turn.task_id, allocation, parts=parts))
        turn.start()

    def limit(self, turn: Turn) -> None:
        """The rest of the next job waits for the limit of its array."""
        self._limited.append((turn.job, turn.priority))

    def wait(self, turn: Turn, *why: Wait) -> None:
        """`why` of the jobs from the next one on; the last of them of all behind as well."""
        first = turn.position if turn.first_blocked < 0 else turn.first_blocked
        self._standings.append(Standing(turn.jobs, turn.priority, first, (*turn.waits, *why)))

    def plan(self) -> Plan:
        return Plan(tuple(self._placements), tuple(self._standings), tuple(self._limited))
