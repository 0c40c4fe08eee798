"""What users and operators ask of jobs, nodes and partitions that exist."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from msgspec.structs import replace

from minislurm.cluster.accounts import refuse_changes
from minislurm.cluster.eligibility import make_eligible
from minislurm.cluster.ending import end_run
from minislurm.cluster.events import (
    AccountsChanged,
    CheckpointRequested,
    Event,
    JobRequeued,
    JobSignalled,
    JobUpdated,
    NodeChanged,
    NodeWeightChanged,
    PartitionChanged,
    PartitionUpdated,
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
from minislurm.cluster.job_changes import change_job
from minislurm.cluster.messages import (
    Caller,
    CancelJob,
    ChangeAccounts,
    EndAllocation,
    HoldJob,
    ReleaseJob,
    RememberRequest,
    RequestCheckpoint,
    RequeueJob,
    SignalJob,
    UpdateJob,
    UpdateNode,
    UpdatePartition,
)
from minislurm.cluster.node_messages import SILENT
from minislurm.cluster.size_changes import change_bounds, fit_bounds, takes_nodes
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import BATCH_STEP, JobId
from minislurm.domain.job import EndCause, Job
from minislurm.domain.partition_settings import settings_problem
from minislurm.domain.states import JobState, NodeState, Reason
from minislurm.domain.views import JobTarget

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


def decide_request_checkpoint(state: ClusterState, message: RequestCheckpoint, now: float) -> Answer:
    """``scontrol checkpoint``, ``scheckpoint request``. A run that gives way is asked already."""
    jobs = find(state, message.target, message.caller)
    if isinstance(jobs, Refusal):
        return jobs
    running = [job for job in jobs if job.state is JobState.RUNNING]
    if not running:
        return Refusal(RefusalCode.JOB_NOT_RUNNING, job_id=message.target.job_id)
    able = [job for job in running if job.can_be_asked]
    if not able:
        return Refusal(RefusalCode.NO_CHECKPOINT, job_id=message.target.job_id)
    return [CheckpointRequested(now, job.id, job.run, "user") for job in able if not job.gives_way]


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
            changes = changes_of(job, message.changes)
            resizes = takes_nodes(job, changes)
            if isinstance(resizes, Refusal):
                return resizes
            refusal = None
            if resizes:
                refusal = change_bounds(state, changed, changes)
                changes = replace(changes, nodes_min=None, nodes_max=None)
            refusal = refusal or change_job(state, changed, job, changes, message.caller, now)
            if refusal is not None:
                return refusal
            events += [*before, JobUpdated(now, changed)]
            if resizes:
                events += fit_bounds(state, job, changed.request, now)
    return events or Refusal(RefusalCode.ALREADY_DONE, job_id=message.target.job_id)


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
    new_state, drained, given_up = node.state, node.drained, node.given_up
    match message.state:
        case "DRAIN":
            if not reason:
                return Refusal(RefusalCode.NOT_SUPPORTED, details=("You must specify a reason",))
            drained = True
        case "DOWN":
            if reason in ("", SILENT):  # by which it is told apart from a node that was lost
                return Refusal(RefusalCode.NOT_SUPPORTED, details=("You must specify a reason",))
            new_state = NodeState.DOWN
            # An operator knows that a silent node is dead; one that answers says itself when its runs are
            # gone.
            given_up = given_up or not node.responding
        case "RESUME" | "UNDRAIN" | "IDLE":
            drained, reason, since, by = False, "", 0.0, 0
            if node.responding:
                new_state, given_up = NodeState.UP, False
        case None:
            pass
        case _:
            return Refusal(RefusalCode.NOT_SUPPORTED)
    events: list[Event] = []
    if message.weight is not None:
        events.append(NodeWeightChanged(now, node.name, message.weight))
    if message.weight is None or message.state is not None or message.reason is not None:
        changed = NodeChanged(now, node.name, new_state, node.responding, drained, reason, since, by)
        events.append(replace(changed, given_up=given_up))
    return events


def decide_update_partition(state: ClusterState, message: UpdatePartition, now: float) -> Answer:
    if not message.caller.is_operator:
        return Refusal(RefusalCode.ACCESS)
    configured = state.configuration.partition(message.name)
    if configured is None:
        return Refusal(RefusalCode.INVALID_PARTITION)
    events: list[Event] = []
    if message.settings:
        settings = {**state.partition_settings.get(message.name, {}), **message.settings}
        problem = settings_problem(configured, settings)
        if problem:
            return Refusal(RefusalCode.INVALID_PARTITION_SETTING, details=(problem,))
        qos, tree = message.settings.get("qos"), state.accounts.tree
        if qos and not tree.is_empty and qos not in tree.qos:
            return Refusal(RefusalCode.INVALID_QOS)
        events.append(PartitionUpdated(now, message.name, settings))
    if message.state is not None:
        events.append(PartitionChanged(now, message.name, message.state))
    return events


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
