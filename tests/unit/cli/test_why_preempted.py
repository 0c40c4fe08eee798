"""`minislurm why --preempted` in text, and --preemption."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from minislurm.cli.option import OptionError
from minislurm.cli.option_values import parse_preemption
from minislurm.cli.show_job import preemption_text
from minislurm.cli.why_preempted import preempted_text
from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.domain.job import Job
from minislurm.domain.preemption import Alternative, PreemptionRecord, PreemptionWish
from minislurm.domain.times import format_time
from tests.builders import a_request, a_spec

RECORD = PreemptionRecord(
    time=1_000_000.0,
    run=RunNumber(2),
    preemptor=JobId(9),
    cause="guarantee",
    nodes=(NodeName("n1"), NodeName("n2")),
    cost=400.0,
    victims=(JobId(7), JobId(8)),
    total_cost=900.4,
    alternatives=(
        Alternative((JobId(5),), 1200.0, "loses more"),
        Alternative((JobId(3), JobId(4)), 100.0, "more than 1 runs"),
    ),
    end_time=1_000_012.0,
    true_cost=123.6,
)


def a_victim(*records: PreemptionRecord) -> Job:
    spec = a_spec("train", request=a_request(gpus_per_node=4))
    return Job(JobId(7), spec, name="train", preemptions=records, requeues={"preempt": len(records)})


def test_who_gave_way_to_nobody() -> None:
    assert preempted_text(a_victim(), "7") == "Job 7 (train) has given way to nobody."


def test_a_decision_is_told_with_what_was_weighed_and_what_it_cost() -> None:
    assert preempted_text(a_victim(RECORD), "7").splitlines() == [
        "Job 7 (train) has given way once, and was requeued for that once. The last comes first.",
        "",
        f"At {format_time(RECORD.time)} run 2 gave way to job 9 on n[1-2], whose account took back what it is guaranteed.",
        "  Together with 1 more: 7, 8; 900 GPU-seconds to be lost in all.",
        "  To be lost of it: 400 GPU-seconds (work not in a checkpoint, and the next start).",
        "  Lost in truth: 124 GPU-seconds; it had let go of its nodes after 0:12.",
        "  Also weighed:",
        "    job 5: 1200 GPU-seconds, loses more",
        "    jobs 3, 4: 100 GPU-seconds, more than 1 runs",
    ]


def test_the_last_comes_first_and_one_that_goes_on_is_told_as_such() -> None:
    running = replace(
        RECORD, run=RunNumber(3), true_cost=None, end_time=0.0, alternatives=(), victims=(JobId(7),)
    )
    lines = preempted_text(a_victim(RECORD, running), "7").splitlines()
    assert "2 times" in lines[0]
    assert "run 3" in lines[2]
    assert lines[4:6] == [
        "  It has not let go of its nodes yet.",
        "  No other set of runs was found that would have done.",
    ]


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("never", PreemptionWish("never")),
        ("LOWER", PreemptionWish("lower")),
        ("borrowers,victims=2", PreemptionWish("borrowers", None, 2)),
        ("difference=100", PreemptionWish("", 100)),
    ],
)
def test_preemption_as_given(text: str, wish: PreemptionWish) -> None:
    assert parse_preemption(text) == wish
    assert preemption_text(wish) == text.lower()


@pytest.mark.parametrize(
    "text", ["", "always", "lower,never", "victims", "victims=-1", "victims=1,victims=2", "x=1"]
)
def test_preemption_that_says_nothing(text: str) -> None:
    with pytest.raises((ValueError, OptionError)):
        parse_preemption(text)


def test_a_job_cannot_go_beyond_what_the_cluster_has() -> None:
    wish = PreemptionWish("", 50, 5)
    assert (wish.difference(0), wish.difference(100)) == (50, 100)
    assert (wish.most(0), wish.most(3)) == (5, 3)
    assert PreemptionWish(max_victims=0).most(3) == 3
