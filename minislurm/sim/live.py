"""A live cluster's own future: its state goes on under the virtual clock, on a copy.

The state is the one that a controller which restarts now would have; daemons that stand in for the real ones
hold what it says they hold. How long jobs will run nobody knows: see `RunTimes`. Nodes that are down, drained
or silent stay so. Nothing is submitted any more.

Times of outcomes and series are seconds from the moment at which the state was taken; who waits was submitted
before 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from math import inf

from msgspec import Struct, field

from minislurm.cluster.core import Transaction
from minislurm.cluster.effects import PrepareRun, StartRun
from minislurm.cluster.events import (
    NodeChanged,
    NodeLeft,
    NodesJoined,
    PendingEnded,
    ReservationChanged,
    RunEnded,
    RunPlaced,
    RunStarted,
)
from minislurm.cluster.history import History
from minislurm.cluster.messages import (
    Caller,
    Configure,
    EndAllocation,
    NodeReport,
    RegisterNode,
    RunReport,
)
from minislurm.cluster.state import ClusterState
from minislurm.cluster.timers import all_timers
from minislurm.domain import configuration_file
from minislurm.domain.configuration import Configuration
from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.domain.job import Job
from minislurm.domain.node import NodeFacts
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState
from minislurm.sim.recording import Occupancy, Outcome, Run, Series
from minislurm.sim.replay import Result
from minislurm.sim.trace import TraceJob
from minislurm.sim.virtual_cluster import VirtualCluster
from minislurm.sim.virtual_node import VirtualNode

_OPERATOR = Caller(0, is_operator=True)
#: How far is looked ahead at most.
LONGEST_S = 365 * 86400.0
#: In so long every recurring reservation comes once: the rarest is weekly.
_ROUND_S = 8 * 86400.0

#: A job's array and task; without a task, its id.
_Key = tuple[JobId, int | None]


class RunTimes(Struct, frozen=True):
    """How long runs last: `share` of their time limit, or with `by_history` as long as the user's last two
    similar jobs, where there were any (`cluster/history.py`). A job that has run longer than that already
    runs up to its limit; one without a limit runs on."""

    share: float = 1.0
    by_history: bool = False

    def of(self, history: History, job: Job) -> float:
        """Seconds; infinity where nothing is known."""
        limit_s = job.time_limit_s
        if self.by_history:
            known_s = history.expected_s(job.spec.user_id, job.name, job.request, limit_s)
            if known_s:
                return known_s
        return limit_s * self.share if limit_s else inf


class Change(Struct, frozen=True):
    """What is otherwise than on the real cluster. `added`: nodes of the configuration that are not there."""

    configuration: Configuration | None = None
    added: dict[NodeName, NodeFacts] = field(default_factory=dict)


NO_CHANGE, TO_THE_LIMIT = Change(), RunTimes()


class Waiting(Struct):
    """A job that waits when the state is taken, or a task of an array."""

    job_id: str
    outcome: Outcome
    #: Of its first run.
    nodes: tuple[NodeName, ...] = ()

    @property
    def start_s(self) -> float | None:
        return self.outcome.runs[0].start_s if self.outcome.runs else None


class Future(Struct, frozen=True):
    result: Result
    waiting: tuple[Waiting, ...]


def play(
    state: ClusterState,
    now: float,
    change: Change = NO_CHANGE,
    run_times: RunTimes = TO_THE_LIMIT,
    horizon_s: float = LONGEST_S,
    progress: Callable[[int, int], None] = lambda ended, jobs: None,
) -> Future:
    """Until all that wait have ended, nothing is left to happen, or the horizon (seconds) is reached.
    `state` is used up. `progress` is told now and then how many of how many jobs are over."""
    cluster = _LiveCluster(state, now, change, run_times)
    cluster.play(now + horizon_s, progress)
    return cluster.future()


class _LiveCluster(VirtualCluster):
    def __init__(self, state: ClusterState, now: float, change: Change, run_times: RunTimes) -> None:
        self._taken, self._change, self._run_times = state, change, run_times
        #: What is known now: what is made up below teaches nothing.
        self._history = deepcopy(state.history)
        self._begun = now
        #: By the jobs that have nodes.
        self._held: dict[JobId, tuple[NodeAllocation, ...]] = {}
        self._series = Series()
        self._last_news = now
        self._waiting: dict[_Key, Waiting] = {}
        #: Those that have not ended.
        self._open: set[_Key] = set()
        super().__init__(change.configuration or state.configuration, self._remaining_s, now=now)

    # The state as it is taken over

    def begin(self) -> None:
        self.state = state = self._taken
        waiting = [job for job in state.jobs.values() if _will_wait(job)]
        self._waiting = {key: item for job in waiting for key, item in _waiting_of(job, self._begun)}
        self._open = set(self._waiting)
        self.nodes = {name: VirtualNode(name) for name in state.nodes}
        self._occupancy = Occupancy.found(state.nodes.values(), state.topology)
        if self._change.configuration is not None:
            self._reconfigure(self._change.configuration)
        # What runs ends by itself before its limit does it: the same order as for a run that starts here.
        for job_id in sorted(state.active):
            self._take_over(state.jobs[job_id])
        for effect in list(all_timers(state, self.now)):
            self.perform(effect)
        for node in state.nodes.values():
            for run in node.stale_runs:
                job_number, _, number = run.partition(".")
                self._clean(node.name, JobId(int(job_number)), RunNumber(int(number)))
        self._note()
        self.want_pass()

    def _reconfigure(self, configuration: Configuration) -> None:
        self.tell(Configure(configuration_file.to_json(configuration)))
        for name, facts in self._change.added.items():
            self.nodes[name] = VirtualNode(name)
            self.tell(RegisterNode(name, facts))
        self._occupancy = Occupancy.found(self.state.nodes.values(), self.state.topology)

    def _take_over(self, job: Job) -> None:
        """The nodes of its run hold what they had reported of it."""
        key = (job.id, job.run)
        if job.state is JobState.COMPLETING:
            self._hold(job, tuple(part for part in job.allocation if part.node in job.open_nodes))
            for name in job.open_nodes:
                self._clean(name, *key)
            return
        self._hold(job, job.allocation)
        for part in job.allocation:
            node = self.nodes[part.node]
            if job.state is JobState.RUNNING or part.node in job.prepared_nodes:
                node.runs[key] = RunReport(*key, "PREPARED")
        if job.state is JobState.RUNNING:
            self._go_on(job)
        elif len(job.prepared_nodes) == len(job.allocation):
            for part in job.allocation:
                self.perform(StartRun(part.node, *key))
        else:
            alone = len(job.allocation) == 1 and job.spec.is_batch
            for part in job.allocation:
                if part.node not in job.prepared_nodes:
                    self.perform(PrepareRun(part.node, *key, alone))

    def _go_on(self, job: Job) -> None:
        if not job.spec.is_batch:
            self._await_release(job)
            return
        assert job.batch_host is not None
        node, key = self.nodes[job.batch_host], (job.id, job.run)
        node.start(key, job.start_time)
        self.exit_after(self._remaining_s(job), node, key)

    def _clean(self, name: NodeName, job_id: JobId, run: RunNumber) -> None:
        self.later(0.0, self.tell, NodeReport(name, RunReport(job_id, run, "CLEAN"), clean=True))

    def _hold(self, job: Job, allocation: tuple[NodeAllocation, ...]) -> Run:
        self._held[job.id] = allocation
        return self._occupancy.begin(allocation, self.now - self._begun)

    # How long runs last

    def _remaining_s(self, job: Job) -> float:
        """Of a run that has started, or is about to."""
        has_run_s = 0.0
        if job.state is JobState.RUNNING:
            has_run_s = self.now - job.start_time - job.suspended_time_s
        total_s = self._run_times.of(self._history, job)
        if total_s <= has_run_s:
            total_s = job.time_limit_s or inf
        # What is over its limit is for the time limit to end.
        return total_s - has_run_s if total_s > has_run_s else inf

    def _await_release(self, job: Job) -> None:
        """Nobody's script says when an allocation without one is let go."""
        remaining_s = self._remaining_s(job)
        if remaining_s < inf:
            self.later(remaining_s, self._release, (job.id, job.run))

    def _release(self, key: tuple[JobId, RunNumber]) -> None:
        job = self.state.jobs.get(key[0])
        if job is not None and job.run == key[1] and job.state is JobState.RUNNING:
            self.tell(EndAllocation(job.id, _OPERATOR))

    # Going on

    def play(self, end: float, progress: Callable[[int, int], None]) -> None:
        jobs = len(self._waiting)
        while self._open and self._heap and self._heap[0][0] <= end and self._goes_on():
            self.advance(self._heap[0][0])
            progress(jobs - len(self._open), jobs)

    def _goes_on(self) -> bool:
        """Reservations that come back day by day keep time going for ever: who did not start while each of
        them came once, and nothing else is to come, never will."""
        state = self.state
        if state.active or self.now < self._last_news + _ROUND_S:
            return True
        for reservation in state.reservations.values():
            if not reservation.recurs or reservation.start_time > self.now + _ROUND_S:
                return True
        return any(self._job(*key).begin_time > self.now for key in self._open)

    def observe(self, transaction: Transaction) -> None:
        for event in transaction.events:
            if not isinstance(event, ReservationChanged):
                self._last_news = self.now
            if isinstance(event, RunPlaced):
                self._placed(event.job_id)
            elif isinstance(event, RunStarted):
                job = self.state.jobs[event.job_id]
                if not job.spec.is_batch:
                    self._await_release(job)
            elif isinstance(event, (NodesJoined, NodeLeft)):
                self._occupancy.end(self._held.pop(event.job_id, ()))
                job = self.state.jobs[event.job_id]
                self._hold(job, job.allocation)
            elif isinstance(event, (RunEnded, PendingEnded)):
                self._over(event.job_id)
            elif isinstance(event, NodeChanged) and event.node in self._occupancy.capacity:
                self._occupancy.set_down(event.node, not self.state.nodes[event.node].is_usable)
        if transaction.events:
            self._note()

    def _placed(self, job_id: JobId) -> None:
        job = self.state.jobs[job_id]
        run, waiting = self._hold(job, job.allocation), self._waiting.get(_key_of(job))
        if waiting is None:
            return
        if not waiting.outcome.runs:
            waiting.nodes = tuple(part.node for part in job.allocation)
        waiting.outcome.run_s = min(self._run_times.of(self._history, job), job.time_limit_s or inf)
        waiting.outcome.runs.append(run)

    def _over(self, job_id: JobId) -> None:
        """A run has ended, or a job that waited."""
        job, held = self.state.jobs[job_id], self._held.pop(job_id, ())
        self._occupancy.end(held)
        waiting = self._waiting.get(_key_of(job))
        if waiting is None:
            return
        outcome = waiting.outcome
        if held and outcome.runs:
            outcome.runs[-1].end_s = self.now - self._begun
        outcome.requeues = job.requeues
        if job.state.is_final:
            outcome.state, outcome.end_s = job.state, job.end_time - self._begun
            self._open.discard(_key_of(job))

    def _note(self) -> None:
        occupancy, state = self._occupancy, self.state
        self._series.add(
            self.now - self._begun, occupancy.used, len(state.queue), len(state.active), occupancy.stranded,
            occupancy.usable,
        )  # fmt: skip

    def future(self) -> Future:
        waits = self.plan().waits
        for key in self._open:
            waiting, job = self._waiting[key], self._job(*key)
            wait = waits.get(job.id)
            if not waiting.outcome.runs:
                waiting.outcome.why = (wait.reason if wait is not None else job.reason).value
        everybody = tuple(self._waiting.values())
        outcomes = tuple(item.outcome for item in everybody)
        return Future(Result(outcomes, self._series, self._occupancy, self.passes, 0, 0.0), everybody)

    def _job(self, job_id: JobId, task: int | None) -> Job:
        own = None if task is None else self.state.task_record(job_id, task)
        return own if own is not None else self.state.jobs[job_id]


def _will_wait(job: Job) -> bool:
    return job.state is JobState.PENDING or (job.state is JobState.COMPLETING and bool(job.requeue_cause))


def _key_of(job: Job) -> _Key:
    return (job.array_job_id, job.array_task_id) if job.is_array_task else (job.id, None)


def _waiting_of(job: Job, now: float) -> Iterator[tuple[_Key, Waiting]]:
    tasks: list[_Key] = [(job.id, task) for task in job.pending_tasks] or [_key_of(job)]
    for job_id, task in tasks:
        shown = str(job_id) if task is None else f"{job_id}_{task}"
        trace = TraceJob(
            name=job.name,
            submit_s=job.submit_time - now,
            run_s=0.0,
            limit_s=job.time_limit_s or None,
            user=job.spec.user_name,
            account=job.spec.account,
            partition=job.partition,
        )
        yield (job_id, task), Waiting(shown, Outcome(trace, trace.submit_s))
