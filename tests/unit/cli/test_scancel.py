from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from minislurm.cli import scancel
from minislurm.cli.sbatch import wait_code
from minislurm.cli.scancel import Values
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import JobId, NodeName, StepId
from minislurm.domain.job import Job
from minislurm.domain.job_targets import format_target, parse_target
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState
from minislurm.domain.views import JobTarget, Outcome
from tests.builders import a_spec


def _job(job_id: int = 12, state: JobState = JobState.RUNNING, **changes: object) -> Job:
    spec = a_spec(name="train", account="physics", qos="high")
    job = Job(JobId(job_id), spec, state=state, name="train", partition="batch")
    for name, value in changes.items():
        setattr(job, name, value)
    return job


@pytest.mark.parametrize(
    ("words", "error", "exit_code"),
    [
        ([], "scancel: error: No job identification provided\n", 1),
        (["abc"], "scancel: error: Invalid job id abc\n", 1),
        (["12.batch"], "scancel: error: Invalid job id 12.batch\n", 1),
        (["12", "-s", "FOO"], "scancel: error: Unknown job signal: FOO\n", 1),
        (["-u", "no such user"], "scancel: error: Invalid user name: no such user\n", 1),
        (
            ["--bogus"],
            "scancel: unrecognized option '--bogus'\nTry \"scancel --help\" for more information\n",
            1,
        ),
        (["12_"], "", 0),
        (["-M", "x", "1"], "scancel: error: --clusters is not supported by minislurm\n", 1),
        (
            ["-t", "COMPLETED"],
            "scancel: error: Invalid job state specified: COMPLETED\n"
            "scancel: error: Valid job states are PENDING, RUNNING, SUSPENDED\n",
            1,
        ),
    ],
)
def test_command_lines_that_end_at_once(
    words: list[str], error: str, exit_code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert scancel.APPLICATION.main(words) == exit_code
    assert capfd.readouterr() == ("", error)


def test_targets_may_be_lists() -> None:
    assert scancel._targets(["1,2_[3,4]", "5.0"]) == [
        JobTarget(JobId(1)),
        JobTarget(JobId(2), (3, 4)),
        JobTarget(JobId(5), (), StepId(0)),
    ]


@pytest.mark.parametrize(
    ("values", "passes"),
    [
        (Values(account="physics"), True),
        (Values(account="other"), False),
        (Values(name="x,train"), True),
        (Values(name="trai"), False),
        (Values(partition="batch", qos="high"), True),
        (Values(partition="batch", qos="low"), False),
        (Values(state=JobState.RUNNING), True),
        (Values(state=JobState.PENDING), False),
        (Values(nodelist=("n1", "n2")), True),
        (Values(nodelist=("n2",)), False),
    ],
)
def test_filters(values: Values, passes: bool) -> None:
    job = _job(allocation=(NodeAllocation(NodeName("n1")),))
    assert scancel._passes(job, values, None) is passes


def test_filters_by_user_and_leaves_ended_jobs() -> None:
    assert scancel._passes(_job(), Values(user="x"), 1000)
    assert not scancel._passes(_job(), Values(user="x"), 1001)
    assert not scancel._passes(_job(state=JobState.COMPLETED), Values(name="train"), None)
    assert scancel._user_ids(Values(me=True)) == os.getuid()
    assert scancel._user_ids(Values(user="4711")) == 4711


def test_ids_and_filters_together_mean_both() -> None:
    plain, task = _job(12), _job(14, array_job_id=JobId(13), array_task_id=3)
    rest = _job(13, array_job_id=JobId(13), pending_tasks=[5, 6])
    concerned = {
        text: [scancel._concerns(parse_target(text), job) for job in (plain, task, rest)]
        for text in ("12", "13", "13_3", "13_[4-5]", "14", "15")
    }
    assert concerned == {
        "12": [True, False, False],
        "13": [False, True, True],
        "13_3": [False, True, False],
        "13_[4-5]": [False, False, True],
        "14": [False, True, False],
        "15": [False, False, False],
    }


def test_a_heterogeneous_job_goes_with_its_leader() -> None:
    jobs = [_job(20 + i, het_job_id=JobId(20), het_job_offset=i, partition=f"p{i}") for i in (0, 1)]
    client = SimpleNamespace(list_jobs=lambda query: [SimpleNamespace(job=job) for job in jobs])

    def found(*words: str, **filters: str) -> list[str]:
        targets = scancel._matching(client, Values(**filters), None, scancel._targets(words))  # type: ignore[arg-type]
        return [format_target(target) for target in targets]

    assert found(name="train") == ["20"]
    assert found(partition="p1") == ["21"]
    assert found("20", partition="p1") == ["20"]
    assert found("20+0", partition="p1") == []


@pytest.mark.parametrize(
    ("values", "target", "code", "error", "exit_code"),
    [
        (Values(), "12", RefusalCode.INVALID_JOB_ID, "", 0),
        (Values(), "12", RefusalCode.ALREADY_DONE, "", 0),
        (
            Values(verbose=1), "12", RefusalCode.ALREADY_DONE,
            "scancel: error: Kill job error on job id 12: Job/step already completing or completed\n", 0,
        ),
        (
            Values(signal=10), "12", RefusalCode.INVALID_JOB_ID,
            "scancel: error: Kill job error on job id 12: Invalid job id specified\n", 1,
        ),
        (
            Values(), "12.9", RefusalCode.INVALID_JOB_ID,
            "scancel: error: Kill job error on job step id 12.9: Invalid job id specified\n", 1,
        ),
        (
            Values(signal=10), "12_3", RefusalCode.TRY_LATER,
            "scancel: error: Kill job error on job id 12_3: Job can not be altered now, try again later\n",
            228,
        ),
        (Values(quiet=1), "12", RefusalCode.ACCESS, "", 1),
        (
            Values(), "12+1", RefusalCode.HET_COMPONENT,
            "scancel: error: Kill job error on job id 12+1: "
            "Operation not permitted on individual component of heterogeneous job\n",
            60,
        ),
    ],
)  # fmt: skip
def test_what_was_refused(
    values: Values, target: str, code: RefusalCode, error: str, exit_code: int,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    outcomes = [Outcome(parse_target("1")), Outcome(parse_target(target), Refusal(code))]
    assert scancel._report(values, outcomes) == exit_code
    assert capfd.readouterr() == ("", error)


def test_kill_of_a_whole_job_ends_it_the_usual_way() -> None:
    assert scancel._signal(Values(signal=9)) == 0
    assert scancel._signal(Values(signal=9, batch=True)) == 9
    assert scancel._signal(Values(signal=10)) == 10


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (_job(state=JobState.COMPLETED), 0),
        (_job(state=JobState.FAILED, exit_code=5, start_time=1.0), 5),
        (_job(state=JobState.FAILED, exit_signal=9, start_time=1.0), 1),
        (_job(state=JobState.CANCELLED), 0),
        (_job(state=JobState.CANCELLED, exit_signal=15, start_time=1.0), 1),
        (_job(state=JobState.TIMEOUT, start_time=1.0), 1),
    ],
)
def test_exit_codes_of_wait(job: Job, code: int) -> None:
    assert wait_code(job) == code
