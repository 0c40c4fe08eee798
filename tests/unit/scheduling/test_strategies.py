"""Which of the nodes that fit is taken, by strategy."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from minislurm.domain.configuration_values import CHOICES
from minislurm.domain.ids import Bitmap
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.fragmentation import Fragmentation, gradient_score, most_frequent
from minislurm.scheduling.gradient import typical_of
from minislurm.scheduling.model import NodeAvailability, TypicalRequest
from minislurm.scheduling.strategies import STRATEGIES
from minislurm.scheduling.work import finished
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    a_class,
    a_job,
    a_node,
    a_partition,
    a_run,
    a_snapshot,
    nodes_of,
    some_nodes,
)


def chosen(strategy: str, nodes: list[NodeAvailability], request: Any, **more: Any) -> str:
    batch = a_partition(nodes, placement=strategy)
    snapshot = a_snapshot(nodes, a_class(batch, 1, request=request), running=more.pop("running", ()))
    (node,) = nodes_of(schedule(replace(snapshot, **more)), 1)
    return node


def test_the_configuration_knows_every_strategy() -> None:
    assert set(CHOICES["placement"]) == set(STRATEGIES)


@pytest.mark.parametrize(("strategy", "expected"), [("binpack", "n2"), ("spread", "n3"), ("best-fit", "n2")])
def test_full_and_empty_nodes(strategy: str, expected: str) -> None:
    nodes = some_nodes(3)
    running = [a_run("n1"), a_run("n2", cpus=(0, 1), job=901)]
    assert chosen(strategy, nodes, a_request(), running=running) == expected


def test_least_jobs_counts_jobs_not_what_they_hold() -> None:
    nodes = [a_node("n1", jobs=1, cpus_free=Bitmap(1)), a_node("n2", jobs=2), a_node("n3", jobs=2)]
    assert chosen("least-jobs", nodes, a_request()) == "n1"
    batch = a_partition(nodes, placement="least-jobs")
    jobs = a_class(batch, a_job(1, tasks=range(4)))
    plan = schedule(a_snapshot(nodes, jobs))
    assert [p.allocation[0].node for p in plan.placements] == ["n1", "n2", "n3", "n2"]


def test_affinity_leads_back_to_the_same_nodes() -> None:
    nodes = some_nodes(20, cpus=1)
    home = {
        user: chosen("affinity", nodes, a_request(affinity=user)) for user in ("a/x", "b/x", "a/y", "c/z")
    }
    assert len(set(home.values())) > 1
    for user, node in home.items():
        others = [n for n in nodes if n.name not in (set(home.values()) - {node})]
        # Whatever other nodes are there.
        assert chosen("affinity", others, a_request(affinity=user)) == node
        without = [n for n in nodes if n.name != node]
        assert chosen("affinity", without, a_request(affinity=user)) != node
    spread = Counter(chosen("affinity", nodes, a_request(affinity=f"user{k}")) for k in range(100))
    assert max(spread.values()) < 20


def test_weights_come_before_every_strategy() -> None:
    for strategy in STRATEGIES:
        nodes = [a_node("n1", weight=2), a_node("n2", weight=1), a_node("n3", weight=3)]
        assert chosen(strategy, nodes, a_request()) == "n2"


def test_gpu_nodes_come_last_for_jobs_without_gpus() -> None:
    for strategy in STRATEGIES:
        nodes = [a_node("n1", gpus=2), a_node("n2")]
        assert chosen(strategy, nodes, a_request()) == "n2"
        assert chosen(strategy, nodes, a_request(gpu_share_milli=100)) == "n1"


def turns(strategy: str, nodes: list[NodeAvailability], count: int, **asked: Any) -> list[str]:
    """The nodes of so many tasks, one after the other."""
    batch = a_partition(nodes, placement=strategy)
    jobs = a_class(batch, a_job(1, tasks=range(count)), request=a_request(**asked))
    return [p.allocation[0].node for p in schedule(a_snapshot(nodes, jobs)).placements]


def test_round_robin_goes_on_where_the_last_pass_ended() -> None:
    nodes = [
        a_node("n1", last_placed=8),
        a_node("n2", last_placed=6),
        a_node("n3", last_placed=7),
        a_node("n4"),
    ]
    assert turns("round-robin", nodes, 6) == ["n4", "n2", "n3", "n1", "n4", "n2"]


def test_round_robin_goes_round_a_large_cluster() -> None:
    """Where rooms are only brought up to date, not made anew."""
    nodes = some_nodes(300, cpus=2)
    names = [node.name for node in nodes]
    assert turns("round-robin", nodes, 600) == names + names


def test_weighted_round_robin_takes_larger_nodes_oftener() -> None:
    nodes = [a_node("n1", cpus=40), a_node("n2", cpus=20), a_node("n3", cpus=20, gpus=8, gpu_type="a")]
    taken = turns("weighted-round-robin", nodes[:2], 30)
    assert taken[:6] == ["n1", "n1", "n2", "n1", "n1", "n2"]
    assert Counter(taken) == {"n1": 20, "n2": 10}
    small = a_node("n4", cpus=40, gpus=2, gpu_type="a")
    taken = turns("weighted-round-robin", [nodes[2], small], 5, gpus_per_node=1)
    assert taken == ["n3", "n3", "n3", "n3", "n4"]


def test_the_balanced_gradient_spares_the_cpus_that_gpus_need() -> None:
    """A job of many CPUs goes where more of them are than the GPUs need; the plain one sees no difference."""
    usual = TypicalRequest(1.0, cpus=4, gpus=1)
    nodes = [a_node("n1", cpus=16, gpus=4), a_node("n2", cpus=64, gpus=4)]
    request = a_request(gpus_per_node=1, cpus_per_task=8)
    assert chosen("fgd", nodes, request, typical=(usual,)) == "n1"
    assert chosen("fgd-balanced", nodes, request, typical=(usual,)) == "n2"


# The measure of fragmentation, by hand

HALF = TypicalRequest(0.5, cpus=2, gpus=1, milli=500)
TWO = TypicalRequest(0.3, cpus=4, gpus=2)
ONLY_CPU = TypicalRequest(0.2, cpus=1)


def amount(cpus: int, left: list[int], *typical: TypicalRequest, types: tuple[str, ...] = ("",)) -> float:
    measure = Fragmentation(typical, types)
    return float(measure.amounts(np.array([cpus]), np.array([left]), np.array([0]))[0])


def test_what_a_typical_request_cannot_use_is_lost() -> None:
    assert amount(8, [1000, 1000], HALF) == 0
    assert amount(8, [400, 1000], HALF) == 0.5 * 400
    assert amount(1, [400, 1000], HALF) == 0.5 * 1400, "too few CPUs: nothing can be used"
    assert amount(8, [400, 300], HALF) == 0.5 * 700
    assert amount(8, [999, 1000], TWO) == 0.3 * 1999
    assert amount(8, [999, 1000, 1000], TWO) == pytest.approx(0.3 * 999)
    assert amount(8, [400, 1000], ONLY_CPU) == 0.2 * 1400, "who needs no GPU uses none"
    assert amount(8, [400, 1000], HALF, TWO, ONLY_CPU) == pytest.approx(200 + 0.3 * 1400 + 0.2 * 1400)
    typed = replace(HALF, gpu_type="a100|h100")
    assert amount(8, [1000], typed, types=("t4",)) == 500
    assert amount(8, [1000], typed, types=("h100",)) == 0


def test_gpus_without_the_cpus_they_need_are_stranded() -> None:
    measure = Fragmentation((HALF,), ("",), stranded=2.0)
    found = measure.amounts(np.array([8, 4, 3]), np.array([[1000, 1000]] * 3), np.array([0, 0, 0]))
    assert found.tolist() == [0.0, 2.0 * 1000, 2.0 * 1250], "a CPU serves 250 thousandths"


def test_nothing_is_stranded_where_no_ratio_is_known() -> None:
    """Nobody runs or waits who uses GPUs: how many CPUs a GPU needs cannot be said."""
    measure = Fragmentation((ONLY_CPU,), ("",), stranded=2.0)
    found = measure.amounts(np.array([0, 4]), np.array([[1000], [1000]]), np.array([0, 0]))
    assert found.tolist() == [0.2 * 1000, 0.2 * 1000]


def test_the_published_score() -> None:
    before, after = np.array([0.0, 1000.0, 0.0]), np.array([0.0, 0.0, 1000.0])
    assert gradient_score(before, after).tolist() == [50, 73, 26]


def test_most_frequent_requests_cover_the_part() -> None:
    requests = [replace(HALF, weight=w, cpus=k) for k, w in enumerate((0.1, 0.6, 0.26, 0.04))]
    assert [r.cpus for r in most_frequent(requests)] == [1, 2, 0]
    assert [r.cpus for r in most_frequent(requests, covering=0.86)] == [1, 2]


def test_the_gradient_keeps_gpus_whole_for_those_who_need_them() -> None:
    """A small share goes where a part is of no use to the usual job, not onto the tightest GPU."""
    nodes = [a_node("n1", cpus=8, gpus=2), a_node("n2", cpus=8, gpus=2)]
    running = [a_run("n1", gpus=(0,), share=300, job=901), a_run("n2", gpus=(0,), share=600, job=902)]
    typical = (TypicalRequest(1.0, cpus=1, gpus=1, milli=400),)
    request = a_request(gpu_share_milli=300)
    # On n2 the last 400 would be broken up; on n1 the 700 still hold one of 400 afterwards.
    assert chosen("fgd", nodes, request, running=running, typical=typical) == "n1"
    assert chosen("binpack", nodes, request, running=running) == "n1"
    small = (TypicalRequest(1.0, cpus=1, gpus=1, milli=700),)
    assert chosen("fgd", nodes, request, running=running, typical=small) == "n2"


def test_ties_go_to_the_name_that_comes_first() -> None:
    nodes = [a_node(name, gpus=1) for name in ("b", "a", "c")]
    assert chosen("fgd", nodes, a_request(gpus_per_node=1), typical=(HALF,)) == "a"


def test_typical_requests_are_those_running_and_queued() -> None:
    nodes = some_nodes(2, cpus=8, gpus=2)
    batch = a_partition(nodes)
    snapshot = a_snapshot(
        nodes,
        a_class(batch, a_job(1, tasks=range(3)), request=a_request(gpu_share_milli=500, cpus_per_task=2)),
        a_class(batch, 2, 3, request=a_request(2, gpus_per_node=2)),
        running=[
            a_run("n1", cpus=(0, 1), gpus=(0,), share=500),
            a_run("n2", cpus=(0, 1), gpus=(0,), job=901),
        ],
    )
    found = {(t.cpus, t.gpus, t.milli): round(t.weight, 3) for t in finished(typical_of(snapshot))}
    assert found == {(2, 1, 500): 0.571, (1, 2, 1000): 0.286, (2, 1, 1000): 0.143}
