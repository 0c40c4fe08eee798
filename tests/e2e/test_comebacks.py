"""Jobs that come back: on a spare node at once, over time limits, after failures, until they have done so too
often; and nodes that drain themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.daemons import Daemons

pytestmark = pytest.mark.e2e


def test_a_lost_node_is_replaced_by_the_spare_at_once() -> None:
    with Daemons(nodes=4, cpus=2, node_timeout_s=2.5, timers="node_grace_s = 1.0") as daemons:
        script = daemons.script(
            "srun sh -c 'echo ${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME ${MINISLURM_RESTART_REASON:-none}"
            " $SLURM_JOB_NUM_NODES $SLURM_NTASKS >> ranks; exec sleep 600'\n"
        )
        job = daemons.sbatch("-N3", "-n3", "--exclusive", "--spare-nodes=1", "-o", "out", script)
        daemons.wait(lambda: daemons.read("ranks").count("\n") == 3, "all ranks run")
        assert sorted(daemons.read("ranks").split("\n")[:3]) == [f"0 n{i} none 3 3" for i in (1, 2, 3)]
        shown = daemons.command("scontrol", "show", "job", str(job))
        assert "SpareNodes=1 SpareNodeList=n4" in shown
        waiting = daemons.sbatch("--exclusive", "-o", "/dev/null", "--wrap", "true")
        assert daemons.state(waiting) == "PENDING", "the spare is held"
        daemons.kill("n2")
        daemons.wait(lambda: daemons.read("ranks").count("\n") == 6, "all ranks run again")
        again = sorted(line for line in daemons.read("ranks").splitlines() if line.startswith("1"))
        assert again == [f"1 n{i} node_fail 3 3" for i in (1, 3, 4)]
        assert daemons.state(waiting) == "PENDING", "nobody came in between"
        record = daemons.job(job)
        assert (record.run, record.requeues) == (2, {"node_fail": 1})


def test_a_training_goes_on_across_time_limits() -> None:
    """It is told before, saves, and is back; what it wrote before is kept."""
    with Daemons(nodes=1, cpus=2) as daemons:
        script = daemons.script(
            "trap 'echo \"saved in run ${SLURM_RESTART_COUNT:-0}\"; exit 0' TERM\n"
            "echo run ${SLURM_RESTART_COUNT:-0} ${MINISLURM_RESTART_REASON:-none}\n"
            '[ "${SLURM_RESTART_COUNT:-0}" = 2 ] && exit 0\n'
            "while :; do sleep 0.05; done\n"
        )
        job = daemons.sbatch("-t", "0:01", "--requeue-on-timeout", "-o", "out", script)
        daemons.wait_state(job, "COMPLETED")
        output = [line for line in daemons.read("out").splitlines() if "run " in line]
        assert output == [
            "run 0 none",
            "saved in run 0",
            "run 1 timeout",
            "saved in run 1",
            "run 2 timeout",
        ]
        assert daemons.job(job).requeues == {"timeout": 2}


def test_a_job_that_fails_too_often_is_held_and_says_so() -> None:
    with Daemons(nodes=1, cpus=2) as daemons:
        job = daemons.sbatch(
            "--on-task-fail=requeue", "--max-requeues=task_fail:2", "-o", "/dev/null", "--wrap",
            "echo x >> runs; exit 3",
        )  # fmt: skip
        daemons.wait(lambda: daemons.reason(job) == "JobHoldMaxRequeue", "it is held")
        assert daemons.read("runs") == "x\n" * 3
        assert daemons.state(job) == "PENDING"
        shown = daemons.command("scontrol", "show", "job", str(job))
        assert "Requeues=task_fail:3 MaxRequeues=task_fail:2 OnTaskFail=requeue" in shown
        ended = daemons.sbatch("--on-task-fail=end", "-o", "/dev/null", "--wrap", "exit 3")
        daemons.wait_state(ended, "FAILED")


def test_a_node_whose_check_fails_drains_itself_and_comes_back() -> None:
    with Daemons(nodes=2, cpus=2) as probe:
        check = probe.folder / "check"
        check.write_text(
            "#!/bin/sh\n"
            f"[ -e {probe.folder}/broken ] || exit 0\n"
            '[ "$SLURMD_NODENAME" = n1 ] && echo "fan 3 stands" && exit 1\n'
            "exit 0\n"
        )
        check.chmod(0o755)
        for name in probe.names:
            probe.stop(name)
        settings = f'[node]\nhealth_check_program = "{check}"\nhealth_check_interval_s = 0.3\n'
        probe.path.write_text(probe.path.read_text().replace("[node]\n", settings))
        for name in probe.names:
            probe.start(name)
        probe.wait(lambda: all(view.state == "IDLE" for view in probe.nodes()), "the nodes are back")
        (probe.folder / "broken").touch()
        probe.wait(lambda: probe.nodes()[0].state == "IDLE+DRAIN", "the node drains itself")
        assert probe.nodes()[0].node.reason == "Health: fan 3 stands (check)"
        assert probe.nodes()[1].state == "IDLE"
        assert "Health: fan 3 stands" in probe.command("sinfo", "-R")
        job = probe.sbatch("-w", "n1", "-o", "out", "--wrap", "echo ran")
        assert probe.state(job) == "PENDING"
        (probe.folder / "broken").unlink()
        probe.wait_state(job, "COMPLETED")
        assert probe.read("out") == "ran\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-requeues=bogus:3"], "Invalid --max-requeues specification"),
        (["--on-node-fail=explode"], "Invalid --on-node-fail specification"),
        (["--on-node-fail=replace"], "--on-node-fail=replace needs --spare-nodes"),
        (["--spare-nodes=1", "-N1-2"], "--spare-nodes needs a fixed number of nodes"),
        (["--no-requeue", "--requeue-on-timeout"], "contradict each other"),
    ],
)
def test_what_cannot_be_asked(words: list[str], said: str, quiet: Daemons) -> None:
    done = quiet.run("sbatch", *words, "--wrap", "true")
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def quiet() -> Iterator[Daemons]:
    with Daemons(nodes=2, cpus=2) as daemons:
        yield daemons
