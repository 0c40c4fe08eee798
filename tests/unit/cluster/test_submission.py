"""What is refused at submission, in Slurm's words, and what is filled in (golden errors)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from minislurm.cluster.messages import Caller, SubmitJob, UpdatePartition
from minislurm.domain.configuration import Configuration, JobsSection, LimitsSection, Partition
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import NodeName
from minislurm.domain.states import PartitionState, Reason
from tests.builders import a_configuration, a_node, a_request, a_spec
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import a_cluster, refused_submission, running, state_of


def with_partition(configuration: Configuration, **changes: object) -> Configuration:
    (partition,) = configuration.partitions
    return replace(configuration, partitions=(replace(partition, **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "details", "message"),
    [
        (
            {"partition": "nosuch"},
            ("invalid partition specified: nosuch",),
            "Invalid partition name specified",
        ),
        (
            {"request": a_request(cpus_per_task=17)},
            ("CPU count per node can not be satisfied",),
            "Requested node configuration is not available",
        ),
        (
            {"request": a_request(memory_per_node_mib=1 << 20)},
            ("Memory specification can not be satisfied",),
            "Requested node configuration is not available",
        ),
        (
            {"request": a_request(cpus_per_task=4, memory_per_cpu_mib=5000)},
            ("Memory specification can not be satisfied",),
            "Requested node configuration is not available",
        ),
        (
            {"request": a_request(gpus_per_node=9)},
            (),
            "Requested node configuration is not available",
        ),
        (
            {"request": a_request(gpus_per_task=1, gpu_type="h100")},
            (),
            "Requested node configuration is not available",
        ),
        ({"request": a_request(0)}, (), "Node count specification invalid"),
        (
            {"request": a_request(required_nodes=(NodeName("nope"),))},
            (),
            "Invalid node name specified",
        ),
        (
            {"request": a_request(excluded_nodes=(NodeName("nope"),))},
            (),
            "Invalid node name specified",
        ),
        ({"array_tasks": (1, 20_001)}, (), "Invalid job array specification"),
        ({"array_tasks": (1, 1)}, (), "Invalid job array specification"),
        ({"array_tasks": (2, 1)}, (), "Invalid job array specification"),
        (
            {"time_limit_s": -1.0},
            (),
            "Requested time limit is invalid (missing or exceeds some limit)",
        ),
        (
            {"time_limit_s": float("nan")},
            (),
            "Requested time limit is invalid (missing or exceeds some limit)",
        ),
        ({"begin_time": float("nan")}, (), "Requested operation not supported on this system"),
        ({"request": a_request(tasks=0)}, (), "Node count specification invalid"),
        ({"request": a_request(3, nodes_max=2)}, (), "Node count specification invalid"),
        (
            {"request": a_request(cpus_per_task=0)},
            (),
            "Requested node configuration is not available",
        ),
        ({"priority": 10}, (), "Access/permission denied"),
        ({"nice": -1}, (), "Access/permission denied"),
    ],
)
def test_refused_as_slurm_does(changes: dict[str, object], details: tuple[str, ...], message: str) -> None:
    cluster = a_cluster(2, gpus=2)
    events = len(cluster.journal)
    refusal = refused_submission(cluster, **changes)
    assert refusal.details == details
    assert str(refusal) == message
    assert not cluster.state.jobs
    assert len(cluster.journal) == events, "a refusal leaves no trace"


def test_more_nodes_than_there_are_waits_instead() -> None:
    cluster = a_cluster(2)
    job_id = cluster.submit(request=a_request(9))
    cluster.run(1)
    assert state_of(cluster, job_id) == "PENDING"
    assert cluster.reason(job_id) == "PartitionNodeLimit"


def test_no_partition_without_a_default() -> None:
    cluster = SimCluster(with_partition(a_configuration(1), default=False))
    refusal = refused_submission(cluster, partition="")
    assert refusal.code is RefusalCode.INVALID_PARTITION
    assert refusal.details == ("No partition specified",)


def test_the_default_partition() -> None:
    cluster = a_cluster(1)
    assert cluster.job(cluster.submit(partition="")).partition == "batch"


@pytest.mark.parametrize("state", [PartitionState.DRAIN, PartitionState.INACTIVE])
def test_a_partition_that_takes_no_jobs(state: PartitionState) -> None:
    cluster = a_cluster(1)
    cluster.tell(UpdatePartition("batch", OPERATOR, state))
    assert str(refused_submission(cluster)) == "Required partition not available (inactive or drain)"


def test_a_partition_that_is_down_takes_jobs_and_starts_none() -> None:
    cluster = a_cluster(1)
    cluster.tell(UpdatePartition("batch", OPERATOR, PartitionState.DOWN))
    job_id = cluster.submit()
    cluster.run(5)
    assert cluster.reason(job_id) == "PartitionDown"
    cluster.tell(UpdatePartition("batch", OPERATOR, PartitionState.UP))
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"


@pytest.mark.parametrize("state", [PartitionState.DRAIN, PartitionState.INACTIVE])
def test_what_waits_in_a_partition_that_is_closed(state: PartitionState) -> None:
    """DRAIN goes on with what it has, INACTIVE starts nothing."""
    cluster = a_cluster(1, cpus=1)
    first, second = cluster.submit(name="5"), cluster.submit(name="50")
    cluster.run(1)
    cluster.tell(UpdatePartition("batch", OPERATOR, state))
    cluster.run(10)
    assert state_of(cluster, first) == "COMPLETED"
    assert running(cluster) == ({second} if state is PartitionState.DRAIN else set())


def test_a_partition_is_the_operators_to_change() -> None:
    cluster = a_cluster(1)
    refusal = cluster.tell(UpdatePartition("batch", Caller(1000), PartitionState.DOWN)).refusal
    assert refusal is not None
    assert refusal.code is RefusalCode.ACCESS
    unknown = cluster.tell(UpdatePartition("nosuch", OPERATOR, PartitionState.DOWN)).refusal
    assert unknown is not None
    assert unknown.code is RefusalCode.INVALID_PARTITION


def test_nobody_submits_as_another() -> None:
    cluster = a_cluster(1)
    transaction = cluster.tell(SubmitJob(a_spec(user_id=1000), Caller(1001), "r"))
    assert transaction.refusal is not None
    assert transaction.refusal.code is RefusalCode.ACCESS
    assert cluster.tell(SubmitJob(a_spec(user_id=1000), OPERATOR, "s")).refusal is None


def test_operators_may_set_priority() -> None:
    cluster = a_cluster(1)
    spec = a_spec(user_id=0, priority=77, nice=-5)
    assert cluster.tell(SubmitJob(spec, OPERATOR, "r")).refusal is None
    assert cluster.job(1).priority == 77
    assert cluster.job(1).nice == -5


def test_no_more_jobs_than_the_limit() -> None:
    configuration = a_configuration(1, limits=LimitsSection(max_job_count=2))
    cluster = SimCluster(configuration)
    cluster.submit()
    cluster.submit()
    assert refused_submission(cluster).code is RefusalCode.TOO_MANY_JOBS


def test_ids_start_where_the_configuration_says() -> None:
    cluster = SimCluster(a_configuration(1, limits=LimitsSection(first_job_id=100)))
    assert [cluster.submit(), cluster.submit()] == [100, 101]


def test_what_is_not_known_yet_refuses_nothing() -> None:
    """Before a node has registered nobody knows what it has."""
    node = replace(a_node("n1"), cpus=None, memory_mib=None)
    partition = Partition("batch", nodes=(node.name,), default=True)
    cluster = SimCluster(Configuration(nodes=(node,), partitions=(partition,)))
    cluster.submit(request=a_request(cpus_per_task=4))  # n1 has registered with 8
    assert refused_submission(cluster, request=a_request(cpus_per_task=17)).code is (
        RefusalCode.NODE_CONFIGURATION
    )
    cluster.state.nodes[node.name].facts = replace(cluster.state.nodes[node.name].facts, cpus=0)
    cluster.submit(request=a_request(cpus_per_task=17))


# Defaults


def test_the_partitions_time_limits() -> None:
    base = a_configuration(1)
    both = with_partition(base, max_time_s=3600.0, default_time_s=60.0)
    assert SimCluster(both).configuration.partitions[0].max_time_s == 3600.0
    cluster = SimCluster(both)
    assert cluster.job(cluster.submit()).time_limit_s == 60.0
    assert cluster.job(cluster.submit(time_limit_s=30.0)).time_limit_s == 30.0
    cluster = SimCluster(with_partition(base, max_time_s=3600.0))
    assert cluster.job(cluster.submit()).time_limit_s == 3600.0
    cluster = SimCluster(base)
    assert cluster.job(cluster.submit()).time_limit_s == 0.0, "no limit"


def test_default_memory() -> None:
    cluster = SimCluster(a_configuration(1, jobs=JobsSection(default_memory_per_cpu_mib=100)))
    assert cluster.job(cluster.submit()).request.memory_per_cpu_mib == 100
    asked = cluster.submit(request=a_request(memory_per_node_mib=50))
    assert cluster.job(asked).request.memory_per_cpu_mib == 0
    everything = cluster.submit(memory_per_node_mib=0)
    assert cluster.job(everything).request.memory_per_cpu_mib == 0, "--mem=0 is an answer"
    configuration = with_partition(
        a_configuration(1, jobs=JobsSection(default_memory_per_cpu_mib=100)), default_memory_per_cpu_mib=7
    )
    cluster = SimCluster(configuration)
    assert cluster.job(cluster.submit()).request.memory_per_cpu_mib == 7


def test_default_requeue() -> None:
    cluster = SimCluster(a_configuration(1))
    assert cluster.job(cluster.submit()).requeue
    assert not cluster.job(cluster.submit(requeue=False)).requeue
    cluster = SimCluster(a_configuration(1, jobs=JobsSection(requeue=False)))
    assert not cluster.job(cluster.submit()).requeue
    assert cluster.job(cluster.submit(requeue=True)).requeue


def test_gpus_alone_take_as_many_nodes_as_needed() -> None:
    cluster = a_cluster(4, gpus=2)
    job_id = cluster.submit(request=a_request(nodes_max=0, gpus_total=6))
    cluster.run(1)
    allocation = cluster.job(job_id).allocation
    assert len(allocation) == 3
    assert sum(part.gpu_count for part in allocation) == 6
    assert sum(part.tasks for part in allocation) == 3
    given = refused_submission(cluster, request=a_request(gpus_total=6), nodes_given=True)
    assert given.code is RefusalCode.NODE_CONFIGURATION, "-N1 was said"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hold": True}, Reason.HELD_USER),
        ({"begin_time": 2_000_000.0}, Reason.BEGIN_TIME),
        ({"hold": True, "begin_time": 2_000_000.0}, Reason.HELD_USER),
    ],
)
def test_first_reason(changes: dict[str, object], reason: Reason) -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(**changes)
    assert cluster.job(job_id).reason is reason
    assert not cluster.job(job_id).eligible_time


def test_begin_time() -> None:
    cluster = a_cluster(1)
    job_id = cluster.submit(begin_time=cluster.now + 60)
    cluster.run(59)
    assert state_of(cluster, job_id) == "PENDING"
    cluster.run(2)
    assert state_of(cluster, job_id) == "RUNNING"
    assert cluster.job(job_id).eligible_time == 1_000_060.0


# The request's id


def test_the_same_request_makes_one_job() -> None:
    cluster = a_cluster(1)
    first = cluster.tell(SubmitJob(a_spec(), Caller(1000), "abc"))
    again = cluster.tell(SubmitJob(a_spec(), Caller(1000), "abc"))
    assert len(first.events) == 1
    assert not again.events
    assert again.refusal is None
    assert cluster.state.requests["abc"].job_id == 1
    cluster.restart_controller()
    assert not cluster.tell(SubmitJob(a_spec(), Caller(1000), "abc")).events
    assert len(cluster.state.jobs) == 1
