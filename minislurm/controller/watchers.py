"""Clients that wait for a job's state to change, and clients whose allocations end with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from minislurm.cluster.messages import Caller, EndAllocation
from minislurm.controller import answers
from minislurm.controller.engine import Engine
from minislurm.controller.scheduler import Scheduler
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job
from minislurm.domain.states import JobState
from minislurm.domain.views import JobView


class Watchers:
    def __init__(self, engine: Engine, scheduler: Scheduler) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._waiting: dict[JobId, set[asyncio.Event]] = {}
        self._clients: dict[JobId, int] = {}
        #: Allocations whose client is away, and the timer that ends them.
        self._away: dict[JobId, asyncio.TimerHandle] = {}

    def job_changed(self, job_id: JobId) -> None:
        job = self._engine.state.jobs.get(job_id)
        # Whoever watches an array watches its tasks; a heterogeneous job, its components.
        for watched in {job_id, job.array_job_id, job.het_job_id} if job is not None else {job_id}:
            for event in self._waiting.get(watched, ()):
                event.set()

    async def views(self, job_id: JobId) -> AsyncIterator[JobView]:
        """The job's view, now and at every change of its state, until it has ended. Raises Refusal."""
        if job_id not in self._engine.state.jobs:
            raise Refusal(RefusalCode.INVALID_JOB_ID, job_id=job_id)
        changed = asyncio.Event()
        self._waiting.setdefault(job_id, set()).add(changed)
        try:
            while True:
                changed.clear()
                job = self._engine.state.jobs.get(job_id)
                if job is None:
                    return
                yield answers.job_view(self._engine.state, self._scheduler, job, time.time())
                if self._is_over(job):
                    return
                await changed.wait()
        finally:
            self._waiting[job_id].discard(changed)
            if not self._waiting[job_id]:
                del self._waiting[job_id]

    def _is_over(self, job: Job) -> bool:
        array = self._engine.state.arrays.get(job.id)
        if array is not None and array.live:
            return False
        if job.is_leader:
            return all(one.state.is_final for one in self._engine.state.components(job))
        return job.state.is_final

    # Allocations

    def start(self) -> None:
        """After a restart every client has to come back within the grace."""
        for job in list(self._engine.state.jobs.values()):
            if not job.is_batch and not job.state.is_final:
                self._count_down(job.id)

    def client_expected(self, job_id: JobId) -> None:
        """A job without a script was submitted; whoever did so has to come for it."""
        if job_id not in self._clients and job_id not in self._away:
            self._count_down(job_id)

    def client_came(self, job_id: JobId) -> None:
        self._clients[job_id] = self._clients.get(job_id, 0) + 1
        handle = self._away.pop(job_id, None)
        if handle is not None:
            handle.cancel()

    def client_went(self, job_id: JobId, caller: Caller) -> None:
        self._clients[job_id] -= 1
        if self._clients[job_id] == 0:
            del self._clients[job_id]
            job = self._engine.state.jobs.get(job_id)
            if job is not None and not job.state.is_final and job.state is not JobState.COMPLETING:
                self._count_down(job_id)

    def _count_down(self, job_id: JobId) -> None:
        grace = self._engine.configuration.timers.client_grace_s
        self._away[job_id] = asyncio.get_running_loop().call_later(grace, self._end, job_id)

    def _end(self, job_id: JobId) -> None:
        self._away.pop(job_id, None)
        job = self._engine.state.jobs.get(job_id)
        if job is not None and self._engine.journal.broken is None:
            self._engine.tell(EndAllocation(job_id, Caller(job.spec.user_id), lost=True))
