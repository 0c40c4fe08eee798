"""Which records of checkpoints are kept, and what is learnt from them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain.checkpoint import (
    RECORDS_KEPT,
    Checkpoint,
    is_known,
    typical_duration_s,
    typical_size_bytes,
    with_reported,
)
from minislurm.domain.ids import RunNumber


def made(path: str, time: float, *, run: int = 1, **changes: object) -> Checkpoint:
    return Checkpoint(RunNumber(run), path, time=time, **changes)  # type: ignore[arg-type]


def kept(reports: list[Checkpoint], keep: int = 0) -> tuple[Checkpoint, ...]:
    stay: tuple[Checkpoint, ...] = ()
    for one in reports:
        if not is_known(stay, one):
            stay, _ = with_reported(stay, one, keep)
    return stay


def test_the_newest_stay() -> None:
    reports = [made(f"/{i}", i) for i in range(1, 6)]
    assert kept(reports) == tuple(reports[-RECORDS_KEPT:])
    assert kept(reports, 1) == (reports[-1],)
    assert with_reported(reports[:2], reports[2], 2) == (tuple(reports[1:3]), (reports[0],))


def test_a_later_run_is_newer_whatever_the_clocks_of_the_nodes_say() -> None:
    assert kept([made("/b", 5, run=2), made("/a", 9)], 1) == (made("/b", 5, run=2),)


def test_a_path_that_is_written_again_is_one_checkpoint() -> None:
    first, again = made("/last", 1, step=1), made("/last", 2, step=2)
    assert with_reported((first,), again, 1) == ((again,), ())
    assert with_reported((again,), first, 1) == ((again,), ())


def test_what_is_seen_in_the_folder_says_nothing_new_of_what_the_job_has_reported() -> None:
    told = made("/a", 2.0, step=7, size_bytes=10, modified=1.0)
    seen = made("/a", 1.5, size_bytes=10, modified=1.0)
    assert is_known([told], seen)
    assert not is_known([seen], told)
    assert not is_known([told], made("/a", 3.0, size_bytes=11, modified=2.5))


TIMES = st.floats(0, 100).map(lambda time: round(time, 2))
REPORTS = st.lists(
    st.builds(made, st.sampled_from(["/a", "/b", "/c", "/d", "/e"]), TIMES, run=st.integers(1, 3))
)


@given(REPORTS, st.integers(0, 4), st.randoms())
def test_order_and_repetition_of_reports_change_nothing(
    reports: list[Checkpoint], keep: int, chance: object
) -> None:
    shuffled = reports + reports[: len(reports) // 2]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert kept(shuffled, keep) == kept(sorted(reports, key=lambda one: (one.run, one.time, one.path)), keep)


def test_durations_and_sizes_are_learnt() -> None:
    reports = [
        made(f"/{i}", i, duration_s=d, size_bytes=s) for i, (d, s) in enumerate([(1, 5), (9, 7), (2, 0)])
    ]
    assert typical_duration_s(reports) == 2
    assert typical_size_bytes(reports) == 6
    assert typical_duration_s([]) == typical_size_bytes([]) == 0
