"""Licenses, users who share a node with nobody, and weights, in the core."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.cluster.messages import Caller, PlacementProposed, UpdateNode
from minislurm.domain.configuration import License
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import Bitmap, JobId, NodeName
from minislurm.domain.reservation import LicenseCount
from minislurm.domain.resources import NodeAllocation
from minislurm.scheduling.model import Placement
from tests.builders import a_configuration, a_request
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import a_cluster, cancel, refused_submission, state_of, tell, update


def with_licenses(**counts: int) -> SimCluster:
    licenses = tuple(License(name, count) for name, count in counts.items())
    return SimCluster(replace(a_configuration(2), licenses=licenses), duration_of=lambda job: 10.0)


def wanting(**counts: int) -> dict[str, object]:
    licenses = tuple(LicenseCount(name, count) for name, count in counts.items())
    return {"request": a_request(licenses=licenses)}


def test_licenses_are_held_while_a_job_runs() -> None:
    cluster = with_licenses(ansys=4)
    first, second = (cluster.submit(**wanting(ansys=3)) for _ in range(2))
    cluster.run(1)
    assert cluster.state.licenses_used == {"ansys": 3}
    assert cluster.reason(second) == "Licenses"
    cluster.run(11)
    assert (state_of(cluster, first), state_of(cluster, second)) == ("COMPLETED", "RUNNING")
    cancel(cluster, second)
    cluster.run(2)
    assert cluster.state.licenses_used == {}


def test_more_than_there_are_is_refused() -> None:
    cluster = with_licenses(ansys=4)
    for wanted in ({"ansys": 5}, {"bogus": 1}, {"bogus": 0}):
        assert refused_submission(cluster, **wanting(**wanted)).code is RefusalCode.INVALID_LICENSES
    job = cluster.submit(hold=True)
    assert update(cluster, job, licenses="ansys:5") is RefusalCode.INVALID_LICENSES
    assert update(cluster, job, licenses="an sys") is RefusalCode.INVALID_LICENSES
    assert update(cluster, job, licenses="ansys:4") is None
    assert cluster.job(job).request.licenses == (LicenseCount("ansys", 4),)


def place(cluster: SimCluster, job_id: int, node: str, cpu: int) -> RefusalCode | None:
    """As a plan of a moment ago would: the core looks again."""
    part = NodeAllocation(NodeName(node), Bitmap(1 << cpu))
    return tell(cluster, PlacementProposed(Placement(JobId(job_id), None, (part,))))


def test_a_plan_of_a_moment_ago_takes_no_license_twice() -> None:
    cluster = with_licenses(ansys=1)
    one, other = (cluster.submit(**wanting(ansys=1)) for _ in range(2))
    assert place(cluster, one, "n1", 0) is None
    assert place(cluster, other, "n1", 1) is RefusalCode.TRY_LATER


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 12)), min_size=1, max_size=12))
def test_never_more_in_use_than_there_are(jobs: list[tuple[int, int, int]]) -> None:
    cluster = with_licenses(a=3, b=2)
    for a, b, wait in jobs:
        cluster.submit(**wanting(a=a, b=b))
        cluster.run(wait)
        used = cluster.state.licenses_used
        assert used.get("a", 0) <= 3
        assert used.get("b", 0) <= 2
    cluster.run(300)
    assert cluster.all_ended()


# --exclusive=user


def test_a_node_is_shared_by_one_user() -> None:
    cluster = a_cluster(2)
    mine = [cluster.submit(request=a_request(exclusive_user=1000)) for _ in range(2)]
    cluster.run(1)
    theirs = cluster.submit(user_id=1001)
    cluster.run(1)
    nodes = [cluster.job(job).allocation[0].node for job in (*mine, theirs)]
    assert nodes == ["n1", "n1", "n2"]


def test_a_plan_of_a_moment_ago_brings_no_two_users_together() -> None:
    cluster = a_cluster(1)
    alone, plain = cluster.submit(request=a_request(exclusive_user=1000)), cluster.submit()
    theirs = cluster.submit(user_id=1001)
    assert place(cluster, alone, "n1", 0) is None
    assert place(cluster, theirs, "n1", 1) is RefusalCode.TRY_LATER
    assert place(cluster, plain, "n1", 1) is None


def test_nobody_asks_for_nodes_alone_in_another_name() -> None:
    refusal = refused_submission(a_cluster(), request=a_request(exclusive_user=1001))
    assert refusal.code is RefusalCode.ACCESS


# Weights


def test_lighter_nodes_are_taken_first() -> None:
    cluster = a_cluster(2)
    n1 = NodeName("n1")
    assert tell(cluster, UpdateNode(n1, Caller(1000), weight=7)) is RefusalCode.ACCESS
    assert tell(cluster, UpdateNode(n1, OPERATOR, weight=7)) is None
    assert cluster.state.nodes[n1].weight == 7
    job = cluster.submit()
    cluster.run(1)
    assert cluster.job(job).allocation[0].node == "n2"
    assert cluster.replayed().nodes[n1].weight == 7
