"""The real core under a virtual clock, with nodes that answer commands as a node daemon would.

Every event goes through the journal's encoding; `check` runs after every transaction. Faults are what a
network and a host can do: nodes that die, daemons that restart, messages that come twice, a controller
that is killed between journal and effect.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from minislurm.cluster.apply import apply
from minislurm.cluster.check import check
from minislurm.cluster.core import Transaction, handle
from minislurm.cluster.effects import (
    Effect,
    EndRun,
    ForgetRun,
    JobChanged,
    NodeCommand,
    PrepareRun,
    Schedule,
    SetTimer,
    SignalRun,
    StartRun,
)
from minislurm.cluster.messages import (
    Caller,
    Configure,
    Message,
    NodeReport,
    NodeSilent,
    PlacementProposed,
    RegisterNode,
    RunReport,
    SubmitJob,
)
from minislurm.cluster.snapshot import snapshot
from minislurm.cluster.state import ClusterState
from minislurm.cluster.timers import all_timers
from minislurm.controller.journal_format import decode, encode
from minislurm.domain import configuration_file
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import Refusal
from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.states import JobState
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.workspace import Workspace
from tests.builders import a_configuration, a_spec, facts

OPERATOR = Caller(0, is_operator=True)
Key = tuple[JobId, RunNumber]


@dataclass
class SimNode:
    """What a node daemon keeps: which runs it has, and how far they are."""

    name: NodeName
    alive: bool = True
    #: Answers PREPARE. A node that does not is silent, though its stream stands.
    answers: bool = True
    runs: dict[Key, RunReport] = field(default_factory=dict)
    #: Runs whose script was ever started here, for "never twice at once".
    started: list[Key] = field(default_factory=list)
    signals: list[tuple[Key, int]] = field(default_factory=list)


class SimCluster:
    """`duration_of`: how long a job's script runs (seconds of virtual time) and how it exits."""

    def __init__(
        self, configuration: Configuration | None = None, *, duration_of: Callable[[Job], float] | None = None
    ) -> None:
        self.configuration = configuration or a_configuration()
        self.now = 1_000_000.0
        self.state = ClusterState()
        self.journal: list[bytes] = []
        self.nodes = {spec.name: SimNode(spec.name) for spec in self.configuration.nodes}
        self.exit_codes: dict[JobId, int] = {}
        self._duration_of = duration_of or (lambda job: 10.0)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._pass_wanted = False
        self._workspace = Workspace()
        #: Effects of events that are in the journal are lost when this is set (a controller that dies).
        self.lose_effects = False
        self.tell(Configure(configuration_file.to_json(self.configuration)))
        for name in self.nodes:
            self.register(name)

    # Messages

    def tell(self, message: Message) -> Transaction:
        transaction = handle(self.state, message, self.now, lambda e: self.journal.append(encode(e)))
        check(self.state)
        if not self.lose_effects:
            for effect in transaction.effects:
                self._perform(effect)
        return transaction

    def submit(self, spec: JobSpec | None = None, **changes: object) -> JobId:
        """Raises Refusal."""
        wanted = spec if spec is not None else a_spec(**changes)  # type: ignore[arg-type]
        caller = Caller(wanted.user_id)
        request_id = f"request-{next(self._count)}"
        transaction = self.tell(SubmitJob(wanted, caller, request_id))
        if transaction.refusal is not None:
            raise transaction.refusal
        return self.state.requests[request_id].job_id

    def job(self, job_id: int) -> Job:
        return self.state.jobs[JobId(job_id)]

    def reason(self, job_id: int) -> str:
        """As squeue shows it."""
        job = self.job(job_id)
        if job.reason.value != "None":
            return job.reason.value
        wait = schedule(snapshot(self.state, self.now)).waits.get(JobId(job_id))
        return wait.reason.value if wait is not None else "None"

    # Time

    def run(self, seconds: float = 0.0) -> None:
        """Lets virtual time pass, passes included."""
        end = self.now + seconds
        while True:
            if self._pass_wanted:
                self._pass_wanted = False
                self._pass()
            elif self._queue and self._queue[0][0] <= end:
                when, _, action = heapq.heappop(self._queue)
                self.now = max(self.now, when)
                action()
            else:
                break
        self.now = end

    def run_until(self, condition: Callable[[], bool], limit_s: float = 10_000.0) -> None:
        end = self.now + limit_s
        while not condition():
            assert self.now < end, "the condition never came true"
            self.run(1.0)

    def _later(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay, next(self._count), action))

    def _pass(self) -> None:
        taken = snapshot(self.state, self.now)
        plan = schedule(taken, self._workspace)
        fresh = schedule(replace(taken, nodes=list(taken.nodes)))
        assert plan.placements == fresh.placements, "what the last pass left changes what this one decides"
        assert plan.waits == fresh.waits
        for placement in plan.placements:
            self.tell(PlacementProposed(placement))

    # Effects

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Schedule():
                self._pass_wanted = True
            case SetTimer():
                heapq.heappush(
                    self._queue, (effect.time, next(self._count), lambda: self._told(effect.message))
                )
            case JobChanged():
                pass
            case _:
                self.send(effect)

    def _told(self, message: Message) -> None:
        self.tell(message)

    def send(self, command: NodeCommand) -> None:
        """A command arrives a little later, if its node is there."""
        node = self.nodes[command.node]
        self._later(0.01, lambda: self._obey(node, command) if node.alive else None)

    def _obey(self, node: SimNode, command: NodeCommand) -> None:
        key = (command.job_id, command.run)
        match command:
            case PrepareRun():
                if node.answers and key not in node.runs:
                    node.runs[key] = RunReport(*key, "PREPARED")
                    if command.start:
                        self._start(node, key)
                    else:
                        self._report(node, node.runs[key])
            case StartRun():
                if key in node.runs and node.runs[key].phase == "PREPARED":
                    self._start(node, key)
            case EndRun():
                if key in node.runs:
                    node.runs[key] = RunReport(*key, "CLEAN")
                self._report(node, RunReport(*key, "CLEAN"))
            case ForgetRun():
                node.runs.pop(key, None)
            case SignalRun():
                node.signals.append((key, command.signal))

    def _start(self, node: SimNode, key: Key) -> None:
        job = self.state.jobs.get(key[0])
        batch_host = job is not None and job.batch_host == node.name and job.spec.is_batch
        if not batch_host or job is None:
            return
        others = [
            n
            for n in self.nodes.values()
            for k, r in n.runs.items()
            if k[0] == key[0] and r.phase == "RUNNING" and n.alive
        ]
        assert not others, f"job {key[0]} is started twice at once"
        node.started.append(key)
        node.runs[key] = RunReport(*key, "RUNNING", start_time=self.now)
        self._report(node, node.runs[key])
        self._later(self._duration_of(job), lambda: self._exit(node, key))

    def _exit(self, node: SimNode, key: Key) -> None:
        run = node.runs.get(key)
        if not node.alive or run is None or run.phase != "RUNNING":
            return
        job = self.state.jobs.get(key[0])
        alone = job is None or len(job.allocation) == 1
        phase = "CLEAN" if alone else "EXITED"
        code = self.exit_codes.get(key[0], 0)
        node.runs[key] = RunReport(*key, phase, code, start_time=run.start_time, end_time=self.now)
        exited = RunReport(*key, "EXITED", code, end_time=self.now)
        self._later(0.01, lambda: self._told(NodeReport(node.name, exited, clean=alone)))

    def _report(self, node: SimNode, report: RunReport) -> None:
        self._later(0.01, lambda: self._told(NodeReport(node.name, report)) if node.alive else None)

    # Faults

    def register(self, name: str) -> None:
        node = self.nodes[NodeName(name)]
        node.alive = True
        self.tell(RegisterNode(node.name, facts(), tuple(node.runs.values())))

    def kill_node(self, name: str) -> None:
        """The host dies with everything on it; the controller sees its stream break."""
        node = self.nodes[NodeName(name)]
        node.alive = False
        node.runs.clear()
        self.tell(NodeSilent(node.name))

    def cut_off(self, name: str) -> None:
        """The stream breaks; what runs there goes on."""
        self.nodes[NodeName(name)].alive = False
        self.tell(NodeSilent(NodeName(name)))

    def declare_lost(self, name: str) -> None:
        self.tell(NodeSilent(NodeName(name), lost=True))

    def restart_controller(self) -> None:
        """As after a kill -9: the state from the journal, every waiting effect gone, nodes register anew."""
        self.lose_effects = False
        self.state = self.replayed()
        self._queue = [item for item in self._queue if False]
        running = [(n, k) for n in self.nodes.values() for k, r in n.runs.items() if r.phase == "RUNNING"]
        for node in self.state.nodes.values():
            self.tell(NodeSilent(node.name))
        for effect in list(all_timers(self.state, self.now)):
            self._perform(effect)
        for node, key in running:
            job = self.state.jobs.get(key[0])
            left = 5.0 if job is None else self._duration_of(job)
            self._later(left, lambda node=node, key=key: self._exit(node, key))  # type: ignore[misc]
        for name, sim in self.nodes.items():
            if sim.alive:
                self.register(name)
        self._pass_wanted = True

    def replayed(self) -> ClusterState:
        """A second state, from the journal alone."""
        state = ClusterState()
        for payload in self.journal:
            apply(state, decode(payload))
        check(state)
        return state

    def states(self) -> dict[int, str]:
        return {int(job.id): job.state.value for job in self.state.jobs.values()}

    def all_ended(self) -> bool:
        return all(job.state.is_final for job in self.state.jobs.values())


__all__ = ["OPERATOR", "JobState", "Refusal", "SimCluster"]
