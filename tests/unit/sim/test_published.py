"""Against what is known from elsewhere: a reference implementation, and the published log where it is there.
`scripts/bench/traces` runs the logs whole and prints the published figures beside."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.domain.ids import NodeName
from minislurm.domain.node import NodeSpec
from minislurm.domain.resources import GpuGroup
from minislurm.sim import cluster_file, openb, policy, swf, table
from minislurm.sim.replay import replay
from minislurm.sim.trace import Workload
from tests.unit.sim import philly_reference
from tests.unit.sim.easy_reference import Row, starts
from tests.unit.sim.traces import a_trace_job, a_workload, public

jobs = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(1, 40),
        st.integers(1, 8),
        st.floats(0, 3).map(lambda more: round(more, 1)),
    ),
    min_size=1,
    max_size=25,
)


def simulated(workload: Workload, processors: int, name: str, *, exact: bool = False) -> list[float]:
    configuration = policy.named(name).on(cluster_file.flat(str(processors)))
    return [outcome.runs[0].start_s for outcome in replay(workload, configuration, exact=exact).outcomes]


@pytest.mark.parametrize("name", ["easy", "easy-sjf"])
@settings(max_examples=60, deadline=None)
@given(drawn=jobs)
def test_easy_is_what_the_reference_does(name: str, drawn: list[tuple[int, int, int, float]]) -> None:
    rows: list[Row] = [
        (submit, run, width, round(run * (1 + more))) for submit, run, width, more in sorted(drawn)
    ]
    workload = a_workload(
        *(a_trace_job(submit, run, width, limit_s=float(limit)) for submit, run, width, limit in rows)
    )
    assert simulated(workload, 8, name) == starts(rows, 8, shortest_first=name == "easy-sjf")


@pytest.mark.parametrize("exact", [False, True], ids=["estimates", "exact"])
@pytest.mark.parametrize("name", ["easy", "easy-sjf"])
def test_a_piece_of_kth_is_what_the_reference_does(name: str, exact: bool) -> None:
    log = swf.read(public("KTH-SP2-filtered-predictsim.swf.gz"))
    assert len(log.jobs) == 28_481
    piece = replace(log, jobs=log.jobs[3000:3600])
    rows: list[Row] = [
        (
            job.submit_s,
            min(job.run_s, job.limit_s or 0),
            job.processors,
            job.run_s if exact else job.limit_s or 0,
        )
        for job in piece.jobs
    ]
    found = simulated(piece, 100, name, exact=exact)
    assert found == starts(rows, 100, shortest_first=name == "easy-sjf")


def test_the_openb_lists_are_read_whole() -> None:
    pods = openb.read(public("openb_pod_list_default.csv.gz")).jobs
    assert len(pods) == 8152
    assert sum(1 for pod in pods if not pod.gpus and not pod.gpu_share_milli) == 1088
    assert sum(1 for pod in pods if pod.gpu_share_milli) == 3078
    assert sum(1 for pod in pods if pod.gpus == 1) == 3911
    assert sum(1 for pod in pods if pod.gpus > 1) == 75
    cluster = openb.cluster(public("openb_node_list_gpu_node.csv"))
    assert len(cluster.nodes) == 1213
    assert sum(group.count for spec in cluster.nodes for group in spec.gpus) == 6212
    assert sum(spec.cpus or 0 for spec in cluster.nodes) == 107_018


@cache
def philly() -> Workload:
    return table.read(public("philly.csv.gz"))


def test_philly_is_read_whole() -> None:
    log = philly().jobs
    assert len(log) == 82_247
    assert max(job.gpus for job in log) == 128
    assert sum(1 for job in log if job.gpus > 8) == 289
    assert round(sum(job.gpus * job.run_s for job in log) / 3600) == 978_078
    assert log == tuple(sorted(log, key=lambda job: job.submit_s))


@pytest.mark.parametrize(("account", "nodes"), [("2869ce", 6), ("ed69ec", 4)])
@pytest.mark.parametrize("name", ["fifo", "sjf"])
def test_an_account_of_philly_is_what_the_reference_does(name: str, account: str, nodes: int) -> None:
    """On so many nodes of its own; in the one there are gangs of up to four whole nodes."""
    begin, end = (datetime(2017, month, 1, tzinfo=timezone.utc).timestamp() for month in (10, 12))
    trace = philly()
    jobs = tuple(job for job in trace.jobs if job.account == account and begin <= job.submit_s < end)
    gpus = (GpuGroup(philly_reference.GPUS),)
    cluster = cluster_file.of_nodes(
        [NodeSpec(NodeName(f"n{i}"), 64, 0, gpus, gpus_declared=True) for i in range(nodes)]
    )
    workload = replace(trace, jobs=jobs)
    outcomes = replay(workload, policy.named(name).on(cluster), exact=name == "sjf").outcomes
    rows = [(job.submit_s, job.run_s, job.gpus) for job in jobs]
    expected = philly_reference.starts(rows, nodes, shortest_first=name == "sjf")
    assert [outcome.runs[0].start_s for outcome in outcomes] == expected
