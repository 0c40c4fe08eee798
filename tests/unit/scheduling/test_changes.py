"""What has changed since somebody last looked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minislurm.scheduling.changes import Changes


@given(st.lists(st.lists(st.integers(0, 9), max_size=700), max_size=6), st.integers(0, 3000))
def test_each_node_once_from_there_on(placements: list[list[int]], seen: int) -> None:
    changes = Changes(10)
    for nodes in placements:
        changes.add(nodes)
    every = [node for nodes in placements for node in nodes]
    assert len(changes) == len(every)
    assert list(changes) == every
    some = changes.since(min(seen, len(every))).tolist()
    assert sorted(some) == sorted(set(every[seen:]))


def test_a_new_pass_begins_with_none() -> None:
    changes = Changes(3)
    changes.add([2, 1])
    changes.clear()
    changes.add([0])
    assert (len(changes), changes.since(0).tolist()) == (1, [0])
