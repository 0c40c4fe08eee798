"""Random histories of a simulated cluster, and their journals in a real store."""

from __future__ import annotations

import random
from contextlib import suppress

from msgspec.structs import replace

from minislurm.cluster.apply import apply
from minislurm.cluster.messages import (
    ChangeAccounts,
    CheckpointListener,
    CheckpointMade,
    CreateReservation,
    DeleteReservation,
    PurgeDue,
    RequestCheckpoint,
    UpdateNode,
    UpdatePartition,
)
from minislurm.cluster.state import ClusterState
from minislurm.domain.accounts import (
    Account,
    AccountChanges,
    AccountUser,
    Association,
    AssociationLimits,
    Qos,
)
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.configuration import ElasticSection
from minislurm.domain.errors import Refusal
from minislurm.domain.ids import NodeName, RunNumber
from minislurm.domain.job import Dependency, DependencyKind
from minislurm.domain.reservation import ReservationFlag
from minislurm.domain.states import JobState, PartitionState
from minislurm.domain.views import JobTarget, ListChange, ReservationChanges
from minislurm.journal.encoding import decode
from minislurm.journal.records import changed_records
from minislurm.journal.store import Batch, Store
from tests.builders import a_configuration, a_request, a_spec
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import cancel, hold, operate, requeue, update


def a_history(seed: int, steps: int = 75) -> SimCluster:
    chance = random.Random(seed)
    configuration = a_configuration(4, cpus=4, gpus=2, racks=2)
    order = chance.choice(["multifactor", "sjf", "mlfq", "auction"])
    scheduler = replace(configuration.scheduler, order=order, sjf_by="history", mlfq_levels="5,50")
    configuration = replace(configuration, scheduler=scheduler)
    timers = replace(configuration.timers, min_job_age_s=20.0, prepare_timeout_s=5.0, request_memory_s=50.0)
    configuration = replace(configuration, timers=timers, elastic=ElasticSection(2.0, 1.0))
    cluster = SimCluster(configuration, duration_of=lambda job: 40.0 if job.is_elastic else 3.0 + job.id % 7)
    if seed % 3 == 1:
        _let_a_join_fail(cluster)
    for _ in range(steps):
        number = chance.randint(1, 25)
        node = f"n{chance.randint(1, 4)}"
        match chance.randint(0, 14):
            case 0 | 1 | 2:
                _submit(cluster, chance)
            case 3:
                cancel(cluster, number, by=OPERATOR)
            case 4:
                hold(cluster, number, by=OPERATOR)
            case 5:
                requeue(cluster, number, by=OPERATOR, hold=chance.random() < 0.3)
            case 6:
                update(cluster, number, by=OPERATOR, comment=f"c{number}", time_limit_s=30.0)
                update(cluster, number, by=OPERATOR, site_factor=number - 12)
            case 7:
                cluster.kill_node(node)
                cluster.declare_lost(node)
            case 8:
                cluster.register(node)
            case 9:
                operate(cluster, node, chance.choice(["DRAIN", "RESUME"]), "why")
            case 10:
                cluster.tell(PurgeDue())
                state = chance.choice(list(PartitionState))
                settings = {"max_nodes": chance.choice(["", "1", "2"]), "priority_tier": f"{number}"}
                cluster.tell(UpdatePartition("batch", OPERATOR, state, settings))
            case 11:
                _reserve(cluster, chance, node)
                _change_accounts(cluster, chance)
            case 12:
                _submit_elastic(cluster, chance)
                cluster.run(chance.random() * 5)
            case 13:
                _checkpoint(cluster, chance, number)
            case _:
                cluster.run(chance.random() * 15)
    return cluster


def _reserve(cluster: SimCluster, chance: random.Random, node: str) -> None:
    name = chance.choice(["r", "s"])
    cluster.tell(UpdateNode(NodeName(node), OPERATOR, weight=chance.randint(1, 5)))
    if name in cluster.state.reservations:
        cluster.tell(DeleteReservation(name, OPERATOR))
        return
    changes = ReservationChanges(
        name,
        start_time=cluster.now + chance.randint(0, 20),
        duration_s=float(chance.randint(5, 40)),
        users=ListChange("=", ("user1000",)),
        nodes=ListChange("=", (node,)),
        flags=ListChange("=", (chance.choice(list(ReservationFlag)).value, "IGNORE_JOBS")),
    )
    cluster.tell(CreateReservation(changes, OPERATOR, f"reservation-{cluster.now}"))


def _change_accounts(cluster: SimCluster, chance: random.Random) -> None:
    """Users user1000 and user1001 in accounts a and b, with whatever limits."""
    limits = AssociationLimits({"gres/gpu": chance.randint(0, 6)}, max_jobs=chance.choice([None, 2]))
    budget: dict[str, float] = {}
    if chance.random() < 0.7:
        budget = {"budget": chance.choice([0.001, 1.0]), "budget_period_s": 30.0}
    changes = AccountChanges(
        accounts=(
            Account("a", weight=chance.randint(1, 5), **budget),
            Account("b", parent="a", limits=limits),
        ),
        users=(AccountUser("user1000", "a"), AccountUser("user1001", "b")),
        associations=tuple(
            Association(*pair) for pair in (("a", "user1000"), ("b", "user1000"), ("b", "user1001"))
        ),
        qos=(Qos("high", priority=chance.randint(1, 9)),),
    )
    cluster.tell(ChangeAccounts(changes, cluster.state.accounts.version, OPERATOR))


def _checkpoint(cluster: SimCluster, chance: random.Random, number: int) -> None:
    """Asked for, taken back, reported by the present run or by another one."""
    cluster.run(0.5)
    running = [job for job in cluster.state.jobs.values() if job.state is JobState.RUNNING]
    if not running:
        return
    job = chance.choice(running)
    cluster.tell(CheckpointListener(job.id, job.run))
    cluster.tell(RequestCheckpoint(JobTarget(job.id), OPERATOR))
    run = RunNumber(job.run + chance.choice([0, 0, 1]))
    made = Checkpoint(run, f"/c/{chance.randint(1, 5)}", step=number, time=cluster.now)
    answers = job.checkpoint_requested if chance.random() < 0.5 else 0.0
    cluster.tell(CheckpointMade(job.id, run, made, answers))


def _submit(cluster: SimCluster, chance: random.Random) -> None:
    kinds = [None, *DependencyKind]
    kind = chance.choice(kinds)
    dependencies = () if kind is None else (Dependency(kind, chance.choice(list(cluster.state.jobs) or [1])),)
    takes_bids = cluster.configuration.scheduler.order == "auction"
    if chance.random() < 0.2:
        parts = [a_spec(request=a_request(chance.randint(1, 2))) for _ in range(chance.randint(2, 3))]
        with suppress(Refusal):
            cluster.submit_components(*parts)
        return
    try:
        cluster.submit(
            name=chance.choice("ab"),
            request=a_request(
                chance.randint(1, 3),
                gpus_per_node=chance.randint(0, 2),
                reservation=chance.choice(["", "", "r"]),
            ),
            max_wait_s=chance.choice([0.0, 20.0]),
            deadline=chance.choice([0.0, cluster.now + 60.0]),
            dependencies=dependencies,
            array_tasks=tuple(range(chance.choice([0, 0, 3]))),
            script_hash=chance.choice(["s1", "s2"]),
            is_batch=chance.random() < 0.9,
            user_name=chance.choice(["user1000", "user1000", "user1001", "nobody"]),
            account=chance.choice(["", "", "b"]),
            bid=float(chance.randint(0, 3)) if takes_bids else 0.0,
        )
    except Refusal:
        pass


def _submit_elastic(cluster: SimCluster, chance: random.Random) -> None:
    least = chance.randint(1, 2)
    with suppress(Refusal):
        cluster.submit(
            request=a_request(least, nodes_max=4, tasks_follow_nodes=True, gpus_per_node=1),
            elastic=chance.choice(["restart", "in-place"]),
            requeue=True,
            user_name="user1000",
        )


def _let_a_join_fail(cluster: SimCluster) -> None:
    """A node is silent when an elastic job would have it."""
    cluster.submit(request=a_request(1, cpus_per_task=4))
    cluster.submit(
        request=a_request(1, nodes_max=4, tasks_follow_nodes=True, cpus_per_task=4), elastic="in-place"
    )
    cluster.run(1.0)
    silent = cluster.nodes[cluster.job(1).allocation[0].node]
    silent.answers = False
    cluster.run(12.0)
    silent.answers = True


def write(cluster: SimCluster, store: Store, folds: set[int]) -> None:
    """Each event a transaction; with those in `folds` the journal is folded into the snapshot."""
    state = ClusterState()
    for seq, payload in enumerate(cluster.journal, 1):
        apply(state, decode(payload))
        batch = Batch(events=[(seq, payload)])
        if seq in folds:
            batch.snapshot = changed_records(state, seq, [])
        store.write(batch)
