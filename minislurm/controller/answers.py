"""Records to what squeue, sinfo and scontrol are shown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from minislurm.cluster import dependencies
from minislurm.cluster.state import ClusterState
from minislurm.cluster.victims import grace_in_s, mode_in, preemptable_time
from minislurm.controller.scheduler import Scheduler
from minislurm.domain import filenames
from minislurm.domain.configuration import Partition
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import NodeName
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.node import Node
from minislurm.domain.reservation import ReservationFlag
from minislurm.domain.states import JobState, NodeState, Reason
from minislurm.domain.views import JobQuery, JobTarget, JobView, NodeView, PartitionView
from minislurm.scheduling.model import Wait

if TYPE_CHECKING:
    from minislurm.scheduling.predict import Estimate


def matching_jobs(state: ClusterState, query: JobQuery) -> list[Job]:
    """Records that the query names; an array's id, or that of one of its tasks, names that array's; that of a
    component all of its heterogeneous job."""
    if not query.job_ids:
        return [j for j in state.jobs.values() if query.include_ended or not j.state.is_final]
    found: dict[int, Job] = {}
    for job_id in query.job_ids:
        job = state.jobs.get(job_id)
        if job_id in state.arrays:
            found.update({record.id: record for record in state.array_records(job_id)})
        elif job is not None:
            found.update({record.id: record for record in state.components(job) or [job]})
    return [j for j in found.values() if query.include_ended or not j.state.is_final]


def explained_job(state: ClusterState, target: JobTarget) -> Job:
    """The one record that the target means: of an array, the task, or what has not started of it; else the
    task that started last. Raises Refusal."""
    if target.tasks:
        record = state.task_record(target.job_id, target.tasks[0])
        rest = state.array_rest(target.job_id)
        if record is None and rest is not None and target.tasks[0] in rest.pending_tasks:
            record = rest
    else:
        record = state.jobs.get(target.job_id)
    if record is not None and target.het_offset is not None:
        components = state.components(record)
        record = next((one for one in components if one.het_job_offset == target.het_offset), None)
    if record is None:
        raise Refusal(RefusalCode.INVALID_JOB_ID, job_id=target.job_id)
    return record


def job_view(
    state: ClusterState, scheduler: Scheduler, job: Job, now: float, estimate: Estimate | None = None
) -> JobView:
    """`estimate`: of a forecast that is still true."""
    pending = job.state is JobState.PENDING
    wait = scheduler.wait_of(job) if pending else None
    reason = job.reason.value
    if pending and job.partition not in state.partitions:
        reason = Reason.PARTITION_DOWN.value
    elif pending and job.reason is Reason.NONE:
        leader = state.jobs[job.het_job_id] if job.is_component else job
        if leader.reason is not Reason.NONE:
            reason = leader.reason.value
        elif wait is not None:
            reason = wait.reason.value
    std_in, std_out, std_err = standard_streams(job)
    states = _dependency_states(state, job, now) if job.dependencies else ()
    return JobView(
        job=job,
        reason=reason,
        priority=_priority(scheduler, job),
        start_estimate=_start_estimate(job, wait.start_estimate if wait else 0.0, estimate),
        planned_nodes=_planned_nodes(wait, estimate) if pending else (),
        last_considered=scheduler.last_pass_time if pending else job.start_time,
        dependency_states=states,
        het_job_ids=state.het_jobs.get(job.het_job_id, ()),
        std_in=std_in,
        std_out=std_out,
        std_err=std_err,
        preemptable_time=preemptable_time(state, job),
    )


def _priority(scheduler: Scheduler, job: Job) -> int:
    if job.held:
        return 0
    if job.state is not JobState.PENDING and job.start_priority:
        return job.start_priority
    return scheduler.priority_of(job)


def _start_estimate(job: Job, planned: float, estimate: Estimate | None) -> float:
    if job.state is not JobState.PENDING:
        return job.start_time
    if estimate is not None:
        return estimate.start
    return job.begin_time if not job.eligible_time and job.begin_time else planned


def _planned_nodes(wait: Wait | None, estimate: Estimate | None) -> tuple[NodeName, ...]:
    if estimate is not None:
        return estimate.nodes
    return wait.planned_nodes if wait is not None else ()


def _dependency_states(state: ClusterState, job: Job, now: float) -> tuple[str, ...]:
    return tuple(dependencies.judge(state, job, clause, now).value for clause in job.dependencies)


def standard_streams(job: Job) -> tuple[str, str, str]:
    """Absolute names of a batch job's stdin, stdout and stderr, as far as they are known before it runs."""
    spec = job.spec
    if not spec.is_batch:
        return "", "", ""
    fields = filenames.FilenameFields(
        job_id=job.id,
        user_name=spec.user_name,
        job_name=job.name,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        node=job.batch_host,
        node_index=0 if job.allocation else None,
        task=0,
    )
    default = filenames.DEFAULT_ARRAY_OUTPUT if spec.is_array else filenames.DEFAULT_OUTPUT
    std_out = _absolute(spec, filenames.fill(spec.std_out or default, fields))
    std_err = _absolute(spec, filenames.fill(spec.std_err, fields)) if spec.std_err else std_out
    std_in = _absolute(spec, filenames.fill(spec.std_in, fields)) if spec.std_in else "/dev/null"
    return std_in, std_out, std_err


def _absolute(spec: JobSpec, name: str) -> str:
    return name if name.startswith("/") else f"{spec.work_dir.rstrip('/')}/{name}"


def reserved_nodes(state: ClusterState, now: float) -> dict[NodeName, str]:
    """Flags of the nodes that reservations hold now: "+RESERVED", or "+MAINTENANCE+RESERVED"."""
    flags: dict[NodeName, str] = {}
    for reservation in state.reservations.values():
        if not reservation.is_active(now):
            continue
        maintenance = reservation.has(ReservationFlag.MAINT)
        for name in reservation.nodes:
            if maintenance:
                flags[name] = "+MAINTENANCE+RESERVED"
            else:
                flags.setdefault(name, "+RESERVED")
    return flags


def node_view(state: ClusterState, node: Node, flags: str = "") -> NodeView:
    completing = any(state.jobs[job_id].state is JobState.COMPLETING for job_id in node.jobs)
    address, pattern = state.topology.address(node.name)
    return NodeView(
        node=node,
        partitions=state.partitions_of_node.get(node.name, ()),
        state=display_state(node, completing, flags),
        topology_address=address,
        topology_pattern=pattern,
        completing=completing,
    )


def display_state(node: Node, completing: bool, flags: str = "") -> str:
    """Slurm's base state with its flags: ``MIXED``, ``IDLE+DRAIN``, ``DOWN*``; ``*``: not responding."""
    if node.state is NodeState.UNKNOWN:
        base = "UNKNOWN"
    elif node.state is NodeState.DOWN:
        base = "DOWN"
    elif node.cpus and node.cpus_used.bit_count() >= node.cpus:
        base = "ALLOCATED"
    elif node.jobs:
        base = "MIXED"
    else:
        base = "IDLE"
    if completing:
        base += "+COMPLETING"
    if node.drained:
        base += "+DRAIN"
    base += flags
    silent = not node.responding and node.state is not NodeState.UNKNOWN
    return base + ("*" if silent or node.state is NodeState.UNKNOWN else "")


def partition_view(state: ClusterState, partition: Partition) -> PartitionView:
    nodes = [state.nodes[name] for name in partition.nodes]
    by_type: Counter[str] = Counter()
    for node in nodes:
        for group in node.gpus:
            if group.type:
                by_type[group.type] += group.count
    return PartitionView(
        name=partition.name,
        nodes=partition.nodes,
        default=partition.default,
        state=state.partition_state(partition.name).value,
        max_time_s=partition.max_time_s,
        default_time_s=partition.default_time_s,
        max_nodes=partition.max_nodes,
        min_nodes=partition.min_nodes,
        priority_tier=partition.priority_tier,
        priority_job_factor=partition.priority_job_factor,
        default_memory_per_cpu_mib=partition.default_memory_per_cpu_mib,
        total_cpus=sum(node.cpus for node in nodes),
        total_memory_mib=sum(node.memory_mib for node in nodes),
        total_gpus=sum(node.gpu_count for node in nodes),
        gpus_by_type=dict(by_type),
        preempt_mode=mode_in(state, partition.name),
        preempt_grace_s=grace_in_s(state, partition.name),
        allow_accounts=partition.allow_accounts,
        deny_accounts=partition.deny_accounts,
        allow_qos=partition.allow_qos,
        deny_qos=partition.deny_qos,
        allow_groups=partition.allow_groups,
        qos=partition.qos,
        min_priority=partition.min_priority,
        max_priority=partition.max_priority,
    )
