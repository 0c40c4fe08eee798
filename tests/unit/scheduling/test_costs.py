"""What is lost when a run gives way."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.scheduling.costs import cost_at, cost_of, next_checkpoint, size_of, typical_unsaved_s
from minislurm.scheduling.model import RunningJob
from tests.unit.scheduling.builders import NOW, a_run


def a_victim(gpus: int = 4, *, started: float = 1000.0, **changes: Any) -> RunningJob:
    """Started so many seconds ago."""
    run = a_run("n1", gpus=range(gpus))
    return replace(run, start_time=NOW - started, **changes)


def test_a_run_is_as_large_as_its_gpus_or_else_its_cpus() -> None:
    assert size_of(a_victim(4)) == 4
    assert size_of(replace(a_run("n1", cpus=(0, 1, 2)))) == 3


def test_without_checkpoints_all_is_lost_that_was_done() -> None:
    assert cost_of(a_victim(4, started=1000), NOW) == 4000


def test_only_what_came_after_the_last_checkpoint_is_lost() -> None:
    assert cost_of(a_victim(4, saved_time=NOW - 30, reports=True), NOW) == 120


def test_a_checkpoint_of_an_earlier_run_is_where_this_one_began() -> None:
    assert cost_of(a_victim(4, started=100, saved_time=NOW - 500, reports=True), NOW) == 400


def test_who_can_save_when_asked_loses_the_time_that_this_takes() -> None:
    run = a_victim(4, saved_time=NOW - 300, reports=True, save_s=10.0)
    assert cost_of(run, NOW) == 40
    assert cost_of(replace(run, saved_time=NOW - 5), NOW) == 20


def test_the_next_start_costs_as_well() -> None:
    assert cost_of(a_victim(4, saved_time=NOW - 30, reports=True, restart_s=60.0), NOW) == 360


def test_typical_is_the_median_of_those_that_report() -> None:
    some = [a_victim(saved_time=NOW - s, reports=True) for s in (10, 50, 900)]
    assert typical_unsaved_s([*some, a_victim(started=7)], NOW) == 50
    assert typical_unsaved_s([a_victim()], NOW) == inf


@given(
    st.floats(0, 999),
    st.lists(st.floats(0, 999), max_size=5),
    st.floats(0, 1),
    st.just(inf) | st.floats(0, 100),
)
def test_reporting_is_never_punished(age: float, others: list[float], part: float, save_s: float) -> None:
    """A job that has a checkpoint as old as is typical, or older, is charged no less than if it had said
    nothing: it is no likelier a victim."""
    typical = typical_unsaved_s(
        [a_victim(saved_time=NOW - s, started=1000, reports=True) for s in others], NOW
    )
    silent = a_victim(started=age, save_s=save_s)
    saved = NOW - age * part
    reporting = replace(silent, reports=True, saved_time=saved)
    if NOW - saved >= min(typical, age):
        assert cost_of(reporting, NOW, typical) >= cost_of(silent, NOW, typical)
    assert cost_of(reporting, NOW, typical) <= cost_of(silent, NOW)


def test_the_next_checkpoint_is_expected_after_the_interval() -> None:
    run = a_victim(saved_time=NOW - 30, reports=True, checkpoint_interval_s=100.0)
    assert next_checkpoint(run, NOW) == NOW + 70
    assert next_checkpoint(replace(run, checkpoint_interval_s=20.0), NOW) == inf, "it is late"
    assert next_checkpoint(replace(run, checkpoint_interval_s=0.0), NOW) == inf
    assert next_checkpoint(a_victim(started=10, checkpoint_interval_s=100.0), NOW) == NOW + 90


@pytest.mark.parametrize(("after", "cost"), [(0, 120), (60, 360), (70, 0), (90, 80)])
def test_a_cost_at_a_later_time(after: float, cost: float) -> None:
    run = a_victim(saved_time=NOW - 30, reports=True, checkpoint_interval_s=100.0)
    assert cost_at(run, NOW + after, NOW) == cost
