"""Runs that give way: a plan's victims, checked again."""

from __future__ import annotations

from minislurm.cluster.checkpoints import give_way
from minislurm.cluster.events import Event
from minislurm.cluster.messages import PreemptionProposed
from minislurm.cluster.snapshot import run_of
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.states import JobState
from minislurm.scheduling.rivals import Rival, is_outranked, is_sliced, may_preempt


def decide_preemption(state: ClusterState, message: PreemptionProposed, now: float) -> list[Event] | Refusal:
    """All of the victims or none: with one of them gone by itself, another set may be the better one."""
    preemption = message.preemption
    preemptor = state.jobs.get(preemption.job_id)
    refusal = Refusal(RefusalCode.TRY_LATER, job_id=preemption.job_id)
    if preemptor is None or preemptor.id not in state.queue or preemptor.partition not in state.partitions:
        return refusal
    rival = Rival(state.partitions[preemptor.partition], preemptor.eligible_time)
    events: list[Event] = []
    for job_id, number in preemption.victims:
        job = state.jobs.get(job_id)
        if job is None or job.run != number or job.state not in (JobState.CONFIGURING, JobState.RUNNING):
            return refusal
        run = run_of(state, job)
        if not may_preempt(rival, run, now):
            return refusal
        sliced = is_sliced(rival, run, now) and not is_outranked(rival.partition, run, now)
        comes_back = "time_slice" if sliced else "preempt" if run.preempt_mode == "requeue" else ""
        events.append(give_way(state, job, now, preemptor.id, comes_back))
    return events
