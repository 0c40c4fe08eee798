"""Checkpoints in the core: recorded, asked for, and waited for before a run gives way."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cluster.effects import AskCheckpoint, DeleteCheckpoint
from minislurm.cluster.messages import (
    Caller,
    CheckpointFailed,
    CheckpointListener,
    CheckpointMade,
    RequestCheckpoint,
    RunReport,
)
from minislurm.domain.checkpoint import Checkpoint, CheckpointSignal
from minislurm.domain.configuration import Partition, PreemptionSection
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.domain.states import JobState
from tests.builders import a_configuration, a_request
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import OTHER, USER, cancel, hold, requeue, running, target, tell

FOR_EVER = float("inf")
SIGNAL = CheckpointSignal(10)


def a_cluster(nodes: int = 1, *, urgent_s: float = 10.0, **preemption: Any) -> SimCluster:
    """Partitions "batch" (tier 1) and "urgent" (tier 2) over the same nodes of 8 CPUs."""
    settings = {"mode": "requeue", "checkpoint_grace_s": 60.0, **preemption}
    configuration = a_configuration(nodes, preemption=PreemptionSection(**settings))
    (batch,) = configuration.partitions
    configuration = replace(
        configuration, partitions=(batch, Partition("urgent", batch.nodes, priority_tier=2))
    )
    return SimCluster(
        configuration, duration_of=lambda job: urgent_s if job.partition == "urgent" else FOR_EVER
    )


def submit(cluster: SimCluster, partition: str = "batch", nodes: int = 1, **changes: Any) -> JobId:
    job_id = cluster.submit(partition=partition, request=a_request(nodes, cpus_per_task=8), **changes)
    cluster.run(0.1)
    return job_id


def made(cluster: SimCluster, path: str, *, run: int = 1, **changes: Any) -> Checkpoint:
    return Checkpoint(RunNumber(run), path, time=cluster.now, **changes)


def report(
    cluster: SimCluster, job_id: JobId, path: str = "/c/1", *, run: int = 1, answers: float = 0.0
) -> Any:
    one = made(cluster, path, run=run)
    return cluster.tell(CheckpointMade(job_id, RunNumber(run), one, answers))


def answer(cluster: SimCluster, job_id: JobId, path: str = "/c/1") -> None:
    job = cluster.job(job_id)
    report(cluster, job_id, path, run=job.run, answers=job.checkpoint_requested)
    cluster.run(0.1)


def paths(cluster: SimCluster, job_id: JobId) -> list[str]:
    return [one.path for one in cluster.job(job_id).checkpoints]


def asked(cluster: SimCluster, node: str = "n1") -> list[tuple[int, bool]]:
    commands = cluster.nodes[NodeName(node)].checkpoint_commands
    return [(int(c.job_id), c.withdrawn) for c in commands if isinstance(c, AskCheckpoint)]


# Records


def test_a_report_is_kept_once_and_outlives_the_run() -> None:
    cluster = a_cluster()
    job = submit(cluster)
    message = CheckpointMade(job, RunNumber(1), made(cluster, "/c/1", step=7))
    assert cluster.tell(message).events
    assert not cluster.tell(message).events
    requeue(cluster, job)
    cluster.run(30)
    assert cluster.job(job).run == 2
    assert [(one.path, one.step) for one in cluster.job(job).checkpoints] == [("/c/1", 7)]


def test_a_report_of_another_run_is_dropped_and_counted() -> None:
    cluster = a_cluster()
    job = submit(cluster)
    requeue(cluster, job)
    cluster.run(30)
    report(cluster, job, run=1)
    report(cluster, job, run=3)
    assert paths(cluster, job) == []
    assert cluster.job(job).checkpoints_dropped == 2
    assert report(cluster, JobId(99)).events == []


def test_what_was_said_late_counts_until_the_next_run_is_placed() -> None:
    cluster = a_cluster()
    job = submit(cluster)
    tell(cluster, RequestCheckpoint(target(job), USER))
    requeue(cluster, job, hold=True)
    cluster.run(1)
    assert cluster.job(job).state is JobState.PENDING
    report(cluster, job)
    assert paths(cluster, job) == ["/c/1"]


def test_older_ones_are_deleted_only_where_that_was_asked_for() -> None:
    for keep, deleted in ((0, []), (2, ["/c/1", "/c/2", "/c/3"])):
        cluster = a_cluster()
        job = submit(cluster, checkpoint_keep=keep, checkpoint_dir="/c")
        effects: list[object] = []
        for number in range(1, 6):
            cluster.run(1)
            effects += report(cluster, job, f"/c/{number}").effects
        gone = [(e.node, e.path) for e in effects if isinstance(e, DeleteCheckpoint)]
        assert gone == [("n1", path) for path in deleted]
        assert paths(cluster, job) == [f"/c/{number}" for number in range(6 - (keep or 3), 6)]


def test_a_folder_that_holds_a_newer_one_is_not_deleted() -> None:
    cluster = a_cluster()
    job = submit(cluster, checkpoint_keep=1, checkpoint_dir="/c")
    report(cluster, job, "/c/all")
    cluster.run(1)
    effects = report(cluster, job, "/c/all/step2").effects
    assert not [e for e in effects if isinstance(e, DeleteCheckpoint)]


# Asking


def test_who_may_ask_and_when() -> None:
    cluster = a_cluster()
    job = submit(cluster)
    pending = submit(cluster)

    def ask(job_id: int, by: Caller = USER) -> RefusalCode | None:
        return tell(cluster, RequestCheckpoint(target(job_id), by))

    assert ask(job) is RefusalCode.NO_CHECKPOINT
    assert ask(pending) is RefusalCode.JOB_NOT_RUNNING
    assert ask(99) is RefusalCode.INVALID_JOB_ID
    cluster.tell(CheckpointListener(job, RunNumber(1)))
    assert ask(job, OTHER) is RefusalCode.ACCESS
    assert ask(job) is None
    assert cluster.job(job).checkpoint_reason == "user"
    cluster.run(1)
    assert ask(job) is None, "the first may have been ignored"
    cluster.run(1)
    assert asked(cluster) == [(job, False)] * 2


def test_only_the_answer_to_the_request_ends_it() -> None:
    cluster = a_cluster()
    job = submit(cluster, checkpoint_signal=SIGNAL)
    tell(cluster, RequestCheckpoint(target(job), USER))
    first = cluster.job(job).checkpoint_requested
    report(cluster, job, "/c/1")
    assert cluster.job(job).checkpoint_requested == first
    cluster.run(1)
    report(cluster, job, "/c/2", answers=first)
    assert cluster.job(job).checkpoint_requested == 0
    cluster.run(1)
    tell(cluster, RequestCheckpoint(target(job), USER))
    cluster.run(1)
    # The first answer once more, as after a broken stream.
    report(cluster, job, "/c/2", answers=first)
    assert cluster.job(job).checkpoint_requested > first


def test_an_interval_asks_by_itself() -> None:
    cluster = a_cluster()
    job = submit(cluster, checkpoint_signal=SIGNAL, checkpoint_interval_s=100.0)
    cluster.run(95)
    assert asked(cluster) == []
    report(cluster, job, "/c/1")
    cluster.run(90)
    assert asked(cluster) == []
    cluster.run(15)
    assert asked(cluster) == [(job, False)]
    answer(cluster, job, "/c/2")
    cluster.run(110)
    assert len(asked(cluster)) == 2
    assert cluster.job(job).checkpoint_reason == "interval"


def test_an_interval_counts_from_when_somebody_listens() -> None:
    cluster = a_cluster()
    job = submit(cluster, checkpoint_interval_s=10.0)
    cluster.run(50)
    assert asked(cluster) == []
    cluster.tell(CheckpointListener(job, RunNumber(1)))
    cluster.run(1)
    assert asked(cluster) == [(job, False)]


@pytest.mark.parametrize(("grace_s", "ahead_s"), [(None, 60), (20.0, 20), (900.0, 150)])
def test_a_run_is_asked_before_its_time_limit(grace_s: float | None, ahead_s: float) -> None:
    cluster = a_cluster()
    job = submit(cluster, checkpoint_signal=CheckpointSignal(10, grace_s), time_limit_s=300.0)
    cluster.run(300 - ahead_s - 1)
    assert asked(cluster) == []
    cluster.run(2)
    assert asked(cluster) == [(job, False)]
    assert cluster.job(job).checkpoint_reason == "time_limit"
    answer(cluster, job)
    cluster.run(ahead_s - 3)
    assert asked(cluster) == [(job, False)]
    assert running(cluster) == {job}, "it has its time"
    cluster.run(10)
    assert cluster.job(job).state is JobState.TIMEOUT


def test_who_has_just_saved_is_not_asked_before_the_limit() -> None:
    cluster = a_cluster()
    job = submit(cluster, checkpoint_signal=SIGNAL, time_limit_s=300.0)
    cluster.run(241)
    assert len(asked(cluster)) == 1
    cluster = a_cluster()
    job = submit(cluster, time_limit_s=300.0)
    cluster.run(250)
    report(cluster, job)
    cluster.tell(CheckpointListener(job, RunNumber(1)))
    cluster.run(20)
    assert asked(cluster) == []


def test_an_interval_that_nobody_answered_is_asked_again() -> None:
    cluster = a_cluster()
    job = submit(cluster, checkpoint_signal=SIGNAL, checkpoint_interval_s=100.0)
    cluster.run(350)
    assert asked(cluster) == [(job, False)] * 3


def test_nobody_waits_for_a_checkpoint_that_failed() -> None:
    cluster, victim, urgent = preempted(checkpoint_signal=None, checkpoint_command="false")
    request = cluster.job(victim).checkpoint_requested
    for stale in (0.0, request - 1):
        assert not cluster.tell(CheckpointFailed(victim, RunNumber(1), stale)).events
    assert not cluster.tell(CheckpointFailed(victim, RunNumber(2), request)).events
    cluster.tell(CheckpointFailed(victim, RunNumber(1), request))
    cluster.run(1)
    assert running(cluster) == {urgent}
    assert cluster.job(victim).requeues == {"preempt": 1}


def test_a_failed_wish_of_a_user_ends_nothing() -> None:
    cluster = a_cluster()
    job = submit(cluster, checkpoint_command="false")
    tell(cluster, RequestCheckpoint(target(job), USER))
    cluster.tell(CheckpointFailed(job, RunNumber(1), cluster.job(job).checkpoint_requested))
    cluster.run(1)
    assert running(cluster) == {job}
    assert cluster.job(job).checkpoint_requested == 0


def test_a_daemon_that_comes_back_is_asked_again() -> None:
    cluster = a_cluster()
    job = submit(cluster, checkpoint_signal=SIGNAL)
    tell(cluster, RequestCheckpoint(target(job), USER))
    cluster.run(1)
    cluster.register("n1")
    cluster.run(1)
    assert asked(cluster) == [(job, False)] * 2


def test_one_that_comes_back_hears_what_was_taken_back_meanwhile() -> None:
    cluster, victim, urgent = preempted()
    cluster.cut_off("n1")
    cancel(cluster, urgent)
    cluster.run(1)
    assert asked(cluster) == [(victim, False)]
    cluster.register("n1")
    cluster.run(1)
    assert asked(cluster) == [(victim, False), (victim, True)]


def test_all_nodes_of_a_gang_hear_that_it_is_no_longer_wanted() -> None:
    cluster = a_cluster(2)
    job = submit(cluster, nodes=2, checkpoint_signal=SIGNAL)
    tell(cluster, RequestCheckpoint(target(job), USER))
    cluster.run(1)
    answer(cluster, job)
    assert asked(cluster, "n1") == asked(cluster, "n2") == [(job, False), (job, True)]


def test_a_registration_brings_what_was_reported_before_the_end_that_it_tells() -> None:
    cluster = a_cluster()
    job = submit(cluster)
    node = cluster.nodes[NodeName("n1")]
    cluster.cut_off("n1")
    one = CheckpointMade(job, RunNumber(1), made(cluster, "/c/1"))
    node.runs[job, RunNumber(1)] = RunReport(
        job, RunNumber(1), "CLEAN", exit_signal=9, checkpoints=(one,), listens=True
    )
    cluster.register("n1")
    cluster.run(1)
    assert cluster.job(job).state is JobState.FAILED
    assert paths(cluster, job) == ["/c/1"]


# Giving way


def preempted(**job: Any) -> tuple[SimCluster, JobId, JobId]:
    """A run that has been asked to save, and the job that it gives way to."""
    cluster = a_cluster()
    victim = submit(cluster, **({"checkpoint_signal": SIGNAL} | job))
    cluster.run(20)
    urgent = submit(cluster, "urgent")
    cluster.run(0.1)
    return cluster, victim, urgent


def test_a_victim_is_ended_when_it_has_saved_and_not_before() -> None:
    cluster, victim, urgent = preempted()
    assert asked(cluster) == [(victim, False)]
    cluster.run(20)
    assert running(cluster) == {victim}
    assert cluster.job(victim).preemptor == urgent
    since = cluster.job(victim).preempt_time
    answer(cluster, victim)
    assert running(cluster) == {urgent}
    cluster.run(20)
    job = cluster.job(victim)
    assert (job.state, job.run, job.requeues) == (JobState.RUNNING, 2, {"preempt": 1})
    assert (job.restart_reason, job.preempt_time) == ("preempt", since)
    assert job.checkpoint_deadline == 0


def test_a_report_that_is_no_answer_does_not_end_it() -> None:
    cluster, victim, _ = preempted()
    report(cluster, victim)
    cluster.run(1)
    assert running(cluster) == {victim}


def test_a_repeated_report_ends_it_if_it_is_the_answer() -> None:
    """It came with a registration first, where nothing is said of requests."""
    cluster, victim, urgent = preempted()
    one = made(cluster, "/c/1")
    cluster.tell(CheckpointMade(victim, RunNumber(1), one))
    cluster.tell(CheckpointMade(victim, RunNumber(1), one, cluster.job(victim).checkpoint_requested))
    cluster.run(1)
    assert running(cluster) == {urgent}


@pytest.mark.parametrize(
    ("own", "settings", "grace_s"),
    [(None, {}, 60), (5.0, {}, 5), (5000.0, {}, 600), (50.0, {"checkpoint_grace_limit_s": 9.0}, 9)],
)
def test_it_has_its_grace_and_no_more(own: float | None, settings: dict[str, float], grace_s: float) -> None:
    cluster = a_cluster(**settings)
    victim = submit(cluster, checkpoint_signal=CheckpointSignal(10, own))
    urgent = submit(cluster, "urgent")
    cluster.run(grace_s - 1)
    assert running(cluster) == {victim}
    cluster.run(2)
    assert urgent in running(cluster) or cluster.job(urgent).state is JobState.COMPLETED


def test_it_may_leave_by_itself_and_comes_back() -> None:
    cluster, victim, urgent = preempted()
    cluster._exit((cluster.nodes[NodeName("n1")], (victim, RunNumber(1))))
    cluster.run(1)
    assert running(cluster) == {urgent}
    assert cluster.job(victim).requeues == {"preempt": 1}


def test_who_cannot_be_asked_is_ended_at_once() -> None:
    cluster, _, urgent = preempted(checkpoint_signal=None)
    assert running(cluster) == {urgent}
    assert asked(cluster) == []


@pytest.mark.parametrize("way", [cancel, hold])
def test_it_goes_on_if_the_preemptor_leaves(way: Any) -> None:
    cluster, victim, urgent = preempted()
    way(cluster, urgent)
    cluster.run(1)
    assert asked(cluster) == [(victim, False), (victim, True)]
    cluster.run(200)
    assert running(cluster) == {victim}
    assert cluster.job(victim).run == 1
    assert not cluster.job(victim).gives_way


def test_who_acts_on_a_request_that_was_taken_back_is_not_taken_for_finished() -> None:
    cluster, victim, urgent = preempted()
    cancel(cluster, urgent)
    cluster.run(1)
    cluster._exit((cluster.nodes[NodeName("n1")], (victim, RunNumber(1))))
    cluster.run(10)
    assert (cluster.job(victim).state, cluster.job(victim).run) == (JobState.RUNNING, 2)
    cluster.run(100)
    cluster._exit((cluster.nodes[NodeName("n1")], (victim, RunNumber(2))))
    cluster.run(1)
    assert cluster.job(victim).state is JobState.COMPLETED


def test_it_goes_on_if_the_preemptor_starts_elsewhere() -> None:
    cluster = a_cluster(2)
    victim = submit(cluster, checkpoint_signal=SIGNAL)
    other = submit(cluster, checkpoint_signal=SIGNAL)
    urgent = submit(cluster, "urgent")
    cluster.run(1)
    (saving,) = [j for j in (victim, other) if cluster.job(j).gives_way]
    (spared,) = {victim, other} - {saving}
    cancel(cluster, spared)
    cluster.run(5)
    assert running(cluster) == {saving, urgent}
    assert not cluster.job(saving).gives_way


def test_its_nodes_are_kept_for_the_preemptor_and_nobody_else_is_ended_for_it() -> None:
    cluster = a_cluster(2)
    jobs = [submit(cluster, checkpoint_signal=SIGNAL) for _ in range(2)]
    urgent = submit(cluster, "urgent")
    submit(cluster)
    cluster.run(30)
    assert sum(cluster.job(job).gives_way for job in jobs) == 1
    (victim,) = [job for job in jobs if cluster.job(job).gives_way]
    answer(cluster, victim)
    assert urgent in running(cluster)
    assert len(running(cluster)) == 2


def test_a_gang_is_asked_on_all_of_its_nodes() -> None:
    cluster = a_cluster(2)
    victim = submit(cluster, nodes=2, checkpoint_command="save")
    urgent = submit(cluster, "urgent", nodes=2)
    cluster.run(1)
    assert [asked(cluster, name) for name in ("n1", "n2")] == [[(victim, False)]] * 2
    answer(cluster, victim)
    assert running(cluster) == {urgent}


def test_the_end_of_the_run_ends_the_request() -> None:
    cluster, victim, urgent = preempted()
    cancel(cluster, victim)
    cluster.run(1)
    assert cluster.job(victim).state is JobState.CANCELLED
    assert running(cluster) == {urgent}


def test_the_controller_may_die_at_any_point_of_it() -> None:
    """Between any two messages: the victim is asked, saves, is ended, and starts again from what it
    reported."""
    length = len(_a_preemption(FOR_EVER))
    assert length > 10
    for point in range(length):
        _a_preemption(point)


def _a_preemption(dies_at: float) -> list[object]:
    """The events of the journal, as far as they concern it. The controller dies when so many have been
    seen."""
    cluster = a_cluster()
    has_died = False

    def go_on() -> None:
        nonlocal has_died
        cluster.run(0.25)
        if len(cluster.journal) - begin >= dies_at and not has_died:
            has_died = True
            cluster.restart_controller()
            cluster.run(1)

    begin = len(cluster.journal)
    victim = cluster.submit(request=a_request(1, cpus_per_task=8), checkpoint_signal=SIGNAL)
    for _ in range(5):
        go_on()
    urgent = cluster.submit(partition="urgent", request=a_request(1, cpus_per_task=8))
    reported = False
    for _ in range(200):
        job = cluster.job(victim)
        if job.gives_way and not reported and asked(cluster):
            report(cluster, victim, answers=job.checkpoint_requested)
            reported = True
        go_on()
    assert reported
    assert cluster.job(urgent).state is JobState.COMPLETED
    job = cluster.job(victim)
    assert (job.state, job.run, job.requeues) == (JobState.RUNNING, 2, {"preempt": 1})
    assert paths(cluster, victim) == ["/c/1"]
    return cluster.journal[begin:]
