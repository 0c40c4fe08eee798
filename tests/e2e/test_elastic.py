"""Elastic jobs with real daemons: they grow into what their neighbours leave, and make room again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.daemons import Daemons

pytestmark = pytest.mark.e2e

_EXTRA = """
[elastic]
grow_cooldown_s = 0.5
shrink_cooldown_s = 0.5
[preemption]
grace_s = 3
"""

#: Says its size, saves when it is told to go.
SIZES = """#!/bin/bash
echo "run ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NUM_NODES (${MINISLURM_RESTART_REASON:-first})"
trap 'echo saved; exit 0' TERM
until [ -e gate ]; do sleep 0.1; done
"""


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    with Daemons(nodes=3, cpus=4, extra=_EXTRA) as cluster:
        yield cluster


def _elastic(daemons: Daemons, *options: str, script: str = SIZES) -> int:
    (daemons.work / "elastic.sh").write_text(script)
    return daemons.sbatch("-N1-3", "--exclusive", "--elastic", "-o", "out", *options, "elastic.sh")


def _neighbour(daemons: Daemons, nodes: int = 2) -> int:
    gate = "until [ -e neighbour ]; do sleep 0.1; done"
    return daemons.sbatch(f"-N{nodes}", "--exclusive", "-o", "/dev/null", "--wrap", gate)


def test_it_grows_when_a_neighbour_ends(daemons: Daemons) -> None:
    neighbour = _neighbour(daemons)
    job = _elastic(daemons)
    daemons.wait(lambda: "run 0 on 1 (first)" in daemons.read("out"), "it runs on what there is")
    (daemons.work / "neighbour").touch()
    daemons.wait_state(neighbour, "COMPLETED")
    daemons.wait(lambda: "run 1 on 3 (resize)" in daemons.read("out"), "it has grown")
    assert daemons.read("out").count("saved") == 1
    assert daemons.command("squeue", "-h", "-j", str(job), "-o", "%D %T").split() == ["3", "RUNNING"]
    (daemons.work / "gate").touch()
    daemons.wait_state(job, "COMPLETED")
    assert daemons.job(job).requeues == {"resize": 1}
