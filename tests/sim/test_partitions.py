"""Random partitions, one way or both, delays, a controller that is stopped or killed: no run is ever executed
twice at once. The node's decision (`node/isolation.py`), the controller's (`cluster/contacts.py`) and the
core are the production code; streams, clocks and processes are played."""

from __future__ import annotations

import random

import pytest
from msgspec import field
from msgspec.structs import replace

from minislurm.cluster.contacts import Contacts
from minislurm.cluster.messages import NodeReport, NodeSilent, RunReport
from minislurm.domain.ids import NodeName
from minislurm.domain.node import Witness
from minislurm.domain.states import JobState
from minislurm.node.isolation import Isolation, Vote
from minislurm.sim.virtual_node import RunKey, VirtualNode
from tests.builders import a_configuration, a_request
from tests.sim.cluster import SimCluster, SimNode

NODES = 6
BEAT_S, SUSPECT_S, TIMEOUT_S, GRACE_S = 1.0, 3.0, 10.0, 3.0
TICK_S = 0.25


class Host(SimNode):
    """A node with its side of the stream, and its lease."""

    #: What gets through to the controller, and from it.
    up: bool = True
    down: bool = True
    stream: bool = True
    isolation: Isolation = field(default_factory=lambda: Isolation.begin(TIMEOUT_S, SUSPECT_S, 0.0))
    begun: float = 0.0
    next_beat: float = 0.0
    #: The lease has ended: when its runs are dead.
    killed_at: float = float("inf")


class Network(SimCluster):
    nodes: dict[NodeName, Host]  # type: ignore[assignment]

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.is_awake = True
        self.cuts: set[frozenset[NodeName]] = set()
        configuration = a_configuration(NODES, cpus=2, racks=3)
        timers = replace(
            configuration.timers, heartbeat_interval_s=BEAT_S, node_suspect_s=SUSPECT_S,
            node_timeout_s=TIMEOUT_S, node_grace_s=GRACE_S,
        )  # fmt: skip
        jobs = replace(configuration.jobs, max_requeues="", avoid_failed_node_s=5.0)
        node = replace(configuration.node, lemon_failures=0, drain_after_launch_failures=0)
        configuration = replace(configuration, timers=timers, jobs=jobs, node=node)
        super().__init__(configuration, duration_of=lambda job: float("inf"))
        self.contacts = Contacts(timers, self.now)
        for name, host in self.nodes.items():
            host.begun = self.now
            host.isolation = Isolation.begin(TIMEOUT_S, SUSPECT_S, self.now)
            self._connect(name)
        self.later(0.0, self._tick)

    def make_node(self, name: NodeName) -> VirtualNode:
        return Host(name)

    def starting(self, node: VirtualNode, key: RunKey) -> None:
        """On no host, reachable or not, may another run of the job be executed."""
        for other in self.nodes.values():
            for held, run in other.runs.items():
                twice = held[0] == key[0] and held != key and run.phase == "RUNNING"
                assert not twice, f"{key} starts on {node.name} while {held} runs on {other.name}"

    # What time brings

    def _tick(self, _: None) -> None:
        for name, host in self.nodes.items():
            self._keep_lease(name, host)
            self._keep_stream(name, host)
        if self.is_awake:
            for message in self.contacts.look(self.state, self.now):
                self.tell(message)
        self.later(TICK_S, self._tick)

    def _keep_stream(self, name: NodeName, host: Host) -> None:
        both = host.up and host.down and self.is_awake
        host.alive = host.stream and both
        if host.stream and host.isolation.is_silent(self.now):
            host.stream = host.alive = False
            if host.up and self.is_awake:
                self.contacts.closed(name)
                self.tell(NodeSilent(name))
        elif not host.stream and both:
            self._connect(name)
        elif host.stream and self.now >= host.next_beat:
            host.next_beat = self.now + BEAT_S
            self.later(self.chance.random() * 0.4, self._beat_arrives, (name, self.now))

    def _beat_arrives(self, beat: tuple[NodeName, float]) -> None:
        name, _ = beat
        host = self.nodes[name]
        if host.up and host.stream and self.is_awake:
            self.contacts.heard(name, self.now)
            self.later(self.chance.random() * 0.4, self._answer_arrives, beat)

    def _answer_arrives(self, beat: tuple[NodeName, float]) -> None:
        name, sent = beat
        host = self.nodes[name]
        if host.down and host.stream:
            self._heard(host, sent)

    def _heard(self, host: Host, sent: float) -> None:
        host.isolation.confirm(sent)
        witnesses = self.state.nodes[host.name].witnesses
        host.isolation.witnesses = tuple(Witness(name, "", 1) for name in witnesses)

    def _connect(self, name: NodeName) -> None:
        host = self.nodes[name]
        host.stream = True
        self.contacts.opened(name, self.now)
        self.register(name)
        self._heard(host, self.now)

    def _keep_lease(self, name: NodeName, host: Host) -> None:
        isolation = host.isolation
        if isolation.asks(self.now):
            isolation.last_asked = self.now
            votes = [
                self.vote(self.nodes[one.node])
                for one in isolation.witnesses or ()
                if frozenset((name, one.node)) not in self.cuts
            ]
            isolation.judge(votes, self.now)
        if isolation.has_ended(self.now) and host.killed_at == float("inf"):
            host.killed_at = isolation.until + self.chance.random() * GRACE_S / 2
        if self.now >= host.killed_at:
            host.killed_at = float("inf")
            for key, run in list(host.runs.items()):
                if run.phase != "CLEAN":
                    host.runs[key] = RunReport(*key, "CLEAN", node_lost=True)
            if host.stream:
                host.stream = host.alive = False  # its next registration says so

    def vote(self, host: Host) -> Vote:
        return Vote(self.now - host.isolation.confirmed, self.now - host.begun)

    def _arrived(self, report: NodeReport) -> None:
        if self.nodes[report.node].alive:
            self.tell(report)

    # Faults

    def fault(self) -> None:
        chance = self.chance
        host = self.nodes[chance.choice(list(self.nodes))]
        match chance.randrange(9):
            case 0 | 1:
                host.up = host.down = False
            case 2:
                host.up = False
            case 3:
                host.down = False
            case 4:  # all of a rack, or half of the cluster
                for other in chance.sample(list(self.nodes.values()), chance.choice([2, 3])):
                    other.up = other.down = False
            case 5:
                for other in self.nodes:
                    if other != host.name:
                        self.cuts.add(frozenset((host.name, other)))
                host.up = host.down = False
            case 6:
                self.heal()
            case 7:
                self.is_awake = False
            case 8:
                self.wake()

    def wake(self) -> None:
        """The controller goes on, or was killed and starts again."""
        if not self.is_awake:
            self.is_awake = True
            if self.chance.random() < 0.5:
                self.contacts.start_anew(self.now)
            else:
                self.contacts = Contacts(self.configuration.timers, self.now)
                for host in self.nodes.values():
                    host.stream = host.alive = False
                    self.tell(NodeSilent(host.name))

    def heal(self) -> None:
        self.cuts.clear()
        for host in self.nodes.values():
            host.up = host.down = True
        self.wake()


@pytest.mark.parametrize("seed", range(30))
def test_no_run_is_executed_twice_at_once(seed: int) -> None:
    network = Network(seed)
    jobs = [network.submit(request=a_request(1 + i % 2, cpus_per_task=1)) for i in range(5)]
    network.run(2)
    for _ in range(60):
        network.fault()
        network.run(network.chance.random() * 12)
    network.heal()
    network.run(60)
    for job_id in jobs:
        job = network.job(job_id)
        assert job.state is JobState.RUNNING, f"{job_id} is {job.state.value}, {network.reason(job_id)}"
        running = [n.name for n in network.nodes.values() for k, r in n.runs.items()
                   if k[0] == job_id and r.phase == "RUNNING"]  # fmt: skip
        assert running == [job.batch_host]


def test_partitions_do_move_jobs() -> None:
    """What the others show is not shown by standing still."""
    moved = 0
    for seed in range(5):
        network = Network(seed)
        job_id = network.submit()
        network.run(2)
        host = network.nodes[network.job(job_id).allocation[0].node]
        host.up = host.down = False
        network.run(TIMEOUT_S + GRACE_S + 2)
        moved += network.job(job_id).run == 2 and network.job(job_id).state is JobState.RUNNING
    assert moved == 5


def test_nothing_ends_while_the_controller_is_away() -> None:
    network = Network(1)
    jobs = [network.submit() for _ in range(4)]
    network.run(2)
    network.is_awake = False
    network.run(20 * TIMEOUT_S)
    network.wake()
    network.run(3 * TIMEOUT_S)
    assert all((network.job(j).state, network.job(j).run) == (JobState.RUNNING, 1) for j in jobs)


def test_a_rack_that_is_lost_while_the_controller_is_away_goes_on_and_is_not_started_twice() -> None:
    network = Network(2)
    job_id = network.submit()
    network.run(2)
    network.is_awake = False
    network.run(2 * TIMEOUT_S)
    host = network.nodes[network.job(job_id).allocation[0].node]
    host.up = host.down = False
    network.wake()
    network.run(10 * TIMEOUT_S)
    assert (network.job(job_id).state, network.job(job_id).run) == (JobState.RUNNING, 2)
