"""Suspect, down, given up: by silence and nothing shorter; and who is asked about it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from minislurm.cluster.contacts import Contacts, extension_s
from minislurm.cluster.messages import Message, NodeAnswers, NodeGivenUp, NodeSilent, UpdateNode
from minislurm.cluster.witnesses import choose_witnesses, majority_of
from minislurm.domain.configuration import TimersSection
from minislurm.domain.ids import NodeName
from minislurm.domain.states import NodeState
from tests.builders import a_configuration
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import operate, running, state_of

N1 = NodeName("n1")
TIMERS = TimersSection(heartbeat_interval_s=1, node_suspect_s=3, node_timeout_s=10, node_grace_s=2)


class World:
    """A cluster whose nodes are heard every second, but for the silent ones."""

    def __init__(self, nodes: int = 4) -> None:
        configuration = replace(a_configuration(nodes), timers=TIMERS)
        self.cluster = SimCluster(configuration, duration_of=lambda job: 1e6)
        self.contacts = Contacts(TIMERS, self.cluster.now)
        self.said: list[tuple[float, Message]] = []
        self.began = self.cluster.now
        for name in self.cluster.nodes:
            self.contacts.opened(name, self.cluster.now)

    def run(self, seconds: float, silent: Iterable[str] = ()) -> None:
        for _ in range(int(seconds)):
            self.cluster.run(1)
            for name, node in self.cluster.nodes.items():
                node.alive = name not in silent
                if node.alive:
                    self.contacts.heard(name, self.cluster.now)
            for message in self.contacts.look(self.cluster.state, self.cluster.now):
                self.cluster.tell(message)
                self.said.append((self.cluster.now - self.began, message))

    def of(self, kind: type[Message]) -> list[tuple[float, str]]:
        return [(time, str(m.node)) for time, m in self.said if isinstance(m, kind)]  # type: ignore[union-attr]


def test_one_missed_heartbeat_harms_nothing() -> None:
    world = World()
    world.run(20)
    world.run(2, ["n1"])
    world.run(20)
    assert not world.said


def test_a_node_is_suspect_then_down_then_given_up() -> None:
    world = World()
    job_id = world.cluster.submit()
    world.run(20)
    assert running(world.cluster) == {job_id}
    world.run(30, ["n1"])
    silent = [(t, m.lost) for t, m in world.said if isinstance(m, NodeSilent)]
    assert silent == [(24.0, False), (31.0, True)]
    assert world.of(NodeGivenUp) == [(33.0, "n1")]
    assert (state_of(world.cluster, job_id), world.cluster.job(job_id).run) == ("RUNNING", 2)


def test_a_suspect_that_answers_is_none_any_more() -> None:
    world = World()
    world.run(20)
    world.run(6, ["n1"])
    node = world.cluster.state.nodes[N1]
    assert (node.state, node.responding, node.is_usable) == (NodeState.UP, False, False)
    world.run(3)
    assert world.of(NodeAnswers) == [(27.0, "n1")]
    assert node.is_usable


def test_its_time_to_end_its_runs_is_not_for_others() -> None:
    """Between DOWN and given up nothing of its jobs starts."""
    world = World()
    job_id = world.cluster.submit()
    world.run(20)
    world.run(12, ["n1"])
    assert world.cluster.state.nodes[N1].state is NodeState.DOWN
    assert state_of(world.cluster, job_id) == "COMPLETING"
    assert world.cluster.job(job_id).open_nodes == ("n1",)


def test_a_node_is_given_up_only_if_its_witnesses_could_have_told_it_so() -> None:
    """n1 and most of its witnesses are silent: n1 may have heard from them that the controller is away."""
    world = World(5)
    world.run(20)
    first, second, _ = world.cluster.state.nodes[N1].witnesses
    world.run(60, ["n1", first, second])
    assert "n1" not in [name for _, name in world.of(NodeGivenUp)]
    world.run(60, ["n1"])
    assert [name for _, name in world.of(NodeGivenUp) if name == "n1"] == ["n1"]


def test_witnesses_that_are_just_back_do_not_count_at_once() -> None:
    """What they have said before is good for an extension."""
    world = World(4)
    world.run(20)
    others = [name for name in world.cluster.nodes if name != "n1"]
    world.run(30, ["n1", *others[:2]])
    back = world.cluster.now - world.began
    world.run(40, ["n1"])
    (given_up,) = [time for time, name in world.of(NodeGivenUp) if name == "n1"]
    assert given_up >= back + extension_s(TIMERS) + TIMERS.node_grace_s


def test_without_witnesses_a_node_is_left_to_the_operator() -> None:
    world = World(1)
    job_id = world.cluster.submit()
    world.run(20)
    world.run(100, ["n1"])
    assert not world.of(NodeGivenUp)
    assert state_of(world.cluster, job_id) == "COMPLETING"
    assert operate(world.cluster, "n1", "DOWN", "its host has burnt") is None
    assert state_of(world.cluster, job_id) == "PENDING"


def test_an_operators_down_waits_for_a_node_that_answers() -> None:
    """It says itself when its runs are gone; until then they do not start elsewhere."""
    world = World(2)
    job_id = world.cluster.submit()
    world.run(5)
    world.cluster.tell(UpdateNode(N1, OPERATOR, "DOWN", "on fire"))
    assert world.cluster.job(job_id).open_nodes == ("n1",)
    world.run(2)
    assert (state_of(world.cluster, job_id), world.cluster.job(job_id).run) == ("RUNNING", 2)
    assert world.cluster.state.nodes[N1].stale_runs == ()


def test_a_controller_that_was_away_blames_nobody() -> None:
    world = World()
    world.run(20)
    world.cluster.now += 1000
    world.contacts.start_anew(world.cluster.now)
    world.run(8, list(world.cluster.nodes))
    assert not [m for _, m in world.said if isinstance(m, NodeSilent) and m.lost]
    world.run(20)
    assert all(node.is_usable for node in world.cluster.state.nodes.values())


# Who is asked


def test_witnesses_stand_in_other_racks() -> None:
    cluster = SimCluster(a_configuration(8, racks=4))
    rack_of = cluster.state.topology.leaf_of_node
    for node in cluster.state.nodes.values():
        assert node.name not in node.witnesses
        assert len({rack_of[name] for name in (node.name, *node.witnesses)}) == 4


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 9])
def test_as_many_as_there_are(nodes: int) -> None:
    cluster = SimCluster(a_configuration(nodes))
    for node in cluster.state.nodes.values():
        assert len(node.witnesses) == len(set(node.witnesses)) == min(3, nodes - 1)


def test_witnesses_stay_until_one_is_lost() -> None:
    cluster = SimCluster(a_configuration(6))
    node = cluster.state.nodes[N1]
    before = node.witnesses
    cluster.register("n1")
    assert node.witnesses == before
    cluster.kill_node(before[0])
    cluster.declare_lost(before[0])
    after = choose_witnesses(cluster.state, node)
    assert set(before[1:]) < set(after)
    assert before[0] not in after
    assert len(after) == 3


def test_no_node_is_asked_by_all() -> None:
    cluster = SimCluster(a_configuration(12))
    for name in cluster.nodes:
        cluster.register(name)
    asked = [name for node in cluster.state.nodes.values() for name in node.witnesses]
    assert max(asked.count(name) for name in cluster.nodes) <= 8


@pytest.mark.parametrize(("count", "needed"), [(0, 1), (1, 1), (2, 2), (3, 2)])
def test_majorities_meet(count: int, needed: int) -> None:
    assert majority_of(count) == needed
