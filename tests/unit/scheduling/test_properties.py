"""What must hold of every plan, over random small clusters."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from minislurm.domain.configuration import Partition
from minislurm.domain.ids import Bitmap, JobId, NodeName, indexes_of
from minislurm.domain.resources import NodeAllocation, ResourceRequest
from minislurm.scheduling.cycle import schedule, steps
from minislurm.scheduling.model import NodeAvailability, RequestClass, RunningJob, Snapshot
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
    nodes_of,
)

SMALL = settings(max_examples=200, deadline=None)
TYPES = ("", "a", "h")


@st.composite
def some_node(draw: st.DrawFn, name: str) -> NodeAvailability:
    gpus = draw(st.sampled_from((0, 0, 2, 4)))
    split = draw(st.integers(0, gpus))
    kinds = {"a": Bitmap((1 << split) - 1), "h": Bitmap(((1 << gpus) - 1) & ~((1 << split) - 1))}
    kind = draw(st.sampled_from(("none", "a", "mixed")))
    every = Bitmap((1 << gpus) - 1)
    by_type = {"none": {}, "a": {"a": every}, "mixed": {k: v for k, v in kinds.items() if v}}[kind]
    return a_node(
        name,
        cpus=draw(st.integers(1, 6)),
        memory_mib=draw(st.sampled_from((400, 1000))),
        gpus=gpus,
        gpus_by_type=by_type if gpus else {},
        usable=draw(st.sampled_from((True, True, True, True, False))),
        features=draw(st.frozensets(st.sampled_from("xy"))),
        weight=draw(st.integers(1, 2)),
    )


@st.composite
def a_random_request(draw: st.DrawFn, nodes: list[NodeAvailability], total: bool = True) -> ResourceRequest:
    names = [node.name for node in nodes]
    least = draw(st.integers(1, 3))
    most = draw(st.sampled_from((least, least, least + 1, 0)))
    gpu_form = draw(st.sampled_from(("", "", "node", "task", *(("total",) if total else ()))))
    memory_form = draw(st.sampled_from(("", "node", "cpu", "gpu")))
    gpus = draw(st.integers(1, 4))
    memory = draw(st.sampled_from((50, 150, 400)))
    return ResourceRequest(
        nodes_min=least,
        nodes_max=most,
        tasks=draw(st.integers(least, least + 4)),
        tasks_per_node=draw(st.sampled_from((0, 0, 1, 2))),
        cpus_per_task=draw(st.integers(1, 3)),
        cpus_per_node_min=draw(st.sampled_from((0, 0, 2))),
        memory_per_node_mib=memory if memory_form == "node" else 0,
        memory_per_cpu_mib=memory if memory_form == "cpu" else 0,
        memory_per_gpu_mib=memory if memory_form == "gpu" else 0,
        gpus_per_node=gpus if gpu_form == "node" else 0,
        gpus_per_task=min(gpus, 2) if gpu_form == "task" else 0,
        gpus_total=gpus + least if gpu_form == "total" else 0,
        gpu_type=draw(st.sampled_from(TYPES)) if gpu_form else "",
        exclusive=draw(st.sampled_from((False, False, False, True))),
        required_nodes=tuple(draw(st.sampled_from(((), (), names[:1], names[1:2])))),
        excluded_nodes=tuple(draw(st.sampled_from(((), (), names[-1:])))),
        features=draw(st.sampled_from(("", "", "x", "x|y"))),
    )


@st.composite
def some_running(draw: st.DrawFn, nodes: list[NodeAvailability]) -> list[RunningJob]:
    running = []
    for number, node in enumerate(nodes):
        cpus, gpus, memory = int(node.cpus_free), int(node.gpus_free), node.memory_mib
        for turn in range(draw(st.integers(0, 2))):
            taken = draw(st.integers(1, cpus)) & cpus if cpus else 0
            gpus_taken = draw(st.integers(0, gpus)) & gpus
            if not taken:
                continue
            mib = draw(st.integers(0, memory))
            end = draw(st.sampled_from((NOW - 10, NOW + 60, NOW + 120, NOW + 600, float("inf"))))
            part = NodeAllocation(node.name, Bitmap(taken), mib, Bitmap(gpus_taken))
            running.append(RunningJob(JobId(900 + 10 * number + turn), end, (part,)))
            cpus, gpus, memory = cpus & ~taken, gpus & ~gpus_taken, memory - mib
    return running


@st.composite
def snapshots(draw: st.DrawFn, total: bool = True) -> Snapshot:
    count = draw(st.integers(1, 5))
    nodes = [draw(some_node(f"n{i}")) for i in range(1, count + 1)]
    names = [node.name for node in nodes]
    partitions = [
        a_partition(nodes),
        a_partition(nodes, "urgent", priority_tier=2),
        a_partition(nodes[: max(1, count - 1)], "part", max_nodes=draw(st.sampled_from((None, 2)))),
    ]
    classes = []
    next_id = 1
    for _ in range(draw(st.integers(1, 6))):
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
                fixed_priority=draw(st.sampled_from((None, None, 5, 9))),
            )
        )
    racks = draw(st.sampled_from(((), (names[:2], names[2:]), (names[:1], names[1:3]))))
    return a_snapshot(
        nodes,
        *classes,
        running=draw(some_running(nodes)),
        racks=[rack for rack in racks if rack],
        placement=draw(st.sampled_from(("binpack", "spread"))),
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
    first, second = schedule(snapshot), schedule(replace(snapshot))
    assert first == second
    passing = steps(snapshot)
    while True:
        try:
            next(passing)
        except StopIteration as done:
            assert done.value == first
            break


@SMALL
@given(snapshots(total=False))
def test_who_waits_for_resources_does_not_fit(snapshot: Snapshot) -> None:
    """Resources: not even now, with all that is left to itself. Priority: never where nobody is in the way."""
    plan = schedule(snapshot)
    left = free_at(snapshot, plan, snapshot.now - 1e9)
    blocked_before = False
    for jobs in snapshot.classes:
        for job in jobs.jobs:
            wait = plan.waits.get(job.job_id)
            if wait is None or job.slots < 1:
                continue
            fits = could_start(snapshot, _with_features(snapshot, jobs), left)
            if wait.reason.value == "Resources":
                blocked_before = True
                assert not fits
            if wait.reason.value == "Priority":
                assert any(w.reason.value == "Resources" for w in plan.waits.values())
    del blocked_before


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
            jobs_here = _with_features(snapshot, jobs)
            if name in ("PartitionConfig", "BadConstraints", "PartitionNodeLimit"):
                assert not could_start(snapshot, jobs_here, empty)
            elif name == "ReqNodeNotAvail":
                assert not could_start(snapshot, jobs_here, up)
            elif name in ("Resources", "Priority"):
                assert could_start(snapshot, jobs_here, up)


@settings(max_examples=400, deadline=None)
@given(snapshots(total=False))
def test_backfill_never_delays_a_head(snapshot: Snapshot) -> None:
    """With all placements carried out, each head still fits at its promised time, one after the other."""
    plan = schedule(snapshot)
    heads = [
        (wait.start_estimate, job, jobs)
        for jobs in snapshot.classes
        for job in jobs.jobs
        if (wait := plan.waits.get(job.job_id)) and wait.start_estimate
    ]
    for start, _, jobs in heads:
        nodes = free_at(snapshot, plan, start)
        assert could_start(snapshot, _with_features(snapshot, jobs), nodes)


@settings(max_examples=400, deadline=None)
@given(snapshots(total=False))
def test_who_comes_later_does_not_move_the_first_head(snapshot: Snapshot) -> None:
    """The first head of the whole queue gets the same start with and without everybody behind it."""
    plan = schedule(snapshot)
    waiting = {job_id: wait for job_id, wait in plan.waits.items() if wait.start_estimate}
    if not waiting:
        return
    head = next(iter(waiting))
    jobs = next(c for c in snapshot.classes for j in c.jobs if j.job_id == head)
    placed_before = _placed_before(snapshot, plan.placements, jobs, head)
    earlier = replace(plan, placements=tuple(placed_before))
    times = sorted({NOW, *(max(NOW, run.end_time) for run in snapshot.running)} - {float("inf")})
    limits = {j.job_id: c.time_limit_s for c in snapshot.classes for j in c.jobs}
    times += [NOW + limits[p.job_id] for p in placed_before if limits[p.job_id]]
    fitting = [
        time
        for time in sorted(times)
        if could_start(snapshot, _with_features(snapshot, jobs), free_at(snapshot, earlier, time))
    ]
    assert fitting
    assert waiting[head].start_estimate == fitting[0]


def _placed_before(snapshot, placements, jobs: RequestClass, head: JobId):  # type: ignore[no-untyped-def]
    """Placements that were decided before the head blocked: the pass goes by priority, so replay it."""
    alone = schedule(replace(snapshot, settings=replace(snapshot.settings, backfill="off")))
    del jobs, head
    kept = {(p.job_id, p.task_id) for p in alone.placements}
    return [p for p in placements if (p.job_id, p.task_id) in kept]


def _with_features(snapshot: Snapshot, jobs: RequestClass) -> RequestClass:
    """The brute force knows no features: nodes without them become excluded."""
    wanted = set(jobs.request.features.replace("|", "")) if jobs.request.features else set()
    without = tuple(n.name for n in snapshot.nodes if wanted and not wanted & n.features)
    request = replace(jobs.request, excluded_nodes=(*jobs.request.excluded_nodes, *without))
    return replace(jobs, request=request)


def _emptied(node: NodeAvailability, usable: bool) -> NodeAvailability:
    return replace(
        node,
        usable=usable,
        cpus_free=Bitmap((1 << node.cpus) - 1),
        memory_free_mib=node.memory_mib,
        gpus_free=node.gpus,
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
    plan = schedule(
        a_snapshot(nodes, a_class(batch, 1, request=a_request(size)), running=busy, racks=racks)
    )
    counts = [sum(rack) for rack in free]
    possible = [
        k for k in range(1, len(counts) + 1) for some in combinations(counts, k) if sum(some) >= size
    ]
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
