"""What squeue, sinfo and scontrol are shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from minislurm.cluster.snapshot import snapshot
from minislurm.controller import answers
from minislurm.controller.engine import Engine
from minislurm.controller.scheduler import Scheduler
from minislurm.domain.ids import Bitmap, JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.node import Node
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState, NodeState
from minislurm.domain.views import JobQuery
from minislurm.journal.store import Store
from minislurm.scheduling.cycle import schedule
from tests.builders import a_configuration, a_node, a_request, a_spec
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import a_cluster, after, cancel, operate, submit_after, task


@pytest.mark.parametrize(
    ("changes", "completing", "expected"),
    [
        ({}, False, "IDLE"),
        ({"cpus_used": 1, "jobs": {1}}, False, "MIXED"),
        ({"cpus_used": 0xFF, "jobs": {1}}, False, "ALLOCATED"),
        ({"jobs": {1}, "cpus_used": 1}, True, "MIXED+COMPLETING"),
        ({"drained": True}, False, "IDLE+DRAIN"),
        ({"drained": True, "cpus_used": 0xFF, "jobs": {1}}, False, "ALLOCATED+DRAIN"),
        ({"responding": False}, False, "IDLE*"),
        ({"state": NodeState.DOWN, "responding": False}, False, "DOWN*"),
        ({"state": NodeState.DOWN, "drained": True}, False, "DOWN+DRAIN"),
        ({"state": NodeState.UNKNOWN, "responding": False}, False, "UNKNOWN*"),
    ],
)
def test_states_of_nodes(changes: dict[str, object], completing: bool, expected: str) -> None:
    node = Node(a_node("n1", cpus=8), state=NodeState.UP, responding=True)
    for name, value in changes.items():
        setattr(node, name, value)
    assert answers.display_state(node, completing) == expected


# Standard streams


def streams(**changes: object) -> tuple[str, str, str]:
    spec = a_spec("train", work_dir="/home/ann", **{k: v for k, v in changes.items() if k != "job"})
    values = changes.get("job", {})
    return answers.standard_streams(Job(JobId(12), spec, name=spec.name, **values))  # type: ignore[arg-type]


def test_standard_streams() -> None:
    assert streams() == ("/dev/null", "/home/ann/slurm-12.out", "/home/ann/slurm-12.out")
    assert streams(std_out="o-%j", std_err="/e/%x") == ("/dev/null", "/home/ann/o-12", "/e/train")
    assert streams(std_in="in")[0] == "/home/ann/in"
    task_of = {"array_job_id": JobId(9), "array_task_id": 3}
    assert streams(array_tasks=(3, 4), job=task_of)[1] == "/home/ann/slurm-9_3.out"
    placed = {"allocation": (NodeAllocation(NodeName("n7"), Bitmap(1)),)}
    assert streams(std_out="%N-%n", job=placed)[1] == "/home/ann/n7-0"
    assert streams(is_batch=False) == ("", "", "")


# Queries


def ids(cluster: SimCluster, *job_ids: int, ended: bool = False) -> set[int]:
    query = JobQuery(tuple(JobId(i) for i in job_ids), ended)
    return {int(job.id) for job in answers.matching_jobs(cluster.state, query)}


def test_which_jobs_match() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="5", array_tasks=(0, 1, 2))
    other = cluster.submit(name="50")
    cluster.run(7)
    first, second = task(cluster, array, 0).id, task(cluster, array, 1).id
    assert ids(cluster) == {second, array, other}
    assert ids(cluster, ended=True) == {first, second, array, other}
    assert ids(cluster, array) == {second, array}
    assert ids(cluster, array, ended=True) == {first, second, array}
    assert ids(cluster, second) == {second}
    assert ids(cluster, other, 999) == {other}, "an unknown one does not spoil the others"
    assert ids(cluster, 999, ended=True) == set()


# Views


@pytest.fixture
def scheduler(tmp_path: Path) -> Scheduler:
    return Scheduler(Engine(Store(str(tmp_path / "journal.db")), a_configuration(1)))


def test_a_waiting_job(scheduler: Scheduler) -> None:
    cluster = a_cluster(1, cpus=1)
    running = cluster.submit(name="100", time_limit_s=60.0)
    waiting = cluster.submit()
    held = cluster.submit(hold=True)
    cluster.run(1)
    scheduler._engine.state = cluster.state
    plan = schedule(snapshot(cluster.state, cluster.now))
    scheduler._standings = {standing.jobs.key: standing for standing in plan.standings}

    def view(job_id: int) -> answers.JobView:
        return answers.job_view(cluster.state, scheduler, cluster.job(job_id), cluster.now)

    assert view(waiting).reason == "Resources"
    assert view(waiting).priority > 0
    assert view(waiting).start_estimate == pytest.approx(cluster.job(running).start_time + 60, abs=2)
    assert (view(held).reason, view(held).priority) == ("JobHeldUser", 0)
    assert view(running).reason == "None"
    assert view(running).start_estimate == cluster.job(running).start_time


def test_dependencies_are_shown_with_what_became_of_them(scheduler: Scheduler) -> None:
    cluster = a_cluster(1)
    failed, running = cluster.submit(name="1"), cluster.submit(name="50")
    cluster.exit_codes[failed] = 1
    cluster.run(5)
    job_id = submit_after(cluster, after("afterok", failed), after("afterok", running))
    view = answers.job_view(cluster.state, scheduler, cluster.job(job_id), cluster.now)
    assert view.dependency_states == ("failed", "unfulfilled")
    assert view.reason == "DependencyNeverSatisfied"


def test_a_node_that_is_completing() -> None:
    cluster = SimCluster(a_configuration(2, racks=1))
    job_id = cluster.submit(request=a_request(2), name="50")
    cluster.run(1)
    cluster.cut_off("n2")
    cancel(cluster, job_id)
    cluster.run(1)
    n1, n2 = (answers.node_view(cluster.state, cluster.state.nodes[NodeName(n)]) for n in ("n1", "n2"))
    assert cluster.job(job_id).state is JobState.COMPLETING
    assert (n1.state, n1.completing, n1.partitions) == ("IDLE", False, ("batch",))
    assert (n2.state, n2.completing) == ("MIXED+COMPLETING*", True)
    assert n1.topology_address == "r1.n1"
    operate(cluster, "n1", "DRAIN", "x")
    assert answers.node_view(cluster.state, cluster.state.nodes[NodeName("n1")]).state == "IDLE+DRAIN"


def test_a_partition_and_what_is_in_it() -> None:
    configuration = a_configuration(1)
    typed = replace(
        configuration,
        nodes=(a_node("n1", gpus=4, gpu_type="a100"), a_node("n2", gpus=2)),
        partitions=(replace(configuration.partitions[0], nodes=(NodeName("n1"), NodeName("n2"))),),
    )
    cluster = SimCluster(typed)
    view = answers.partition_view(cluster.state, cluster.state.partitions["batch"])
    assert (view.total_cpus, view.total_memory_mib, view.total_gpus) == (16, 32_000, 6)
    assert view.gpus_by_type == {"a100": 4}
    assert (view.state, view.default) == ("UP", True)
