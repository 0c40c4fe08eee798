"""srun as a process, against a controller and nodes that play what each test wrote."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.states import JobState
from tests.step_service_double import ScriptedNode
from tests.unit.cli.srun_far_end import FarEnd, far_end, node


async def _succeed(node: ScriptedNode) -> None:
    await node.all_end()


async def _wait_for_kill(node: ScriptedNode) -> None:
    await node.until(lambda: signal.SIGKILL in node.signals)
    await node.all_end(signal=signal.SIGKILL)


def _environment_of(node: ScriptedNode) -> dict[bytes, bytes]:
    return dict(entry.split(b"=", 1) for entry in node.launch.environment)


# What the user sees


def test_output_errors_and_exit_code(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        await node.output(0, b"to out\n")
        await node.output(0, b"to err\n", error=True)
        await node.ends(0, code=3)

    end = FarEnd([node(play)])
    with far_end(tmp_path, end) as srun:
        assert srun("train.py", "--epochs", "3") == (
            3,
            "to out\n",
            "to err\nsrun: error: n1: task 0: Exited with exit code 3\n",
        )
    assert list(end.nodes[0].launch.arguments) == ["train.py", "--epochs", "3"]
    assert end.released == [(3, 0)]
    assert end.steps[0].name == "train.py"
    assert end.spec is not None
    assert (end.spec.name, end.spec.is_batch) == ("train.py", False)


def test_a_death_by_signal_wins_and_is_said(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        await node.ends(0, code=200)
        await node.ends(1, signal=signal.SIGKILL)

    end = FarEnd([node(play, 0, 1)])
    with far_end(tmp_path, end) as srun:
        code, _, errors = srun("-Q", "x")
    assert code == 137
    assert errors.splitlines() == [
        "srun: error: n1: task 0: Exited with exit code 200",
        "srun: error: n1: task 1: Killed",
        "srun: Force Terminated StepId=7.0",
    ]
    assert end.released == [(200, 9)]


def test_labels_over_two_nodes(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        for task in node.tasks:
            await node.output(task, f"from {task}".encode(), end=True)
        await node.all_end()

    with far_end(tmp_path, FarEnd([node(play, 0, 1), node(play, 2)])) as srun:
        code, out, _ = srun("-l", "x")
    assert code == 0
    assert sorted(out.splitlines()) == ["0: from 0", "1: from 1", "2: from 2"]


def test_standard_input_reaches_the_tasks(tmp_path: Path) -> None:
    data = os.urandom(1_000_000)

    async def play(node: ScriptedNode) -> None:
        await node.until(lambda: bool(node.ended_inputs))
        await node.all_end()

    end = FarEnd([node(play), node(play, 1)])
    with far_end(tmp_path, end) as srun:
        assert srun("x", stdin=data)[0] == 0
    assert [bytes(each.input) for each in end.nodes] == [data, data]


def test_input_for_one_task_ends_that_of_the_others(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        await node.until(lambda: len(node.ended_inputs) == 2)
        await node.all_end()

    end = FarEnd([node(play, 0, 1)])
    with far_end(tmp_path, end) as srun:
        assert srun("--input=1", "x", stdin=b"abc")[0] == 0
    assert [(task, data) for task, data in end.nodes[0].inputs if data] == [(1, b"abc")]
    assert sorted(end.nodes[0].ended_inputs, key=str) == [0, 1]


def test_no_input(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)])
    with far_end(tmp_path, end) as srun:
        assert srun("--input=none", "x", stdin=b"abc")[0] == 0
    assert end.nodes[0].launch.std_in == "/dev/null"
    assert end.nodes[0].inputs == []


def test_one_output_file_for_all_tasks(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        await node.output(0, b"out\n")
        await node.output(1, b"err\n", error=True)
        await node.all_end()

    path = tmp_path / "log-7-0"
    path.write_text("old\n")
    with far_end(tmp_path, FarEnd([node(play, 0, 1)])) as srun:
        assert srun("-o", "log-%j-%s", "x") == (0, "", "")
        assert sorted(path.read_text().splitlines()) == ["err", "out"]
        assert srun("-o", "log-%j-%s", "--open-mode=append", "x")[0] == 0
    assert len(path.read_text().splitlines()) == 4


def test_a_new_output_file_is_the_owners_alone(tmp_path: Path) -> None:
    with far_end(tmp_path, FarEnd([node(_succeed)])) as srun:
        srun("-o", "private", "x")
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_files_of_tasks_are_the_nodes_to_open(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)])
    with far_end(tmp_path, end) as srun:
        srun("-o", "out-%j.%t", "-e", "err.%N", "--open-mode=append", "x")
    launch = end.nodes[0].launch
    assert launch.std_out == f"{tmp_path}/out-7.%t"
    assert launch.std_err == f"{tmp_path}/err.%N"
    assert launch.append_output


def test_an_output_file_that_cannot_be_opened(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)])
    with far_end(tmp_path, end) as srun:
        code, _, errors = srun("-o", "/nosuch/folder/out", "x")
    assert code == 1
    assert errors == "srun: error: Could not open stdout file /nosuch/folder/out: No such file or directory\n"
    assert end.released == [(1, 0)]


# Outside of a job


def test_a_wait_is_told(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)], [JobState.PENDING, JobState.CONFIGURING, JobState.RUNNING], [0, 0.6, 0])
    with far_end(tmp_path, end) as srun:
        assert srun("x") == (
            0,
            "",
            "srun: job 7 queued and waiting for resources\nsrun: job 7 has been allocated resources\n",
        )


def test_a_quick_start_is_not(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)], [JobState.PENDING, JobState.RUNNING], [0, 0.05])
    with far_end(tmp_path, end) as srun:
        assert srun("x") == (0, "", "")


def test_a_job_that_ends_before_it_starts(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)], [JobState.PENDING, JobState.CANCELLED], [0, 0])
    with far_end(tmp_path, end) as srun:
        assert srun("x") == (1, "", "srun: Job allocation 7 has been revoked\n")
    assert end.steps == []


def test_ctrl_c_while_waiting_cancels_the_job(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)], [JobState.PENDING], [0])
    with far_end(tmp_path, end) as srun:
        process = srun.start("x")
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line == b"srun: job 7 queued and waiting for resources\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors == b"srun: Job allocation 7 has been revoked\n"
    assert end.cancelled == [7]


def test_immediate_gives_up(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)], [JobState.PENDING], [0])
    with far_end(tmp_path, end) as srun:
        code, _, errors = srun("--immediate=1", "x")
    assert code == 1
    assert errors.endswith("srun: error: Unable to allocate resources: Requested nodes are busy\n")
    assert end.cancelled == [7]


def test_a_refused_allocation(tmp_path: Path) -> None:
    refusal = Refusal(RefusalCode.INVALID_PARTITION, details=("invalid partition specified: nosuch",))
    with far_end(tmp_path, FarEnd([], submit_refusal=refusal)) as srun:
        assert srun("-p", "nosuch", "x") == (
            1,
            "",
            "srun: error: invalid partition specified: nosuch\n"
            "srun: error: Unable to allocate resources: Invalid partition name specified\n",
        )


def test_the_environment_outside_of_a_job(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed, 0, 1), node(_succeed, 2)])
    with far_end(tmp_path, end) as srun:
        assert srun("-n3", "x", env={"MINE": "1"})[0] == 0
    variables = _environment_of(end.nodes[1])
    assert variables[b"MINE"] == b"1"
    assert variables[b"SLURM_NTASKS"] == b"3"
    assert variables[b"SLURM_STEP_TASKS_PER_NODE"] == b"2,1"
    assert variables[b"SLURM_JOB_NODELIST"] == b"n[1-2]"
    assert variables[b"SLURM_SUBMIT_DIR"] == os.fsencode(tmp_path)
    assert variables[b"SLURM_LAUNCH_NODE_IPADDR"] == b"127.0.0.1"
    assert int(variables[b"SLURM_SRUN_COMM_PORT"]) > 0


@pytest.mark.parametrize(
    ("export", "present", "absent"),
    [
        ("NONE", [b"SLURM_KEPT", b"MINISLURM_CONF"], [b"PATH", b"MINE", b"OTHER"]),
        ("MINE,NEW=a b", [b"MINE", b"NEW", b"SLURM_KEPT"], [b"PATH", b"OTHER"]),
        ("ALL,NEW=1", [b"MINE", b"OTHER", b"PATH", b"NEW"], []),
    ],
)
def test_export(tmp_path: Path, export: str, present: list[bytes], absent: list[bytes]) -> None:
    end = FarEnd([node(_succeed)])
    with far_end(tmp_path, end) as srun:
        assert srun(f"--export={export}", "x", env={"MINE": "1", "OTHER": "2", "SLURM_KEPT": "3"})[0] == 0
    variables = _environment_of(end.nodes[0])
    assert [name for name in present if name not in variables] == []
    assert [name for name in absent if name in variables] == []


# Inside a job


def test_inside_a_job_there_is_a_step_and_nothing_else(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed), node(_succeed, 1)])
    with far_end(tmp_path, end) as srun:
        assert srun("-N2", "-c2", "-w", "n1,n2", "-J", "eval", "x", inside=True) == (0, "", "")
    assert end.spec is None
    assert end.released == []
    (step,) = end.steps
    assert (step.job_id, step.nodes, step.tasks, step.cpus_per_task) == (7, 2, None, 2)
    assert (step.node_list, step.name) == (("n1", "n2"), "eval")
    assert _environment_of(end.nodes[0])[b"SLURM_JOB_NAME"] == b"eval"


def test_input_variables_are_defaults(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)])
    variables = {
        "SLURM_NTASKS": "4",
        "SLURM_NNODES": "2",
        "SLURM_CPUS_PER_TASK": "3",
        "SLURM_JOB_NAME": "batch",
    }
    with far_end(tmp_path, end) as srun:
        assert srun("x", inside=True, env=variables)[0] == 0
        assert srun("-n2", "x", inside=True, env=variables)[0] == 0
    first, second = end.steps
    assert (first.tasks, first.nodes, first.name) == (4, 2, "x")
    assert (second.tasks, second.nodes) == (2, 2)


def test_cpus_of_the_jobs_tasks_do_not_size_a_step(tmp_path: Path) -> None:
    """As in Slurm since 22.05: SLURM_CPUS_PER_TASK is the job's, SRUN_CPUS_PER_TASK is for srun."""
    end = FarEnd([node(_succeed)])
    with far_end(tmp_path, end) as srun:
        srun("x", inside=True, env={"SLURM_CPUS_PER_TASK": "3"})
        srun("x", inside=True, env={"SLURM_CPUS_PER_TASK": "3", "SRUN_CPUS_PER_TASK": "2"})
        srun("-c4", "x", inside=True, env={"SRUN_CPUS_PER_TASK": "2"})
    assert [step.cpus_per_task for step in end.steps] == [None, 2, 4]


def test_fewer_tasks_than_nodes(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)])
    with far_end(tmp_path, end) as srun:
        code, _, errors = srun("-n1", "x", inside=True, env={"SLURM_NNODES": "2"})
    assert (code, end.steps[0].nodes) == (0, 1)
    assert errors == "srun: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1\n"


def test_the_old_name_of_the_job_id_does_not_join(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)])
    with far_end(tmp_path, end) as srun:
        assert srun("x", env={"SLURM_JOBID": "99"})[0] == 0
    assert end.spec is not None


@pytest.mark.parametrize(
    ("refusal", "lines"),
    [
        (
            Refusal(RefusalCode.INVALID_JOB_ID),
            [
                "srun: error: Unable to confirm allocation for job 7: Invalid job id specified",
                "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 7",
            ],
        ),
        (
            Refusal(RefusalCode.EXPIRED),
            [
                "srun: error: Slurm job 7 has expired",
                "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 7",
            ],
        ),
        (
            Refusal(RefusalCode.STEP_NODE_COUNT, details=("Only allocated 2 nodes asked for 3",)),
            ["srun: error: Only allocated 2 nodes asked for 3"],
        ),
        (
            Refusal(RefusalCode.STEP_TOO_MANY_TASKS),
            ["srun: error: Unable to create step for job 7: More processors requested than permitted"],
        ),
        (
            Refusal(RefusalCode.STEP_NODES),
            ["srun: error: Unable to create step for job 7: Requested node configuration is not available"],
        ),
    ],
)
def test_refused_steps(tmp_path: Path, refusal: Refusal, lines: list[str]) -> None:
    with far_end(tmp_path, FarEnd([], step_refusal=refusal)) as srun:
        code, out, errors = srun("--jobid=7", "x")
    assert (code, out, errors.splitlines()) == (1, "", lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--exact",), "--exact is not supported by minislurm: the steps of a job share its resources"),
        (
            ("--exclusive",),
            "--exclusive inside a job is not supported by minislurm: a step has all that its job has",
        ),
        (
            ("--gres=gpu:1",),
            "--gres inside a job is not supported by minislurm: a step has all that its job has",
        ),
        (("--mpi=pmix",), "--mpi=pmix is not supported by minislurm"),
        (("--cpu-bind=cores",), "--cpu-bind=cores is not supported by minislurm"),
    ],
)
def test_options_that_would_not_hold_are_refused_by_name(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    end = FarEnd([node(_succeed)])
    with far_end(tmp_path, end) as srun:
        code, out, errors = srun(*words, "x", inside=True)
    assert (code, out, errors) == (1, "", f"srun: error: {message}\n")
    assert end.steps == []


def test_options_that_hold_are_accepted(tmp_path: Path) -> None:
    end = FarEnd([node(_succeed)])
    words = ("--overlap", "--mpi=none", "--cpu-bind=none", "--gpu-bind=none", "--gres=gpu:2", "--mem=0")
    with far_end(tmp_path, end) as srun:
        assert srun(*words, "x", inside=True) == (0, "", "")


# Usage


@pytest.mark.parametrize(
    ("words", "code", "out", "errors"),
    [
        ((), 1, "", "srun: fatal: No command given to execute.\n"),
        (("--mpi=list",), 0, "MPI plugin types are...\n\tnone\n", ""),
        (("-n", "0", "x"), 1, "", 'srun: error: Invalid numeric value "0" for --ntasks.\n'),
        *(
            (
                words,
                1,
                "",
                "srun: error: a step of several components (srun A : B) is not supported by minislurm\n",
            )
            for words in (("-n1", "a", ":", "-n2", "b"), ("-n1", ":", "-n2", "b"))
        ),
        (
            ("--bogus", "x"),
            255,
            "",
            "srun: unrecognized option '--bogus'\nTry \"srun --help\" for more information\n",
        ),
    ],
)
def test_usage(tmp_path: Path, words: tuple[str, ...], code: int, out: str, errors: str) -> None:
    with far_end(tmp_path, FarEnd([])) as srun:
        assert srun(*words) == (code, out, errors)


def test_without_a_controller_it_says_so_at_once(tmp_path: Path) -> None:
    with far_end(tmp_path, FarEnd([])) as srun:
        pass
    code, _, errors = srun("x")
    assert code == 1
    assert "Unable to contact slurm controller (connect failure)" in errors


# Ends


def test_kill_on_bad_exit(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        await node.ends(0, code=3)
        await node.until(lambda: signal.SIGTERM in node.signals)
        await node.ends(1, signal=signal.SIGTERM)

    end = FarEnd([node(play, 0, 1)])
    with far_end(tmp_path, end) as srun:
        code, _, errors = srun("-K", "x")
    assert code == 143
    assert end.nodes[0].signals == [signal.SIGCONT, signal.SIGTERM]
    assert errors.splitlines() == [
        "srun: Terminating StepId=7.0",
        "srun: error: n1: task 0: Exited with exit code 3",
        "srun: error: n1: task 1: Terminated",
        "srun: Force Terminated StepId=7.0",
    ]


def test_a_failing_task_alone_ends_no_other(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        await node.ends(0, signal=signal.SIGKILL)
        await asyncio.sleep(0.3)
        await node.ends(1)

    end = FarEnd([node(play, 0, 1)])
    with far_end(tmp_path, end) as srun:
        assert srun("x")[0] == 137
    assert end.nodes[0].signals == []


def test_wait_kills_those_that_stay(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        await node.ends(0)
        await node.until(lambda: signal.SIGKILL in node.signals)
        await node.ends(1, signal=signal.SIGKILL)

    with far_end(tmp_path, FarEnd([node(play, 0, 1)])) as srun:
        code, _, errors = srun("-W1", "x")
    assert code == 137
    assert errors.splitlines() == [
        "srun: First task exited 1s ago",
        "srun: StepId=7.0 task 1: running",
        "srun: StepId=7.0 task 0: exited",
        "srun: Terminating StepId=7.0",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "srun: error: n1: task 1: Killed",
    ]


def test_a_node_that_is_lost_ends_the_step(tmp_path: Path) -> None:
    async def break_off(node: ScriptedNode) -> None:
        await node.break_off()

    with far_end(tmp_path, FarEnd([node(break_off), node(_wait_for_kill, 1)])) as srun:
        code, _, errors = srun("x")
    assert code == 137
    assert "srun: error: Node failure on n1: broken off" in errors.splitlines()


def test_tasks_that_do_not_end_are_given_up(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        await node.ends(0, code=1)
        await asyncio.Event().wait()

    end = FarEnd([node(play, 0, 1)], settings="[timers]\nkill_wait_s = 0.1\n")
    with far_end(tmp_path, end) as srun:
        code, _, errors = srun("-W1", "x")
    assert code == 1
    assert "srun: error: Timed out waiting for job step to complete" in errors.splitlines()


# Signals


def _started(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"


def _ready_then(play: object) -> object:
    async def body(node: ScriptedNode) -> None:
        await node.output(node.tasks[0], b"ready\n")
        await play(node)  # type: ignore[operator]

    return body


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_user_signals_are_forwarded(tmp_path: Path, number: int) -> None:
    async def play(node: ScriptedNode) -> None:
        await node.until(lambda: number in node.signals)
        await node.all_end()

    end = FarEnd([node(_ready_then(play)), node(play, 1)])
    with far_end(tmp_path, end) as srun:
        process = srun.start("x", inside=True)
        _started(process)
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert [each.signals for each in end.nodes] == [[number], [number]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_ending_signals_kill_the_step(tmp_path: Path, number: int) -> None:
    end = FarEnd([node(_ready_then(_wait_for_kill))])
    with far_end(tmp_path, end) as srun:
        process = srun.start("x")
        _started(process)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 137
    assert errors.decode().splitlines() == [
        "srun: forcing job termination",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "srun: error: n1: task 0: Killed",
    ]
    assert end.ended_steps == [0]
    assert end.released == [(0, 9)]


def test_one_ctrl_c_asks_and_two_end(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        await node.until(lambda: signal.SIGINT in node.signals)
        await _wait_for_kill(node)

    end = FarEnd([node(_ready_then(play))])
    with far_end(tmp_path, end) as srun:
        process = srun.start("x", inside=True)
        _started(process)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline() == b"srun: interrupt (one more within 1 sec to abort)\n"
        assert process.stderr.readline() == b"srun: StepId=7.0 task 0: running\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 137
    assert end.nodes[0].signals == [signal.SIGINT, signal.SIGKILL]
    assert "srun: sending Ctrl-C to StepId=7.0" in errors.decode().splitlines()


def test_a_signal_ignored_from_the_start_stays_ignored(tmp_path: Path) -> None:
    """nohup, and a script's background."""

    async def play(node: ScriptedNode) -> None:
        await node.until(lambda: signal.SIGUSR1 in node.signals)
        await node.all_end()

    end = FarEnd([node(_ready_then(play))])
    with far_end(tmp_path, end) as srun:
        process = srun.start("x", inside=True, preexec_fn=_ignore_hangups)
        _started(process)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGUSR1)
        process.communicate(timeout=30)
    assert process.returncode == 0


def _ignore_hangups() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_tasks_get_sigpipe_when_nobody_reads_any_more(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        while signal.SIGPIPE not in node.signals:
            await node.output(0, b"y\n" * 1000)
            await asyncio.sleep(0.01)
        await node.all_end(signal=signal.SIGPIPE)

    end = FarEnd([node(play)])
    with far_end(tmp_path, end) as srun:
        process = srun.start("x", inside=True)
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b"srun: error: n1: task 0: Broken pipe\n"
        assert process.stdin is not None
        process.stdin.close()
        process.stderr.close()


def test_a_job_that_is_being_ended_is_waited_for(tmp_path: Path) -> None:
    async def play(node: ScriptedNode) -> None:
        await asyncio.sleep(1.0)
        await node.all_end(signal=signal.SIGTERM)

    end = FarEnd([node(play)], [JobState.RUNNING, JobState.COMPLETING], [0, 0.3])
    with far_end(tmp_path, end) as srun:
        code, _, errors = srun("x")
    assert code == 143
    assert errors.splitlines() == [
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "srun: error: n1: task 0: Terminated",
    ]
