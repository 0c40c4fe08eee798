"""Heterogeneous jobs on a real cluster: one start, the script's environment, one end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.e2e.daemons import Daemons

pytestmark = pytest.mark.e2e

_SCRIPT = """#!/bin/bash
#SBATCH -J master -n1 -c8 -t 5
#SBATCH hetjob
#SBATCH -J workers -N2 --gpus-per-node=2 -c4
env | grep -E '_HET_(SIZE|GROUP)' | sort
echo "id $SLURM_JOB_ID on $SLURM_JOB_NODELIST"
srun -n1 bash -c 'echo "step of $SLURM_JOB_ID on $SLURMD_NODENAME"'
touch started
while [ ! -e go ]; do sleep 0.05; done
exit 3
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Daemons]:
    with Daemons(nodes=3, cpus=8, gpus=2) as daemons:
        yield daemons


@pytest.fixture(autouse=True)
def clean(cluster: Daemons) -> Iterator[None]:
    for path in cluster.work.iterdir():
        path.unlink()
    yield
    cluster.command("scancel", "--me", check=False)
    cluster.wait(lambda: not cluster.jobs(ended=False), "the queue is empty")


def _submit(cluster: Daemons, *words: str) -> int:
    return int(cluster.command("sbatch", "--parsable", *words))


def _queue(cluster: Daemons, *words: str) -> list[str]:
    return cluster.command("squeue", "-h", "-o", "%i %t %N", "-S", "i", *words).splitlines()


def _started(cluster: Daemons) -> None:
    cluster.wait(lambda: (cluster.work / "started").exists(), "the script runs")


def test_a_script_with_two_components(cluster: Daemons) -> None:
    (cluster.work / "het.sh").write_text(_SCRIPT)
    said = cluster.command("sbatch", "het.sh")
    leader = int(said.split()[-1])
    assert said == f"Submitted batch job {leader}\n"
    _started(cluster)
    rows = _queue(cluster)
    assert [row.split()[:2] for row in rows] == [[f"{leader}+0", "R"], [f"{leader}+1", "R"]]
    master, workers = (row.split()[2] for row in rows)
    assert _queue(cluster, "-j", str(leader + 1)) == rows
    shown = cluster.command("scontrol", "show", "job", str(leader))
    assert re.findall(r"HetJobId=(\d+) HetJobOffset=(\d)", shown) == [(str(leader), "0"), (str(leader), "1")]
    assert f"HetJobIdSet={leader}-{leader + 1}" in shown
    (cluster.work / "go").touch()
    cluster.wait(lambda: not cluster.jobs(ended=False), "it has ended")
    ended = {job.id: (job.state.value, job.exit_code) for job in cluster.jobs()}
    assert (ended[leader], ended[leader + 1]) == (("FAILED", 3), ("FAILED", 3))
    output = (cluster.work / f"slurm-{leader}.out").read_text().splitlines()
    assert f"id {leader} on {master}" in output
    assert f"step of {leader} on {master}" in output
    for line in (
        "SLURM_HET_SIZE=2",
        f"SLURM_JOB_ID_HET_GROUP_0={leader}",
        f"SLURM_JOB_ID_HET_GROUP_1={leader + 1}",
        f"SLURM_JOB_NODELIST_HET_GROUP_0={master}",
        f"SLURM_JOB_NODELIST_HET_GROUP_1={workers}",
        "SLURM_JOB_NUM_NODES_HET_GROUP_1=2",
        "SLURM_CPUS_PER_TASK_HET_GROUP_1=4",
        "SLURM_JOB_NAME_HET_GROUP_1=workers",
    ):
        assert line in output


def test_components_on_the_command_line_go_through_a_restart(cluster: Daemons) -> None:
    """A step may use a component's own id; the controller dies; one component, then all are cancelled."""
    script = "touch started; sleep 100"
    leader = _submit(
        cluster, "-n1", "-c2", ":", "-n1", "-c2", ":", "-N1", "--gpus-per-node=1", "--wrap", script
    )
    _started(cluster)
    second = cluster.run("env", f"SLURM_JOB_ID={leader + 1}", "srun", "-n1", "printenv", "SLURM_JOB_ID")
    assert second.stdout == f"{leader + 1}\n", second.stderr
    cluster.kill("controller")
    cluster.start("controller")
    assert [row.split()[1] for row in _queue(cluster)] == ["R"] * 3
    cluster.command("scancel", f"{leader}+1")
    cluster.wait(lambda: len(_queue(cluster)) == 2, "one component is gone")
    cluster.command("scancel", str(leader))
    cluster.wait(lambda: not cluster.jobs(ended=False), "all are gone")
    assert {job.state.value for job in cluster.jobs() if job.id >= leader} == {"CANCELLED"}
    cluster.wait(lambda: all(view.state == "IDLE" for view in cluster.nodes()), "nothing is left behind")


def test_what_waits_for_all_of_its_nodes(cluster: Daemons) -> None:
    """Two of three nodes are free, three are needed: nothing of it starts until the third is."""
    blocker = _submit(cluster, "-N1", "--exclusive", "-t", "10", "--wrap", "sleep 100")
    cluster.wait(lambda: "R" in _queue(cluster)[0], "the blocker runs")
    options = ("-N1", "-c8", "-t", "1", ":", "-N2", "-c8")
    leader = _submit(cluster, *options, "--wrap", "touch started; sleep 100")
    cluster.wait(lambda: "Resources" in cluster.command("squeue", "-h", "-o", "%r"), "it waits")
    assert [row.split()[1] for row in _queue(cluster)] == ["R", "PD", "PD"]
    refused = cluster.run("scancel", f"{leader}+1")
    assert refused.returncode == 60
    assert refused.stderr.endswith("Operation not permitted on individual component of heterogeneous job\n")
    why = cluster.command("minislurm", "why", f"{leader}+1")
    assert f"Job {leader}+1 (wrap) in partition batch is PENDING (Resources)." in why
    assert "of the heterogeneous job finds no room beside those before it." in why
    tested = cluster.run("sbatch", "--test-only", *options, "--wrap", "true")
    assert "using 24 processors on nodes n[1-3] in partition batch" in tested.stderr
    cluster.command("scontrol", "hold", str(leader))
    cluster.command("scancel", str(blocker))
    cluster.wait(lambda: len(_queue(cluster)) == 2, "the blocker is gone")
    assert cluster.command("squeue", "-h", "-o", "%t %.7r").splitlines() == ["PD JobHeld"] * 2
    cluster.command("scontrol", "release", str(leader))
    _started(cluster)
    assert [row.split()[1] for row in _queue(cluster)] == ["R", "R"]


def test_one_that_can_never_fit_refuses_all(cluster: Daemons) -> None:
    before = len(cluster.jobs())
    refused = cluster.run("sbatch", "-N1", ":", "-N1", "-c9", "--wrap", "true")
    assert refused.returncode == 1
    assert refused.stderr == (
        "sbatch: error: CPU count per node can not be satisfied\n"
        "sbatch: error: Component 1 of the heterogeneous job can not be accepted\n"
        "sbatch: error: Batch job submission failed: Requested node configuration is not available\n"
    )
    assert len(cluster.jobs()) == before


def test_wait_for_the_end_of_all(cluster: Daemons) -> None:
    done = cluster.run("sbatch", "--wait", "-n1", ":", "-N2", "--wrap", "exit 5")
    assert done.returncode == 5
    assert not cluster.jobs(ended=False)
