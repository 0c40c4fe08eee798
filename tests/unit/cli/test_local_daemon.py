"""Background processes: found again, ended, and never taken for another's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minislurm.cli.local_daemon import Daemon, end, follow

DEADLINE_S = 10.0


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A daemon's module: says that it is ready, then waits to be ended; "stubborn" ignores SIGTERM."""
    (tmp_path / "a_daemon.py").write_text(
        "import signal, sys, time\n"
        "if 'stubborn' in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\n"
        "if 'short' not in sys.argv: time.sleep(60)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "a_daemon"


@pytest.fixture
def daemon(tmp_path: Path, module: str) -> Iterator[Daemon]:
    made = a_daemon(tmp_path, module)
    yield made
    end([made], 1.0)


def a_daemon(folder: Path, *arguments: str) -> Daemon:
    return Daemon("d", arguments, folder / "d.json", folder / "d.log")


def until(condition: object) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_it_is_started_detached_and_found_again(daemon: Daemon) -> None:
    assert daemon.pid() is None
    pid = daemon.start()
    assert daemon.pid() == pid
    assert os.getsid(pid) == pid, "it must not die with our terminal"
    assert Daemon("d", (), daemon.record_path, daemon.log_path).pid() == pid
    until(lambda: daemon.log_tail() == ["ready"])
    assert daemon.log_path.stat().st_mode & 0o777 == 0o600


def test_end_ends_it_and_forgets_it(daemon: Daemon) -> None:
    pid = daemon.start()
    assert end([daemon]) == []
    assert daemon.pid() is None
    assert not daemon.record_path.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_ignores_the_request_is_killed_and_named(tmp_path: Path, module: str) -> None:
    stubborn = a_daemon(tmp_path, module, "stubborn")
    stubborn.start()
    until(lambda: stubborn.log_tail() == ["ready"])
    assert end([stubborn], 0.2) == [stubborn]
    assert stubborn.pid() is None


def test_one_that_ended_by_itself_does_not_run(tmp_path: Path, module: str) -> None:
    short = a_daemon(tmp_path, module, "short")
    short.start()
    until(lambda: short.pid() is None)
    assert short.record_path.exists()
    assert end([short]) == []


@pytest.mark.parametrize("change", [{"start_time": 1}, {"boot": "another"}, {"pid": None}])
def test_a_pid_that_is_somebody_elses_now_is_left_alone(daemon: Daemon, change: dict[str, object]) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        try:
            ours = daemon.start()
            record = json.loads(daemon.record_path.read_text())
            os.kill(ours, signal.SIGKILL)
            until(lambda: daemon.pid() is None)
            # The kernel gives the pid to another process, which has another start time.
            daemon.record_path.write_text(json.dumps({**record, "pid": stranger.pid, **change}))
            assert daemon.pid() is None
            assert end([daemon], 0.2) == []
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_broken_record_is_no_process(daemon: Daemon) -> None:
    for text in ("", "{", "[]", "{}", '{"pid": "x", "start_time": 1, "boot": ""}'):
        daemon.record_path.write_text(text)
        assert daemon.pid() is None


def test_the_job_we_run_in_is_not_its_environment(
    tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("MINISLURM_CONF", "/other.toml")
    monkeypatch.setenv("KEPT", "yes")
    daemon = a_daemon(tmp_path, module)
    pid = daemon.start()
    try:
        until(lambda: daemon.log_tail() == ["ready"])
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"KEPT=yes" in environment
        assert b"SLURM_JOB_ID" not in environment
        assert b"MINISLURM_CONF" not in environment
    finally:
        end([daemon], 1.0)


def test_a_long_log_is_set_aside(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minislurm.cli.local_daemon.LARGEST_LOG_BYTES", 10)
    daemon.log_path.write_text("a long story\n")
    daemon.start()
    until(lambda: daemon.log_tail() == ["ready"])
    assert Path(f"{daemon.log_path}.1").read_text() == "a long story\n"


def test_follow_shows_the_end_and_what_is_added(daemon: Daemon) -> None:
    daemon.log_path.write_text("one\ntwo\nthree\n")
    assert [line for _, line in follow([daemon], 2, keep_on=False)] == ["two", "three"]
    lines = follow([daemon], 1, keep_on=True)
    iterator = iter(lines)
    assert next(iterator)[1] == "three"
    with daemon.log_path.open("a") as file:
        file.write("four\nhalf of ")
    assert next(iterator)[1] == "four"
    with daemon.log_path.open("a") as file:
        file.write("five\n")
    assert next(iterator)[1] == "half of five"
    daemon.log_path.write_text("new\n")
    assert next(iterator)[1] == "new"
