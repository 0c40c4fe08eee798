"""Hundreds of the scenarios of which `scripts/bench/run churn` plays thousands (churn.py has the laws)."""

from __future__ import annotations

import pytest

from tests.sim.churn import Tally, play

SCENARIOS = 120


def test_no_preemption_in_vain_no_victim_too_many_and_no_circle() -> None:
    total = Tally()
    for seed in range(SCENARIOS):
        total.add(play(seed))
    assert total.scenarios == SCENARIOS
    # Else the scenarios would show nothing.
    assert total.preemptions > SCENARIOS / 2
    assert total.tried > SCENARIOS / 6


def test_the_same_seed_is_the_same_scenario() -> None:
    assert play(7) == play(7)


def test_a_failure_says_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> Tally:
        raise AssertionError("what went wrong")

    monkeypatch.setattr("tests.sim.churn.Churn.play", fail)
    with pytest.raises(AssertionError, match="seed 3: what went wrong"):
        play(3)
