"""When pending jobs start, worked out when somebody asks and kept until something changes.

A forecast (`scheduling/predict.py`) and an explanation take many passes. They give way to client calls as a
pass does, and are cut off after a while: what they have found by then is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from minislurm.cluster.snapshot import snapshot
from minislurm.controller.engine import Engine
from minislurm.controller.give_way import give_way
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job
from minislurm.domain.views import Explanation

if TYPE_CHECKING:
    from minislurm.scheduling.predict import Estimate
    from minislurm.scheduling.workspace import Workspace

#: Seconds after which a forecast or an explanation is cut off; a call waits no longer than 10 s.
LONGEST_S = 4.0
#: A forecast that took long serves so many times as long, even if something has changed.
_SERVES = 4
#: Without a change time passes all the same: priorities age.
_KEPT_S = 60.0


class Forecasts:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._estimates: Mapping[JobId, Estimate] = {}
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
        from minislurm.cluster.outlook import outlook
        from minislurm.scheduling.predict import Forecast
        from minislurm.scheduling.workspace import Workspace

        begun, seq, now = time.monotonic(), self._engine.journal.seq, time.time()
        state = self._engine.state
        workspace, self._workspace = self._workspace or Workspace(), None
        forecast = Forecast(snapshot(state, now), outlook(state, now), workspace)
        if await self.drain(forecast.run(), begun + LONGEST_S):
            # One that was cut off leaves its arrays in an unknown state.
            self._workspace = workspace
        await self.drain(forecast.extrapolate(), begun + 2 * LONGEST_S)
        self._estimates, self._seq, self._taken = forecast.estimates, seq, begun
        end = time.monotonic()
        self._serves_until = end + _SERVES * (end - begun)

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

    async def drain(self, working: Generator[None, None, None], end: float) -> bool:
        """False: it was cut off at that time (monotonic)."""
        done = await self._give_way(working, end)
        working.close()
        return done is not None

    async def _give_way(self, working: Generator[None, None, object], end: float) -> StopIteration | None:
        return await give_way(working, self._engine.configuration.scheduler.yield_after_s, end)
