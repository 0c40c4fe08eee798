"""Daemons killed with -9 at the wrong moment: running jobs go on, nothing accepted is lost."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import JobId
from minislurm.domain.views import JobTarget, Submission
from tests.builders import a_spec
from tests.e2e.daemons import Daemons

pytestmark = pytest.mark.e2e


#: A script waits here until the test opens the gate; no guess at how slow the machine is.
GATE = "until [ -e gate ]; do sleep 0.05; done"


def open_gate(daemons: Daemons) -> None:
    (daemons.work / "gate").touch()


def parents_of(pids: Collection[int]) -> set[int]:
    """Parents that are none of them: the shepherds, where these are a run's processes."""
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in pids]
    return {int(stat.rpartition(")")[2].split()[1]) for stat in stats} - set(pids)


@contextmanager
def stopped(pids: Collection[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    with Daemons(nodes=2, cpus=4) as cluster:
        yield cluster


def test_controller_killed_with_running_and_pending_jobs(daemons: Daemons) -> None:
    running = daemons.sbatch("-N2", "--exclusive", "-o", "out", "--wrap", f"{GATE}; echo survived")
    pending = daemons.sbatch("-N2", "--exclusive", "-o", "later", "--wrap", "echo later")
    held = daemons.sbatch("--hold", "--wrap", "true")
    daemons.wait_state(running, "RUNNING")
    daemons.kill("controller")
    refused = daemons.run("squeue")
    assert refused.returncode == 1
    assert "Unable to contact slurm controller" in refused.stderr
    daemons.start("controller")
    daemons.wait(lambda: daemons.state(running) == "RUNNING", "the controller is back")
    assert daemons.state(pending) == "PENDING"
    assert daemons.reason(held) == "JobHeldUser"
    # Ids go on where they were.
    assert daemons.sbatch("--hold", "--wrap", "true") == held + 1
    open_gate(daemons)
    daemons.wait_state(running, "COMPLETED")
    daemons.wait_state(pending, "COMPLETED")
    assert daemons.read("out") == "survived\n"
    assert daemons.job(running).run == 1


def test_end_during_absence_is_reported_with_its_true_time(daemons: Daemons) -> None:
    job = daemons.sbatch("-o", "out", "--wrap", f"{GATE}; date +%s.%N; exit 7")
    daemons.wait_state(job, "RUNNING")
    daemons.kill("controller")
    open_gate(daemons)
    daemons.wait(lambda: daemons.read("out"), "the script ends while the controller is away")
    # The restart must be told apart from the end.
    daemons.wait(lambda: time.time() > float(daemons.read("out")) + 0.7, "some time has gone by")
    daemons.start("controller")
    daemons.wait_state(job, "FAILED")
    record = daemons.job(job)
    assert record.exit_code == 7
    assert abs(record.end_time - float(daemons.read("out"))) < 0.4


def test_acknowledged_submissions_survive_kill_minus_nine(daemons: Daemons) -> None:
    for name in daemons.names:
        daemons.stop(name)
    accepted: list[int] = []
    for _ in range(2):
        accepted += [
            int(daemons.client.submit(Submission(a_spec(user_id=os.getuid()), b"#!/bin/sh\n")))
            for _ in range(100)
        ]
        daemons.kill("controller")
        daemons.start("controller")
        daemons.wait(daemons.client.ping, "the controller answers")
    assert {int(job.id) for job in daemons.jobs()} == set(accepted)
    assert len(set(accepted)) == 200


def test_same_request_id_makes_one_job(daemons: Daemons) -> None:
    submission = Submission(a_spec(user_id=os.getuid(), hold=True), b"#!/bin/sh\n")
    first = daemons.client.submit(submission, "the-same-request")
    assert daemons.client.submit(submission, "the-same-request") == first
    daemons.kill("controller")
    daemons.start("controller")
    daemons.wait(daemons.client.ping, "the controller answers")
    assert daemons.client.submit(submission, "the-same-request") == first
    assert len(daemons.jobs()) == 1


def test_node_daemon_killed_jobs_go_on_and_keep_their_exit_codes(daemons: Daemons) -> None:
    jobs = {
        code: daemons.sbatch("-w", "n1", "-o", f"out{code}", "--wrap", f"{GATE}; echo done; exit {code}")
        for code in (0, 3)
    }
    early = daemons.sbatch(
        "-w", "n1", "-o", "early", "--wrap", "until [ -e early-gate ]; do sleep 0.05; done; echo done; exit 5"
    )
    for job in (*jobs.values(), early):
        daemons.wait_state(job, "RUNNING")
    daemons.kill("n1")
    (daemons.work / "early-gate").touch()
    daemons.wait(lambda: daemons.read("early"), "one ends while its daemon is away")
    daemons.start("n1")
    daemons.wait_state(early, "FAILED")
    open_gate(daemons)
    for code, job in {**jobs, 5: early}.items():
        daemons.wait_state(job, "COMPLETED" if code == 0 else "FAILED")
        assert daemons.job(job).exit_code == code
        assert daemons.job(job).run == 1
    assert daemons.read("out3") == "done\n"
    daemons.wait(lambda: all(v.state == "IDLE" for v in daemons.nodes()), "the nodes are idle again")


def test_steps_go_on_while_a_node_daemon_is_away() -> None:
    """srun finds the restarted daemon again, and misses nothing of what its tasks wrote meanwhile."""
    with Daemons(nodes=2, cpus=4, client_grace_s=20.0) as daemons:
        script = daemons.script(
            "srun sh -c 'echo begin $SLURMD_NODENAME; until [ -e gate ]; do sleep 0.05; done;"
            " echo end $SLURMD_NODENAME; exit $((5 + SLURM_PROCID))'\necho rc $?\n"
        )
        job = daemons.sbatch("-N2", "-o", "out", script)
        daemons.wait(lambda: daemons.read("out").count("begin") == 2, "both tasks run")
        daemons.kill("n2")
        open_gate(daemons)
        daemons.wait(lambda: "end n1" in daemons.read("out"), "the other node's task ends")
        daemons.start("n2")
        daemons.wait_state(job, "COMPLETED")
        output = daemons.read("out")
        assert "end n2" in output
        assert "rc 6\n" in output
        assert "Node failure" not in output


def test_killed_by_signal_while_the_daemon_was_away(daemons: Daemons) -> None:
    job = daemons.sbatch("-w", "n1", "-o", "out", "--wrap", "echo $$; exec sleep 60")
    daemons.wait(lambda: daemons.read("out"), "the script has said its pid")
    daemons.kill("n1")
    os.kill(int(daemons.read("out")), signal.SIGKILL)
    daemons.start("n1")
    daemons.wait_state(job, "FAILED")
    assert (daemons.job(job).exit_code, daemons.job(job).exit_signal) == (0, 9)


def test_lost_node_requeues_its_jobs_elsewhere() -> None:
    with Daemons(nodes=2, cpus=4, node_timeout_s=2.5) as daemons:
        daemons.command("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=all go to n1")
        moved = daemons.sbatch("-o", "moved", "--wrap", "sleep 60")
        pinned = daemons.sbatch("-w", "n1", "-o", "pinned", "--wrap", "sleep 60")
        stays = daemons.sbatch("-w", "n1", "--no-requeue", "-o", "stays", "--wrap", "sleep 60")
        for job in (moved, pinned, stays):
            daemons.wait_state(job, "RUNNING")
        daemons.command("scontrol", "update", "NodeName=n2", "State=RESUME")
        # A host on which even shepherds hang: the old run is still there when its daemon comes back.
        shepherds = parents_of(daemons.processes_with(f"MINISLURM_RUN={pinned}.1"))
        assert shepherds
        with stopped(shepherds):
            daemons.kill("n1")
            daemons.wait_state(stays, "NODE_FAIL")
            daemons.wait_state(pinned, "PENDING")
            assert daemons.job(pinned).requeues == {"node_fail": 1}
            assert next(v.state for v in daemons.nodes() if v.node.name == "n1") == "DOWN*"
            daemons.wait(lambda: (daemons.job(moved).run, daemons.state(moved)) == (2, "RUNNING"), "it moves")
            assert [part.node for part in daemons.job(moved).allocation] == ["n2"]
            # It is ended before the node is offered new work.
            daemons.start("n1")
            daemons.wait(lambda: all(v.node.responding for v in daemons.nodes()), "the node is back")
            later = daemons.sbatch("-w", "n2", "-o", "later", "--wrap", "true")
            daemons.wait_state(later, "COMPLETED")
            assert daemons.state(pinned) == "PENDING"
        daemons.wait_state(pinned, "RUNNING")
        assert daemons.job(pinned).run == 2
        assert not daemons.processes_with(f"MINISLURM_RUN={pinned}.1")
        assert not daemons.processes_with(f"MINISLURM_RUN={moved}.1")
        assert not daemons.processes_with(f"MINISLURM_RUN={stays}.1")


def test_node_that_dies_in_prepare_the_gang_starts_elsewhere() -> None:
    """One node hangs at PREPARE, and is then gone: the gang starts nowhere, and then on others."""
    with Daemons(nodes=3, cpus=4) as daemons:
        script = "echo $SLURM_JOB_NODELIST >> started"
        gang = daemons.sbatch("--hold", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", script)
        os.kill(daemons.processes["n2"].pid, signal.SIGSTOP)
        # Not by a command, which may take so long that the node is known to be silent.
        daemons.client.release([JobTarget(JobId(gang))])
        daemons.wait_state(gang, "CONFIGURING")
        assert [str(part.node) for part in daemons.job(gang).allocation] == ["n1", "n2"]
        daemons.wait(lambda: daemons.job(gang).requeues.get("launch_failure"), "the launch is given up")
        daemons.kill("n2")
        daemons.wait_state(gang, "COMPLETED")
        assert daemons.read("started") == "n[1,3]\n"
        assert daemons.job(gang).restarts == 0


@pytest.mark.parametrize("tracking", ["auto", "process"])
def test_nothing_a_job_forks_survives_it(tracking: str) -> None:
    with Daemons(nodes=1, cpus=4, node=f'tracking = "{tracking}"') as daemons:
        script = daemons.script(
            "setsid sh -c 'trap \"\" TERM HUP; (sleep 300 & sleep 300) & sleep 300'"
            " </dev/null &>/dev/null &\n"
            "nohup sleep 300 >/dev/null 2>&1 &\n"
            "echo started\n"
        )
        job = daemons.sbatch("-o", "out", script)
        daemons.wait_state(job, "COMPLETED")
        assert not daemons.processes_with(f"SLURM_JOB_ID={job}")
        stubborn = daemons.sbatch("-o", "out2", "--wrap", "trap '' TERM; setsid sleep 300 & sleep 300")
        daemons.wait_state(stubborn, "RUNNING")
        daemons.wait(lambda: daemons.processes_with(f"SLURM_JOB_ID={stubborn}"), "the script has begun")
        daemons.command("scancel", str(stubborn))
        daemons.wait_state(stubborn, "CANCELLED")
        assert not daemons.processes_with(f"SLURM_JOB_ID={stubborn}")


def test_time_limit_ends_with_term_then_kill(daemons: Daemons) -> None:
    script = daemons.script("trap 'echo got term' TERM\nfor i in $(seq 100); do sleep 0.2; done\n")
    started = time.monotonic()
    job = daemons.sbatch("-t", "0:02", "-o", "out", script)
    daemons.wait_state(job, "TIMEOUT")
    assert time.monotonic() - started < 2 + 1 + 2.5
    output = daemons.read("out")
    assert "got term" in output
    assert re.search(
        rf"slurmstepd-n\d: error: \*\*\* JOB {job} ON n\d CANCELLED AT .* DUE TO TIME LIMIT \*\*\*", output
    )


def test_commands_say_at_once_that_the_controller_is_away(daemons: Daemons) -> None:
    daemons.kill("controller")
    for words in (
        ["squeue"],
        ["sinfo"],
        ["sbatch", "--wrap", "true"],
        ["scancel", "1"],
        ["scontrol", "ping"],
    ):
        started = time.monotonic()
        done = daemons.run(*words)
        assert done.returncode == 1, words
        assert time.monotonic() - started < 3.5, words
        said = "is DOWN" if words[0] == "scontrol" else "Unable to contact slurm controller (connect failure)"
        assert said in done.stdout + done.stderr, words
        assert "Traceback" not in done.stderr


def test_full_disk_refuses_submissions_and_recovers(tmp_path: Path) -> None:
    """The journal on a file system of 6 MB: when it is full nothing is accepted, nothing accepted is lost."""
    if os.getuid() != 0 or os.system(f"mount -t tmpfs -o size=6m tmpfs {tmp_path} 2>/dev/null") != 0:
        pytest.skip("needs root and tmpfs")
    try:
        folder = tmp_path / "c"
        folder.mkdir()
        # The node would be drained at once for want of space: this is about the controller.
        with Daemons(nodes=1, folder=folder, node="health_min_free_mib = 0") as daemons:
            _fill_and_free(daemons, tmp_path)
    finally:
        os.system(f"umount {tmp_path}")


def _fill_and_free(daemons: Daemons, folder: Path) -> None:
    kept = daemons.sbatch("--hold", "--wrap", "true")
    filler = folder / "filler"
    with open(filler, "wb") as file:
        try:
            while True:
                file.write(b"x" * 65536)
                file.flush()
        except OSError:
            pass
    accepted: list[int] = [kept]
    refused: list[RefusalCode] = []
    for _ in range(30):
        try:
            submission = Submission(
                a_spec(user_id=os.getuid(), hold=True, comment="x" * 50_000), b"#!/bin/sh\n"
            )
            accepted.append(int(daemons.client.submit(submission)))
        except Refusal as refusal:
            refused.append(refusal.code)
            if len(refused) > 3:
                break
    assert set(refused) == {RefusalCode.STORE_UNAVAILABLE}, "the disk never got full"
    told = daemons.run("sbatch", "--hold", "--comment", "y" * 60_000, "--wrap", "true")
    assert told.returncode == 1
    assert "state could not be saved" in told.stderr
    filler.unlink()
    daemons.wait(lambda: daemons.sbatch("--hold", "--wrap", "true"), "submissions are accepted again")
    assert {int(job.id) for job in daemons.jobs()} >= set(accepted)
    daemons.kill("controller")
    daemons.start("controller")
    daemons.wait(lambda: {int(job.id) for job in daemons.jobs()} >= set(accepted), "nothing accepted is lost")
    daemons.wait(lambda: daemons.nodes()[0].state == "IDLE", "the node is back")
    assert daemons.sbatch("-W", "--wrap", "true")
