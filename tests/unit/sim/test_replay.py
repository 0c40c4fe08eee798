from __future__ import annotations

import pytest
from msgspec.structs import replace

from minislurm.cluster.apply import apply
from minislurm.cluster.check import check
from minislurm.cluster.state import ClusterState
from minislurm.domain.configuration import Configuration, Partition, PreemptionSection
from minislurm.domain.errors import UsageError
from minislurm.domain.states import JobState
from minislurm.journal.encoding import decode, encode
from minislurm.sim import cluster_file, policy
from minislurm.sim.checkpoints import Checkpoints
from minislurm.sim.failures import Failures
from minislurm.sim.replay import Result, replay
from minislurm.sim.simulation import Plan, simulate
from minislurm.sim.workload import Synthetic, generate
from tests.builders import a_configuration
from tests.unit.sim.traces import a_trace_job, a_workload


def flat(processors: int, name: str = "easy") -> Configuration:
    return policy.named(name).on(cluster_file.flat(str(processors)))


def starts(result: Result) -> list[float]:
    return [outcome.runs[0].start_s for outcome in result.outcomes]


#: Behind a job on 3 of 4 processors until 100, one that wants all four; then two that would fit beside.
BLOCKED = a_workload(
    a_trace_job(0, 100, 3),
    a_trace_job(1, 10, 4),
    a_trace_job(2, 200, 1),
    a_trace_job(3, 50, 1),
    a_trace_job(4, 20, 1),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fifo", [0, 100, 110, 110, 110]),
        # The one of 200 s would delay the second job; that of 50 s ends before 100, that of 20 s after it.
        ("easy", [0, 100, 110, 3, 53]),
        ("conservative", [0, 100, 110, 3, 53]),
    ],
)
def test_policies_differ_as_they_should(name: str, expected: list[float]) -> None:
    assert starts(replay(BLOCKED, flat(4, name))) == expected


def test_behind_the_head_the_shortest_goes_first_under_easy_sjf() -> None:
    waiting = a_workload(
        a_trace_job(0, 100, 4), a_trace_job(1, 10, 4), a_trace_job(2, 60, 4), a_trace_job(3, 30, 4)
    )
    assert starts(replay(waiting, flat(4, "easy"))) == [0, 100, 110, 170]
    # All waited when the first ended; the head keeps its place.
    assert starts(replay(waiting, flat(4, "easy-sjf"))) == [0, 100, 110, 170]
    beside = a_workload(
        a_trace_job(0, 100, 3), a_trace_job(1, 10, 4), a_trace_job(2, 60, 1), a_trace_job(2, 30, 1)
    )
    assert starts(replay(beside, flat(4, "easy"))) == [0, 100, 2, 62]
    assert starts(replay(beside, flat(4, "easy-sjf"))) == [0, 100, 32, 2]


def test_what_ends_and_what_comes_in_one_second_are_seen_by_one_pass() -> None:
    """The job that comes at 10 is shorter; the processors that come free then go to the one before it."""
    result = replay(
        a_workload(a_trace_job(0, 10, 2), a_trace_job(5, 10, 2), a_trace_job(10, 1, 2)), flat(2, "sjf")
    )
    assert starts(result) == [0, 11, 10]


def test_a_job_is_killed_at_its_estimate() -> None:
    (outcome,) = replay(a_workload(a_trace_job(0, 100, limit_s=30.0)), flat(1)).outcomes
    assert outcome.state is JobState.TIMEOUT
    assert (outcome.end_s, outcome.run_s) == (30.0, 30.0)


def test_a_job_that_takes_exactly_its_estimate_completes() -> None:
    (outcome,) = replay(a_workload(a_trace_job(0, 30, limit_s=30.0)), flat(1)).outcomes
    assert (outcome.state, outcome.end_s) == (JobState.COMPLETED, 30.0)


def test_exact_run_times_take_the_place_of_estimates() -> None:
    """With its estimate the third job would end after the head's start."""
    jobs = a_workload(a_trace_job(0, 100, 3), a_trace_job(1, 10, 4), a_trace_job(2, 50, 1, limit_s=500.0))
    assert starts(replay(jobs, flat(4))) == [0, 100, 110]
    assert starts(replay(jobs, flat(4), exact=True)) == [0, 100, 2]


def test_a_job_of_no_length_starts_and_ends() -> None:
    outcomes = replay(a_workload(a_trace_job(0, 0), a_trace_job(0, 5)), flat(1), exact=True).outcomes
    assert [outcome.end_s for outcome in outcomes] == [0.0, 5.0]
    # And its limit is not "none": it passes a head without delaying it.
    beside = a_workload(a_trace_job(0, 100, 3), a_trace_job(1, 10, 4), a_trace_job(2, 0, 1))
    assert starts(replay(beside, flat(4), exact=True)) == [0, 100, 2]


def test_processors_are_gpus_where_there_are_any() -> None:
    configuration = policy.named("easy").on(a_configuration(4, cpus=16, gpus=8, racks=2))
    small, large = replay(a_workload(a_trace_job(0, 10, 8), a_trace_job(0, 10, 20)), configuration).outcomes
    assert small.runs[0].units_by_rack == {"r1": 8}
    assert large.runs[0].nodes == 3
    assert large.runs[0].units == 20


def test_what_can_never_fit_is_refused_and_said() -> None:
    refused, fits = replay(a_workload(a_trace_job(0, 10, 3), a_trace_job(1, 10, 2)), flat(2)).outcomes
    assert (refused.state, refused.is_known) == (None, False)
    assert "Requested node configuration is not available" in refused.why
    assert fits.state is JobState.COMPLETED


def test_what_still_waits_at_the_end_says_why() -> None:
    configuration = a_configuration(2, cpus=4)
    (partition,) = configuration.partitions
    short = replace(configuration, partitions=(replace(partition, max_time_s=60.0),))
    (outcome,) = replay(a_workload(a_trace_job(0, 10, 2, limit_s=100.0)), short).outcomes
    assert (outcome.state, outcome.is_known, outcome.why) == (None, True, "PartitionTimeLimit")


WORKLOAD = generate(Synthetic(jobs=120, load=1.2, largest=32), 64, seed=3)
CLUSTER = a_configuration(8, cpus=8, gpus=8, racks=2)
FAULTS = Failures(mtbf_s=100_000.0, repair_s=5000.0, seed=4)


def faulty(record: object = None, failures: Failures = FAULTS, **changes: object) -> Result:
    more = {"record": record} if record is not None else {}
    return replay(WORKLOAD, CLUSTER, failures=failures, **more, **changes)  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_journal() -> None:
    def journal(failures: Failures) -> list[bytes]:
        events: list[bytes] = []
        faulty(lambda event: events.append(encode(event)), failures)
        return events

    first = journal(FAULTS)
    assert first == journal(FAULTS)
    assert first != journal(replace(FAULTS, seed=5)), "the seed decides nothing"


def test_the_journal_of_a_replay_gives_its_state() -> None:
    journal: list[bytes] = []
    result = faulty(lambda event: journal.append(encode(event)))
    assert result.failures > 3
    state = ClusterState()
    for payload in journal:
        apply(state, decode(payload))
    check(state)
    assert not state.active
    assert result.occupancy.usable == result.occupancy.total
    assert all(node.is_usable for node in state.nodes.values())


def test_lost_work_is_done_again_and_counted() -> None:
    result = faulty()
    again = [outcome for outcome in result.outcomes if outcome.requeues]
    assert again
    for outcome in again:
        assert outcome.state is JobState.COMPLETED
        assert len(outcome.runs) == 1 + outcome.requeues["node_fail"]
        assert outcome.lost == sum(run.units * (run.end_s - run.start_s) for run in outcome.runs[:-1])


def test_time_slices_go_on_from_checkpoints() -> None:
    """Two jobs of three hours take turns of an hour on one processor; of each 3000 s are in checkpoints."""
    configuration = policy.with_settings(flat(1, "round-robin"), {"time_slice_s": 3600.0}, "")
    jobs = a_workload(a_trace_job(0, 3 * 3600.0), a_trace_job(0, 3 * 3600.0))
    result = replay(jobs, configuration, exact=True, checkpoints=Checkpoints(interval_s=1500.0))
    for outcome in result.outcomes:
        assert outcome.state is JobState.COMPLETED
        assert (outcome.requeues, outcome.lost) == ({"time_slice": 3}, 1800.0)
    assert [run.start_s for run in result.outcomes[0].runs] == [0, 7200, 14400, 21600]


def test_time_slices_without_checkpoints_would_never_end() -> None:
    plan = Plan(a_workload(a_trace_job(0, 10)), flat(1), (policy.named("round-robin"),))
    with pytest.raises(UsageError, match="need checkpoints within them: --checkpoint-every"):
        simulate(plan)
    assert simulate(replace(plan, checkpoints=Checkpoints(interval_s=600.0)))


def test_nodes_are_down_as_long_as_repairs_take() -> None:
    result = faulty(failures=replace(FAULTS, mtbf_s=20_000.0))
    series, total = result.series, result.occupancy.total
    steps = zip(series.times, series.times[1:], series.usable, strict=False)
    down_s = sum((end - begin) * (total - usable) for begin, end, usable in steps) / 8
    assert result.failures > 50
    assert down_s / result.failures == pytest.approx(FAULTS.repair_s, rel=0.35)


def test_checkpoints_save_work() -> None:
    without, with_them = faulty(), faulty(checkpoints=Checkpoints(interval_s=600.0))
    assert sum(o.lost for o in with_them.outcomes) < sum(o.lost for o in without.outcomes) / 2


def test_what_preemption_costs_is_counted_and_checkpoints_decide_about_it() -> None:
    """Two jobs of a node each; the urgent one takes that of the job that saved ten seconds before."""
    configuration = a_configuration(2, cpus=4, preemption=PreemptionSection(mode="requeue", restart_s=0.0))
    (batch,) = configuration.partitions
    urgent = Partition("urgent", batch.nodes, priority_tier=2)
    configuration = replace(configuration, partitions=(batch, urgent))
    workload = a_workload(
        a_trace_job(0, 100, 4), a_trace_job(25, 100, 4), a_trace_job(70, 10, 4, partition="urgent")
    )
    result = replay(workload, configuration, checkpoints=Checkpoints(interval_s=30.0))
    assert [outcome.lost for outcome in result.outcomes] == [4 * 10, 0, 0]
    assert [outcome.end_s for outcome in result.outcomes] == [120, 125, 80]
    result = replay(workload, configuration)
    assert [outcome.lost for outcome in result.outcomes] == [0, 4 * 45, 0]


def test_no_unit_is_given_twice_and_all_come_back() -> None:
    result = faulty()
    assert max(result.series.used) <= result.occupancy.total == 64
    assert min(result.series.used) >= 0
    assert (result.occupancy.used, result.occupancy.stranded) == (0, 0)


def test_progress_is_told_at_the_end() -> None:
    told: list[int] = []
    replay(BLOCKED, flat(4), progress=told.append)
    assert told == [len(BLOCKED.jobs)]


def test_a_stream_of_small_jobs_does_not_starve_a_large_gang() -> None:
    """One small job comes every 20 s and takes 30 of one of two processors; the gang wants both."""
    stream = [a_trace_job(20.0 * k, 30) for k in range(100)]
    workload = a_workload(*stream[:2], a_trace_job(25, 50, 2), *stream[2:])
    settings: dict[str, object] = {"order": "sjf", "backfill": "easy", "large_gang_share": 0.9}

    def gang_starts(wait_s: float) -> float:
        guarded = {**settings, "large_gang_wait_s": wait_s}
        return starts(replay(workload, policy.with_settings(flat(2), guarded, "")))[2]

    assert gang_starts(0.0) > 2000, "when the stream is over"
    # From then on nothing more starts that would still run when both are free.
    assert 325 <= gang_starts(300.0) <= 325 + 30 + 20


def test_sjf_by_history_learns_what_estimates_hide() -> None:
    """All ask for 100 s; those named "short" take 5."""
    jobs = [
        a_trace_job(0, 5, name="short", limit_s=100),
        a_trace_job(1, 50, name="long", limit_s=100),
        a_trace_job(2, 50, name="long", limit_s=100),
        a_trace_job(3, 5, name="short", limit_s=100),
    ]
    assert starts(replay(a_workload(*jobs), flat(1, "sjf"))) == [0, 5, 55, 105]
    # At 5 nothing is known of "long" but that jobs of its size took 5 s; at 55 that it takes 50.
    assert starts(replay(a_workload(*jobs), flat(1, "sjf-history"))) == [0, 5, 60, 55]


def test_mlfq_is_first_come_first_served_inside_a_level() -> None:
    workload = a_workload(a_trace_job(0, 10), a_trace_job(1, 10), a_trace_job(2, 5))
    assert starts(replay(workload, flat(1, "mlfq"))) == [0, 10, 20]
    assert starts(replay(workload, flat(1, "sjf"))) == [0, 15, 10]
