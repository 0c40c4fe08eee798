"""What a user types, on one running cluster of four declared nodes in the same test module."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator

import pytest

from minislurm.domain.times import format_time
from tests.e2e.daemons import Daemons

pytestmark = pytest.mark.e2e

_RACKS = """
[[topology]]
name = "rack1"
nodes = "n[1-2]"
[[topology]]
name = "rack2"
nodes = "n[3-4]"
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Daemons]:
    with Daemons(nodes=4, cpus=16, gpus=4, extra=_RACKS) as daemons:
        yield daemons


@pytest.fixture(autouse=True)
def clean(cluster: Daemons) -> Iterator[None]:
    """Each test has an empty folder and leaves an empty queue."""
    for path in cluster.work.iterdir():
        path.unlink()
    yield
    cluster.command("scancel", "--me", check=False)
    cluster.wait(lambda: not cluster.jobs(ended=False), "the queue is empty")


# Bad input: Slurm's messages and exit codes

NO_SHEBANG = (
    "sbatch: error: This does not look like a batch script.  The first\n"
    "sbatch: error: line must start with #! followed by the path to an interpreter.\n"
    "sbatch: error: For instance: #!/bin/sh\n"
)
INVALID_PARTITION = (
    "sbatch: error: invalid partition specified: nosuch\n"
    "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
)
TOO_MANY_CPUS = (
    "sbatch: error: CPU count per node can not be satisfied\n"
    "sbatch: error: Batch job submission failed: Requested node configuration is not available\n"
)
TOO_MUCH_MEMORY = (
    "sbatch: error: Memory specification can not be satisfied\n"
    "sbatch: error: Batch job submission failed: Requested node configuration is not available\n"
)


@pytest.mark.parametrize(
    ("words", "stderr", "code"),
    [
        (["-p", "nosuch", "--wrap", "true"], INVALID_PARTITION, 1),
        (["-t", "nonsense", "--wrap", "true"], "sbatch: error: Invalid --time specification\n", 255),
        (["nosuch.sh"], "sbatch: error: Unable to open file nosuch.sh\n", 1),
        (
            ["--bogus", "--wrap", "true"],
            "sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information\n",
            255,
        ),
        (
            ["-d", "garbage", "--wrap", "true"],
            "sbatch: error: Batch job submission failed: Job dependency problem\n",
            1,
        ),
        (
            ["--gres=gpu:9", "--wrap", "true"],
            "sbatch: error: Batch job submission failed: Requested node configuration is not available\n",
            1,
        ),
        (
            ["--gres=tpu:1", "--wrap", "true"],
            "sbatch: error: Invalid generic resource (gres) specification\n",
            1,
        ),
        (["-c", "17", "--wrap", "true"], TOO_MANY_CPUS, 1),
        (["--mem=1T", "--wrap", "true"], TOO_MUCH_MEMORY, 1),
        (["--mem=abc", "--wrap", "true"], "sbatch: error: Invalid --mem specification\n", 255),
        (
            ["-N", "0", "--wrap", "true"],
            "sbatch: error: Batch job submission failed: Node count specification invalid\n",
            1,
        ),
        (["-n", "0", "--wrap", "true"], 'sbatch: error: Invalid numeric value "0" for --ntasks.\n', 1),
        (
            ["-N", "2-1", "--wrap", "true"],
            "sbatch: error: Maximum node count 1 is less than minimum node count 2\n",
            255,
        ),
        (
            ["-w", "nope", "--wrap", "true"],
            "sbatch: error: Batch job submission failed: Invalid node name specified\n",
            1,
        ),
        (
            ["--array=5-1", "--wrap", "true"],
            "sbatch: error: Batch job submission failed: Invalid job array specification\n",
            1,
        ),
        (
            ["--array=0-99999", "--wrap", "true"],
            "sbatch: error: Batch job submission failed: Invalid job array specification\n",
            1,
        ),
        (["--signal=FOO", "--wrap", "true"], "sbatch: error: Invalid --signal specification\n", 255),
        (
            ["--wrap", "true", "job.sh"],
            "sbatch: error: Script arguments not permitted with --wrap option\n",
            1,
        ),
        (
            ["--licenses=x", "--wrap", "true"],
            "sbatch: error: Batch job submission failed: Invalid license specification\n",
            1,
        ),
        (
            ["--reservation=x", "--wrap", "true"],
            "sbatch: error: Batch job submission failed: Requested reservation is invalid\n",
            1,
        ),
        (
            ["--deadline=2020-01-01", "--wrap", "true"],
            "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds "
            "some limit)\n",
            1,
        ),
    ],
)
def test_refused_submissions(cluster: Daemons, words: list[str], stderr: str, code: int) -> None:
    done = cluster.run("sbatch", *words)
    assert done.stderr == stderr
    assert done.returncode == code
    assert done.stdout == ""


def test_scripts_that_are_none(cluster: Daemons) -> None:
    (cluster.work / "nosheb.sh").write_text("echo hi\n")
    (cluster.work / "empty.sh").write_text("")
    (cluster.work / "dos.sh").write_text("#!/bin/sh\r\ntrue\r\n")
    (cluster.work / "badopt.sh").write_text("#!/bin/sh\n#SBATCH --bogus-option\ntrue\n")
    results = {name: cluster.run("sbatch", f"{name}.sh") for name in ("nosheb", "empty", "dos", "badopt")}
    assert results["nosheb"].stderr == NO_SHEBANG
    assert results["empty"].stderr == "sbatch: error: Batch script is empty!\n"
    assert "DOS line breaks" in results["dos"].stderr
    assert results["badopt"].stderr.startswith("sbatch: unrecognized option '--bogus-option'\n")
    assert [results[name].returncode for name in results] == [1, 1, 1, 255]


def test_more_nodes_than_exist_waits_with_its_reason(cluster: Daemons) -> None:
    job = cluster.sbatch("-N", "9", "--wrap", "true")
    cluster.wait(lambda: cluster.reason(job) == "PartitionNodeLimit", "its reason")
    assert re.search(r" PD +0:00 +9 \(PartitionNodeLimit\)", cluster.command("squeue"))


def test_ids_that_do_not_exist(cluster: Daemons) -> None:
    assert cluster.run("scancel", "999999").returncode == 0
    assert cluster.run("scancel", "999999").stderr == ""
    wrong = cluster.run("scancel", "abc")
    assert (wrong.stderr, wrong.returncode) == ("scancel: error: Invalid job id abc\n", 1)
    none = cluster.run("scancel")
    assert (none.stderr, none.returncode) == ("scancel: error: No job identification provided\n", 1)
    unknown = cluster.run("squeue", "-j", "999999")
    assert (unknown.stderr, unknown.returncode) == ("slurm_load_jobs error: Invalid job id specified\n", 1)
    shown = cluster.run("scontrol", "show", "job", "999999")
    assert (shown.stderr, shown.returncode) == ("slurm_load_jobs error: Invalid job id specified\n", 1)
    held = cluster.run("scontrol", "hold", "999999")
    assert held.stderr.startswith("Invalid job id specified for job 999999\n")
    assert held.returncode == 1
    signalled = cluster.run("scancel", "-s", "USR1", "999999")
    assert signalled.stderr == "scancel: error: Kill job error on job id 999999: Invalid job id specified\n"


def test_cancelled_job_can_be_cancelled_again(cluster: Daemons) -> None:
    job = cluster.sbatch("--hold", "--wrap", "true")
    cluster.command("scancel", str(job))
    assert cluster.state(job) == "CANCELLED"
    again = cluster.run("scancel", str(job))
    assert (again.returncode, again.stderr) == (0, "")


# Batch jobs


def test_script_from_file_stdin_and_wrap(cluster: Daemons) -> None:
    path = cluster.script('#SBATCH -J "my job" -o out.%j --comment=\'a b\'\necho "$@" $SLURM_JOB_NAME\n')
    first = cluster.sbatch(path, "one", "two words")
    second = int(
        cluster.command(
            "sbatch", "--parsable", stdin="#!/bin/sh\n#SBATCH -o %x-%u.log -J piped\necho stdin\n"
        )
    )
    for job in (first, second):
        cluster.wait_state(job, "COMPLETED")
    assert cluster.read(f"out.{first}") == "one two words my job\n"
    logs = [p for p in cluster.work.iterdir() if p.name.startswith("piped-")]
    assert [p.read_text() for p in logs] == ["stdin\n"]
    assert cluster.job(first).comment == "a b"


def test_output_files_are_private_unless_said_otherwise(cluster: Daemons) -> None:
    private = cluster.sbatch("-o", "private", "--wrap", "true")
    public = cluster.sbatch("-o", "public", "--output-mode=0644", "--wrap", "true")
    for job in (private, public):
        cluster.wait_state(job, "COMPLETED")
    modes = {name: stat.S_IMODE(os.stat(cluster.work / name).st_mode) for name in ("private", "public")}
    assert modes == {"private": 0o600, "public": 0o644}


def test_environment_of_a_batch_script(cluster: Daemons) -> None:
    job = cluster.sbatch(
        "-N2",
        "-n4",
        "-c2",
        "--gres=gpu:2",
        "-J",
        "envjob",
        "-o",
        "env",
        "--wrap",
        "env -0 | tr '\\n\\0' ' \\n'",
    )
    cluster.wait_state(job, "COMPLETED")
    found = dict(line.split("=", 1) for line in cluster.read("env").splitlines() if "=" in line)
    expected = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "SLURM_CPUS_ON_NODE": "6",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_JOBID": str(job),
        "SLURM_JOB_CPUS_PER_NODE": "6,2",
        "SLURM_JOB_GPUS": "0,1",
        "SLURM_JOB_NAME": "envjob",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_PARTITION": "batch",
        "SLURM_NNODES": "2",
        "SLURM_NODEID": "0",
        "SLURM_NPROCS": "4",
        "SLURM_NTASKS": "4",
        "SLURM_PROCID": "0",
        "SLURM_SUBMIT_DIR": str(cluster.work),
        "SLURM_TASKS_PER_NODE": "3,1",
        "SLURM_TOPOLOGY_ADDR": "rack1.n1",
        "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.node",
    }
    assert {key: found.get(key) for key in expected} == expected
    assert "SLURM_RESTART_COUNT" not in found
    assert "SLURM_NTASKS_PER_NODE" not in found


def test_array_with_a_limit(cluster: Daemons) -> None:
    gate = "until [ -e gate ]; do sleep 0.05; done"
    job = cluster.sbatch(
        "--array=0-9%2", "-o", "%A_%a.out", "--wrap", f"echo $SLURM_ARRAY_TASK_ID; {gate}; sleep 0.05"
    )
    seen: set[int] = {0}

    def has_ended() -> bool:
        states = [j.state.value for j in cluster.jobs(ended=False) if j.array_task_id is not None]
        seen.add(sum(state in ("RUNNING", "CONFIGURING", "COMPLETING") for state in states))
        return not cluster.jobs(ended=False)

    cluster.wait(lambda: has_ended() or max(seen) >= 2, "as many run as may")
    (cluster.work / "gate").touch()
    cluster.wait(has_ended, "the array ends")
    assert max(seen) == 2
    assert [cluster.read(f"{job}_{i}.out") for i in range(10)] == [f"{i}\n" for i in range(10)]


def test_pending_array_in_the_queue(cluster: Daemons) -> None:
    job = cluster.sbatch("--array=1-5,9%2", "--hold", "--wrap", "true")
    assert f"{job}_[1-5,9%2]" in cluster.command("squeue")
    assert cluster.command("squeue", "-h", "-r", "-o", "%i").split() == [
        f"{job}_{i}" for i in (1, 2, 3, 4, 5, 9)
    ]
    cluster.command("scancel", f"{job}_[2-3]")
    assert f"{job}_[1,4-5,9%2]" in cluster.command("squeue", "-h", "-o", "%i")


def test_dependencies(cluster: Daemons) -> None:
    gate = "until [ -e gate ]; do sleep 0.05; done; exit 3"
    first = cluster.sbatch("-o", "/dev/null", "--wrap", gate)
    ok = cluster.sbatch("-d", f"afterok:{first}", "--wrap", "true")
    notok = cluster.sbatch("-d", f"afternotok:{first}", "-o", "notok", "--wrap", "echo ran")
    anyway = cluster.sbatch("-d", f"afterany:{first}", "--wrap", "true")
    unknown = cluster.sbatch("-d", "afterok:999999", "--wrap", "true")
    killed = cluster.sbatch("-d", f"afterok:{first}", "--kill-on-invalid-dep=yes", "--wrap", "true")
    cluster.wait_state(unknown, "COMPLETED")
    assert cluster.reason(ok) == "Dependency"
    assert cluster.command("squeue", "-h", "-j", str(ok), "-o", "%E") == f"afterok:{first}(unfulfilled)\n"
    (cluster.work / "gate").touch()
    for job in (notok, anyway):
        cluster.wait_state(job, "COMPLETED")
    cluster.wait_state(killed, "CANCELLED")
    assert cluster.state(ok) == "PENDING"
    assert cluster.reason(ok) == "DependencyNeverSatisfied"


def test_wait_returns_the_jobs_exit_code(cluster: Daemons) -> None:
    assert cluster.run("sbatch", "-W", "--wrap", "exit 5").returncode == 5
    # The task that ends last has the highest code, and not the array's own id.
    last = "[ $SLURM_ARRAY_TASK_ID = 0 ] && { sleep 0.5; exit 7; }; exit $SLURM_ARRAY_TASK_ID"
    assert cluster.run("sbatch", "-W", "--array=0-2", "--wrap", last).returncode == 7
    assert cluster.run("sbatch", "-W", "--wrap", "kill -9 $$").returncode == 1


def test_test_only_says_when_and_keeps_nothing(cluster: Daemons) -> None:
    before = {job.id for job in cluster.jobs()}
    done = cluster.run("sbatch", "--test-only", "-N2", "--wrap", "true")
    assert done.returncode == 0
    assert re.fullmatch(
        r"sbatch: Job \d+ to start at \S+ using 2 processors on nodes n\[1-2\] in partition batch\n",
        done.stderr,
    )
    assert {job.id for job in cluster.jobs()} <= before


def test_every_pending_job_has_a_start_and_an_explanation(cluster: Daemons) -> None:
    first = cluster.sbatch("-N4", "--exclusive", "-t", "60", "--wrap", "sleep 600")
    cluster.wait_state(first, "RUNNING")
    ids = [cluster.sbatch("-N3", "--exclusive", "-t", "30", "--wrap", "true") for _ in range(2)]
    after = cluster.sbatch("-d", f"afterany:{ids[1]}", "-t", "5", "--wrap", "true")
    held = cluster.sbatch("--hold", "--wrap", "true")
    lines = cluster.command("squeue", "--start", "-h", "-o", "%i %S %Y").splitlines()
    starts = dict(line.split(" ", 1) for line in lines)
    begun = cluster.job(first).start_time
    times = [format_time(begun + 60 * minutes) for minutes in (60, 90, 120)]
    assert [starts[str(job)].split()[0] for job in (*ids, after)] == times
    assert starts[str(ids[1])].split()[1] == "n[1-3]"
    assert starts[str(held)] == "N/A (null)"
    assert f"StartTime={times[1]} " in cluster.command("scontrol", "show", "job", str(ids[1]))
    told = cluster.command("minislurm", "why", str(ids[1]))
    assert "  4 cpus busy\n" in told
    assert f"1 job before it wants the same nodes: {ids[0]} " in told
    assert f"Expected start: at {times[1]} " in told
    assert json.loads(cluster.command("minislurm", "why", "--json", str(ids[0])))["reason"] == "Resources"
    assert "WhyNotNodes=cpus busy:4" in cluster.command("scontrol", "-d", "show", "job", str(ids[0]))
    unknown = cluster.run("minislurm", "why", "4000000")
    assert (unknown.returncode, unknown.stderr) == (1, "minislurm: error: Invalid job id specified\n")


def test_signal_before_the_limit_to_the_batch_shell(cluster: Daemons) -> None:
    script = cluster.script("trap 'echo caught; exit 0' USR1\nfor i in $(seq 200); do sleep 0.05; done\n")
    job = cluster.sbatch("--signal=B:USR1@8", "-t", "0:10", "-o", "out", script)
    cluster.wait_state(job, "COMPLETED")
    assert cluster.read("out") == "caught\n"
    record = cluster.job(job)
    assert record.end_time - record.start_time > 1.9, "8 s before the 10 s are over, not at once"


def test_signals_by_scancel(cluster: Daemons) -> None:
    """-s goes to the steps alone, -b -s to the script alone; the job runs on."""
    script = cluster.script(
        "trap 'echo shell; touch shell' USR1\n"
        'srun bash -c \'trap "echo task; touch task" USR1; touch ready;'
        " until [ -e gate ]; do sleep 0.05; done' &\n"
        "until [ -e gate ]; do sleep 0.05; done; wait\n"
    )
    job = cluster.sbatch("-o", "out", script)
    cluster.wait(lambda: (cluster.work / "ready").exists(), "the step runs")
    cluster.command("scancel", "-s", "USR1", str(job))
    cluster.wait(lambda: (cluster.work / "task").exists(), "the task has it")
    assert not (cluster.work / "shell").exists()
    cluster.command("scancel", "-b", "-s", "USR1", str(job))
    cluster.wait(lambda: (cluster.work / "shell").exists(), "the shell has it")
    assert cluster.state(job) == "RUNNING"
    (cluster.work / "gate").touch()
    cluster.wait_state(job, "COMPLETED")
    # Each had one of the two signals.
    lines = cluster.read("out").split("\n")
    assert (lines.count("shell"), lines.count("task")) == (1, 1)


def test_requeue_from_inside(cluster: Daemons) -> None:
    script = cluster.script(
        'if [ -z "$SLURM_RESTART_COUNT" ]; then scontrol requeue $SLURM_JOB_ID; sleep 30; exit 9; fi\n'
        "echo again $SLURM_RESTART_COUNT $MINISLURM_RESTART_REASON\n"
    )
    job = cluster.sbatch("-o", "out", script)
    cluster.wait_state(job, "COMPLETED")
    assert cluster.read("out") == "again 1 user\n"
    assert cluster.job(job).run == 2
    refused = cluster.sbatch("--no-requeue", "--wrap", "sleep 30")
    cluster.wait_state(refused, "RUNNING")
    done = cluster.run("scontrol", "requeue", str(refused))
    assert done.returncode == 1
    assert f"Requested operation is presently disabled for job {refused}" in done.stderr


def test_cancel_runs_traps_and_stays_cancelled(cluster: Daemons) -> None:
    script = cluster.script("trap 'echo trapped; exit 0' TERM\ntouch ready\nsleep 300\n")
    job = cluster.sbatch("-o", "out", script)
    cluster.wait(lambda: (cluster.work / "ready").exists(), "the script runs")
    cluster.command("scancel", str(job))
    cluster.wait_state(job, "CANCELLED")
    output = cluster.read("out")
    assert "trapped" in output
    assert re.search(rf"\*\*\* JOB {job} ON n\d CANCELLED AT \S+ \*\*\*", output)


def test_cancel_gives_the_tasks_of_a_step_their_time(cluster: Daemons) -> None:
    """srun is told to end with the rest of the job, and must not kill what is saving its work."""
    (cluster.work / "task.sh").write_text(
        "trap 'echo term >> log; for i in 1 2 3 4; do sleep 0.1; echo tick >> log; done; exit 0' TERM\n"
        "touch ready; while :; do sleep 0.05; done\n"
    )
    job = cluster.sbatch("-o", "out", cluster.script("srun -n1 bash task.sh\n"))
    cluster.wait(lambda: (cluster.work / "ready").exists(), "the step runs")
    cluster.command("scancel", str(job))
    cluster.wait_state(job, "CANCELLED")
    assert cluster.read("log").split() == ["term"] + 4 * ["tick"]


def test_gangs_are_whole_and_on_the_fewest_racks(cluster: Daemons) -> None:
    # n1 and n3 would be the first two that are free.
    single = cluster.sbatch("-w", "n2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 300")
    cluster.wait_state(single, "RUNNING")
    pair = cluster.sbatch("-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 300")
    cluster.wait_state(pair, "RUNNING")
    assert sorted(part.node for part in cluster.job(pair).allocation) == ["n3", "n4"]
    waiting = cluster.sbatch("-N2", "--wrap", "true")
    cluster.wait(lambda: cluster.reason(waiting) == "Resources", "it says why it waits")
    assert not cluster.job(waiting).allocation


def test_hold_release_update(cluster: Daemons) -> None:
    job = cluster.sbatch("--begin=now+1hour", "-o", "out", "--wrap", "echo $SLURM_JOB_NAME")
    assert cluster.reason(job) == "BeginTime"
    cluster.command("scontrol", "hold", str(job))
    cluster.command("scontrol", "update", f"JobId={job}", "StartTime=now", "Name=renamed", "TimeLimit=5")
    assert cluster.reason(job) in ("JobHeldUser", "JobHeldAdmin")
    cluster.command("scontrol", "release", str(job))
    cluster.wait_state(job, "COMPLETED")
    assert cluster.read("out") == "renamed\n"
    assert cluster.job(job).time_limit_s == 300


def test_a_waiting_job_asks_for_something_else(cluster: Daemons) -> None:
    wrap = "echo $SLURM_NTASKS $SLURM_GPUS_ON_NODE $SLURM_JOB_NUM_NODES"
    job = cluster.sbatch("-H", "-N2", "-n2", "--gpus-per-node=1", "-o", "out", "--wrap", wrap)
    update = ("scontrol", "update", f"JobId={job}")
    refused = cluster.run(*update, "TresPerNode=gpu:5")
    assert refused.stderr == f"Requested node configuration is not available for job {job}\n"
    assert refused.returncode == 1
    cluster.command(*update, "Gres=gpu:3", "NumNodes=1", "NumTasks=4", "Topology=rack", "Switches=1@5")
    shown = cluster.command("scontrol", "show", "job", str(job))
    for line in ("TresPerNode=gres:gpu:3", "NumNodes=1-1 ", "NumTasks=4 ", "Switches=1@00:05:00",
                 "Topology=rack:preferred "):  # fmt: skip
        assert line in shown, shown
    cluster.command("scontrol", "release", str(job))
    cluster.wait_state(job, "COMPLETED")
    assert cluster.read("out") == "4 3 1\n"


def test_drain_and_resume(cluster: Daemons) -> None:
    cluster.command("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=fan is broken")
    try:
        assert "drain" in cluster.command("sinfo", "-h", "-n", "n4", "-N", "-o", "%t")
        assert "fan is broken" in cluster.command("sinfo", "-R")
        job = cluster.sbatch("-w", "n4", "--wrap", "true")
        cluster.wait(lambda: cluster.reason(job) == "ReqNodeNotAvail", "it waits for the node")
    finally:
        cluster.command("scontrol", "update", "NodeName=n4", "State=RESUME")
    cluster.wait_state(job, "COMPLETED")


# srun


def test_srun_in_an_allocation(cluster: Daemons) -> None:
    script = cluster.script(
        "srun -l bash -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES'\n"
        "echo hello | srun -n2 cat\n"
        "srun bash -c 'exit $SLURM_PROCID'; echo rc $?\n"
        "srun -n1 bash -c 'kill -9 $$'; echo rc $?\n"
        "srun -n1 /no/such/program; echo rc $?\n"
    )
    job = cluster.sbatch("-N2", "--ntasks-per-node=2", "--gpus-per-node=2", "-o", "out", script)
    cluster.wait_state(job, "COMPLETED")
    output = cluster.read("out")
    labelled = sorted(line for line in output.splitlines() if re.match(r"\d: ", line))
    assert labelled == ["0: 0 0 n1 0,1", "1: 1 1 n1 0,1", "2: 2 0 n2 0,1", "3: 3 1 n2 0,1"]
    assert output.count("hello\n") == 2
    assert [line for line in output.splitlines() if line.startswith("rc")] == ["rc 3", "rc 137", "rc 2"]
    assert "execve(): /no/such/program: No such file or directory" in output


def test_step_layout_is_that_of_a_real_slurm(cluster: Daemons) -> None:
    job = cluster.sbatch(
        "-N2",
        "-n4",
        "-c2",
        "-o",
        "out",
        "--wrap",
        "srun -l sh -c 'echo $SLURM_STEP_TASKS_PER_NODE $SLURM_CPUS_PER_TASK'",
    )
    cluster.wait_state(job, "COMPLETED")
    assert sorted(cluster.read("out").splitlines()) == [f"{i}: 2(x2) 2" for i in range(4)]


def test_srun_outside_allocates_and_lets_go(cluster: Daemons) -> None:
    done = cluster.run("srun", "-N2", "-l", "bash", "-c", "cat; exit 7", stdin="in\n")
    assert sorted(done.stdout.splitlines()) == ["0: in", "1: in"]
    assert done.returncode == 7
    assert "Exited with exit code 7" in done.stderr
    cluster.wait(lambda: not cluster.jobs(ended=False), "the allocation is gone")
    refused = cluster.run("srun", "-p", "nosuch", "true")
    assert refused.stderr == (
        "srun: error: invalid partition specified: nosuch\n"
        "srun: error: Unable to allocate resources: Invalid partition name specified\n"
    )
    assert refused.returncode == 1


def test_srun_binary_output_and_input_arrive_whole(cluster: Daemons) -> None:
    data = os.urandom(3_000_000)
    (cluster.work / "data").write_bytes(data)
    cluster.command("bash", "-c", "srun -n1 cat < data > copy")
    assert (cluster.work / "copy").read_bytes() == data


def test_scontrol_hostnames(cluster: Daemons) -> None:
    assert cluster.command("scontrol", "show", "hostnames", "n[1-3,7]") == "n1\nn2\nn3\nn7\n"
    assert cluster.command("scontrol", "show", "hostlist", "n1,n2,n3,n7") == "n[1-3,7]\n"
    assert re.fullmatch(r"Slurmctld\(primary\) at \S+ is UP\n", cluster.command("scontrol", "ping"))
    assert re.search(r"^MinJobAge +=", cluster.command("scontrol", "show", "config"), re.M)


def test_jobs_share_a_gpu(cluster: Daemons) -> None:
    script = cluster.script("srun sh -c 'echo $CUDA_VISIBLE_DEVICES $MINISLURM_GPU_SHARE'; sleep 30\n")
    jobs = [
        cluster.sbatch(f"--gpus={part}", "-w", "n2", "-o", f"out{part}", script) for part in ("0.6", "0.4")
    ]
    other = cluster.sbatch("--gpus-per-node=1", "-w", "n2", "-o", "whole", script)
    for job in (*jobs, other):
        cluster.wait_state(job, "RUNNING")
    cluster.wait(lambda: all(cluster.read(f) for f in ("out0.6", "out0.4", "whole")), "they have started")
    assert (cluster.read("out0.6"), cluster.read("out0.4")) == ("0 0.6\n", "0 0.4\n")
    assert cluster.read("whole") == "1\n"
    text = cluster.command("scontrol", "-d", "show", "node", "n2")
    assert "GresUsed=gpu:2(IDX:0-1),share:1(IDX:0)" in text
    assert re.search(r"AllocTRES=cpu=3,\S*gres/gpu=2\n", text)
    text = cluster.command("scontrol", "-d", "show", "job", str(jobs[0]))
    assert "GRES=gpu:0.6(IDX:0)" in text
    assert "gres/gpu=0.6" in text
