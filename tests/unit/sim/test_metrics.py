from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from minislurm.sim import cluster_file, policy
from minislurm.sim.checkpoints import Checkpoints
from minislurm.sim.courses import bars, by_rack, courses
from minislurm.sim.failures import Failures
from minislurm.sim.metrics import Metrics, measure
from minislurm.sim.replay import Result, replay
from minislurm.sim.trace import TraceJob
from minislurm.sim.workload import Synthetic, generate
from tests.builders import a_configuration
from tests.unit.sim.traces import a_trace_job, a_workload


def result_of(*jobs: TraceJob, processors: int = 2) -> Result:
    return replay(a_workload(*jobs), policy.named("easy").on(cluster_file.flat(str(processors))))


def metrics_of(*jobs: TraceJob, processors: int = 2) -> Metrics:
    return measure(result_of(*jobs, processors=processors))


def test_waits_and_slowdowns() -> None:
    metrics = metrics_of(a_trace_job(0, 100, 2), a_trace_job(20, 40, 2), a_trace_job(140, 1, 2))
    assert metrics.wait_s.mean == 80 / 3
    assert metrics.wait_s.most == 80
    assert metrics.turnaround_s.mean == pytest.approx((100 + 120 + 1) / 3)
    # Alone: 1. Behind the first: 120 / 40. A job of a second counts as one of ten: 1, not 1 / 10.
    assert metrics.bounded_slowdown.mean == pytest.approx((1 + 3 + 1) / 3)
    assert metrics.makespan_s == 141


def test_a_short_job_s_slowdown_is_bounded() -> None:
    metrics = metrics_of(a_trace_job(0, 100, 2), a_trace_job(0, 1, 2))
    assert metrics.bounded_slowdown.most == pytest.approx(101 / 10)


def test_utilisation_is_over_the_whole_window() -> None:
    metrics = metrics_of(a_trace_job(0, 100, 1), a_trace_job(100, 100, 2))
    assert metrics.utilisation == pytest.approx((100 + 200) / 400)


def test_ends_are_counted() -> None:
    metrics = metrics_of(a_trace_job(0, 9), a_trace_job(0, 9, limit_s=5.0), a_trace_job(0, 9, 3))
    assert metrics.ends == {"COMPLETED": 1, "REFUSED": 1, "TIMEOUT": 1}
    assert sum(metrics.never_ran.values()) == 1


def test_fragmentation_is_what_is_free_beside_others() -> None:
    """For 10 s a GPU of four on one of two nodes is in use: 3 of the 7 free ones are beside it."""
    configuration = policy.named("easy").on(a_configuration(2, cpus=8, gpus=4))
    metrics = measure(replay(a_workload(a_trace_job(0, 10, 1)), configuration))
    assert metrics.fragmentation == pytest.approx(3 / 7)
    assert metrics.utilisation == pytest.approx(1 / 8)
    assert metrics_of(a_trace_job(0, 1)).fragmentation is None, "one node"


def test_racks_of_gangs() -> None:
    configuration = policy.named("easy").on(a_configuration(4, cpus=8, gpus=4, racks=2))
    jobs = [a_trace_job(0, 10, 8), a_trace_job(20, 10, 12), a_trace_job(40, 10, 1)]
    metrics = measure(replay(a_workload(*jobs), configuration))
    assert (metrics.racks_per_gang, metrics.racks_needed) == (1.5, 1.5)


def test_fairness_is_jains_index_over_accounts() -> None:
    alike = [a_trace_job(0, 10, 1, account="a"), a_trace_job(0, 10, 1, account="b")]
    assert metrics_of(*alike).fairness == 1.0
    behind = [a_trace_job(0, 30, 2, account="a"), a_trace_job(0, 10, 2, account="b")]
    # Mean slowdowns of 1 and 4.
    assert metrics_of(*behind).fairness == pytest.approx(25 / (2 * 17))
    assert metrics_of(a_trace_job(0, 1, account="a")).fairness is None


def test_courses_keep_the_area() -> None:
    result = result_of(a_trace_job(0, 100, 1), a_trace_job(30, 45, 1), a_trace_job(35, 10, 2))
    for points in (1, 7, 50):
        course = courses(result, points)
        step = (course["time_s"][-1] - course["time_s"][0]) / max(1, points - 1) if points > 1 else 110
        assert course["used"].sum() * step == pytest.approx(100 + 45 + 20)


def test_racks_over_time_add_up() -> None:
    configuration = policy.named("easy").on(a_configuration(4, cpus=8, gpus=4, racks=2))
    result = replay(a_workload(a_trace_job(0, 10, 16), a_trace_job(12, 5, 3)), configuration)
    for points in (17, 5, 3):  # steps that runs cover in part, too
        edges, racks, shares = by_rack(result, points)
        assert racks == ["r1", "r2"]
        assert shares.sum(axis=0)[0] == pytest.approx(2.0)
        assert shares.sum() * 8 * np.diff(edges)[0] == pytest.approx(160 + 15)


def test_every_run_is_in_the_chart_of_its_racks() -> None:
    """Whatever the order of submission: backfilled and requeued ones start out of turn."""
    workload = generate(Synthetic(jobs=80, load=1.2, largest=16), 16, seed=3)
    failures = Failures(mtbf_s=80_000.0, repair_s=3600.0, seed=1)
    configuration = policy.named("easy").on(a_configuration(4, cpus=8, gpus=4, racks=2))
    result = replay(workload, configuration, failures=failures)
    runs = [run for outcome in result.outcomes for run in outcome.runs]
    assert len(runs) > 80
    for rack in ("r1", "r2"):
        shown = bars(result, rack, 8)
        area = sum((bar.end_s - bar.start_s) * bar.height for bar in shown)
        held = sum((run.end_s - run.start_s) * run.units_by_rack.get(rack, 0) for run in runs)
        assert area == pytest.approx(held)
        for lane in range(8):
            here = [bar for bar in shown if bar.lane <= lane < bar.lane + bar.height]
            assert all(after.start_s >= bar.end_s for bar, after in pairwise(here))


@pytest.mark.parametrize(
    ("work", "restarted", "expected"),
    [(90, False, 90), (100, False, 100), (101, False, 111), (300, False, 320), (300, True, 350)],
)
def test_checkpoints_take_time(work: float, restarted: bool, expected: float) -> None:
    overlay = Checkpoints(interval_s=100.0, cost_s=10.0, restart_s=30.0)
    assert overlay.duration(work, restarted=restarted) == expected
    assert replace(overlay, interval_s=0.0).duration(work, restarted=restarted) == work


@pytest.mark.parametrize(
    ("elapsed", "restarted", "expected"),
    [
        (99, False, 0),
        (109, False, 0),
        (110, False, 100),
        (225, False, 200),
        (225, True, 100),
        (9999, False, 250),
    ],
)
def test_what_is_in_a_checkpoint_is_saved(elapsed: float, restarted: bool, expected: float) -> None:
    overlay = Checkpoints(interval_s=100.0, cost_s=10.0, restart_s=30.0)
    assert overlay.saved(elapsed, 250, restarted=restarted) == expected
