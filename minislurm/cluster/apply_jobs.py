"""What facts make of a job's record: submitted, changed, requeued, ended before it ran, forgotten."""

from __future__ import annotations

from msgspec.structs import replace

from minislurm.cluster.events import (
    JobRequeued,
    JobSubmitted,
    PendingEnded,
    TaskDetached,
)
from minislurm.cluster.state import ArraySummary, ClusterState, RequestRecord
from minislurm.domain.ids import JobId, StepId
from minislurm.domain.job import Job
from minislurm.domain.states import JobState, Reason


def touch(state: ClusterState, job_id: JobId) -> Job:
    state.touch_job(job_id)
    return state.jobs[job_id]


def changing(state: ClusterState, job_id: JobId) -> Job:
    """The record, out of all indexes; the caller takes it back in with `index_job`."""
    job = touch(state, job_id)
    state.unindex_job(job)
    return job


def remember(state: ClusterState, record: RequestRecord) -> None:
    if record.request_id:
        state.requests[record.request_id] = record
        state.touched.requests.add(record.request_id)


def waiting_reason(job: Job) -> Reason:
    if job.held:
        return Reason.HELD_USER if job.held == "user" else Reason.HELD_ADMIN
    return Reason.DEPENDENCY if job.dependencies else Reason.NONE


def submit(state: ClusterState, event: JobSubmitted) -> None:
    for job in (event.job, *event.components):
        state.jobs[job.id] = job
        state.touch_job(job.id)
        state.next_job_id = JobId(max(state.next_job_id, job.id + 1))
        state.count_blobs(job, 1)
        if job.is_array_rest:
            state.arrays[job.id] = ArraySummary(job.id)
            state.touched.arrays.add(job.id)
        if job.is_component:
            state.join_components(job)
        state.index_job(job)
    remember(state, RequestRecord(event.request_id, event.time, event.job.id))


def update(state: ClusterState, job: Job) -> None:
    before = changing(state, job.id)
    if job.held or (job.partition, job.request) != (before.partition, before.request):
        job.claims, job.claim_time = 0, 0.0  # what is kept for it was for another one
    if job.spec == before.spec:
        # Shared by all tasks of the array; the journal's copy would be one more.
        job.spec = before.spec
    state.jobs[job.id] = job
    state.index_job(job)


def requeue_ended(state: ClusterState, event: JobRequeued) -> None:
    job = changing(state, event.job_id)
    summary = state.arrays.get(job.array_job_id or job.id)
    if summary is not None:
        again = job.pending_tasks if job.is_array_rest else [job.array_task_id]
        for task_id in again:
            assert task_id is not None
            summary.ended_tasks.pop(task_id, None)
        if not job.is_array_rest:
            summary.live.add(job.id)
        state.touched.arrays.add(summary.id)
    back_to_pending(job, event.time, "user", event.hold)
    state.index_job(job)


def back_to_pending(job: Job, now: float, cause: str, hold: bool) -> None:
    # Counted before the next launch, so that a crash in between still uses up an attempt.
    job.requeues = {**job.requeues, cause: job.requeues.get(cause, 0) + 1}
    job.state = JobState.PENDING
    job.eligible_time = 0.0
    job.start_time = job.end_time = 0.0
    job.allocation = ()
    job.allocated_tres = ()
    job.price = 0.0
    job.prepared_nodes = ()
    job.end_cause = job.end_state = job.cancelled_by = None
    job.exit_code = job.exit_signal = 0
    job.requeue_cause = ""
    job.requeue_held = False
    job.signal_sent = False
    job.limit_used_s = job.service_time = 0.0
    job.switches_waived = False
    job.next_step_id = StepId(0)
    job.steps = {}
    job.checkpoint_deadline = 0.0
    job.checkpoint_listens = False
    if cause != "launch_failure":
        job.claims, job.claim_time = 0, 0.0
        job.restart_reason = cause
    if cause not in ("launch_failure", "resize"):
        job.submit_time = now
        if cause != "node_fail" or not job.avoid_until:
            job.avoided_nodes, job.avoid_until = (), 0.0
    job.held = "user" if hold else job.held
    job.reason = Reason.BEGIN_TIME
    if job.held or job.dependencies:
        job.reason = waiting_reason(job)


def detach(state: ClusterState, event: TaskDetached) -> None:
    rest = changing(state, event.array_job_id)
    rest.pending_tasks.remove(event.task_id)
    if event.job_id == rest.id:
        task = rest
    else:
        task = replace(rest, id=event.job_id, pending_tasks=[], requeues={}, steps={})
        task.claims = min(1, rest.claims)
        rest.claims -= task.claims
        state.jobs[task.id] = task
        state.count_blobs(task, 1)
        state.next_job_id = JobId(max(state.next_job_id, task.id + 1))
        state.index_job(rest)
    task.array_job_id = event.array_job_id
    task.array_task_id = event.task_id
    state.touch_job(task.id)
    state.arrays[event.array_job_id].live.add(task.id)
    state.touched.arrays.add(event.array_job_id)
    state.index_job(task)


def end_pending(state: ClusterState, event: PendingEnded) -> None:
    job = changing(state, event.job_id)
    job.state = job.end_state = event.state
    job.reason = event.reason
    job.cancelled_by = event.cancelled_by
    job.start_time = job.end_time = event.time
    count_ended(state, job)
    state.index_job(job)


def count_ended(state: ClusterState, job: Job) -> None:
    """Writes a final state into the array's summary."""
    array_id = job.array_job_id or job.id
    summary = state.arrays.get(array_id)
    if summary is None:
        return
    assert job.end_state is not None
    summary.live.discard(job.id)
    ended = job.pending_tasks if job.is_array_rest else [job.array_task_id]
    for task_id in ended:
        assert task_id is not None
        summary.ended_tasks[task_id] = job.end_state.value
    summary.highest_exit_code = max(summary.highest_exit_code, job.exit_code)
    state.touched.arrays.add(array_id)


def forget(state: ClusterState, job_id: JobId) -> None:
    job = changing(state, job_id)
    del state.jobs[job_id]
    state.count_blobs(job, -1)
    if job.is_component:
        state.leave_components(job)
    array_id = job.array_job_id or job.id
    summary = state.arrays.get(array_id)
    if summary is not None and not summary.live and not any(state.array_records(array_id)):
        del state.arrays[array_id]
        state.touched.arrays.add(array_id)
