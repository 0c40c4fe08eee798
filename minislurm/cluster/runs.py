"""What happens to runs: placed, prepared, started, ended, as nodes and timers tell."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from msgspec.structs import replace

from minislurm.cluster import licenses, reservations, resizes
from minislurm.cluster.accounts import components_hit, may_pay, placement_hit
from minislurm.cluster.checkpoints import cause_of_leaving, has_left_to_give_way
from minislurm.cluster.eligibility import latest_start
from minislurm.cluster.ending import end_run
from minislurm.cluster.events import (
    Event,
    JobSignalled,
    NodePrepared,
    NodeReleased,
    RunPlaced,
    RunStarted,
    StaleRunEnded,
    StepCreated,
    StepNodeEnded,
    TaskDetached,
)
from minislurm.cluster.het_jobs import starts_of_others
from minislurm.cluster.messages import (
    CreateStep,
    NodeReport,
    PlacementProposed,
    PrepareFailed,
    PrepareTimeout,
    RunReport,
    SignalDue,
    StepEnded,
    TimeLimitReached,
)
from minislurm.cluster.room import fits, has_room
from minislurm.cluster.spares import split
from minislurm.cluster.state import ClusterState
from minislurm.domain import layout
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import Bitmap, JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import EndCause, Job, Step
from minislurm.domain.node import Node
from minislurm.domain.states import JobState
from minislurm.domain.views import StepRequest
from minislurm.scheduling.model import Asked, Placement

Answer = list[Event] | Refusal


def current(state: ClusterState, job_id: JobId, run: RunNumber) -> Job | None:
    """The job, if this is its current run; whatever is said of another run is dropped."""
    job = state.jobs.get(job_id)
    return job if job is not None and job.run == run and job.state.holds_nodes else None


# Placing


def decide_placement(state: ClusterState, message: PlacementProposed, now: float) -> Answer:
    """A plan's placement, checked against the state of this moment: what no longer fits is dropped."""
    placement = message.placement
    job = state.jobs.get(placement.job_id)
    if job is None or not _may_start(state, job, placement, now):
        return Refusal(RefusalCode.TRY_LATER, job_id=placement.job_id)
    if job.is_component:
        return _decide_components(state, job, message, now)
    run = RunNumber(job.run + 1)
    if placement.task_id is None:
        return [_run_placed(message, job, job.id, run, now)]
    if placement.task_id not in job.pending_tasks or not array_slots(state, job):
        return Refusal(RefusalCode.TRY_LATER, job_id=placement.job_id)
    # The last task keeps the array's own record and id.
    task_id = job.id if len(job.pending_tasks) == 1 else state.next_job_id
    return [
        TaskDetached(now, job.id, placement.task_id, task_id),
        _run_placed(message, job, task_id, run, now),
    ]


def _may_start(state: ClusterState, job: Job, placement: Placement, now: float) -> bool:
    if job.id not in state.queue or not fits(state, placement.allocation):
        return False
    names = [part.node for part in placement.allocation]
    return (
        placement.asked in (None, Asked(job.request, job.partition, job.time_limit_s))
        and now <= latest_start(job)
        and reservations.may_run(state, job, names, now)
        and licenses.has_licenses(state, job)
        and licenses.may_share(state, job, names)
        and placement_hit(state.accounts, job, placement.allocation, state.nodes) is None
        and may_pay(state.accounts, job, placement.price, now)
    )


def _decide_components(state: ClusterState, leader: Job, message: PlacementProposed, now: float) -> Answer:
    """A heterogeneous job starts whole or not at all: what each component may, all must together."""
    placements = (message.placement, *message.placement.parts)
    components = state.components(leader)
    whole = [placement.job_id for placement in placements] == [job.id for job in components]
    placed = list(zip(components, placements, strict=False))
    if not (
        whole
        and all(_may_start(state, job, placement, now) for job, placement in placed[1:])
        and _fit_together(state, placements)
        and licenses.has_licenses(state, *components)
        and components_hit(state.accounts, [(job, p.allocation) for job, p in placed], state.nodes) is None
    ):
        return Refusal(RefusalCode.TRY_LATER, job_id=leader.id)
    return [
        _run_placed(replace(message, placement=placement), job, job.id, RunNumber(job.run + 1), now)
        for job, placement in placed
    ]


def _fit_together(state: ClusterState, placements: Iterable[Placement]) -> bool:
    """Nothing of a node twice, where several components are on it."""
    nodes: dict[NodeName, Node] = {}
    for part in chain.from_iterable(placement.allocation for placement in placements):
        node = nodes.get(part.node)
        if node is None:
            known = state.nodes[part.node]
            node = nodes[part.node] = replace(known, gpu_shares=dict(known.gpu_shares))
        if not has_room(node, part):
            return False
        node.cpus_used = Bitmap(node.cpus_used | part.cpus)
        node.memory_used_mib += part.memory_mib
        node.take_gpus(part)
    return True


def _run_placed(message: PlacementProposed, job: Job, job_id: JobId, run: RunNumber, now: float) -> RunPlaced:
    """`job_id`: of an array's task not yet that of `job`."""
    placement = message.placement
    allocation, spares = split(job, placement.allocation)
    return RunPlaced(
        now, job_id, run, allocation, message.pending_reason,
        placement.priority or message.priority, placement.price, spares=spares,
    )  # fmt: skip


def array_slots(state: ClusterState, rest: Job) -> int:
    """How many tasks of an array may start now under its limit."""
    if not rest.array_limit:
        return len(rest.pending_tasks)
    live = state.arrays[rest.id].live
    running = sum(1 for job_id in live if state.jobs[job_id].state.holds_nodes)
    return max(0, min(len(rest.pending_tasks), rest.array_limit - running))


# Nodes report


def decide_report(state: ClusterState, message: NodeReport, now: float) -> Answer:
    report = message.report
    stale = _stale(state, message, now)
    job = current(state, report.job_id, report.run)
    if stale or job is None or message.node not in [p.node for p in (*job.allocation, *job.joining)]:
        return stale
    match report.phase:
        case "RUNNING":
            return _running(job, report, now)
        case "EXITED":
            return _exited(state, job, message, now)
        case "PREPARED":
            return _prepared(state, job, message.node, now)
        case "CLEAN":
            return _clean(job, message.node, now)
    raise AssertionError(f"unknown phase {report.phase!r}")


def _stale(state: ClusterState, message: NodeReport, now: float) -> list[Event]:
    """A report of a run that is no longer the node's own: dropped, but for its being gone."""
    report, node = message.report, state.nodes[message.node]
    if not node.stale_runs or not (message.clean or report.phase == "CLEAN"):
        return []
    key = f"{report.job_id}.{report.run}"
    return [StaleRunEnded(now, node.name, key)] if key in node.stale_runs else []


def _prepared(state: ClusterState, job: Job, node: NodeName, now: float) -> list[Event]:
    if job.joins_in_place:
        return resizes.joined(job, node, now)
    if job.state is not JobState.CONFIGURING or node in job.prepared_nodes:
        return []
    events: list[Event] = [NodePrepared(now, job.id, job.run, node)]
    complete = len(job.prepared_nodes) + 1 == len(job.allocation)
    if complete and job.is_component:
        events += starts_of_others(state, job, now)
    elif complete and not job.spec.is_batch:
        # An allocation without a script runs from the moment all its nodes are ready.
        events.append(RunStarted(now, job.id, job.run))
    return events


def _running(job: Job, report: RunReport, now: float) -> list[Event]:
    if job.state is not JobState.CONFIGURING:
        return []
    return [RunStarted(report.start_time or now, job.id, job.run)]


def _exited(state: ClusterState, job: Job, message: NodeReport, now: float) -> list[Event]:
    report = message.report
    if message.node != job.batch_host or not job.spec.is_batch:
        return _clean(job, message.node, now) if message.clean else []
    if job.state is JobState.COMPLETING:
        return _clean(job, message.node, now) if message.clean else []
    if report.node_lost:
        released = (message.node,) if message.clean else ()
        return [end_run(state, job, EndCause.NODE_FAIL, now, released_nodes=released)]
    left = has_left_to_give_way(job, now) and not report.launch_failed
    return [
        end_run(
            state,
            job,
            cause_of_leaving(job) if left else EndCause.EXIT,
            now,
            preemptor=job.preemptor if left else None,
            comes_back=job.comes_back if left else "",
            exit_code=report.exit_code,
            exit_signal=report.exit_signal,
            released_nodes=(message.node,) if message.clean else (),
            end_time=report.end_time,
            launch_failed=report.launch_failed,
            out_of_memory=report.out_of_memory,
        )
    ]


def _clean(job: Job, node: NodeName, now: float) -> list[Event]:
    if job.state is JobState.COMPLETING and node in job.open_nodes:
        return [NodeReleased(now, job.id, job.run, node)]
    if job.state is JobState.RUNNING and node in job.leaving:
        return resizes.left(job, node, now)
    return []


def decide_prepare_failure(state: ClusterState, message: PrepareFailed, now: float) -> Answer:
    job = current(state, message.job_id, message.run)
    if job is not None and job.joins_in_place and message.node in [part.node for part in job.joining]:
        return resizes.not_joined(job, (message.node,), now)
    if job is None or job.state is not JobState.CONFIGURING:
        return []
    if message.job_fault:
        return [end_run(state, job, EndCause.EXIT, now, exit_code=1, launch_failed=True)]
    failed = (message.node,)
    kept = resizes.keep_the_rest(state, job, failed, resizes.LAUNCH_FAILURE, now)
    return [*kept, end_run(state, job, EndCause.LAUNCH_FAILURE, now, avoid_nodes=failed)]


def decide_prepare_timeout(state: ClusterState, message: PrepareTimeout, now: float) -> Answer:
    """The gang starts nowhere. Silent nodes of a gang never got START, so they are not waited for; a run on
    a single node starts by itself, so it is over only when the node has answered or is lost."""
    job = current(state, message.job_id, message.run)
    if job is not None and job.joins_in_place:
        return resizes.decide_timeout(state, job, now)
    if job is None or job.state is not JobState.CONFIGURING:
        return []
    if len(job.prepared_nodes) == len(job.allocation):
        return []  # START is on its way
    silent = tuple(p.node for p in job.allocation if p.node not in job.prepared_nodes)
    released = () if job.starts_by_itself else silent
    kept = resizes.keep_the_rest(state, job, silent, resizes.LAUNCH_FAILURE, now)
    cause = EndCause.LAUNCH_FAILURE
    return [*kept, end_run(state, job, cause, now, avoid_nodes=silent, released_nodes=released)]


# Timers


def decide_time_limit(state: ClusterState, message: TimeLimitReached, now: float) -> Answer:
    job = current(state, message.job_id, message.run)
    if job is None or job.state is not JobState.RUNNING or job.expected_end_time > now:
        return []
    return [end_run(state, job, EndCause.TIME_LIMIT, now)]


def decide_signal_due(state: ClusterState, message: SignalDue, now: float) -> Answer:
    job = current(state, message.job_id, message.run)
    asked = job.spec.signal if job is not None else None
    if job is None or asked is None or job.signal_sent or job.state is not JobState.RUNNING:
        return []
    if job.expected_end_time - asked.seconds_before > now:
        return []  # the limit was changed; another timer is set
    step_id = StepId(-1) if asked.batch_shell_only else None
    return [JobSignalled(now, job.id, job.run, asked.signal, step_id, before_end=True)]


# Steps


def decide_step(state: ClusterState, message: CreateStep, now: float) -> Answer:
    request = message.request
    job = state.jobs.get(request.job_id)
    if message.request_id and message.request_id in state.requests:
        return []
    if job is None:
        return Refusal(RefusalCode.INVALID_JOB_ID, job_id=request.job_id)
    if job.spec.user_id != message.caller.user_id and not message.caller.is_operator:
        return Refusal(RefusalCode.ACCESS, job_id=job.id)
    if job.state.is_final or job.state is JobState.COMPLETING:
        return Refusal(RefusalCode.EXPIRED, job_id=job.id)
    if job.state is not JobState.RUNNING:
        return Refusal(RefusalCode.JOB_PENDING, job_id=job.id)
    if job.next_step_id >= state.configuration.limits.max_step_count:
        return Refusal(RefusalCode.NOT_SUPPORTED, job_id=job.id)
    placed = place_step(job, request)
    if isinstance(placed, Refusal):
        return placed
    nodes, counts = placed
    step = Step(
        id=job.next_step_id,
        name=request.name,
        nodes=nodes,
        tasks=sum(counts),
        tasks_per_node=counts,
        start_time=now,
        open_nodes=nodes,
        time_limit_s=request.time_limit_s,
    )
    return [StepCreated(now, job.id, job.run, step, message.request_id)]


def place_step(job: Job, request: StepRequest) -> tuple[tuple[NodeName, ...], tuple[int, ...]] | Refusal:
    """Which nodes of the allocation, and how many tasks on each. Steps share the allocation's CPUs."""
    if request.nodes == 0 or request.tasks == 0:
        return Refusal(RefusalCode.INVALID_NODE_COUNT, job_id=job.id)
    parts = [p for p in job.allocation if p.node not in (*request.excluded_nodes, *job.leaving)]
    if request.node_list:
        held = {p.node for p in job.allocation}
        if any(name not in held for name in request.node_list):
            return Refusal(RefusalCode.STEP_NODES, job_id=job.id)
        parts = [p for p in parts if p.node in request.node_list]
    count = request.nodes if request.nodes is not None else len(parts)
    if request.nodes is None and request.tasks is not None:
        count = min(count, request.tasks)
    if count > len(parts) or not parts:
        detail = f"Only allocated {len(parts)} nodes asked for {count}"
        return Refusal(RefusalCode.STEP_NODE_COUNT, details=(detail,), job_id=job.id)
    parts = parts[:count]
    cpus_per_task = request.cpus_per_task or 1
    room = [max(part.cpu_count // cpus_per_task, 0) for part in parts]
    if request.tasks is None:
        each = request.tasks_per_node or 1
        counts = [each] * count
    else:
        most = [min(r, request.tasks_per_node) if request.tasks_per_node else r for r in room]
        try:
            counts = list(layout.task_layout(request.tasks, most))
        except ValueError:
            return Refusal(RefusalCode.STEP_TOO_MANY_TASKS, job_id=job.id)
    if any(c > r for c, r in zip(counts, room, strict=True)):
        return Refusal(RefusalCode.STEP_TOO_MANY_TASKS, job_id=job.id)
    return tuple(p.node for p in parts), tuple(counts)


def decide_step_end(state: ClusterState, message: StepEnded, now: float) -> Answer:
    job = current(state, message.job_id, message.run)
    step = job.steps.get(message.step_id) if job is not None else None
    if job is None or step is None or message.node not in step.open_nodes:
        return []
    return [
        StepNodeEnded(now, job.id, job.run, step.id, (message.node,), message.exit_code, message.exit_signal)
    ]
