"""Clients that wait for a job, and allocations that end with their clients; on the real engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from minislurm.cluster.messages import (
    Caller,
    CancelJob,
    NodeReport,
    PlacementProposed,
    RegisterNode,
    RunReport,
    SubmitJob,
)
from minislurm.controller.engine import Engine
from minislurm.controller.scheduler import Scheduler
from minislurm.controller.watchers import Watchers
from minislurm.domain.errors import Refusal
from minislurm.domain.ids import Bitmap, JobId, NodeName, RunNumber
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.views import JobTarget
from minislurm.journal.store import Store
from minislurm.scheduling.model import Placement
from tests.builders import a_configuration, a_spec, facts

USER = Caller(1000)
N1 = NodeName("n1")


def with_watchers(tmp_path: Path, story: Callable[[Engine, Watchers], Awaitable[None]]) -> None:
    async def main() -> None:
        configuration = a_configuration(1)
        configuration = replace(configuration, timers=replace(configuration.timers, client_grace_s=0.05))
        engine = Engine(Store(str(tmp_path / "journal.db")), configuration)
        watchers = Watchers(engine, Scheduler(engine))
        engine.outside.job_changed = watchers.job_changed
        await engine.start()
        await engine.act(RegisterNode(N1, facts()))
        await story(engine, watchers)
        await engine.stop()

    asyncio.run(asyncio.wait_for(main(), 20))


async def until(condition: Callable[[], bool], limit_s: float = 5.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.002)


async def submit(engine: Engine, **changes: object) -> JobId:
    request_id = f"r{len(engine.state.requests)}"
    await engine.act(SubmitJob(a_spec(**changes), USER, request_id))  # type: ignore[arg-type]
    return engine.state.requests[request_id].job_id


async def place(engine: Engine, job_id: int, task_id: int | None = None, cpu: int = 1) -> None:
    allocation = (NodeAllocation(N1, Bitmap(cpu)),)
    await engine.act(PlacementProposed(Placement(JobId(job_id), task_id, allocation)))


async def report(engine: Engine, job_id: int, phase: str, exit_code: int = 0) -> None:
    said = RunReport(JobId(job_id), RunNumber(1), phase, exit_code, end_time=time.time())
    await engine.act(NodeReport(N1, said, clean=phase == "EXITED"))


class Watcher:
    def __init__(self, watchers: Watchers, job_id: JobId) -> None:
        self.states: list[str] = []
        self.task = asyncio.ensure_future(self._watch(watchers, job_id))

    async def _watch(self, watchers: Watchers, job_id: JobId) -> None:
        async for view in watchers.views(job_id):
            self.states.append(view.job.state.value)


def test_every_change_until_the_end(tmp_path: Path) -> None:
    async def story(engine: Engine, watchers: Watchers) -> None:
        job_id = await submit(engine)
        watcher = Watcher(watchers, job_id)
        await until(lambda: watcher.states == ["PENDING"])
        await place(engine, job_id)
        await until(lambda: watcher.states[-1] == "CONFIGURING")
        await report(engine, job_id, "RUNNING")
        await until(lambda: watcher.states[-1] == "RUNNING")
        await report(engine, job_id, "EXITED", 3)
        await asyncio.wait_for(watcher.task, 5)
        assert watcher.states[-1] == "FAILED"
        assert not watchers._waiting

    with_watchers(tmp_path, story)


def test_an_ended_job_and_an_unknown_one(tmp_path: Path) -> None:
    async def story(engine: Engine, watchers: Watchers) -> None:
        job_id = await submit(engine)
        await engine.act(CancelJob(JobTarget(job_id), USER))
        watcher = Watcher(watchers, job_id)
        await asyncio.wait_for(watcher.task, 5)
        assert watcher.states == ["CANCELLED"]
        with pytest.raises(Refusal, match="Invalid job id"):
            await Watcher(watchers, JobId(99)).task

    with_watchers(tmp_path, story)


def test_an_array_is_watched_until_its_last_task_has_ended(tmp_path: Path) -> None:
    """`sbatch --wait`: the record that keeps the array's id may end before others."""

    async def story(engine: Engine, watchers: Watchers) -> None:
        array = await submit(engine, array_tasks=(0, 1))
        watcher = Watcher(watchers, array)
        await place(engine, array, 0, 0b01)
        await place(engine, array, 1, 0b10)
        first = engine.state.tasks[array, 0]
        assert engine.state.tasks[array, 1] == array
        await report(engine, array, "RUNNING")
        await report(engine, first, "RUNNING")
        await report(engine, array, "EXITED")
        await until(lambda: bool(watcher.states) and watcher.states[-1] == "COMPLETED")
        assert not watcher.task.done(), "task 0 still runs"
        await report(engine, first, "EXITED")
        await asyncio.wait_for(watcher.task, 5)

    with_watchers(tmp_path, story)


def test_an_allocation_ends_when_its_client_stays_away(tmp_path: Path) -> None:
    async def story(engine: Engine, watchers: Watchers) -> None:
        job_id = await submit(engine, is_batch=False)
        watchers.client_came(job_id)
        watchers.client_came(job_id)
        watchers.client_went(job_id, USER)
        await asyncio.sleep(0.1)
        assert not engine.state.jobs[job_id].state.is_final, "one of two is still there"
        watchers.client_went(job_id, USER)
        await until(lambda: engine.state.jobs[job_id].state.value == "CANCELLED")

    with_watchers(tmp_path, story)


def test_an_allocation_goes_on_when_its_client_comes_back_in_time(tmp_path: Path) -> None:
    async def story(engine: Engine, watchers: Watchers) -> None:
        job_id = await submit(engine, is_batch=False)
        watchers.client_came(job_id)
        watchers.client_went(job_id, USER)
        watchers.client_came(job_id)
        await asyncio.sleep(0.1)
        assert engine.state.jobs[job_id].state.value == "PENDING"

    with_watchers(tmp_path, story)


def test_after_a_restart_clients_have_the_grace_to_come_back(tmp_path: Path) -> None:
    async def story(engine: Engine, watchers: Watchers) -> None:
        stays, goes, batch = (
            await submit(engine, is_batch=False),
            await submit(engine, is_batch=False),
            await submit(engine),
        )
        watchers.start()
        watchers.client_came(stays)
        await until(lambda: engine.state.jobs[goes].state.is_final)
        assert not engine.state.jobs[stays].state.is_final
        assert not engine.state.jobs[batch].state.is_final

    with_watchers(tmp_path, story)
