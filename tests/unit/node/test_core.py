"""The node daemon's core: commands and events in, actions out."""

from __future__ import annotations

from typing import Any

import pytest

from minislurm.domain.ids import BATCH_STEP, JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import EndCause, Job
from minislurm.domain.resources import NodeAllocation
from minislurm.node.core import NodeCore
from minislurm.node.messages import (
    Action,
    BatchExited,
    Command,
    End,
    EndStep,
    Event,
    Exit,
    FinishRun,
    Forget,
    LaunchBatch,
    NotPrepared,
    Phase,
    Prepare,
    Prepared,
    PrepareFailed,
    PrepareRun,
    RemoveRun,
    RunCleaned,
    RunFinished,
    RunKey,
    RunPrepared,
    RunStarted,
    SaveRun,
    Signal,
    SignalStep,
    Start,
    StepClean,
    StepEnded,
    StepExited,
    StepStarted,
)
from tests.builders import a_spec

KEY = RunKey(JobId(7), RunNumber(1))
FAILED = Exit(exit_code=3, time=20.0)


def a_prepare(
    *, nodes: tuple[str, ...] = ("n1",), start: bool = True, key: RunKey = KEY, **spec: Any
) -> Prepare:
    job = Job(
        key.job_id,
        a_spec(**spec),
        run=key.run,
        allocation=tuple(
            NodeAllocation(
                NodeName(n),
            )
            for n in nodes
        ),
    )
    return Prepare(key, job, start=start, kill_wait_s=30.0)


class Node:
    """A core and a clock."""

    def __init__(self, name: str = "n1", **settings: Any) -> None:
        self.core = NodeCore(name, **settings)
        self.now = 10.0

    def hears(self, *messages: Command | Event) -> list[Action]:
        """What the last of them leads to."""
        actions: list[Action] = []
        for message in messages:
            actions = self.core.handle(message, self.now)
        return actions

    def admits(self, step_id: int = 0, user_id: int = 1000, key: RunKey = KEY) -> str:
        return self.core.admit_step(key, StepId(step_id), user_id, is_first=True)


def running(**prepare: Any) -> Node:
    node = Node()
    node.hears(a_prepare(**prepare), Prepared(KEY))
    if not prepare.get("start", True):
        node.hears(Start(KEY))
    if prepare.get("is_batch", True):
        node.hears(StepStarted(KEY, BATCH_STEP, 11.0))
    return node


def end(cause: EndCause = EndCause.CANCEL, *, kill: bool = False) -> End:
    return End(KEY, cause, 1_000_000_000.0, 5.0, kill)


# --- the usual way ---------------------------------------------------------------------------------------


def test_a_run_on_one_node_starts_by_itself() -> None:
    node = Node()
    assert node.hears(a_prepare()) == [PrepareRun(a_prepare())]
    assert node.hears(Prepared(KEY)) == [SaveRun(KEY, Phase.RUNNING), LaunchBatch(KEY)]
    assert node.hears(StepStarted(KEY, BATCH_STEP, 11.0)) == [RunStarted(KEY, 11.0)]


def test_its_end_is_one_report() -> None:
    node = running()
    assert node.hears(StepExited(KEY, BATCH_STEP, FAILED, clean=True)) == [FinishRun(KEY)]
    assert node.hears(RunFinished(KEY)) == [SaveRun(KEY, Phase.CLEAN), BatchExited(KEY, FAILED, clean=True)]


def test_processes_that_outlive_the_script_make_it_two() -> None:
    node = running()
    assert node.hears(StepExited(KEY, BATCH_STEP, FAILED)) == [BatchExited(KEY, FAILED)]
    assert node.hears(StepClean(KEY, BATCH_STEP)) == [FinishRun(KEY)]
    assert node.hears(RunFinished(KEY)) == [SaveRun(KEY, Phase.CLEAN), RunCleaned(KEY, 10.0)]


def test_an_epilog_does_not_delay_the_report() -> None:
    node = Node(has_epilog=True)
    node.hears(a_prepare(), Prepared(KEY))
    assert node.hears(StepExited(KEY, BATCH_STEP, FAILED, clean=True)) == [
        BatchExited(KEY, FAILED),
        FinishRun(KEY),
    ]


def test_steps_that_outlive_the_script_are_ended() -> None:
    node = running()
    node.admits(0)
    assert node.hears(StepExited(KEY, BATCH_STEP, FAILED, clean=True)) == [
        EndStep(KEY, StepId(0), kill=False, wait_s=30.0),
        BatchExited(KEY, FAILED),
    ]
    assert node.hears(StepExited(KEY, StepId(0), Exit(exit_signal=9), clean=True)) == [
        StepEnded(KEY, StepId(0), Exit(exit_signal=9)),
        FinishRun(KEY),
    ]


def test_two_phases_on_the_batch_host() -> None:
    node = Node()
    node.hears(a_prepare(nodes=("n1", "n2"), start=False))
    assert node.hears(Prepared(KEY)) == [RunPrepared(KEY)]
    assert node.hears(Start(KEY)) == [SaveRun(KEY, Phase.RUNNING), LaunchBatch(KEY)]
    # The run is over when the controller says so, since there are other nodes.
    assert node.hears(StepExited(KEY, BATCH_STEP, FAILED, clean=True)) == [BatchExited(KEY, FAILED)]
    assert node.hears(end(EndCause.EXIT, kill=True)) == [FinishRun(KEY)]


def test_other_nodes_only_hold() -> None:
    node = Node("n2")
    node.hears(a_prepare(nodes=("n1", "n2"), start=False), Prepared(KEY))
    assert node.hears(Start(KEY)) == [SaveRun(KEY, Phase.RUNNING)]
    assert node.core.runs[KEY].phase is Phase.RUNNING


def test_an_allocation_runs_without_a_script() -> None:
    node = Node()
    node.hears(a_prepare(start=False, is_batch=False), Prepared(KEY))
    assert node.hears(Start(KEY)) == [SaveRun(KEY, Phase.RUNNING), RunStarted(KEY, 10.0)]


# --- said twice, too late, too early ---------------------------------------------------------------------


def test_commands_again_lead_to_their_reports_again() -> None:
    node = Node()
    node.hears(a_prepare(nodes=("n1", "n2"), start=False), Prepared(KEY))
    assert node.hears(a_prepare(nodes=("n1", "n2"), start=False)) == [RunPrepared(KEY)]
    node.hears(Start(KEY))
    assert node.hears(Start(KEY)) == []
    node.hears(StepStarted(KEY, BATCH_STEP, 11.0))
    assert node.hears(Start(KEY)) == [RunStarted(KEY, 11.0)]
    node.hears(end(), StepExited(KEY, BATCH_STEP, FAILED, clean=True), RunFinished(KEY))
    assert node.hears(end()) == [RunCleaned(KEY, 10.0)]
    assert node.hears(a_prepare()) == [RunCleaned(KEY, 10.0)]


def test_events_again_change_nothing() -> None:
    node = running()
    assert node.hears(StepStarted(KEY, BATCH_STEP, 12.0)) == []
    node.hears(StepExited(KEY, BATCH_STEP, FAILED))
    assert node.hears(StepExited(KEY, BATCH_STEP, Exit())) == []
    assert node.core.runs[KEY].exit == FAILED
    node.hears(StepClean(KEY, BATCH_STEP))
    assert node.hears(StepClean(KEY, BATCH_STEP)) == []
    node.hears(RunFinished(KEY))
    assert node.hears(RunFinished(KEY)) == []


def test_commands_for_another_run_touch_nothing() -> None:
    node = running()
    other = RunKey(KEY.job_id, RunNumber(9))
    assert node.hears(Signal(other, 9)) == []
    assert node.hears(Start(other)) == []
    assert node.hears(End(other, EndCause.CANCEL, 1.0, 5.0)) == [RunCleaned(other, 10.0)]
    assert node.core.runs[KEY].ending is None


def test_an_older_run_is_not_prepared() -> None:
    node = running()
    assert node.hears(a_prepare(key=RunKey(KEY.job_id, RunNumber(0)))) == []


def test_start_before_prepared() -> None:
    node = Node()
    node.hears(a_prepare(start=False))
    assert node.hears(Start(KEY)) == []
    assert LaunchBatch(KEY) in node.hears(Prepared(KEY))


def test_end_before_prepared() -> None:
    node = Node()
    node.hears(a_prepare())
    assert node.hears(end()) == []
    assert node.hears(Prepared(KEY)) == [FinishRun(KEY)]


def test_what_cannot_be_prepared_is_forgotten() -> None:
    node = Node()
    node.hears(a_prepare())
    assert node.hears(NotPrepared(KEY, "disk full")) == [RemoveRun(KEY), PrepareFailed(KEY, "disk full")]
    assert node.core.runs == {}
    # A fresh attempt is none of a known run.
    assert node.hears(a_prepare()) == [PrepareRun(a_prepare())]


def test_a_failed_preparation_of_a_cancelled_run_is_its_end() -> None:
    node = Node()
    node.hears(a_prepare(), end())
    assert node.hears(NotPrepared(KEY, "disk full")) == [RemoveRun(KEY), RunCleaned(KEY, 10.0)]


# --- ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (EndCause.CANCEL, ""),
        (EndCause.TIME_LIMIT, " DUE TO TIME LIMIT"),
        (EndCause.REQUEUE, " DUE TO JOB REQUEUE"),
        (EndCause.NODE_FAIL, " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"),
    ],
)
def test_ends_are_announced_in_the_output(cause: EndCause, text: str) -> None:
    node = running()
    node.admits(2)
    batch, step = node.hears(end(cause))
    assert isinstance(batch, EndStep)
    assert isinstance(step, EndStep)
    assert batch.message.startswith("slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2001-09-0")
    assert batch.message.endswith(f"{text} ***")
    assert step.message.startswith("slurmstepd-n1: error: *** STEP 7.2 ON n1 CANCELLED AT ")
    assert (batch.kill, batch.wait_s) == (False, 5.0)


def test_ends_without_announcement() -> None:
    node = running(nodes=("n1", "n2"), start=False)
    assert node.hears(end(EndCause.LAUNCH_FAILURE, kill=True)) == [
        EndStep(KEY, BATCH_STEP, kill=True, wait_s=5.0)
    ]


def test_scancel_b_kills_the_script_and_terminates_the_steps() -> None:
    node = running()
    node.admits(0)
    batch, step = node.hears(end(EndCause.BATCH_KILLED))
    assert isinstance(batch, EndStep)
    assert isinstance(step, EndStep)
    assert (batch.kill, step.kill) == (True, False)


def test_an_end_can_become_harder_but_not_softer() -> None:
    node = running()
    node.hears(end())
    assert node.hears(end()) == []
    harder = node.hears(end(kill=True))
    assert [action.kill for action in harder if isinstance(action, EndStep)] == [True]
    assert node.hears(end()) == []


def test_the_end_waits_for_every_step() -> None:
    node = running()
    node.admits(0)
    node.hears(end(), StepExited(KEY, BATCH_STEP, FAILED, clean=True))
    assert FinishRun(KEY) in node.hears(StepExited(KEY, StepId(0), Exit(), clean=True))


def test_forget() -> None:
    node = running()
    node.hears(StepExited(KEY, BATCH_STEP, FAILED, clean=True), RunFinished(KEY))
    assert node.hears(Forget(KEY)) == [RemoveRun(KEY)]
    assert node.core.runs == {}
    assert node.hears(Forget(KEY)) == [RemoveRun(KEY)]


def test_what_still_runs_is_killed_before_it_is_forgotten() -> None:
    node = running()
    (killing,) = node.hears(Forget(KEY))
    assert isinstance(killing, EndStep)
    assert killing.kill
    node.hears(StepExited(KEY, BATCH_STEP, FAILED, clean=True))
    assert node.hears(RunFinished(KEY)) == [RunCleaned(KEY, 10.0), RemoveRun(KEY)]


# --- signals (slurm-facts, 1) ----------------------------------------------------------------------------


def told(actions: list[Action]) -> list[tuple[int, int, str]]:
    return [(a.step_id, a.signal, a.to) for a in actions if isinstance(a, SignalStep)]


def test_a_signal_goes_to_all_steps_and_not_to_the_script() -> None:
    node = running()
    assert node.hears(Signal(KEY, 10)) == []
    node.admits(0)
    node.admits(1)
    assert told(node.hears(Signal(KEY, 10))) == [(0, 10, "all"), (1, 10, "all")]


def test_a_signal_to_one_step() -> None:
    node = running()
    node.admits(0)
    node.admits(1)
    assert told(node.hears(Signal(KEY, 10, StepId(1)))) == [(1, 10, "all")]


def test_a_signal_to_the_script_alone() -> None:
    node = running()
    node.admits(0)
    (action,) = node.hears(Signal(KEY, 10, BATCH_STEP, continue_first=True))
    assert action == SignalStep(KEY, BATCH_STEP, 10, "leader", continue_first=True)


def test_a_full_signal_goes_to_the_scripts_group_and_the_steps() -> None:
    node = running()
    node.admits(0)
    assert told(node.hears(Signal(KEY, 10, full=True))) == [(-1, 10, "group"), (0, 10, "all")]


def test_term_to_the_script_is_announced() -> None:
    node = running()
    (action,) = node.hears(Signal(KEY, 15, BATCH_STEP))
    assert isinstance(action, SignalStep)
    assert "*** JOB 7 ON n1 CANCELLED AT" in action.message


# --- steps -----------------------------------------------------------------------------------------------


def test_steps_are_admitted_while_the_run_runs() -> None:
    node = Node("n2")
    assert "not running" in node.admits()
    node.hears(a_prepare(nodes=("n1", "n2"), start=False))
    assert "not running" in node.admits()
    node.hears(Prepared(KEY))
    # Start may still be on its way: the credential proves that the run has started.
    assert node.admits() == ""
    assert "running already" in node.admits()
    assert "denied" in node.admits(1, user_id=1)
    assert node.admits(1, user_id=0) == ""
    node.hears(end())
    assert node.admits(2) == "Slurm job 7 has expired"
