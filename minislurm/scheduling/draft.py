"""The plan while it is being made."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from minislurm.domain.ids import JobId
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import Reason
from minislurm.scheduling.model import Placement, Plan, QueuedJob, RequestClass, Wait
from minislurm.scheduling.order import Ranking, Turn

#: Jobs written down between two yields: less than a millisecond.
_CHUNK = 1000

_TASK_LIMIT = Wait(Reason.ARRAY_TASK_LIMIT)


class Draft:
    """Collects placements and waits; every job that waits also gets its priority."""

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._placements: list[Placement] = []
        self._waits: dict[JobId, Wait] = {}
        self._priorities: dict[JobId, int] = {}

    def start(self, turn: Turn, allocation: tuple[NodeAllocation, ...]) -> None:
        self._placements.append(Placement(turn.job.job_id, turn.task_id, allocation))
        turn.started += 1

    def limit(self, turn: Turn) -> None:
        """The rest of the next job waits for the limit of its array."""
        self._write(turn.jobs, turn.shared_priority, [turn.job], _TASK_LIMIT)

    def wait(self, turn: Turn, head: Wait, rest: Wait) -> Generator[None, None, None]:
        """`head` for the next job, `rest` for those behind it, but the limit for those held by a limit."""
        yield from self.wait_all(turn.jobs, turn.shared_priority, turn.rest, rest)
        self._waits[turn.job.job_id] = head

    def wait_all(
        self, jobs: RequestClass, shared: float, queued: Sequence[QueuedJob], wait: Wait
    ) -> Generator[None, None, None]:
        for start in range(0, len(queued), _CHUNK):
            self._write(jobs, shared, queued[start : start + _CHUNK], wait)
            yield

    def _write(self, jobs: RequestClass, shared: float, queued: Sequence[QueuedJob], wait: Wait) -> None:
        self._waits.update({job.job_id: wait if job.slots > 0 else _TASK_LIMIT for job in queued})
        self._priorities.update(self._ranking.priorities(jobs, shared, queued))

    def plan(self) -> Plan:
        return Plan(tuple(self._placements), self._waits, self._priorities)
