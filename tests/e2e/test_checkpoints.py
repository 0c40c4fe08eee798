"""Checkpoints with real daemons: reported, offered to the next run, asked for, waited for, deleted."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest

from minislurm.domain.checkpoint import Checkpoint
from tests.e2e.daemons import ROOT, Daemons

pytestmark = pytest.mark.e2e

#: Far longer than any of these jobs takes to save: a test that waits for it fails.
GRACE_S = 60
_EXTRA = f"""
[[partitions]]
name = "urgent"
nodes = "ALL"
priority_tier = 2
default_time = "10:00"
[preemption]
mode = "requeue"
grace_s = 10
checkpoint_grace_s = {GRACE_S}
"""
TRAINING = ROOT / "scripts" / "examples" / "checkpointed_training.py"

#: `scheckpoint` as a function of the shell, whether it is installed or not. `wait_for FILE` waits for a file.
PRELUDE = f"""
export PYTHONPATH={ROOT}
scheckpoint() {{ {sys.executable} -m minislurm.cli.scheckpoint "$@"; }}
wait_for() {{ until [ -e $1-$SLURM_JOB_ID ]; do sleep 0.05; done; }}
say() {{ touch $1-$SLURM_JOB_ID; }}
"""
#: The end of a script: says what it starts from.
RESTART = """
why="$SLURM_RESTART_COUNT $MINISLURM_RESTART_REASON"
echo "run $why $MINISLURM_CHECKPOINT_PATH $MINISLURM_CHECKPOINT_STEP"
"""


def a_cluster() -> Daemons:
    return Daemons(nodes=2, cpus=4, extra=_EXTRA)


@pytest.fixture(scope="module")
def daemons() -> Iterator[Daemons]:
    with a_cluster() as cluster:
        yield cluster


@pytest.fixture
def mortal() -> Iterator[Daemons]:
    """Daemons of its own, for a test that kills some."""
    with a_cluster() as cluster:
        yield cluster


def checkpoints(daemons: Daemons, job_id: int) -> list[Checkpoint]:
    return list(daemons.job(job_id).checkpoints)


def names(daemons: Daemons, job_id: int) -> list[str]:
    return [one.path.rsplit("/", 1)[1] for one in checkpoints(daemons, job_id)]


def submit(daemons: Daemons, script: str, *options: str) -> int:
    words = ("-o", "out-%j", "-N1", "--open-mode=append", *options)
    return daemons.sbatch(*words, daemons.script(PRELUDE + script))


def train(daemons: Daemons, *options: str, count: int = 60, step_s: float = 0.02) -> int:
    script = f"export STEPS={count} STEP_SECONDS={step_s}\nexec {sys.executable} {TRAINING}\n"
    return submit(daemons, script, "--checkpoint-dir=ckpt-%j", *options)


def lines(daemons: Daemons, job_id: int, start: str = "") -> list[str]:
    return [line for line in daemons.read(f"out-{job_id}").splitlines() if line.startswith(start)]


def wait_said(daemons: Daemons, job_id: int, what: str) -> None:
    daemons.wait(lambda: (daemons.work / f"{what}-{job_id}").exists(), f"job {job_id} says {what}")


def say(daemons: Daemons, job_id: int, what: str) -> None:
    (daemons.work / f"{what}-{job_id}").touch()


def wait_reported(daemons: Daemons, job_id: int, *wanted: str) -> None:
    daemons.wait(lambda: names(daemons, job_id) == list(wanted), f"job {job_id} has reported {wanted}")


def requeue(daemons: Daemons, job_id: int) -> list[str]:
    """What the next run says that it starts from."""
    daemons.command("scontrol", "requeue", str(job_id))
    daemons.wait_state(job_id, "COMPLETED")
    return lines(daemons, job_id, "run ")


def test_a_requeued_job_finds_what_it_reported(daemons: Daemons) -> None:
    script = """
if [ -z "$SLURM_RESTART_COUNT" ]; then
    echo state > model.pt
    scheckpoint report model.pt --step 7 --epoch 2 --metadata loss=0.5 || exit 1
    wait_for never
fi
"""
    job = submit(daemons, script + RESTART + 'echo "latest $(scheckpoint latest)"')
    wait_reported(daemons, job, "model.pt")
    (one,) = checkpoints(daemons, job)
    assert (one.run, one.step, one.epoch, one.metadata) == (1, 7, 2, {"loss": "0.5"})
    assert one.size_bytes == len("state\n")
    path = daemons.work / "model.pt"
    assert requeue(daemons, job) == [f"run 1 user {path} 7"]
    assert lines(daemons, job, "latest") == [f"latest {path}"]
    text = daemons.command(sys.executable, "-m", "minislurm.cli.scheckpoint", "list", str(job))
    assert re.search(rf"^ +{job} +1 +7 +2 +6B .* {path}$", text, re.M)
    assert f"Checkpoint={path} CheckpointStep=7 " in daemons.command("scontrol", "show", "job", str(job))


def test_a_victim_loses_no_step(daemons: Daemons) -> None:
    """Asked, saved, ended, started again: each step once, and the weight is that of an undisturbed run."""
    plain = train(daemons, "-w", "n2", count=250)
    victim = train(daemons, "-w", "n1", "--exclusive", "--checkpoint-keep=20", count=250)
    daemons.wait(lambda: len(lines(daemons, victim, "step")) > 20, "the victim trains")
    urgent = daemons.sbatch("-p", "urgent", "-w", "n1", "--exclusive", "--wrap", "sleep 0.3")
    for job in (urgent, plain, victim):
        daemons.wait_state(job, "COMPLETED")
    assert daemons.job(victim).requeues == {"preempt": 1}
    counted = [int(line.split()[1]) for line in lines(daemons, victim, "step ")]
    assert counted == list(range(1, 251))
    assert lines(daemons, victim, "weight") == lines(daemons, plain, "weight") != []
    (asked,) = [one for one in checkpoints(daemons, victim) if one.reason == "preempt"]
    assert lines(daemons, victim, "from step") == [f"from step {asked.step}"]
    started, wanted = daemons.job(urgent).start_time, daemons.job(victim).preempt_time
    assert started - wanted < GRACE_S / 2


def test_a_gang_hears_and_reports_on_any_node(daemons: Daemons) -> None:
    """Rank 1, on the second node, saves; rank 0 starts from that as well."""
    program = """
import os, time
from minislurm import checkpoint
rank, job = int(os.environ["SLURM_PROCID"]), os.environ["SLURM_JOB_ID"]
start = checkpoint.latest()
print(f"rank {rank} on {os.environ['SLURMD_NODENAME']} from {start.step if start else 0}", flush=True)
if start is None:
    while not checkpoint.should_stop(): time.sleep(0.01)
    print(f"rank {rank} stops", flush=True)
    if rank == 1:
        while not os.path.exists(f"save-{job}"): time.sleep(0.01)
        open(f"gang-{job}", "w").write("state")
        checkpoint.report(f"gang-{job}", step=4)
    time.sleep(600)
"""
    (daemons.work / "gang.py").write_text(program)
    script = f"srun -N2 -n2 {sys.executable} gang.py"
    gang = submit(daemons, script, "-N2", "--ntasks=2", "--exclusive")
    daemons.wait(lambda: daemons.job(gang).checkpoint_listens, "it listens")
    urgent = daemons.sbatch("-p", "urgent", "-N2", "--exclusive", "--wrap", "true")
    daemons.wait(lambda: len([x for x in lines(daemons, gang) if "stops" in x]) == 2, "both ranks are told")
    say(daemons, gang, "save")
    daemons.wait_state(urgent, "COMPLETED")
    daemons.wait_state(gang, "COMPLETED")
    said = sorted(line for line in lines(daemons, gang, "rank") if "from" in line)
    assert said == [f"rank {n} on n{n + 1} from {step}" for n in (0, 1) for step in (0, 4)]


def test_what_is_renamed_into_the_folder_is_a_checkpoint(daemons: Daemons) -> None:
    script = """
if [ -z "$SLURM_RESTART_COUNT" ]; then
    mkdir $MINISLURM_CHECKPOINT_DIR/.step5 && echo weights > $MINISLURM_CHECKPOINT_DIR/.step5/w
    mv $MINISLURM_CHECKPOINT_DIR/.step5 $MINISLURM_CHECKPOINT_DIR/step5
    wait_for second
    echo half > $MINISLURM_CHECKPOINT_DIR/in-place
    echo half > elsewhere && mv elsewhere $MINISLURM_CHECKPOINT_DIR/step7.tmp
    echo whole > elsewhere && mv elsewhere $MINISLURM_CHECKPOINT_DIR/step6
    wait_for never
fi
"""
    job = submit(daemons, script + RESTART, "--checkpoint-dir=deep/folder-%j")
    wait_reported(daemons, job, "step5")
    say(daemons, job, "second")
    wait_reported(daemons, job, "step5", "step6")
    assert requeue(daemons, job) == [f"run 1 user {daemons.work}/deep/folder-{job}/step6 "]


def test_a_checkpoint_that_was_cut_off_since_is_not_offered(daemons: Daemons) -> None:
    script = """
if [ -z "$SLURM_RESTART_COUNT" ]; then
    for step in 1 2 3; do
        echo whole > step$step-$SLURM_JOB_ID && scheckpoint report step$step-$SLURM_JOB_ID --step $step
    done
    : > step3-$SLURM_JOB_ID
    rm step2-$SLURM_JOB_ID
    wait_for never
fi
"""
    job = submit(daemons, script + RESTART)
    daemons.wait(lambda: [one.step for one in checkpoints(daemons, job)] == [1, 2, 3], "all three")
    assert requeue(daemons, job) == [f"run 1 user {daemons.work}/step1-{job} 1"]


def test_only_so_many_are_kept_and_nothing_else_is_deleted(daemons: Daemons) -> None:
    script = """
cd $MINISLURM_CHECKPOINT_DIR
echo mine > notes
echo outside > ../outside-$SLURM_JOB_ID && scheckpoint report ../outside-$SLURM_JOB_ID
for step in 1 2 3 4; do
    mkdir new && echo $step > new/w && mv new step$step
    until scheckpoint latest | grep -q step$step; do sleep 0.05; done
done
cd ..
wait_for done
"""
    job = submit(daemons, script, "--checkpoint-dir=keep-%j", "--checkpoint-keep=2")
    folder = daemons.work / f"keep-{job}"
    wait_reported(daemons, job, "step3", "step4")
    daemons.wait(
        lambda: sorted(p.name for p in folder.iterdir()) == ["notes", "step3", "step4"], "old ones go"
    )
    assert (daemons.work / f"outside-{job}").exists()
    say(daemons, job, "done")


def test_a_signal_asks_those_who_catch_it(daemons: Daemons) -> None:
    """Not the shell around the program: with a trap for its exit it seems to catch everything, and would
    end."""
    program = """
import os, signal, time
from minislurm import checkpoint
def save(number, frame):
    path = f"signalled-{os.environ['SLURM_JOB_ID']}"
    open(path, "w").write("state")
    checkpoint.report(path, step=3)
signal.signal(signal.SIGUSR1, save)
open(f"ready-{os.environ['SLURM_JOB_ID']}", "w")
while not os.path.exists(f"gate-{os.environ['SLURM_JOB_ID']}"):
    time.sleep(0.05)
"""
    (daemons.work / "saves.py").write_text(program)
    script = f"trap 'echo bye' EXIT\n{sys.executable} saves.py\necho the shell is here\n"
    job = submit(daemons, script, "--checkpoint-signal=USR1@30")
    wait_said(daemons, job, "ready")
    daemons.command("scontrol", "checkpoint", str(job))
    wait_reported(daemons, job, f"signalled-{job}")
    (one,) = checkpoints(daemons, job)
    assert (one.reason, one.step) == ("user", 3)
    assert one.duration_s > 0
    assert daemons.job(job).checkpoint_requested == 0
    say(daemons, job, "gate")
    daemons.wait_state(job, "COMPLETED")
    assert lines(daemons, job) == ["the shell is here", "bye"]


def test_a_command_makes_one_at_each_interval(daemons: Daemons) -> None:
    command = f"{sys.executable} -m minislurm.cli.scheckpoint report state-$SLURM_JOB_ID --step $(cat n)"
    job = submit(
        daemons,
        "echo 1 > n; echo of $GREETING > state-$SLURM_JOB_ID; wait_for done",
        f"--checkpoint-command=export PYTHONPATH={ROOT}; echo saving for $GREETING; {command}",
        "--checkpoint-interval=0:01",
        "--export=ALL,GREETING=hello",
    )
    daemons.wait(lambda: checkpoints(daemons, job), "the first")
    first = checkpoints(daemons, job)[0]
    assert (first.reason, first.step) == ("interval", 1)
    daemons.wait(lambda: checkpoints(daemons, job)[-1].time > first.time, "the second")
    say(daemons, job, "done")
    daemons.wait_state(job, "COMPLETED")
    assert "saving for hello" in lines(daemons, job)


def test_who_cannot_be_asked_is_not_waited_for(daemons: Daemons) -> None:
    job = submit(daemons, "say up; wait_for done")
    wait_said(daemons, job, "up")
    done = daemons.run("scontrol", "checkpoint", str(job))
    assert done.returncode == 1
    assert "cannot be asked for a checkpoint" in done.stderr
    say(daemons, job, "done")
    daemons.wait_state(job, "COMPLETED")
    assert "Job is not running" in daemons.run("scontrol", "checkpoint", str(job)).stderr


def test_a_victim_that_does_not_save_is_ended_at_its_deadline(daemons: Daemons) -> None:
    script = "trap 'say asked' USR1; say up; until [ -e gate-$SLURM_JOB_ID ]; do sleep 0.05; done"
    victim = submit(daemons, script, "-w", "n1", "--exclusive", "--checkpoint-signal=B:USR1@2")
    wait_said(daemons, victim, "up")
    urgent = daemons.sbatch("-p", "urgent", "-w", "n1", "--exclusive", "--wrap", "true")
    wait_said(daemons, victim, "asked")
    daemons.wait_state(urgent, "COMPLETED")
    assert daemons.job(urgent).start_time - daemons.job(victim).preempt_time >= 1.9
    say(daemons, victim, "gate")
    daemons.wait_state(victim, "COMPLETED")
    assert daemons.job(victim).requeues == {"preempt": 1}


def test_a_victim_whose_command_fails_is_not_waited_for(daemons: Daemons) -> None:
    command = "echo cannot save; false"
    victim = submit(
        daemons, "say up; wait_for gate", "-w", "n1", "--exclusive", f"--checkpoint-command={command}"
    )
    wait_said(daemons, victim, "up")
    urgent = daemons.sbatch("-p", "urgent", "-w", "n1", "--exclusive", "--wrap", "true")
    daemons.wait_state(urgent, "COMPLETED")
    assert daemons.job(urgent).start_time - daemons.job(victim).preempt_time < GRACE_S / 2
    say(daemons, victim, "gate")
    daemons.wait_state(victim, "COMPLETED")
    assert "cannot save" in lines(daemons, victim)


def test_a_victim_goes_on_when_its_preemptor_is_cancelled(daemons: Daemons) -> None:
    script = "trap 'say asked' USR1; say up; until [ -e gate-$SLURM_JOB_ID ]; do sleep 0.05; done; echo end"
    victim = submit(daemons, script, "-w", "n1", "--exclusive", "--checkpoint-signal=B:USR1")
    wait_said(daemons, victim, "up")
    urgent = daemons.sbatch("-p", "urgent", "-w", "n1", "--exclusive", "--wrap", "true")
    wait_said(daemons, victim, "asked")
    assert "CheckpointReason=preempt" in daemons.command("scontrol", "show", "job", str(victim))
    daemons.command("scancel", str(urgent))
    daemons.wait(lambda: not daemons.job(victim).gives_way, "the request is withdrawn")
    assert daemons.state(victim) == "RUNNING"
    daemons.command("scancel", str(victim))
    daemons.wait_state(victim, "CANCELLED")


def test_a_folder_that_cannot_be_made_fails_the_job(daemons: Daemons) -> None:
    (daemons.work / "file").write_text("")
    job = submit(daemons, "true", "--checkpoint-dir=file/below")
    daemons.wait_state(job, "FAILED")
    assert daemons.reason(job) == "JobLaunchFailure"


def test_reports_that_cannot_be_are_refused_and_harm_nothing(daemons: Daemons) -> None:
    script = """
scheckpoint report missing; echo "code $?"
scheckpoint report s3://bucket/model; echo "code $?"
echo state > good-$SLURM_JOB_ID; scheckpoint report good-$SLURM_JOB_ID; echo "code $?"
MINISLURM_RUN=$SLURM_JOB_ID.7 scheckpoint report good-$SLURM_JOB_ID; echo "code $?"
"""
    job = submit(daemons, script)
    daemons.wait_state(job, "COMPLETED")
    said = lines(daemons, job)
    assert [line for line in said if line.startswith("code")] == ["code 1", "code 1", "code 0", "code 1"]
    assert "scheckpoint: error: missing is not reported: No such file or directory" in said
    assert "object stores are not supported" in daemons.read(f"out-{job}")
    assert f"run {job}.7 is not here, or not yours" in daemons.read(f"out-{job}")
    assert names(daemons, job) == [f"good-{job}"]


# Daemons that die


def test_a_report_survives_controller_and_node_daemon(mortal: Daemons) -> None:
    script = """
wait_for first; echo 1 > a; scheckpoint report a --step 1 && say one
wait_for second; echo 2 > b; scheckpoint report b --step 2 && say two
wait_for never
"""
    job = submit(mortal, f'if [ -z "$SLURM_RESTART_COUNT" ]; then {script}fi' + RESTART, "-w", "n1")
    mortal.wait_state(job, "RUNNING")
    mortal.kill("controller")
    say(mortal, job, "first")
    wait_said(mortal, job, "one")
    mortal.kill("n1")
    say(mortal, job, "second")
    wait_said(mortal, job, "two")
    mortal.start("n1")
    mortal.start("controller")
    wait_reported(mortal, job, "a", "b")
    mortal.kill("n1")
    mortal.start("n1")
    mortal.wait(lambda: all(v.state != "DOWN*" for v in mortal.nodes()), "n1 is back")
    assert requeue(mortal, job) == [f"run 1 user {mortal.work}/b 2"]


def test_the_node_daemon_may_be_restarted_while_a_victim_saves(mortal: Daemons) -> None:
    program = """
import os, time
from minislurm import checkpoint
def there(name): return os.path.exists(name)
start = checkpoint.latest()
print("from", start.step if start else 0, flush=True)
if start is None:
    while not checkpoint.should_stop(): time.sleep(0.01)
    open("asked", "w")
    while not there("saving"): time.sleep(0.01)
    open("state", "w").write("state")
    checkpoint.report("state", step=5)
    open("reported", "w")
    time.sleep(600)
"""
    (mortal.work / "train.py").write_text(program)
    victim = submit(mortal, f"{sys.executable} train.py", "-w", "n1", "--exclusive")
    mortal.wait(lambda: mortal.job(victim).checkpoint_listens, "it listens")
    urgent = mortal.sbatch("-p", "urgent", "-w", "n1", "--exclusive", "--wrap", "true")
    mortal.wait(lambda: (mortal.work / "asked").exists(), "the victim is asked")
    mortal.kill("n1")
    (mortal.work / "saving").touch()
    mortal.wait(lambda: (mortal.work / "reported").exists(), "it reports to nobody")
    mortal.start("n1")
    mortal.wait_state(urgent, "COMPLETED")
    mortal.wait_state(victim, "COMPLETED")
    assert lines(mortal, victim, "from") == ["from 0", "from 5"]
    assert mortal.job(urgent).start_time - mortal.job(victim).preempt_time < GRACE_S / 2


def test_the_controller_may_be_restarted_while_a_victim_saves(mortal: Daemons) -> None:
    script = """
if [ -n "$MINISLURM_CHECKPOINT_PATH" ]; then echo "from $MINISLURM_CHECKPOINT_STEP"; exit 0; fi
trap 'say asked; wait_for saving; echo state > state; scheckpoint report state --step 9' USR1
say up; while :; do sleep 0.05; done
"""
    victim = submit(mortal, script, "-w", "n1", "--exclusive", "--checkpoint-signal=B:USR1")
    wait_said(mortal, victim, "up")
    urgent = mortal.sbatch("-p", "urgent", "-w", "n1", "--exclusive", "--wrap", "true")
    wait_said(mortal, victim, "asked")
    mortal.kill("controller")
    say(mortal, victim, "saving")
    mortal.start("controller")
    mortal.wait_state(urgent, "COMPLETED")
    mortal.wait_state(victim, "COMPLETED")
    assert lines(mortal, victim, "from") == ["from 9"]
    assert mortal.job(victim).requeues == {"preempt": 1}
