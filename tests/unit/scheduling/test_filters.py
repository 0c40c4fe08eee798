from __future__ import annotations

from typing import Any

import pytest

from minislurm.domain.ids import JobId
from minislurm.domain.states import PartitionState
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import Plan
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    a_class,
    a_node,
    a_partition,
    a_run,
    a_snapshot,
    check,
    reason,
    some_nodes,
    started,
)


def plan_of(request: dict[str, Any], partition: dict[str, Any], minutes: float = 10.0) -> Plan:
    """One job of that request on four nodes of 4 CPUs, 2 GPUs and 1000 MiB; n4 is drained. And a job 2."""
    nodes = [*some_nodes(3, gpus=2, gpu_type="a100", features=frozenset({"ib"})), a_node("n4", usable=False)]
    batch = a_partition(nodes, **partition)
    first = a_class(batch, 1, request=a_request(**request), minutes=minutes)
    snapshot = a_snapshot(nodes, first, a_class(a_partition(nodes, "other"), 2, minutes=9999))
    plan = schedule(snapshot)
    check(snapshot, plan)
    return plan


@pytest.mark.parametrize(
    ("request_changes", "partition", "expected"),
    [
        ({"nodes": 3}, {"max_nodes": 2}, "PartitionNodeLimit"),
        ({"nodes": 5}, {}, "PartitionNodeLimit"),
        ({"nodes": 1}, {"min_nodes": 2}, "PartitionNodeLimit"),
        ({"nodes_max": 0, "tasks": 9}, {"max_nodes": 2}, "PartitionNodeLimit"),
        ({}, {"max_time_s": 60.0}, "PartitionTimeLimit"),
        ({}, {"state": PartitionState.DOWN}, "PartitionDown"),
        ({}, {"state": PartitionState.INACTIVE}, "PartitionInactive"),
        ({"cpus_per_task": 5}, {}, "PartitionConfig"),
        ({"memory_per_node_mib": 1001}, {}, "PartitionConfig"),
        ({"gpus_per_node": 3}, {}, "PartitionConfig"),
        ({"gpus_per_node": 1, "gpu_type": "h200"}, {}, "PartitionConfig"),
        ({"gpus_total": 7, "nodes_max": 0, "tasks": 7}, {}, "PartitionConfig"),
        ({"required_nodes": ("elsewhere",)}, {}, "PartitionConfig"),
        ({"features": "nvme"}, {}, "BadConstraints"),
        ({"features": "ib&"}, {}, "BadConstraints"),
        ({"required_nodes": ("n4",), "features": "ib"}, {}, "BadConstraints"),
        ({"required_nodes": ("n4",)}, {}, "ReqNodeNotAvail"),
        ({"nodes": 4}, {}, "ReqNodeNotAvail"),
    ],
)
def test_what_can_never_start_says_why_and_holds_nobody_up(
    request_changes: dict[str, Any], partition: dict[str, Any], expected: str
) -> None:
    plan = plan_of(request_changes, partition)
    assert reason(plan, 1) == expected
    assert started(plan) == [2]
    assert plan.waits[JobId(1)].start_estimate == 0.0


def test_no_limit_is_over_every_limit() -> None:
    assert reason(plan_of({}, {"max_time_s": 60.0}, minutes=0), 1) == "PartitionTimeLimit"
    assert started(plan_of({}, {"max_time_s": 600.0}, minutes=10)) == [1, 2]


def test_a_draining_partition_still_starts_its_jobs() -> None:
    assert started(plan_of({}, {"state": PartitionState.DRAIN})) == [1, 2]


def test_nothing_is_known_of_a_node_that_never_registered() -> None:
    nodes = [a_node("n1", cpus=0, memory_mib=0, usable=False)]
    snapshot = a_snapshot(nodes, a_class(a_partition(nodes), 1, request=a_request(cpus_per_task=64)))
    assert reason(schedule(snapshot), 1) == "ReqNodeNotAvail"


def test_a_job_that_failed_on_every_node_waits_for_another() -> None:
    nodes = some_nodes(2)
    snapshot = a_snapshot(nodes, a_class(a_partition(nodes), 1, avoided_nodes=("n1", "n2")))
    plan = schedule(snapshot, explain=True)
    assert reason(plan, 1) == "ReqNodeNotAvail"
    assert plan.waits[JobId(1)].rejected == {"launch failed here": 2}


def test_rejected_counts_nodes_by_their_first_failing_filter() -> None:
    nodes = [
        a_node("n1", usable=False),
        a_node("n2", cpus=1),
        a_node("n3", memory_mib=10),
        a_node("n4", gpus=1),
        *(a_node(f"n{i}", gpus=2) for i in range(5, 10)),
    ]
    running = [
        a_run("n6", gpus=(0,)),
        a_run("n7", cpus=(0, 1, 2)),
        a_run("n8", cpus=(), memory_mib=950),
    ]
    request = a_request(3, cpus_per_task=2, gpus_per_node=2, memory_per_node_mib=100, excluded_nodes=("n9",))
    snapshot = a_snapshot(nodes, a_class(a_partition(nodes), 1, request=request), running=running)
    wait = schedule(snapshot, explain=True).waits[JobId(1)]
    assert wait.reason.value == "Resources"
    assert wait.rejected == {
        "down, drained or not responding": 1,
        "excluded": 1,
        "too few cpus": 1,
        "too little memory": 1,
        "too few gpus": 1,
        "gpus busy": 1,
        "cpus busy": 1,
        "memory busy": 1,
    }


def test_exclusive_rejects_nodes_in_use() -> None:
    nodes = some_nodes(2)
    jobs = a_class(a_partition(nodes), 1, request=a_request(2, exclusive=True))
    wait = schedule(a_snapshot(nodes, jobs, running=[a_run("n1")]), explain=True).waits[JobId(1)]
    assert wait.rejected == {"not idle": 1}
