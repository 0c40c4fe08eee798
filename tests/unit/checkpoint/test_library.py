"""What a training script calls, against a node daemon's socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minislurm import checkpoint
from minislurm.checkpoint import notices, reports, saving
from minislurm.checkpoint.place import REPORTS, RUN, SOCKET
from tests.unit.checkpoint.daemon_double import DaemonDouble, until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has just imported the library, outside of any job."""
    for name in list(os.environ):
        if name.startswith("MINISLURM_"):
            monkeypatch.delenv(name)
    fresh_notices = notices.Notices()
    for module in (notices, reports, saving):
        monkeypatch.setattr(module, "NOTICES", fresh_notices)
    monkeypatch.setattr(reports._Last, "step", -1)
    monkeypatch.setattr(reports._Last, "time", time.monotonic())


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonDouble]:
    (tmp_path / "reports").mkdir()
    monkeypatch.setenv(RUN, "12.3")
    monkeypatch.setenv(SOCKET, str(tmp_path / "d.sock"))
    monkeypatch.setenv(REPORTS, str(tmp_path / "reports"))
    with DaemonDouble(tmp_path / "d.sock") as double:
        yield double


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt"
    path.write_text("weights")
    return path


def left(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "reports").iterdir())


# Outside of minislurm


def test_outside_of_a_job_it_does_nothing_and_says_nothing(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert checkpoint.latest() is None
    assert checkpoint.report(model, step=1) is False
    assert checkpoint.should_stop() is False
    assert checkpoint.is_wanted() is False
    checkpoint.on_preempt(lambda reason, left: pytest.fail("called"))
    assert not notices.NOTICES.is_listening
    assert caplog.records == []


def test_it_saves_by_steps_outside_as_well(model: Path) -> None:
    saver = checkpoint.save_every(steps=3)
    due = []
    for step in range(1, 11):
        if saver.due(step):
            due.append(step)
            checkpoint.report(model, step=step)
    assert due == [3, 6, 9]


def test_importing_it_is_cheap_and_starts_nothing() -> None:
    script = (
        "import sys, threading; before = set(sys.modules); import minislurm.checkpoint;"
        "new = {m.split('.')[0] for m in set(sys.modules) - before};"
        "print(threading.active_count(), sorted(new & {'msgspec', 'grpc', 'asyncio', 'ctypes', 'logging'}))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], cwd=ROOT, env={}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1 []"


# Reporting


def test_a_report_says_what_is_known(daemon: DaemonDouble, tmp_path: Path) -> None:
    folder = tmp_path / "step5"
    folder.mkdir()
    (folder / "a").write_text("abc")
    (folder / "b").write_text("defgh")
    os.utime(folder / "a", (1, 1000.5))
    os.utime(folder / "b", (1, 900))
    assert checkpoint.report(folder, step=5, epoch=1, metadata={"loss": 0.25}, duration_s=2.0)
    (heard,) = daemon.reports(1)
    report = heard["report"]
    assert abs(report.pop("time") - time.time()) < 60
    assert report == {
        "path": str(folder), "step": 5, "epoch": 1, "metadata": {"loss": "0.25"},
        "size_bytes": 8, "modified": 1000.5, "duration_s": 2.0,
    }  # fmt: skip
    assert "request" not in heard, "it has not asked, so it does not know"
    assert daemon.hellos == [{"job": 12, "run": 3, "listen": False}]


def test_a_relative_path_is_made_absolute(
    daemon: DaemonDouble, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    assert checkpoint.report("model.pt")
    assert daemon.reports(1)[0]["report"]["path"] == str(model)


@pytest.mark.parametrize(
    ("path", "says"), [("/no/such", "No such file"), ("s3://bucket/x", "object stores are not supported")]
)
def test_what_cannot_be_is_logged_and_raises_nothing(
    daemon: DaemonDouble, path: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert checkpoint.report(path) is False
    assert says in caplog.text
    assert daemon.heard.empty()


def test_a_refusal_is_logged(daemon: DaemonDouble, model: Path, caplog: pytest.LogCaptureFixture) -> None:
    daemon.refuses = "not yours"
    assert checkpoint.report(model) is False
    assert "not yours" in caplog.text


@pytest.mark.parametrize("way", ["away", "dumb"])
def test_a_report_without_a_daemon_is_kept_on_disk(
    daemon: DaemonDouble, tmp_path: Path, model: Path, way: str
) -> None:
    if way == "away":
        daemon.stop()
    daemon.is_dumb = True
    assert checkpoint.report(model, step=9)
    (path,) = left(tmp_path)
    assert path.suffix == ".json"
    assert json.loads(path.read_text())["report"]["step"] == 9


def test_without_daemon_and_disk_it_says_so(
    daemon: DaemonDouble, model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.stop()
    monkeypatch.setenv(REPORTS, "/no/such/folder")
    assert checkpoint.report(model) is False
    assert "is not reported" in caplog.text


def test_a_socket_may_lie_deep(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setenv(RUN, "12.3")
    monkeypatch.setenv(SOCKET, str(deep / "d.sock"))
    with DaemonDouble(deep / "d.sock") as double:
        assert checkpoint.report(model)
        assert double.reports(1)


# The one to start from


def test_latest_is_what_was_reported_else_what_the_run_started_from(
    daemon: DaemonDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checkpoint.latest() is None
    monkeypatch.setenv("MINISLURM_CHECKPOINT_PATH", "/c/old")
    monkeypatch.setenv("MINISLURM_CHECKPOINT_STEP", "7")
    assert checkpoint.latest() == checkpoint.Latest("/c/old", 7, -1, {})
    daemon.latest = {"path": "/c/new", "step": 9, "epoch": 2, "metadata": {"a": "b"}}
    assert checkpoint.latest() == checkpoint.Latest("/c/new", 9, 2, {"a": "b"})
    daemon.stop()
    assert checkpoint.latest() == checkpoint.Latest("/c/old", 7, -1, {})


# What is wanted


def test_should_stop_when_the_run_has_to_give_way(daemon: DaemonDouble, model: Path) -> None:
    assert checkpoint.should_stop() is False
    daemon.wait_listener()
    daemon.ask(1.5, "user", None)
    until(checkpoint.is_wanted)
    assert checkpoint.should_stop() is False
    daemon.ask(2.5, "preempt", 30.0)
    until(checkpoint.should_stop)
    checkpoint.report(model)
    assert daemon.reports(1)[0]["request"] == 2.5
    assert checkpoint.should_stop(), "until the run is ended"
    daemon.withdraw()
    until(lambda: not checkpoint.should_stop())


def test_a_checkpoint_made_before_the_script_knew_is_no_answer(daemon: DaemonDouble, model: Path) -> None:
    checkpoint.should_stop()
    daemon.wait_listener()
    daemon.ask(2.5)
    until(lambda: notices.NOTICES.request)
    checkpoint.report(model)
    assert daemon.reports(1)[0]["request"] == 0.0
    assert checkpoint.should_stop()
    checkpoint.report(model)
    assert daemon.reports(1)[0]["request"] == 2.5


@pytest.mark.parametrize(("asks_first", "answers"), [(True, 0.0), (False, 2.5)])
def test_the_last_checkpoint_is_the_one_after_which_no_step_follows(
    daemon: DaemonDouble, model: Path, asks_first: bool, answers: float
) -> None:
    """Whoever was told to go on goes on: what it saves in that step it will save again in the next."""
    saver = checkpoint.save_every(steps=1000)
    assert not saver.due(1)
    daemon.wait_listener()
    if asks_first:
        assert not checkpoint.should_stop()
    daemon.ask(2.5)
    until(lambda: notices.NOTICES.request)
    assert saver.due(2)
    checkpoint.report(model, step=2)
    assert daemon.reports(1)[0]["request"] == answers
    assert checkpoint.should_stop()
    checkpoint.report(model, step=3)
    assert daemon.reports(1)[0]["request"] == 2.5


def test_an_answered_wish_is_over(daemon: DaemonDouble, model: Path) -> None:
    saver = checkpoint.save_every(steps=1000)
    assert not saver.due(1)
    daemon.wait_listener()
    daemon.ask(1.5, "user", None)
    until(lambda: saver.due(2))
    checkpoint.report(model, step=2)
    assert not checkpoint.is_wanted()
    assert not saver.due(3)
    assert daemon.reports(1)[0]["report"]["duration_s"] > 0


def test_a_callback_hears_reason_and_time_once(daemon: DaemonDouble) -> None:
    heard: list[tuple[str, float]] = []

    def failing(reason: str, left: float) -> None:
        raise RuntimeError("a script's fault")

    checkpoint.on_preempt(failing)
    checkpoint.on_preempt(lambda reason, left: heard.append((reason, left)))
    daemon.wait_listener()
    daemon.ask(1.0, "user", None)
    daemon.ask(2.5, "preempt", 30.0)
    daemon.ask(2.5, "preempt", 29.0)
    until(lambda: heard)
    daemon.withdraw()
    until(lambda: not checkpoint.should_stop())
    assert len(heard) == 1
    assert heard[0][0] == "preempt"
    assert 25 < heard[0][1] <= 30
    daemon.ask(3.5, "time_slice", 5.0)
    until(lambda: len(heard) == 2)


def test_a_callback_that_comes_late_is_told_at_once(daemon: DaemonDouble) -> None:
    checkpoint.should_stop()
    daemon.wait_listener()
    daemon.ask(2.5)
    until(checkpoint.should_stop)
    heard: list[str] = []
    checkpoint.on_preempt(lambda reason, left: heard.append(reason))
    assert heard == ["preempt"]


def test_it_finds_a_daemon_that_was_restarted(daemon: DaemonDouble) -> None:
    checkpoint.should_stop()
    daemon.wait_listener()
    daemon.stop()
    daemon.asked = {"request": 4.0, "reason": "preempt", "seconds_left": 9.0}
    daemon.start()
    until(checkpoint.should_stop)


def test_a_forked_child_is_safe_and_may_ask_for_itself(daemon: DaemonDouble, model: Path) -> None:
    checkpoint.should_stop()
    daemon.wait_listener()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            line_is_gone = notices.NOTICES._line is None and not notices.NOTICES.is_listening
            code = 0 if line_is_gone and checkpoint.report(model, step=4) else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert daemon.reports(1)[0]["report"]["step"] == 4
    daemon.ask(2.5)
    until(checkpoint.should_stop)  # the parent's line was not the child's to close


def test_a_question_is_a_look_at_what_is_known(daemon: DaemonDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.should_stop()
    daemon.wait_listener()
    monkeypatch.setattr(notices, "place", lambda: pytest.fail("the environment is read again"))
    assert not any(checkpoint.should_stop() or checkpoint.is_wanted() for _ in range(1000))


# When


def test_save_every_so_long(daemon: DaemonDouble, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(reports._Last, "time", now)
    monkeypatch.setenv("MINISLURM_CHECKPOINT_INTERVAL", "60")
    saver = checkpoint.save_every()
    now = 1059.0
    assert not saver.due()
    now = 1060.0
    assert saver.due()
    checkpoint.report(model)
    assert not saver.due()
    now = 1121.0
    assert saver.due()


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"seconds": -1.0}])
def test_never_is_no_interval(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="save_every"):
        checkpoint.save_every(**wrong)  # type: ignore[arg-type]
