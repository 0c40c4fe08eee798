"""`scontrol update job`: changes on the copy of a record. Each is checked as at submission; the first that
may not be made refuses all of them.

What a script sees in its environment is what was given on the command line (`JobSpec`), so that changes there
as well: a changed job has a specification of its own.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from minislurm.cluster import dependencies, reservations
from minislurm.cluster.accounts import refuse_access, refuse_job, refuse_priority, with_account
from minislurm.cluster.eligibility import make_eligible
from minislurm.cluster.fitting import refuse_what_never_fits
from minislurm.cluster.messages import Caller
from minislurm.cluster.size_changes import refuse_pending_size
from minislurm.cluster.state import ClusterState
from minislurm.cluster.submission import (
    check_request,
    is_deadline,
    is_time_limit,
    longest_switch_wait_s,
    refuse_bid,
    refuse_partition_state,
    spread_over_gpus,
)
from minislurm.domain import hostlist
from minislurm.domain.configuration import Partition
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import NodeName
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.reservation import parse_licenses
from minislurm.domain.resources import GpuGroup, ResourceRequest
from minislurm.domain.states import JobState
from minislurm.domain.views import JobChanges
from minislurm.scheduling.limits import least_tres


def change_job(
    state: ClusterState, job: Job, before: Job, changes: JobChanges, caller: Caller, now: float
) -> Refusal | None:
    """`job`: a copy of the record `before`, or of some of its tasks."""
    shape = (changes.nodes_min, changes.nodes_max, changes.tasks, changes.gpus_total)
    if job.spec.spare_nodes and any(value is not None for value in shape):
        return Refusal(RefusalCode.NOT_SUPPORTED, details=("the size of a job with spare nodes is fixed",))
    return (
        _change_standing(job, changes, caller)
        or _change_times(job, changes, caller, now)
        or _change_dependencies(state, job, changes)
        or _change_place(state, job, before, changes, caller)
        or _settle(state, job, changes, now)
    )


def _settle(state: ClusterState, job: Job, changes: JobChanges, now: float) -> Refusal | None:
    if changes.bid is not None or changes.partition:
        refusal = refuse_bid(state, job.bid, job.partition)
        if refusal is not None:
            return refusal
    if job.state is JobState.PENDING:
        if changes.begin_time is not None and changes.begin_time > now:
            job.eligible_time = 0.0
        make_eligible(job, now)
    return None


# What it is called, and its place in the queue


def _change_standing(job: Job, changes: JobChanges, caller: Caller) -> Refusal | None:
    if changes.name is not None:
        job.name = changes.name
    if changes.comment is not None:
        job.comment = changes.comment
    if changes.requeue is not None:
        job.requeue = changes.requeue
    if changes.array_limit is not None:
        job.array_limit = changes.array_limit
    if changes.nice is not None:
        if changes.nice < job.nice and not caller.is_operator:
            return Refusal(RefusalCode.ACCESS, job_id=job.id)
        job.nice = changes.nice
    if changes.priority is not None:
        job.priority = changes.priority
    if changes.site_factor is not None:
        if not caller.is_operator:
            return Refusal(RefusalCode.ACCESS, job_id=job.id)
        job.site_factor = changes.site_factor
    if changes.bid is not None:
        if job.state is not JobState.PENDING:
            return Refusal(RefusalCode.JOB_NOT_PENDING, job_id=job.id)
        job.bid = changes.bid
    return None


def _change_times(job: Job, changes: JobChanges, caller: Caller, now: float) -> Refusal | None:
    if changes.time_limit_s is not None:
        if not is_time_limit(changes.time_limit_s):
            return Refusal(RefusalCode.INVALID_TIME_LIMIT, job_id=job.id)
        longer = (changes.time_limit_s or math.inf) > (job.time_limit_s or math.inf)  # 0: none
        if job.state is not JobState.PENDING and longer and not caller.is_operator:
            return Refusal(RefusalCode.ACCESS, job_id=job.id)
        job.time_limit_s = changes.time_limit_s
    if changes.begin_time is not None:
        if not math.isfinite(changes.begin_time):
            return Refusal(RefusalCode.NOT_SUPPORTED, job_id=job.id)
        job.begin_time = changes.begin_time
    if changes.deadline is not None:
        if not is_deadline(changes.deadline) or 0 < changes.deadline <= now:
            return Refusal(RefusalCode.INVALID_TIME_LIMIT, job_id=job.id)
        job.deadline = changes.deadline
    return None


def _change_dependencies(state: ClusterState, job: Job, changes: JobChanges) -> Refusal | None:
    if not changes.dependencies and not changes.clear_dependencies:
        return None
    if job.state is not JobState.PENDING:
        return Refusal(RefusalCode.JOB_NOT_PENDING, job_id=job.id)
    cycle = dependencies.find_cycle(state, job, changes.dependencies)
    if cycle:
        names = " -> ".join(str(job_id) for job_id in cycle)
        return Refusal(RefusalCode.DEPENDENCY, details=(f"Dependency cycle: {names}",), job_id=job.id)
    job.dependencies, job.dependency_any = changes.dependencies, bool(changes.dependency_any)
    return None


# Where it may run, for whom, and on what


def _change_place(
    state: ClusterState, job: Job, before: Job, changes: JobChanges, caller: Caller
) -> Refusal | None:
    """Partition, account, QOS and request, which decide together what is allowed."""
    partition = state.partitions.get(changes.partition or job.partition)
    spec = job.spec
    if changes.account is not None or changes.qos is not None:
        spec = replace(spec, account=_new(changes.account, spec.account), qos=_new(changes.qos, spec.qos))
        charged = with_account(state.accounts, spec)
        if isinstance(charged, Refusal):
            return charged
        spec = charged
    try:
        spec, request = _changed(state, spec, job.asked_request, partition, changes)
    except _Wrong as wrong:
        return Refusal(wrong.code, details=wrong.details, job_id=job.id)
    is_moved = (changes.partition or job.partition) != job.partition
    if is_moved or spec is not job.spec or request != job.asked_request:
        if job.state is not JobState.PENDING:
            return Refusal(RefusalCode.JOB_NOT_PENDING, job_id=job.id)
        if partition is None:
            return Refusal(RefusalCode.INVALID_PARTITION, job_id=job.id)
        refusal = (
            _refuse_place(state, job, spec, partition, caller)
            or check_request(state, request, partition)
            or refuse_what_never_fits(state, request, partition)
        )
        if refusal is not None:
            return refusal
        if changes.switches is not None:
            job.switches_waived = False
        job.spec, job.changed_request, job.partition = spec, request, partition.name
        refusal = refuse_pending_size(job) or reservations.refuse_use(state, job, partition.nodes)
        if refusal is not None:
            return refusal
    return _refuse_limits(state, job, before, changes, caller)


def _refuse_place(
    state: ClusterState, job: Job, spec: JobSpec, partition: Partition, caller: Caller
) -> Refusal | None:
    """May it be moved there? Operators move whom they like, whatever groups a user is in."""
    is_there = partition.name == job.partition
    charge_stays = (spec.account, spec.qos) == (job.spec.account, job.spec.qos)
    if is_there and charge_stays:
        return None
    refusal = None if is_there else refuse_partition_state(state, partition)
    if caller.is_operator or is_there:
        spec = replace(spec, groups=partition.allow_groups)
    return refusal or refuse_access(state.accounts, spec, partition)


def _refuse_limits(
    state: ClusterState, job: Job, before: Job, changes: JobChanges, caller: Caller
) -> Refusal | None:
    if job.state is not JobState.PENDING:
        is_priority_asked = changes.priority is not None and not caller.is_operator
        return Refusal(RefusalCode.ACCESS, job_id=job.id) if is_priority_asked else None
    partition = state.partitions.get(job.partition)
    if partition is None:
        return None  # it has left the configuration; nothing starts there
    accounts = state.accounts
    is_charged_anew = accounts.charged_of(job) != accounts.charged_of(before)
    is_moved = is_charged_anew or job.partition != before.partition
    if job.priority is not None and (changes.priority is not None or is_moved) and not caller.is_operator:
        refusal = refuse_priority(accounts, job, partition)
        if refusal is not None:
            return refusal
    if is_charged_anew or job.request != before.request or changes.time_limit_s is not None:
        return refuse_job(accounts, job, least_tres(job.request, partition), before)
    return None


def _new(value: str | None, old: str) -> str:
    return old if value is None else value


# The request, and what the script's environment says of it


class _Wrong(Exception):
    def __init__(self, code: RefusalCode, *details: str) -> None:
        super().__init__(code)
        self.code = code
        self.details = details


def _changed(
    state: ClusterState,
    spec: JobSpec,
    request: ResourceRequest,
    partition: Partition | None,
    changes: JobChanges,
) -> tuple[JobSpec, ResourceRequest]:
    """Raises _Wrong."""
    request = _with_shape(spec, request, changes)
    spec = _with_given(spec, request, changes)
    request = _with_nodes(request, changes)
    request = _with_claims(request, changes)
    request = _with_topology(state, request, changes)
    spec, request = _with_gpus(spec, request, changes)
    if changes.gpus_total is not None and partition is not None:
        request = spread_over_gpus(state, spec, request, partition)
    return spec, request


def _with_shape(spec: JobSpec, request: ResourceRequest, changes: JobChanges) -> ResourceRequest:
    """Nodes, tasks, CPUs and memory."""
    nodes_min = request.nodes_min if changes.nodes_min is None else changes.nodes_min
    nodes_max = request.nodes_max if changes.nodes_max is None else changes.nodes_max
    if changes.nodes_min is not None and changes.nodes_max is None:
        nodes_max = nodes_min
    tasks = request.tasks if changes.tasks is None else changes.tasks
    if changes.tasks is None and request.tasks == request.nodes_min:
        tasks = nodes_min  # one task a node, as it was
    follow = request.tasks_follow_nodes
    if changes.tasks is not None or changes.nodes_min is not None or changes.nodes_max is not None:
        follow = spec.tasks is None and changes.tasks is None and 0 < nodes_min < nodes_max
    changed = replace(
        request,
        nodes_min=nodes_min,
        nodes_max=nodes_max,
        tasks=max(tasks, nodes_min),
        tasks_follow_nodes=follow,
    )
    if changes.cpus_per_task is not None:
        changed = replace(changed, cpus_per_task=changes.cpus_per_task)
    if changes.cpus_per_node_min is not None:
        changed = replace(changed, cpus_per_node_min=changes.cpus_per_node_min)
    if changes.memory_per_node_mib is not None:
        changed = _with_memory(changed, per_node=changes.memory_per_node_mib)
    if changes.memory_per_cpu_mib is not None:
        changed = _with_memory(changed, per_cpu=changes.memory_per_cpu_mib)
    return changed


def _with_memory(request: ResourceRequest, *, per_node: int = 0, per_cpu: int = 0) -> ResourceRequest:
    return replace(request, memory_per_node_mib=per_node, memory_per_cpu_mib=per_cpu, memory_per_gpu_mib=0)


def _with_given(spec: JobSpec, request: ResourceRequest, changes: JobChanges) -> JobSpec:
    """As if the options had been given so."""
    given: dict[str, object] = {}
    if changes.nodes_min is not None:
        given["nodes_given"] = True
    if changes.tasks is not None or (spec.tasks is not None and changes.nodes_min is not None):
        given["tasks"] = request.tasks
    if changes.cpus_per_task is not None:
        given |= {"cpus_per_task": changes.cpus_per_task, "cpus_per_gpu": None}
    if changes.memory_per_node_mib is not None or changes.memory_per_cpu_mib is not None:
        given |= {
            "memory_per_node_mib": changes.memory_per_node_mib,
            "memory_per_cpu_mib": changes.memory_per_cpu_mib,
            "memory_per_gpu_mib": None,
        }
    if changes.features is not None:
        given["constraint"] = changes.features
    return replace(spec, **given) if given else spec


def _with_nodes(request: ResourceRequest, changes: JobChanges) -> ResourceRequest:
    """Features, and nodes by name."""
    if changes.features is not None:
        request = replace(request, features=changes.features)
    try:
        if changes.required_nodes is not None:
            request = replace(request, required_nodes=_names(changes.required_nodes))
        if changes.excluded_nodes is not None:
            request = replace(request, excluded_nodes=_names(changes.excluded_nodes))
    except ValueError:  # a hostlist that is none
        raise _Wrong(RefusalCode.INVALID_NODE_NAME) from None
    return request


def _names(text: str) -> tuple[NodeName, ...]:
    return tuple(NodeName(name) for name in hostlist.expand(text))


def _with_claims(request: ResourceRequest, changes: JobChanges) -> ResourceRequest:
    """Reservation and licenses; "" takes them away."""
    if changes.reservation is not None:
        request = replace(request, reservation=changes.reservation)
    if changes.licenses is not None:
        try:
            wanted = parse_licenses(changes.licenses) if changes.licenses else ()
        except ValueError:
            raise _Wrong(RefusalCode.INVALID_LICENSES) from None
        request = replace(request, licenses=wanted)
    return request


def _with_topology(state: ClusterState, request: ResourceRequest, changes: JobChanges) -> ResourceRequest:
    if changes.switches is not None:
        wait_s = longest_switch_wait_s(state, changes.switches_wait_s or 0.0) if changes.switches else 0.0
        request = replace(request, switches=changes.switches, switches_wait_s=wait_s)
    if changes.topology_level is not None:
        required = bool(changes.topology_level) and bool(changes.topology_required)
        request = replace(request, topology_level=changes.topology_level, topology_required=required)
    if changes.segment is not None:
        request = replace(request, segment=changes.segment)
    return request


_GPU_FORMS = ("gpus_per_node", "gpus_per_task", "gpus_total")


def _with_gpus(
    spec: JobSpec, request: ResourceRequest, changes: JobChanges
) -> tuple[JobSpec, ResourceRequest]:
    """GPUs in one form, instead of whatever was asked for."""
    asked = [(form, group) for form in _GPU_FORMS if (group := getattr(changes, form)) is not None]
    if not asked:
        return spec, request
    if len(asked) > 1:
        raise _Wrong(RefusalCode.INVALID_GRES, "ask for GPUs in one way only")
    ((form, group),) = asked
    if not group.count and request.memory_per_gpu_mib:
        raise _Wrong(RefusalCode.INVALID_GRES, "--mem-per-gpu needs GPUs")
    changed = replace(
        request,
        **dict.fromkeys(_GPU_FORMS, 0),
        gpu_share_milli=0,
        gpu_share_of_node=False,
        gpu_type=group.type if group.count else "",
    )
    changed = replace(changed, **{form: group.count})
    if form == "gpus_total" and not spec.nodes_given and spec.tasks is None:
        changed = _on_fewest_nodes(spec, changed)
    if spec.cpus_per_gpu is not None:
        changed = _with_cpus_per_gpu(spec, request, changed)
    return _with_gpus_given(spec, form, group), changed


def _on_fewest_nodes(spec: JobSpec, request: ResourceRequest) -> ResourceRequest:
    """How many it takes depends on how many GPUs it asks for (`spread_over_gpus`)."""
    named = len(request.required_nodes)
    nodes = max(1, named)
    return replace(request, nodes_min=nodes, nodes_max=named, tasks=nodes * (spec.tasks_per_node or 1))


def _with_cpus_per_gpu(spec: JobSpec, before: ResourceRequest, request: ResourceRequest) -> ResourceRequest:
    per_gpu = spec.cpus_per_gpu or 0
    per_task = spec.cpus_per_task or 1
    # What --mincpus asked for besides, if it was more.
    derived = per_gpu * (before.gpus_per_node or -(-before.gpus_total // max(1, before.nodes_min)))
    least = before.cpus_per_node_min if before.cpus_per_node_min > derived else 0
    if request.gpus_per_task:
        return replace(request, cpus_per_task=per_gpu * request.gpus_per_task, cpus_per_node_min=least)
    gpus = request.gpus_per_node
    if request.gpus_total:
        if request.nodes_min != request.nodes_max:
            raise _Wrong(RefusalCode.INVALID_GRES, "--cpus-per-gpu with GPUs in all needs a number of nodes")
        gpus = -(-request.gpus_total // request.nodes_min)
    return replace(request, cpus_per_task=per_task, cpus_per_node_min=max(least, per_gpu * gpus))


def _with_gpus_given(spec: JobSpec, form: str, group: GpuGroup) -> JobSpec:
    text = f"{group.type}:{group.count}" if group.type else str(group.count)
    given = dict.fromkeys(("gres", "gpus", "gpus_per_node", "gpus_per_task"), "")
    if group.count and form == "gpus_per_node" and not spec.gpus_per_node:
        given["gres"] = f"gpu:{text}"
    elif group.count:
        given["gpus" if form == "gpus_total" else form] = text
    return replace(spec, **given)
