"""`minislurm why`: one job explained. What the state knows, what passes over a copy of it find out."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import suppress

from msgspec.structs import replace

from minislurm.cluster import elastic_sentences, sentences
from minislurm.cluster.outlook import look_ahead
from minislurm.cluster.proposals import Change, changes
from minislurm.cluster.resizes import may_grow
from minislurm.cluster.snapshot import snapshot, waiting_components
from minislurm.cluster.state import ClusterState
from minislurm.domain.job import Job
from minislurm.domain.states import JobState, Reason
from minislurm.domain.views import Explanation, HeadAhead, Proposal
from minislurm.scheduling.cycle import steps
from minislurm.scheduling.explain import Findings, changed_to, find, what_if
from minislurm.scheduling.future import Outlook
from minislurm.scheduling.model import Snapshot, Wait
from minislurm.scheduling.predict import Estimate, Forecast
from minislurm.scheduling.workspace import Workspace

#: Passes of a forecast, for the job as it is and for each change.
_FORECAST_PASSES = 150
#: Changes of which a forecast is made, and how much sooner (in part of the wait, and in seconds) is worth it.
_FORECASTS = 9
_SOONER_PART, _SOONER_S = 0.1, 60.0


class OutOfTime(Exception):
    """Thrown into an explanation by who cannot wait any longer: what was found so far must do."""


def explanation(
    state: ClusterState, job: Job, now: float, known: Estimate | None = None, task: int | None = None
) -> Generator[None, None, Explanation]:
    """Yields between units of about a millisecond; the state may go on meanwhile, what is told is true of the
    time when it was asked. `known`: from a forecast that is still true.
    `task`: one of those that have not left the array."""
    base = _facts(state, job, now, task)
    if job.is_component and job.state is JobState.PENDING:
        job = state.jobs[job.het_job_id]  # they wait as one
    if job.state is not JobState.PENDING:
        told = (*sentences.life(state, job, now), *elastic_sentences.size(state, job, now))
        if may_grow(state, job, now):
            plan = yield from steps(snapshot(state, now), Workspace())
            told += elastic_sentences.growth(job, plan)
        return replace(base, sentences=told)
    taken = snapshot(state, now)
    limits = tuple(sentences.bounds(job, task))
    waits_for = sentences.life(state, job, now)
    key = _key(state, job)
    if key is None:
        with suppress(OutOfTime):
            ahead = yield from look_ahead(state, now)
            known = known or (yield from _estimate(taken, ahead, job, task))
        return _with_estimate(replace(base, sentences=(*waits_for, *limits)), known)
    workspace = Workspace()
    copied = replace(job, pending_tasks=list(job.pending_tasks))
    findings = Findings(Wait(Reason.NONE), 0, {})
    proposals: list[Proposal] = []
    with suppress(OutOfTime):
        ahead = yield from look_ahead(state, now)
        advice = _Advice(state, copied, taken, ahead, key, workspace)
        proposals = advice.found
        findings = yield from find(taken, job.id, key, workspace)
        known = known or (yield from _estimate(taken, ahead, job, task))
        yield from advice.look(findings, known)
    wait = findings.wait
    told = tuple(sentences.waiting(state, copied, wait, now)) if wait is not None else (_STARTS,)
    full = replace(
        base,
        reason=wait.reason.value if wait is not None else Reason.NONE.value,
        sentences=(*told, *limits),
        priority=findings.priority,
        rejected=findings.rejected,
        ahead=findings.ahead,
        first_ahead=findings.first_ahead,
        ahead_but_waiting=findings.ahead_but_waiting,
        heads=tuple(HeadAhead(h.job_id, h.start, h.nodes, h.is_cause) for h in findings.heads),
        proposals=tuple(proposals),
    )
    return _with_estimate(full, known)


_STARTS = "Nothing is in the way: the next scheduling pass starts it."


def _facts(state: ClusterState, job: Job, now: float, task: int | None) -> Explanation:
    partition = state.partitions.get(job.partition)
    return Explanation(
        job_id=job.id,
        shown_id=_shown_id(job, task),
        state=job.state.value,
        now=now,
        name=job.name,
        partition=job.partition,
        partition_nodes=len(partition.nodes) if partition is not None else 0,
        reason=job.reason.value,
        start_estimate=job.start_time,
        planned_nodes=tuple(part.node for part in job.allocation),
    )


def _shown_id(job: Job, task: int | None) -> str:
    if job.is_component:
        return f"{job.het_job_id}+{job.het_job_offset}"
    if task is None:
        task = job.array_task_id
    return str(job.id) if task is None else f"{job.array_job_id or job.id}_{task}"


def _key(state: ClusterState, job: Job) -> Hashable:
    place = state.queue.places.get(job.id)
    if place is None or job.partition not in state.partitions:
        return None
    if job.is_component and all(job is not components[0] for components in waiting_components(state)):
        return None
    return state.queue.classes[place[0]].number


def _with_estimate(told: Explanation, estimate: Estimate | None) -> Explanation:
    if estimate is None:
        return told
    return replace(told, start_estimate=estimate.start, planned_nodes=estimate.nodes)


def _estimate(
    taken: Snapshot, ahead: Outlook, job: Job, task: int | None = None
) -> Generator[None, None, Estimate | None]:
    forecast = Forecast(taken, ahead, most_passes=_FORECAST_PASSES)
    yield from forecast.run(until=job.id, task=task)
    return forecast.of(job.id, task)


class _Advice:
    """What would let it start now, or else sooner. Nothing is said that no pass has shown."""

    def __init__(
        self,
        state: ClusterState,
        job: Job,
        taken: Snapshot,
        ahead: Outlook,
        key: Hashable,
        workspace: Workspace,
    ) -> None:
        self._state = state
        self._job = job
        self._taken = taken
        self._workspace = workspace
        self._key = key
        others = tuple(turn for turn in ahead.turnovers if turn.job_id != job.id or turn.into is None)
        self._ahead = replace(ahead, turnovers=others)
        self.found: list[Proposal] = []

    def look(self, findings: Findings, estimate: Estimate | None) -> Generator[None, None, None]:
        """Fills `found`."""
        now = self._taken.now
        if findings.wait is None or self._job.id not in self._state.queue:
            return  # it starts, or has gone meanwhile
        times = [head.start for head in findings.heads if head.start > now]
        for reserved in self._taken.reservations:
            times += [start for start, _ in reserved.windows if start > now]
        kinds = changes(self._state, self._job, now, times)
        for kind in kinds:
            least = yield from self._least(kind)
            if least is not None:
                self.found.append(Proposal(least.text, least.command, now, starts_now=True))
        if not self.found:
            yield from self._look_for_sooner(kinds, estimate)

    def _least(self, kind: list[Change]) -> Generator[None, None, Change | None]:
        """The first that starts now, by bisection: what helps, helps the more the greater the change."""
        if not (yield from self._helps(kind[-1])):
            return None
        low, high = 0, len(kind) - 1
        while low < high:
            middle = (low + high) // 2
            if (yield from self._helps(kind[middle])):
                high = middle
            else:
                low = middle + 1
        return kind[high]

    def _helps(self, change: Change) -> Generator[None, None, bool]:
        placement = yield from what_if(self._taken, self._job.id, self._key, change.jobs, self._workspace)
        return placement is not None

    def _look_for_sooner(
        self, kinds: list[list[Change]], estimate: Estimate | None
    ) -> Generator[None, None, None]:
        """Of each kind the least, the middle and the greatest change, each as far as it is worth more than
        those before it."""
        now, left = self._taken.now, _FORECASTS
        for kind in kinds:
            soonest = estimate.start if estimate is not None else None
            for change in dict.fromkeys((0, len(kind) // 2, len(kind) - 1)):
                if not left:
                    return
                left -= 1
                start = yield from self._start_of(kind[change])
                if start is None:
                    continue
                worth_s = max(_SOONER_S, _SOONER_PART * (soonest - now)) if soonest is not None else 0.0
                if soonest is None or start <= soonest - worth_s:
                    soonest = start
                    self.found.append(Proposal(kind[change].text, kind[change].command, start))

    def _start_of(self, change: Change) -> Generator[None, None, float | None]:
        changed = changed_to(self._taken, self._job.id, self._key, change.jobs)
        found = yield from _estimate(changed, self._ahead, self._job)
        return found.start if found is not None else None
