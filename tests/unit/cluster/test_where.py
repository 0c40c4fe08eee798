"""Features and topology at submission; --switches gives in after its time; nodes say where they stand."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cluster.messages import RegisterNode
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.states import JobState
from tests.builders import a_configuration, a_node, a_request, facts
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import refused_submission, requeue, state_of


def racks(nodes: int = 6, count: int = 3, **changes: Any) -> SimCluster:
    return SimCluster(
        a_configuration(nodes, racks=count, **changes),
        duration_of=lambda job: float(job.name) if job.name.isdigit() else 1000.0,
    )


@pytest.mark.parametrize(
    ("request_changes", "detail"),
    [
        ({"topology_level": "row"}, "Invalid topology level 'row'; there are: rack"),
        (
            {"nodes_min": 3, "nodes_max": 3, "tasks": 3, "topology_level": "rack", "topology_required": True},
            "no rack has 3 nodes of the partition; the largest has 2",
        ),
        (
            {"nodes_min": 3, "nodes_max": 3, "tasks": 3, "segment": 2},
            "--segment=2 needs a fixed number of nodes that it divides",
        ),
        (
            {"nodes_min": 2, "nodes_max": 2, "tasks": 2, "segment": 2, "required_nodes": ("n1",)},
            "--segment=2 chooses the nodes itself: --nodelist cannot be given besides",
        ),
        (
            {"nodes_min": 3, "nodes_max": 3, "tasks": 3, "segment": 3},
            "--segment=3 is more nodes than any leaf domain of the topology has",
        ),
    ],
)
def test_what_no_domain_can_give_is_refused(request_changes: dict[str, Any], detail: str) -> None:
    refusal = refused_submission(racks(), request=a_request(**request_changes))
    assert refusal.details == (detail,)


@pytest.mark.parametrize("expression", ["nosuch", "a&nosuch", "[a|", "a*0"])
def test_features_that_nobody_has_are_refused_in_slurms_words(expression: str) -> None:
    configuration = a_configuration(0)
    nodes = (a_node("n1", features=("a", "b")), a_node("n2"))
    partition = replace(configuration.partitions[0], nodes=(NodeName("n1"), NodeName("n2")))
    cluster = SimCluster(replace(configuration, nodes=nodes, partitions=(partition,)))
    refusal = refused_submission(cluster, request=a_request(features=expression))
    assert refusal.code is RefusalCode.INVALID_FEATURE
    assert refusal.code.value == "Invalid feature specification"
    assert cluster.submit(request=a_request(features="[a|b]"))


def test_a_job_waits_for_few_racks_and_then_goes_anywhere() -> None:
    cluster = racks()
    for name in ("n1", "n3", "n5"):  # one node of each rack
        cluster.submit(request=a_request(cpus_per_task=8, required_nodes=(NodeName(name),)), name="1000")
    cluster.run(1)
    gang = cluster.submit(request=a_request(2, cpus_per_task=8, switches=1, switches_wait_s=60), name="5")
    cluster.run(50)
    assert state_of(cluster, gang) == "PENDING"
    cluster.run(12)
    assert state_of(cluster, gang) == "RUNNING"
    assert len(cluster.state.jobs[gang].allocation) == 2
    requeue(cluster, gang)
    cluster.run(30)
    job = cluster.state.jobs[gang]
    assert job.state is JobState.PENDING, "a new run waits anew"
    assert job.request.switches == 1


def test_the_cluster_bounds_the_wait() -> None:
    cluster = racks()
    ours = cluster.submit(request=a_request(switches=1))
    assert cluster.state.jobs[ours].request.switches_wait_s == 300
    long = cluster.submit(request=a_request(switches=1, switches_wait_s=4000))
    assert cluster.state.jobs[long].request.switches_wait_s == 300


def test_nodes_say_where_they_stand() -> None:
    cluster = SimCluster(a_configuration(4))
    for k, rack in enumerate("abba", start=1):
        name = NodeName(f"n{k}")
        cluster.tell(RegisterNode(name, facts(topology=f"zone=z/rack={rack}")))
    assert cluster.state.topology.path(NodeName("n3")) == ("z", "b")
    request = a_request(2, cpus_per_task=8, topology_level="rack", topology_required=True)
    first, second = cluster.submit(request=request), cluster.submit(request=request)
    cluster.run(1)

    def nodes(job_id: JobId) -> set[str]:
        return {part.node for part in cluster.state.jobs[job_id].allocation}

    assert {frozenset(nodes(first)), frozenset(nodes(second))} == {
        frozenset({"n1", "n4"}),
        frozenset({"n2", "n3"}),
    }
