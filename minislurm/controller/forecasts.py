"""When pending jobs start, worked out when somebody asks and kept until something changes.

A forecast (`scheduling/predict.py`) and an explanation take many passes. They give way to client calls as a
pass does, and after a while no more passes are made: what is left of a forecast is extrapolated, what an
explanation has found by then is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from math import inf
from typing import TYPE_CHECKING, TypeVar

from minislurm.cluster.snapshot import snapshot
from minislurm.controller.engine import Engine
from minislurm.controller.give_way import give_way
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job
from minislurm.domain.views import Explanation

if TYPE_CHECKING:
    from minislurm.scheduling.predict import Estimate, Forecast
    from minislurm.scheduling.workspace import Workspace

T = TypeVar("T")

#: Seconds after which no more passes are made. With a first pass that takes as long (100,000 jobs that are
#: all different), and an extrapolation after it, a call still waits no longer than 10 s.
LONGEST_S = 4.0
#: Estimates let go of between two client calls.
_LET_GO_AT_ONCE = 2000
#: A forecast that took long serves so many times as long, even if something has changed.
_SERVES = 4
#: Without a change time passes all the same: priorities age.
_KEPT_S = 60.0


class Forecasts:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._estimates: dict[JobId, Estimate] = {}
        #: Number of the journal's last event when it was begun, and until when it serves whatever happens.
        self._seq = -1
        self._taken = 0.0
        self._serves_until = 0.0
        self._running: asyncio.Task[None] | None = None
        #: What the last one left for the next.
        self._workspace: Workspace | None = None

    def known(self, job_id: JobId) -> Estimate | None:
        """Of the last forecast, if that is still true."""
        return self._estimates.get(job_id) if self._is_true() else None

    def _is_true(self) -> bool:
        now = time.monotonic()
        unchanged = self._seq == self._engine.journal.seq and now < self._taken + _KEPT_S
        return unchanged or now < self._serves_until

    async def refresh(self) -> None:
        """Returns when there is a forecast that is true, or was when it was asked for; all who ask at the
        same time wait for the same one."""
        if self._is_true():
            return
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._work_out())
        # The one that goes on when a client goes away.
        await asyncio.shield(self._running)

    async def _work_out(self) -> None:
        from minislurm.cluster.outlook import look_ahead
        from minislurm.scheduling.predict import Forecast
        from minislurm.scheduling.workspace import Workspace

        begun, seq, now = time.monotonic(), self._engine.journal.seq, time.time()
        state = self._engine.state
        # Not kept if this is broken off: its arrays would be in an unknown state.
        workspace, self._workspace = self._workspace or Workspace(), None
        taken = snapshot(state, now)
        forecast = Forecast(taken, await self.finish(look_ahead(state, now)), workspace)
        await self.carry_on(forecast)
        self._workspace = workspace
        old, self._estimates = self._estimates, forecast.estimates
        self._seq, self._taken = seq, begun
        end = time.monotonic()
        self._serves_until = end + _SERVES * (end - begun)
        while old:  # letting go of a hundred thousand objects takes time, too
            for _ in range(min(len(old), _LET_GO_AT_ONCE)):
                old.popitem()
            await asyncio.sleep(0)

    async def carry_on(self, forecast: Forecast, until: JobId | None = None) -> None:
        """To its end, or until that job has an estimate. Pass after pass, as long as another one is likely to
        be over in time; at least one. Whatever is left is extrapolated, at a second or two for a hundred
        thousand jobs: everybody who can start has an estimate afterwards."""
        end, last_s = time.monotonic() + LONGEST_S, 0.0
        while not forecast.is_over and (begun := time.monotonic()) + last_s <= end:
            await self.finish(forecast.next_pass())
            if until is not None and until in forecast.estimates:
                return
            last_s = time.monotonic() - begun
        await self.finish(forecast.extrapolate())

    async def explain(self, job: Job, task: int | None = None) -> Explanation:
        from minislurm.cluster.explanation import OutOfTime, explanation

        known = self.known(job.id) if task is None else None
        working = explanation(self._engine.state, job, time.time(), known, task)
        done = await self._give_way(working, time.monotonic() + LONGEST_S)
        if done is None:
            try:
                working.throw(OutOfTime())
            except StopIteration as stop:
                done = stop
        assert done is not None, "an explanation goes on although it is out of time"
        told: Explanation = done.value
        return told

    async def finish(self, working: Generator[None, None, T]) -> T:
        """What it returns in the end. Gives way to client calls."""
        done = await self._give_way(working, inf)
        assert done is not None, "without a bound nothing is cut off"
        result: T = done.value
        return result

    async def _give_way(self, working: Generator[None, None, object], end: float) -> StopIteration | None:
        return await give_way(working, self._engine.configuration.scheduler.yield_after_s, end)
