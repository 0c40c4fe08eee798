"""The environment of batch scripts and tasks against what a real Slurm 22.05.8 set.

The expected values are those of its `env` for the same job (-N2 -n4 -c2 --gres=gpu:2 -J envjob), but for
SLURM_CONF, the pid and the ports.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.domain.arrays import shape_of
from minislurm.domain.ids import JobId, NodeName, RunNumber, StepId, bitmap_of
from minislurm.domain.job import Job
from minislurm.domain.resources import NodeAllocation
from minislurm.node.environment import (
    Place,
    StepShape,
    batch_environment,
    entries,
    parse,
    task_environments,
)
from minislurm.node.messages import Prepare, RunKey
from tests.builders import a_spec

BATCH = """\
CUDA_VISIBLE_DEVICES=0,1
ENVIRONMENT=BATCH
GPU_DEVICE_ORDINAL=0,1
HOSTNAME=n1
ROCR_VISIBLE_DEVICES=0,1
SLURMD_NODENAME=n1
SLURM_CLUSTER_NAME=baseline
SLURM_CPUS_ON_NODE=6
SLURM_CPUS_PER_TASK=2
SLURM_GPUS_ON_NODE=2
SLURM_GTIDS=0
SLURM_JOBID=1
SLURM_JOB_CPUS_PER_NODE=6,2
SLURM_JOB_GID=0
SLURM_JOB_GPUS=0,1
SLURM_JOB_ID=1
SLURM_JOB_NAME=envjob
SLURM_JOB_NODELIST=n[1-2]
SLURM_JOB_NUM_NODES=2
SLURM_JOB_PARTITION=batch
SLURM_JOB_UID=0
SLURM_JOB_USER=root
SLURM_LOCALID=0
SLURM_NNODES=2
SLURM_NODEID=0
SLURM_NODELIST=n[1-2]
SLURM_NODE_ALIASES=(null)
SLURM_NPROCS=4
SLURM_NTASKS=4
SLURM_PRIO_PROCESS=0
SLURM_PROCID=0
SLURM_SUBMIT_DIR=/home/alice/run
SLURM_SUBMIT_HOST=login1
SLURM_TASKS_PER_NODE=3,1
SLURM_TOPOLOGY_ADDR=n1
SLURM_TOPOLOGY_ADDR_PATTERN=node
SLURM_WORKING_CLUSTER=baseline:127.0.0.1:16817:9728:109
TMPDIR=/tmp
ZE_AFFINITY_MASK=0,1
"""

#: Of task 3, on n2, where it differs from the batch script's or is new.
TASK_3 = """\
SLURMD_NODENAME=n2
SLURM_CPUS_ON_NODE=2
SLURM_DISTRIBUTION=block
SLURM_GTIDS=2,3
SLURM_LOCALID=1
SLURM_NODEID=1
SLURM_NPROCS=4
SLURM_NTASKS=4
SLURM_PROCID=3
SLURM_STEPID=0
SLURM_STEP_GPUS=0,1
SLURM_STEP_ID=0
SLURM_STEP_NODELIST=n[1-2]
SLURM_STEP_NUM_NODES=2
SLURM_STEP_NUM_TASKS=4
SLURM_STEP_TASKS_PER_NODE=2(x2)
SLURM_TASKS_PER_NODE=2(x2)
SLURM_TOPOLOGY_ADDR=n2
SLURM_UMASK=0022
"""

ARRAY = """\
SLURM_ARRAY_JOB_ID=2
SLURM_ARRAY_TASK_COUNT=20
SLURM_ARRAY_TASK_ID=19
SLURM_ARRAY_TASK_MAX=19
SLURM_ARRAY_TASK_MIN=0
SLURM_ARRAY_TASK_STEP=1
SLURM_CPUS_ON_NODE=1
SLURM_GTIDS=0
SLURM_JOBID=8
SLURM_JOB_ACCOUNT=root
SLURM_JOB_CPUS_PER_NODE=1
SLURM_JOB_ID=8
SLURM_JOB_NAME=arr
SLURM_JOB_NODELIST=n1
SLURM_JOB_NUM_NODES=1
SLURM_JOB_QOS=normal
SLURM_TASKS_PER_NODE=1
SLURM_TOPOLOGY_ADDR=spine.rack1.n1
SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node
"""

OWN = {"MINISLURM_RUN", "MINISLURM_STEP"}
GPUS = bitmap_of([0, 1])


def of(text: str) -> dict[str, str]:
    return parse(line.encode() for line in text.splitlines())


def a_prepare(job_id: int = 1, **changes: Any) -> Prepare:
    spec = a_spec(
        "envjob", user_id=0, user_name="root", submit_host="login1", work_dir="/home/alice/run", tasks=4,
        cpus_per_task=2,
    )  # fmt: skip
    allocation = (
        NodeAllocation(NodeName("n1"), bitmap_of(range(6)), 0, GPUS, 3),
        NodeAllocation(NodeName("n2"), bitmap_of(range(2)), 0, GPUS, 1),
    )
    job = Job(JobId(job_id), spec, run=RunNumber(1), allocation=allocation, name="envjob", partition="batch")
    of_prepare = {name: changes.pop(name) for name in list(changes) if name in Prepare.__slots__}
    job = replace(job, **changes)
    prepare = Prepare(
        RunKey(job.id, job.run), job, topology_address="n1", topology_pattern="node",
        controller_address="127.0.0.1:16817",
    )  # fmt: skip
    return replace(prepare, **of_prepare)


def batch(prepare: Prepare, **given: str) -> dict[str, str]:
    return batch_environment(given, prepare, Place("n1", "baseline"))


def test_the_batch_scripts_environment_is_slurms() -> None:
    made = batch(a_prepare(), TMPDIR="/tmp")
    assert {name: made.get(name) for name in of(BATCH)} == of(BATCH)
    assert set(made) - set(of(BATCH)) == OWN


def test_the_tasks_environment_is_slurms() -> None:
    prepare = a_prepare()
    shape = StepShape(StepId(0), 1, 2, 4, "n[1-2]", "2(x2)", (2, 3), 2, "n2", "node")
    shared, own = task_environments(batch(prepare, TMPDIR="/tmp"), prepare, shape, Place("n2", "baseline"))
    made = shared | own[1]
    expected = of(BATCH) | of(TASK_3)
    # srun of 22.05 leaves HOSTNAME at the first node's; ours is where the task is.
    del expected["ENVIRONMENT"], expected["HOSTNAME"]
    assert {name: made.get(name) for name in expected} == expected
    assert "ENVIRONMENT" not in made
    assert own[0]["SLURM_PROCID"] == "2"
    assert made["MINISLURM_STEP"] == "0"


def test_array_tasks() -> None:
    spec = a_spec(
        "arr", user_id=0, user_name="root", account="root", qos="normal", array_tasks=tuple(range(20)),
        submit_host="login1",
    )  # fmt: skip
    prepare = a_prepare(
        8, spec=spec, name="arr", array_job_id=JobId(2), array_task_id=19, array=shape_of(spec.array_tasks),
        allocation=(NodeAllocation(NodeName("n1"), bitmap_of([3])),),
        topology_address="spine.rack1.n1", topology_pattern="switch.switch.node",
    )  # fmt: skip
    made = batch(prepare)
    assert {name: made.get(name) for name in of(ARRAY)} == of(ARRAY)
    for absent in (
        "SLURM_NTASKS",
        "SLURM_NPROCS",
        "SLURM_CPUS_PER_TASK",
        "CUDA_VISIBLE_DEVICES",
        "SLURM_JOB_GPUS",
    ):
        assert absent not in made


@pytest.mark.parametrize(("tasks", "step"), [((0, 4, 8), "4"), ((5,), "1"), ((1, 2, 4), "1")])
def test_the_step_of_an_array(tasks: tuple[int, ...], step: str) -> None:
    prepare = a_prepare(array=shape_of(tasks), array_job_id=JobId(1), array_task_id=tasks[0])
    assert batch(prepare)["SLURM_ARRAY_TASK_STEP"] == step


def test_variables_of_options_exist_only_where_the_option_was_given() -> None:
    made = batch(
        a_prepare(
            spec=a_spec(
                tasks_per_node=2, memory_per_node_mib=500, gpus_per_node="a100:2", gpus="4", cpus_per_gpu=3
            )
        )
    )
    assert made["SLURM_NTASKS"] == made["SLURM_NPROCS"] == "4"
    assert made["SLURM_NTASKS_PER_NODE"] == "2"
    assert made["SLURM_MEM_PER_NODE"] == "500"
    assert (made["SLURM_GPUS"], made["SLURM_GPUS_PER_NODE"], made["SLURM_CPUS_PER_GPU"]) == (
        "4",
        "a100:2",
        "3",
    )
    assert "SLURM_MEM_PER_CPU" not in made


def test_a_share_of_a_gpu_is_said() -> None:
    part = NodeAllocation(NodeName("n1"), bitmap_of([0]), 0, bitmap_of([3]), 1, 500)
    made = batch(a_prepare(allocation=(part,), spec=a_spec(gres="shard:2")), SLURM_SHARDS_ON_NODE="9")
    assert (made["CUDA_VISIBLE_DEVICES"], made["SLURM_JOB_GPUS"], made["SLURM_GPUS_ON_NODE"]) == (
        "3",
        "3",
        "1",
    )
    assert (made["SLURM_SHARDS_ON_NODE"], made["MINISLURM_GPU_SHARE"]) == ("2", "0.5")
    made = batch(a_prepare(allocation=(part,), spec=a_spec(gpus="0.5")), SLURM_SHARDS_ON_NODE="9")
    assert "SLURM_SHARDS_ON_NODE" not in made
    assert (made["SLURM_GPUS"], made["MINISLURM_GPU_SHARE"]) == ("0.5", "0.5")
    assert "MINISLURM_GPU_SHARE" not in batch(a_prepare())


def test_the_restart_count_exists_only_after_a_requeue() -> None:
    assert "SLURM_RESTART_COUNT" not in batch(a_prepare())
    assert "SLURM_RESTART_COUNT" not in batch(a_prepare(requeues={"launch_failure": 2}))
    made = batch(a_prepare(requeues={"user": 1, "node_fail": 1}, restart_reason="node_fail"))
    assert made["SLURM_RESTART_COUNT"] == "2"
    assert made["MINISLURM_RESTART_REASON"] == "node_fail"


def test_nothing_of_an_enclosing_job_shines_through() -> None:
    plain = a_spec()
    outer = dict.fromkeys(
        (
            "SLURM_NTASKS",
            "SLURM_STEP_ID",
            "SLURM_ARRAY_TASK_ID",
            "SLURM_CPUS_PER_TASK",
            "SLURM_RESTART_COUNT",
        ),
        "9",
    )
    made = batch(
        a_prepare(spec=plain), **outer, SLURM_SUBMIT_DIR="/where", MINE="kept", SLURM_EXPORT_ENV="NONE"
    )
    assert not set(outer) & set(made)
    assert (made["MINE"], made["SLURM_EXPORT_ENV"], made["SLURM_SUBMIT_DIR"]) == ("kept", "NONE", "/where")


def test_bytes_that_are_no_text_survive() -> None:
    given = [b"ODD=\xff\xfe", b"EMPTY=", b"TWO=a=b", b"nothing"]
    assert [entry.encode("utf-8", "surrogateescape") for entry in entries(parse(given))] == given[:3]


def test_a_heterogeneous_job_names_all_its_components() -> None:
    """The script of the first sees its own job as ever, and each component by its number."""
    cpus = bitmap_of(range(2))
    leader = Job(
        JobId(7),
        a_spec("master", account="a", tasks=1),
        run=RunNumber(1),
        name="master",
        partition="batch",
        allocation=(NodeAllocation(NodeName("n1"), cpus, tasks=1),),
        het_job_id=JobId(7),
    )
    workers = Job(
        JobId(8),
        a_spec("workers", memory_per_cpu_mib=100),
        run=RunNumber(1),
        name="workers",
        partition="gpu",
        allocation=tuple(NodeAllocation(NodeName(n), cpus, tasks=2) for n in ("n2", "n3")),
        het_job_id=JobId(7),
        het_job_offset=1,
    )
    prepare = Prepare(RunKey(JobId(7), RunNumber(1)), leader, components=(leader, workers))
    given = {"SLURM_JOB_ID_HET_GROUP_2": "1", "SLURM_HET_SIZE": "3", "SLURM_NTASKS_PACK_GROUP_2": "9"}
    found = batch_environment(given, prepare, Place("n1", "c"))
    groups = {name: value for name, value in found.items() if "_HET_" in name}
    assert (found["SLURM_JOB_ID"], found["SLURM_JOB_NODELIST"], found["SLURM_NTASKS"]) == ("7", "n1", "1")
    assert groups == {
        "SLURM_HET_SIZE": "2",
        "SLURM_JOB_ID_HET_GROUP_0": "7",
        "SLURM_JOB_NAME_HET_GROUP_0": "master",
        "SLURM_JOB_PARTITION_HET_GROUP_0": "batch",
        "SLURM_JOB_NODELIST_HET_GROUP_0": "n1",
        "SLURM_JOB_NUM_NODES_HET_GROUP_0": "1",
        "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_0": "2",
        "SLURM_TASKS_PER_NODE_HET_GROUP_0": "1",
        "SLURM_NTASKS_HET_GROUP_0": "1",
        "SLURM_NPROCS_HET_GROUP_0": "1",
        "SLURM_JOB_ACCOUNT_HET_GROUP_0": "a",
        "SLURM_JOB_ID_HET_GROUP_1": "8",
        "SLURM_JOB_NAME_HET_GROUP_1": "workers",
        "SLURM_JOB_PARTITION_HET_GROUP_1": "gpu",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "n[2-3]",
        "SLURM_JOB_NUM_NODES_HET_GROUP_1": "2",
        "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1": "2(x2)",
        "SLURM_TASKS_PER_NODE_HET_GROUP_1": "2(x2)",
        "SLURM_MEM_PER_CPU_HET_GROUP_1": "100",
    }
    old = {name.replace("_PACK_", "_HET_"): value for name, value in found.items() if "_PACK_" in name}
    assert old == groups
