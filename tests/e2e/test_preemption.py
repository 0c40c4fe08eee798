"""Runs give way to jobs of a higher tier: they are told, have their grace, and go on where they saved."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.e2e.daemons import Daemons

pytestmark = pytest.mark.e2e

GRACE_S = 3
_EXTRA = f"""
[[partitions]]
name = "urgent"
nodes = "ALL"
priority_tier = 2
default_time = "10:00"
[preemption]
mode = "requeue"
grace_s = {GRACE_S}
"""

#: Counts, saves the count when it is told to go, and goes on from there. Leaves by itself, with exit code 0.
SAVING = """#!/bin/bash
count=$(cat saved 2>/dev/null || echo 0)
echo "run ${SLURM_RESTART_COUNT:-0} from $count (${MINISLURM_RESTART_REASON:-first})"
trap 'echo $count > saved; echo saved; exit 0' TERM
until [ -e gate ]; do count=$((count + 1)); sleep 0.1; done
echo "done after $count"
"""


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    with Daemons(nodes=2, cpus=4, extra=_EXTRA) as cluster:
        yield cluster


def _has(daemons: Daemons, file: str, text: str) -> bool:
    path = daemons.work / file
    return path.exists() and text in path.read_text()


def _urgent(daemons: Daemons, *options: str, script: str = "echo urgent; sleep 1") -> int:
    words = ("-p", "urgent", "-N2", "--exclusive", "-o", "urgent", *options)
    return daemons.sbatch(*words, "--wrap", script)


def test_a_victim_saves_and_goes_on_from_there(daemons: Daemons) -> None:
    (daemons.work / "victim.sh").write_text(SAVING)
    victim = daemons.sbatch("-N2", "--exclusive", "-o", "out", "victim.sh")
    daemons.wait(lambda: _has(daemons, "out", "run 0 from 0 (first)"), "the victim runs")
    urgent = _urgent(daemons, script="until [ -e go ]; do sleep 0.1; done")
    daemons.wait_state(urgent, "RUNNING")
    shown = daemons.command("scontrol", "show", "job", str(victim))
    assert "JobState=PENDING" in shown
    assert re.search(r"PreemptEligibleTime=None PreemptTime=\d{4}-", shown)
    assert daemons.job(victim).preemptor == urgent
    (daemons.work / "go").touch()
    daemons.wait_state(urgent, "COMPLETED")
    told = daemons.command("minislurm", "why", "--preempted", str(victim))
    assert f"run 1 gave way to job {urgent} on n[1-2], which is in a partition of a higher tier." in told
    lost = r"^  Lost in truth: \d+ CPU-seconds; it had let go of its nodes after 0:0\d\.$"
    assert re.search(lost, told, re.M)
    daemons.wait_state(victim, "RUNNING")
    daemons.wait(lambda: _has(daemons, "out", "run 1"), "the victim runs again")
    (daemons.work / "gate").touch()
    daemons.wait_state(victim, "COMPLETED")
    saved = int((daemons.work / "saved").read_text())
    lines = (daemons.work / "out").read_text().splitlines()
    assert saved > 0
    assert lines[0] == "run 0 from 0 (first)"
    assert re.fullmatch(
        rf"slurmstepd-n1: error: \*\*\* JOB {victim} ON n1 CANCELLED AT \S+ DUE TO PREEMPTION \*\*\*",
        next(line for line in lines if "PREEMPTION" in line),
    )
    assert lines[-2] == f"run 1 from {saved} (preempt)"
    assert int(lines[-1].removeprefix("done after ")) >= saved


def test_a_victim_that_does_not_listen_is_killed_after_its_grace(daemons: Daemons) -> None:
    stubborn = "trap '' TERM; touch deaf; until [ -e gate ]; do sleep 0.1; done"
    victim = daemons.sbatch("-N2", "--exclusive", "--wrap", stubborn)
    daemons.wait(lambda: (daemons.work / "deaf").exists(), "the victim runs")
    urgent = _urgent(daemons)
    daemons.wait_state(victim, "COMPLETING")
    daemons.wait_state(urgent, "COMPLETED")
    asked, started = daemons.job(victim).preempt_time, daemons.job(urgent).start_time
    assert started - asked >= GRACE_S - 0.5
    daemons.wait_state(victim, "RUNNING")
    (daemons.work / "gate").touch()
    daemons.wait_state(victim, "COMPLETED")
    assert daemons.job(victim).requeues == {"preempt": 1}


def test_the_controller_may_be_killed_while_a_victim_saves(daemons: Daemons) -> None:
    slow = "trap 'touch asked; sleep 1.5; touch saved; exit 0' TERM; touch up; while :; do sleep 0.1; done"
    victim = daemons.sbatch("-N2", "--exclusive", "--wrap", f"[ -e saved ] && exit 0; {slow}")
    daemons.wait(lambda: (daemons.work / "up").exists(), "the victim runs")
    urgent = _urgent(daemons)
    daemons.wait(lambda: (daemons.work / "asked").exists(), "the victim is asked")
    daemons.kill("controller")
    daemons.start("controller")
    daemons.wait_state(urgent, "COMPLETED")
    daemons.wait_state(victim, "COMPLETED")
    assert (daemons.work / "saved").exists(), "it was killed within its grace"
    assert daemons.job(victim).requeues == {"preempt": 1}


def test_configuration_and_partitions_say_who_gives_way(daemons: Daemons) -> None:
    config = daemons.command("scontrol", "show", "config")
    assert re.search(r"^PreemptMode\s+= REQUEUE$", config, re.M)
    assert re.search(r"^PreemptType\s+= preempt/partition_prio$", config, re.M)
    partition = daemons.command("scontrol", "show", "partition", "batch")
    assert f"GraceTime={GRACE_S} " in partition
    assert "PreemptMode=REQUEUE" in partition
    assert daemons.command("sinfo", "-h", "-p", "batch", "-o", "%M").split() == ["REQUEUE"]
