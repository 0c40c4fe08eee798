"""Elastic jobs with real daemons: they grow into what their neighbours leave, and make room again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemons import ROOT, Daemons

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


def test_it_makes_room_for_who_waits(daemons: Daemons) -> None:
    job = _elastic(daemons)
    daemons.wait(lambda: "run 0 on 3 (first)" in daemons.read("out"), "it has all there is")
    rigid = _neighbour(daemons, 1)
    daemons.wait_state(rigid, "RUNNING")
    daemons.wait(lambda: "run 1 on 2 (resize)" in daemons.read("out"), "it goes on with the rest")
    (daemons.work / "neighbour").touch()
    daemons.wait(lambda: "run 2 on 3 (resize)" in daemons.read("out"), "it has grown again")
    (daemons.work / "gate").touch()
    daemons.wait_state(job, "COMPLETED")


def test_the_controller_may_be_killed_while_it_ends_its_run_to_grow(daemons: Daemons) -> None:
    neighbour = _neighbour(daemons)
    slow = SIZES.replace("echo saved", "touch asked; sleep 1.5; echo saved")
    job = _elastic(daemons, script=slow)
    daemons.wait(lambda: "run 0 on 1" in daemons.read("out"), "it runs on what there is")
    (daemons.work / "neighbour").touch()
    daemons.wait_state(neighbour, "COMPLETED")
    daemons.wait(lambda: (daemons.work / "asked").exists(), "it is asked to save")
    daemons.kill("controller")
    daemons.start("controller")
    daemons.wait(lambda: "run 1 on 3 (resize)" in daemons.read("out"), "it has grown")
    assert daemons.read("out").count("saved") == 1
    (daemons.work / "gate").touch()
    daemons.wait_state(job, "COMPLETED")
    assert daemons.job(job).requeues == {"resize": 1}


#: Writes its nodes down whenever it is told that they are others.
IN_PLACE = """#!/bin/bash
look() { echo "now $(paste -sd, $MINISLURM_NODELIST_FILE)"; }
trap look USR1
look
until [ -e gate ]; do sleep 0.1; done
srun -l hostname > /dev/null && srun sh -c 'echo task on $SLURMD_NODENAME'
"""


def _in_place(daemons: Daemons, script: str = IN_PLACE, signal: str = "USR1") -> int:
    """`signal`: by which its script is told."""
    told = ("--elastic-signal", signal) if signal else ()
    return _elastic(daemons, "--elastic=in-place", *told, script=script)


def _last(daemons: Daemons) -> str:
    return daemons.read("out").splitlines()[-1] if daemons.read("out") else ""


def test_in_place_the_script_goes_on_and_is_told(daemons: Daemons) -> None:
    neighbour = _neighbour(daemons)
    job = _in_place(daemons)
    daemons.wait(lambda: _last(daemons) == "now n3", "it runs on what there is")
    (daemons.work / "neighbour").touch()
    daemons.wait_state(neighbour, "COMPLETED")
    daemons.wait(lambda: _last(daemons) == "now n3,n1,n2", "it has grown")
    (daemons.work / "neighbour").unlink()
    rigid = _neighbour(daemons, 1)
    daemons.wait_state(rigid, "RUNNING")
    daemons.wait(lambda: len(_last(daemons).split(",")) == 2, "it has given a node back")
    assert daemons.command("squeue", "-h", "-j", str(job), "-o", "%D %T").split() == ["2", "RUNNING"]
    (daemons.work / "gate").touch()
    daemons.wait_state(job, "COMPLETED")
    assert daemons.job(job).run == 1
    tasks = {line for line in daemons.read("out").splitlines() if line.startswith("task")}
    names = [part.node for part in daemons.job(job).allocation]
    assert tasks == {f"task on {name}" for name in names}


def test_a_step_on_a_node_that_is_given_back_ends_there_alone(daemons: Daemons) -> None:
    script = """#!/bin/bash
srun sh -c 'trap "echo left; exit 0" TERM; until [ -e gate ]; do sleep 0.1; done; echo stayed'
"""
    job = _in_place(daemons, script, signal="")
    daemons.wait(lambda: len(daemons.job(job).steps) == 1, "its step runs")
    daemons.wait(lambda: len(daemons.processes_with(f"SLURM_JOB_ID={job}")) >= 7, "all tasks run")
    rigid = _neighbour(daemons, 2)
    daemons.wait_state(rigid, "RUNNING")
    (daemons.work / "gate").touch()
    daemons.wait_state(job, "COMPLETED", "FAILED")
    lines = daemons.read("out").splitlines()
    assert lines.count("left") == 2, lines
    assert lines.count("stayed") == 1


@pytest.mark.parametrize("victim", ["n1", "controller"])
def test_a_daemon_may_be_killed_while_nodes_join(victim: str, tmp_path: Path) -> None:
    """A slow prolog keeps the joining nodes busy; the node's daemon comes back without having heard of it."""
    prolog = tmp_path / "prolog"
    prolog.write_text(f"#!/bin/bash\n[ ! -e {tmp_path}/slow ] || {{ touch {tmp_path}/begun; sleep 1; }}\n")
    prolog.chmod(0o755)
    with Daemons(nodes=3, cpus=4, extra=_EXTRA, node=f'prolog = "{prolog}"') as cluster:
        neighbour = _neighbour(cluster)
        job = _in_place(cluster)
        cluster.wait(lambda: _last(cluster) == "now n3", "it runs on what there is")
        (tmp_path / "slow").touch()
        (cluster.work / "neighbour").touch()
        cluster.wait_state(neighbour, "COMPLETED")
        cluster.wait(lambda: (tmp_path / "begun").exists(), "nodes are being prepared")
        cluster.kill(victim)
        (tmp_path / "slow").unlink()
        cluster.start(victim)
        # A node that had just got ready, and forgot it, leaves and joins again: the order may differ.
        everything = {"n1", "n2", "n3"}
        cluster.wait(
            lambda: set(_last(cluster).removeprefix("now ").split(",")) == everything, "it has grown"
        )
        (cluster.work / "gate").touch()
        cluster.wait_state(job, "COMPLETED")
        assert cluster.job(job).run == 1


def test_a_node_that_is_lost_is_done_without() -> None:
    with Daemons(nodes=3, cpus=4, extra=_EXTRA, node_timeout_s=2.0) as cluster:
        job = _in_place(cluster)
        cluster.wait(lambda: len(_last(cluster).split(",")) == 3, "it has all there is")
        lost = cluster.job(job).allocation[2].node
        cluster.kill(lost)
        cluster.wait(lambda: len(_last(cluster).split(",")) == 2, "it goes on with the rest")
        assert cluster.state(job) == "RUNNING"
        cluster.start(lost)
        cluster.wait(lambda: len(_last(cluster).split(",")) == 3, "it has grown again")
        (cluster.work / "gate").touch()
        cluster.wait_state(job, "COMPLETED")
        assert cluster.job(job).run == 1


def test_its_bounds_and_its_size_are_shown_and_changed(daemons: Daemons) -> None:
    job = _in_place(daemons)
    daemons.wait(lambda: len(_last(daemons).split(",")) == 3, "it has all there is")
    daemons.command("scontrol", "update", f"JobId={job}", "NumNodes=2")
    daemons.wait(lambda: len(_last(daemons).split(",")) == 2, "it has given a node back")
    daemons.wait(lambda: len(daemons.job(job).allocation) == 2, "the node is free")
    shown = daemons.command("scontrol", "show", "job", str(job))
    assert "Elastic=in-place ElasticNodes=1-2 ElasticStep=1 ElasticSignal=USR1" in shown
    assert "ResizedFrom=3 ResizeReason=update" in shown
    assert " NumNodes=2 " in f" {shown} "
    assert "as many as it may have" in daemons.command("minislurm", "why", str(job))
    rigid = _neighbour(daemons, 1)
    daemons.wait_state(rigid, "RUNNING")
    refused = daemons.run("scontrol", "update", f"JobId={rigid}", "NumNodes=2")
    assert refused.returncode == 1
    assert "only an elastic job" in refused.stderr + refused.stdout
    bad = daemons.run("sbatch", "-N2", "--elastic", "--wrap", "true")
    assert bad.returncode == 1
    assert "--elastic needs a range of nodes" in bad.stderr


#: Saves when it is asked to, and says what it starts from.
SAVES = f"""#!/bin/bash
export PYTHONPATH={ROOT}
save() {{ echo 1 > saved; {sys.executable} -m minislurm.cli.scheckpoint report saved --step=7; }}
trap save USR2
echo "on $SLURM_JOB_NUM_NODES from ${{MINISLURM_CHECKPOINT_STEP:-nothing}}"
until [ -e gate ]; do sleep 0.1; done
"""


def test_a_job_that_can_save_is_asked_and_goes_on_from_there(daemons: Daemons) -> None:
    """It does not end by itself: it is ended as soon as it has saved."""
    neighbour = _neighbour(daemons)
    job = _elastic(daemons, "--checkpoint-signal=B:USR2@60", script=SAVES)
    daemons.wait(lambda: "on 1 from nothing" in daemons.read("out"), "it runs on what there is")
    (daemons.work / "neighbour").touch()
    daemons.wait_state(neighbour, "COMPLETED")
    daemons.wait(lambda: "on 3 from 7" in daemons.read("out"), "it has grown")
    assert daemons.job(job).checkpoints[-1].reason == "resize"
    (daemons.work / "gate").touch()
    daemons.wait_state(job, "COMPLETED")
