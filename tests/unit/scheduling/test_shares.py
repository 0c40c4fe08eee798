"""Shares of GPUs in a pass."""

from __future__ import annotations

from typing import Any

from minislurm.domain.ids import indexes_of
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import NodeAvailability, Plan
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    NOW,
    a_class,
    a_job,
    a_node,
    a_partition,
    a_run,
    a_snapshot,
    reason,
    some_nodes,
    started,
)


def share(milli: int, **changes: Any) -> Any:
    return a_request(gpu_share_milli=milli, **changes)


def parts(plan: Plan) -> list[tuple[str, tuple[int, ...], int]]:
    """Node, GPUs and share of every placement."""
    return [(p.node, indexes_of(p.gpus), p.gpu_share_milli) for x in plan.placements for p in x.allocation]


def test_shares_fill_a_gpu_before_they_open_another() -> None:
    nodes = some_nodes(2, cpus=8, gpus=2)
    jobs = a_job(1, tasks=range(5))
    plan = schedule(a_snapshot(nodes, a_class(a_partition(nodes), jobs, request=share(400))))
    assert parts(plan) == [
        ("n1", (0,), 400), ("n1", (0,), 400), ("n1", (1,), 400), ("n1", (1,), 400), ("n2", (0,), 400),
    ]  # fmt: skip


def test_the_tightest_gpu_is_taken() -> None:
    node = a_node("n1", gpus=3)
    running = [a_run("n1", cpus=(0,), gpus=(1,), share=300), a_run("n1", cpus=(1,), gpus=(2,), share=500)]
    plan = schedule(a_snapshot([node], a_class(a_partition([node]), 1, request=share(500)), running=running))
    assert parts(plan) == [("n1", (2,), 500)]


def test_a_whole_gpu_is_never_one_that_is_shared_nor_the_other_way_round() -> None:
    node = a_node("n1", gpus=2)
    batch = a_partition([node])
    running = [a_run("n1", cpus=(0,), gpus=(0,), share=100), a_run("n1", cpus=(1,), gpus=(1,))]
    whole = a_class(batch, 1, request=a_request(gpus_per_node=1), fixed_priority=2)
    part = a_class(batch, 2, request=share(950), fixed_priority=1)
    plan = schedule(a_snapshot([node], whole, part, running=running), explain=True)
    assert started(plan) == []
    assert plan.waits[a_job(1).job_id].rejected == {"gpus busy": 1}
    assert plan.waits[a_job(2).job_id].rejected == {"gpus busy": 1}


def test_all_tasks_of_a_node_share_one_gpu() -> None:
    nodes = some_nodes(2, cpus=8, gpus=1)
    batch = a_partition(nodes)
    # Two tasks of 0.4 fit on a GPU, three do not.
    request = share(400, tasks=3, nodes_max=0)
    assert parts(schedule(a_snapshot(nodes, a_class(batch, 1, request=request)))) == [
        ("n1", (0,), 800), ("n2", (0,), 400),
    ]  # fmt: skip
    together = share(400, tasks=3, gpu_share_of_node=True)
    assert parts(schedule(a_snapshot(nodes, a_class(batch, 1, request=together)))) == [("n1", (0,), 400)]


def test_a_share_that_no_gpu_has_can_never_start() -> None:
    nodes = [a_node("n1"), a_node("n2", gpus=1, gpu_type="t4")]
    batch = a_partition(nodes)
    plan = schedule(
        a_snapshot(
            nodes,
            a_class(batch, 1, request=share(500, gpu_type="a100")),
            a_class(batch, 2, request=share(600, tasks=2)),
            a_class(batch, 3, request=share(500, gpu_type="a100|t4")),
        )
    )
    assert [reason(plan, 1), reason(plan, 2)] == ["PartitionConfig", "PartitionConfig"]
    assert parts(plan) == [("n2", (0,), 500)]


def busy_node() -> tuple[NodeAvailability, list[Any]]:
    """One GPU with three users, who leave after 1, 2 and 3 minutes."""
    node = a_node("n1", cpus=8, gpus=1)
    runs = [
        a_run("n1", cpus=(k,), gpus=(0,), share=milli, minutes=k + 1, job=900 + k)
        for k, milli in enumerate((500, 300, 200))
    ]
    return node, runs


def test_a_head_waits_only_until_enough_of_a_gpu_is_free() -> None:
    node, runs = busy_node()
    batch = a_partition([node])
    for milli, minutes in ((400, 1), (500, 1), (501, 2), (800, 2), (801, 3)):
        plan = schedule(a_snapshot([node], a_class(batch, 1, request=share(milli)), running=runs))
        assert plan.waits[a_job(1).job_id].start_estimate == NOW + 60.0 * minutes
    plan = schedule(a_snapshot([node], a_class(batch, 1, request=a_request(gpus_per_node=1)), running=runs))
    assert plan.waits[a_job(1).job_id].start_estimate == NOW + 180.0


def test_a_share_does_not_keep_a_gpu_from_a_head_that_needs_it_whole() -> None:
    node = a_node("n1", cpus=8, gpus=2)
    batch = a_partition([node])
    shared = a_run("n1", cpus=(0,), gpus=(0,), share=500, minutes=5)
    runs = [shared, a_run("n1", cpus=(1,), gpus=(1,), minutes=9)]
    head = a_class(batch, 1, request=a_request(gpus_per_node=1), fixed_priority=9)
    long = a_class(batch, 2, request=share(300), minutes=20, fixed_priority=2)
    short = a_class(batch, 3, request=share(200), minutes=4, fixed_priority=1)
    plan = schedule(a_snapshot([node], head, long, short, running=runs))
    assert plan.waits[a_job(1).job_id].start_estimate == NOW + 300.0
    assert started(plan) == [3]
    # With a second GPU free by then, the long one does no harm.
    runs[1] = a_run("n1", cpus=(1,), gpus=(1,), minutes=5)
    assert started(schedule(a_snapshot([node], head, long, short, running=runs))) == [2, 3]


def test_gpus_are_filtered_by_memory_and_capability() -> None:
    nodes = [
        a_node("n1", gpus=1, gpu_type="t4", gpu_attributes={"t4": (16384, "7.5")}),
        a_node("n2", gpus=1, gpu_type="a100", gpu_attributes={"a100": (40960, "8.0")}),
        a_node("n3", gpus=1, gpu_type="h100", gpu_attributes={"h100": (81920, "9.0")}),
        a_node("n4", gpus=1, gpu_type="h100"),
    ]
    batch = a_partition(nodes)

    def usable(**asked: Any) -> set[str]:
        for_tasks = a_class(batch, a_job(1, tasks=range(9)), request=a_request(gpus_per_node=1, **asked))
        return {node for node, _, _ in parts(schedule(a_snapshot(nodes, for_tasks)))}

    assert usable() == {"n1", "n2", "n3", "n4"}
    assert usable(gpu_memory_min_mib=40960) == {"n2", "n3"}
    assert usable(gpu_capability_min="8.0") == {"n2", "n3"}
    assert usable(gpu_capability_min="10.0") == set()
    assert usable(gpu_type="t4|h100") == {"n1", "n3", "n4"}
    assert usable(gpu_type="t4|h100", gpu_memory_min_mib=20000) == {"n3"}
