from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.domain.configuration import DomainSpec
from minislurm.domain.ids import indexes_of
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.topology import Topology
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import NodeAvailability, Snapshot
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    a_class,
    a_node,
    a_partition,
    a_run,
    a_snapshot,
    check,
    nodes_of,
    some_nodes,
)

RACKS = (("n1", "n2", "n3", "n4"), ("n5", "n6", "n7", "n8"))


def allocation_of(free: Sequence[NodeAvailability], **request: Any) -> tuple[NodeAllocation, ...]:
    """What one job gets on these nodes; () if it waits."""
    return _only(a_snapshot(free, a_class(a_partition(free), 1, request=a_request(**request))))


def _only(snapshot: Snapshot) -> tuple[NodeAllocation, ...]:
    plan = schedule(snapshot)
    check(snapshot, plan)
    return plan.placements[0].allocation if plan.placements else ()


def tasks(allocation: Sequence[NodeAllocation]) -> list[int]:
    return [part.tasks for part in allocation]


def test_tasks_are_dealt_in_blocks() -> None:
    """As the golden batch job: -N2 -n4 -c2 on 16 CPUs gives SLURM_TASKS_PER_NODE=3,1 and 6,2 CPUs."""
    parts = allocation_of(some_nodes(8, cpus=16), nodes=2, tasks=4, cpus_per_task=2)
    assert tasks(parts) == [3, 1]
    assert [part.cpu_count for part in parts] == [6, 2]
    assert [part.node for part in parts] == ["n1", "n2"]


def test_tasks_per_node_bounds_the_blocks() -> None:
    assert tasks(allocation_of(some_nodes(4), nodes=2, tasks=4, tasks_per_node=2)) == [2, 2]
    assert allocation_of(some_nodes(4), nodes=2, tasks=5, tasks_per_node=2) == ()


def test_unequal_nodes_take_unequal_parts() -> None:
    nodes = [a_node("n1", cpus=8), a_node("n2", cpus=2), a_node("n3", cpus=3)]
    assert tasks(allocation_of(nodes, nodes=2, tasks=11)) == [8, 3]
    assert allocation_of(nodes, nodes=2, tasks=12) == ()


def test_no_node_count_takes_as_few_nodes_as_it_can() -> None:
    nodes = [a_node("n1", cpus=2), a_node("n2", cpus=8), a_node("n3", cpus=4)]
    assert [p.node for p in allocation_of(nodes, nodes_max=0, tasks=4)] == ["n3"]
    assert [p.node for p in allocation_of(nodes, nodes_max=0, tasks=10)] == ["n1", "n2"]
    assert tasks(allocation_of(nodes, nodes_max=0, tasks=14)) == [2, 8, 4]


def test_a_range_takes_as_many_nodes_as_there_are() -> None:
    assert len(allocation_of(some_nodes(3), nodes_min=2, nodes_max=4, tasks=4)) == 3
    assert len(allocation_of(some_nodes(5), nodes_min=2, nodes_max=4, tasks=8)) == 4


def test_fewer_tasks_than_nodes_still_means_one_each() -> None:
    assert tasks(allocation_of(some_nodes(3), nodes=3, tasks=1)) == [1, 1, 1]


@pytest.mark.parametrize(
    ("request_changes", "memory_mib"),
    [
        ({"memory_per_node_mib": 700}, 700),
        ({"memory_per_cpu_mib": 250, "cpus_per_task": 3}, 750),
        ({"memory_per_gpu_mib": 400, "gpus_per_node": 2}, 800),
    ],
)
def test_memory_by_node_cpu_or_gpu(request_changes: dict[str, int], memory_mib: int) -> None:
    nodes = [a_node("n1", memory_mib=memory_mib - 1, gpus=2), a_node("n2", memory_mib=memory_mib, gpus=2)]
    (part,) = allocation_of(nodes, **request_changes)
    assert (part.node, part.memory_mib) == ("n2", memory_mib)


def test_cpus_per_node_minimum() -> None:
    (part,) = allocation_of([a_node("n1", cpus=2), a_node("n2", cpus=4)], cpus_per_node_min=3)
    assert (part.node, part.cpu_count) == ("n2", 3)


def test_gpus_are_the_lowest_free_ones() -> None:
    nodes = [a_node("n1", gpus=4)]
    snapshot = a_snapshot(
        nodes,
        a_class(a_partition(nodes), 1, request=a_request(gpus_per_node=2)),
        running=[a_run("n1", gpus=(0, 2))],
    )
    (part,) = _only(snapshot)
    assert indexes_of(part.gpus) == (1, 3)
    assert indexes_of(part.cpus) == (1,)


def test_gpu_types_are_kept_apart() -> None:
    mixed = a_node("n1", gpus=4, gpus_by_type={"a100": 0b0011, "h200": 0b1100})
    (part,) = allocation_of([mixed], gpus_per_node=2, gpu_type="h200")
    assert part.gpus == 0b1100
    assert allocation_of([mixed], gpus_per_node=3, gpu_type="h200") == ()
    (part,) = allocation_of([mixed], gpus_per_node=3)
    assert part.gpus == 0b0111


def test_gpus_without_a_type_serve_only_who_names_none() -> None:
    nodes = [a_node("n1", gpus=2), a_node("n2", gpus=2, gpu_type="a100")]
    assert allocation_of(nodes, gpus_per_node=1, gpu_type="a100")[0].node == "n2"
    assert len(allocation_of(nodes, nodes=2, gpus_per_node=2)) == 2


def test_gpus_per_task() -> None:
    parts = allocation_of(some_nodes(2, gpus=4), nodes=2, tasks=4, gpus_per_task=2)
    assert [part.gpu_count for part in parts] == [4, 4]
    assert tasks(parts) == [2, 2]


def test_total_gpus_are_spread_evenly_where_nodes_are_counted() -> None:
    parts = allocation_of(some_nodes(3, gpus=4), nodes=3, gpus_total=8)
    assert sorted(part.gpu_count for part in parts) == [2, 3, 3]


def test_total_gpus_take_as_few_nodes_as_they_can() -> None:
    parts = allocation_of(some_nodes(4, gpus=4), nodes_max=0, tasks=8, gpus_total=8)
    assert [part.gpu_count for part in parts] == [4, 4]
    parts = allocation_of(some_nodes(4, gpus=4), nodes_max=0, gpus_total=3)
    assert [part.gpu_count for part in parts] == [3]


def test_total_gpus_and_tasks_short_on_different_nodes() -> None:
    nodes = [a_node("n1", cpus=1, gpus=4), a_node("n2", cpus=8, gpus=1), a_node("n3", cpus=1, gpus=1)]
    parts = allocation_of(nodes, nodes=2, tasks=6, gpus_total=5)
    assert [(part.node, part.tasks, part.gpu_count) for part in parts] == [("n1", 1, 4), ("n2", 5, 1)]


def test_exclusive_takes_everything_of_an_empty_node() -> None:
    nodes = some_nodes(2, gpus=2)
    snapshot = a_snapshot(
        nodes, a_class(a_partition(nodes), 1, request=a_request(exclusive=True)), running=[a_run("n1")]
    )
    (part,) = _only(snapshot)
    assert (part.node, part.cpus, part.memory_mib, part.gpus) == ("n2", 0b1111, 1000, 0b11)


def test_required_excluded_and_avoided_nodes() -> None:
    nodes = some_nodes(4)
    batch = a_partition(nodes)
    assert [p.node for p in allocation_of(nodes, nodes=2, required_nodes=("n3", "n2"))] == ["n2", "n3"]
    assert "n4" in [p.node for p in allocation_of(nodes, nodes=2, required_nodes=("n4",))]
    assert [p.node for p in allocation_of(nodes, required_nodes=("n3",), nodes_max=0)] == ["n3"]
    assert [p.node for p in allocation_of(nodes, excluded_nodes=("n1", "n2"))] == ["n3"]
    snapshot = a_snapshot(nodes, a_class(batch, 1, avoided_nodes=("n1",)))
    assert _only(snapshot)[0].node == "n2"


def test_required_nodes_draw_the_others_into_their_rack() -> None:
    nodes = some_nodes(8)
    jobs = a_class(a_partition(nodes), 1, request=a_request(3, required_nodes=("n6",)))
    assert [p.node for p in _only(a_snapshot(nodes, jobs, racks=RACKS))] == ["n5", "n6", "n7"]


def test_features() -> None:
    nodes = [a_node("n1", features=frozenset({"ib"})), a_node("n2", features=frozenset({"ib", "nvme"}))]
    assert allocation_of(nodes, features="ib&nvme")[0].node == "n2"
    assert len(allocation_of(nodes, nodes=2, features="nvme|ib")) == 2


def test_binpack_fills_the_fullest_node_first_and_spread_the_emptiest() -> None:
    nodes, running = some_nodes(3), [a_run("n2")]
    batch = a_partition(nodes)
    assert _only(a_snapshot(nodes, a_class(batch, 1), running=running))[0].node == "n2"
    spread = a_snapshot(nodes, a_class(batch, 1), running=[a_run("n1")], placement="spread")
    assert _only(spread)[0].node == "n2"
    own = a_partition(nodes, placement="spread")
    assert _only(a_snapshot(nodes, a_class(own, 1), running=[a_run("n1")]))[0].node == "n2"


def test_weight_comes_before_fullness() -> None:
    nodes = [a_node("n1", weight=5), a_node("n2", weight=2)]
    assert _only(a_snapshot(nodes, a_class(a_partition(nodes), 1), running=[a_run("n1")]))[0].node == "n2"


def test_a_job_without_gpus_leaves_gpu_nodes_alone() -> None:
    nodes = [a_node("n1", gpus=4), a_node("n2", cpus=8)]
    assert allocation_of(nodes)[0].node == "n2"
    assert len(allocation_of(nodes, nodes=2)) == 2


def test_a_gang_goes_to_the_one_rack_that_holds_it() -> None:
    nodes = some_nodes(8)
    batch = a_partition(nodes)
    busy = [a_run("n1", cpus=range(4))]
    gang = a_class(batch, 1, request=a_request(4, cpus_per_task=4))
    assert nodes_of(schedule(a_snapshot(nodes, gang, racks=RACKS, running=busy)), 1) == [
        "n5", "n6", "n7", "n8",
    ]  # fmt: skip


def test_best_fit_leaves_the_whole_rack_whole() -> None:
    nodes = some_nodes(8)
    batch = a_partition(nodes)
    busy = [a_run("n6", cpus=range(4))]
    for request in (a_request(2, cpus_per_task=4), a_request(1, cpus_per_task=4)):
        placed = _only(a_snapshot(nodes, a_class(batch, 1, request=request), racks=RACKS, running=busy))
        assert {part.node for part in placed} <= {"n5", "n7", "n8"}


def test_a_gang_over_racks_has_neighbours_side_by_side() -> None:
    """Racks of interleaved nodes: ranks stay together by rack, in natural order inside."""
    nodes = some_nodes(6)
    racks = (("n1", "n3", "n5"), ("n2", "n4", "n6"))
    gang = a_class(a_partition(nodes), 1, request=a_request(6))
    assert [p.node for p in _only(a_snapshot(nodes, gang, racks=racks))] == [
        "n1", "n3", "n5", "n2", "n4", "n6",
    ]  # fmt: skip


def test_the_last_rack_is_the_best_fit() -> None:
    nodes = some_nodes(9)
    racks = (("n1", "n2", "n3", "n4"), ("n5", "n6", "n7"), ("n8", "n9"))
    gang = a_class(a_partition(nodes), 1, request=a_request(6))
    assert [p.node for p in _only(a_snapshot(nodes, gang, racks=racks))] == [
        "n1", "n2", "n3", "n4", "n8", "n9",
    ]  # fmt: skip


def test_the_largest_racks_come_first() -> None:
    nodes = some_nodes(7)
    racks = (("n1",), ("n2", "n3", "n4"), ("n5", "n6", "n7"))
    gang = a_class(a_partition(nodes), 1, request=a_request(6))
    assert [p.node for p in _only(a_snapshot(nodes, gang, racks=racks))] == [f"n{i}" for i in range(2, 8)]


def test_a_block_is_lower_than_the_whole() -> None:
    """Two racks of one block, although the largest racks are in different blocks."""
    nodes = some_nodes(10)
    names = [node.name for node in nodes]
    racks = {"r1": ("a", names[:3]), "r2": ("a", names[3:5]), "r3": ("b", names[5:9]), "r4": ("b", names[9:])}
    topology = Topology.of(
        (
            *(DomainSpec(rack, "rack", block, tuple(held)) for rack, (block, held) in racks.items()),
            DomainSpec("a", "block", "zone"),
            DomainSpec("b", "block", "zone"),
            DomainSpec("zone", "zone"),
        )
    )
    for size, expected in ((5, names[:5]), (6, None), (4, names[5:9]), (3, names[:3])):
        gang = a_class(a_partition(nodes), 1, request=a_request(size))
        placed = [part.node for part in _only(replace(a_snapshot(nodes, gang), topology=topology))]
        if expected is None:  # in no block: the fewest racks of the zone
            assert len({topology.leaf_of_node[name] for name in placed}) == 2
        else:
            assert placed == expected


def test_nodes_outside_every_rack_can_be_used_too() -> None:
    nodes = some_nodes(3)
    gang = a_class(a_partition(nodes), 1, request=a_request(3))
    assert len(_only(a_snapshot(nodes, gang, racks=(("n1", "n2"),)))) == 3
