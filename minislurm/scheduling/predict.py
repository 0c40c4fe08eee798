"""When will each job that waits start? The planner run forward on a copy of the cluster.

Pure. From instant to instant: runs end at their time limits, then the same pass decides what starts
(`cycle.steps`). So the estimates know all that a pass knows: priorities as they age, reservations, licenses,
limits of accounts, racks. They assume that every job takes as long as it may, that nothing is submitted,
changed or fails, that fair shares stay as they are, and that jobs others depend on end well.

One pass for each instant at which something ends, however many equal jobs wait. A queue that is too long for
that is looked at as far as there is time; the rest is extrapolated (`extrapolate.py`).
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from minislurm.domain.ids import JobId, NodeName
from minislurm.scheduling.cycle import steps
from minislurm.scheduling.extrapolate import NEVER, Pace, Start, extrapolate
from minislurm.scheduling.future import Future, Outlook
from minislurm.scheduling.model import Plan, Snapshot, Standing
from minislurm.scheduling.workspace import Workspace

MOST_PASSES = 2000

#: Estimates made between two yields: about a millisecond.
_PIECE = 300


class Estimate(Struct, frozen=True, gc=False):
    """When a job starts, of an array its first task, and where. `last_start`: of its last task that is
    known."""

    start: float
    nodes: tuple[NodeName, ...]
    last_start: float
    #: In all.
    cpus: int = 0
    #: Extrapolated.
    is_rough: bool = False


class Forecast:
    """Fills `estimates` as it runs, in the order of time; whoever is not in there when it is done never
    starts, or after the bounds. Cut off, it is true as far as it came."""

    def __init__(
        self,
        snapshot: Snapshot,
        outlook: Outlook | None = None,
        workspace: Workspace | None = None,
        *,
        most_passes: int = MOST_PASSES,
    ) -> None:
        self._future = Future(snapshot, outlook or Outlook())
        self._workspace = workspace if workspace is not None else Workspace()
        self._pace: Pace | None = None
        #: Who waited after the last pass. A list, for to let go of many takes time, too.
        self._waiting: list[Standing] = []
        #: The instant that comes after the last pass; infinity: none does.
        self._due: float | None = None
        self._most_passes = most_passes
        self.estimates: dict[JobId, Estimate] = {}
        #: By array and task.
        self.task_starts: dict[tuple[JobId, int], float] = {}
        self.passes = 0

    @property
    def is_complete(self) -> bool:
        """Nothing more would come of going on."""
        return self._due == inf

    def run(self, until: JobId | None = None, task: int | None = None) -> Generator[None, None, None]:
        """Pass after pass, to the end. `until`: it is enough when that job has an estimate, or that task of
        it."""
        while not self.is_over:
            yield from self.next_pass()
            if until is not None and self._knows(until, task):
                return

    @property
    def is_over(self) -> bool:
        """It is complete, or has come to its bound."""
        return self.is_complete or self.passes >= self._most_passes

    def next_pass(self) -> Generator[None, None, None]:
        """On to the next instant, and who starts then. In units of about a millisecond at most; closed before
        its end, it leaves the workspace's arrays in an unknown state."""
        yield from self._move_on()
        while self._waiting:
            del self._waiting[-_PIECE:]
            yield
        plan = yield from steps(self._future.snapshot(), self._workspace)
        self.passes += 1
        self._waiting += plan.standings
        yield from self._note(plan)
        yield from self._future.carry_out(plan)
        self._due = self._future.next_instant() if self._may_go_on(plan) else inf
        yield

    def _move_on(self) -> Generator[None, None, None]:
        if self._due is None:
            yield from self._future.load()
            return
        self._count(self._due - self._future.now)
        yield from self._future.advance(self._due)

    def _knows(self, job_id: JobId, task: int | None) -> bool:
        return job_id in self.estimates if task is None else (job_id, task) in self.task_starts

    def of(self, job_id: JobId, task: int | None = None) -> Estimate | None:
        found = self.estimates.get(job_id)
        start = self.task_starts.get((job_id, task)) if task is not None else None
        if found is None or task is None or start == found.start:
            return found
        return None if start is None else replace(found, start=start, nodes=())

    def _note(self, plan: Plan) -> Generator[None, None, None]:
        now = self._future.now
        placed = chain.from_iterable((one, *one.parts) for one in plan.placements)
        for number, placement in enumerate(placed, 1):
            known = self.estimates.get(placement.job_id)
            if known is None:
                parts = placement.allocation
                cpus = sum(part.cpu_count for part in parts)
                names = tuple([part.node for part in parts])
                self.estimates[placement.job_id] = Estimate(now, names, now, cpus)
            elif known.last_start != now:
                self.estimates[placement.job_id] = replace(known, last_start=now)
            if placement.task_id is not None:
                self.task_starts[placement.job_id, placement.task_id] = now
            if number % _PIECE == 0:
                yield

    def _may_go_on(self, plan: Plan) -> bool:
        future = self._future
        if not future.has_waiting:
            return False
        hopeful = plan.limited or any(s.head.reason not in NEVER for s in plan.standings)
        return bool(hopeful) or future.has_coming

    def _count(self, seconds: float) -> None:
        table = self._workspace.table
        if self._pace is None:
            self._pace = Pace(table.inventory)
        self._pace.count(table.free, max(0.0, seconds))

    def extrapolate(self) -> Generator[None, None, None]:
        """After `run` or `next_pass`: rough estimates for all that are left but can start. Without nodes."""
        if self.is_complete or self._due is None:
            return
        yield from self._move_on()
        inventory = self._workspace.table.inventory
        pace = self._pace or Pace(inventory)
        starts = yield from extrapolate(self._future.snapshot(), self._waiting, inventory, pace)
        while starts:
            for _ in range(min(len(starts), _PIECE)):
                self._add(starts.pop())
            yield

    def _add(self, rough: Start) -> None:
        known = self.estimates.get(rough.job_id)
        if known is None:
            self.estimates[rough.job_id] = Estimate(rough.first, (), rough.last, is_rough=True)
        else:
            self.estimates[rough.job_id] = replace(known, last_start=max(rough.last, known.last_start))
