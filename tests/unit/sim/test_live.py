"""A live state played forward on a copy: what it says is what then happens."""

from __future__ import annotations

import random
from copy import deepcopy
from math import inf

import pytest
from msgspec.structs import replace

from minislurm.cluster.check import check
from minislurm.cluster.core import Transaction
from minislurm.cluster.events import RunPlaced
from minislurm.cluster.messages import Caller, CreateReservation, HoldJob, SubmitJob, UpdateNode
from minislurm.cluster.state import ClusterState
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import ConfigurationError, UsageError
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Dependency, DependencyKind, Job
from minislurm.domain.states import JobState
from minislurm.domain.views import JobTarget, ListChange, ReservationChanges
from minislurm.sim import live
from minislurm.sim.live import RunTimes, Waiting, play
from minislurm.sim.nodes_to_add import NodesToAdd
from minislurm.sim.policy import named
from minislurm.sim.virtual_cluster import EPOCH, VirtualCluster
from minislurm.sim.what_if import WhatIf, variants
from tests.builders import a_configuration, a_request, a_spec
from tests.unit.controller.histories import a_history

OPERATOR = Caller(0, is_operator=True)
WHOLE = a_request(exclusive=True)


class Real(VirtualCluster):
    """The cluster whose future is asked for, and then watched."""

    def __init__(self, configuration: Configuration, share: float = 1.0) -> None:
        self.placed: dict[str, float] = {}
        super().__init__(configuration, lambda job: job.time_limit_s * share if job.time_limit_s else inf)

    def observe(self, transaction: Transaction) -> None:
        check(self.state)
        for event in transaction.events:
            if isinstance(event, RunPlaced):
                self.placed[_shown(self.state.jobs[event.job_id])] = self.now

    def submit(self, **changes: object) -> JobId:
        job_id = self.state.next_job_id
        spec = a_spec(**changes)  # type: ignore[arg-type]
        assert self.tell(SubmitJob(spec, Caller(1000))).refusal is None
        return job_id


def _shown(job: Job) -> str:
    return f"{job.array_job_id}_{job.array_task_id}" if job.is_array_task else str(job.id)


def whole_nodes(nodes: int = 1, **changes: object) -> Real:
    return Real(a_configuration(nodes, **changes))  # type: ignore[arg-type]


def starts(state: ClusterState, now: float = EPOCH, *more: object) -> dict[str, float | None]:
    return {item.job_id: item.start_s for item in play(deepcopy(state), now, *more).waiting}  # type: ignore[arg-type]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every invariant after every message of the copy, too."""
    watched = live._LiveCluster.observe

    def observe(self: live._LiveCluster, transaction: Transaction) -> None:
        watched(self, transaction)
        check(self.state)

    monkeypatch.setattr(live._LiveCluster, "observe", observe)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("checked")
def test_what_is_foreseen_is_what_happens(seed: int) -> None:
    """Jobs of all sizes, gangs, arrays, dependencies, allocations without a script: the starts on the copy
    are those of the cluster itself, if jobs last as long as was assumed and nothing else happens."""
    chance = random.Random(seed)
    share = chance.choice([1.0, 0.5])
    real = Real(a_configuration(4, cpus=4, gpus=2, racks=2), share)
    for _ in range(30):
        _submit_any(real, chance, share)
        real.advance(real.now + chance.choice([0, 0, 3, 15]))
    taken, now = deepcopy(real.state), real.now
    waiting = play(deepcopy(taken), now, run_times=RunTimes(share)).waiting
    assert len(waiting) > 5, "a queue in which nothing waits says nothing"
    real.advance(now + 100_000)
    foreseen = {item.job_id: item.start_s for item in waiting if item.start_s is not None}
    assert foreseen == {name: real.placed[name] - now for name in foreseen}
    ended = {_shown(job) for job in real.state.jobs.values() if job.state.is_final}
    assert {item.job_id for item in waiting if item.outcome.state is not None} == ended & {
        item.job_id for item in waiting
    }
    assert {item.job_id for item in waiting} - set(foreseen) == {
        item.job_id for item in waiting if item.job_id not in real.placed
    }


def _submit_any(real: Real, chance: random.Random, share: float) -> None:
    # An allocation without a script ends well on the copy, and is timed out on this cluster.
    before = sorted(job.id for job in real.state.jobs.values() if job.spec.is_batch)
    kind = chance.choice([None, None, None, DependencyKind.AFTER_OK, DependencyKind.AFTER_ANY])
    dependencies = () if kind is None or not before else (Dependency(kind, chance.choice(before)),)
    real.submit(
        request=a_request(chance.randint(1, 3), gpus_per_node=chance.randint(0, 2)),
        time_limit_s=float(chance.randint(5, 60)),
        dependencies=dependencies,
        hold=chance.random() < 0.05,
        begin_time=chance.choice([0.0, 0.0, real.now + 30]),
        # On this cluster, an allocation without a script goes on to its limit.
        is_batch=share < 1 or chance.random() < 0.8,
        array_tasks=tuple(range(chance.choice([0, 0, 0, 3]))),
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("checked")
def test_any_state_can_be_played_forward(seed: int) -> None:
    """Nodes lost in the middle, runs that are being prepared or cleaned up, reservations, accounts, holds."""
    cluster = a_history(seed)
    state, now = cluster.state, cluster.now
    future = play(deepcopy(state), now)
    for item in future.waiting:
        outcome = item.outcome
        assert bool(outcome.runs) or outcome.why or outcome.state is not None, item.job_id
        assert not outcome.runs or outcome.runs[0].start_s >= 0
        assert outcome.state is None or outcome.state is not JobState.RUNNING
    times = future.result.series.times
    assert list(times) == sorted(times)
    used = future.result.series.used
    assert min(used) >= 0
    assert max(used) <= future.result.occupancy.total


def test_runs_end_at_their_limit_or_at_a_part_of_it() -> None:
    real = whole_nodes()
    real.submit(request=WHOLE, time_limit_s=100.0)
    real.submit(request=WHOLE, time_limit_s=100.0)
    real.submit(request=WHOLE, time_limit_s=100.0)
    real.advance(EPOCH + 40)
    now = real.now
    assert starts(real.state, now) == {"2": 60, "3": 160}
    assert starts(real.state, now, live.NO_CHANGE, RunTimes(0.5)) == {"2": 10, "3": 60}
    # It has already run longer than that: then up to its limit.
    assert starts(real.state, now, live.NO_CHANGE, RunTimes(0.2)) == {"2": 60, "3": 80}


def test_by_history_jobs_last_as_long_as_their_like() -> None:
    real = Real(a_configuration(1), share=0.3)
    for _ in range(4):
        real.submit(request=WHOLE, time_limit_s=100.0)
    real.submit(name="other", request=a_request(tasks=2, exclusive=True), time_limit_s=100.0)
    real.advance(EPOCH + 70)
    by_history = starts(real.state, real.now, live.NO_CHANGE, RunTimes(by_history=True))
    assert by_history == {"4": 20, "5": 50}
    assert starts(real.state, real.now) == {"4": 90, "5": 190}


def test_what_is_foreseen_teaches_nothing() -> None:
    """The mean of 10 and 50 stays what is expected: runs of 30 that are made up do not move it."""
    real = whole_nodes()
    real.duration_of = lambda job: {1: 10.0, 2: 50.0}.get(job.id, 90.0)
    for _ in range(6):
        real.submit(request=WHOLE, time_limit_s=100.0)
    real.advance(EPOCH + 60)
    by_history = starts(real.state, real.now, live.NO_CHANGE, RunTimes(by_history=True))
    assert by_history == {"4": 30, "5": 60, "6": 90}


def test_an_allocation_without_a_script_ends_like_a_job() -> None:
    real = whole_nodes()
    real.submit(request=WHOLE, time_limit_s=100.0, is_batch=False)
    real.submit(request=WHOLE, time_limit_s=100.0, is_batch=False)
    real.submit(request=WHOLE, time_limit_s=100.0)
    real.advance(EPOCH)
    assert starts(real.state) == {"2": 100, "3": 200}
    assert starts(real.state, EPOCH, live.NO_CHANGE, RunTimes(0.5)) == {"2": 50, "3": 100}


def test_who_never_starts_is_said_with_the_reason() -> None:
    real = whole_nodes(2)
    endless = real.submit(request=WHOLE, time_limit_s=0.0)
    real.submit(request=a_request(2, exclusive=True))
    held = real.submit(request=WHOLE)
    real.tell(HoldJob(JobTarget(held), OPERATOR))
    real.advance(EPOCH + 5)
    assert real.state.jobs[endless].state is JobState.RUNNING
    waiting = play(deepcopy(real.state), real.now).waiting
    assert [(item.job_id, item.start_s, item.outcome.why) for item in waiting] == [
        ("2", None, "Resources"),
        ("3", None, "JobHeldAdmin"),
    ]


def test_the_horizon_ends_it() -> None:
    real = whole_nodes()
    for _ in range(3):
        real.submit(request=WHOLE, time_limit_s=100.0)
    real.advance(EPOCH)
    assert starts(real.state, EPOCH, live.NO_CHANGE, RunTimes(), 150.0) == {"2": 100, "3": None}


def test_a_node_that_is_down_stays_down() -> None:
    real = whole_nodes(2)
    real.tell(UpdateNode(NodeName("n2"), OPERATOR, "DRAIN", "why"))
    for _ in range(3):
        real.submit(request=WHOLE, time_limit_s=100.0)
    real.advance(EPOCH)
    assert starts(real.state) == {"2": 100, "3": 200}


def test_a_daily_reservation_does_not_keep_time_going_for_ever() -> None:
    """On the only node, from the first day on; a job fits between, one never does, one begins in a month."""
    real = whole_nodes()
    changes = ReservationChanges(
        "daily",
        start_time=EPOCH + 1000,
        duration_s=1000.0,
        users=ListChange("=", ("root",)),
        nodes=ListChange("=", ("n1",)),
        flags=ListChange("=", ("DAILY",)),
    )
    assert real.tell(CreateReservation(changes, OPERATOR)).refusal is None
    real.submit(request=WHOLE, time_limit_s=2000.0)
    real.submit(request=WHOLE, time_limit_s=86_000.0)
    month = 30 * 86_400.0
    real.submit(request=WHOLE, time_limit_s=60.0, begin_time=EPOCH + month)
    real.advance(EPOCH)
    future = play(deepcopy(real.state), EPOCH)
    assert [item.start_s for item in future.waiting] == [2000, None, month]
    assert month < future.result.series.times[-1] < month + 20 * 86_400
    assert future.result.passes < 200


# Changes


def a_busy_cluster() -> Real:
    """Two nodes of two racks, of which each is taken for 100 s; a gang waits, and a short job behind it."""
    real = whole_nodes(2, gpus=2, racks=2)
    for _ in range(2):
        real.submit(request=WHOLE, time_limit_s=100.0)
    real.submit(request=a_request(2, exclusive=True), time_limit_s=50.0)
    real.submit(request=WHOLE, time_limit_s=10.0)
    real.advance(EPOCH)
    return real


def changed(real: Real, what_if: WhatIf, rule: str = "configured") -> tuple[Waiting, ...]:
    return play(deepcopy(real.state), real.now, what_if.on(real.state, named(rule))).waiting


def test_more_nodes_take_what_waits() -> None:
    real = a_busy_cluster()
    assert starts(real.state) == {"3": 100, "4": 150}
    waiting = changed(real, WhatIf((NodesToAdd(2),)))
    assert [(item.start_s, item.nodes) for item in waiting] == [(0, ("n3", "n4")), (50, ("n3",))]
    assert starts(real.state) == {"3": 100, "4": 150}


def test_added_nodes_are_like_their_model() -> None:
    real = a_busy_cluster()
    change = WhatIf((NodesToAdd(3, like="n2"),)).on(real.state, named("configured"))
    assert change.configuration is not None
    added = change.configuration.nodes[2:]
    assert [spec.name for spec in added] == ["n3", "n4", "n5"]
    assert {replace(spec, name=NodeName("n2")) for spec in added} == {real.state.nodes[NodeName("n2")].spec}
    assert change.configuration.partitions[0].nodes == ("n1", "n2", "n3", "n4", "n5")
    *racks, rack = change.configuration.topology
    assert tuple(racks) == real.state.configuration.topology
    assert (rack.nodes, rack.level) == (("n3", "n4", "n5"), "rack")
    assert list(change.added) == ["n3", "n4", "n5"]


def test_nodes_that_say_where_they_stand_are_joined_in_a_rack_beside() -> None:
    real = whole_nodes(1)
    node = real.state.nodes[NodeName("n1")]
    node.facts = replace(node.facts, topology="block=b/rack=r1")
    change = WhatIf((NodesToAdd(1),)).on(real.state, named("configured"))
    assert change.added[NodeName("n2")].topology == "block=b/rack=added1"


def test_a_changed_setting_changes_the_order() -> None:
    real = whole_nodes()
    for limit_s in (100.0, 300.0, 30.0):
        real.submit(request=WHOLE, time_limit_s=limit_s)
    real.advance(EPOCH)
    assert starts(real.state) == {"2": 100, "3": 400}
    shortest = changed(real, WhatIf(overrides=("scheduler.order=sjf",)))
    assert {item.job_id: item.start_s for item in shortest} == {"2": 130, "3": 100}
    assert [item.start_s for item in changed(real, WhatIf(), "sjf")] == [130, 100]


def test_what_cannot_be_had_is_named() -> None:
    real = a_busy_cluster()
    with pytest.raises(UsageError, match="no node n9"):
        changed(real, WhatIf((NodesToAdd(1, like="n9"),)))
    with pytest.raises(ConfigurationError, match="unknown key"):
        changed(real, WhatIf(overrides=("scheduler.priority_weight_luck=1",)))
    with pytest.raises(ConfigurationError, match="--placement best"):
        changed(real, WhatIf(placement="best"))


def test_variants_stand_beside_the_cluster_as_it_is() -> None:
    change = WhatIf((NodesToAdd(8),), ("scheduler.backfill=off",))
    assert [rule.name for rule, _ in variants(WhatIf(), [])] == ["as it is"]
    found = variants(change, [])
    assert [(rule.name, rule.summary) for rule, _ in found[1:]] == [
        ("changed", "8 nodes more; scheduler.backfill=off")
    ]
    by_policy = variants(change, ["easy", "fifo", "easy"])
    assert [(rule.name, what_if == change) for rule, what_if in by_policy] == [
        ("as it is", False),
        ("easy", True),
        ("fifo", True),
    ]
