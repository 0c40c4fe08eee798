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
from minislurm.domain.states import Reason
from minislurm.scheduling.cycle import steps
from minislurm.scheduling.extrapolate import Pace, extrapolate
from minislurm.scheduling.future import Future, Outlook
from minislurm.scheduling.model import Plan, Snapshot
from minislurm.scheduling.workspace import Workspace

MOST_PASSES = 2000

#: Time alone does not help who waits for one of these.
_NEVER = frozenset(
    {
        Reason.PARTITION_DOWN, Reason.PARTITION_INACTIVE, Reason.PARTITION_TIME_LIMIT,
        Reason.PARTITION_NODE_LIMIT, Reason.PARTITION_CONFIG, Reason.BAD_CONSTRAINTS,
        Reason.NODES_UNAVAILABLE, Reason.TOPOLOGY,
    }
)  # fmt: skip


class Estimate(Struct, frozen=True):
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
        self._plan = Plan()
        self._most_passes = most_passes
        self.estimates: dict[JobId, Estimate] = {}
        #: By array and task.
        self.task_starts: dict[tuple[JobId, int], float] = {}
        self.passes = 0
        #: Nothing more would come of going on.
        self.is_complete = False

    def run(self, until: JobId | None = None, task: int | None = None) -> Generator[None, None, None]:
        """In units of about a millisecond at most. `until`: it is enough when that job has an estimate, or
        that task of it."""
        while self.passes < self._most_passes:
            plan = yield from steps(self._future.snapshot(), self._workspace)
            self.passes += 1
            self._plan = plan
            self._note(plan)
            self._future.carry_out(plan)
            yield
            if until is not None and self._knows(until, task):
                return
            if not self._may_go_on(plan):
                break
            time = self._future.next_instant()
            if time == inf:
                break
            self._count(time - self._future.now)
            self._future.advance(time)
            yield
        else:
            return
        self.is_complete = True

    def _knows(self, job_id: JobId, task: int | None) -> bool:
        return job_id in self.estimates if task is None else (job_id, task) in self.task_starts

    def of(self, job_id: JobId, task: int | None = None) -> Estimate | None:
        found = self.estimates.get(job_id)
        start = self.task_starts.get((job_id, task)) if task is not None else None
        if found is None or task is None or start == found.start:
            return found
        return None if start is None else replace(found, start=start, nodes=())

    def _note(self, plan: Plan) -> None:
        now = self._future.now
        for placement in chain.from_iterable((one, *one.parts) for one in plan.placements):
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

    def _may_go_on(self, plan: Plan) -> bool:
        future = self._future
        if not future.has_waiting:
            return False
        hopeful = plan.limited or any(s.head.reason not in _NEVER for s in plan.standings)
        return bool(hopeful) or future.has_coming

    def _count(self, seconds: float) -> None:
        table = self._workspace.table
        if self._pace is None:
            self._pace = Pace(table.inventory)
        self._pace.count(table.free, max(0.0, seconds))

    def extrapolate(self) -> Generator[None, None, None]:
        """After `run` was cut off: rough estimates for all that are left but can start. Without nodes."""
        if self.is_complete or self._pace is None:
            return
        hopeful = [s for s in self._plan.standings if s.head.reason not in _NEVER]
        inventory = self._workspace.table.inventory
        starts = yield from extrapolate(self._future.snapshot(), hopeful, inventory, self._pace)
        for job_id, first, last in starts:
            known = self.estimates.get(job_id)
            if known is None:
                self.estimates[job_id] = Estimate(first, (), last, is_rough=True)
            else:
                self.estimates[job_id] = replace(known, last_start=max(last, known.last_start))


def predict(
    snapshot: Snapshot, outlook: Outlook | None = None, workspace: Workspace | None = None
) -> Forecast:
    """A forecast that has been run to its end."""
    forecast = Forecast(snapshot, outlook, workspace)
    for _ in chain(forecast.run(), forecast.extrapolate()):
        pass
    return forecast
