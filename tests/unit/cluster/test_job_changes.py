"""`scontrol update job`: what may be changed of a job that waits, how it is checked, what it does."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cluster.check import check
from minislurm.cluster.messages import PlacementProposed
from minislurm.domain.configuration import Partition
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.resources import GpuGroup
from minislurm.domain.states import PartitionState
from minislurm.node.environment import _as_given
from tests.builders import a_configuration, a_request
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import release, task, tell, update

TWO, NONE = GpuGroup(2), GpuGroup(0)


def a_cluster(**sections: Any) -> SimCluster:
    """Four nodes of 8 CPUs and 4 GPUs in two racks; jobs run for ever."""
    configuration = a_configuration(4, gpus=4, racks=2, **sections)
    return SimCluster(configuration, duration_of=lambda job: 1e6)


def waiting(cluster: SimCluster, **changes: Any) -> JobId:
    return cluster.submit(hold=True, **changes)


def started(cluster: SimCluster, job_id: JobId) -> Job:
    assert release(cluster, job_id) is None
    cluster.run(1)
    job = cluster.job(job_id)
    assert job.state.value == "RUNNING", cluster.reason(job_id)
    return job


# GPUs


@pytest.mark.parametrize(
    ("form", "request_", "total", "given"),
    [
        ("gpus_per_node", {"nodes": 2}, 4, {"gres": "gpu:2"}),
        ("gpus_per_task", {"tasks": 2}, 4, {"gpus_per_task": "2"}),
        ("gpus_total", {}, 2, {"gpus": "2"}),
    ],
)
def test_gpus_in_each_form(form: str, request_: Any, total: int, given: dict[str, str]) -> None:
    cluster = a_cluster()
    job_id = waiting(cluster, request=a_request(gpus_per_node=1, **request_), gpus_per_node="1")
    if form == "gpus_per_node":
        given = {"gpus_per_node": "2"}  # as it was asked for
    changes: dict[str, Any] = {form: TWO}
    assert update(cluster, job_id, **changes) is None
    job = started(cluster, job_id)
    assert sum(part.gpu_count for part in job.allocation) == total
    shown = {name: getattr(job.spec, name) for name in ("gres", "gpus", "gpus_per_node", "gpus_per_task")}
    assert {name: text for name, text in shown.items() if text} == given


def test_gpus_taken_away_and_asked_for_by_type() -> None:
    cluster = a_cluster()
    job_id = waiting(cluster, request=a_request(gpus_per_node=2), gres="gpu:2")
    assert update(cluster, job_id, gpus_per_node=NONE) is None
    assert (cluster.job(job_id).request.gpus_per_node, cluster.job(job_id).spec.gres) == (0, "")
    missing = GpuGroup(1, "h100")
    assert update(cluster, job_id, gpus_per_node=missing) is RefusalCode.NODE_CONFIGURATION
    assert update(cluster, job_id, gpus_per_node=GpuGroup(5)) is RefusalCode.NODE_CONFIGURATION
    assert update(cluster, job_id, gpus_per_node=TWO, gpus_total=TWO) is RefusalCode.INVALID_GRES
    assert cluster.job(job_id).request.gpus_per_node == 0, "all or nothing"


def test_a_share_of_a_gpu_becomes_whole_ones() -> None:
    cluster = a_cluster()
    job_id = waiting(cluster, request=a_request(gpu_share_milli=500), gpus="0.5")
    assert update(cluster, job_id, gpus_total=TWO) is None
    request = cluster.job(job_id).request
    assert (request.gpus_total, request.gpu_share_milli) == (2, 0)


def test_gpus_in_all_spread_over_as_many_nodes_as_it_takes() -> None:
    cluster = a_cluster()
    job_id = waiting(cluster, request=a_request(gpus_total=8, nodes_max=0), gpus="8")
    assert cluster.job(job_id).request.nodes_min == 2
    assert update(cluster, job_id, gpus_total=GpuGroup(16)) is None
    assert cluster.job(job_id).request.nodes_min == 4
    assert update(cluster, job_id, gpus_total=GpuGroup(3)) is None
    assert len(started(cluster, job_id).allocation) == 1


def test_cpus_per_gpu_follow() -> None:
    cluster = a_cluster()
    request = a_request(gpus_per_node=1, cpus_per_node_min=2)
    job_id = waiting(cluster, request=request, cpus_per_gpu=2, gres="gpu:1")
    assert update(cluster, job_id, gpus_per_node=GpuGroup(3)) is None
    assert started(cluster, job_id).allocation[0].cpu_count == 6
    job_id = waiting(cluster, request=request, cpus_per_gpu=2, gres="gpu:1")
    assert update(cluster, job_id, gpus_per_task=GpuGroup(4)) is None
    assert cluster.job(job_id).request.cpus_per_task == 8
    memory = waiting(cluster, request=a_request(gpus_per_node=1, memory_per_gpu_mib=10))
    assert update(cluster, memory, gpus_per_node=NONE) is RefusalCode.INVALID_GRES


# Topology


def test_topology_options() -> None:
    cluster = a_cluster()
    job_id = waiting(cluster, request=a_request(3))
    too_small: dict[str, Any] = {"topology_level": "rack", "topology_required": True}
    assert update(cluster, job_id, **too_small) is RefusalCode.NODE_CONFIGURATION, "a rack has two nodes"
    assert update(cluster, job_id, topology_level="hall") is RefusalCode.NODE_CONFIGURATION
    assert update(cluster, job_id, segment=2) is RefusalCode.INVALID_NODE_COUNT
    assert update(cluster, job_id, nodes_min=2, **too_small) is None
    request = cluster.job(job_id).request
    assert (request.topology_level, request.topology_required) == ("rack", True)
    assert update(cluster, job_id, topology_level="", segment=2) is None
    request = cluster.job(job_id).request
    assert (request.topology_level, request.topology_required, request.segment) == ("", False, 2)


def test_switches_can_be_asked_for_again() -> None:
    cluster = a_cluster()
    cluster.submit(request=a_request(required_nodes=(NodeName("n1"),), exclusive=True))
    cluster.submit(request=a_request(required_nodes=(NodeName("n3"),), exclusive=True))
    cluster.run(1)
    job_id = cluster.submit(request=a_request(2, switches=1, switches_wait_s=1e9, exclusive=True))
    cluster.run(1)
    job = cluster.job(job_id)
    longest_s = cluster.configuration.scheduler.max_switch_wait_s
    assert (cluster.reason(job_id), job.request.switches_wait_s) == ("Resources", longest_s)
    assert update(cluster, job_id, switches=1, switches_wait_s=30.0) is None
    cluster.run(25)
    assert cluster.job(job_id).state.value == "PENDING"
    cluster.run(10)
    assert cluster.job(job_id).state.value == "RUNNING"


def test_who_has_waited_for_switches_long_enough_may_wait_again() -> None:
    cluster = a_cluster()
    cluster.submit(request=a_request(4, exclusive=True))
    cluster.run(1)
    job_id = cluster.submit(request=a_request(2, switches=1, switches_wait_s=10.0))
    cluster.run(20)
    assert cluster.job(job_id).request.switches == 0
    assert update(cluster, job_id, switches=1) is None
    assert cluster.job(job_id).request.switches == 1


# What else


def test_the_environment_says_what_was_asked_last() -> None:
    cluster = a_cluster()
    job_id = waiting(cluster, request=a_request(2), tasks=2, memory_per_node_mib=100, qos="", account="")
    changes: dict[str, Any] = {
        "nodes_min": 1, "tasks": 3, "cpus_per_task": 2, "memory_per_cpu_mib": 50, "account": "a", "qos": "q",
        "gpus_per_node": TWO,
    }  # fmt: skip
    assert update(cluster, job_id, **changes) is None
    job = started(cluster, job_id)
    assert _as_given(job.spec, 1) == {
        "SLURM_NTASKS": "3", "SLURM_NPROCS": "3", "SLURM_CPUS_PER_TASK": "2", "SLURM_MEM_PER_CPU": "50",
        "SLURM_JOB_ACCOUNT": "a", "SLURM_JOB_QOS": "q",
    }  # fmt: skip
    assert (job.allocation[0].cpu_count, job.allocation[0].memory_mib) == (6, 300)


def test_a_range_of_nodes_is_taken_as_at_submission() -> None:
    cluster = a_cluster()
    job_id = waiting(cluster, request=a_request(1))
    assert update(cluster, job_id, nodes_min=2, nodes_max=3) is None
    assert cluster.job(job_id).request.tasks_follow_nodes
    assert len(started(cluster, job_id).allocation) == 3
    job_id = waiting(cluster, request=a_request(1), tasks=1)
    assert update(cluster, job_id, nodes_min=2, nodes_max=3) is None
    assert not cluster.job(job_id).request.tasks_follow_nodes


def test_least_cpus_of_a_node() -> None:
    cluster = a_cluster()
    job_id = waiting(cluster)
    assert update(cluster, job_id, cpus_per_node_min=9) is RefusalCode.NODE_CONFIGURATION
    assert update(cluster, job_id, cpus_per_node_min=5) is None
    assert started(cluster, job_id).allocation[0].cpu_count == 5


def test_nobody_moves_to_a_partition_that_takes_no_new_jobs() -> None:
    names = tuple(NodeName(f"n{i}") for i in range(1, 5))
    partitions = (
        Partition("batch", nodes=names, default=True),
        Partition("drained", nodes=names, state=PartitionState.DRAIN),
    )
    cluster = a_cluster(partitions=partitions)
    job_id = waiting(cluster)
    assert update(cluster, job_id, partition="drained") is RefusalCode.PARTITION_UNAVAILABLE


@pytest.mark.parametrize(
    "changes",
    [
        {"account": "a"}, {"qos": "q"}, {"gpus_per_node": TWO}, {"switches": 1}, {"topology_level": "rack"},
        {"segment": 1}, {"cpus_per_node_min": 2}, {"tasks": 2},
    ],
)  # fmt: skip
def test_only_what_waits_is_changed(changes: dict[str, Any]) -> None:
    cluster = a_cluster()
    job_id = cluster.submit()
    cluster.run(1)
    for caller in ({}, {"by": OPERATOR}):
        assert update(cluster, job_id, **changes, **caller) is RefusalCode.JOB_NOT_PENDING


def test_tasks_of_an_array_change_by_themselves_and_for_good() -> None:
    cluster = a_cluster()
    array = waiting(cluster, array_tasks=(1, 2, 3))
    assert update(cluster, array, 2, account="a", gpus_per_node=TWO) is None
    assert task(cluster, array, 2).spec.account == "a"
    assert cluster.job(array).spec.account == ""
    before = {job_id: replace(job, pending_tasks=[]) for job_id, job in cluster.state.jobs.items()}
    cluster.restart_controller()
    check(cluster.state)
    assert {job_id: replace(job, pending_tasks=[]) for job_id, job in cluster.state.jobs.items()} == before


def test_a_placement_for_what_it_asked_before_is_dropped() -> None:
    cluster = a_cluster()
    waits = cluster.submit(request=a_request(gpus_per_node=1))
    (placement,) = cluster.plan().placements
    assert update(cluster, waits, gpus_per_node=TWO) is None
    assert tell(cluster, PlacementProposed(placement)) is RefusalCode.TRY_LATER
    cluster.run(1)
    assert cluster.job(waits).allocation[0].gpu_count == 2
