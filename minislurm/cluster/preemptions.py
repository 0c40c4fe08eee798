"""Runs that give way: a plan's victims, checked again."""

from __future__ import annotations

from minislurm.cluster.checkpoints import give_way
from minislurm.cluster.events import Event
from minislurm.cluster.messages import PreemptionProposed
from minislurm.cluster.snapshot import qos_preempts, run_of
from minislurm.cluster.state import ClusterState
from minislurm.domain import tres
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.job import Job
from minislurm.domain.preemption import NO_WISH, PreemptionRecord
from minislurm.domain.states import JobState
from minislurm.scheduling.limits import Limits, least_tres
from minislurm.scheduling.model import Preemption
from minislurm.scheduling.reclaim import Laws, Party, party_of
from minislurm.scheduling.rivals import Cause, Rival, cause_of, preempted_by


def decide_preemption(state: ClusterState, message: PreemptionProposed, now: float) -> list[Event] | Refusal:
    """All of the victims or none: with one of them gone by itself, another set may be the better one."""
    preemption = message.preemption
    preemptor = state.jobs.get(preemption.job_id)
    refusal = Refusal(RefusalCode.TRY_LATER, job_id=preemption.job_id)
    if preemptor is None or preemptor.id not in state.queue or preemptor.partition not in state.partitions:
        return refusal
    rival, laws = _rival(state, preemptor, preemption), _laws(state)
    events: list[Event] = []
    for number, (job_id, run_number) in enumerate(preemption.victims):
        job = state.jobs.get(job_id)
        if job is None or job.run != run_number or job.state not in (JobState.CONFIGURING, JobState.RUNNING):
            return refusal
        run = run_of(state, job)
        cause = cause_of(rival, run, now, laws)
        if cause is None:
            return refusal
        if laws is not None:
            laws.charge(party_of(run), -1)
        comes_back = "preempt" if run.preempt_mode == "requeue" else ""
        if cause is Cause.TIME_SLICE:
            comes_back = "time_slice"
        decision = _record(preemption, number, cause, now)
        events.append(give_way(state, job, now, preemptor.id, comes_back, decision))
    return events


def _record(preemption: Preemption, number: int, cause: Cause, now: float) -> PreemptionRecord:
    return PreemptionRecord(
        time=now,
        run=preemption.victims[number][1],
        preemptor=preemption.job_id,
        cause=cause.value,
        nodes=preemption.nodes,
        cost=preemption.costs[number] if preemption.costs else 0.0,
        victims=tuple([job_id for job_id, _ in preemption.victims]),
        total_cost=preemption.cost,
        alternatives=preemption.alternatives,
        is_first=number == 0,
    )


def _rival(state: ClusterState, job: Job, preemption: Preemption) -> Rival:
    """As the pass saw it, but for what may have changed since."""
    partition, wish = state.partitions[job.partition], job.spec.preemption or NO_WISH
    preempts = qos_preempts(state)
    asked = preemption.tres or least_tres(job.request, partition)
    return Rival(
        partition,
        job.eligible_time,
        Party(state.accounts.charged_of(job), asked),
        preemption.priority,
        wish.policy or "borrowers",
        wish.difference(state.configuration.preemption.min_priority_difference),
        frozenset(preempts.get(job.spec.qos, ())),
        preempted_by(preempts, job.spec.qos),
    )


def _laws(state: ClusterState) -> Laws | None:
    """Of this moment; None where there are no accounts, or nothing is limited."""
    accounts = state.accounts
    if not accounts.limits_are_enforced:
        return None
    accounts.measure(state.nodes.values())
    limits = Limits(accounts.limits.book, accounts.limits.ledger.copy(), accounts.limits.capacity)
    for job_id in state.active:
        job = state.jobs[job_id]
        if job.state is JobState.COMPLETING or job.gives_way:
            limits.charge(accounts.charged_of(job), tres.as_dict(job.allocated_tres), -1)
    waiting = {(key.account, key.user_name) for key in state.queue.classes}
    return Laws(state.configuration.preemption.reclaim, limits, waiting)
