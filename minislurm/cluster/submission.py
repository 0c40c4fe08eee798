"""May this job be accepted, and as what record? Slurm's texts for what may not (golden errors)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from minislurm.cluster import licenses, reservations
from minislurm.cluster.accounts import longest_s, refuse_access, refuse_job, refuse_priority, with_account
from minislurm.cluster.budgets import is_amount
from minislurm.cluster.elastic_jobs import refuse_elastic, refuse_elastic_components
from minislurm.cluster.events import Event, JobSubmitted
from minislurm.cluster.fitting import refuse_what_never_fits
from minislurm.cluster.het_jobs import component_spec, refuse_components
from minislurm.cluster.messages import Caller, SubmitJob
from minislurm.cluster.spares import with_spares
from minislurm.cluster.state import ClusterState
from minislurm.cluster.where import check_features, check_topology
from minislurm.domain.configuration import Partition
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.node import Node
from minislurm.domain.preemption import is_wish
from minislurm.domain.resources import ResourceRequest, capability_number
from minislurm.domain.states import PartitionState, Reason
from minislurm.scheduling.limits import least_tres

#: So many requests are known to be possible at most.
_MOST_KNOWN = 10_000


def decide_submission(state: ClusterState, message: SubmitJob, now: float) -> list[Event] | Refusal:
    """A request id that was seen before is answered with the job it made then (no new event)."""
    if message.request_id in state.requests:
        return []
    if message.components:
        return _decide_components(state, message, now)
    job = _accepted(state, message.spec, message.caller, now)
    return job if isinstance(job, Refusal) else [JobSubmitted(now, job, message.request_id)]


def _decide_components(state: ClusterState, message: SubmitJob, now: float) -> list[Event] | Refusal:
    """A heterogeneous job is accepted as a whole or not at all; ids in a row, the leader's first."""
    leader = message.spec
    refusal = refuse_components(leader, message.components) or refuse_elastic_components(message)
    if refusal is not None:
        return refusal
    jobs: list[Job] = []
    for offset, given in enumerate((leader, *message.components)):
        spec = component_spec(leader, given) if offset else leader
        job = _accepted(state, spec, message.caller, now, jobs)
        if isinstance(job, Refusal):
            which = f"Component {offset} of the heterogeneous job can not be accepted"
            return Refusal(job.code, details=(*job.details, which), job_id=job.job_id)
        job.id = JobId(state.next_job_id + offset)
        job.het_job_id, job.het_job_offset = state.next_job_id, offset
        jobs.append(job)
    return [JobSubmitted(now, jobs[0], message.request_id, tuple(jobs[1:]))]


def _accepted(
    state: ClusterState, spec: JobSpec, caller: Caller, now: float, beside: Sequence[Job] = ()
) -> Job | Refusal:
    """The record that the specification becomes. `beside`: jobs of the same submission."""
    partition = _partition_of(state, spec)
    if isinstance(partition, Refusal):
        return partition
    spared = with_spares(spec)
    if isinstance(spared, Refusal):
        return spared
    refusal = _refuse(state, spared, partition, caller, len(beside)) or _refuse_times(spec, now)
    if refusal is not None:
        return refusal
    charged = with_account(state.accounts, spared)
    if isinstance(charged, Refusal):
        return charged
    refusal = refuse_access(state.accounts, charged, partition)
    if refusal is not None:
        return refusal
    job = record_of(state, with_defaults(state, charged, partition), partition, now)
    refusal = refuse_what_never_fits(state, job.request, partition)
    if refusal is None:
        refusal = reservations.refuse_use(state, job, partition.nodes)
    if refusal is None and job.priority is not None and not caller.is_operator:
        refusal = refuse_priority(state.accounts, job, partition)
    if refusal is None and state.accounts.limits_are_enforced:
        refusal = refuse_job(state.accounts, job, least_tres(job.request, partition), beside=beside)
    return refusal or job


def _partition_of(state: ClusterState, spec: JobSpec) -> Partition | Refusal:
    if not spec.partition:
        default = state.configuration.default_partition
        if default is None:
            return Refusal(RefusalCode.INVALID_PARTITION, details=("No partition specified",))
        return state.partitions[default.name]
    found = state.partitions.get(spec.partition)
    if found is None:
        detail = f"invalid partition specified: {spec.partition}"
        return Refusal(RefusalCode.INVALID_PARTITION, details=(detail,))
    return found


def _refuse(
    state: ClusterState, spec: JobSpec, partition: Partition, caller: Caller, beside: int
) -> Refusal | None:
    limits = state.configuration.limits
    if spec.user_id != caller.user_id and not caller.is_operator:
        return Refusal(RefusalCode.ACCESS)
    refusal = refuse_partition_state(state, partition)
    if refusal is not None:
        return refusal
    if len(state.jobs) + beside >= limits.max_job_count:
        return Refusal(RefusalCode.TOO_MANY_JOBS)
    if spec.is_array and (
        len(spec.array_tasks) > limits.max_array_size or spec.array_tasks[-1] >= limits.max_array_size
    ):
        return Refusal(RefusalCode.INVALID_ARRAY)
    if spec.is_array and any(
        one >= next_ for one, next_ in zip(spec.array_tasks, spec.array_tasks[1:], strict=False)
    ):
        return Refusal(RefusalCode.INVALID_ARRAY)
    if spec.time_limit_s is not None and not is_time_limit(spec.time_limit_s):
        return Refusal(RefusalCode.INVALID_TIME_LIMIT)
    if not math.isfinite(spec.begin_time):
        return Refusal(RefusalCode.NOT_SUPPORTED)
    if spec.nice < 0 and not caller.is_operator:
        return Refusal(RefusalCode.ACCESS)
    if spec.request.exclusive_user not in (None, spec.user_id):
        return Refusal(RefusalCode.ACCESS)
    if not is_wish(spec.preemption):
        return Refusal(RefusalCode.NOT_SUPPORTED, details=("preemption: no such policy or number",))
    return (
        refuse_bid(state, spec.bid, partition.name)
        or refuse_elastic(spec)
        or check_request(state, spec.request, partition)
    )


def refuse_partition_state(state: ClusterState, partition: Partition) -> Refusal | None:
    """Does it take new jobs?"""
    if state.partition_state(partition.name) in (PartitionState.DRAIN, PartitionState.INACTIVE):
        return Refusal(RefusalCode.PARTITION_UNAVAILABLE)
    return None


def refuse_bid(state: ClusterState, bid: float, partition: str) -> Refusal | None:
    """Where nobody goes by bids, one would be ignored."""
    if not is_amount(bid):
        return Refusal(RefusalCode.INVALID_BID)
    if bid and state.queue.looks.get(partition) != "auction":
        detail = f"partition {partition} does not take bids"
        return Refusal(RefusalCode.INVALID_BID, details=(detail,))
    return None


def _refuse_times(spec: JobSpec, now: float) -> Refusal | None:
    """A deadline that has passed; one that is too near ends the job at once instead, as in Slurm."""
    if not is_deadline(spec.deadline) or 0 < spec.deadline <= now:
        return Refusal(RefusalCode.INVALID_TIME_LIMIT)
    if not is_time_limit(spec.max_wait_s):
        return Refusal(RefusalCode.INVALID_TIME_LIMIT)
    return None


def is_deadline(time: float) -> bool:
    """0: none."""
    return math.isfinite(time) and time >= 0


def is_time_limit(seconds: float) -> bool:
    """0 stands for no limit; anything but a finite number of seconds comes from no command of ours."""
    return math.isfinite(seconds) and seconds >= 0


def check_request(state: ClusterState, request: ResourceRequest, partition: Partition) -> Refusal | None:
    """Refuses what no node of the partition could give even if it were empty.

    More nodes than there are is no reason: such a job waits with PartitionNodeLimit, as in Slurm.
    """
    question = partition.name, request
    if question in state.kept.possible:  # most jobs ask for what others have asked for
        return None
    refusal = _refuse_request(state, request, partition)
    if refusal is None:
        if len(state.kept.possible) >= _MOST_KNOWN:
            state.kept.possible.clear()
        state.kept.possible.add(question)
    return refusal


def _refuse_request(state: ClusterState, request: ResourceRequest, partition: Partition) -> Refusal | None:
    if request.nodes_min < 1 or request.tasks < 1 or 0 < request.nodes_max < request.nodes_min:
        return Refusal(RefusalCode.INVALID_NODE_COUNT)
    if request.cpus_per_task < 1 or not is_gpu_request(request):
        return Refusal(RefusalCode.NODE_CONFIGURATION)
    for name in (*request.required_nodes, *request.excluded_nodes):
        if name not in state.nodes:
            return Refusal(RefusalCode.INVALID_NODE_NAME)
    refusal = licenses.refuse_licenses(state, request)
    if refusal is not None:
        return refusal
    kinds = state.kinds_in(partition)
    refusal = check_features(request, kinds)
    if refusal is None and (request.topology_level or request.segment):
        nodes = [state.nodes[name] for name in partition.nodes]
        refusal = check_topology(state.topology, request, nodes)
    if refusal is not None:
        return refusal
    most_cpus = [node.cpus for node in kinds]
    if not kinds or not all(most_cpus):
        return None  # what a node has is not known before it registers
    if max(request.cpus_per_task, request.cpus_per_node_min) > max(most_cpus):
        return Refusal(RefusalCode.NODE_CONFIGURATION, details=("CPU count per node can not be satisfied",))
    if not any(_has_memory(node, request) for node in kinds):
        return Refusal(RefusalCode.NODE_CONFIGURATION, details=("Memory specification can not be satisfied",))
    if not any(_has_gpus(node, request) for node in kinds):
        return Refusal(RefusalCode.NODE_CONFIGURATION)
    return None


def is_gpu_request(request: ResourceRequest) -> bool:
    """Is what it says of GPUs possible at all? A share is less than a GPU, and nothing else is asked for."""
    try:
        capability_number(request.gpu_capability_min)
    except ValueError:
        return False
    if not request.gpu_share_milli:
        return True
    whole = request.gpus_per_node or request.gpus_per_task or request.gpus_total or request.exclusive
    return 0 < request.gpu_share_milli < 1000 and not whole


def _has_memory(node: Node, request: ResourceRequest) -> bool:
    least = max(
        request.memory_per_node_mib,
        request.memory_per_cpu_mib * request.cpus_per_task,
        request.memory_per_gpu_mib * max(request.gpus_per_node, request.gpus_per_task),
    )
    return node.memory_mib >= least


def _has_gpus(node: Node, request: ResourceRequest) -> bool:
    least = max(request.gpus_per_node, request.gpus_per_task, 1 if request.gpu_share_milli else 0)
    if request.gpus_total:
        least = max(least, -(-request.gpus_total // request.nodes_max) if request.nodes_max else 1)
    return node.suitable_gpus(request).bit_count() >= least


def with_defaults(state: ClusterState, spec: JobSpec, partition: Partition) -> JobSpec:
    """The specification with what the cluster and the partition decide where the user did not."""
    request = spec.request
    per_cpu = partition.default_memory_per_cpu_mib
    if per_cpu is None:
        per_cpu = state.configuration.jobs.default_memory_per_cpu_mib
    asked = request.memory_per_node_mib or request.memory_per_cpu_mib or request.memory_per_gpu_mib
    if per_cpu and not asked and spec.memory_per_node_mib is None:
        request = replace(request, memory_per_cpu_mib=per_cpu)
    if request.switches:
        wait_s = longest_switch_wait_s(state, request.switches_wait_s)
        request = replace(request, switches_wait_s=wait_s)
    request = spread_over_gpus(state, spec, request, partition)
    if (partition.placement or state.configuration.scheduler.placement) == "affinity":
        request = replace(request, affinity=f"{spec.user_name}/{spec.name}")
    requeue = spec.requeue if spec.requeue is not None else state.configuration.jobs.requeue
    if spec.partition == partition.name and request is spec.request and requeue is spec.requeue:
        return spec
    return replace(spec, partition=partition.name, request=request, requeue=requeue)


def longest_switch_wait_s(state: ClusterState, wanted_s: float) -> float:
    """How long a job waits for few switches; 0: it did not say."""
    longest_s = state.configuration.scheduler.max_switch_wait_s
    return min(wanted_s or longest_s, longest_s)


def spread_over_gpus(
    state: ClusterState, spec: JobSpec, request: ResourceRequest, partition: Partition
) -> ResourceRequest:
    """``--gpus=16`` alone, where a node has 8: two nodes with a task each."""
    if not request.gpus_total:
        return request
    kinds = state.kinds_in(partition)
    most = max((node.suitable_gpus(request).bit_count() for node in kinds), default=0)
    if request.gpus_total <= most or not most or spec.nodes_given or spec.tasks is not None:
        return request
    nodes = -(-request.gpus_total // most)
    return replace(request, nodes_min=nodes, nodes_max=nodes, tasks=max(request.tasks, nodes))


def record_of(state: ClusterState, spec: JobSpec, partition: Partition, now: float) -> Job:
    """The job as it enters the state; eligible at once where nothing holds it back."""
    limit = spec.time_limit_s
    if limit is None:
        limit = partition.default_time_s if partition.default_time_s is not None else partition.max_time_s
        longest = longest_s(state.accounts, spec, partition)
        limit = limit if longest is None else min(limit or longest, longest)
    job_id = state.next_job_id
    # A job that nobody knows yet counts as satisfied, even if it is to be this one.
    dependencies = tuple(clause for clause in spec.dependencies if clause.job_id != job_id)
    waits = bool(spec.hold or dependencies or spec.begin_time > now)
    return Job(
        id=job_id,
        spec=spec,
        submit_time=now,
        array_job_id=job_id if spec.is_array else JobId(0),
        pending_tasks=list(spec.array_tasks),
        name=spec.name,
        partition=partition.name,
        time_limit_s=limit or 0.0,
        nice=spec.nice,
        priority=spec.priority,
        comment=spec.comment,
        array_limit=spec.array_limit,
        begin_time=spec.begin_time,
        held="user" if spec.hold else "",
        dependencies=dependencies,
        dependency_any=spec.dependency_any,
        requeue=bool(spec.requeue),
        deadline=spec.deadline,
        bid=spec.bid,
        reason=_first_reason(spec, bool(dependencies), now),
        eligible_time=0.0 if waits else now,
    )


def _first_reason(spec: JobSpec, depends: bool, now: float) -> Reason:
    if spec.hold:
        return Reason.HELD_USER
    if depends:
        return Reason.DEPENDENCY
    return Reason.BEGIN_TIME if spec.begin_time > now else Reason.NONE
