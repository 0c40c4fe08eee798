from __future__ import annotations

import signal

import pytest

from minislurm.cli.step_exit import Ending, StepExit, name_tasks, ranges


def _exit_of(*endings: Ending) -> StepExit:
    step = StepExit(tuple(range(len(endings))))
    for task, ending in enumerate(endings):
        step.note("n1", task, ending)
    return step


def test_exit_code_is_the_highest() -> None:
    assert _exit_of(Ending(1), Ending(7), Ending(0)).exit_code == 7


def test_any_death_by_signal_wins_over_a_higher_code() -> None:
    assert _exit_of(Ending(200), Ending(0, signal.SIGKILL)).exit_code == 137


def test_all_well_is_zero() -> None:
    step = _exit_of(Ending(), Ending())
    assert step.exit_code == 0
    assert not step.was_forced


def test_a_lost_task_is_a_failure() -> None:
    step = StepExit((0, 1))
    step.note("n1", 0, Ending())
    step.lose((0, 1))
    assert step.exit_code == 1
    assert step.running == []
    assert step.endings == {0: Ending()}


def test_the_first_report_of_a_task_counts() -> None:
    step = StepExit((0,))
    step.note("n1", 0, Ending(3))
    step.note("n1", 0, Ending(0, 9))
    assert step.exit_code == 3
    assert step.messages() == ["n1: task 0: Exited with exit code 3"]


def test_messages_join_tasks_of_a_node_that_ended_alike() -> None:
    step = StepExit(tuple(range(5)))
    step.note("n1", 0, Ending(3))
    step.note("n1", 1, Ending(3))
    step.note("n1", 2, Ending(4))
    step.note("n2", 3, Ending(3))
    step.note("n2", 4, Ending())
    assert step.messages() == [
        "n1: tasks 0-1: Exited with exit code 3",
        "n1: task 2: Exited with exit code 4",
        "n2: task 3: Exited with exit code 3",
    ]
    assert step.messages() == []


def test_verbose_names_normal_ends_too() -> None:
    assert _exit_of(Ending()).messages(verbose=True) == ["n1: task 0: Completed"]


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (Ending(0, signal.SIGKILL), "Killed"),
        (Ending(0, signal.SIGTERM), "Terminated"),
        (Ending(0, signal.SIGUSR1), "User defined signal 1"),
        (Ending(0, signal.SIGSEGV, core_dumped=True), "Segmentation fault (core dumped)"),
        (Ending(0, 99), "Unknown signal 99"),
        (Ending(3), "Exited with exit code 3"),
    ],
)
def test_texts(ending: Ending, text: str) -> None:
    assert ending.text == text


def test_states_for_ctrl_c() -> None:
    step = StepExit((0, 1, 2, 3))
    step.note("n1", 1, Ending(0))
    step.note("n1", 3, Ending(2))
    assert step.state_lines("20.0") == [
        "StepId=20.0 tasks 0,2: running",
        "StepId=20.0 task 1: exited",
        "StepId=20.0 task 3: exited abnormally",
    ]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([0], "0"), ([2, 0, 1], "0-2"), ([0, 1, 3, 7, 8, 9], "0-1,3,7-9"), ([], "")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


def test_name_tasks() -> None:
    assert (name_tasks([4]), name_tasks([4, 5])) == ("task 4", "tasks 4-5")
