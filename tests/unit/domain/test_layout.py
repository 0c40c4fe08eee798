"""Tasks and CPUs per node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain.layout import shorten, task_layout


@pytest.mark.parametrize(
    ("counts", "text"), [([2, 2, 1], "2(x2),1"), ([6, 2], "6,2"), ([1], "1"), ([], "0"), ([1, 2, 1], "1,2,1")]
)
def test_the_short_form(counts: list[int], text: str) -> None:
    assert shorten(counts) == text


@pytest.mark.parametrize(
    ("tasks", "capacities", "counts"),
    [
        (4, [6, 2], (2, 2)),
        (5, [8, 8], (3, 2)),
        (5, [3, 1, 1], (3, 1, 1)),
        (7, [1, 9, 9], (1, 3, 3)),
        (2, [4, 4], (1, 1)),
    ],
)
def test_tasks_are_spread_evenly_within_the_capacities(
    tasks: int, capacities: list[int], counts: tuple[int, ...]
) -> None:
    assert task_layout(tasks, capacities) == counts


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.data())
def test_the_layout_uses_what_there_is(capacities: list[int], data: st.DataObject) -> None:
    tasks = data.draw(st.integers(0, sum(capacities)))
    counts = task_layout(tasks, capacities)
    assert sum(counts) == tasks
    assert all(0 <= count <= capacity for count, capacity in zip(counts, capacities, strict=True))
    # Even: nobody with room left has two fewer than another.
    roomy = [count for count, capacity in zip(counts, capacities, strict=True) if count < capacity]
    assert not roomy or max(counts) <= min(roomy) + 1


def test_too_many_tasks() -> None:
    with pytest.raises(ValueError, match="5 tasks"):
        task_layout(5, [2, 2])
