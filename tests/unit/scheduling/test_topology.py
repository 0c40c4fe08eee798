"""Where a gang may lie: levels, switches, segments, spreading, features of the whole gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.domain.configuration import DomainSpec
from minislurm.domain.ids import NodeName
from minislurm.domain.topology import Topology
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import NodeAvailability, RunningJob, Snapshot
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    a_class,
    a_node,
    a_partition,
    a_run,
    a_snapshot,
    check,
    meets,
    nodes_of,
    reason,
    some_nodes,
)

#: Two blocks of two racks of three nodes.
TREE = Topology.of(
    (
        *(
            DomainSpec(f"r{k}", "rack", f"b{k // 2}", tuple(NodeName(f"n{3 * k + i}") for i in (1, 2, 3)))
            for k in range(4)
        ),
        DomainSpec("b0", "block", "zone"),
        DomainSpec("b1", "block", "zone"),
        DomainSpec("zone", "zone"),
    )
)


def in_tree(
    *, busy: Sequence[int] = (), nodes: Sequence[NodeAvailability] | None = None, **request: Any
) -> Snapshot:
    free = list(nodes if nodes is not None else some_nodes(12))
    running: list[RunningJob] = [a_run(f"n{i}", cpus=range(4), job=900 + i) for i in busy]
    snapshot = a_snapshot(free, a_class(a_partition(free), 1, request=a_request(**request)), running=running)
    return replace(snapshot, topology=TREE)


def placed(snapshot: Snapshot) -> list[str]:
    plan = schedule(snapshot)
    check(snapshot, plan)
    return nodes_of(plan, 1)


def domains(nodes: Sequence[str], level: str) -> set[str]:
    return {TREE.domain_at(NodeName(node), level) for node in nodes}


@pytest.mark.parametrize(
    ("level", "size", "expected"),
    [("rack", 3, 1), ("block", 6, 2), ("block", 4, 2), ("zone", 12, 4)],
)
def test_a_required_level_holds_the_whole_gang(level: str, size: int, expected: int) -> None:
    nodes = placed(in_tree(nodes=None, **_required(level, size)))
    assert len(nodes) == size
    assert len(domains(nodes, level)) == 1
    assert len(domains(nodes, "rack")) == expected


def _required(level: str, size: int, **changes: Any) -> dict[str, Any]:
    return {"nodes_min": size, "nodes_max": size, "tasks": size, "topology_level": level,
            "topology_required": True, "cpus_per_task": 4, **changes}  # fmt: skip


def test_it_waits_for_a_required_domain_where_a_preferred_one_is_given_up() -> None:
    busy = (1, 4, 7, 10)  # one node of each rack
    snapshot = in_tree(busy=busy, **_required("rack", 3))
    plan = schedule(snapshot)
    assert nodes_of(plan, 1) == []
    assert reason(plan, 1) == "Resources"
    assert len(placed(in_tree(busy=busy, **_required("rack", 3, topology_required=False)))) == 3


def test_a_required_domain_that_is_too_small_is_a_reason_of_its_own() -> None:
    plan = schedule(in_tree(**_required("rack", 4)))
    assert reason(plan, 1) == "TopologyNeverSatisfied"
    assert not plan.waits[1].start_estimate  # type: ignore[index]
    unknown = schedule(in_tree(**_required("row", 2)))
    assert reason(unknown, 1) == "TopologyNeverSatisfied"


def test_it_waits_for_a_required_domain_whose_nodes_are_down() -> None:
    nodes = [replace(node, usable=node.name != "n1") for node in some_nodes(12)]
    nodes = [replace(node, usable=node.usable and node.name not in ("n4", "n7", "n10")) for node in nodes]
    assert reason(schedule(in_tree(nodes=nodes, **_required("rack", 3))), 1) == "ReqNodeNotAvail"


def test_nodes_outside_of_the_level_are_not_used() -> None:
    nodes = [*some_nodes(12), a_node("n13"), a_node("n14"), a_node("n15"), a_node("n16")]
    assert placed(in_tree(nodes=nodes, **_required("rack", 3)))[0] != "n13"
    assert reason(schedule(in_tree(nodes=nodes, **_required("rack", 4))), 1) == "TopologyNeverSatisfied"


def test_a_range_takes_what_the_required_domain_has() -> None:
    busy = (1, 2, 4, 5, 7)
    request = _required("rack", 2, nodes_max=8, tasks=8, cpus_per_task=1, tasks_per_node=4)
    assert placed(in_tree(busy=busy, **request)) == ["n10", "n11", "n12"]
    request = _required("block", 2, nodes_max=8, tasks=8, cpus_per_task=1)
    assert len(placed(in_tree(busy=busy, **request))) == 5


def test_a_rack_with_fewer_nodes_may_have_the_room() -> None:
    """r0 has one node free, with room for all three tasks; r1 has two, with room for two."""
    nodes = [a_node(f"n{i}", cpus=3 if i == 1 else 1) for i in range(1, 13)]
    found = placed(in_tree(nodes=nodes, busy=(2, 3, 6, *range(7, 13)), tasks=3, nodes_max=2, switches=1))
    assert found == ["n1"]


def test_few_switches_come_before_a_low_domain() -> None:
    """Block a holds the five nodes, but only on three racks; over two blocks two racks are enough."""
    racks = {"a1": ("a", 2), "a2": ("a", 2), "a3": ("a", 1), "b1": ("b", 3), "c1": ("c", 2)}
    specs, names, at = [], [], 1
    for rack, (block, size) in racks.items():
        held = tuple(NodeName(f"n{i}") for i in range(at, at + size))
        specs.append(DomainSpec(rack, "rack", block, held))
        names += held
        at += size
    tree = Topology.of((*specs, *(DomainSpec(b, "block", "zone") for b in "abc"), DomainSpec("zone", "zone")))
    nodes = some_nodes(len(names))

    def leaves(**changes: Any) -> int:
        jobs = a_class(a_partition(nodes), 1, request=a_request(5, cpus_per_task=4, **changes))
        plan = schedule(replace(a_snapshot(nodes, jobs), topology=tree))
        return len({tree.leaf_of_node[NodeName(name)] for name in nodes_of(plan, 1)})

    assert leaves() == 3
    assert leaves(switches=2) == 2
    assert leaves(switches=1) == 0


def test_switches_that_can_never_be_had_hold_nobody_up() -> None:
    snapshot = in_tree(nodes_min=4, nodes_max=4, tasks=4, switches=1)
    assert reason(schedule(snapshot), 1) == "TopologyNeverSatisfied"


@pytest.mark.parametrize(("size", "segment", "busy"), [(4, 2, ()), (6, 3, ()), (6, 2, (1,)), (9, 3, (4,))])
def test_segments_share_a_leaf(size: int, segment: int, busy: tuple[int, ...]) -> None:
    nodes = placed(
        in_tree(busy=busy, nodes_min=size, nodes_max=size, tasks=size, segment=segment, cpus_per_task=4)
    )
    assert len(nodes) == size
    parts = [nodes[k : k + segment] for k in range(0, size, segment)]
    assert all(len(domains(part, "rack")) == 1 for part in parts), "ranks of a segment are neighbours"


def test_segments_wait_although_nodes_enough_are_free() -> None:
    busy = (1, 2, 4, 5, 7, 8)  # one whole rack, three single nodes
    request = {"nodes_min": 6, "nodes_max": 6, "tasks": 6, "cpus_per_task": 4}
    assert len(placed(in_tree(busy=busy, **request))) == 6
    assert placed(in_tree(busy=busy, segment=3, **request)) == []


def test_spreading_takes_many_racks_and_deals_evenly() -> None:
    snapshot = in_tree(nodes_min=4, nodes_max=4, tasks=10, spread=True)
    (placement,) = schedule(snapshot).placements
    names = [part.node for part in placement.allocation]
    assert len(domains(names, "rack")) == 4
    assert sorted(part.tasks for part in placement.allocation) == [2, 2, 3, 3]
    assert len(placed(in_tree(nodes_min=1, nodes_max=0, tasks=8, spread=True))) == 8


def test_spreading_fills_small_nodes_and_shares_the_rest() -> None:
    nodes = [a_node("n1", cpus=1), a_node("n2", cpus=8), a_node("n3", cpus=8)]
    jobs = a_class(a_partition(nodes), 1, request=a_request(3, tasks=9, spread=True))
    (placement,) = schedule(a_snapshot(nodes, jobs)).placements
    assert {part.node: part.tasks for part in placement.allocation} == {"n1": 1, "n2": 4, "n3": 4}


def test_a_range_without_tasks_brings_tasks_with_each_node() -> None:
    nodes = some_nodes(5)
    request = a_request(2, nodes_max=4, tasks=4, tasks_per_node=2, tasks_follow_nodes=True)
    (placement,) = schedule(a_snapshot(nodes, a_class(a_partition(nodes), 1, request=request))).placements
    assert [part.tasks for part in placement.allocation] == [2, 2, 2, 2]


# Features of the whole gang

KINDS = {
    "n1": "r1",
    "n2": "r1",
    "n3": "r2",
    "n4": "r2",
    "n5": "r2 big",
    "n6": "big",
    "n7": "ib",
    "n8": "ib big",
}


def featured(
    expression: str, count: int, *, racks: Sequence[Sequence[str]] = (), **changes: Any
) -> list[str]:
    nodes = [a_node(name, features=frozenset(words.split())) for name, words in KINDS.items()]
    request = a_request(count, features=expression, cpus_per_task=4, **changes)
    snapshot = a_snapshot(nodes, a_class(a_partition(nodes), 1, request=request), racks=racks)
    plan = schedule(snapshot)
    check(snapshot, plan)
    names = nodes_of(plan, 1)
    if names:
        features = {node.name: node.features for node in nodes}
        assert meets(expression, [features[NodeName(name)] for name in names])
    return names


def test_a_matching_or_puts_all_nodes_on_one_alternative() -> None:
    assert featured("[r1|r2]", 2)[0] in ("n1", "n3")
    assert featured("[r1|r2]", 3) == ["n3", "n4", "n5"]
    assert featured("[r1|r2]", 4) == []
    assert len(featured("r1|r2", 4)) == 4


def test_the_alternative_on_the_fewest_racks_is_taken() -> None:
    racks = (("n1", "n7"), ("n2", "n8"), ("n3", "n4", "n5", "n6"))
    assert featured("[r1|r2]", 2, racks=racks) == ["n3", "n4"]


def test_counts_ask_for_so_many_nodes_of_each_kind() -> None:
    names = featured("[r1*2&r2*1]", 3)
    assert Counter(KINDS[name].split()[0] for name in names) == {"r1": 2, "r2": 1}
    assert len(featured("ib*1", 3)) == 3
    assert featured("[r1*3&r2*1]", 4) == []


def test_counts_ask_for_nodes_where_nobody_says_how_many() -> None:
    assert len(featured("[r1*2&big*3]", 1, nodes_max=0)) == 5


def test_a_node_counts_once() -> None:
    """Three nodes are big, one of them r2: that one is left to r2, of which there are three."""
    assert len(featured("[r2*3&big*2]", 5)) == 5
    assert featured("[r2*3&big*3]", 6) == []


def test_counts_that_can_never_be_met_are_told_apart_from_busy_nodes() -> None:
    nodes = [a_node(name, features=frozenset(words.split())) for name, words in KINDS.items()]
    jobs = a_class(a_partition(nodes), 1, request=a_request(4, features="[r1*3&r2*1]"))
    assert reason(schedule(a_snapshot(nodes, jobs)), 1) == "BadConstraints"
