"""Random histories of elastic jobs beside rigid ones, with faults.

`check` asserts after every transaction that nothing is used twice and that no run shrinks below its minimum;
here: nothing flaps, the journal gives the same state, and nothing is stuck at the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from minislurm.cluster.core import Transaction
from minislurm.cluster.events import ResizeBegun, RunPlaced
from minislurm.cluster.messages import (
    CancelJob,
    CheckpointListener,
    CheckpointMade,
    RequeueJob,
    UpdateJob,
    UpdateNode,
)
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.configuration import ElasticSection, Partition
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.states import JobState
from minislurm.domain.views import JobChanges, JobTarget
from tests.builders import a_configuration, a_request
from tests.sim.cluster import OPERATOR, SimCluster
from tests.sim.test_core_properties import assert_same

NODES = 6
COOLDOWN_S, SHRINK_COOLDOWN_S = 4.0, 2.0
node_names = st.sampled_from([f"n{i}" for i in range(1, NODES + 1)])
numbers = st.integers(1, 10)


class ElasticCluster(SimCluster):
    """Counts how often runs change their size, and who starts."""

    def __init__(self) -> None:
        self.growths: dict[JobId, list[float]] = defaultdict(list)
        self.shrinks: Counter[JobId] = Counter()
        self.placed: Counter[JobId] = Counter()
        configuration = a_configuration(NODES, cpus=4, gpus=2, racks=2)
        (batch,) = configuration.partitions
        high = Partition("urgent", batch.nodes, priority_tier=2)
        timers = replace(configuration.timers, prepare_timeout_s=3.0, node_timeout_s=30.0)
        super().__init__(
            replace(
                configuration,
                partitions=(batch, high),
                timers=timers,
                elastic=ElasticSection(COOLDOWN_S, SHRINK_COOLDOWN_S),
            ),
            duration_of=_duration,
        )

    def observe(self, transaction: Transaction) -> None:
        super().observe(transaction)
        for event in transaction.events:
            match event:
                case ResizeBegun(kind="grow"):
                    self.growths[event.job_id].append(event.time)
                case ResizeBegun(kind="shrink"):
                    self.shrinks[event.preemptor] += 1
                case RunPlaced():
                    self.placed[event.job_id] += 1


def _duration(job: Job) -> float:
    return 60.0 if job.is_elastic else 5.0 + job.id % 11


class History(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        """Somebody is there who may grow, beside somebody who will end."""
        self.cluster = ElasticCluster()
        self.submit_rigid(2, 4, 30.0, "batch")
        self.submit_elastic(1, 4, 0, "restart", 0, 4, None, "", 0)
        self.submit_elastic(1, 3, 0, "in-place", 0, 4, None, "", 0)

    @rule(
        least=st.integers(1, 3),
        more=st.integers(1, 4),
        step=st.sampled_from([0, 0, 1, 2, -1]),
        mode=st.sampled_from(["restart", "in-place"]),
        gpus=st.integers(0, 1),
        cpus=st.sampled_from([1, 4]),
        limit=st.sampled_from([None, 40.0, 1000.0]),
        level=st.sampled_from(["", "", "rack"]),
        array=st.sampled_from([0, 0, 2]),
    )
    def submit_elastic(
        self,
        least: int,
        more: int,
        step: int,
        mode: str,
        gpus: int,
        cpus: int,
        limit: float | None,
        level: str,
        array: int,
    ) -> None:
        request = a_request(
            least,
            nodes_max=max(least + more, 2 * least),
            tasks=2 * least if cpus == 1 else least,
            tasks_follow_nodes=True,
            cpus_per_task=cpus,
            gpus_per_node=gpus,
            nodes_step=min(step, more),
            topology_level=level,
            topology_required=bool(level) and least < 3,
        )
        self.cluster.submit(
            request=request, elastic=mode, time_limit_s=limit, requeue=True, array_tasks=tuple(range(array))
        )
        self.cluster.run(6.0)

    @rule(
        nodes=st.integers(1, 4),
        cpus=st.sampled_from([1, 3, 4]),
        limit=st.sampled_from([5.0, 30.0]),
        partition=st.sampled_from(["batch", "batch", "urgent"]),
    )
    def submit_rigid(self, nodes: int, cpus: int, limit: float, partition: str) -> None:
        request = a_request(nodes, cpus_per_task=cpus)
        self.cluster.submit(request=request, time_limit_s=limit, partition=partition)
        self.cluster.run(0.01)

    @rule(number=numbers)
    def cancel(self, number: int) -> None:
        self.cluster.tell(CancelJob(JobTarget(JobId(number)), OPERATOR))

    @rule(number=numbers, hold=st.booleans())
    def requeue(self, number: int, hold: bool) -> None:
        self.cluster.tell(RequeueJob(JobTarget(JobId(number)), OPERATOR, hold))

    @rule(number=numbers, least=st.integers(1, 3), most=st.integers(1, 5))
    def resize(self, number: int, least: int, most: int) -> None:
        changes = JobChanges(nodes_min=least, nodes_max=max(least, most))
        self.cluster.tell(UpdateJob(JobTarget(JobId(number)), OPERATOR, changes))

    @rule(number=numbers)
    def listen(self, number: int) -> None:
        """Its run can be asked to save from now on, and is when it is to restart."""
        job = self.cluster.state.jobs.get(JobId(number))
        if job is not None and job.run:
            self.cluster.tell(CheckpointListener(job.id, job.run))

    @rule()
    def save(self) -> None:
        for job in list(self.cluster.state.jobs.values()):
            if job.checkpoint_requested:
                made = Checkpoint(job.run, "/saved", time=self.cluster.now)
                self.cluster.tell(CheckpointMade(job.id, job.run, made, job.checkpoint_requested))

    @rule(name=node_names)
    def kill_node(self, name: str) -> None:
        self.cluster.kill_node(name)
        self.cluster.declare_lost(name)

    @rule(name=node_names)
    def node_comes_back(self, name: str) -> None:
        self.cluster.register(name)

    @rule(name=node_names, answers=st.booleans())
    def node_is_silent(self, name: str, answers: bool) -> None:
        self.cluster.nodes[NodeName(name)].answers = answers

    @rule(name=node_names, state=st.sampled_from(["DRAIN", "RESUME"]))
    def operate_node(self, name: str, state: str) -> None:
        self.cluster.tell(UpdateNode(NodeName(name), OPERATOR, state, "maintenance"))

    @rule(seconds=st.sampled_from([0.005, 0.02, 0.5, 5.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        self.cluster.run(seconds)

    @rule()
    def restart_controller(self) -> None:
        self.cluster.restart_controller()

    @invariant()
    def journal_gives_the_same_state(self) -> None:
        if hasattr(self, "cluster"):
            assert_same(self.cluster)

    @invariant()
    def nothing_flaps(self) -> None:
        """A run grows no sooner than its cooldown allows, and gives back only for jobs that start by it."""
        if not hasattr(self, "cluster"):
            return
        for times in self.cluster.growths.values():
            gaps = [later - earlier for earlier, later in pairwise(times)]
            assert all(gap >= COOLDOWN_S for gap in gaps), f"it grew twice within its cooldown: {gaps}"

    def teardown(self) -> None:
        """With every node healthy again, whatever can end does."""
        if not hasattr(self, "cluster"):
            return
        for name, node in self.cluster.nodes.items():
            node.answers = True
            self.cluster.register(str(name))
            self.cluster.tell(UpdateNode(name, OPERATOR, "RESUME"))
        self.cluster.run(400.0)
        for job in self.cluster.state.jobs.values():
            assert job.state not in (JobState.CONFIGURING, JobState.COMPLETING), f"{job.id} is stuck: {job}"


TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
