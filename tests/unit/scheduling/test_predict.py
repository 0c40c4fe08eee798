"""The planner run forward: when each job that waits starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain
from math import inf
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.domain.ids import Bitmap, JobId, NodeName
from minislurm.domain.reservation import LicenseCount
from minislurm.domain.resources import NodeAllocation, ResourceRequest
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.future import After, Arrival, Outlook, Turnover
from minislurm.scheduling.model import NodeAvailability, ReservedNodes, RunningJob, Snapshot
from minislurm.scheduling.predict import Forecast
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    NOW,
    a_class,
    a_job,
    a_partition,
    a_run,
    a_snapshot,
    predict,
    some_nodes,
)


def starts(snapshot: Snapshot, outlook: Outlook | None = None) -> dict[int, float]:
    """Minutes from now."""
    forecast = predict(snapshot, outlook)
    return {int(job_id): (e.start - NOW) / 60 for job_id, e in forecast.estimates.items()}


def test_one_after_the_other_and_backfill_beside_the_head() -> None:
    nodes = some_nodes(2)
    batch = a_partition(nodes)
    whole = a_request(2, exclusive=True)
    one = a_request(exclusive=True)
    snapshot = a_snapshot(
        nodes,
        a_class(batch, 1, 2, request=whole, minutes=10),
        a_class(batch, a_job(3, at=3), request=one, minutes=5),
        running=[a_run("n1", cpus=(0, 1, 2, 3), minutes=5)],
    )
    # Job 3 is over when job 1 can have both nodes.
    assert starts(snapshot) == {3: 0, 1: 5, 2: 15}


def test_equal_jobs_and_tasks_of_arrays_cost_one_pass_for_each_instant() -> None:
    nodes = some_nodes(1)
    batch = a_partition(nodes)
    snapshot = a_snapshot(
        nodes,
        a_class(batch, a_job(1, tasks=range(400), at=1), minutes=10),
        a_class(batch, *range(2, 402), request=a_request(memory_per_node_mib=1), minutes=10),
    )
    forecast = predict(snapshot)
    assert forecast.passes == 200  # 800 jobs, four at a time
    assert len(forecast.task_starts) == 400
    assert forecast.task_starts[JobId(1), 399] == NOW + 99 * 600
    assert forecast.estimates[JobId(1)].last_start == NOW + 99 * 600
    assert forecast.estimates[JobId(401)].start == NOW + 199 * 600


def test_tasks_keep_to_the_limit_of_their_array() -> None:
    nodes = some_nodes(1)
    batch = a_partition(nodes)
    snapshot = a_snapshot(
        nodes,
        a_class(batch, a_job(1, tasks=range(5), slots=1), minutes=10),
        running=[a_run("n1", minutes=4, job=77)],
    )
    outlook = Outlook(array_limits={JobId(1): 2}, array_of={JobId(77): JobId(1)})
    forecast = predict(snapshot, outlook)
    times = [(forecast.task_starts[JobId(1), task] - NOW) / 60 for task in range(5)]
    assert times == [0, 4, 10, 14, 20]


def test_who_can_never_start_has_no_estimate() -> None:
    nodes = some_nodes(2)
    batch = a_partition(nodes)
    snapshot = a_snapshot(
        nodes,
        a_class(batch, 1, request=a_request(3)),
        a_class(batch, 2, request=a_request(2, exclusive=True)),
        running=[a_run("n1", minutes=inf)],
    )
    forecast = predict(snapshot)
    assert forecast.estimates == {}
    assert forecast.is_complete


def test_licenses_come_back() -> None:
    nodes = some_nodes(1)
    wanted = a_request(licenses=(LicenseCount("a", 1),))
    snapshot = a_snapshot(nodes, a_class(a_partition(nodes), 1, 2, 3, request=wanted, minutes=10))
    snapshot = Snapshot(
        NOW, snapshot.nodes, (), snapshot.classes, snapshot.topology, snapshot.settings, licenses={"a": 2}
    )
    assert starts(snapshot) == {1: 0, 2: 0, 3: 10}


def test_a_shared_gpu_is_free_when_the_last_share_is_given_back() -> None:
    (node,) = some_nodes(1, gpus=1)
    taken = [_a_share("n1", minutes=5, job=101), _a_share("n1", minutes=20, job=102)]
    node = replace(node, gpus_free=Bitmap(0), gpu_shares=((0, 800),), cpus_free=Bitmap(0b1100))
    whole = a_class(a_partition([node]), 1, request=a_request(gpus_per_node=1), minutes=10)
    half = a_request(gpu_share_milli=500, gpu_share_of_node=True)
    snapshot = a_snapshot([node], whole, a_class(a_partition([node]), 2, 3, request=half, minutes=7))
    # A second half fits beside what is left of the shares, before all of it is needed.
    assert starts(replace(snapshot, running=taken)) == {2: 5, 3: 12, 1: 20}


def _a_share(node: str, *, minutes: float, job: int) -> RunningJob:
    part = NodeAllocation(NodeName(node), Bitmap(1 << job - 101), 0, Bitmap(1), 1, 400)
    return RunningJob(JobId(job), NOW + 60 * minutes, (part,))


def test_arrays_that_go_on_keep_their_order() -> None:
    nodes = some_nodes(1, cpus=2)
    batch = a_partition(nodes)
    arrays = [a_job(i, tasks=range(3), slots=1, at=float(i)) for i in (1, 2)]
    snapshot = a_snapshot(nodes, a_class(batch, *arrays, minutes=10), running=[a_run("n1", minutes=3)])
    forecast = predict(snapshot, Outlook(array_limits={JobId(1): 1, JobId(2): 1}))
    assert forecast.task_starts[JobId(1), 2] < forecast.task_starts[JobId(2), 2]
    assert forecast.task_starts[JobId(1), 1] == NOW + 600


def test_nobody_is_foreseen_in_a_reservation() -> None:
    nodes = some_nodes(1)
    taken = a_snapshot(nodes, a_class(a_partition(nodes), 1, minutes=10))
    reserved = ReservedNodes("maint", ((NOW + 300, NOW + 900),), (nodes[0].name,), maintenance=True)
    snapshot = Snapshot(
        NOW, taken.nodes, (), taken.classes, taken.topology, taken.settings, reservations=(reserved,)
    )
    assert starts(snapshot) == {1: 15}


def test_who_comes_later_waits_for_its_time_and_for_those_before_it() -> None:
    nodes = some_nodes(1)
    batch = a_partition(nodes)
    taken = a_snapshot(nodes, a_class(batch, a_job(1, tasks=(0, 1), slots=1), minutes=10))

    def comes(job_id: int, *after: After, minutes: float = 0.0, any_one: bool = False) -> Arrival:
        jobs = a_class(batch, job_id, key=f"job {job_id}", minutes=1)
        return Arrival(jobs, NOW + 60 * minutes, after, any_one)

    both = (After((JobId(1),)), After((JobId(2),)))
    outlook = Outlook(
        array_limits={JobId(1): 1},
        arrivals=(
            comes(2, minutes=3),
            comes(3, *both),
            comes(4, *both, any_one=True),
            comes(5, After((JobId(2),), starts=True, delay_s=120.0)),
            comes(6, After((JobId(99),))),
        ),
    )
    assert starts(taken, outlook) == {1: 0, 2: 3, 3: 20, 4: 4, 5: 5}


def test_who_gives_up_or_changes_leaves_its_class() -> None:
    nodes = some_nodes(1)
    batch = a_partition(nodes)
    whole = a_request(exclusive=True)
    queued = a_class(batch, 1, 2, 3, request=whole, minutes=10, key="whole")
    taken = a_snapshot(nodes, queued, running=[a_run("n1", cpus=(0, 1), minutes=30)])
    small = a_class(batch, 3, minutes=10, key="small")
    outlook = Outlook(turnovers=(Turnover(NOW + 60, JobId(1)), Turnover(NOW + 120, JobId(3), small)))
    assert starts(taken, outlook) == {3: 2, 2: 30}


def test_cut_off_it_is_true_as_far_as_it_came_and_the_rest_is_extrapolated() -> None:
    nodes = some_nodes(1)
    snapshot = a_snapshot(
        nodes,
        a_class(a_partition(nodes), *range(1, 41), minutes=10),
        a_class(a_partition(nodes), 99, request=a_request(2)),
    )
    forecast, whole = Forecast(snapshot, most_passes=3), predict(snapshot)
    for _ in forecast.run():
        pass
    assert len(forecast.estimates) == 12
    assert not forecast.is_complete
    assert forecast.estimates.items() <= whole.estimates.items()
    for _ in forecast.extrapolate():
        pass
    # Four at a time, ten minutes each: the pace is steady, so what is rough is nearly right. 99 never does.
    assert forecast.estimates.keys() == whole.estimates.keys() == {JobId(i) for i in range(1, 41)}
    for job_id, estimate in forecast.estimates.items():
        assert estimate.is_rough is (job_id > 12)
        assert abs(estimate.start - whole.estimates[job_id].start) <= 600


def test_pools_that_share_no_nodes_do_not_wait_for_each_other() -> None:
    nodes = some_nodes(2)
    one, two = a_partition(nodes[:1], "one"), a_partition(nodes[1:], "two")
    whole = a_request(exclusive=True, tasks=4)
    snapshot = a_snapshot(
        nodes,
        a_class(one, *range(1, 101), request=whole, minutes=10),
        a_class(two, *range(101, 105), request=whole, minutes=10),
    )
    forecast = Forecast(snapshot, most_passes=2)
    for _ in chain(forecast.run(), forecast.extrapolate()):
        pass
    assert forecast.estimates[JobId(104)].start <= NOW + 40 * 60
    assert forecast.estimates[JobId(100)].start >= NOW + 900 * 60


FOUR = a_request(2, nodes_max=0, tasks=4, exclusive=True, tasks_per_node=2)


@pytest.mark.parametrize("whole", [a_request(tasks=4), a_request(exclusive=True), FOUR])
def test_a_queue_that_is_not_run_to_its_end_is_estimated_whole(whole: ResourceRequest) -> None:
    """After one pass, at which nothing ended: by the pace that there is then. `whole`: what takes half of the
    nodes, whether it asks for all that is on them or for them alone."""
    nodes = some_nodes(2 * whole.nodes_min)
    batch = a_partition(nodes)
    classes = [a_class(batch, i, request=whole, minutes=10 + i) for i in range(1, 901)]
    forecast = Forecast(a_snapshot(nodes, *classes))
    for _ in chain(forecast.next_pass(), forecast.extrapolate()):
        pass
    assert not forecast.is_complete
    assert forecast.estimates.keys() == {JobId(i) for i in range(1, 901)}
    rough = [e.start for _, e in sorted(forecast.estimates.items()) if e.is_rough]
    assert len(rough) == 898
    assert rough == sorted(rough), "in the order of the queue"
    # Each of the nodes is worked for half of the time.
    assert rough[-1] == pytest.approx(NOW + sum(10 + i for i in range(3, 900)) * 60 / 2, rel=0.01)


def test_no_unit_of_work_grows_with_the_queue() -> None:
    """Counted in lines that the interpreter goes through, not in time."""

    def longest_unit(size: int) -> int:
        nodes = some_nodes(100)
        batch = a_partition(nodes)
        jobs = [a_class(batch, *range(k, size, 300), minutes=10 + k) for k in range(300)]
        forecast = Forecast(a_snapshot(nodes, *jobs))
        passes = (forecast.next_pass() for _ in range(3))
        longest = lines = 0

        def count(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            nonlocal lines
            lines += 1
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            for _ in chain(*passes, forecast.extrapolate()):
                longest, lines = max(longest, lines), 0
        finally:
            sys.settrace(before)
        assert len(forecast.estimates) == size
        return max(longest, lines)

    assert longest_unit(24_000) < 1.3 * longest_unit(6000)


@st.composite
def a_full_cluster(draw: st.DrawFn) -> Snapshot:
    nodes: list[NodeAvailability] = some_nodes(3)
    batch = a_partition(nodes)
    runs: list[RunningJob] = []
    for i in range(1, 4):
        width = draw(st.integers(1, 4))
        runs.append(a_run(f"n{i}", cpus=range(width), minutes=draw(st.integers(-1, 20)), job=100 + i))
    classes = []
    for job_id in range(1, draw(st.integers(1, 6)) + 1):
        request = a_request(draw(st.integers(1, 3)), cpus_per_task=draw(st.integers(1, 4)))
        classes.append(a_class(batch, job_id, request=request, minutes=draw(st.integers(1, 30))))
    return a_snapshot(nodes, *classes, running=runs)


@given(a_full_cluster())
@settings(max_examples=150, deadline=None)
def test_the_head_is_predicted_where_easy_has_reserved_for_it(snapshot: Snapshot) -> None:
    heads = [(job_id, wait) for job_id, wait in schedule(snapshot).waits.items() if wait.planned_nodes]
    estimates = predict(snapshot).estimates
    assert len(heads) <= 1
    for job_id, wait in heads:
        assert estimates[job_id].start == wait.start_estimate
