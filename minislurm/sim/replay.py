"""One workload on one cluster under one policy, from the first submission to the last end."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from minislurm.cluster.core import Transaction
from minislurm.cluster.events import (
    Event,
    JobSubmitted,
    NodeChanged,
    PendingEnded,
    RunEnded,
    RunEnding,
    RunPlaced,
    RunStarted,
)
from minislurm.cluster.messages import Caller, ChangeAccounts, CheckpointMade, PurgeDue, SubmitJob
from minislurm.domain.accounts import AccountChanges
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.configuration import Configuration
from minislurm.domain.ids import JobId
from minislurm.domain.job import EndCause, Job
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState, NodeState
from minislurm.scheduling.model import Plan
from minislurm.sim.checkpoints import NO_CHECKPOINTS, Checkpoints
from minislurm.sim.failures import FailingNodes, Failures
from minislurm.sim.job_specs import SpecMaker
from minislurm.sim.recording import Occupancy, Outcome, Series
from minislurm.sim.trace import Workload
from minislurm.sim.virtual_cluster import EPOCH, VirtualCluster, no_record

_OPERATOR = Caller(0, is_operator=True)
#: Ended jobs are forgotten in crowds of so many, as `timers.min_job_age_s` allows.
_PURGE_EVERY = 1000


class Result(Struct, frozen=True):
    """`outcomes` in the order of the trace; `passes`: scheduling passes; `failures`: of nodes. `begin_s`:
    from when on the series are known; None: from the first submission."""

    outcomes: tuple[Outcome, ...]
    series: Series
    occupancy: Occupancy
    passes: int
    failures: int
    begin_s: float | None = None


def replay(
    workload: Workload,
    configuration: Configuration,
    *,
    exact: bool = False,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    failures: Failures | None = None,
    progress: Callable[[int], None] = lambda ended: None,
    record: Callable[[Event], None] = no_record,
    accounts: AccountChanges | None = None,
) -> Result:
    """Runs the trace to its end. `progress` is told now and then how many jobs are over. `accounts`: the tree
    that its jobs are charged to."""
    cluster = _Replay(workload, configuration, exact, checkpoints, failures, progress, record)
    if accounts is not None:
        refusal = cluster.tell(ChangeAccounts(accounts, 0, _OPERATOR)).refusal
        assert refusal is None, f"the tree is not accepted: {refusal} {refusal.details}"
    cluster.advance()
    return cluster.result()


class _Live(Struct):
    """A job of the trace that the core knows."""

    outcome: Outcome
    #: Seconds of work that are not in a checkpoint.
    left_s: float
    allocation: tuple[NodeAllocation, ...] = ()


class _Replay(VirtualCluster):
    def __init__(
        self,
        workload: Workload,
        configuration: Configuration,
        exact: bool,
        checkpoints: Checkpoints,
        failures: Failures | None,
        progress: Callable[[int], None],
        record: Callable[[Event], None],
    ) -> None:
        self._occupancy, self._series = Occupancy.declared(configuration), Series()
        self._live: dict[JobId, _Live] = {}
        self._ended = 0
        super().__init__(_without_guards(configuration), self._duration, record=record)
        self._trace = workload.jobs
        self._specs = SpecMaker(configuration, exact)
        self._checkpoints = checkpoints
        self._progress = progress
        self._outcomes: list[Outcome] = []
        #: Added to the trace's seconds to make them the core's.
        self._shift = EPOCH - self._trace[0].submit_s if self._trace else 0.0
        if self._trace:
            self._await_next()
        self._failing = FailingNodes(failures, self, self._goes_on) if failures is not None else None

    def _goes_on(self) -> bool:
        """If no job is to come, none runs and no node is down, what still waits will never start."""
        if len(self._outcomes) < len(self._trace) or self.state.active:
            return True
        return not all(node.alive for node in self.nodes.values())

    # Jobs come

    def _await_next(self) -> None:
        self.at(self._trace[len(self._outcomes)].submit_s + self._shift, self._submit)

    def _submit(self, _: None) -> None:
        job = self._trace[len(self._outcomes)]
        outcome = Outcome(job, job.submit_s)
        self._outcomes.append(outcome)
        spec = self._specs.spec(job)
        # Known before the events are looked at: a submission may follow up on itself.
        job_id = self.state.next_job_id
        self._live[job_id] = _Live(outcome, job.run_s)
        refusal = self.tell(SubmitJob(spec, _OPERATOR)).refusal
        if refusal is not None:
            del self._live[job_id]
            outcome.is_known = False
            outcome.why = "; ".join((str(refusal), *refusal.details))
            self._count_ended()
        if len(self._outcomes) < len(self._trace):
            self._await_next()

    def _duration(self, job: Job) -> float:
        """How long this run's script goes on; one that would pass its limit is left to the time limit."""
        duration_s = self._checkpoints.duration(self._live[job.id].left_s, restarted=bool(job.requeues))
        return inf if job.time_limit_s and duration_s > job.time_limit_s else duration_s

    def plan(self) -> Plan:
        """Where runs may have to give way, the core knows what is saved."""
        preemption = self.configuration.preemption.mode != "off"
        if preemption and self._checkpoints.interval_s:
            for job_id in self.state.active:
                self._tell_saved(self.state.jobs[job_id])
        return super().plan()

    def _tell_saved(self, job: Job) -> None:
        """The run's last checkpoint, if it is a new one."""
        if job.state is not JobState.RUNNING:
            return
        overlay, restarted = self._checkpoints, bool(job.requeues)
        elapsed_s = self.now - job.start_time
        saved_s = overlay.saved(elapsed_s, self._live[job.id].left_s, restarted=restarted)
        if not saved_s:
            return
        pieces = saved_s / overlay.interval_s
        time = job.start_time + (overlay.restart_s if restarted else 0.0) + saved_s + pieces * overlay.cost_s
        if not job.checkpoints or job.checkpoints[-1].time < time:
            made = Checkpoint(job.run, f"/{job.id}.{time}", time=time, duration_s=overlay.cost_s)
            self.tell(CheckpointMade(job.id, job.run, made))

    # What happens to them

    def observe(self, transaction: Transaction) -> None:
        if not transaction.events:
            return
        for event in transaction.events:
            kind = type(event)
            if kind is RunStarted or kind is JobSubmitted:
                continue
            if isinstance(event, RunPlaced):
                self._placed(event.job_id)
            elif isinstance(event, RunEnding):
                self._ending(event)
            elif isinstance(event, (RunEnded, PendingEnded)):
                self._over(event.job_id)
            elif isinstance(event, NodeChanged):
                self._occupancy.set_down(event.node, event.state is not NodeState.UP)
        if kind is RunStarted:
            return  # it was counted when it was placed
        occupancy = self._occupancy
        self._series.add(
            self.now, occupancy.used, len(self.state.queue), len(self.state.active), occupancy.stranded,
            occupancy.usable,
        )  # fmt: skip

    def _placed(self, job_id: JobId) -> None:
        live, job = self._live[job_id], self.state.jobs[job_id]
        live.allocation = job.allocation
        live.outcome.run_s = min(live.outcome.trace.run_s, job.time_limit_s or inf)
        live.outcome.runs.append(self._occupancy.begin(job.allocation, self.now - self._shift))

    def _ending(self, event: RunEnding) -> None:
        live = self._live[event.job_id]
        if event.cause in (EndCause.NODE_FAIL, EndCause.PREEMPT):
            run = live.outcome.runs[-1]
            elapsed_s = self.now - self._shift - run.start_s
            saved_s = self._checkpoints.saved(
                elapsed_s, live.left_s, restarted=bool(self.state.jobs[event.job_id].requeues)
            )
            live.left_s -= saved_s
            live.outcome.lost += run.units * (elapsed_s - saved_s)

    def _over(self, job_id: JobId) -> None:
        """A run has ended, or a job that waited."""
        live, job = self._live[job_id], self.state.jobs[job_id]
        outcome = live.outcome
        if live.allocation:
            self._occupancy.end(live.allocation)
            live.allocation = ()
            outcome.runs[-1].end_s = self.now - self._shift
        outcome.requeues = job.requeues
        if job.state.is_final:
            outcome.state, outcome.end_s = job.state, job.end_time - self._shift
            del self._live[job_id]
            self._count_ended()

    def _count_ended(self) -> None:
        self._ended += 1
        if not self._ended % _PURGE_EVERY:
            self.later(0.0, self.tell, PurgeDue())
            self._progress(self._ended)

    def result(self) -> Result:
        if self._live:
            waits = self.plan().waits
            for job_id, live in self._live.items():
                wait = waits.get(job_id)
                reason = wait.reason if wait is not None else self.state.jobs[job_id].reason
                live.outcome.why = reason.value
        self._progress(self._ended)
        series = self._series
        for index, time in enumerate(series.times):
            series.times[index] = time - self._shift
        failures = self._failing.count if self._failing is not None else 0
        return Result(tuple(self._outcomes), series, self._occupancy, self.passes, failures)


def _without_guards(configuration: Configuration) -> Configuration:
    """In a replay nobody is there to look at a job that is held after so many failures, or at a drained
    node."""
    node = replace(configuration.node, lemon_failures=0, drain_after_launch_failures=0)
    jobs = replace(configuration.jobs, max_requeues="", avoid_failed_node_s=0.0)
    return replace(configuration, node=node, jobs=jobs)
