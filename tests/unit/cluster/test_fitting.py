"""What can never fit is refused at submission; what is accepted can start, or waits for what may change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.cluster.messages import RegisterNode
from minislurm.domain.configuration import Configuration, DomainSpec, Partition
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import NodeName
from minislurm.domain.resources import GpuGroup, ResourceRequest
from tests.builders import a_node, a_request
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import refused_submission, update


def two_kinds() -> Configuration:
    """n1-n3 with 4 A100 and "ib", n4-n5 with 2 H100 and more CPUs; a rack of three and one of two."""
    small = [
        replace(a_node(f"n{i}", cpus=8, memory_mib=16_000), gpus=(GpuGroup(4, "a100"),), gpus_declared=True)
        for i in (1, 2, 3)
    ]
    large = [
        replace(a_node(f"n{i}", cpus=16, memory_mib=64_000), gpus=(GpuGroup(2, "h100"),), gpus_declared=True)
        for i in (4, 5)
    ]
    nodes = (*(replace(node, features=("ib",)) for node in small), *large)
    names = tuple(node.name for node in nodes)
    racks = (DomainSpec("r1", "rack", "", names[:3]), DomainSpec("r2", "rack", "", names[3:]))
    partitions = (
        Partition("batch", nodes=names, default=True),
        Partition("ib", nodes=names[:3], max_nodes=2),
    )
    return Configuration(nodes=nodes, partitions=partitions, topology=racks)


HOLDS_NOT = "The nodes of partition batch could not hold it even if all were idle"
NOT_THE_KINDS = "Partition batch has not enough nodes that the constraints allow"
NO_DOMAIN = "Partition batch has no domain of the required level that could hold it"


@pytest.mark.parametrize(
    ("request_", "detail"),
    [
        (a_request(nodes_max=0, tasks=57), HOLDS_NOT),
        (a_request(4, tasks=50), HOLDS_NOT),
        (a_request(1, tasks=17), HOLDS_NOT),
        (a_request(2, tasks=40, tasks_per_node=20), HOLDS_NOT),
        (a_request(3, gpus_per_node=2, gpu_type="h100"), HOLDS_NOT),
        (a_request(5, gpus_per_node=3), HOLDS_NOT),
        (a_request(1, tasks=5, gpus_per_task=1), HOLDS_NOT),
        (a_request(1, cpus_per_task=9, gpus_per_node=1, gpu_type="a100"), HOLDS_NOT),
        (a_request(features="ib", cpus_per_task=9), HOLDS_NOT),
        (a_request(4, features="ib"), NOT_THE_KINDS),
        (a_request(features="[ib*4]", nodes_max=0), NOT_THE_KINDS),
        (a_request(required_nodes=(NodeName("n4"),), features="ib"), NOT_THE_KINDS),
        (a_request(excluded_nodes=tuple(map(NodeName, ("n4", "n5"))), cpus_per_task=9), HOLDS_NOT),
        (
            a_request(3, cpus_per_task=9, topology_level="rack", topology_required=True),
            HOLDS_NOT,
        ),
        (
            a_request(3, tasks=30, topology_level="rack", topology_required=True),
            NO_DOMAIN,
        ),
    ],
)
def test_what_can_never_fit_is_said_at_submission(request_: ResourceRequest, detail: str) -> None:
    refusal = refused_submission(SimCluster(two_kinds()), request=request_)
    assert (refusal.code, refusal.details) == (RefusalCode.NODE_CONFIGURATION, (detail,))


def test_nodes_of_another_partition() -> None:
    cluster = SimCluster(two_kinds())
    elsewhere = a_request(required_nodes=(NodeName("n4"),))
    assert refused_submission(cluster, partition="ib", request=elsewhere).code is (
        RefusalCode.NODES_NOT_IN_PARTITION
    )


def test_more_nodes_than_a_partition_allows_and_few_switches_wait() -> None:
    cluster = SimCluster(two_kinds())
    many = cluster.submit(partition="ib", request=a_request(3))
    switches = cluster.submit(request=a_request(4, switches=1))
    cluster.run(1)
    assert [cluster.reason(many), cluster.reason(switches)] == [
        "PartitionNodeLimit",
        "TopologyNeverSatisfied",
    ]
    cluster.run(400)
    assert cluster.job(switches).start_time, "after max_switch_wait_s any switches will do"


def test_nodes_that_are_down_refuse_nothing() -> None:
    cluster = SimCluster(two_kinds())
    for name in ("n4", "n5"):
        cluster.cut_off(name)
    cluster.run(300)
    waits = cluster.submit(request=a_request(2, cpus_per_task=16))
    cluster.run(1)
    assert cluster.reason(waits) == "ReqNodeNotAvail"


def test_a_waiting_job_is_not_changed_into_one_that_never_fits() -> None:
    cluster = SimCluster(two_kinds())
    held = cluster.submit(hold=True)
    assert update(cluster, held, gpus_per_node=GpuGroup(2, "h100"), nodes_min=3, nodes_max=3) is (
        RefusalCode.NODE_CONFIGURATION
    )
    assert cluster.job(held).request.nodes_min == 1


REQUESTS = st.builds(
    lambda nodes, more, tasks, **changes: a_request(
        nodes, nodes_max=nodes + more if more >= 0 else 0, tasks=max(nodes, tasks), **changes
    ),
    st.integers(1, 5),
    st.integers(-1, 2),
    st.integers(1, 40),
    cpus_per_task=st.sampled_from([1, 2, 5, 9]),
    memory_per_node_mib=st.sampled_from([0, 20_000]),
    gpus_per_node=st.sampled_from([0, 0, 1, 3]),
    gpus_per_task=st.sampled_from([0, 0, 1]),
    gpu_type=st.sampled_from(["", "a100", "h100"]),
    features=st.sampled_from(["", "", "ib", "[ib*3]"]),
    exclusive=st.booleans(),
    topology_level=st.sampled_from(["", "rack"]),
    topology_required=st.booleans(),
    tasks_per_node=st.sampled_from([0, 0, 4, 12]),
)


@settings(max_examples=200, deadline=None)
@given(REQUESTS)
def test_in_an_idle_cluster_what_is_accepted_starts_and_what_is_refused_could_not(
    request: ResourceRequest,
) -> None:
    """The answer at submission is that of the pass: neither less nor more is refused."""
    cluster = SimCluster(two_kinds())
    try:
        job_id = cluster.submit(request=request)
        cluster.run(1)
    except Refusal:
        with pytest.MonkeyPatch.context() as patch:
            _accept_anything(patch)
            cluster = SimCluster(two_kinds())
            job_id = cluster.submit(request=request)
            cluster.run(1)
            assert not cluster.job(job_id).start_time
            assert cluster.reason(job_id) in ("PartitionConfig", "BadConstraints", "TopologyNeverSatisfied")
    else:
        assert cluster.job(job_id).start_time


def _accept_anything(patch: pytest.MonkeyPatch) -> None:
    for name in ("check_request", "refuse_what_never_fits"):
        patch.setattr(f"minislurm.cluster.submission.{name}", lambda *_: None)


def test_what_is_known_of_the_nodes_is_kept_while_they_stay_what_they_are() -> None:
    cluster = SimCluster(two_kinds())
    cluster.submit(request=a_request(features="ib"), hold=True)
    known = cluster.state.kept.ever
    assert known is not None
    node = cluster.state.nodes[NodeName("n1")]
    cluster.tell(RegisterNode(node.name, replace(node.facts, boot_time=1.0)))
    assert cluster.state.kept.ever is known, "it came back as it was"
    cluster.tell(RegisterNode(node.name, replace(node.facts, topology="rack=r9")))
    assert cluster.state.kept.ever is None
