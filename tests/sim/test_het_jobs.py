"""Random histories of heterogeneous jobs under contention and faults: none of their components ever runs, or
waits, without the others (`check` asserts it after every transaction), and none is left behind."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from minislurm.cluster.messages import CancelJob, HoldJob, ReleaseJob, RequeueJob, UpdateJob
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.states import JobState
from minislurm.domain.views import JobChanges, JobTarget
from tests.builders import a_configuration, a_request, a_spec
from tests.sim.cluster import OPERATOR, SimCluster
from tests.sim.test_core_properties import assert_same

NODES = 4
#: Nodes, CPUs a task, GPUs a node, whole nodes.
SHAPES = st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(0, 1), st.booleans())
node_names = st.sampled_from([f"n{i}" for i in range(1, NODES + 1)])
numbers = st.integers(1, 9)


class Together(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        configuration = a_configuration(NODES, cpus=4, gpus=1, racks=2)
        timers = replace(
            configuration.timers, min_job_age_s=100.0, node_timeout_s=30.0, prepare_timeout_s=5.0
        )
        self.cluster = SimCluster(
            replace(configuration, timers=timers), duration_of=lambda job: 3.0 + job.id % 7
        )

    @rule(
        shapes=st.lists(SHAPES, min_size=2, max_size=4),
        limit=st.sampled_from([5.0, 60.0]),
        requeue=st.booleans(),
        max_wait=st.sampled_from([0.0, 0.0, 10.0]),
    )
    def submit(
        self, shapes: list[tuple[int, int, int, bool]], limit: float, requeue: bool, max_wait: float
    ) -> None:
        specs = [
            a_spec(
                request=a_request(nodes, cpus_per_task=cpus, gpus_per_node=gpus, exclusive=whole),
                time_limit_s=limit if offset else 60.0,
                requeue=requeue,
                max_wait_s=max_wait,
            )
            for offset, (nodes, cpus, gpus, whole) in enumerate(shapes)
        ]
        self.cluster.submit_components(*specs)

    @rule(nodes=st.integers(1, 3))
    def submit_plain(self, nodes: int) -> None:
        self.cluster.submit(request=a_request(nodes, cpus_per_task=3), time_limit_s=20.0)

    @rule(number=numbers, offset=st.sampled_from([None, 0, 1, 2]))
    def cancel(self, number: int, offset: int | None) -> None:
        self.cluster.tell(CancelJob(JobTarget(JobId(number), het_offset=offset), OPERATOR))

    @rule(number=numbers, hold=st.booleans())
    def requeue(self, number: int, hold: bool) -> None:
        self.cluster.tell(RequeueJob(JobTarget(JobId(number)), OPERATOR, hold))

    @rule(number=numbers)
    def hold(self, number: int) -> None:
        self.cluster.tell(HoldJob(JobTarget(JobId(number)), OPERATOR))

    @rule(number=numbers)
    def release(self, number: int) -> None:
        self.cluster.tell(ReleaseJob(JobTarget(JobId(number)), OPERATOR))

    @rule(number=numbers, deadline=st.sampled_from([None, 20.0]), offset=st.sampled_from([None, 1]))
    def update(self, number: int, deadline: float | None, offset: int | None) -> None:
        until = None if deadline is None else self.cluster.now + deadline
        target = JobTarget(JobId(number), het_offset=offset)
        self.cluster.tell(UpdateJob(target, OPERATOR, JobChanges(time_limit_s=30.0, deadline=until)))

    @rule(name=node_names)
    def kill_node(self, name: str) -> None:
        self.cluster.kill_node(name)

    @rule(name=node_names)
    def lose_node(self, name: str) -> None:
        self.cluster.kill_node(name)
        self.cluster.declare_lost(name)

    @rule(name=node_names)
    def node_comes_back(self, name: str) -> None:
        self.cluster.register(name)

    @rule(name=node_names, answers=st.booleans())
    def mute(self, name: str, answers: bool) -> None:
        self.cluster.nodes[NodeName(name)].answers = answers

    @rule(loses=st.booleans())
    def restart_controller(self, loses: bool) -> None:
        if loses:
            self.cluster.lose_effects = True
            self.cluster.run(0.02)
        self.cluster.restart_controller()

    @rule(seconds=st.sampled_from([0.0, 0.011, 0.021, 1.0, 10.0]))
    def pass_time(self, seconds: float) -> None:
        self.cluster.run(seconds)

    @invariant()
    def journal_gives_the_same_state(self) -> None:
        if hasattr(self, "cluster"):
            assert_same(self.cluster)
            assert self.cluster.replayed().het_jobs == self.cluster.state.het_jobs

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        for name, node in self.cluster.nodes.items():
            node.answers = True
            self.cluster.register(str(name))
        self.cluster.run(600.0)
        for job in self.cluster.state.jobs.values():
            assert job.state not in (JobState.CONFIGURING, JobState.COMPLETING), f"{job.id} is stuck"


TestTogether = Together.TestCase
TestTogether.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
