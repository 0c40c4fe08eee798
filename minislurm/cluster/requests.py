"""What users and operators ask of jobs, nodes and partitions that exist."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy

from msgspec.structs import replace

from minislurm.cluster import dependencies, reservations
from minislurm.cluster.accounts import refuse_changes
from minislurm.cluster.ending import end_run
from minislurm.cluster.events import (
    AccountsChanged,
    Event,
    JobRequeued,
    JobSignalled,
    JobUpdated,
    NodeChanged,
    NodeWeightChanged,
    PartitionChanged,
    PendingEnded,
    RequestHandled,
    TaskDetached,
)
from minislurm.cluster.het_jobs import (
    changes_of,
    concerns_all,
    decide_cancel_all,
    ended_for_good,
    leader_last,
    refuse_part,
)
from minislurm.cluster.messages import (
    Caller,
    CancelJob,
    ChangeAccounts,
    EndAllocation,
    HoldJob,
    ReleaseJob,
    RememberRequest,
    RequeueJob,
    SignalJob,
    UpdateJob,
    UpdateNode,
    UpdatePartition,
)
from minislurm.cluster.node_messages import SILENT
from minislurm.cluster.state import ClusterState
from minislurm.cluster.submission import check_request, is_deadline, is_time_limit, refuse_bid
from minislurm.domain import hostlist
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import BATCH_STEP, JobId, NodeName
from minislurm.domain.job import EndCause, Job
from minislurm.domain.reservation import parse_licenses
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.states import JobState, NodeState, Reason
from minislurm.domain.views import JobChanges, JobTarget

_SIGKILL = 9
Answer = list[Event] | Refusal


def find(
    state: ClusterState, target: JobTarget, caller: Caller, *, whole: bool = False
) -> list[Job] | Refusal:
    """The records a target names: a job; an array's records (its id alone); or the records of some tasks,
    where the undivided rest stands for those that have no record of their own; the components of a
    heterogeneous job (its id alone), or one of them. `whole`: not one alone of these."""
    job = state.jobs.get(target.job_id)
    if job is not None and job.is_component and not target.tasks:
        records = _components(state, job, target)
    elif target.job_id in state.arrays:
        records = list(state.array_records(target.job_id))
        if target.tasks:
            wanted = set(target.tasks)
            records = [r for r in records if r.array_task_id in wanted or wanted & set(r.pending_tasks)]
    else:
        plain = job is not None and not target.tasks and target.het_offset is None
        records = [job] if job is not None and plain else []
    if not records:
        return Refusal(RefusalCode.INVALID_JOB_ID, job_id=target.job_id)
    if not caller.is_operator and any(r.spec.user_id != caller.user_id for r in records):
        return Refusal(RefusalCode.ACCESS, job_id=target.job_id)
    return (refuse_part(target, records[0]) if whole else None) or records


def _components(state: ClusterState, job: Job, target: JobTarget) -> list[Job]:
    """The leader's id means all components; with an offset, or with a component's own id, it is that one."""
    if target.het_offset is None:
        return state.components(job) if job.is_leader and target.step_id is None else [job]
    if not job.is_leader:
        return []
    return [one for one in state.components(job) if one.het_job_offset == target.het_offset]


def _detach(state: ClusterState, rest: Job, tasks: Iterable[int], now: float) -> list[Event]:
    """Events that give each of these pending tasks a record of its own."""
    events: list[Event] = []
    next_id, left = state.next_job_id, len(rest.pending_tasks)
    for task_id in tasks:
        left -= 1
        job_id = rest.id if not left else next_id
        events.append(TaskDetached(now, rest.id, task_id, job_id))
        next_id = JobId(next_id + 1)
    return events


def _named_part(rest: Job, target: JobTarget) -> list[int]:
    """The tasks of an undivided rest that a target names; [] if it names all of it."""
    if not target.tasks or set(rest.pending_tasks) <= set(target.tasks):
        return []
    return [t for t in rest.pending_tasks if t in set(target.tasks)]


# Ending and signalling


def decide_cancel(state: ClusterState, message: CancelJob, now: float) -> Answer:
    records = find(state, message.target, message.caller)
    if isinstance(records, Refusal):
        return records
    events: list[Event] = []
    if len(records) > 1 and records[0].is_component:
        batch_only = message.batch_only
        events = decide_cancel_all(state, records, message.caller.user_id, now, batch_only=batch_only)
        return events or Refusal(RefusalCode.ALREADY_DONE, job_id=message.target.job_id)
    refusal = refuse_part(message.target, records[0]) if records[0].state is JobState.PENDING else None
    if refusal is not None:
        return refusal
    for job in records:
        events += _cancel(state, job, message, now)
    return events or Refusal(RefusalCode.ALREADY_DONE, job_id=message.target.job_id)


def _cancel(state: ClusterState, job: Job, message: CancelJob, now: float) -> list[Event]:
    user_id = message.caller.user_id
    if job.state is JobState.PENDING:
        part = _named_part(job, message.target)
        if part:
            detached = _detach(state, job, part, now)
            ends: list[Event] = [
                PendingEnded(now, d.job_id, JobState.CANCELLED, job.reason, user_id)
                for d in detached
                if isinstance(d, TaskDetached)
            ]
            return [*detached, *ends]
        return [PendingEnded(now, job.id, JobState.CANCELLED, job.reason, user_id)]
    if job.state.is_final:
        return []
    if job.state is JobState.COMPLETING:
        if not job.requeue_cause:
            return []
        # It was on its way back to PENDING; now it stays ended.
        return [JobUpdated(now, ended_for_good(job, user_id))]
    if message.batch_only and job.spec.is_batch:
        return [end_run(state, job, EndCause.BATCH_KILLED, now)]
    return [end_run(state, job, EndCause.CANCEL, now, cancelled_by=user_id)]


def decide_signal(state: ClusterState, message: SignalJob, now: float) -> Answer:
    if message.signal == _SIGKILL and message.target.step_id is None and not message.batch_only:
        return decide_cancel(state, CancelJob(message.target, message.caller), now)
    records = find(state, message.target, message.caller)
    if isinstance(records, Refusal):
        return records
    step_id = BATCH_STEP if message.batch_only else message.target.step_id
    if message.batch_only and records[0].is_leader:
        records = records[:1]  # the others have no script
    events: list[Event] = []
    for job in records:
        if job.state is JobState.RUNNING:
            if step_id is not None and step_id != BATCH_STEP and step_id not in job.steps:
                return Refusal(RefusalCode.INVALID_JOB_ID, job_id=job.id)
            events.append(JobSignalled(now, job.id, job.run, message.signal, step_id, message.full))
        elif not job.state.is_final and len(records) == 1:
            return Refusal(RefusalCode.TRY_LATER, job_id=job.id)
    return events or Refusal(RefusalCode.INVALID_JOB_ID, job_id=message.target.job_id)


def decide_end_allocation(state: ClusterState, message: EndAllocation, now: float) -> Answer:
    job = state.jobs.get(message.job_id)
    if job is None:
        return Refusal(RefusalCode.INVALID_JOB_ID, job_id=message.job_id)
    if job.spec.user_id != message.caller.user_id and not message.caller.is_operator:
        return Refusal(RefusalCode.ACCESS, job_id=job.id)
    if job.is_batch:
        return Refusal(RefusalCode.NOT_SUPPORTED, job_id=job.id)
    if job.state is JobState.PENDING:
        return [PendingEnded(now, job.id, JobState.CANCELLED, job.reason, message.caller.user_id)]
    if job.state not in (JobState.CONFIGURING, JobState.RUNNING):
        return []
    if message.lost:
        return [end_run(state, job, EndCause.CANCEL, now, cancelled_by=message.caller.user_id)]
    return [
        end_run(state, job, EndCause.EXIT, now, exit_code=message.exit_code, exit_signal=message.exit_signal)
    ]


# Holding, releasing, requeueing


def decide_hold(state: ClusterState, message: HoldJob, now: float) -> Answer:
    records = find(state, message.target, message.caller, whole=True)
    if isinstance(records, Refusal):
        return records
    held = "user" if message.by_user or not message.caller.is_operator else "admin"
    events: list[Event] = []
    for job in leader_last(records):
        if job.state is not JobState.PENDING:
            continue
        for changed, before in _pending_copies(state, job, message.target, now):
            # An operator's hold stays one: its user could lift their own.
            changed.held = held if message.caller.is_operator else job.held or held
            changed.eligible_time = 0.0
            changed.reason = Reason.HELD_USER if changed.held == "user" else Reason.HELD_ADMIN
            events += [*before, JobUpdated(now, changed)]
    return events or Refusal(RefusalCode.JOB_NOT_PENDING, job_id=message.target.job_id)


def _pending_copies(
    state: ClusterState, job: Job, target: JobTarget, now: float
) -> list[tuple[Job, list[Event]]]:
    """Copies to change of a pending record, or of the tasks of it that the target names, each with the
    events that must come first."""
    part = _named_part(job, target)
    if not part:
        return [(_copy(job), [])]
    copies: list[tuple[Job, list[Event]]] = []
    for detached in _detach(state, job, part, now):
        assert isinstance(detached, TaskDetached)
        task = _copy(job)
        task.id, task.array_task_id, task.pending_tasks = detached.job_id, detached.task_id, []
        task.array_job_id = job.id
        copies.append((task, [detached]))
    return copies


def _copy(job: Job) -> Job:
    copied = copy(job)
    copied.pending_tasks = list(job.pending_tasks)
    return copied


def decide_release(state: ClusterState, message: ReleaseJob, now: float) -> Answer:
    records = find(state, message.target, message.caller, whole=True)
    if isinstance(records, Refusal):
        return records
    events: list[Event] = []
    for job in leader_last(records):
        if job.state is not JobState.PENDING:
            continue
        if job.held == "admin" and not message.caller.is_operator:
            return Refusal(RefusalCode.ACCESS, job_id=job.id)
        for changed, before in _pending_copies(state, job, message.target, now):
            changed.held = ""
            make_eligible(changed, now)
            events += [*before, JobUpdated(now, changed)]
    return events or Refusal(RefusalCode.JOB_NOT_PENDING, job_id=message.target.job_id)


def make_eligible(job: Job, now: float) -> None:
    """Sets a copy's eligible time and reason from what still holds it back."""
    if job.held:
        job.eligible_time = 0.0
        return
    if job.dependencies:
        job.eligible_time, job.reason = 0.0, Reason.DEPENDENCY
    elif job.begin_time > now:
        job.eligible_time, job.reason = 0.0, Reason.BEGIN_TIME
    else:
        job.eligible_time, job.reason = job.eligible_time or now, Reason.NONE


def decide_requeue(state: ClusterState, message: RequeueJob, now: float) -> Answer:
    records = find(state, message.target, message.caller, whole=True)
    if isinstance(records, Refusal):
        return records
    events: list[Event] = []
    refusal: Refusal | None = None
    for job in records[:1] if records[0].is_component else records:
        answer = _requeue(state, job, message, now)
        if isinstance(answer, Refusal):
            refusal = answer
        else:
            events.append(answer)
    return events or refusal or []


def _requeue(state: ClusterState, job: Job, message: RequeueJob, now: float) -> Event | Refusal:
    if not job.is_batch:
        return Refusal(RefusalCode.NOT_BATCH, job_id=job.id)
    if not job.requeue:
        return Refusal(RefusalCode.DISABLED, job_id=job.id)
    if job.state is JobState.PENDING:
        return Refusal(RefusalCode.JOB_PENDING, job_id=job.id)
    if job.state.is_final:
        return JobRequeued(now, job.id, message.hold)
    if job.state is JobState.COMPLETING:
        changed = copy(job)
        changed.requeue_cause, changed.requeue_held = "user", message.hold
        return JobUpdated(now, changed)
    return end_run(state, job, EndCause.REQUEUE, now, hold=message.hold)


# Changing


def decide_update_job(state: ClusterState, message: UpdateJob, now: float) -> Answer:
    records = find(state, message.target, message.caller)
    if isinstance(records, Refusal):
        return records
    events: list[Event] = []
    if concerns_all(message.changes):
        refusal = refuse_part(message.target, records[0])
        if refusal is not None:
            return refusal
    for job in leader_last(records):
        if job.state.is_final:
            continue
        copies = (
            _pending_copies(state, job, message.target, now)
            if job.state is JobState.PENDING
            else [(_copy(job), [])]
        )
        for changed, before in copies:
            refusal = _change(state, changed, changes_of(job, message.changes), message.caller, now)
            if refusal is not None:
                return refusal
            events += [*before, JobUpdated(now, changed)]
    return events or Refusal(RefusalCode.ALREADY_DONE, job_id=message.target.job_id)


def _change(state: ClusterState, job: Job, changes: JobChanges, caller: Caller, now: float) -> Refusal | None:
    """Makes the changes on a copy; the first that may not be made refuses all of them."""
    pending = job.state is JobState.PENDING
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
        if not caller.is_operator:
            return Refusal(RefusalCode.ACCESS, job_id=job.id)
        job.priority = changes.priority
    if changes.site_factor is not None:
        if not caller.is_operator:
            return Refusal(RefusalCode.ACCESS, job_id=job.id)
        job.site_factor = changes.site_factor
    if changes.bid is not None:
        if not pending:
            return Refusal(RefusalCode.JOB_NOT_PENDING, job_id=job.id)
        job.bid = changes.bid
    if changes.time_limit_s is not None:
        if not is_time_limit(changes.time_limit_s):
            return Refusal(RefusalCode.INVALID_TIME_LIMIT, job_id=job.id)
        longer = (changes.time_limit_s or math.inf) > (job.time_limit_s or math.inf)  # 0: none
        if not pending and longer and not caller.is_operator:
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
    refusal = _change_dependencies(state, job, changes)
    if refusal is None:
        refusal = _change_request(state, job, changes)
    if refusal is None and (changes.bid is not None or changes.partition):
        refusal = refuse_bid(state, job.bid, job.partition)
    if refusal is None and pending:
        if changes.begin_time is not None and changes.begin_time > now:
            job.eligible_time = 0.0
        make_eligible(job, now)
    return refusal


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


def _change_request(state: ClusterState, job: Job, changes: JobChanges) -> Refusal | None:
    try:
        request = _changed_request(job.request, changes)
    except ValueError:  # a hostlist that is none
        return Refusal(RefusalCode.INVALID_NODE_NAME, job_id=job.id)
    try:
        request = _changed_claims(request, changes)
    except ValueError:
        return Refusal(RefusalCode.INVALID_LICENSES, job_id=job.id)
    partition = changes.partition or job.partition
    if request == job.request and partition == job.partition:
        return None
    if job.state is not JobState.PENDING:
        return Refusal(RefusalCode.JOB_NOT_PENDING, job_id=job.id)
    found = state.partitions.get(partition)
    if found is None:
        return Refusal(RefusalCode.INVALID_PARTITION, job_id=job.id)
    refusal = check_request(state, request, found)
    if refusal is None:
        job.changed_request, job.partition = request, partition
        refusal = reservations.refuse_use(state, job, found.nodes)
    return refusal


def _changed_request(request: ResourceRequest, changes: JobChanges) -> ResourceRequest:
    nodes_min = request.nodes_min if changes.nodes_min is None else changes.nodes_min
    nodes_max = request.nodes_max if changes.nodes_max is None else changes.nodes_max
    if changes.nodes_min is not None and changes.nodes_max is None:
        nodes_max = nodes_min
    tasks = request.tasks if changes.tasks is None else changes.tasks
    if changes.tasks is None and request.tasks == request.nodes_min:
        tasks = nodes_min  # one task a node, as it was
    changed = replace(request, nodes_min=nodes_min, nodes_max=nodes_max, tasks=max(tasks, nodes_min))
    follow = request.tasks_follow_nodes and changes.tasks is None and nodes_min < nodes_max
    changed = replace(changed, tasks_follow_nodes=follow)
    if changes.cpus_per_task is not None:
        changed = replace(changed, cpus_per_task=changes.cpus_per_task)
    if changes.features is not None:
        changed = replace(changed, features=changes.features)
    if changes.required_nodes is not None:
        changed = replace(changed, required_nodes=_names(changes.required_nodes))
    if changes.excluded_nodes is not None:
        changed = replace(changed, excluded_nodes=_names(changes.excluded_nodes))
    if changes.memory_per_node_mib is not None:
        changed = replace(changed, memory_per_node_mib=changes.memory_per_node_mib, memory_per_cpu_mib=0)
    if changes.memory_per_cpu_mib is not None:
        changed = replace(changed, memory_per_cpu_mib=changes.memory_per_cpu_mib, memory_per_node_mib=0)
    return changed


def _changed_claims(request: ResourceRequest, changes: JobChanges) -> ResourceRequest:
    """Reservation and licenses; "" takes them away. Raises ValueError."""
    if changes.reservation is not None:
        request = replace(request, reservation=changes.reservation)
    if changes.licenses is not None:
        wanted = parse_licenses(changes.licenses) if changes.licenses else ()
        request = replace(request, licenses=wanted)
    return request


def _names(text: str) -> tuple[NodeName, ...]:
    return tuple(NodeName(name) for name in hostlist.expand(text))


def decide_update_node(state: ClusterState, message: UpdateNode, now: float) -> Answer:
    node = state.nodes.get(message.node)
    if not message.caller.is_operator:
        return Refusal(RefusalCode.ACCESS)
    if node is None:
        return Refusal(RefusalCode.INVALID_NODE_NAME)
    reason = node.reason if message.reason is None else message.reason
    since, by = (node.reason_time, node.reason_user_id)
    if message.reason is not None:
        since, by = now, message.caller.user_id
    new_state, drained = node.state, node.drained
    match message.state:
        case "DRAIN":
            if not reason:
                return Refusal(RefusalCode.NOT_SUPPORTED, details=("You must specify a reason",))
            drained = True
        case "DOWN":
            if reason in ("", SILENT):  # by which it is told apart from a node that was lost
                return Refusal(RefusalCode.NOT_SUPPORTED, details=("You must specify a reason",))
            new_state = NodeState.DOWN
        case "RESUME" | "UNDRAIN" | "IDLE":
            drained, reason, since, by = False, "", 0.0, 0
            if node.responding:
                new_state = NodeState.UP
        case None:
            pass
        case _:
            return Refusal(RefusalCode.NOT_SUPPORTED)
    events: list[Event] = []
    if message.weight is not None:
        events.append(NodeWeightChanged(now, node.name, message.weight))
    if message.weight is None or message.state is not None or message.reason is not None:
        events.append(NodeChanged(now, node.name, new_state, node.responding, drained, reason, since, by))
    return events


def decide_update_partition(state: ClusterState, message: UpdatePartition, now: float) -> Answer:
    if not message.caller.is_operator:
        return Refusal(RefusalCode.ACCESS)
    if message.name not in state.partitions:
        return Refusal(RefusalCode.INVALID_PARTITION)
    return [PartitionChanged(now, message.name, message.state)]


def decide_change_accounts(state: ClusterState, message: ChangeAccounts, now: float) -> Answer:
    if message.request_id and message.request_id in state.requests:
        return []
    if not message.caller.is_operator:
        return Refusal(RefusalCode.ACCESS)
    if message.version != state.accounts.version:
        return Refusal(RefusalCode.ACCOUNTS_CHANGED)
    if message.changes.is_empty:
        return []
    refusal = refuse_changes(state.accounts, message.changes, state.jobs.values())
    return refusal or [AccountsChanged(now, message.changes, message.request_id)]


def decide_remember(state: ClusterState, message: RememberRequest, now: float) -> Answer:
    if not message.request_id or message.request_id in state.requests:
        return []
    return [RequestHandled(now, message.request_id)]
