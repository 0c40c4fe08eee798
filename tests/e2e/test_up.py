"""`minislurm up` and its sisters, with real daemons on loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minislurm.domain.configuration_file import load
from minislurm.domain.ids import JobId
from minislurm.domain.states import JobState
from minislurm.domain.views import JobQuery, JobView, Submission
from minislurm.rpc.client import ControllerClient
from tests.builders import a_spec

pytestmark = pytest.mark.e2e

NOBODY = 65534
QUICK = ("--set", "timers.kill_wait_s=1", "--set", "timers.reconnect_interval_s=0.1")


class Shell:
    """Runs `minislurm` for the cluster in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, command: str, *arguments: str, code: int = 0) -> str:
        """Standard output; both streams where the command is expected to fail with `code`."""
        done = subprocess.run(self.words(command, *arguments), capture_output=True, text=True, timeout=100)
        assert done.returncode == code, (
            f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        )
        return done.stdout if code == 0 else done.stdout + done.stderr

    def words(self, command: str, *arguments: str) -> list[str]:
        name = [sys.executable, "-m", "minislurm.cli.minislurm", command]
        return [*name, "--state-dir", str(self.folder), *arguments]

    def up(self, *arguments: str, nodes: int = 2) -> str:
        return self("up", "--nodes", str(nodes), *QUICK, *arguments)

    def client(self) -> ControllerClient:
        return ControllerClient(load(str(self.folder / "minislurm.toml")))

    def pids(self) -> dict[str, int]:
        """Of the daemons that have been started, by name."""
        return {
            path.stem: json.loads(path.read_text())["pid"] for path in (self.folder / "run").glob("*.json")
        }

    def logs(self) -> str:
        return "".join(
            f"--- {path}\n{path.read_text()[-3000:]}" for path in (self.folder / "logs").glob("*.log")
        )


@pytest.fixture
def shell() -> Iterator[Shell]:
    folder = Path(tempfile.mkdtemp(prefix="ms-up-"))
    made = Shell(folder / "cluster")
    yield made
    subprocess.run(made.words("down"), capture_output=True, timeout=100)
    remaining = {name: pid for name, pid in made.pids().items() if is_alive(pid)}
    for pid in remaining.values():
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder)
    assert not remaining


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def submit(shell: Shell, script: str) -> JobId:
    spec = a_spec(
        user_id=os.geteuid(),
        user_name="",
        std_out=str(shell.folder.parent / "out-%j"),
        work_dir=str(shell.folder.parent),
    )
    with shell.client() as client:
        return client.submit(Submission(spec, script=script.encode(), environment=(b"PATH=/usr/bin:/bin",)))


def job(shell: Shell, job_id: JobId) -> JobView:
    with shell.client() as client:
        return client.list_jobs(JobQuery((job_id,), include_ended=True))[0]


def test_up_status_logs_env_down(shell: Shell) -> None:
    text = shell.up("--gpus", "2", "--gpu-type", "a100")
    assert "The cluster is up: 2 nodes of 8 CPUs, 16 GiB and 2 GPUs, in 2 racks." in text
    assert f"env --state-dir {shell.folder}" in text
    with shell.client() as client:
        nodes = client.list_nodes()
    assert [(view.node.name, view.state) for view in nodes] == [("n1", "IDLE"), ("n2", "IDLE")]

    status = shell("status")
    for name, pid in shell.pids().items():
        assert re.search(rf"^{name} +{pid} +running ", status, re.MULTILINE), status
    assert status.count(" idle") == 2
    assert "registered" in shell("logs", "n1")
    assert "controller: " in shell("logs", "-n", "1")
    assert "no daemon n7 in this cluster" in shell("logs", "n7", code=1)
    assert f"export MINISLURM_CONF={shell.folder}/minislurm.toml\n" in shell("env")

    pids = shell.pids()
    assert "is stopped" in shell("down")
    assert not [name for name, pid in pids.items() if is_alive(pid)]
    assert "was not running" in shell("down")
    assert "stopped" in shell("status", code=1)


def test_up_again_attaches_and_starts_what_is_missing(shell: Shell) -> None:
    shell.up()
    before = shell.pids()
    assert "Attached to the cluster" in shell.up()
    assert shell.pids() == before
    for name in ("controller", "n1"):
        os.kill(before[name], signal.SIGKILL)
        until(lambda name=name: not is_alive(before[name]))
    assert re.search(r"^controller +- +ended", shell("status", code=1), re.MULTILINE)
    shell("up")
    after = shell.pids()
    assert {name for name in before if after[name] != before[name]} == {"controller", "n1"}
    assert " idle" in shell("status")


def test_other_options_are_refused_while_it_runs_and_taken_when_not(shell: Shell) -> None:
    shell.up()
    refused = shell("up", "--nodes", "3", code=1)
    assert "runs with other options (nodes: 2)" in refused
    assert "minislurm down" in refused
    shell("down")
    assert "3 nodes" in shell("up", "--nodes", "3")
    assert "timers.kill_wait_s=1" in (shell.folder / "up.json").read_text(), "earlier overrides stay"


def test_bad_options_start_nothing(shell: Shell) -> None:
    assert "--nodes=0: must be from 1" in shell("up", "--nodes", "0", code=1)
    assert "did you mean kill_wait_s?" in shell("up", "--set", "timers.kil_wait_s=1", code=1)
    assert "there is no cluster in" in shell("status", code=1)
    assert "there is no cluster in" in shell("down", code=1)
    assert shell.pids() == {}


def test_two_at_once_make_one_cluster(shell: Shell) -> None:
    words = shell.words("up", "--nodes", "2", *QUICK)
    both = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in "ab"
    ]
    outputs = [process.communicate(timeout=100)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sorted(text.split()[0] for text in outputs) == ["Attached", "The"]


def test_a_second_cluster_does_not_collide(shell: Shell) -> None:
    shell.up()
    other = Shell(shell.folder.parent / "other")
    try:
        other.up(nodes=1)
        with shell.client() as client, other.client() as other_client:
            assert len(client.list_nodes()) == 2
            assert len(other_client.list_nodes()) == 1
        assert not set(shell.pids().values()) & set(other.pids().values())
        other("down")
        assert " idle" in shell("status")
    finally:
        subprocess.run(other.words("down"), capture_output=True, timeout=100)


def test_a_port_taken_meanwhile_is_left_to_its_owner(shell: Shell) -> None:
    shell.up()
    shell("down")
    port = load(str(shell.folder / "minislurm.toml")).cluster.controller_port
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        shell("up")
        assert load(str(shell.folder / "minislurm.toml")).cluster.controller_port != port


def test_down_ends_jobs_first_and_leaves_no_process(shell: Shell) -> None:
    shell.up()
    marker = f"9{time.time_ns() % 10**8}"
    job_id = submit(shell, f"#!/bin/bash\ntrap '' TERM\nsleep {marker} &\nsetsid sleep {marker} &\nwait\n")
    until(lambda: len(sleepers(marker)) == 2)
    assert job(shell, job_id).job.state is JobState.RUNNING
    shell("down")
    assert sleepers(marker) == []


def test_down_can_leave_jobs_to_the_next_up(shell: Shell) -> None:
    shell.up()
    marker = f"9{time.time_ns() % 10**8}"
    job_id = submit(shell, f"#!/bin/bash\nsleep {marker}\n")
    until(lambda: len(sleepers(marker)) == 1)
    shell("down", "--keep-jobs")
    assert len(sleepers(marker)) == 1
    shell("up")
    assert job(shell, job_id).job.state is JobState.RUNNING
    shell("down")
    assert sleepers(marker) == []


def test_restart_changes_one_process_and_no_job(shell: Shell) -> None:
    shell.up()
    marker = f"9{time.time_ns() % 10**8}"
    job_id = submit(shell, f"#!/bin/bash\nsleep {marker}\n")
    until(lambda: len(sleepers(marker)) == 1)
    for name in ("controller", "n1"):
        before = shell.pids()
        assert f"{name} is back." in shell("restart", name)
        after = shell.pids()
        assert {daemon for daemon in before if after[daemon] != before[daemon]} == {name}
        assert job(shell, job_id).job.state is JobState.RUNNING
    assert "no daemon n9" in shell("restart", "n9", code=1)


def test_a_daemon_that_cannot_start_shows_its_log(shell: Shell) -> None:
    shell.up(nodes=1)
    shell("down")
    path = shell.folder / "minislurm.toml"
    path.write_text(path.read_text().replace('backfill = "easy"', 'backfill = "hard"'))
    assert 'backfill = "hard": must be "easy", "conservative" or "off"' in shell("up", code=1)
    path.write_text(path.read_text().replace('backfill = "hard"', 'backfill = "easy"'))
    spool = shell.folder / "spool" / "n1"
    shutil.rmtree(spool)
    spool.write_text("in the way")
    failed = shell("up", code=1)
    assert f"--- the end of {shell.folder}/logs/n1.log\n" in failed
    spool.unlink()
    shell("up")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_plain_user_has_a_cluster_of_its_own() -> None:
    folder = Path(tempfile.mkdtemp(prefix="ms-nobody-"))
    os.chown(folder, NOBODY, NOBODY)
    home = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder)}
    home.pop("XDG_STATE_HOME", None)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "minislurm.cli.minislurm", *arguments],
            capture_output=True, text=True, timeout=100, env=home,
            user=NOBODY, group=NOBODY, extra_groups=[],
        )  # fmt: skip

    try:
        if run("--version").returncode != 0:
            pytest.skip("other users cannot read this interpreter or this checkout")
        done = run("up", "--nodes", "1", "--racks", "0")
        assert done.returncode == 0, done.stderr
        state = folder / ".local" / "state" / "minislurm"
        assert state.stat().st_mode & 0o777 == 0o700
        assert not (state / "run" / "agent.json").exists(), "no agent: the user holds the key"
        assert run("status").returncode == 0
        assert run("down").returncode == 0
    except (PermissionError, FileNotFoundError):
        pytest.skip("other users cannot run this interpreter")
    finally:
        try:
            run("down")
        except OSError:
            pass
        shutil.rmtree(folder)


def sleepers(marker: str) -> list[int]:
    """Processes `sleep MARKER`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{marker}\0".encode() and is_alive(int(path.parent.name)):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
