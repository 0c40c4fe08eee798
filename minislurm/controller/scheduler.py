"""Runs passes: woken by changes, after a short batching delay, giving way to client calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Hashable
from math import inf
from typing import TYPE_CHECKING

from minislurm.cluster.messages import PlacementProposed, PreemptionProposed, ResizeProposed
from minislurm.cluster.runs import array_slots
from minislurm.cluster.snapshot import snapshot
from minislurm.controller.engine import Engine
from minislurm.controller.give_way import give_way
from minislurm.domain.job import Job
from minislurm.scheduling.model import TASK_LIMIT, Placement, Plan, Snapshot, Standing, Wait

if TYPE_CHECKING:
    from minislurm.scheduling.workspace import Workspace

log = logging.getLogger(__name__)

#: Between two passes there is so many times as long as the last one took, up to a limit (seconds).
_PASS_SHARE = 4
_LONGEST_REST_S = 0.05

#: Before the first pass, unless a node comes back or a job is submitted (seconds).
_FIRST_REST_S = 0.5

#: Between two times that clients are answered: about a millisecond.
_STANDINGS_AT_ONCE = 5000


class Scheduler:
    """Keeps what the last pass said of the jobs that wait; the state does not need it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wanted = asyncio.Event()
        self._standings: dict[Hashable, Standing] = {}
        self.last_pass_time = 0.0
        self._last_pass_s = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        #: What the last pass left for the next.
        self._workspace: Workspace | None = None

    def wake(self) -> None:
        self._wanted.set()

    def wait_of(self, job: Job) -> Wait | None:
        """What the last pass said of a job that waits for resources; None: nothing yet, or it waits for
        something else."""
        standing, state = self._standing_of(job), self._engine.state
        if job.is_array_rest and job.id in state.queue and not array_slots(state, job):
            return TASK_LIMIT
        return standing.wait_of(job.het_job_id or job.id) if standing is not None else None

    def priority_of(self, job: Job) -> int:
        if job.priority is not None:
            return job.priority
        standing = self._standing_of(job)
        return standing.priority.at(job.eligible_time) if standing is not None else 1

    def _standing_of(self, job: Job) -> Standing | None:
        queue = self._engine.state.queue
        # A heterogeneous job has one place in the order, its leader's.
        place = queue.places.get(job.het_job_id or job.id)
        return self._standings.get(queue.classes[place[0]].number) if place is not None else None

    async def run(self) -> None:
        settings = self._engine.configuration.scheduler
        await self._wait_for_nodes()
        while True:
            await self._wanted.wait()
            # Changes come in crowds: a thousand submissions, or the end of many tasks at once. The longer a
            # pass takes, the more of them it should be worth.
            rest = min(_PASS_SHARE * self._last_pass_s, _LONGEST_REST_S)
            await asyncio.sleep(max(settings.batching_delay_s, rest))
            self._wanted.clear()
            if self._engine.journal.broken is None and self._engine.state.wants_passes:
                await self._pass(settings.yield_after_s)

    async def _wait_for_nodes(self) -> None:
        """After a start no node is back, so that nothing can begin: clients who ask for their jobs go first.
        Until something happens, or for so long that the reasons of pending jobs are no longer awaited."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), _FIRST_REST_S)
        self._wanted.set()

    async def _pass(self, yield_after_s: float) -> None:
        now, begun = time.time(), time.perf_counter()
        plan = await self._drain(snapshot(self._engine.state, now), yield_after_s)
        self.last_pass_time = now
        standings: dict[Hashable, Standing] = {}
        for number, standing in enumerate(plan.standings, 1):
            standings[standing.jobs.key] = standing
            if number % _STANDINGS_AT_ONCE == 0:
                await asyncio.sleep(0)
        started = time.perf_counter()
        for proposed in plan.in_order():
            message = (
                self._proposal(proposed) if isinstance(proposed, Placement) else PreemptionProposed(proposed)
            )
            transaction = self._engine.tell(message)
            if transaction.refusal is not None:
                # The state went on while the pass ran; the next pass sees it as it is.
                self._wanted.set()
            if time.perf_counter() - started > yield_after_s:
                await asyncio.sleep(0)
                started = time.perf_counter()
        for resizes in plan.resizes:
            if self._engine.tell(ResizeProposed(resizes)).refusal is not None:
                self._wanted.set()
        self._wake_at(plan.wake_time)
        old, self._standings = self._standings, standings
        del plan
        while old:  # letting go of a hundred thousand objects takes time, too
            for _ in range(min(len(old), _STANDINGS_AT_ONCE)):
                old.popitem()
            await asyncio.sleep(0)
        self._last_pass_s = time.perf_counter() - begun

    def _wake_at(self, time_then: float) -> None:
        """Another pass then, when a run that somebody waits for may give way."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if time_then < inf:
            delay = max(0.0, time_then - time.time())
            self._alarm = asyncio.get_running_loop().call_later(delay, self.wake)

    def _proposal(self, placement: Placement) -> PlacementProposed:
        job = self._engine.state.jobs.get(placement.job_id)
        if job is None:
            return PlacementProposed(placement)
        wait = self.wait_of(job)
        reason = wait.reason.value if wait is not None else "None"
        return PlacementProposed(placement, reason, self.priority_of(job))

    async def _drain(self, taken: Snapshot, yield_after_s: float) -> Plan:
        # NumPy takes a tenth of a second to load: after a restart, answers come before the first pass.
        from minislurm.scheduling.cycle import steps
        from minislurm.scheduling.workspace import Workspace

        if self._workspace is None:
            self._workspace = Workspace()
        try:
            done = await give_way(steps(taken, self._workspace), yield_after_s)
        except BaseException:
            # A pass that was cut off leaves its arrays in an unknown state.
            self._workspace = None
            raise
        assert done is not None, "nothing ends a pass before it is through"
        plan: Plan = done.value
        return plan
