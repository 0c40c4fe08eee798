"""Batch scripts through daemon, forker and shepherd: real processes."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from minislurm.domain.job import EndCause
from minislurm.node.tracking import descendants
from minislurm.rpc.gen import node_pb2
from tests.unit.node.node_harness import NodeHarness, is_alive, run, until


def test_a_script_runs_and_its_exit_code_is_reported(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, 'echo "$0 $1 $SLURM_JOB_ID"; exit 3', script_arguments=("one",))
            exited = await node.controller.report(1, "batch_exited")
            assert (exited.exit_code, exited.exit_signal, exited.clean) == (3, 0, True)
            started = await node.controller.report(1, "run_started")
            assert started.time <= exited.time
            assert not node.controller.reports[0].HasField("run_prepared")
            assert node.read("1.out") == f"{tmp_path}/spool/runs/job00001.1/slurm_script one 1\n"

    run(test())


def test_death_by_signal(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "kill -USR1 $$; sleep 10")
            exited = await node.controller.report(1, "batch_exited")
            assert (exited.exit_code, exited.exit_signal) == (0, signal.SIGUSR1)

    run(test())


def test_script_environment_and_output_are_for_their_owner_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "umask; sleep 100", umask=0o027)
            await node.has("1.out", "0027")
            spool = tmp_path / "spool"
            files = [path for path in spool.rglob("*") if path.is_file() and path.name != "boot"]
            assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in files} == {
                "slurm_script": 0o700,
                "lock": 0o600,
                "log.1": 0o600,
                "lease": 0o600,
            }
            assert stat.S_IMODE((spool / "runs/job00001.1").stat().st_mode) == 0o711
            assert stat.S_IMODE((tmp_path / "1.out").stat().st_mode) == 0o600

    run(test())


@pytest.mark.parametrize("spec", [{"std_out": "no/such/directory"}, {"work_dir": "/no/such"}])
def test_what_cannot_be_launched_is_0_53(tmp_path: Path, spec: dict[str, str]) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "echo never > never", **spec)
            exited = await node.controller.report(1, "batch_exited")
            assert (exited.exit_code, exited.exit_signal) == (0, 53)
            assert exited.launch_failed
            assert exited.clean
            assert not (tmp_path / "never").exists()

    run(test())


def test_a_missing_interpreter_is_said_in_the_output(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "true", interpreter="/no/such/shell")
            exited = await node.controller.report(1, "batch_exited")
            assert exited.exit_code == 2
            assert "slurmstepd-n1: error: execve(): " in node.read("1.out")
            assert "slurm_script: No such file or directory\n" in node.read("1.out")

    run(test())


def test_daemonized_children_do_not_outlive_the_script(tmp_path: Path) -> None:
    """Forked twice, in a session of its own, with TERM and HUP ignored."""
    script = (
        "( setsid bash -c 'trap \"\" TERM HUP; (sleep 1000 & echo $! > orphan; wait) & disown' "
        ">/dev/null 2>&1 & )\nwhile [ ! -s orphan ]; do sleep 0.01; done"
    )

    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, script)
            await node.controller.report(1, "batch_exited")
            await node.is_clean(1)
            assert not is_alive(await node.pid_in("orphan"))

    run(test())


def test_cancel_reaches_everything_and_traps_run(tmp_path: Path) -> None:
    script = """
trap 'echo trapped; exit 0' TERM
setsid bash -c 'trap "echo far >> far; exit" TERM; echo $$ > far_pid; while :; do sleep 0.02; done' &
while [ ! -s far_pid ]; do sleep 0.01; done
echo ready
sleep 1000
"""

    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, script)
            await node.has("1.out", "ready")
            node.end(1)
            exited = await node.controller.report(1, "batch_exited")
            assert (exited.exit_code, exited.exit_signal) == (0, 0)
            await node.is_clean(1)
            output = node.read("1.out")
            assert "trapped" in output
            assert "slurmstepd-n1: error: *** JOB 1 ON n1 CANCELLED AT 2" in output
            assert output.count("***\n") == 1
            assert node.read("far") == "far\n"

    run(test())


def test_kill_comes_after_kill_wait(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
            await node.has("1.out", "ready")
            node.end(1, EndCause.TIME_LIMIT, kill_wait_s=0.3)
            exited = await node.controller.report(1, "batch_exited")
            assert exited.exit_signal == signal.SIGKILL
            assert "DUE TO TIME LIMIT ***" in node.read("1.out")

    run(test())


def test_signals_to_the_script_alone_and_to_its_group(tmp_path: Path) -> None:
    script = """
trap 'echo shell' USR1
bash -c 'trap "echo child" USR1; echo ready; while :; do sleep 0.02; done' &
while :; do wait; done
"""

    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, script)
            await node.has("1.out", "ready")
            node.signal(1, signal.SIGUSR1)  # to steps, of which there are none
            node.signal(1, signal.SIGUSR1, step_id=-1)
            await node.has("1.out", "shell")
            assert "child" not in node.read("1.out")
            node.signal(1, signal.SIGUSR1, full=True)
            await node.has("1.out", "child")
            await until(lambda: node.read("1.out").count("shell") == 2)

    run(test())


def test_two_phases(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "echo $MINISLURM_RUN", start=False, nodes=("n1", "n2"))
            await node.controller.report(1, "run_prepared")
            assert node.read("1.out") == ""
            node.controller.command(start_run=node_pb2.StartRun(job_id=1, run=1))
            exited = await node.controller.report(1, "batch_exited")
            assert not exited.clean  # the controller ends the run on all its nodes
            assert node.read("1.out") == "1.1\n"
            node.end(1, EndCause.EXIT, kill=True)
            await node.controller.report(1, "run_cleaned")

    run(test())


@pytest.mark.parametrize(
    ("reason", "append", "kept"),
    [("user", None, False), ("preempt", None, True), ("user", True, True), ("preempt", False, False)],
)
def test_output_of_a_restarted_run(tmp_path: Path, reason: str, append: bool | None, kept: bool) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            (tmp_path / "1.out").write_text("first\n")
            node.prepare(1, "echo second", run=2, restart_reason=reason, open_mode_append=append)
            await node.controller.report(1, "batch_exited")
            assert node.read("1.out") == ("first\nsecond\n" if kept else "second\n")

    run(test())


def test_a_user_that_this_daemon_cannot_become_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can become anyone")

    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "true", user_id=os.getuid() + 1)
            failed = await node.controller.report(1, "prepare_failed")
            assert "cannot run jobs of uid" in failed.reason

    run(test())


def test_root_runs_a_job_as_its_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become someone else")

    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            for parent in (tmp_path, *tmp_path.parents[:2]):
                parent.chmod(0o755)  # pytest's are closed to others
            home = tmp_path / "home"
            home.mkdir()
            os.chown(home, 65534, 65534)
            secret = tmp_path / "secret"
            secret.mkdir(mode=0o700)
            who = {"user_id": 65534, "group_id": 65534, "user_name": "nobody", "work_dir": str(home)}
            node.prepare(1, "id -u; id -G; cat $0 | head -1", **who)
            await node.controller.report(1, "batch_exited")
            assert node.read("home/1.out") == "65534\n65534\n#!/bin/bash\n"
            assert (home / "1.out").stat().st_uid == 65534
            # Not even the output file is opened with the daemon's rights.
            node.prepare(2, "true", **who, std_out=str(secret / "out"))
            exited = await node.controller.report(2, "batch_exited")
            assert exited.exit_signal == 53

    run(test())


def _kill_forker(node: NodeHarness) -> None:
    os.kill(node.launcher.pid, signal.SIGKILL)


def test_a_dead_forker_is_replaced_and_its_jobs_go_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "echo up; while [ ! -e go ]; do sleep 0.02; done; exit 4")
            await node.has("1.out", "up")
            old = node.launcher.pid
            _kill_forker(node)
            await until(lambda: node.launcher.pid != old)
            node.prepare(2, "true")
            await node.controller.report(2, "batch_exited")
            (tmp_path / "go").touch()
            exited = await node.controller.report(1, "batch_exited")
            assert exited.exit_code == 4

    run(test())


def test_what_a_killed_shepherd_leaves_is_killed(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "setsid sleep 1000 & echo $!; sleep 1000")
            await node.has("1.out", "\n")
            shepherd = _shepherd_of(node)
            left = descendants(shepherd)
            assert len(left) >= 2
            os.kill(shepherd, signal.SIGKILL)
            exited = await node.controller.report(1, "batch_exited")
            assert exited.exit_signal == signal.SIGKILL
            assert not any(is_alive(pid) for pid in left)

    run(test())


def _shepherd_of(node: NodeHarness) -> int:
    (pid,) = descendants(node.launcher.pid)[:1]
    return pid


def test_the_run_is_known_until_it_is_forgotten(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "exit 5")
            await node.controller.report(1, "batch_exited")
            registration = await node.restart()
            (status,) = registration.runs
            assert (status.phase, status.exit_code) == ("CLEAN", 5)
            node.controller.command(forget_run=node_pb2.ForgetRun(job_id=1, run=1))
            await until(lambda: not node.daemon.core.runs)
            assert not list((tmp_path / "spool/runs").iterdir())

    run(test())


def test_a_job_inherits_no_descriptor_and_no_ignored_signal(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "ls /proc/self/fd; grep -E 'SigIgn|SigBlk' /proc/self/status")
            await node.controller.report(1, "batch_exited")
            # 3 is the directory that ls reads.
            assert node.read("1.out").split() == [
                "0", "1", "2", "3", "SigBlk:", "0000000000000000", "SigIgn:", "0000000000000000",
            ]  # fmt: skip

    run(test())
