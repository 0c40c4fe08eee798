"""Memory amounts, array expressions, signals, job targets, dependencies."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain.arrays import ArrayExpression, format_tasks, parse_array
from minislurm.domain.dependencies import format_dependencies, parse_dependencies
from minislurm.domain.ids import JobId, StepId
from minislurm.domain.job import Dependency, DependencyKind
from minislurm.domain.job_targets import format_target, parse_target, split_targets
from minislurm.domain.memory import format_memory, parse_memory
from minislurm.domain.signals import parse_signal, signal_name
from minislurm.domain.views import JobTarget


@pytest.mark.parametrize(
    ("text", "mib"),
    [("500", 500), ("4G", 4096), ("4gb", 4096), ("1500k", 2), ("2MB", 2), ("1T", 1 << 20), ("0", 0)],
)
def test_memory(text: str, mib: int) -> None:
    assert parse_memory(text) == mib


@pytest.mark.parametrize("text", ["", "abc", "-1", "1.5G", "4GG", "G", "9" * 15 + "P", "1 G"])
def test_bad_memory(text: str) -> None:
    with pytest.raises(ValueError, match="memory"):
        parse_memory(text)


def test_memory_is_shown_as_slurm_does() -> None:
    shown = [format_memory(mib) for mib in (0, 500, 1024, 1500, 1536, 64000, 3 << 20)]
    assert shown == ["0", "500M", "1G", "1500M", "1.50G", "62.50G", "3T"]


@pytest.mark.parametrize(
    ("text", "tasks", "limit"),
    [
        ("0-3", (0, 1, 2, 3), 0),
        ("1,3,5-7", (1, 3, 5, 6, 7), 0),
        ("0-15:4%2", (0, 4, 8, 12), 2),
        ("7", (7,), 0),
        ("3,1,3", (1, 3), 0),
        ("2-4%1", (2, 3, 4), 1),
        ("[2-4%1]", (2, 3, 4), 1),
    ],
)
def test_arrays(text: str, tasks: tuple[int, ...], limit: int) -> None:
    assert parse_array(text) == ArrayExpression(tasks, limit)


@pytest.mark.parametrize(
    "text", ["", "x", "5-1", "1-", "-1", "1,,2", "0-9:0", "0-9%", "0-9%0", "0-9%x", "0-99999999", "1 2"]
)
def test_bad_arrays(text: str) -> None:
    with pytest.raises(ValueError, match="array"):
        parse_array(text)


@given(st.sets(st.integers(min_value=0, max_value=200), min_size=1), st.integers(min_value=0, max_value=9))
def test_an_array_reads_as_it_is_printed(tasks: set[int], limit: int) -> None:
    assert parse_array(format_tasks(tasks, limit)) == ArrayExpression(tuple(sorted(tasks)), limit)


def test_steps_are_listed_singly() -> None:
    assert format_tasks((1, 3, 5, 7, 9), 1) == "1,3,5,7,9%1"
    assert format_tasks(range(2, 20), 2) == "2-19%2"


def test_signals() -> None:
    assert [parse_signal(text) for text in ("USR1", "sigusr1", "10", "Kill")] == [10, 10, 10, 9]
    assert signal_name(signal.SIGTERM) == "TERM"
    assert signal_name(45) == "45"
    for bad in ("FOO", "0", "65", "", "-9", "999"):
        with pytest.raises(ValueError, match="signal"):
            parse_signal(bad)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("12", JobTarget(JobId(12))),
        ("12_3", JobTarget(JobId(12), (3,))),
        ("12_[1-3,5]", JobTarget(JobId(12), (1, 2, 3, 5))),
        ("12.0", JobTarget(JobId(12), (), StepId(0))),
        ("12_3.4", JobTarget(JobId(12), (3,), StepId(4))),
        ("12+1", JobTarget(JobId(12), het_offset=1)),
        ("12+0.3", JobTarget(JobId(12), (), StepId(3), 0)),
    ],
)
def test_job_targets(text: str, target: JobTarget) -> None:
    assert parse_target(text) == target
    assert format_target(target) == text


@pytest.mark.parametrize(
    "text",
    ["", "abc", "0", "12_", "12.", "12.batch", "12_[", "12_[]", "-1", "1_[1,2].0", "1+", "1+x", "1_2+1"],
)
def test_bad_job_targets(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_target(text)


def test_lists_of_targets_keep_brackets_whole() -> None:
    assert split_targets("1,2_[3,4],5.batch") == ["1", "2_[3,4]", "5.batch"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("afterok:1:2", "afterok:1,afterok:2"),
        ("afterok:1,2", "afterok:1,afterok:2"),
        ("afterany:3?afternotok:4_5", "afterany:3?afternotok:4_5"),
        ("after:7+10,singleton", "after:7+10,singleton"),
        ("aftercorr:8_*", "aftercorr:8"),
        ("9", "afterany:9"),
        ("AfterOK:1,afterok:1", "afterok:1"),
    ],
)
def test_dependencies(text: str, canonical: str) -> None:
    clauses, any_one = parse_dependencies(text)
    assert format_dependencies(clauses, any_one=any_one) == canonical


@pytest.mark.parametrize(
    "text",
    ["", "garbage", "foo:1", "afterok", "afterok:", "afterok:0", "afterok:x", "singleton:1", "afterok:1,",
     "afterok:1+5", "afterok:1,afterany:2?singleton", "after:1+", "afterok:-1", "expand:1"],
)  # fmt: skip
def test_bad_dependencies(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_dependencies(text)


def test_dependency_states_are_shown() -> None:
    clauses = (Dependency(DependencyKind.AFTER_OK, JobId(1)), Dependency(DependencyKind.SINGLETON))
    assert format_dependencies(clauses, ("failed",)) == "afterok:1(failed),singleton"


def test_delays_are_minutes() -> None:
    assert parse_dependencies("after:7+10")[0][0].delay_s == 600.0
