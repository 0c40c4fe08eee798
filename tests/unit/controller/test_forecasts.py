"""Forecasts and explanations on the real engine: kept until something changes, cut off, made for all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from types import SimpleNamespace

import pytest

from minislurm.cluster.messages import Caller, RegisterNode, SubmitJob
from minislurm.controller import forecasts as module
from minislurm.controller.answers import explained_job, job_view
from minislurm.controller.engine import Engine
from minislurm.controller.estimate import test_submission as try_submission
from minislurm.controller.forecasts import Forecasts
from minislurm.controller.scheduler import Scheduler
from minislurm.domain.errors import Refusal
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.views import JobTarget
from minislurm.journal.store import Store
from minislurm.scheduling.predict import Forecast
from tests.builders import a_configuration, a_request, a_spec, facts

Story = Callable[[Engine, Forecasts], Awaitable[None]]
WHOLE = a_request(1, exclusive=True)


def with_forecasts(tmp_path: Path, story: Story) -> None:
    async def main() -> None:
        engine = Engine(Store(str(tmp_path / "journal.db")), a_configuration(1))
        await engine.start()
        await engine.act(RegisterNode(NodeName("n1"), facts()))
        await story(engine, Forecasts(engine))
        await engine.stop()

    asyncio.run(asyncio.wait_for(main(), 20))


async def submit(engine: Engine, **changes: object) -> JobId:
    request_id = f"r{len(engine.state.requests)}"
    await engine.act(SubmitJob(a_spec(request=WHOLE, **changes), Caller(1000), request_id))  # type: ignore[arg-type]
    return engine.state.requests[request_id].job_id


def test_a_forecast_is_kept_until_something_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Forecast] = []

    async def story(engine: Engine, forecasts: Forecasts) -> None:
        first = await submit(engine, time_limit_s=60.0)
        second = await submit(engine, time_limit_s=60.0)
        assert forecasts.known(first) is None
        await asyncio.gather(forecasts.refresh(), forecasts.refresh())
        await forecasts.refresh()
        assert len(made) == 1
        known = [forecasts.known(job_id) for job_id in (first, second)]
        assert known[0] is not None
        assert known[1] is not None
        assert known[1].start == known[0].start + 60
        view = job_view(engine.state, Scheduler(engine), engine.state.jobs[second], 0.0, known[1])
        assert (view.start_estimate, view.planned_nodes) == (known[1].start, ("n1",))
        third = await submit(engine, time_limit_s=60.0)
        assert forecasts.known(first) is None
        await forecasts.refresh()
        assert len(made) == 2
        assert forecasts.known(third) is not None

    original = Forecast.__init__

    def counted(self: Forecast, *arguments: object, **more: object) -> None:
        made.append(self)
        original(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Forecast, "__init__", counted)
    monkeypatch.setattr(module, "_SERVES", 0)
    with_forecasts(tmp_path, story)


@pytest.mark.parametrize(("pass_s", "passes"), [(0.9, 4), (1.9, 2), (60.0, 1)])
def test_what_is_left_when_time_is_over_is_extrapolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pass_s: float, passes: int
) -> None:
    """No pass is begun that would hardly be over in time, but for the first."""
    now = 0.0
    working = Forecast.next_pass

    def slow(self: Forecast) -> Generator[None, None, None]:
        nonlocal now
        yield from working(self)
        now += pass_s

    async def story(engine: Engine, forecasts: Forecasts) -> None:
        ids = [await submit(engine, time_limit_s=60.0 + i) for i in range(30)]
        monkeypatch.setattr(Forecast, "next_pass", slow)
        clock = SimpleNamespace(monotonic=lambda: now, time=time.time, perf_counter=time.perf_counter)
        monkeypatch.setattr(module, "time", clock)
        await forecasts.refresh()
        estimates = [forecasts.known(job_id) for job_id in ids]
        assert all(estimates)
        rough = [estimate.is_rough for estimate in estimates if estimate]
        assert rough == [False] * passes + [True] * (30 - passes)

    with_forecasts(tmp_path, story)


def test_test_only_joins_the_queue_with_its_priority(tmp_path: Path) -> None:
    async def story(engine: Engine, forecasts: Forecasts) -> None:
        for _ in range(3):
            await submit(engine, time_limit_s=600.0)
        now = engine.state.jobs[JobId(1)].eligible_time + 1

        async def start(**changes: object) -> float:
            spec = a_spec(request=WHOLE, time_limit_s=600.0, **changes)  # type: ignore[arg-type]
            message = SubmitJob(spec, Caller(0, True))
            result = await try_submission(engine.state, forecasts, message, now)
            assert result.nodes == ("n1",)
            return result.start_time - now

        assert await start() == 1800
        assert await start(priority=10**6) == 0
        assert await start(begin_time=now + 5000) == 5000
        assert await start(array_tasks=(1, 2), array_limit=1) == 1800
        assert len(engine.state.jobs) == 3
        never = a_spec(request=a_request(2), time_limit_s=600.0)
        with pytest.raises(Refusal, match="not available"):
            await try_submission(engine.state, forecasts, SubmitJob(never, Caller(1000)), now)

    with_forecasts(tmp_path, story)


def test_test_only_of_a_heterogeneous_job(tmp_path: Path) -> None:
    """When all of it starts, with all its CPUs and nodes."""

    async def story(engine: Engine, forecasts: Forecasts) -> None:
        await submit(engine, time_limit_s=600.0)
        now = engine.state.jobs[JobId(1)].eligible_time + 1
        part = a_spec(request=a_request(1, cpus_per_task=2), time_limit_s=60.0)
        message = SubmitJob(part, Caller(1000), components=(part, part))
        result = await try_submission(engine.state, forecasts, message, now)
        assert (result.start_time - now, result.cpus, result.nodes) == (600, 6, ("n1",))
        assert len(engine.state.jobs) == 1

    with_forecasts(tmp_path, story)


def test_a_heterogeneous_job_is_explained_as_one(tmp_path: Path) -> None:
    async def story(engine: Engine, forecasts: Forecasts) -> None:
        await submit(engine, time_limit_s=600.0)
        part = a_spec(request=a_request(1, cpus_per_task=3), time_limit_s=60.0)
        await engine.act(SubmitJob(part, Caller(1000), "het", (part,)))
        second = explained_job(engine.state, JobTarget(JobId(2), het_offset=1))
        assert second.id == 3
        told = await forecasts.explain(second)
        assert (told.shown_id, told.reason) == ("2+1", "Resources")
        assert told.start_estimate == pytest.approx(told.now + 600, abs=5)
        assert "Component 0 of the heterogeneous job finds no room beside those before it." in told.sentences
        with pytest.raises(Refusal, match="Invalid job id specified"):
            explained_job(engine.state, JobTarget(JobId(2), het_offset=2))

    with_forecasts(tmp_path, story)


def test_a_job_is_explained_and_an_unknown_one_refused(tmp_path: Path) -> None:
    async def story(engine: Engine, forecasts: Forecasts) -> None:
        await submit(engine, time_limit_s=60.0)
        rest = await submit(engine, time_limit_s=60.0, array_tasks=(3, 4))
        state = engine.state
        assert explained_job(state, JobTarget(rest, (4,))).id == rest
        told = await forecasts.explain(explained_job(state, JobTarget(rest)), 4)
        assert told.shown_id == f"{rest}_4"
        assert told.first_ahead == (1,)
        assert told.start_estimate == pytest.approx(told.now + 120)
        for target in (JobTarget(JobId(99)), JobTarget(rest, (5,)), JobTarget(JobId(1), (1,))):
            with pytest.raises(Refusal, match="Invalid job id specified"):
                explained_job(state, target)

    with_forecasts(tmp_path, story)
