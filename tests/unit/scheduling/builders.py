"""Snapshots in a line, and a checker of plans that shares no code with the pass."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

from msgspec.structs import replace

from minislurm.domain.accounts import ROOT, AccountTree
from minislurm.domain.configuration import DomainSpec, Partition, SchedulerSection
from minislurm.domain.ids import Bitmap, JobId, NodeName
from minislurm.domain.resources import NodeAllocation, ResourceRequest, share_on_node
from minislurm.domain.topology import Topology
from minislurm.scheduling.fair_share import UserKey
from minislurm.scheduling.features import Features, Test, constraint_of
from minislurm.scheduling.future import Outlook
from minislurm.scheduling.model import (
    NodeAvailability,
    Plan,
    QueuedJob,
    RequestClass,
    RunningJob,
    Snapshot,
)
from minislurm.scheduling.predict import Forecast
from tests.builders import a_request

NOW = 1000.0

_run_ids = itertools.count(900_000)


def a_node(
    name: str, *, cpus: int = 4, memory_mib: int = 1000, gpus: int = 0, gpu_type: str = "", **changes: Any
) -> NodeAvailability:
    """An idle node."""
    gpu_bits = Bitmap((1 << gpus) - 1)
    node = NodeAvailability(
        NodeName(name),
        usable=True,
        cpus=cpus,
        memory_mib=memory_mib,
        cpus_free=Bitmap((1 << cpus) - 1),
        memory_free_mib=memory_mib,
        gpus_free=gpu_bits,
        gpus=gpu_bits,
        gpus_by_type={gpu_type: gpu_bits} if gpu_type else {},
    )
    return replace(node, **changes)


def some_nodes(count: int, **changes: Any) -> list[NodeAvailability]:
    return [a_node(f"n{i}", **changes) for i in range(1, count + 1)]


def a_partition(nodes: Sequence[NodeAvailability], name: str = "batch", **changes: Any) -> Partition:
    return replace(Partition(name, nodes=tuple(node.name for node in nodes)), **changes)


def a_job(job_id: int, *, tasks: Sequence[int] = (), slots: int | None = None, at: float = 0.0) -> QueuedJob:
    return QueuedJob(JobId(job_id), at, at, tasks, len(tasks) or 1 if slots is None else slots)


def a_class(
    partition: Partition,
    *jobs: QueuedJob | int,
    request: ResourceRequest | None = None,
    minutes: float = 10.0,
    **changes: Any,
) -> RequestClass:
    queued = tuple(job if isinstance(job, QueuedJob) else a_job(job, at=float(job)) for job in jobs)
    return replace(RequestClass(request or a_request(), partition, minutes * 60.0, jobs=queued), **changes)


def a_snapshot(
    nodes: Sequence[NodeAvailability],
    *classes: RequestClass,
    running: Sequence[RunningJob] = (),
    racks: Sequence[Sequence[str]] = (),
    **settings: Any,
) -> Snapshot:
    """`running` is taken from the nodes' free amounts."""
    topology = Topology.of(
        (
            *(
                DomainSpec(f"r{k}", "rack", "spine", tuple(NodeName(n) for n in names))
                for k, names in enumerate(racks)
            ),
            DomainSpec("spine", "spine"),
        )
        if racks
        else ()
    )
    used = [_without(node, running) for node in nodes]
    return Snapshot(NOW, used, running, classes, topology, replace(SchedulerSection(), **settings))


def a_run(
    node: str,
    *,
    cpus: Sequence[int] = (0,),
    minutes: float = 5.0,
    memory_mib: int = 0,
    gpus: Sequence[int] = (),
    share: int = 0,
    job: int | None = None,
) -> RunningJob:
    """A run on one node that ends `minutes` after NOW."""
    allocation = NodeAllocation(NodeName(node), _bits(cpus), memory_mib, _bits(gpus), 1, share)
    return RunningJob(JobId(job or next(_run_ids)), NOW + minutes * 60.0, (allocation,))


def nodes_of(plan: Plan, job_id: int) -> list[str]:
    """Nodes of the job's (first) placement, in order; [] if it does not start."""
    for placement in plan.placements:
        if placement.job_id == job_id:
            return [part.node for part in placement.allocation]
    return []


def started(plan: Plan) -> list[int]:
    return [placement.job_id for placement in plan.placements]


def reason(plan: Plan, job_id: int) -> str:
    return plan.waits[JobId(job_id)].reason.value


def check(snapshot: Snapshot, plan: Plan) -> None:
    """Everything that must hold of any plan."""
    nodes = {node.name: node for node in snapshot.nodes}
    cpus = {name: int(node.cpus_free) for name, node in nodes.items()}
    gpus = {name: int(node.gpus_free) for name, node in nodes.items()}
    shares = {(name, gpu): milli for name, node in nodes.items() for gpu, milli in node.gpu_shares}
    memory = {name: node.memory_free_mib for name, node in nodes.items()}
    classes = {job.job_id: jobs for jobs in snapshot.classes for job in jobs.jobs}
    queued = {job.job_id: job for jobs in snapshot.classes for job in jobs.jobs}
    placed: dict[int, list[int | None]] = {}
    for placement in plan.placements:
        jobs = classes[placement.job_id]
        placed.setdefault(placement.job_id, []).append(placement.task_id)
        for part in placement.allocation:
            assert nodes[part.node].usable, "placed on a node that cannot be used"
            assert part.cpus & ~cpus[part.node] == 0, "a CPU given twice"
            if part.gpu_share_milli:
                device = (part.node, part.gpus.bit_length() - 1)
                assert part.gpus.bit_count() == 1, "a share of several GPUs"
                assert device in shares or part.gpus & gpus[part.node], "a share of another's GPU"
                shares[device] = shares.get(device, 0) + part.gpu_share_milli
                assert shares[device] <= 1000, "more than a whole GPU given"
            else:
                assert part.gpus & ~gpus[part.node] == 0, "a GPU given twice"
            cpus[part.node] &= ~part.cpus
            gpus[part.node] &= ~part.gpus
            memory[part.node] -= part.memory_mib
            assert memory[part.node] >= 0, "memory given twice"
        check_gang(jobs, nodes, placement.allocation)
        names = [part.node for part in placement.allocation]
        assert may_lie(jobs.request, names, snapshot)
    for job_id, job in queued.items():
        tasks = placed.get(job_id, [])
        assert len(tasks) <= job.slots
        assert tasks == list(job.tasks[: len(tasks)]) if job.tasks else tasks in ([], [None])
        whole = len(tasks) == max(1, len(job.tasks))
        assert (job_id in plan.waits) is not whole, "a job is either placed or has a reason"
        assert (job_id in plan.priorities) is not whole
    assert all(priority >= 1 for priority in plan.priorities.values())


def check_gang(
    jobs: RequestClass, nodes: dict[NodeName, NodeAvailability], allocation: Sequence[NodeAllocation]
) -> None:
    """Whole, with exactly the tasks, CPUs, memory and GPUs that were asked for."""
    request = jobs.request
    names = [part.node for part in allocation]
    assert len(set(names)) == len(names)
    assert set(names) <= set(jobs.partition.nodes)
    assert not set(names) & set(request.excluded_nodes)
    assert not set(names) & set(jobs.avoided_nodes)
    assert set(request.required_nodes) <= set(names)
    assert len(names) >= max(request.nodes_min, jobs.partition.min_nodes)
    assert not request.nodes_max or len(names) <= request.nodes_max
    assert jobs.partition.max_nodes is None or len(names) <= jobs.partition.max_nodes
    assert sum(part.tasks for part in allocation) == max(request.tasks, len(names))
    for part in allocation:
        node = nodes[part.node]
        assert part.tasks >= 1
        assert not request.tasks_per_node or part.tasks <= request.tasks_per_node
        if request.exclusive:
            assert (part.cpu_count, part.memory_mib, part.gpus) == (node.cpus, node.memory_mib, node.gpus)
            continue
        assert part.cpu_count == max(part.tasks * request.cpus_per_task, request.cpus_per_node_min)
        least = max(request.gpus_per_node, part.tasks * request.gpus_per_task)
        whole = part.gpu_count
        if request.gpu_share_milli:
            tasks = 1 if request.gpu_share_of_node else part.tasks
            assert part.gpu_share_milli == tasks * request.gpu_share_milli
            whole = 0
        if request.gpus_total:
            assert part.gpu_count >= max(1, least)
        else:
            assert whole == least
        assert part.gpus & ~_of_type(node, request) == 0
        assert part.memory_mib == max(
            request.memory_per_node_mib,
            request.memory_per_cpu_mib * part.cpu_count,
            request.memory_per_gpu_mib * whole,
        )
    if request.gpus_total and not request.exclusive:
        base = sum(max(request.gpus_per_node, p.tasks * request.gpus_per_task, 1) for p in allocation)
        assert sum(part.gpu_count for part in allocation) == max(request.gpus_total, base)


def may_lie(request: ResourceRequest, names: Sequence[NodeName], snapshot: Snapshot) -> bool:
    """What is asked of the gang's domains and of its features as a whole."""
    topology, features = snapshot.topology, {node.name: node.features for node in snapshot.nodes}
    leaves = Counter(topology.leaf_of_node.get(name, "") for name in names)
    if request.switches and len(leaves) > request.switches:
        return False
    if request.segment and any(count % request.segment for count in leaves.values()):
        return False
    if request.topology_required and request.topology_level:
        inside = {topology.domain_at(name, request.topology_level) for name in names}
        if len(inside) > 1 or "" in inside:
            return False
    return meets(request.features, [features[name] for name in names])


def could_start(jobs: RequestClass, nodes: Sequence[NodeAvailability], snapshot: Snapshot) -> bool:
    """Brute force over all sets of these nodes. Not for `gpus_total`."""
    request = jobs.request
    allowed = set(jobs.partition.nodes) - set(request.excluded_nodes) - set(jobs.avoided_nodes)
    usable = [node for node in nodes if node.usable and node.name in allowed]
    counted = sum(count for _, count in constraint_of(request.features).counts)
    least = max(request.nodes_min, jobs.partition.min_nodes, counted)
    tasks = max(request.tasks, least)
    most = min(request.nodes_max or len(usable), jobs.partition.max_nodes or len(usable), len(usable))
    for size in range(least, most + 1):
        for some in combinations(usable, size):
            if not set(request.required_nodes) <= {node.name for node in some}:
                continue
            room = [_tasks_on(request, node) for node in some]
            if min(room) >= 1 and sum(room) >= tasks and may_lie(request, [n.name for n in some], snapshot):
                return True
    return False


def _tasks_on(request: ResourceRequest, node: NodeAvailability) -> int:
    """The most tasks that node takes, found by trying."""
    of_type = _of_type(node, request)
    gpus_free = node.gpus_free & of_type
    parts = [1000 - milli for gpu, milli in node.gpu_shares if of_type >> gpu & 1]
    most_milli = max(parts + [1000] * bool(gpus_free), default=0)
    count = 0
    while True:
        tasks = count + 1
        cpus = max(tasks * request.cpus_per_task, request.cpus_per_node_min)
        gpus = max(request.gpus_per_node, tasks * request.gpus_per_task)
        memory = max(
            request.memory_per_node_mib,
            request.memory_per_cpu_mib * cpus,
            request.memory_per_gpu_mib * gpus,
        )
        is_empty = (
            node.cpus_free.bit_count() == node.cpus
            and node.memory_free_mib == node.memory_mib
            and node.gpus_free == node.gpus
        )
        if (
            cpus > node.cpus_free.bit_count()
            or share_on_node(request, tasks) > most_milli
            or gpus > gpus_free.bit_count()
            or memory > node.memory_free_mib
            or (request.tasks_per_node and tasks > request.tasks_per_node)
            or (request.exclusive and not is_empty)
        ):
            return count
        count = tasks


def free_at(snapshot: Snapshot, plan: Plan, time: float) -> list[NodeAvailability]:
    """The nodes when everything that ends by then has ended, and the plan has been carried out."""
    limits = {job.job_id: jobs.time_limit_s for jobs in snapshot.classes for job in jobs.jobs}
    nodes = {node.name: node for node in snapshot.nodes}
    for run in snapshot.running:
        if max(run.end_time, snapshot.now) <= time:
            for part in run.allocation:
                nodes[part.node] = freed(nodes[part.node], part)
    for placement in plan.placements:
        limit_s = limits[placement.job_id]
        if not limit_s or snapshot.now + limit_s > time:
            for part in placement.allocation:
                nodes[part.node] = _taken(nodes[part.node], part)
    return list(nodes.values())


def _of_type(node: NodeAvailability, request: ResourceRequest) -> int:
    """GPUs that the request accepts."""
    types: dict[str, int] = dict(node.gpus_by_type)
    types[""] = node.gpus & ~sum(types.values())
    bits = 0
    for name, of_type in types.items():
        memory_mib, capability = node.gpu_attributes.get(name, (0, ""))
        if request.gpu_type and name not in request.gpu_type.split("|"):
            continue
        if memory_mib < request.gpu_memory_min_mib or capability < request.gpu_capability_min:
            continue
        bits |= of_type
    return bits


def freed(node: NodeAvailability, part: NodeAllocation) -> NodeAvailability:
    if part.gpu_share_milli:
        gpu = part.gpus.bit_length() - 1
        shares = dict(node.gpu_shares)
        shares[gpu] -= part.gpu_share_milli
        if shares[gpu]:
            part = replace(part, gpus=Bitmap(0))
        node = replace(node, gpu_shares=tuple((g, milli) for g, milli in shares.items() if milli))
    return replace(
        node,
        cpus_free=Bitmap(node.cpus_free | part.cpus),
        gpus_free=Bitmap(node.gpus_free | part.gpus),
        memory_free_mib=node.memory_free_mib + part.memory_mib,
    )


def _taken(node: NodeAvailability, part: NodeAllocation) -> NodeAvailability:
    if part.gpu_share_milli:
        gpu = part.gpus.bit_length() - 1
        shares = dict(node.gpu_shares)
        shares[gpu] = shares.get(gpu, 0) + part.gpu_share_milli
        node = replace(node, gpu_shares=tuple(shares.items()))
    return replace(
        node,
        cpus_free=Bitmap(node.cpus_free & ~part.cpus),
        gpus_free=Bitmap(node.gpus_free & ~part.gpus),
        memory_free_mib=node.memory_free_mib - part.memory_mib,
    )


def _without(node: NodeAvailability, running: Sequence[RunningJob]) -> NodeAvailability:
    for run in running:
        for part in run.allocation:
            if part.node == node.name:
                node = _taken(node, part)
    return node


def _bits(indexes: Sequence[int]) -> Bitmap:
    return Bitmap(sum(1 << i for i in indexes))


def meets(expression: str, gang: list[Features]) -> bool:
    """Is the constraint met by a gang on exactly these nodes? Exponential in the number of counts."""
    constraint = constraint_of(expression)
    if not all(constraint.every(node) for node in gang):
        return False
    alternatives = constraint.alternatives
    if alternatives and not any(all(test(node) for node in gang) for test in alternatives):
        return False
    wanted = [test for test, count in constraint.counts for _ in range(count)]
    return _matched(wanted, gang) == len(wanted)


def _matched(wanted: list[Test], nodes: list[Features]) -> int:
    """Size of a greatest matching of wanted places to nodes (augmenting paths)."""
    holder: dict[int, int] = {}

    def place(want: int, tried: set[int]) -> bool:
        for i, features in enumerate(nodes):
            if i not in tried and wanted[want](features):
                tried.add(i)
                if i not in holder or place(holder[i], tried):
                    holder[i] = want
                    return True
        return False

    return sum(place(want, set()) for want in range(len(wanted)))


def entitlements(tree: AccountTree) -> dict[UserKey, float]:
    """The part of the cluster that each user's weights amount to, down the tree; where all want more."""
    result: dict[UserKey, float] = {}

    def walk(account: str, part: float) -> None:
        children, members = tree.children[account], tree.members.get(account, [])
        total = sum(tree.accounts[child].weight for child in children) + sum(m.weight for m in members)
        for child in children:
            walk(child, part * tree.accounts[child].weight / total if total else 0.0)
        for member in members:
            result[account, member.user] = part * member.weight / total if total else 0.0

    walk(ROOT, 1.0)
    return result


def predict(snapshot: Snapshot, outlook: Outlook | None = None) -> Forecast:
    """A forecast that has been run to its end."""
    forecast = Forecast(snapshot, outlook)
    for _ in chain(forecast.run(), forecast.extrapolate()):
        pass
    return forecast
