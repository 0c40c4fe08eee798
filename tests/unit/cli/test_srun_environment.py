from __future__ import annotations

from msgspec.structs import replace

from minislurm.cli.step_environment import Launcher, step_environment
from minislurm.domain.ids import Bitmap, JobId, NodeName, StepId
from minislurm.domain.job import Job
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.views import StepGrant, StepNode
from tests.builders import a_spec

LAUNCHER = Launcher("10.0.0.1", 43093, umask=0o022)


def _grant(**spec_changes: object) -> StepGrant:
    spec = a_spec("envjob", partition="batch", submit_host="login1", **spec_changes)  # type: ignore[arg-type]
    job = Job(JobId(1), spec, name="envjob", partition="batch")
    return StepGrant(
        job_id=JobId(1), step_id=StepId(0), run=1, credential="x", job=job,
        nodes=(StepNode(NodeName("n1"), "h", 1, (0, 1)), StepNode(NodeName("n2"), "h", 2, (2, 3))),
        allocation=(
            NodeAllocation(NodeName("n1"), cpus=Bitmap(0b111111), tasks=3),
            NodeAllocation(NodeName("n2"), cpus=Bitmap(0b11), tasks=1),
        ),
    )  # fmt: skip


def _variables(grant: StepGrant, base: dict[bytes, bytes] | None = None, **options: object) -> dict[str, str]:
    entries = step_environment(base or {}, grant, LAUNCHER, cluster="baseline", **options)  # type: ignore[arg-type]
    return dict(entry.decode().split("=", 1) for entry in entries)


def test_the_variables_are_those_of_a_real_slurm() -> None:
    variables = _variables(replace(_grant(), cpus_per_task=2))
    expected = {
        "SLURM_CLUSTER_NAME": "baseline",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_DISTRIBUTION": "block",
        "SLURM_JOBID": "1",
        "SLURM_JOB_CPUS_PER_NODE": "6,2",
        "SLURM_JOB_ID": "1",
        "SLURM_JOB_NAME": "envjob",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_PARTITION": "batch",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
        "SLURM_NNODES": "2",
        "SLURM_NODELIST": "n[1-2]",
        "SLURM_NPROCS": "4",
        "SLURM_NTASKS": "4",
        "SLURM_SRUN_COMM_HOST": "10.0.0.1",
        "SLURM_SRUN_COMM_PORT": "43093",
        "SLURM_STEPID": "0",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_LAUNCHER_PORT": "43093",
        "SLURM_STEP_NODELIST": "n[1-2]",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "SLURM_SUBMIT_HOST": "login1",
        "SLURM_TASKS_PER_NODE": "2(x2)",
        "SLURM_UMASK": "0022",
    }
    assert {name: variables.get(name) for name in expected} == expected


def test_the_batch_scripts_own_variables_are_replaced_or_dropped() -> None:
    base = {b"SLURM_NTASKS": b"8", b"SLURM_PROCID": b"0", b"SLURM_CPUS_PER_TASK": b"4", b"HOME": b"/root"}
    variables = _variables(_grant(), base)
    assert variables["SLURM_NTASKS"] == "4"
    assert variables["HOME"] == "/root"
    assert "SLURM_PROCID" not in variables
    assert variables["SLURM_CPUS_PER_TASK"] == "4"  # the job's, unless srun names another


def test_cpus_per_task_of_the_step_win() -> None:
    variables = _variables(replace(_grant(), cpus_per_task=2), {b"SLURM_CPUS_PER_TASK": b"4"})
    assert variables["SLURM_CPUS_PER_TASK"] == "2"


def test_a_step_with_a_name_shows_it_as_the_jobs() -> None:
    assert _variables(_grant(), step_name="foo")["SLURM_JOB_NAME"] == "foo"


def test_bytes_that_are_no_text_pass_through() -> None:
    entries = step_environment({b"A": b"\xff\xfe"}, _grant(), LAUNCHER, cluster="c")
    assert b"A=\xff\xfe" in entries


def test_variables_of_options_exist_only_where_they_were_given() -> None:
    assert "SLURM_GPUS_PER_NODE" not in _variables(_grant())
    variables = _variables(_grant(gpus_per_node="2", memory_per_cpu_mib=512), tasks_per_node=2)
    assert variables["SLURM_GPUS_PER_NODE"] == "2"
    assert variables["SLURM_MEM_PER_CPU"] == "512"
    assert variables["SLURM_NTASKS_PER_NODE"] == "2"


def test_a_task_of_an_array_knows_it() -> None:
    grant = _grant()
    grant.job.array_job_id = JobId(5)
    grant.job.array_task_id = 0
    grant.job.requeues["user"] = 2
    variables = _variables(grant)
    assert variables["SLURM_ARRAY_JOB_ID"] == "5"
    assert variables["SLURM_ARRAY_TASK_ID"] == "0"
    assert variables["SLURM_RESTART_COUNT"] == "2"
