"""The simulator's cluster (`minislurm/sim/virtual_cluster.py`) with faults, and with checks after every step.

Every event goes through the journal's encoding; `check` runs after every transaction; each pass is made a
second time from nothing. Faults are what a network and a host can do: nodes that die, daemons that restart,
messages that come twice, a controller that is killed between journal and effect.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from msgspec import field
from msgspec.structs import replace

from minislurm.cluster.apply import apply
from minislurm.cluster.check import check
from minislurm.cluster.core import Transaction
from minislurm.cluster.effects import Effect
from minislurm.cluster.messages import Caller, NodeSilent, SubmitJob
from minislurm.cluster.snapshot import snapshot
from minislurm.cluster.state import ClusterState
from minislurm.cluster.timers import all_timers
from minislurm.domain.configuration import Configuration
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Job, JobSpec
from minislurm.journal.encoding import decode, encode
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import Plan
from minislurm.sim.virtual_cluster import VirtualCluster
from minislurm.sim.virtual_node import RunKey, VirtualNode
from tests.builders import a_configuration, a_spec, facts

OPERATOR = Caller(0, is_operator=True)


class SimNode(VirtualNode):
    #: Runs whose script was ever started here, for "never twice at once".
    started: list[RunKey] = field(default_factory=list)


class SimCluster(VirtualCluster):
    """`duration_of`: how long a job's script runs (seconds of virtual time) and how it exits."""

    nodes: dict[NodeName, SimNode]  # type: ignore[assignment]
    pass_rank = -1

    def __init__(
        self, configuration: Configuration | None = None, *, duration_of: Callable[[Job], float] | None = None
    ) -> None:
        self.journal: list[bytes] = []
        self.exit_codes: dict[JobId, int] = {}
        #: Effects of events that are in the journal are lost when this is set (a controller that dies).
        self.lose_effects = False
        self._requests = itertools.count()
        super().__init__(
            configuration or a_configuration(),
            duration_of or (lambda job: 10.0),
            record=lambda event: self.journal.append(encode(event)),
            latency_s=0.01,
            facts=facts(),
        )

    def make_node(self, name: NodeName) -> VirtualNode:
        return SimNode(name)

    # Messages

    def observe(self, transaction: Transaction) -> None:
        check(self.state)

    def perform(self, effect: Effect) -> None:
        if not self.lose_effects:
            super().perform(effect)

    def send(self, effect: Effect) -> None:
        """Once more."""
        self.perform(effect)

    def submit(self, spec: JobSpec | None = None, **changes: object) -> JobId:
        """Raises Refusal."""
        wanted = spec if spec is not None else a_spec(**changes)  # type: ignore[arg-type]
        caller = Caller(wanted.user_id)
        request_id = f"request-{next(self._requests)}"
        transaction = self.tell(SubmitJob(wanted, caller, request_id))
        if transaction.refusal is not None:
            raise transaction.refusal
        return self.state.requests[request_id].job_id

    def submit_components(self, *specs: JobSpec) -> JobId:
        """A heterogeneous job; its leader's id. Raises Refusal."""
        request_id = f"request-{next(self._requests)}"
        message = SubmitJob(specs[0], Caller(specs[0].user_id), request_id, specs[1:])
        transaction = self.tell(message)
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
        leader = self.job(job_id).het_job_id or JobId(job_id)
        wait = schedule(snapshot(self.state, self.now)).waits.get(leader)
        return wait.reason.value if wait is not None else "None"

    # Time

    def run(self, seconds: float = 0.0) -> None:
        """Lets virtual time pass, passes included."""
        self.advance(self.now + seconds)

    def run_until(self, condition: Callable[[], bool], limit_s: float = 10_000.0) -> None:
        end = self.now + limit_s
        while not condition():
            assert self.now < end, "the condition never came true"
            self.run(1.0)

    def plan(self) -> Plan:
        taken = snapshot(self.state, self.now)
        plan = schedule(taken, self.workspace)
        fresh = schedule(replace(taken, nodes=list(taken.nodes)))
        assert plan.placements == fresh.placements, "what the last pass left changes what this one decides"
        assert plan.waits == fresh.waits
        return plan

    # Nodes

    def saving_s(self, job: Job) -> float | None:
        """A test says itself when one saves."""
        return None

    def starting(self, node: VirtualNode, key: RunKey) -> None:
        assert isinstance(node, SimNode)
        others = [
            other
            for other in self.nodes.values()
            for held, run in other.runs.items()
            if held[0] == key[0] and run.phase == "RUNNING" and other.alive
        ]
        assert not others, f"job {key[0]} is started twice at once"
        node.started.append(key)

    def exit_code_of(self, key: RunKey) -> int:
        return self.exit_codes.get(key[0], 0)

    # Faults

    def cut_off(self, name: str) -> None:
        """The stream breaks; what runs there goes on."""
        self.nodes[NodeName(name)].alive = False
        self.tell(NodeSilent(NodeName(name)))

    def restart_controller(self) -> None:
        """As after a kill -9: the state from the journal, every waiting effect gone, nodes register anew."""
        self.lose_effects = False
        self.state = self.replayed()
        self.forget_all()
        running = [(n, k) for n in self.nodes.values() for k, r in n.runs.items() if r.phase == "RUNNING"]
        for node in self.state.nodes.values():
            self.tell(NodeSilent(node.name))
        for effect in list(all_timers(self.state, self.now)):
            self.perform(effect)
        for node, key in running:
            job = self.state.jobs.get(key[0])
            self.exit_after(5.0 if job is None else self.duration_of(job), node, key)
        for name, sim in self.nodes.items():
            if sim.alive:
                self.register(name)
        self.want_pass()

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
