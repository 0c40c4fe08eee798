"""A daemon that went away and came back: jobs go on, and what happened meanwhile is known."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from minislurm.domain.errors import ConfigurationError
from minislurm.domain.ids import JobId, RunNumber
from minislurm.node import run_files
from minislurm.node.messages import RunKey
from minislurm.node.run_files import RunFiles
from minislurm.node.tracking import descendants, send_signal
from minislurm.rpc.gen import node_pb2
from tests.unit.node.node_harness import NodeHarness, is_alive, run, until

WAITS = "echo $$ up; while [ ! -e go ]; do sleep 0.02; done; exit 7"


def test_a_running_job_is_adopted_with_its_true_exit_code(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, WAITS)
            await node.has("1.out", "up")
            registration = await node.restart()
            assert [(status.job_id, status.phase) for status in registration.runs] == [(1, "RUNNING")]
            (tmp_path / "go").touch()
            exited = await node.controller.report(1, "batch_exited")
            assert (exited.exit_code, exited.clean) == (7, True)

    run(test())


def test_an_adopted_job_can_still_be_ended(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, WAITS)
            await node.has("1.out", "up")
            await node.restart()
            node.end(1)
            exited = await node.controller.report(1, "batch_exited")
            assert exited.exit_signal == signal.SIGTERM
            assert "CANCELLED AT" in node.read("1.out")

    run(test())


def test_an_end_that_nobody_saw_is_in_the_registration(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, WAITS)
            pid = await node.pid_in("1.out")
            await node.stop()
            (tmp_path / "go").touch()
            await until(lambda: not is_alive(pid))
            await until(lambda: '"end"' in node.read("spool/log.1"))
            await node.start()
            registration = await node.controller.registered(2)
            (status,) = registration.runs
            assert (status.phase, status.exit_code) == ("CLEAN", 7)
            exited = await node.controller.report(1, "batch_exited")
            assert (exited.exit_code, exited.clean) == (7, True)

    run(test())


def test_a_shepherd_that_was_killed_meanwhile_is_noticed(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, WAITS)
            pid = await node.pid_in("1.out")
            state = node.daemon._files.step_state(RunKey(JobId(1), RunNumber(1)), -1)  # type: ignore[arg-type]
            assert state is not None
            await node.stop()
            os.kill(state["pid"], signal.SIGKILL)
            assert is_alive(pid)
            await node.start()
            exited = await node.controller.report(1, "batch_exited")
            assert exited.exit_signal == signal.SIGKILL
            await until(lambda: not is_alive(pid))

    run(test())


def test_a_prepared_run_can_be_started_by_the_next_daemon(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "echo $COLOUR", start=False, environment={"COLOUR": "red"})
            await node.controller.report(1, "run_prepared")
            registration = await node.restart()
            assert [status.phase for status in registration.runs] == ["PREPARED"]
            node.controller.command(start_run=node_pb2.StartRun(job_id=1, run=1))
            await node.controller.report(1, "batch_exited")
            assert node.read("1.out") == "red\n"

    run(test())


def test_reports_wait_for_the_controller_and_come_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.controller.acknowledging = False
            node.prepare(1, "exit 1")
            await node.is_clean(1)
            await node.controller.stop()
            node.controller.acknowledging = True
            # Still away for some attempts to connect.
            await asyncio.sleep(0.2)
            await node.controller.start()
            exited = await node.controller.report(1, "batch_exited")
            assert exited.exit_code == 1
            assert node.daemon.link is not None
            await until(lambda: node.daemon.link and not node.daemon.link.unacknowledged)
            numbers = [report.number for report in node.controller.reports]
            assert numbers == sorted(numbers)

    run(test())


def test_runs_of_an_earlier_boot_are_not_claimed(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "exit 3")
            await node.controller.report(1, "batch_exited")
            node.prepare(2, "true", start=False)
            await node.controller.report(2, "run_prepared")
            await node.stop()
            (tmp_path / "spool/boot").write_text("another")
            await node.start()
            registration = await node.controller.registered(2)
            # The end that was known before stays known.
            assert [(status.job_id, status.exit_code) for status in registration.runs] == [(1, 3)]

    run(test())


def test_a_run_that_was_not_yet_launched_is_not_claimed(tmp_path: Path) -> None:
    """The controller sends PREPARE again, with the environment."""

    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "sleep 1000")
            await node.controller.report(1, "run_started")
            await node.stop()
            log = tmp_path / "spool/log.1"
            whole = log.read_text()
            log.write_text("".join(line for line in whole.splitlines(True) if "prepare" in line))
            await node.start()
            registration = await node.controller.registered(2)
            assert list(registration.runs) == []
            state = json.loads(next(line for line in whole.splitlines() if "state" in line))["state"]
            send_signal([*descendants(state["pid"]), state["pid"]], signal.SIGKILL)

    run(test())


def test_a_torn_line_does_no_harm(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.prepare(1, "exit 3")
            await node.controller.report(1, "batch_exited")
            await node.stop()
            with open(tmp_path / "spool/log.1", "a") as log:
                log.write('{"run":"1.1","ph')
            await node.start()
            registration = await node.controller.registered(2)
            assert [status.exit_code for status in registration.runs] == [3]

    run(test())


def test_logs_go_with_the_last_of_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "LOG_LIMIT", 1)

    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            for job_id in (1, 2, 3):
                node.prepare(job_id, WAITS if job_id == 2 else "true")
                await node.controller.report(job_id, "run_started")
            for job_id in (1, 3):
                await node.controller.report(job_id, "batch_exited")
                node.controller.command(forget_run=node_pb2.ForgetRun(job_id=job_id, run=1))
            await until(lambda: len(node.daemon.core.runs) == 1)
            assert sorted(path.name for path in (tmp_path / "spool").glob("log.*")) == ["log.2", "log.3"]
            await node.restart()
            (tmp_path / "go").touch()
            assert (await node.controller.report(2, "batch_exited")).exit_code == 7
            assert sorted(path.name for path in (tmp_path / "spool").glob("log.*")) == ["log.2", "log.4"]

    run(test())


def test_two_daemons_do_not_share_a_spool_directory(tmp_path: Path) -> None:
    files = RunFiles(str(tmp_path))
    with pytest.raises(ConfigurationError, match="another minislurmd"):
        RunFiles(str(tmp_path))
    files.close()
    RunFiles(str(tmp_path)).close()
