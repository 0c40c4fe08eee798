"""`minislurm why` in words: every reason with the values of the moment."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cluster.explanation import explanation
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.resources import GpuGroup
from minislurm.domain.times import format_time
from minislurm.domain.views import Explanation
from minislurm.scheduling.work import finished
from tests.builders import a_configuration, a_request
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import operate, update
from tests.unit.cluster.test_fitting import two_kinds


def told(cluster: SimCluster, job_id: JobId) -> Explanation:
    cluster.run(1)
    return finished(explanation(cluster.state, cluster.job(job_id), cluster.now))


def limited(**limits: Any) -> SimCluster:
    configuration = a_configuration(3, cpus=4)
    (partition,) = configuration.partitions
    return SimCluster(replace(configuration, partitions=(replace(partition, **limits),)))


@pytest.mark.parametrize(
    ("limits", "job", "sentence"),
    [
        (
            {"max_time_s": 7200.0},
            {"time_limit_s": 90_000.0},
            "Its time limit is 1-01:00:00; jobs of partition batch have at most 2:00:00.",
        ),
        (
            {"max_time_s": 7200.0},
            {"time_limit_s": 0.0},
            "It has no time limit; jobs of partition batch have at most 2:00:00.",
        ),
        ({}, {"request": a_request(4)}, "It needs 4 nodes; partition batch has 3."),
        (
            {"max_nodes": 2},
            {"request": a_request(3)},
            "It needs 3 nodes; partition batch has 3 and gives a job 2 at most.",
        ),
        (
            {"min_nodes": 2},
            {"request": a_request(1)},
            "It takes 1 node at most; a job of partition batch has 2 at least.",
        ),
    ],
)
def test_limits_of_the_partition(limits: dict[str, Any], job: dict[str, Any], sentence: str) -> None:
    cluster = limited(**limits)
    assert told(cluster, cluster.submit(**job)).sentences == (sentence,)


def test_nodes_that_cannot_be_had_are_named_with_the_reason() -> None:
    cluster = SimCluster(two_kinds())
    cluster.run(1)
    operate(cluster, "n1", "DRAIN", "fan")
    operate(cluster, "n2", "DOWN", "psu gone")
    operate(cluster, "n5", "DRAIN", "of another kind")
    job_id = cluster.submit(request=a_request(2, features="ib"))
    assert told(cluster, job_id).sentences == (
        "It needs nodes that are down, drained or not responding.",
        "Node n1 is drained: fan.",
        "Node n2 is down: psu gone.",
    )
    one = cluster.submit(request=a_request(required_nodes=(NodeName("n1"),)))
    assert told(cluster, one).sentences[1:] == ("Node n1 is drained: fan.",)


def test_few_switches_are_waited_for_until_any_will_do() -> None:
    cluster = SimCluster(two_kinds())
    job_id = cluster.submit(request=a_request(4, switches=1))
    until = format_time(cluster.job(job_id).eligible_time + 300.0)
    assert told(cluster, job_id).sentences[1] == (
        f"It asks for 1 switches at most; from {until} on any will do."
    )


def test_only_those_who_may_want_the_same_nodes_are_before_it() -> None:
    cluster = SimCluster(two_kinds(), duration_of=lambda job: 1000.0)
    gpus = {
        "a100": a_request(3, gpus_per_node=4, gpu_type="a100"),
        "h100": a_request(2, gpus_per_node=2, gpu_type="h100"),
    }
    for _ in range(2):
        ids = {name: cluster.submit(request=request, time_limit_s=1000.0) for name, request in gpus.items()}
    last = cluster.submit(request=gpus["h100"], time_limit_s=1000.0)
    found = told(cluster, last)
    assert found.first_ahead == (ids["h100"],), "not the one that waits for A100"
    assert not found.heads, "that of the other is on nodes that this one cannot use"
    cpus_only = cluster.submit(request=a_request(5, cpus_per_task=8), time_limit_s=1000.0)
    assert told(cluster, cpus_only).first_ahead == (ids["a100"], ids["h100"], last)


def test_the_least_change_that_helps_is_proposed_even_if_it_helps_later_only() -> None:
    """Of two GPUs one has to go: not both."""
    cluster = SimCluster(a_configuration(1, cpus=4, gpus=3), duration_of=lambda job: 1000.0)
    cluster.submit(request=a_request(gpus_per_node=3), time_limit_s=1000.0)
    cluster.submit(request=a_request(gpus_per_node=1), time_limit_s=9000.0)
    cluster.run(1)
    job_id = cluster.submit(request=a_request(gpus_per_node=3), time_limit_s=1000.0, gpus_per_node="3")
    commands = [proposal.command for proposal in told(cluster, job_id).proposals]
    assert commands == [f"scontrol update JobId={job_id} TresPerNode=gpu:2"]
    before = told(cluster, job_id).start_estimate
    assert update(cluster, job_id, gpus_per_node=GpuGroup(2)) is None
    assert told(cluster, job_id).start_estimate < before - 5000
