"""Runs passes: woken by changes, after a short batching delay, giving way to client calls."""

from __future__ import annotations

import asyncio
import logging
import time

from minislurm.cluster.messages import PlacementProposed
from minislurm.cluster.snapshot import snapshot
from minislurm.controller.engine import Engine
from minislurm.domain.ids import JobId
from minislurm.scheduling.cycle import steps
from minislurm.scheduling.model import Plan, Wait

log = logging.getLogger(__name__)


class Scheduler:
    """Keeps what the last pass said of the jobs that wait; the state does not need it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wanted = asyncio.Event()
        self.plan = Plan()
        self.last_pass_time = 0.0
        self.passes = 0

    def wake(self) -> None:
        self._wanted.set()

    def wait_of(self, job_id: JobId) -> Wait | None:
        return self.plan.waits.get(job_id)

    async def run(self) -> None:
        settings = self._engine.configuration.scheduler
        while True:
            await self._wanted.wait()
            # Changes come in crowds: a thousand submissions, or the end of many tasks at once.
            await asyncio.sleep(settings.batching_delay_s)
            self._wanted.clear()
            if self._engine.journal.broken is None and self._engine.state.queue:
                await self._pass(settings.yield_after_s)

    async def _pass(self, yield_after_s: float) -> None:
        now = time.time()
        plan = await _drain(snapshot(self._engine.state, now), yield_after_s)
        self.passes += 1
        self.last_pass_time = now
        previous, self.plan = self.plan, plan
        started = time.perf_counter()
        for placement in plan.placements:
            wait = previous.waits.get(placement.job_id)
            reason = wait.reason.value if wait is not None else "None"
            transaction = self._engine.tell(PlacementProposed(placement, reason))
            if transaction.refusal is not None:
                # The state went on while the pass ran; the next pass sees it as it is.
                self._wanted.set()
            if time.perf_counter() - started > yield_after_s:
                await asyncio.sleep(0)
                started = time.perf_counter()


async def _drain(taken, yield_after_s: float) -> Plan:  # type: ignore[no-untyped-def]
    generator = steps(taken)
    started = time.perf_counter()
    try:
        while True:
            next(generator)
            if time.perf_counter() - started > yield_after_s:
                await asyncio.sleep(0)
                started = time.perf_counter()
    except StopIteration as stop:
        plan: Plan = stop.value
        return plan
