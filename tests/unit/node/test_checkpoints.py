"""Checkpoints at the node daemon: who may report them, what is kept until it is said, what is asked of a
run."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from math import inf
from pathlib import Path
from typing import Any

import pytest

from minislurm.domain.checkpoint import Checkpoint, CheckpointSignal
from minislurm.domain.ids import BATCH_STEP, CHECKPOINT_STEP, JobId, RunNumber, StepId
from minislurm.domain.job import Job
from minislurm.domain.resources import NodeAllocation
from minislurm.node.core import NodeCore
from minislurm.node.messages import (
    Action,
    Ask,
    CheckpointFailed,
    CheckpointListener,
    CheckpointMade,
    Command,
    Delete,
    DeleteFiles,
    Event,
    Exit,
    Listens,
    Made,
    Prepare,
    Prepared,
    RunCheckpointCommand,
    RunKey,
    SignalStep,
    StepExited,
    StepStarted,
    TellAsked,
)
from minislurm.node.tracking import catchers
from minislurm.rpc.gen import node_pb2
from tests.builders import a_spec
from tests.unit.node.node_harness import NodeHarness, run, until

KEY = RunKey(JobId(7), RunNumber(1))
ROOT = Path(__file__).resolve().parents[3]
WAITS = "touch up; until [ -e go ]; do sleep 0.02; done"


# --- the core --------------------------------------------------------------------------------------------


def running(**spec: Any) -> NodeCore:
    core = NodeCore("n1")
    job = Job(KEY.job_id, a_spec(**spec), run=KEY.run, allocation=(NodeAllocation(core.node),))
    hears(core, Prepare(KEY, job, start=True), Prepared(KEY), StepStarted(KEY, BATCH_STEP, 11.0))
    return core


def hears(core: NodeCore, *messages: Command | Event, now: float = 20.0) -> list[Action]:
    """What the last of them leads to."""
    actions: list[Action] = []
    for message in messages:
        actions = core.handle(message, now)
    return actions


def made(path: str = "/c/1", time: float = 15.0, **changes: Any) -> Checkpoint:
    return Checkpoint(KEY.run, path, time=time, **changes)


ASK = Ask(KEY, 18.5, "user")
PREEMPT = Ask(KEY, 19.5, "preempt", 50.0)


def test_a_report_is_made_once() -> None:
    core = running()
    assert hears(core, Made(KEY, made())) == [CheckpointMade(KEY, made())]
    assert hears(core, Made(KEY, made())) == []
    assert core.runs[KEY].newest == made()


def test_reports_of_a_run_that_is_not_here_are_dropped() -> None:
    core = running()
    other = RunKey(KEY.job_id, RunNumber(2))
    for message in (Made(other, made()), Listens(other), Ask(other, 1.0, "user"), Delete(other, "/c/1")):
        assert hears(core, message) == []


def test_whoever_knows_of_no_requests_answers_with_whatever_comes_next() -> None:
    core = running()
    assert hears(core, ASK) == [TellAsked(KEY, ASK)]
    assert hears(core, ASK) == []
    answer = made(reason="user", duration_s=1.5)
    assert hears(core, Made(KEY, made())) == [CheckpointMade(KEY, answer, 18.5), TellAsked(KEY, None)]
    assert hears(core, Made(KEY, made("/c/2"))) == [CheckpointMade(KEY, made("/c/2"))]


def test_whoever_knows_of_them_answers_the_one_they_knew_of() -> None:
    core = running()
    hears(core, PREEMPT)
    assert hears(core, Made(KEY, made(), 0.0)) == [CheckpointMade(KEY, made())]
    answer = made("/c/2", reason="preempt", duration_s=3.0)
    # It goes on being asked to leave until it is ended.
    assert hears(core, Made(KEY, made("/c/2", duration_s=3.0), 19.5)) == [CheckpointMade(KEY, answer, 19.5)]


def test_a_request_that_is_taken_back_is_answered_by_nothing() -> None:
    core = running()
    hears(core, PREEMPT)
    assert hears(core, Ask(KEY, 0.0, "", inf, True)) == [TellAsked(KEY, None)]
    assert hears(core, Made(KEY, made(), 19.5)) == [CheckpointMade(KEY, made())]


def test_a_signal_goes_to_those_who_catch_it() -> None:
    core = running(checkpoint_signal=CheckpointSignal(10))
    core.admit_step(KEY, StepId(0), 1000, is_first=True)
    signals = [SignalStep(KEY, step, 10, "catch") for step in (BATCH_STEP, StepId(0))]
    assert hears(core, ASK) == [TellAsked(KEY, ASK), *signals]


def test_shells_are_signalled_only_if_that_is_asked_for() -> None:
    core = running(checkpoint_signal=CheckpointSignal(10, to_shells=True))
    assert hears(core, ASK)[1:] == [SignalStep(KEY, BATCH_STEP, 10, "catch_or_shell")]


def test_who_catches_a_signal(tmp_path: Path) -> None:
    """A shell with a trap for its exit catches all signals, and ends of them."""
    programs = {
        "plain": ["sleep", "60"],
        "python": [sys.executable, "-c", "import signal, time; signal.signal(10, id); print(1, flush=True);"
                   "time.sleep(60)"],
        "shell": ["bash", "-c", "trap true EXIT; echo 1; sleep 60; true"],
    }  # fmt: skip
    started = {
        name: subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
        for name, words in programs.items()
    }
    try:
        for name in ("python", "shell"):
            output = started[name].stdout
            assert output is not None
            assert output.readline() == b"1\n"
        pids = {process.pid: name for name, process in started.items()}
        caught = [[pids[pid] for pid in catchers(pids, 10, shells=shells)] for shells in (False, True)]
        assert caught == [["python"], ["python", "shell"]]
        assert catchers([2**22 + 1], 10, shells=True) == []
    finally:
        for process in started.values():
            os.killpg(process.pid, 9)
            process.communicate()


def test_the_command_runs_one_at_a_time() -> None:
    core = running(checkpoint_command="save")
    first = RunCheckpointCommand(KEY, CHECKPOINT_STEP)
    assert hears(core, ASK) == [TellAsked(KEY, ASK), first]
    assert hears(core, PREEMPT) == [TellAsked(KEY, PREEMPT)]
    hears(core, StepExited(KEY, CHECKPOINT_STEP, Exit(), clean=True))
    again = Ask(KEY, 30.0, "user")
    second = RunCheckpointCommand(KEY, StepId(CHECKPOINT_STEP - 1))
    assert hears(core, again) == [TellAsked(KEY, again), second]


@pytest.mark.parametrize(
    ("reports", "listens", "code", "fails"),
    [(False, False, 1, True), (True, False, 1, False), (False, True, 1, False), (False, False, 0, False)],
)
def test_a_command_that_fails_is_waited_for_by_nobody(
    reports: bool, listens: bool, code: int, fails: bool
) -> None:
    core = running(checkpoint_command="save")
    hears(core, PREEMPT)
    if reports:
        hears(core, Made(KEY, made(time=19.9)))
    if listens:
        hears(core, Listens(KEY))
    actions = hears(core, StepExited(KEY, CHECKPOINT_STEP, Exit(exit_code=code), clean=True))
    assert (CheckpointFailed(KEY, PREEMPT.request) in actions) is fails


def test_it_is_said_once_that_somebody_listens() -> None:
    core = running()
    assert hears(core, Listens(KEY)) == [CheckpointListener(KEY)]
    assert hears(core, Listens(KEY)) == []


def test_deleting_is_the_user_s_own_deed() -> None:
    assert hears(running(), Delete(KEY, "/c/1")) == [DeleteFiles(KEY, "/c/1")]


# --- the daemon ------------------------------------------------------------------------------------------


async def speak(node: NodeHarness, *messages: object, job_id: int = 1, run: int = 1) -> list[dict[str, Any]]:
    """What a process of the test's user hears after a hello and these."""
    path = node.daemon._files.directory + "/checkpoint.sock"
    reader, writer = await asyncio.open_unix_connection(path)
    hello = {"job": job_id, "run": run, "listen": False}
    for message in (hello, *messages):
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        writer.write(line + b"\n")
    writer.write_eof()
    heard = [json.loads(line) for line in (await reader.read()).splitlines()]
    writer.close()
    return heard


def a_report(path: str = "/c/1", **changes: Any) -> dict[str, Any]:
    return {"report": {"path": path, "step": 3, "time": time.time(), **changes}}


async def started(node: NodeHarness, script: str = WAITS, job_id: int = 1, **options: Any) -> None:
    node.prepare(job_id, script, **options)
    await node.controller.report(job_id, "run_started")


def test_a_report_goes_to_the_controller_and_is_the_latest(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            await started(node)
            heard = await speak(node, a_report(size_bytes=9, metadata={"a": "b"}), {"latest": True})
            assert heard[:2] == [{"latest": None}, {"reported": "/c/1"}]
            assert heard[2]["latest"]["step"] == 3
            said = await node.controller.report(1, "checkpoint_made")
            assert (said.checkpoint.path, said.checkpoint.step, said.checkpoint.run) == ("/c/1", 3, 1)
            assert dict(said.checkpoint.metadata) == {"a": "b"}

    run(test())


@pytest.mark.parametrize(
    "wrong",
    [
        b"no json", b"[1]", b"x" * 100_000, b"[" * 60_000, {"surprise": 1},
        {"report": 3}, {"report": {}}, a_report("relative"), a_report("/nul\0"), a_report("/" + "x" * 5000),
        a_report("/\udc80"), a_report(step="7"), a_report(step=True), a_report(step=2**70), a_report(step=-5),
        a_report(size_bytes=-1), a_report(time="now"), a_report(modified=float("nan")),
        a_report(metadata=[1]), a_report(metadata={"a": 1}), a_report(metadata={"a": "x" * 5000}),
        {**a_report(), "request": "x"},
    ],
)  # fmt: skip
def test_nonsense_is_answered_and_harms_nothing(tmp_path: Path, wrong: object) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            await started(node)
            heard = await speak(node, wrong)
            assert "error" in heard[-1]
            assert (await speak(node, a_report()))[-1] == {"reported": "/c/1"}
            reports = await node.controller.all_reports(1, "checkpoint_made", 1)
            assert len(reports) == 1

    run(test())


def test_runs_that_are_not_here_have_nothing_to_say(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            await started(node)
            for job_id, number in ((1, 2), (2, 1)):
                heard = await speak(node, a_report(), job_id=job_id, run=number)
                assert heard == [{"error": f"run {job_id}.{number} is not here, or not yours"}]
            assert "error" in (await speak(node, job_id=-1))[0]

    run(test())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_another_user_s_report_is_refused() -> None:
    """Asked of the kernel, whatever they claim; and what they put where the job's user leaves reports."""
    folder = Path(tempfile.mkdtemp(prefix="ms-"))
    folder.chmod(0o755)
    program = f"""
import json, os, socket
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
s = socket.socket(socket.AF_UNIX)
s.connect({str(folder / "spool" / "checkpoint.sock")!r})
s.sendall(b'{{"job": 1, "run": 1, "listen": true}}\\n' + b'{json.dumps(a_report())}' + b"\\n")
print(s.makefile().read())
"""

    async def test() -> None:
        async with NodeHarness(folder) as node:
            await started(node)
            done = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", "-c", program,
                stdout=subprocess.PIPE, cwd="/",
            )  # fmt: skip
            output, _ = await done.communicate()
            assert json.loads(output) == {"error": "run 1.1 is not here, or not yours"}
            reports = folder / "spool" / "runs" / "job00001.1" / "reports"
            assert reports.stat().st_mode & 0o777 == 0o700
            theirs = reports / "a.json"
            theirs.write_text(json.dumps(a_report("/theirs")))
            os.chown(theirs, 65534, 65534)
            assert (await speak(node, a_report("/ours")))[-1] == {"reported": "/ours"}
            (said,) = await node.controller.all_reports(1, "checkpoint_made", 1)
            assert said.checkpoint.path == "/ours"
            assert not node.daemon.core.runs[KEY._replace(job_id=JobId(1))].listens

    try:
        run(test())
    finally:
        shutil.rmtree(folder)


def test_what_was_left_on_disk_is_taken_and_nothing_strange_is_opened(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            await started(node)
            reports = tmp_path / "spool" / "runs" / "job00001.1" / "reports"
            secret = tmp_path / "secret"
            secret.write_text(json.dumps(a_report("/secret")))
            (reports / "a.json").symlink_to(secret)
            os.mkfifo(reports / "b.json")
            (reports / "c.json").write_text("{half")
            (reports / ".d").write_text(json.dumps(a_report("/unfinished")))
            (reports / "e.json").write_text(json.dumps(a_report("/left")))
            (tmp_path / "go").touch()
            said = await node.controller.report(1, "checkpoint_made")
            assert said.checkpoint.path == "/left"
            await node.controller.report(1, "batch_exited")
            kinds = [report.WhichOneof("kind") for report in node.controller.reports]
            assert kinds.index("checkpoint_made") < kinds.index("batch_exited"), "before the run is over"
            assert secret.exists()

    run(test())


def test_what_the_controller_has_not_acknowledged_survives_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            await started(node)
            await speak(node, a_report("/known"))
            await node.controller.report(1, "checkpoint_made")
            key = RunKey(JobId(1), RunNumber(1))
            await until(lambda: not node.daemon.core.runs[key].unsaid)
            node.controller.acknowledging = False
            await speak(node, a_report("/unknown"))
            node.controller.reports.clear()
            registration = await node.restart()
            (status,) = registration.runs
            assert [one.checkpoint.path for one in status.checkpoints] == ["/unknown"]
            node.controller.acknowledging = True
            registration = await node.restart()
            said = await node.controller.report(1, "checkpoint_made")
            assert said.checkpoint.path == "/unknown"
            heard = await speak(node)
            assert heard[0]["latest"]["path"] == "/unknown"

    run(test())


def test_what_was_renamed_while_no_daemon_was_there_is_found_at_the_end(tmp_path: Path) -> None:
    """Also where the run was over before the next daemon came."""
    script = """
touch up-1; until [ -e go ]; do sleep 0.02; done
echo weights > new; touch -d '1 hour ago' new; mv new $MINISLURM_CHECKPOINT_DIR/step5
"""

    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            await started(node, script, checkpoint_dir="c")
            await until(lambda: (tmp_path / "up-1").exists())
            await node.stop()
            (tmp_path / "go").touch()
            logs = list((tmp_path / "spool").glob("log.*"))
            await until(lambda: any(b'"end"' in log.read_bytes() for log in logs))
            await node.start()
            said = await node.controller.report(1, "checkpoint_made")
            assert said.checkpoint.path == str(tmp_path / "c" / "step5")
            await node.is_clean(1)
            status = next(s for s in node.controller.registrations[-1].runs if s.job_id == 1)
            assert [one.checkpoint.path for one in status.checkpoints] == [said.checkpoint.path]

    run(test())


def test_a_listener_is_told_and_told_again_by_the_next_daemon(tmp_path: Path) -> None:
    program = f"""
import sys, time; sys.path.insert(0, {str(ROOT)!r})
from minislurm import checkpoint
checkpoint.on_preempt(lambda reason, left: print(reason, left > 0, flush=True))
print("up", flush=True)
while not checkpoint.should_stop(): time.sleep(0.01)
print("asked", flush=True)
while checkpoint.should_stop(): time.sleep(0.01)
print("spared", flush=True)
time.sleep(60)
"""

    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            (tmp_path / "p.py").write_text(program)
            await started(node, f"exec {sys.executable} p.py")
            await node.controller.report(1, "checkpoint_listener")
            ask = node_pb2.AskCheckpoint(job_id=1, run=1, request=5.5, reason="preempt", seconds_left=30)
            node.controller.command(ask_checkpoint=ask)
            await node.has("1.out", "asked")
            registration = await node.restart()
            assert registration.runs[0].listens
            key = RunKey(JobId(1), RunNumber(1))
            asked = node.daemon.core.runs[key].asked
            assert asked is not None
            assert asked.request == 5.5
            ask = node_pb2.AskCheckpoint(job_id=1, run=1, withdrawn=True)
            await until(lambda: node.daemon.checkpoints._listeners)
            node.controller.command(ask_checkpoint=ask)
            assert (await node.has("1.out", "spared")).split() == ["up", "preempt", "True", "asked", "spared"]

    run(test())


def test_the_environment_leads_to_the_socket_and_to_the_checkpoint(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            await started(node, "env | grep CHECKPOINT | sort", checkpoint_dir="c/%x-%j", name="train")
            text = await node.has("1.out", "SOCKET")
            assert text.splitlines() == [
                f"MINISLURM_CHECKPOINT_DIR={tmp_path}/c/train-1",
                f"MINISLURM_CHECKPOINT_REPORTS={tmp_path}/spool/runs/job00001.1/reports",
                f"MINISLURM_CHECKPOINT_SOCKET={tmp_path}/spool/checkpoint.sock",
            ]
            assert (tmp_path / "c" / "train-1").is_dir()

    run(test())


def test_nothing_of_it_is_left_when_the_run_is_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            await started(node, "sleep 0.1", checkpoint_dir="c")
            await node.is_clean(1)
            assert node.daemon.checkpoints._keepers == {}
            node.controller.command(forget_run=node_pb2.ForgetRun(job_id=1, run=1))
            await until(lambda: not (tmp_path / "spool" / "runs" / "job00001.1").exists())

    run(test())
