"""Shares of GPUs in the state: taken, given back, never more than a GPU; what a job may ask of GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cluster.check import check
from minislurm.cluster.messages import SubmitJob
from minislurm.cluster.snapshot import snapshot
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import Bitmap, NodeName, indexes_of
from minislurm.domain.node import Node, NodeFacts
from minislurm.domain.resources import GpuGroup, NodeAllocation
from tests.builders import a_configuration, a_node, a_request, a_spec
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import USER, a_cluster, cancel, tell
from tests.unit.cluster.test_runs import a_placement, on


def share(milli: int, **changes: Any) -> Any:
    return a_request(gpu_share_milli=milli, **changes)


def test_a_gpu_is_shared_until_the_last_one_leaves() -> None:
    cluster = a_cluster(1, gpus=2)
    node = cluster.state.nodes[NodeName("n1")]
    first = cluster.submit(request=share(600), name="50")
    second = cluster.submit(request=share(400), name="50")
    whole = cluster.submit(request=a_request(gpus_per_node=1), name="50")
    late = cluster.submit(request=share(500), name="50")
    cluster.run(1)
    assert (node.gpu_shares, node.gpus_used) == ({0: 1000}, 0b11)
    assert indexes_of(cluster.state.jobs[whole].allocation[0].gpus) == (1,)
    assert cluster.state.jobs[late].allocation == ()
    assert snapshot(cluster.state, 0.0).nodes[0].gpu_shares == ((0, 1000),)
    cancel(cluster, first)
    cluster.run(1)
    assert node.gpu_shares == {0: 900}, "the one that waited has taken its place"
    for job_id in (second, late):
        cancel(cluster, job_id)
    cluster.run(1)
    check(cluster.state)
    assert (node.gpu_shares, node.gpus_used) == ({}, 0b10)


@pytest.mark.parametrize(
    "part",
    [
        on("n1", 0b10, gpus=0b1, gpu_share_milli=401),
        on("n1", 0b10, gpus=0b1),
        on("n1", 0b10, gpus=0b10, gpu_share_milli=100),
        on("n1", 0b10, gpus=0b1100, gpu_share_milli=100),
        on("n1", 0b10, gpus=0b10000, gpu_share_milli=100),
    ],
    ids=["more than is left", "shared", "whole", "of two", "no such GPU"],
)
def test_a_plan_that_takes_too_much_of_a_gpu_is_refused(part: NodeAllocation) -> None:
    cluster = a_cluster(1, gpus=4)
    for request in (share(600), a_request(gpus_per_node=1)):
        cluster.tell(SubmitJob(a_spec(request=request), USER, str(request)))
    assert tell(cluster, a_placement(1, on("n1", 0b1, gpus=0b1, gpu_share_milli=600))) is None
    assert tell(cluster, a_placement(2, on("n1", 0b100, gpus=0b10))) is None
    cluster.tell(SubmitJob(a_spec(request=share(400)), USER, "r"))
    assert tell(cluster, a_placement(3, part)) is RefusalCode.TRY_LATER
    assert tell(cluster, a_placement(3, on("n1", 0b10, gpus=0b1, gpu_share_milli=400))) is None


def test_the_check_finds_a_gpu_given_twice() -> None:
    cluster = a_cluster(1, gpus=2)
    cluster.submit(request=share(600), name="50")
    cluster.run(1)
    node = cluster.state.nodes[NodeName("n1")]
    node.gpu_shares[0] = 500
    with pytest.raises(AssertionError, match="shares of GPUs in use differ"):
        check(cluster.state)


def a_typed_cluster() -> SimCluster:
    t4 = replace(a_node("n1", gpus=2, gpu_type="t4"), gpu_memory_mib=16384, gpu_capability="7.5")
    a100 = replace(a_node("n2", gpus=2, gpu_type="a100"), gpu_memory_mib=81920, gpu_capability="8.0")
    return SimCluster(replace(a_configuration(2), nodes=(t4, a100)))


@pytest.mark.parametrize(
    ("asked", "accepted"),
    [
        ({"gpus_per_node": 2, "gpu_memory_min_mib": 81920}, True),
        ({"gpus_per_node": 1, "gpu_memory_min_mib": 81921}, False),
        ({"gpus_total": 1, "gpu_capability_min": "8.0"}, True),
        ({"gpus_total": 1, "gpu_capability_min": "8.1"}, False),
        ({"gpus_per_task": 1, "gpu_type": "h100|t4"}, True),
        ({"gpus_per_task": 1, "gpu_type": "h100|t4", "gpu_capability_min": "8.0"}, False),
        ({"gpu_share_milli": 500, "gpu_type": "a100"}, True),
        ({"gpu_share_milli": 500, "gpu_type": "h100"}, False),
        ({"gpu_share_milli": 1000}, False),
        ({"gpu_share_milli": 500, "gpus_per_node": 1}, False),
        ({"gpus_per_node": 1, "gpu_capability_min": "new"}, False),
    ],
)
def test_what_no_gpu_is_is_refused_at_submission(asked: dict[str, Any], accepted: bool) -> None:
    code = tell(a_typed_cluster(), SubmitJob(a_spec(request=a_request(**asked)), USER, "r"))
    assert code is (None if accepted else RefusalCode.NODE_CONFIGURATION)


def test_a_job_runs_where_its_gpus_are() -> None:
    cluster = a_typed_cluster()
    asked = a_request(gpus_per_node=1, gpu_capability_min="8.0")
    job_id = cluster.submit(request=asked, name="50")
    cluster.run(1)
    assert [part.node for part in cluster.state.jobs[job_id].allocation] == ["n2"]


def test_what_the_daemon_finds_describes_declared_gpus() -> None:
    found = NodeFacts(gpus=(GpuGroup(2, "a100", 40960, "8.0"),), gpu_links=("N0 NV4", "NV4 N0"))
    node = Node(a_node("n1", gpus=2, gpu_type="a100"), found)
    assert node.gpus == (GpuGroup(2, "a100", 40960, "8.0"),)
    assert node.gpu_links == ("N0 NV4", "NV4 N0")
    assert Node(a_node("n1", gpus=4, gpu_type="a100"), found).gpu_links == (), "of other GPUs"
    assert Node(a_node("n1", gpus=2, gpu_type="t4"), found).gpus == (GpuGroup(2, "t4"),)
    declared = replace(node.spec, gpu_memory_mib=81920)
    assert Node(declared, found).gpus == (GpuGroup(2, "a100", 81920, "8.0"),)
    assert node.gpus_of_type("t4|a100") == Bitmap(0b11)


def test_affinity_is_by_user_and_name_where_it_is_the_placement() -> None:
    configuration = a_configuration(2)
    scheduler = replace(configuration.scheduler, placement="affinity")
    for cluster, expected in (
        (SimCluster(replace(configuration, scheduler=scheduler)), "user1000/train"),
        (SimCluster(configuration), ""),
    ):
        job_id = cluster.submit(name="train")
        assert cluster.state.jobs[job_id].request.affinity == expected


def test_nodes_remember_their_last_placement() -> None:
    cluster = a_cluster(3)
    for _ in range(3):
        cluster.submit(request=a_request(2), name="1")
    cluster.run(1)
    assert cluster.state.placements == 6
    assert [node.last_placed for node in snapshot(cluster.state, 0.0).nodes] == [5, 6, 0]
