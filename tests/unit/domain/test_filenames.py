from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain.filenames import FilenameFields, fill, has_symbol

_JOB = FilenameFields(12, user_name="alice", job_name="train", node="n3", node_index=2, task=7)
_TASK = FilenameFields(14, array_job_id=12, array_task_id=31, user_name="alice", job_name="train")


@pytest.mark.parametrize(
    ("pattern", "fields", "name"),
    [
        ("slurm-%j.out", _JOB, "slurm-12.out"),
        ("slurm-%A_%a.out", _TASK, "slurm-12_31.out"),
        ("%x-%u-%N-%n-%t", _JOB, "train-alice-n3-2-7"),
        ("%5j|%4a|%3t", _JOB, "00012|4294967294|007"),
        ("%99999999999j", _JOB, "0000000012"),
        ("%5x", _JOB, "train"),
        ("%b", _TASK, "1"),
        ("%J %s", _JOB, "12 batch"),
        ("%J %s", FilenameFields(12, step_id=3), "12.3 3"),
        ("%6J", FilenameFields(12, step_id=3), "000012.3"),
        ("100%%j %q %", _JOB, "100%j %q %"),
        ("a\\%j", _JOB, "a%j"),
        ("%j-%t-%N", FilenameFields(12), "12-%t-%N"),
    ],
)
def test_symbols(pattern: str, fields: FilenameFields, name: str) -> None:
    assert fill(pattern, fields) == name


def test_what_one_does_not_know_the_next_fills_in() -> None:
    first = fill("%j_%t_%N.log", FilenameFields(12))
    assert fill(first, FilenameFields(12, node="n1", task=0)) == "12_0_n1.log"


def test_finds_symbols() -> None:
    assert has_symbol("%j_%3t", "t")
    assert not has_symbol("%j_%%t", "t")
    assert not has_symbol("\\%t", "t")


@given(st.text(max_size=30))
def test_any_pattern_is_a_name(pattern: str) -> None:
    assert isinstance(fill(pattern, _JOB), str)
