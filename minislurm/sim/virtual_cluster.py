"""The production core under a virtual clock.

The controller's own functions decide: `cluster.core.handle` for every message, `cluster.snapshot.snapshot`
and `scheduling.cycle.schedule` for every pass. What is played here is the rest: time (a heap of what is to
come), and node daemons that answer (`virtual_node`). Effects become future messages.

Everything that happens at one instant is told first, in the order in which it was set down; then comes one
pass. Its placements are messages of the same instant. The same input gives the same run, bit for bit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import inf
from typing import Any

from minislurm.cluster.core import Transaction, handle
from minislurm.cluster.effects import AskCheckpoint, Effect, JobChanged, NodeCommand, Schedule, SetTimer
from minislurm.cluster.events import Event
from minislurm.cluster.messages import (
    CheckpointMade,
    Configure,
    Message,
    NodeGivenUp,
    NodeReport,
    NodeSilent,
    PlacementProposed,
    PreemptionProposed,
    RegisterNode,
    ResizeProposed,
)
from minislurm.cluster.snapshot import snapshot
from minislurm.cluster.state import ClusterState
from minislurm.domain import configuration_file
from minislurm.domain.checkpoint import Checkpoint, typical_duration_s
from minislurm.domain.configuration import Configuration
from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.domain.job import Job
from minislurm.domain.node import NodeFacts
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import Placement, Plan
from minislurm.scheduling.workspace import Workspace
from minislurm.sim.virtual_node import RunKey, VirtualNode

#: Virtual time begins here: a time of 0 means "not yet" in the state's records.
EPOCH = 1_000_000.0

_MESSAGE = 0


def no_record(event: Event) -> None:
    """A simulation keeps no journal unless it is asked to."""


class VirtualCluster:
    """`duration_of`: how long the script of a job's current run goes on (seconds; infinity: until something
    else ends it). `record` is given every event before it is applied, as a journal would be.

    `latency_s`: how long a command or a report travels.
    """

    #: At one instant messages (of rank 0) come before the pass that they call for. Below 0: the pass comes
    #: between any two messages.
    pass_rank = 1

    def __init__(
        self,
        configuration: Configuration,
        duration_of: Callable[[Job], float],
        *,
        record: Callable[[Event], None] = no_record,
        latency_s: float = 0.0,
        now: float = EPOCH,
        facts: NodeFacts | None = None,
    ) -> None:
        self.configuration = configuration
        self.now = now
        self.state = ClusterState()
        self.nodes = {spec.name: self.make_node(spec.name) for spec in configuration.nodes}
        self.passes = 0
        self.duration_of = duration_of
        self._record = record
        self._latency_s = latency_s
        self._facts = facts or NodeFacts()
        self._heap: list[tuple[float, int, int, Callable[[Any], object], Any]] = []
        self._count = 0
        self._pass_is_due = False
        #: When another pass is wanted whatever happens.
        self._wake_time = inf
        #: What the last pass left for the next.
        self.workspace = Workspace()
        self.begin()

    def begin(self) -> None:
        """A new cluster, whose nodes all come up."""
        self.tell(Configure(configuration_file.to_json(self.configuration)))
        for name in self.nodes:
            self.register(name)

    def make_node(self, name: NodeName) -> VirtualNode:
        return VirtualNode(name)

    # Messages

    def tell(self, message: Message) -> Transaction:
        transaction = handle(self.state, message, self.now, self._record)
        self.observe(transaction)
        for effect in transaction.effects:
            self.perform(effect)
        return transaction

    def observe(self, transaction: Transaction) -> None:
        """For whoever watches: the events have been applied, their effects have not been performed."""

    def perform(self, effect: Effect) -> None:
        if isinstance(effect, JobChanged):
            return
        if isinstance(effect, Schedule):
            self.want_pass()
        elif isinstance(effect, SetTimer):
            self._push(effect.time, _MESSAGE, self.tell, effect.message)
        else:
            self._push(self.now + self._latency_s, _MESSAGE, self._obey, effect)

    def want_pass(self) -> None:
        if not self._pass_is_due:
            self._pass_is_due = True
            self._push(self.now, self.pass_rank, self._pass, None)

    def forget_all(self) -> None:
        """Nothing of what is to come will come."""
        self._heap.clear()
        self._pass_is_due = False
        self._wake_time = inf

    def later(self, delay_s: float, action: Callable[[Any], object], argument: Any = None) -> None:
        """Calls `action(argument)` then."""
        self._push(self.now + delay_s, _MESSAGE, action, argument)

    def at(self, time: float, action: Callable[[Any], object], argument: Any = None) -> None:
        """Calls `action(argument)` at that time, or at once if it is over."""
        self._push(time, _MESSAGE, action, argument)

    def _push(self, time: float, rank: int, action: Callable[[Any], object], argument: Any) -> None:
        # The running number keeps the order of equals, and actions from being compared.
        self._count += 1
        heapq.heappush(self._heap, (time, rank, self._count, action, argument))

    # Time

    def advance(self, until: float = inf) -> None:
        """Lets virtual time pass up to `until`, or until nothing is left to happen."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            time, _, _, action, argument = heapq.heappop(heap)
            if time > self.now:
                self.now = time
            action(argument)
        if until < inf:
            self.now = max(self.now, until)

    def _pass(self, _: None) -> None:
        self._pass_is_due = False
        if not self.state.wants_passes:
            return
        self.passes += 1
        plan = self.plan()
        for proposed in plan.in_order():
            if isinstance(proposed, Placement):
                transaction = self.tell(PlacementProposed(proposed))
                assert transaction.refusal is None, f"the pass placed what does not fit: {proposed}"
            else:
                transaction = self.tell(PreemptionProposed(proposed))
                assert transaction.refusal is None, f"the pass chose who may not give way: {proposed}"
        for resizes in plan.resizes:
            transaction = self.tell(ResizeProposed(resizes))
            assert transaction.refusal is None, f"the pass resized what may not be: {resizes}"
        if self.now < plan.wake_time < self._wake_time:
            self._wake_time = plan.wake_time
            self._push(plan.wake_time, _MESSAGE, self._wake, None)

    def _wake(self, _: None) -> None:
        self._wake_time = inf
        self.want_pass()

    def plan(self) -> Plan:
        """What a pass would do now."""
        return schedule(snapshot(self.state, self.now), self.workspace)

    # Nodes

    def register(self, name: str) -> None:
        """The node's daemon comes (back), and says what it holds."""
        node = self.nodes[NodeName(name)]
        node.alive = True
        self.tell(RegisterNode(node.name, self._facts, tuple(node.runs.values())))

    def kill_node(self, name: str) -> None:
        """The host dies with everything on it; the controller sees its stream break."""
        node = self.nodes[NodeName(name)]
        node.alive = False
        node.runs.clear()
        self.tell(NodeSilent(node.name))

    def declare_lost(self, name: str) -> None:
        """It has been silent for too long, and has had its time to end its runs."""
        self.tell(NodeSilent(NodeName(name), lost=True))
        self.tell(NodeGivenUp(NodeName(name)))

    def _obey(self, command: NodeCommand) -> None:
        node = self.nodes[command.node]
        if not node.alive:
            return
        if isinstance(command, AskCheckpoint) and not command.withdrawn:
            self._save(command)
        report, started = node.obey(command)
        if report is not None:
            self._report(NodeReport(node.name, report))
        if started is not None:
            self._start(node, started)

    def saving_s(self, job: Job) -> float | None:
        """How long its run takes to save when it is asked to; None: it does not."""
        return typical_duration_s(job.checkpoints)

    def _save(self, command: AskCheckpoint) -> None:
        job = self.state.jobs.get(command.job_id)
        if job is not None and job.batch_host == command.node:
            delay_s = self.saving_s(job)
            if delay_s is not None:
                asked = (job.id, job.run, job.checkpoint_requested)
                self.later(delay_s, self._saved, asked)

    def _saved(self, asked: tuple[JobId, RunNumber, float]) -> None:
        job_id, run, request = asked
        made = Checkpoint(run, f"/checkpoints/{job_id}", time=self.now, duration_s=self.now - request)
        self.tell(CheckpointMade(job_id, run, made, request))

    def _start(self, node: VirtualNode, key: RunKey) -> None:
        """A script runs on the batch host; the other nodes of its gang only wait for it."""
        job = self.state.jobs.get(key[0])
        if job is None or job.batch_host != node.name or not job.spec.is_batch:
            return
        self.starting(node, key)
        self.exit_after(self.duration_of(job), node, key)
        self._report(NodeReport(node.name, node.start(key, self.now)))

    def exit_after(self, duration_s: float, node: VirtualNode, key: RunKey) -> None:
        """The script ends then, if it still runs."""
        if duration_s < inf:
            self.later(duration_s, self._exit, (node, key))

    def starting(self, node: VirtualNode, key: RunKey) -> None:
        """For whoever watches: a script is about to run there."""

    def exit_code_of(self, key: RunKey) -> int:
        return 0

    def _exit(self, ended: tuple[VirtualNode, RunKey]) -> None:
        node, key = ended
        job = self.state.jobs.get(key[0])
        alone = job is None or len(job.allocation) == 1
        report = node.exit(key, self.now, self.exit_code_of(key), alone=alone)
        if report is not None:
            self._report(report)

    def _report(self, report: NodeReport) -> None:
        if self._latency_s:
            self.later(self._latency_s, self._arrived, report)
        else:
            self.tell(report)

    def _arrived(self, report: NodeReport) -> None:
        if self.nodes[report.node].alive:
            self.tell(report)
