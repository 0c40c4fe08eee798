"""May it happen, and what exactly happens? Reads the state, changes nothing."""

from __future__ import annotations

from minislurm.cluster import (
    checkpoints,
    follow,
    last_starts,
    node_messages,
    preemptions,
    requests,
    reservations,
    resizes,
    runs,
)
from minislurm.cluster.events import ClusterConfigured, Event, JobsPurged, RequestsForgotten
from minislurm.cluster.messages import (
    AvoidanceOver,
    CancelJob,
    ChangeAccounts,
    CheckpointDeadline,
    CheckpointDue,
    CheckpointFailed,
    CheckpointListener,
    CheckpointMade,
    Configure,
    CreateReservation,
    CreateStep,
    DeadlineReached,
    DeleteReservation,
    EligibilityDue,
    EndAllocation,
    HoldJob,
    LastStartPassed,
    Message,
    NodeAnswers,
    NodeGivenUp,
    NodeHealth,
    NodeReport,
    NodeSilent,
    PlacementProposed,
    PreemptionProposed,
    PrepareFailed,
    PrepareTimeout,
    PurgeDue,
    RegisterNode,
    ReleaseJob,
    RememberRequest,
    RequestCheckpoint,
    RequeueJob,
    ReservationDue,
    ResizeProposed,
    SignalDue,
    SignalJob,
    StepEnded,
    SubmitJob,
    SwitchWaitOver,
    TimeLimitReached,
    UpdateJob,
    UpdateNode,
    UpdatePartition,
    UpdateReservation,
)
from minislurm.cluster.state import ClusterState
from minislurm.cluster.submission import decide_submission
from minislurm.domain.errors import Refusal
from minislurm.domain.exhaustive import assert_never
from minislurm.domain.ids import JobId


def decide(state: ClusterState, message: Message, now: float) -> list[Event] | Refusal:
    match message:
        case SubmitJob():
            return decide_submission(state, message, now)
        case NodeReport():
            return runs.decide_report(state, message, now)
        case PlacementProposed():
            return runs.decide_placement(state, message, now)
        case PreemptionProposed():
            return preemptions.decide_preemption(state, message, now)
        case ResizeProposed():
            return resizes.decide_resize(state, message, now)
        case TimeLimitReached():
            return runs.decide_time_limit(state, message, now)
        case PrepareTimeout():
            return runs.decide_prepare_timeout(state, message, now)
        case CreateStep():
            return runs.decide_step(state, message, now)
        case StepEnded():
            return runs.decide_step_end(state, message, now)
        case CancelJob():
            return requests.decide_cancel(state, message, now)
        case SignalJob():
            return requests.decide_signal(state, message, now)
        case EndAllocation():
            return requests.decide_end_allocation(state, message, now)
        case HoldJob():
            return requests.decide_hold(state, message, now)
        case ReleaseJob():
            return requests.decide_release(state, message, now)
        case RequeueJob():
            return requests.decide_requeue(state, message, now)
        case UpdateJob():
            return requests.decide_update_job(state, message, now)
        case UpdateNode():
            return requests.decide_update_node(state, message, now)
        case UpdatePartition():
            return requests.decide_update_partition(state, message, now)
        case ChangeAccounts():
            return requests.decide_change_accounts(state, message, now)
        case RememberRequest():
            return requests.decide_remember(state, message, now)
        case RegisterNode():
            return node_messages.decide_registration(state, message, now)
        case NodeSilent():
            return node_messages.decide_silence(state, message, now)
        case NodeGivenUp():
            return node_messages.decide_given_up(state, message, now)
        case NodeHealth():
            return node_messages.decide_health(state, message, now)
        case AvoidanceOver():
            return node_messages.decide_avoidance(state, message, now)
        case NodeAnswers():
            return node_messages.decide_answer(state, message, now)
        case PrepareFailed():
            return runs.decide_prepare_failure(state, message, now)
        case SignalDue():
            return runs.decide_signal_due(state, message, now)
        case EligibilityDue():
            return follow.decide_eligibility(state, message, now)
        case CreateReservation():
            return reservations.decide_creation(state, message, now)
        case UpdateReservation():
            return reservations.decide_update(state, message, now)
        case DeleteReservation():
            return reservations.decide_deletion(state, message, now)
        case ReservationDue():
            return reservations.decide_due(state, message, now)
        case LastStartPassed():
            return last_starts.decide_last_start(state, message, now)
        case DeadlineReached():
            return last_starts.decide_deadline(state, message, now)
        case SwitchWaitOver():
            return follow.decide_switch_wait(state, message, now)
        case CheckpointMade():
            return checkpoints.decide_made(state, message, now)
        case CheckpointFailed():
            return checkpoints.decide_failed(state, message, now)
        case CheckpointListener():
            return checkpoints.decide_listener(state, message, now)
        case RequestCheckpoint():
            return requests.decide_request_checkpoint(state, message, now)
        case CheckpointDue():
            return checkpoints.decide_due(state, message, now)
        case CheckpointDeadline():
            return checkpoints.decide_deadline(state, message, now)
        case PurgeDue():
            return _purge(state, now)
        case Configure():
            return [ClusterConfigured(now, message.configuration)]
        case _:
            assert_never(message)


def _is_needed(state: ClusterState, job_id: JobId, oldest: float) -> bool:
    """Is it of a heterogeneous job that others of are still there, or depended on?"""
    ids = state.het_jobs.get(state.jobs[job_id].het_job_id, ()) if state.het_jobs else ()
    return any(j in state.dependents or state.ended.get(j, oldest + 1) > oldest for j in ids)


def _purge(state: ClusterState, now: float) -> list[Event]:
    events: list[Event] = []
    oldest = now - state.configuration.timers.min_job_age_s
    # A job that others still depend on by id is remembered until they have gone; components go together.
    old = tuple(
        j
        for j, ended in state.ended.items()
        if ended <= oldest and j not in state.dependents and not _is_needed(state, j, oldest)
    )
    if old:
        events.append(JobsPurged(now, old))
    forget_before = now - state.configuration.timers.request_memory_s
    requests_ = tuple(r.request_id for r in state.requests.values() if r.time <= forget_before)
    if requests_:
        events.append(RequestsForgotten(now, requests_))
    return events
