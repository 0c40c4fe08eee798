"""What must hold of every plan, over random small clusters."""

from __future__ import annotations

from itertools import combinations
from math import inf
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.domain.configuration import Partition
from minislurm.domain.ids import Bitmap, JobId, NodeName, indexes_of
from minislurm.domain.resources import NodeAllocation, ResourceRequest
from minislurm.domain.states import Reason
from minislurm.scheduling import chances
from minislurm.scheduling.backfill import Backfill
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import NodeAvailability, RunningJob, Snapshot
from minislurm.scheduling.strategies import STRATEGIES
from minislurm.scheduling.workspace import Workspace
from tests.builders import a_request
from tests.unit.scheduling.builders import (
    NOW,
    a_class,
    a_job,
    a_node,
    a_partition,
    a_snapshot,
    check,
    could_start,
    free_at,
    freed,
    nodes_of,
)

SMALL = settings(max_examples=100, deadline=None)
ENDS = (NOW - 10, NOW + 60, NOW + 120, NOW + 600, inf)
T = TypeVar("T")


def mostly(value: T, *others: T) -> st.SearchStrategy[T]:
    """`others` now and then: most jobs of most clusters can start."""
    return st.sampled_from((value,) * 5 * max(1, len(others)) + others)


@st.composite
def some_node(draw: st.DrawFn, name: str) -> NodeAvailability:
    gpus = draw(st.sampled_from((0, 2, 4, 4)))
    every = Bitmap((1 << gpus) - 1)
    half = Bitmap(every >> gpus // 2)
    by_type = draw(st.sampled_from(({}, {"a": every}, {"a": half, "h": Bitmap(every & ~half)})))
    return a_node(
        name,
        cpus=draw(st.integers(2, 8)),
        memory_mib=draw(st.sampled_from((400, 1000))),
        gpus=gpus,
        gpus_by_type=by_type if gpus else {},
        gpu_attributes=draw(st.sampled_from(({}, {"a": (40, "8.0")}, {"a": (40, "8.0"), "h": (80, "9.0")}))),
        usable=draw(mostly(True, False)),
        features=draw(st.sampled_from((frozenset("x"), frozenset("xy")))),
        weight=draw(mostly(1, 2)),
    )


@st.composite
def a_random_request(draw: st.DrawFn, nodes: list[NodeAvailability], total: bool) -> ResourceRequest:
    names = [node.name for node in nodes]
    least = draw(st.sampled_from((1, 1, 1, 2, 2, 3)))
    forms = ("", "", "node", "task", "share", "share", *(("total",) if total else ()))
    gpu_form = draw(st.sampled_from(forms))
    memory_form = draw(st.sampled_from(("", "node", "cpu", "gpu")))
    gpus = draw(st.sampled_from((1, 1, 2, 3)))
    memory = draw(st.sampled_from((50, 50, 100, 300)))
    most = draw(st.sampled_from((least, least, least + 1, 0)))
    required = tuple(draw(mostly([], names[:1], names[1:2])))
    return ResourceRequest(
        nodes_min=least,
        nodes_max=most,
        tasks=draw(st.integers(least, least + 3)),
        tasks_per_node=draw(mostly(0, 1, 2)),
        cpus_per_task=draw(st.sampled_from((1, 1, 2, 3))),
        cpus_per_node_min=draw(mostly(0, 2)),
        memory_per_node_mib=memory if memory_form == "node" else 0,
        memory_per_cpu_mib=memory if memory_form == "cpu" else 0,
        memory_per_gpu_mib=memory if memory_form == "gpu" else 0,
        gpus_per_node=gpus if gpu_form == "node" else 0,
        gpus_per_task=1 if gpu_form == "task" else 0,
        gpus_total=gpus + least - 1 if gpu_form == "total" else 0,
        gpu_type=draw(mostly("", "a", "h", "a|h")) if gpu_form else "",
        gpu_share_milli=draw(st.sampled_from((100, 300, 500, 700))) if gpu_form == "share" else 0,
        gpu_share_of_node=gpu_form == "share" and draw(st.booleans()),
        gpu_memory_min_mib=draw(mostly(0, 40, 80)) if gpu_form else 0,
        exclusive=gpu_form != "share" and draw(mostly(False, True)),
        required_nodes=required,
        excluded_nodes=tuple(draw(mostly([], names[-1:]))),
        features=draw(mostly("", "y", "x|y", "z", "[x|y]", "y*1", "[x*1&y*1]")),
        topology_level=draw(mostly("", "rack", "spine")),
        topology_required=draw(st.booleans()),
        switches=draw(mostly(0, 1, 2)),
        segment=draw(mostly(0, 1, least)) if most == least and not required else 0,
    )


@st.composite
def some_running(draw: st.DrawFn, nodes: list[NodeAvailability]) -> list[RunningJob]:
    running = []
    for number, node in enumerate(nodes):
        cpus, gpus, memory = int(node.cpus_free), int(node.gpus_free), node.memory_mib
        for turn in range(draw(st.integers(0, 2))):
            taken = draw(st.integers(0, 255)) & cpus
            gpus_taken, share = draw(st.integers(0, 15)) & gpus, 0
            if gpus_taken and draw(st.booleans()):
                # One GPU, of which others may use the rest.
                gpus_taken, share = gpus_taken & -gpus_taken, draw(st.sampled_from((200, 500)))
            mib = draw(st.integers(0, memory // 2))
            end = draw(st.sampled_from(ENDS))
            part = NodeAllocation(node.name, Bitmap(taken), mib, Bitmap(gpus_taken), 1, share)
            running.append(RunningJob(JobId(900 + 10 * number + turn), end, (part,)))
            cpus, gpus, memory = cpus & ~taken, gpus & ~gpus_taken, memory - mib
            if share and draw(st.booleans()):
                other = NodeAllocation(node.name, Bitmap(0), 0, Bitmap(gpus_taken), 1, 300)
                job_id = JobId(2000 + 10 * number + turn)
                running.append(RunningJob(job_id, draw(st.sampled_from(ENDS)), (other,)))
    return running


@st.composite
def snapshots(draw: st.DrawFn, total: bool = True) -> Snapshot:
    count = draw(st.integers(2, 5))
    nodes = [draw(some_node(f"n{i}")) for i in range(1, count + 1)]
    names = [node.name for node in nodes]
    partitions = [
        a_partition(nodes),
        a_partition(nodes, "urgent", priority_tier=2),
        a_partition(nodes[1:], "part", max_nodes=draw(st.sampled_from((None, 2)))),
    ]
    classes = []
    next_id = 1
    for _ in range(draw(st.integers(2, 6))):
        jobs = []
        for _ in range(draw(st.integers(1, 3))):
            tasks = tuple(range(draw(st.sampled_from((0, 0, 3)))))
            slots = draw(st.integers(0, 3)) if tasks else 1
            jobs.append(a_job(next_id, tasks=tasks, slots=slots, at=float(next_id)))
            next_id += 1
        classes.append(
            a_class(
                draw(st.sampled_from(partitions)),
                *jobs,
                request=draw(a_random_request(nodes, total)),
                minutes=draw(st.sampled_from((0, 1, 2, 5, 20))),
                fixed_priority=draw(st.sampled_from((None, None, 5000, 9000))),
            )
        )
    racks = draw(st.sampled_from(((), (names[:2], names[2:]), (names[:1], names[1:3]))))
    return a_snapshot(
        nodes,
        *classes,
        running=draw(some_running(nodes)),
        racks=[rack for rack in racks if rack],
        placement=draw(st.sampled_from(tuple(STRATEGIES))),
        backfill=draw(st.sampled_from(("easy", "easy", "off"))),
    )


@SMALL
@given(snapshots())
def test_every_plan_is_sound(snapshot: Snapshot) -> None:
    """Nothing twice, gangs whole with exact counts, everybody placed or with a reason."""
    check(snapshot, schedule(snapshot))


@SMALL
@given(snapshots())
def test_same_snapshot_same_plan(snapshot: Snapshot) -> None:
    assert schedule(snapshot) == schedule(replace(snapshot))


@SMALL
@given(snapshots(total=False))
def test_who_waits_for_resources_does_not_fit(snapshot: Snapshot) -> None:
    """Resources: not even now, alone on what is left. Priority: only where somebody was met before it."""
    plan = schedule(snapshot)
    left = free_at(snapshot, plan, time=0.0)
    for jobs in snapshot.classes:
        for job in jobs.jobs:
            wait = plan.waits.get(job.job_id)
            if wait is None or job.slots < 1:
                continue
            if wait.reason is Reason.RESOURCES:
                assert not could_start(jobs, left, snapshot)
            elif wait.reason is Reason.PRIORITY:
                assert any(w.reason is Reason.RESOURCES for w in plan.waits.values())


@SMALL
@given(snapshots(total=False))
def test_what_is_called_impossible_is_impossible(snapshot: Snapshot) -> None:
    """PartitionConfig and the like: not even on nodes that are all empty and up. And the other way round."""
    plan = schedule(snapshot)
    empty = [_emptied(node, usable=True) for node in snapshot.nodes]
    up = [_emptied(node, usable=node.usable) for node in snapshot.nodes]
    for jobs in snapshot.classes:
        for job in jobs.jobs:
            wait = plan.waits.get(job.job_id)
            if wait is None:
                continue
            name = wait.reason.value
            if name in ("PartitionConfig", "BadConstraints", "PartitionNodeLimit"):
                assert not could_start(jobs, empty, snapshot)
            elif name == "ReqNodeNotAvail":
                assert not could_start(jobs, up, snapshot)
            elif name in ("Resources", "Priority"):
                assert could_start(jobs, up, snapshot)


@SMALL
@given(snapshots(total=False))
def test_backfill_never_delays_a_head(snapshot: Snapshot) -> None:
    """With all placements carried out, each head fits at its promised time, wherever that was."""
    plan = schedule(snapshot)
    for jobs in snapshot.classes:
        for job in jobs.jobs:
            wait = plan.waits.get(job.job_id)
            if wait is not None and wait.start_estimate:
                assert could_start(jobs, free_at(snapshot, plan, wait.start_estimate), snapshot)


@SMALL
@given(snapshots())
def test_all_reservations_can_be_kept_together(snapshot: Snapshot) -> None:
    """Whenever a head starts: placements, runs and the heads of all partitions are within every node."""
    made: list[Backfill] = []

    class Recorded(Backfill):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chances, "Backfill", Recorded)
        plan = schedule(snapshot)
    reservations = made[0].reservations
    for time in {r.time for r in reservations} - {inf}:
        free = [
            [n.cpus_free.bit_count(), n.memory_free_mib, n.gpus_free.bit_count()]
            for n in free_at(snapshot, plan, time)
        ]
        for reservation in reservations:
            if reservation.time <= time < reservation.end:
                for share in reservation.shares:
                    free[share.node][0] -= share.cpus
                    free[share.node][1] -= share.memory_mib
                    # A share of a GPU that others share is not taken from those free as a whole.
                    free[share.node][2] -= sum(share.gpus) if share.gpu < 0 else 0
        assert min(min(amounts) for amounts in free) >= 0


@SMALL
@given(snapshots(total=False))
def test_the_first_head_starts_as_soon_as_it_can(snapshot: Snapshot) -> None:
    """At the first moment at which it fits beside what was started before it; nobody later moves that."""
    first = max(snapshot.classes, key=lambda jobs: (jobs.partition.priority_tier, jobs.fixed_priority or 0))
    if first.fixed_priority is None:
        return
    plan = schedule(snapshot)
    alone = schedule(replace(snapshot, classes=[first]))
    head = next((job.job_id for job in first.jobs if job.slots and job.job_id in alone.waits), None)
    if head is None or not alone.waits[head].planned_nodes:
        return
    assert alone.waits[head].start_estimate == plan.waits[head].start_estimate
    ends = {max(NOW, run.end_time) for run in snapshot.running} - {inf}
    if first.time_limit_s and alone.placements:
        ends.add(NOW + first.time_limit_s)
    fitting = [t for t in sorted(ends) if could_start(first, free_at(snapshot, alone, t), snapshot)]
    assert alone.waits[head].start_estimate == (fitting[0] if fitting else 0.0)


def _emptied(node: NodeAvailability, usable: bool) -> NodeAvailability:
    return replace(
        node,
        usable=usable,
        cpus_free=Bitmap((1 << node.cpus) - 1),
        memory_free_mib=node.memory_mib,
        gpus_free=node.gpus,
        gpu_shares=(),
    )


@SMALL
@given(
    st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 8),
)
def test_gangs_get_the_fewest_racks(free: list[list[bool]], size: int) -> None:
    nodes, racks = [], []
    for r, rack in enumerate(free):
        names = [f"n{r}x{k}" for k in range(len(rack))]
        nodes += [a_node(name, cpus=1) for name in names]
        racks.append(names)
    batch = a_partition(nodes)
    busy = [
        RunningJob(JobId(900), NOW + 60, (NodeAllocation(NodeName(name), Bitmap(1)),))
        for names, rack in zip(racks, free, strict=True)
        for name, is_free in zip(names, rack, strict=True)
        if not is_free
    ]
    plan = schedule(a_snapshot(nodes, a_class(batch, 1, request=a_request(size)), running=busy, racks=racks))
    counts = [sum(rack) for rack in free]
    possible = [k for k in range(1, len(counts) + 1) for some in combinations(counts, k) if sum(some) >= size]
    placed = nodes_of(plan, 1)
    assert bool(placed) is bool(possible)
    if placed:
        used = [name.split("x")[0] for name in placed]
        assert len(set(used)) == min(possible)
        assert sorted(used) == used, "neighbours stand side by side"


@SMALL
@given(st.integers(0, 2**70), st.integers(1, 70))
def test_indexes_taken_are_the_lowest(bits: int, count: int) -> None:
    if bits.bit_count() < count:
        return
    node = a_node("n1", cpus=70, cpus_free=Bitmap(bits & (1 << 70) - 1))
    partition = Partition("batch", nodes=(node.name,))
    snapshot = a_snapshot([node], a_class(partition, 1, request=a_request(cpus_per_task=count)))
    plan = schedule(snapshot)
    if plan.placements:
        assert indexes_of(plan.placements[0].allocation[0].cpus) == indexes_of(node.cpus_free)[:count]


@SMALL
@given(snapshots(), st.data())
def test_what_a_pass_leaves_to_the_next_changes_no_decision(snapshot: Snapshot, data: st.DataObject) -> None:
    """Though placements of the last pass were refused, and some runs have ended."""
    workspace = Workspace()
    schedule(snapshot, workspace)
    ended = data.draw(st.lists(st.booleans(), min_size=(n := len(snapshot.running)), max_size=n))
    gone = [run for run, has_ended in zip(snapshot.running, ended, strict=True) if has_ended]
    nodes = {node.name: node for node in snapshot.nodes}
    for run in gone:
        for part in run.allocation:
            nodes[part.node] = freed(nodes[part.node], part)
    running = [run for run in snapshot.running if run not in gone]
    after = replace(snapshot, nodes=list(nodes.values()), running=running)
    assert schedule(after, workspace) == schedule(after)
