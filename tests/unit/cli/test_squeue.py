"""What squeue prints, against the recorded output of a real Slurm."""

from __future__ import annotations

import os
import time

import pytest

from minislurm.cli import connection, squeue
from minislurm.cli.job_row import job_rows
from minislurm.domain.errors import ControllerUnavailable
from minislurm.domain.ids import BATCH_STEP, JobId, NodeName, StepId
from minislurm.domain.job import Step
from minislurm.domain.states import JobState, Reason
from minislurm.domain.views import JobQuery, JobView
from tests.view_builders import (
    NOW,
    RecordedController,
    a_job_view,
    array_rest_view,
    at,
    ended_view,
    het_views,
    part,
    recorded_jobs,
    running_view,
)

HEADER = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
DEFAULT = (
    HEADER
    + """\
                 6     batch    later     root PD       0:00      1 (BeginTime)
        2_[2-19%2]     batch      arr     root PD       0:00      1 (JobArrayTaskLimit)
                 7     batch    crash     root PD       0:00      1 (Priority)
                 4     batch      dep     root PD       0:00      1 (Dependency)
                 3     batch      big     root PD       0:00      8 (Resources)
                 5     batch     held     root PD       0:00      1 (JobHeldUser)
                 1     batch   envjob     root  R       0:03      2 n[1-2]
"""
)
LONG = """\
Sat Nov 21 08:39:08 2026
             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)
                 6     batch    later     root  PENDING       0:00     30:00      1 (BeginTime)
        2_[2-19%2]     batch      arr     root  PENDING       0:00      5:00      1 (JobArrayTaskLimit)
                 7     batch    crash     root  PENDING       0:00     30:00      1 (Priority)
                 4     batch      dep     root  PENDING       0:00     30:00      1 (Dependency)
                 3     batch      big     root  PENDING       0:00   2:00:00      8 (Resources)
                 5     batch     held     root  PENDING       0:00     30:00      1 (JobHeldUser)
                 1     batch   envjob     root  RUNNING       0:03     10:00      2 n[1-2]
"""
NAMED_HEADER = (
    "JOBID               ARRAY_JOB_ID        NAME                STATE               "
    "REASON              TRES_ALLOC          NODELIST            "
)
NAMED_ROWS = [
    "3                   3                   big                 PENDING             "
    "Resources           cpu=8,mem=500G,node=                    ",
    "5                   5                   held                PENDING             "
    "JobHeldUser         cpu=1,mem=62.50G,nod                    ",
    "1                   1                   envjob              RUNNING             "
    "None                cpu=8,node=2,billingn[1-2]              ",
]
START = """\
             JOBID PARTITION     NAME     USER ST          START_TIME  NODES SCHEDNODES           \
NODELIST(REASON)
                 6     batch    later     root PD 2026-11-21T09:39:04      1 (null)               (BeginTime)
                 3     batch      big     root PD                 N/A      8 (null)               (Resources)
"""
UNKNOWN_STATE = """\
squeue: error: Invalid job state specified: BOGUS
squeue: error: Valid job states include: PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,\
NODE_FAIL,PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY,COMPLETING,CONFIGURING,RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,\
REQUEUE_HOLD,REVOKED,SIGNALING,SPECIAL_EXIT,STAGE_OUT,STOPPED

"""


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> RecordedController:
    for name in [name for name in os.environ if name.startswith(("SQUEUE_", "SLURM_"))]:
        monkeypatch.delenv(name)
    recorded = RecordedController()
    monkeypatch.setattr(connection, "connect", lambda: recorded)
    monkeypatch.setattr(time, "time", lambda: NOW)
    return recorded


def _squeue(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str, int]:
    exit_code = squeue.APPLICATION.main(words)
    captured = capsys.readouterr()
    return captured.out, captured.err, exit_code


def _cells(text: str, *words: str, views: list[JobView] | None = None) -> list[str]:
    """The rows that ``squeue -h -o text words`` shows of `views`."""
    values = squeue.Values()
    squeue.APPLICATION.apply(values, squeue.APPLICATION.parse(["-h", "-o", text, *words]).occurrences)
    views = recorded_jobs() if views is None else views
    return squeue.job_lines(values, job_rows(views, NOW, convert=not values.no_convert))


def test_default_listing(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    assert _squeue(capsys) == (DEFAULT, "", 0)
    assert _squeue(capsys, "-h")[0] == DEFAULT.removeprefix(HEADER)
    assert _squeue(capsys, "-l")[0] == LONG
    assert _squeue(capsys, "-l", "-h")[0] == LONG.split("\n", 2)[2]


def test_named_columns(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    out, _, _ = _squeue(capsys, "-O", "jobid,arrayjobid,name,state,reason,tres-alloc,nodelist", "-j", "1,3,5")
    assert out.splitlines() == [NAMED_HEADER, *NAMED_ROWS]


def test_start(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    assert _squeue(capsys, "--start", "-n", "big,later,envjob")[0] == START


def test_array_is_one_row_until_expanded() -> None:
    rest = [array_rest_view(pending_tasks=[4, 6, 8])]
    assert _cells("%i|%A|%F|%K", views=rest) == ["2_[4,6,8%2]|2|2|4,6,8%2"]
    assert _cells("%i|%A|%F|%K", "-r", views=rest) == ["2_4|2|2|4", "2_6|2|2|6", "2_8|2|2|8"]
    assert _cells("%i", "-j", "2_4", views=rest) == ["2_4"]
    assert _cells("%i", "-j", "2_[4,8]", views=rest) == ["2_[4,8%2]"]
    assert _cells("%i", "-j", "2_9", views=rest) == []


def test_started_tasks_have_ids_of_their_own() -> None:
    task = running_view(id=JobId(9), array_job_id=JobId(2), array_task_id=1)
    views = [task, array_rest_view()]
    assert _cells("%i|%A|%F|%K", views=views) == ["2_[2-19%2]|2|2|2-19%2", "2_1|9|2|1"]
    assert _cells("%i", "-j", "2_1", views=views) == ["2_1"]
    assert _cells("%i", "-j", "9", views=views) == ["2_1"]
    assert _cells("%i", "-j", "2", views=views) == ["2_[2-19%2]", "2_1"]


def test_a_long_task_list_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = [array_rest_view(pending_tasks=list(range(0, 200, 2)), array_limit=0)]
    (cut,) = _cells("%K", views=rest)
    assert len(cut) == 63
    assert cut.endswith("...")
    monkeypatch.setenv("SLURM_BITSTR_LEN", "0")
    assert _cells("%K", views=rest) == [",".join(map(str, range(0, 200, 2)))]


def test_ended_jobs() -> None:
    views = [
        a_job_view(
            29, "true", state=JobState.CANCELLED, reason="PartitionTimeLimit", end_time=at("08:39:06")
        ),
        ended_view(48, JobState.COMPLETED),
        ended_view(46, JobState.FAILED, Reason.NON_ZERO_EXIT),
        ended_view(47, JobState.TIMEOUT, Reason.TIME_LIMIT, end_time=at("08:39:07")),
        running_view(),
    ]
    assert _cells("%i|%t|%M|%N|%R|%r", "-t", "all", views=views) == [
        "29|CA|0:00|||PartitionTimeLimit",
        "48|CD|0:00|n1|n1|None",
        "46|F|0:00|n1|(NonZeroExitCode)|NonZeroExitCode",
        "1|R|0:03|n[1-2]|n[1-2]|None",
        "47|TO|0:02|n1|(TimeLimit)|TimeLimit",
    ]
    assert _cells("%i", "-t", "cd,Failed", views=views) == ["48", "46"]
    assert _cells("%i", views=views) == ["1"]
    # A job that never ran started, for Slurm, when it ended.
    assert _cells("%S|%e", "-t", "CA", views=views) == ["2026-11-21T08:39:06|2026-11-21T08:39:06"]


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ("%a|%u|%U|%g|%G|%q", "root|root|0|root|0|normal"),
        ("%C|%D|%c|%m|%b|%h", "8|2|2|0|gres:gpu:2|OK"),
        ("%j|%k|%P|%y|%Q|%p", "envjob|hello|batch|0|1|0.00000000023283"),
        ("%l|%L|%M|%S|%e|%V", "10:00|9:57|0:03|2026-11-21T08:39:05|2026-11-21T08:49:05|2026-11-21T08:39:04"),
        ("%t|%T|%r|%R|%N|%B", "R|RUNNING|None|n[1-2]|n[1-2]|n1"),
        ("%E|%K|%o|%Z|%Y", "(null)|N/A|/home/alice/run/envjob.sh|/home/alice/run|(null)"),
        ("%n|%x|%f|%v|%w|%W", "||(null)|(null)|(null)|(null)"),
        ("%H|%I|%J|%z|%X|%d|%O", "*|*|*|*:*:*|N/A|0|0"),
    ],
)
def test_letters_of_a_running_job(columns: str, row: str) -> None:
    assert _cells(columns, views=[running_view()]) == [row]


def test_pending_times() -> None:
    later = a_job_view(1, view={"start_estimate": at("09:00:00"), "planned_nodes": (NodeName("n4"),)})
    assert _cells("%S|%e|%Y|%B", views=[later]) == ["2026-11-21T09:00:00|2026-11-21T09:30:00|n4|n/a"]
    unlimited = running_view(time_limit_s=0.0)
    assert _cells("%l|%L|%e", views=[unlimited]) == ["UNLIMITED|UNLIMITED|N/A"]


def test_elapsed_time_is_never_negative() -> None:
    assert _cells("%M", views=[running_view(start_time=NOW + 5)]) == ["0:00"]


def test_memory_keeps_its_unit_when_told() -> None:
    per_cpu = a_job_view(1, request={"memory_per_node_mib": 0, "memory_per_cpu_mib": 1500})
    assert _cells("%m", views=[per_cpu]) == ["1500M"]
    assert _cells("%m", views=[a_job_view(1)]) == ["62.50G"]
    assert _cells("%m", "--noconvert", views=[a_job_view(1)]) == ["64000M"]


def test_dependencies_with_their_state() -> None:
    assert _cells("%E", "-j", "4") == ["afterok:3(unfulfilled)"]


def test_a_reason_has_no_blanks_and_a_name_no_newline() -> None:
    view = a_job_view(1, "a\nb", reason="job requeued in held state")
    assert _cells("%j|%r|%R", views=[view]) == [
        "a\\nb|job_requeued_in_held_state|(job_requeued_in_held_state)"
    ]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["-p", "nosuch"], []),
        (["-p", "batch,x", "-n", "big,dep"], ["4", "3"]),
        (["-A", "root", "-t", "R"], ["1"]),
        (["-A", "other"], []),
        (["-q", "normal", "-t", "r"], ["1"]),
        (["-u", "0", "-t", "R"], ["1"]),
        (["-w", "n[2-3]"], ["1"]),
        (["-w", "n3"], []),
        (["-t", "RESIZING"], []),
        (["-t", "", "-j", "", "-n", "big"], ["3"]),
        (["-S", "-i", "-n", "big,dep,held"], ["5", "4", "3"]),
        (["-S", "j", "-n", "big,dep,held"], ["3", "4", "5"]),
    ],
)
def test_filters_and_order(words: list[str], ids: list[str]) -> None:
    assert _cells("%i", *words) == ids


def test_steps(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    started = at("08:39:05")
    steps = {
        BATCH_STEP: Step(BATCH_STEP, "batch", (NodeName("n1"),), start_time=started),
        StepId(0): Step(StepId(0), "hostname", (NodeName("n1"), NodeName("n2")), 4, start_time=started),
        StepId(1): Step(StepId(1), "over", (NodeName("n1"),), start_time=started, end_time=NOW),
    }
    controller.jobs = [running_view(steps=steps)]
    header = "         STEPID     NAME PARTITION     USER      TIME NODELIST\n"
    batch = "        1.batch    batch     batch     root      0:03 n1\n"
    first = "            1.0 hostname     batch     root      0:03 n[1-2]\n"
    assert _squeue(capsys, "-s") == (header + batch + first, "", 0)
    assert _squeue(capsys, "-s", "1.0")[0] == header + first
    assert _squeue(capsys, "--steps=1.batch", "-h")[0] == batch
    assert _squeue(capsys, "-s", "-h", "-o", "%i %A %U %l")[0] == "1.batch 1 0 UNLIMITED\n1.0 4 0 UNLIMITED\n"
    assert _squeue(capsys, "-s", "x")[1:] == ("squeue: error: Invalid job_step id: x\n", 1)


def test_the_script_of_a_running_job_is_a_step(
    controller: RecordedController, capsys: pytest.CaptureFixture[str]
) -> None:
    task = running_view(id=JobId(9), array_job_id=JobId(2), array_task_id=1)
    allocation = running_view(id=JobId(10), spec={"is_batch": False})
    controller.jobs = [task, allocation, array_rest_view(), ended_view(8, JobState.COMPLETED)]
    assert _squeue(capsys, "-s", "-h", "-o", "%i %N %M")[0] == "2_1.batch n1 0:03\n"


@pytest.mark.parametrize(
    ("words", "out", "error", "exit_code"),
    [
        (["-j", "999999"], "", "slurm_load_jobs error: Invalid job id specified\n", 1),
        (["-t", "all", "-j", "999999"], "", "slurm_load_jobs error: Invalid job id specified\n", 1),
        (["-j", "999998,999999"], HEADER, "", 0),
        (["-j", "abc"], "", "squeue: error: Invalid job id: abc\n", 1),
        (["-j", "1,abc"], "", "squeue: error: Invalid job id: abc\n", 1),
        (["-u", "nosuchuser"], HEADER, "squeue: error: Invalid user: nosuchuser\n\n", 0),
        (["-p", "nosuch"], HEADER, "", 0),
        (["-w", "nosuch"], "", "squeue: error: Invalid node name nosuch\n", 1),
        (["-t", "BOGUS"], "", UNKNOWN_STATE, 1),
        (["-S", "P,!"], "", "squeue: error: Invalid sort specification: !\n", 1),
        (["-i", "0"], "", "squeue: error: --iterate=0\n", 1),
        (["--json"], "", "squeue: error: --json is not supported by minislurm\n", 1),
        (["-M", "other"], "", "squeue: error: --clusters is not supported by minislurm\n", 1),
        (
            ["--bogus"],
            "",
            "squeue: unrecognized option '--bogus'\nTry \"squeue --help\" for more information\n",
            1,
        ),
        (
            ["-o", "%!", "-j", "1,3"],
            "%!\n%!\n%!\n",
            "squeue: error: Invalid job format specification: !\n",
            0,
        ),
    ],
)
def test_errors(
    controller: RecordedController,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    out: str,
    error: str,
    exit_code: int,
) -> None:
    assert _squeue(capsys, *words) == (out, error, exit_code)


def test_an_ended_job_that_is_kept_is_no_error(
    controller: RecordedController, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.jobs = [ended_view(9, JobState.COMPLETED)]
    assert _squeue(capsys, "-j", "9") == (HEADER, "", 0)
    assert _squeue(capsys, "-h", "-t", "all", "-j", "9", "-o", "%i %t") == ("9 CD\n", "", 0)


def test_controller_away(
    controller: RecordedController, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(query: JobQuery) -> list[JobView]:
        raise ControllerUnavailable

    monkeypatch.setattr(controller, "list_jobs", fail)
    message = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    assert _squeue(capsys) == ("", message, 1)


def test_environment(
    controller: RecordedController, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%i %t")
    monkeypatch.setenv("SQUEUE_STATES", "R")
    monkeypatch.setenv("SQUEUE_ARRAY", "1")
    assert _squeue(capsys, "-h")[0] == "1 R\n"
    assert _squeue(capsys, "-h", "-o", "%j", "-t", "PD", "-j", "2_5")[0] == "arr\n"


def test_me(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    mine = a_job_view(20, spec={"user_id": os.getuid() + 1, "user_name": "somebody"})
    other = a_job_view(21, spec={"user_id": os.getuid(), "user_name": "me"})
    controller.jobs = [mine, other]
    assert _squeue(capsys, "--me", "-h", "-o", "%i")[0] == "21\n"
    # A user without an account on this host is known by the jobs.
    assert _squeue(capsys, "-u", "somebody", "-h", "-o", "%i") == ("20\n", "", 0)


def test_two_nodes_with_different_parts() -> None:
    view = running_view(allocation=(part("n9", range(4)), part("n10", range(4)), part("n12", range(4))))
    assert _cells("%N|%C|%D", views=[view]) == ["n[9-10,12]|12|3"]


def test_components_of_a_heterogeneous_job(
    controller: RecordedController, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.jobs = [*recorded_jobs(), *het_views()]
    for ids in ("20", "21", "20+1", "20,21"):
        rows = _squeue(capsys, "-h", "-o", "%i|%A|%N", "-j", ids)[0].split()
        assert rows == ["20+0|20|n1", "20+1|21|n[2-3]"]
    named = _squeue(capsys, "-h", "-j", "21", "-O", "HetJobId:4,HetJobOffset:4,HetJobIdSet:6,JobArrayID:6")[0]
    assert named.split() == ["20", "0", "20-21", "20+0", "20", "1", "20-21", "20+1"]
    plain = _squeue(capsys, "-h", "-j", "1", "-O", "HetJobId:4,HetJobOffset:4,HetJobIdSet:6")[0]
    assert plain.split() == ["N/A", "N/A", "N/A"]
    assert _squeue(capsys, "-h", "-s", "-o", "%i")[0].split()[-1] == "20+0.batch"
    assert _squeue(capsys, "-h", "-s", "20+0", "-o", "%i")[0].split() == ["20+0.batch"]
    assert _squeue(capsys, "-h", "-s", "20+1", "-o", "%i")[0].split() == []
