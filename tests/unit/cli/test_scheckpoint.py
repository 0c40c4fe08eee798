"""scheckpoint's words, and what the other commands say of checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from minislurm.cli import scheckpoint
from minislurm.cli.job_options import JobOptions
from minislurm.cli.job_request import Program, make_submission
from minislurm.cli.job_row import job_rows
from minislurm.cli.option import OptionError, set_value
from minislurm.cli.options import options_of, set_from_environment
from minislurm.cli.show_job import job_text
from minislurm.domain.checkpoint import Checkpoint, CheckpointSignal
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import UsageError
from minislurm.domain.ids import JobId, RunNumber
from minislurm.domain.job import Job
from minislurm.domain.memory import format_size
from minislurm.domain.states import JobState
from minislurm.domain.views import JobView
from tests.builders import a_spec
from tests.unit.checkpoint.daemon_double import DaemonDouble

MADE = Checkpoint(
    RunNumber(2), "/c/step7", step=7, size_bytes=3 * 2**30, duration_s=2.5, time=1.7e9, reason="user"
)


def run(*words: str) -> int:
    return scheckpoint.APPLICATION.main(list(words))


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DaemonDouble:
    monkeypatch.setenv("MINISLURM_RUN", "12.3")
    monkeypatch.setenv("MINISLURM_CHECKPOINT_SOCKET", str(tmp_path / "d.sock"))
    monkeypatch.delenv("MINISLURM_CHECKPOINT_REPORTS", raising=False)
    monkeypatch.delenv("MINISLURM_CHECKPOINT_PATH", raising=False)
    return DaemonDouble(tmp_path / "d.sock")


def test_it_reports_from_a_script(daemon: DaemonDouble, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("12345")
    with daemon:
        words = ("report", str(tmp_path / "model"), "--step=7", "-e", "2", "-m", "loss=0.5", "-m", "lr=1")
        assert run(*words) == 0
        (heard,) = daemon.reports(1)
    report = heard["report"]
    assert (report["step"], report["epoch"], report["size_bytes"]) == (7, 2, 5)
    assert report["metadata"] == {"loss": "0.5", "lr": "1"}
    assert "request" not in heard


def test_latest_prints_the_path_or_says_no(daemon: DaemonDouble, capsys: pytest.CaptureFixture[str]) -> None:
    with daemon:
        assert run("latest") == 1
        assert capsys.readouterr().out == ""
        daemon.latest = {"path": "/c/x y", "step": 7, "epoch": -1, "metadata": {"a": "b"}}
        assert run("latest") == 0
        assert capsys.readouterr().out == "/c/x y\n"
        assert run("latest", "--json") == 0
        assert json.loads(capsys.readouterr().out) == daemon.latest


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "what is wanted"),
        (("frobnicate",), "none of report, latest, list, request"),
        (("report",), "the path of one checkpoint"),
        (("report", "a", "b"), "the path of one checkpoint"),
        (("report", "a", "--step=-1"), "Invalid numeric value"),
        (("report", "a", "--metadata=x"), "not NAME=VALUE"),
        (("latest", "12"), "of the job around it"),
        (("list",), "one job id"),
        (("list", "x"), "Invalid job id"),
        (("request", "12.0"), "Invalid job id"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert run(*words) == 1
    assert says in capsys.readouterr().err


def test_outside_of_a_job_a_report_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MINISLURM_CHECKPOINT_SOCKET", raising=False)
    assert run("report", str(tmp_path)) == 1
    assert "this is no job of minislurm's" in capsys.readouterr().err


# Options


def options(**given: str) -> JobOptions:
    values = JobOptions()
    by_name = {option.name: option for option in options_of("sbatch")}
    for name, text in given.items():
        set_value(values, by_name["checkpoint-" + name.replace("_", "-")], text)
    return values


def test_options_reach_the_specification() -> None:
    given = options(
        dir="ckpt-%j", interval="30", signal="SIGUSR1@90", keep="3", restart_time="2:30", command="./save"
    )
    spec = make_submission(given, Program("job", b"#!/bin/sh\n"), Configuration(), command="sbatch").spec
    assert spec.checkpoint_dir == "ckpt-%j"
    assert spec.checkpoint_interval_s == 1800
    assert spec.checkpoint_signal == CheckpointSignal(10, 90)
    assert (spec.checkpoint_keep, spec.checkpoint_restart_s) == (3, 150)
    assert spec.checkpoint_command == "./save"


def test_options_come_from_the_environment_too() -> None:
    values = JobOptions()
    given = {"SBATCH_CHECKPOINT_SIGNAL": "B:12", "SBATCH_CHECKPOINT_DIR": "c"}
    set_from_environment(values, "sbatch", given)
    assert values.checkpoint_signal == CheckpointSignal(12, to_shells=True)
    assert values.checkpoint_dir == "c"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("signal", "KILL"), ("signal", "NOPE"), ("signal", "USR1@"), ("signal", "USR1@soon"), ("signal", "R:USR1"), ("interval", "0"),
        ("interval", "UNLIMITED"), ("keep", "0"), ("restart_time", "UNLIMITED"), ("dir", ""),
        ("dir", "s3://bucket/x"),
    ],
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(name: str, text: str) -> None:
    with pytest.raises(OptionError):
        options(**{name: text})


def test_deleting_needs_a_folder_to_delete_in() -> None:
    program = Program("job", b"#!/bin/sh\n")
    with pytest.raises(UsageError, match="--checkpoint-dir"):
        make_submission(options(keep="2"), program, Configuration(), command="sbatch")


# What is shown


def shown(**changes: object) -> str:
    job = Job(JobId(12), a_spec(), state=JobState.RUNNING)
    (row,) = job_rows([JobView(replace(job, **changes))], 1.7e9)
    return job_text(row)


def test_a_job_without_any_of_it_is_shown_as_ever() -> None:
    assert "Checkpoint" not in shown()


def test_the_last_checkpoint_is_shown() -> None:
    text = shown(checkpoints=(replace(MADE, path="/c/old"), MADE))
    assert "   Checkpoint=/c/step7 CheckpointStep=7 CheckpointTime=" in text
    assert "CheckpointRun=2 CheckpointSize=3G" in text
    assert "/c/old" not in text


def test_a_request_and_the_options_are_shown() -> None:
    spec = a_spec(checkpoint_signal=CheckpointSignal(10, 90.0), checkpoint_dir="c", checkpoint_keep=2)
    text = shown(spec=spec, checkpoint_requested=1.7e9, checkpoint_reason="user")
    assert "CheckpointReason=user CheckpointDeadline=None" in text
    assert "CheckpointDir=c CheckpointInterval=None CheckpointSignal=USR1@90 CheckpointKeep=2" in text


def test_a_listed_row() -> None:
    row = scheckpoint._row(Job(JobId(12), a_spec()), MADE)
    assert row[:6] == (12, 2, 7, "-", "3G", "2.5")
    assert row[7:] == ("user", "/c/step7")


def test_sizes() -> None:
    sizes = [0, 999, 1000, 1536, 20 * 2**20, int(3.25 * 2**30)]
    assert [format_size(size) for size in sizes] == ["0B", "999B", "0.977K", "1.5K", "20M", "3.25G"]
