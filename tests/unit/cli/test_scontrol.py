"""scontrol's commands: what is asked of the controller, what is said, and the exit codes."""

from __future__ import annotations

import os
import time

import pytest

from minislurm.cli import connection, scontrol
from minislurm.cli.job_actions import report_outcomes
from minislurm.domain.configuration import ClusterSection, Configuration
from minislurm.domain.errors import AccessDenied, ControllerUnavailable, Refusal, RefusalCode
from minislurm.domain.ids import BATCH_STEP, JobId, NodeName
from minislurm.domain.job import Step
from minislurm.domain.views import ControllerInfo, JobChanges, JobTarget, Outcome
from tests.view_builders import NOW, RecordedController, array_rest_view, at, het_views, running_view

UNKNOWN = "Invalid job id specified"


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> RecordedController:
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    recorded = RecordedController()
    monkeypatch.setattr(connection, "connect", lambda: recorded)
    monkeypatch.setattr(time, "time", lambda: NOW)
    return recorded


def _scontrol(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str, int]:
    exit_code = scontrol.APPLICATION.main(words)
    captured = capsys.readouterr()
    return captured.out, captured.err, exit_code


def test_show_job(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    out, err, exit_code = _scontrol(capsys, "show", "job", "1")
    assert out.startswith("JobId=1 JobName=envjob\n")
    assert (err, exit_code) == ("", 0)
    for words in (["show", "job=1"], ["show", "jobs", "1"], ["sho", "jobid", "1"]):
        assert _scontrol(capsys, *words)[0] == out
    assert "DerivedExitCode" in _scontrol(capsys, "show", "job", "-d", "1")[0]
    assert _scontrol(capsys, "-o", "show", "job")[0].count("\n") == 7


def test_show_a_heterogeneous_job(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    controller.jobs = [*controller.jobs, *het_views()]
    heads = {
        text: [line.split()[:3] for line in _scontrol(capsys, "-o", "show", "job", text)[0].splitlines()]
        for text in ("20", "20+1", "21")
    }
    first = ["JobId=20", "HetJobId=20", "HetJobOffset=0"]
    second = ["JobId=21", "HetJobId=20", "HetJobOffset=1"]
    assert heads == {"20": [first, second], "20+1": [second], "21": [second]}
    assert "\n   HetJobIdSet=20-21\n   UserId=" in _scontrol(capsys, "show", "job", "20")[0]
    assert _scontrol(capsys, "show", "job", "20+2") == ("Job 20+2 not found\n", "", 1)


def test_a_longer_limit_for_each_component(
    controller: RecordedController, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.jobs = het_views()
    for text, expected in {
        "20": [(0, 1200.0), (1, 1800.0)], "20+1": [(1, 1800.0)], "21": [(None, 1800.0)]
    }.items():  # fmt: skip
        controller.requests.clear()
        assert _scontrol(capsys, "update", f"JobId={text}", "TimeLimit=+10") == ("", "", 0)
        asked = [(targets[0].het_offset, changes.time_limit_s) for _, changes, targets in controller.requests]
        assert asked == expected


def test_show_a_task_of_an_array(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    started = running_view(id=JobId(9), array_job_id=JobId(2), array_task_id=1)
    controller.jobs = [started, array_rest_view()]
    ids = [line.split()[0] for line in _scontrol(capsys, "-o", "show", "job", "2")[0].splitlines()]
    assert ids == ["JobId=2", "JobId=9"]
    assert " ArrayTaskId=4 " in _scontrol(capsys, "show", "job", "2_4")[0]
    assert _scontrol(capsys, "show", "job", "2_1")[0].startswith("JobId=9 ")
    assert _scontrol(capsys, "show", "job", "2_99") == ("Job 2_99 not found\n", "", 1)


@pytest.mark.parametrize(
    ("words", "out", "err", "exit_code"),
    [
        (["show", "job", "999999"], "", f"slurm_load_jobs error: {UNKNOWN}\n", 1),
        (["show", "job", "abc"], "", f"scontrol_print_job error: {UNKNOWN}\n", 1),
        (["show", "job", "1,3"], "", f"scontrol_print_job error: {UNKNOWN}\n", 1),
        (["show", "node", "nope"], "Node nope not found\n", "", 1),
        (["show", "partition", "nope"], "Partition nope not found\n", "", 1),
        (["show", "step", "99"], "", f"slurm_get_job_steps error: {UNKNOWN}\n", 1),
        (["show", "foo"], "", "invalid entity:foo for keyword:show \n", 1),
        (["show"], "", "too few arguments for keyword:show\n", 1),
        (["show", "topology"], "", "scontrol: error: show topology is not supported\n", 1),
        (["bogus"], "", "invalid keyword: bogus\n", 1),
        (["reboot", "n1"], "", "scontrol: error: reboot is not supported\n", 1),
        (["suspend", "1"], "", "scontrol: error: suspend is not supported\n", 1),
        ([], "", "scontrol: error: interactive mode is not supported: give a command\n", 1),
        (["ping", "x"], "", "too many arguments for keyword:ping\n", 1),
        (["ping"], "Slurmctld(primary) at login1 is UP\n", "", 0),
        (["hold"], "", "too few arguments for keyword:hold\n", 1),
        (["hold", "999999"], "", f"{UNKNOWN} for job 999999\nslurm_suspend error: {UNKNOWN}\n", 1),
        (["hold", "1", "99"], "", f"{UNKNOWN} for job 99\nslurm_suspend error: {UNKNOWN}\n", 1),
        (["hold", "abc"], "", f"{UNKNOWN} for job abc\nslurm_suspend error: {UNKNOWN}\n", 1),
        (["release", "999999"], "", f"{UNKNOWN} for job 999999\nslurm_suspend error: {UNKNOWN}\n", 1),
        (["requeue", "999"], "", f"{UNKNOWN} for job 999\n", 1),
        (["requeue", "abc"], "", f"{UNKNOWN} for job abc\n", 1),
        (["update", "job=999999", "nice=1"], "", f"{UNKNOWN} for job 999999\n", 1),
        (["update", "job=999999", "timelimit=+1"], "", f"{UNKNOWN} for job 999999\n", 1),
        (["update", "job=4", "timelimit=abc"], "", "scontrol: error: Invalid TimeLimit value\n", 1),
        (
            ["update", "job=4", "foo=1"],
            "",
            "Update of this parameter is not supported: foo=1\nRequest aborted\n",
            1,
        ),
        (
            ["update", "node=nope", "state=drain", "reason=x"],
            "",
            "nope\nslurm_update error: Invalid node name specified\n",
            1,
        ),
        (["--json", "show", "job"], "", "scontrol: error: --json is not supported by minislurm\n", 1),
        (["show", "hostnames"], "", "scontrol: error: host list is empty\n", 0),
        (["show", "hostnames", "n[1-3,7]"], "n1\nn2\nn3\nn7\n", "", 0),
        (["show", "hostname", "n[1-2]"], "n1\nn2\n", "", 0),
        (["show", "hostnames=n[1-2]"], "n1\nn2\n", "", 0),
        (["show", "hostnames", "n[1"], "", "scontrol: error: Invalid hostlist: n[1\n", 1),
        (["show", "hostlist", "n1,n2,n3,n7"], "n[1-3,7]\n", "", 0),
        (["show", "hostlistsorted", "n7,n1,n2"], "n[1-2,7]\n", "", 0),
        (["show", "hostlist"], "", "invalid encode argument\n", 1),
    ],
)
def test_messages(
    controller: RecordedController,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    out: str,
    err: str,
    exit_code: int,
) -> None:
    assert _scontrol(capsys, *words) == (out, err, exit_code)


def test_hostnames_of_the_allocation(
    controller: RecordedController, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[5-6]")
    assert _scontrol(capsys, "show", "hostnames")[0] == "n5\nn6\n"
    monkeypatch.setenv("SLURM_NODELIST", "n1")
    assert _scontrol(capsys, "show", "hostnames")[0] == "n1\n"


def test_show_nodes_and_partitions(
    controller: RecordedController, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _, exit_code = _scontrol(capsys, "-o", "show", "node", "n[1,9]")
    assert [line.split()[0] for line in out.splitlines()] == ["NodeName=n1", "Node"]
    assert exit_code == 1
    assert _scontrol(capsys, "-o", "show", "nodes")[0].count("NodeName=") == 8
    partitions = _scontrol(capsys, "-o", "show", "partition")[0].splitlines()
    assert [line.split()[0] for line in partitions] == [
        "PartitionName=batch",
        "PartitionName=urgent",
        "PartitionName=small",
    ]


def test_show_step(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    step = Step(BATCH_STEP, "batch", (NodeName("n1"),), 1, start_time=at("08:39:05"))
    controller.jobs = [running_view(steps={BATCH_STEP: step})]
    for words in ([], ["1"], ["1.batch"]):
        assert _scontrol(capsys, "show", "step", *words)[0].startswith("StepId=1.batch UserId=0 ")
    assert _scontrol(capsys, "show", "step", "1.0") == ("Job step 1.0 not found\n", "", 1)
    controller.jobs = []
    assert _scontrol(capsys, "show", "step") == ("No job steps in the system\n", "", 0)


def test_show_config(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    lines = _scontrol(capsys, "show", "config")[0].splitlines()
    assert lines[0] == "Configuration data as of 2026-11-21T08:39:08"
    assert "MinJobAge               = 300 sec" in lines
    assert lines[-2:] == ["", "Slurmctld(primary) at login1 is UP"]


def test_actions_reach_the_controller(
    controller: RecordedController, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["hold", "1,2_[3-4]"],
        ["uhold", "5"],
        ["release", "jobid=5"],
        ["requeue", "1"],
        ["requeuehold", "1"],
        ["hold", "jobname=big"],
    ):
        assert _scontrol(capsys, *words) == ("", "", 0)
    one, five = JobTarget(JobId(1)), JobTarget(JobId(5))
    assert controller.requests == [
        ("hold", False, (one, JobTarget(JobId(2), (3, 4)))),
        ("hold", True, (five,)),
        ("release", (five,)),
        ("requeue", False, (one,)),
        ("requeue", True, (one,)),
        ("hold", False, (JobTarget(JobId(3)),)),
    ]


def test_updates_reach_the_controller(
    controller: RecordedController, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["job=4,5", "nice=1"],
        ["job=1", "timelimit+=10"],
        ["jobname=arr", "ArrayTaskThrottle=3"],
        ["node=n[1-2]", "state=drain", "reason=bad disk"],
        ["partition=small", "state=drain", "maxnodes=2"],
    ):
        assert _scontrol(capsys, "update", *words) == ("", "", 0)
    assert controller.requests == [
        ("update_job", JobChanges(nice=1), (JobTarget(JobId(4)), JobTarget(JobId(5)))),
        ("update_job", JobChanges(time_limit_s=1200.0), (JobTarget(JobId(1)),)),
        ("update_job", JobChanges(array_limit=3), (JobTarget(JobId(2)),)),
        ("update_node", ("n1", "n2"), {"state": "DRAIN", "reason": "bad disk", "weight": None}),
        ("update_partition", "small", "DRAIN", {"max_nodes": "2"}),
    ]


def test_an_array_done_in_part(capsys: pytest.CaptureFixture[str]) -> None:
    pending = Refusal(RefusalCode.JOB_PENDING)
    outcomes = [
        Outcome(JobTarget(JobId(2), (0, 2))),
        Outcome(JobTarget(JobId(2), (4,)), pending),
        Outcome(JobTarget(JobId(2), (6, 8)), pending),
    ]
    assert report_outcomes(outcomes) == 1
    assert capsys.readouterr().err == "2_0,2: No error\n2_4,6,8: Job is pending execution\n"
    assert report_outcomes(outcomes[1:2]) == 1
    assert capsys.readouterr().err == "Job is pending execution for job 2_4\n"
    assert report_outcomes(outcomes[:1]) == 0


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ControllerUnavailable(), "Unable to contact slurm controller (connect failure)"),
        (AccessDenied("Access/permission denied"), "Access/permission denied"),
    ],
)
@pytest.mark.parametrize(
    ("words", "context"),
    [
        (["show", "job"], "slurm_load_jobs error"),
        (["show", "node"], "slurm_load_node error"),
        (["show", "partition"], "slurm_load_partitions error"),
        (["show", "config"], "slurm_load_ctl_conf error"),
        (["hold", "1"], "slurm_suspend error"),
        (["update", "job=1", "nice=1"], "slurm_update error"),
    ],
)
def test_no_answer(
    controller: RecordedController,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    context: str,
    error: Exception,
    text: str,
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise error

    for name in ("list_jobs", "list_nodes", "list_partitions", "show_configuration", "hold", "update_job"):
        monkeypatch.setattr(controller, name, fail)
    assert _scontrol(capsys, *words) == ("", f"{context}: {text}\n", 1)


def test_ping_of_a_controller_that_is_away(
    controller: RecordedController, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> ControllerInfo:
        raise ControllerUnavailable

    monkeypatch.setattr(controller, "ping", fail)
    configured = Configuration(cluster=ClusterSection(controller_host="head"))
    monkeypatch.setattr(connection, "configuration", lambda: configured)
    assert _scontrol(capsys, "ping") == ("Slurmctld(primary) at head is DOWN\n", "", 1)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    out, _, exit_code = _scontrol(capsys, "-V")
    assert out.startswith("slurm 23.")
    assert _scontrol(capsys, "version") == (out, "", exit_code)
