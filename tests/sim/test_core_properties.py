"""Random histories with faults. After every transaction `check` asserts the invariants; the journal,
replayed, gives the same state; at the end nothing is stuck."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from minislurm.cluster.messages import (
    Caller,
    CancelJob,
    CreateReservation,
    DeleteReservation,
    HoldJob,
    NodeGivenUp,
    NodeHealth,
    NodeReport,
    NodeSilent,
    ReleaseJob,
    RequeueJob,
    RunReport,
    UpdateJob,
    UpdateNode,
)
from minislurm.domain.configuration import License
from minislurm.domain.errors import Refusal
from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.domain.job import Dependency, DependencyKind
from minislurm.domain.reservation import LicenseCount, ReservationFlag
from minislurm.domain.states import JobState
from minislurm.domain.views import JobChanges, JobTarget, ListChange, ReservationChanges
from tests.builders import a_configuration, a_request, a_spec
from tests.sim.cluster import OPERATOR, SimCluster

NODES = 5
#: Nodes, CPUs a task, GPUs a node.
SHAPES = st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(0, 2))
node_names = st.sampled_from([f"n{i}" for i in range(1, NODES + 1)])


class History(RuleBasedStateMachine):
    """Any order of requests, node faults, controller restarts and passing time."""

    @initialize()
    def start(self) -> None:
        configuration = a_configuration(NODES, cpus=4, gpus=2, racks=2, licenses=(License("a", 2),))
        timers = replace(
            configuration.timers, min_job_age_s=200.0, node_timeout_s=30.0, prepare_timeout_s=5.0
        )
        self.cluster = SimCluster(
            replace(configuration, timers=timers), duration_of=lambda job: 3.0 + job.id % 7
        )

    @rule(
        nodes=st.integers(1, 4),
        tasks=st.integers(1, 6),
        cpus=st.integers(1, 4),
        gpus=st.integers(0, 2),
        share=st.sampled_from([0, 0, 300, 500]),
        exclusive=st.booleans(),
        array=st.integers(0, 4),
        limit=st.sampled_from([None, 5.0, 60.0]),
        hold=st.booleans(),
        requeue=st.booleans(),
    )
    def submit(
        self,
        nodes: int,
        tasks: int,
        cpus: int,
        gpus: int,
        share: int,
        exclusive: bool,
        array: int,
        limit: float | None,
        hold: bool,
        requeue: bool,
    ) -> None:
        request = a_request(
            nodes, tasks=max(nodes, tasks), cpus_per_task=cpus, gpus_per_node=gpus, exclusive=exclusive
        )
        if share:
            request = replace(request, gpus_per_node=0, exclusive=False, gpu_share_milli=share)
        spec = a_spec(
            request=request,
            array_tasks=tuple(range(array)),
            array_limit=1 if array > 2 else 0,
            time_limit_s=limit,
            hold=hold,
            requeue=requeue,
        )
        with suppress(Refusal):  # it could never fit
            self.cluster.submit(spec)

    @rule(
        nodes=st.integers(1, 3),
        spares=st.integers(0, 2),
        each=st.integers(1, 2),
        on_node_fail=st.sampled_from(["", "requeue", "end", "hold"]),
        on_task_fail=st.sampled_from(["", "requeue", "hold"]),
        limits=st.sampled_from([{}, {"node_fail": 1}, {"task_fail": 0, "launch_failure": 1}]),
        limit=st.sampled_from([None, 5.0]),
        exit_code=st.sampled_from([0, 1]),
    )
    def submit_coming_back(
        self,
        nodes: int,
        spares: int,
        each: int,
        on_node_fail: str,
        on_task_fail: str,
        limits: dict[str, int],
        limit: float | None,
        exit_code: int,
    ) -> None:
        """With spare nodes, rules and limits."""
        job_id = self.cluster.submit(
            request=a_request(nodes, tasks=nodes * each),
            spare_nodes=spares,
            on_node_fail=on_node_fail,
            on_task_fail=on_task_fail,
            max_requeues={"timeout": 2, **limits},
            time_limit_s=limit,
            requeue_on_timeout=limit is not None,
        )
        self.cluster.exit_codes[job_id] = exit_code

    @rule(after=st.integers(1, 12), kind=st.sampled_from(list(DependencyKind)))
    def submit_dependent(self, after: int, kind: DependencyKind) -> None:
        clause = Dependency(kind, JobId(0 if kind is DependencyKind.SINGLETON else after))
        self.cluster.submit(dependencies=(clause,))

    @rule(
        shapes=st.lists(SHAPES, min_size=2, max_size=3),
        limit=st.sampled_from([5.0, 60.0]),
        hold=st.booleans(),
        requeue=st.booleans(),
        max_wait=st.sampled_from([0.0, 0.0, 10.0]),
        after=st.sampled_from([0, 0, 1, 2]),
    )
    def submit_components(
        self,
        shapes: list[tuple[int, int, int]],
        limit: float,
        hold: bool,
        requeue: bool,
        max_wait: float,
        after: int,
    ) -> None:
        """A heterogeneous job. That no component runs or waits without the others, `check` asserts."""
        clauses = (Dependency(DependencyKind.AFTER_OK, JobId(after)),) if after else ()
        specs = [
            a_spec(
                request=a_request(nodes, cpus_per_task=cpus, gpus_per_node=gpus),
                time_limit_s=limit if offset else 60.0,
                hold=hold,
                requeue=requeue,
                max_wait_s=max_wait,
                dependencies=clauses,
                kill_on_invalid_dependency=True,
            )
            for offset, (nodes, cpus, gpus) in enumerate(shapes)
        ]
        self.cluster.submit_components(*specs)

    @rule(number=st.integers(1, 15), offset=st.integers(0, 2))
    def cancel_component(self, number: int, offset: int) -> None:
        self.cluster.tell(CancelJob(JobTarget(JobId(number), het_offset=offset), Caller(1000)))

    @rule(
        user=st.integers(1000, 1001),
        reserved=st.booleans(),
        alone=st.booleans(),
        count=st.integers(0, 2),
        deadline=st.sampled_from([0.0, 30.0, 200.0]),
        max_wait=st.sampled_from([0.0, 10.0]),
        limit=st.sampled_from([None, 5.0, 60.0]),
    )
    def submit_claiming(
        self,
        user: int,
        reserved: bool,
        alone: bool,
        count: int,
        deadline: float,
        max_wait: float,
        limit: float | None,
    ) -> None:
        request = a_request(
            reservation="r" if reserved and "r" in self.cluster.state.reservations else "",
            licenses=(LicenseCount("a", count),) if count else (),
            exclusive_user=user if alone else None,
        )
        with suppress(Refusal):  # the reservation may be the other user's
            self.cluster.submit(
                request=request,
                user_id=user,
                time_limit_s=limit,
                max_wait_s=max_wait,
                deadline=self.cluster.now + deadline if deadline else 0.0,
            )

    @rule(
        name=st.sampled_from(["r", "s"]),
        nodes=st.lists(node_names, min_size=1, max_size=2),
        start=st.sampled_from([0.0, 10.0, 50.0]),
        length=st.sampled_from([5.0, 40.0]),
        flag=st.sampled_from(list(ReservationFlag)),
    )
    def reserve(
        self, name: str, nodes: list[str], start: float, length: float, flag: ReservationFlag
    ) -> None:
        changes = ReservationChanges(
            name,
            start_time=self.cluster.now + start,
            duration_s=length,
            users=ListChange("=", ("user1000",)),
            nodes=ListChange("=", tuple(nodes)),
            flags=ListChange("=", (flag.value,)),
        )
        self.cluster.tell(CreateReservation(changes, OPERATOR))

    @rule(name=st.sampled_from(["r", "s"]))
    def delete_reservation(self, name: str) -> None:
        self.cluster.tell(DeleteReservation(name, OPERATOR))

    @invariant()
    def licenses_are_never_overdrawn(self) -> None:
        if hasattr(self, "cluster"):
            assert self.cluster.state.licenses_used.get("a", 0) <= 2

    def _target(self, number: int, task: int | None = None) -> JobTarget:
        return JobTarget(JobId(number), () if task is None else (task,))

    @rule(number=st.integers(1, 15), task=st.one_of(st.none(), st.integers(0, 3)), user=st.booleans())
    def cancel(self, number: int, task: int | None, user: bool) -> None:
        self.cluster.tell(CancelJob(self._target(number, task), Caller(1000) if user else OPERATOR))

    @rule(number=st.integers(1, 15), task=st.one_of(st.none(), st.integers(0, 3)))
    def hold(self, number: int, task: int | None) -> None:
        self.cluster.tell(HoldJob(self._target(number, task), OPERATOR))

    @rule(number=st.integers(1, 15))
    def release(self, number: int) -> None:
        self.cluster.tell(ReleaseJob(self._target(number), OPERATOR))

    @rule(number=st.integers(1, 15), hold=st.booleans())
    def requeue(self, number: int, hold: bool) -> None:
        self.cluster.tell(RequeueJob(self._target(number), OPERATOR, hold))

    @rule(number=st.integers(1, 15), nodes=st.integers(1, 3), nice=st.integers(0, 100))
    def update(self, number: int, nodes: int, nice: int) -> None:
        self.cluster.tell(
            UpdateJob(
                self._target(number), OPERATOR, JobChanges(nice=nice, nodes_min=nodes, time_limit_s=9.0)
            )
        )

    @rule(name=node_names)
    def kill_node(self, name: str) -> None:
        self.cluster.kill_node(name)

    @rule(name=node_names)
    def node_comes_back(self, name: str) -> None:
        self.cluster.register(name)

    @rule(name=node_names)
    def cut_off(self, name: str) -> None:
        self.cluster.cut_off(name)

    @rule(name=node_names)
    def declare_lost(self, name: str) -> None:
        # Only a node whose host is dead: one that is cut off and goes on is the next issue's matter.
        node = self.cluster.nodes[NodeName(name)]
        if not node.alive:
            node.runs.clear()
            self.cluster.declare_lost(name)

    @rule(name=node_names)
    def fall_silent(self, name: str) -> None:
        """The host is dead, and its time to end what it ran is not over."""
        self.cluster.kill_node(name)
        self.cluster.tell(NodeSilent(NodeName(name), lost=True))

    @rule(name=node_names)
    def give_up(self, name: str) -> None:
        self.cluster.tell(NodeGivenUp(NodeName(name)))

    @rule(name=node_names, problem=st.sampled_from(["", "no space"]))
    def health_check(self, name: str, problem: str) -> None:
        self.cluster.tell(NodeHealth(NodeName(name), problem))

    @rule(name=node_names, state=st.sampled_from(["DRAIN", "RESUME"]))
    def operate_node(self, name: str, state: str) -> None:
        self.cluster.tell(UpdateNode(NodeName(name), OPERATOR, state, "maintenance"))

    @rule(offset=st.sampled_from([-1, 1]))
    def report_of_another_run(self, offset: int) -> None:
        """What nodes say of a run that is over, or never was, changes nothing."""
        before = len(self.cluster.journal)
        for job in list(self.cluster.state.jobs.values()):
            for part in job.allocation:
                for phase in ("PREPARED", "RUNNING", "EXITED", "CLEAN"):
                    report = RunReport(job.id, RunNumber(job.run + offset), phase, 1)
                    stale = f"{job.id}.{report.run}" in self.cluster.state.nodes[part.node].stale_runs
                    if not stale:
                        self.cluster.tell(NodeReport(part.node, report))
        assert len(self.cluster.journal) == before

    @rule()
    def repeated_report(self) -> None:
        """Delivering a report twice changes nothing."""
        for job in list(self.cluster.state.jobs.values()):
            for name in job.prepared_nodes:
                before = len(self.cluster.journal)
                self.cluster.tell(NodeReport(name, RunReport(job.id, job.run, "PREPARED")))
                assert len(self.cluster.journal) == before

    @rule(seconds=st.floats(0.0, 20.0))
    def pass_time(self, seconds: float) -> None:
        self.cluster.run(seconds)

    @rule()
    def restart_controller(self) -> None:
        self.cluster.restart_controller()

    @invariant()
    def journal_gives_the_same_state(self) -> None:
        if hasattr(self, "cluster"):
            assert_same(self.cluster)

    def teardown(self) -> None:
        """With every node healthy again, whatever can end does."""
        if not hasattr(self, "cluster"):
            return
        for name in self.cluster.nodes:
            self.cluster.register(str(name))
            self.cluster.tell(UpdateNode(name, OPERATOR, "RESUME"))
        self.cluster.run(600.0)
        for job in self.cluster.state.jobs.values():
            assert job.state not in (JobState.CONFIGURING, JobState.COMPLETING), f"{job.id} is stuck: {job}"


def assert_same(cluster: SimCluster) -> None:
    replayed = cluster.replayed()
    assert replayed.jobs == cluster.state.jobs
    assert replayed.arrays == cluster.state.arrays
    assert replayed.requests == cluster.state.requests
    assert replayed.reservations == cluster.state.reservations
    assert replayed.licenses_used == cluster.state.licenses_used
    assert replayed.next_job_id == cluster.state.next_job_id
    for name, node in replayed.nodes.items():
        assert node == cluster.state.nodes[name]


TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=5, deadline=None)
def test_same_seed_same_journal(seed: int) -> None:
    assert _journal(seed) == _journal(seed)


def _journal(seed: int) -> list[bytes]:
    import random

    chance = random.Random(seed)
    cluster = SimCluster(a_configuration(NODES, cpus=4), duration_of=lambda job: 1.0 + job.id % 5)
    for _ in range(20):
        try:
            cluster.submit(request=a_request(chance.randint(1, 4)))
        except Refusal:
            pass
        cluster.run(chance.random() * 4)
    return cluster.journal
