"""`scontrol update PartitionName=` holds at once and outlives restarts; a new configuration may change it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from minislurm.cluster.messages import Caller, Configure, UpdatePartition
from minislurm.domain.accounts import Account, AccountUser, Association, Qos
from minislurm.domain.configuration import Partition
from minislurm.domain.configuration_text import to_json
from minislurm.domain.errors import RefusalCode
from minislurm.domain.partition_settings import CHANGEABLE
from tests.builders import a_configuration, a_request
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import refused_submission, tell
from tests.unit.cluster.test_accounts import change


def settle(cluster: SimCluster, partition: str = "batch", **settings: str) -> RefusalCode | None:
    return tell(cluster, UpdatePartition(partition, OPERATOR, settings=settings))


def partition(cluster: SimCluster) -> Partition:
    return cluster.state.partitions["batch"]


def test_new_jobs_get_the_new_limits_and_waiting_ones_wait_for_them() -> None:
    cluster = SimCluster(a_configuration(1, cpus=1), duration_of=lambda job: 50.0)
    cluster.submit(time_limit_s=100.0)
    waits = cluster.submit(time_limit_s=7200.0)
    cluster.run(1)
    assert settle(cluster, max_time_s="3600", default_time_s="60") is None
    assert cluster.job(cluster.submit()).time_limit_s == 60.0
    assert cluster.reason(waits) == "PartitionTimeLimit"
    assert settle(cluster, max_time_s="") is None
    assert partition(cluster).max_time_s is None
    cluster.run(60)
    assert cluster.job(waits).start_time
    assert cluster.job(cluster.submit()).time_limit_s == 60.0, "what was set before stays set"


def test_a_pass_sees_it_that_has_seen_the_same_request_before() -> None:
    cluster = SimCluster(a_configuration(3), duration_of=lambda job: 1e6)
    first = cluster.submit(request=a_request(3, exclusive=True))
    waits = [cluster.submit(request=a_request(2, exclusive=True)) for _ in range(2)]
    cluster.run(1)
    assert settle(cluster, max_nodes="1") is None
    cluster.run(1)
    assert {cluster.reason(job_id) for job_id in waits} == {"PartitionNodeLimit"}
    assert cluster.job(first).state.value == "RUNNING"
    assert settle(cluster, max_nodes="2") is None
    cluster.run(1)
    assert cluster.reason(waits[0]) == "Resources"


def test_tiers_and_preemption() -> None:
    base = a_configuration(2)
    (batch,) = base.partitions
    urgent = replace(batch, name="urgent", default=False)
    cluster = SimCluster(replace(base, partitions=(batch, urgent)), duration_of=lambda job: 1e6)
    low = cluster.submit(request=a_request(2, exclusive=True))
    cluster.run(1)
    high = cluster.submit(partition="urgent", request=a_request(1))
    cluster.run(100)
    assert not cluster.job(high).start_time
    assert settle(cluster, "batch", preempt_mode="requeue", preempt_grace_s="5") is None
    assert settle(cluster, "urgent", priority_tier="2") is None
    cluster.run(30)
    assert cluster.job(high).start_time
    assert cluster.job(low).requeues == {"preempt": 1}


def test_access_and_the_partitions_qos() -> None:
    cluster = SimCluster(a_configuration(2), duration_of=lambda job: 1e6)
    records = [
        *(Account(name) for name in "ab"),
        AccountUser("user1000", "a"),
        *(Association(name, "user1000") for name in "ab"),
        Qos("one", group_jobs=1),
    ]
    assert change(cluster, *records) is None
    assert settle(cluster, allow_accounts="b") is None
    assert refused_submission(cluster, account="a").code is RefusalCode.INVALID_ACCOUNT
    second = [cluster.submit(account="b") for _ in range(2)][1]
    assert settle(cluster, allow_accounts="", deny_accounts="") is None
    cluster.submit(account="a")
    cluster.run(1)
    assert cluster.job(second).start_time
    assert settle(cluster, qos="nosuch") is RefusalCode.INVALID_QOS
    assert settle(cluster, qos="one") is None
    third = cluster.submit(account="b")
    cluster.run(1)
    assert cluster.reason(third) == "QOSGrpJobsLimit", "what runs already counts"


def test_who_may_and_what_may_be_set() -> None:
    cluster = SimCluster(a_configuration(2))
    assert tell(cluster, UpdatePartition("batch", Caller(1000), settings={"max_nodes": "1"})) is (
        RefusalCode.ACCESS
    )
    assert settle(cluster, "nosuch", max_nodes="1") is RefusalCode.INVALID_PARTITION
    before = partition(cluster)
    for wrong in (
        {"max_nodes": "x"},
        {"max_nodes": "-1"},
        {"preempt_mode": "suspend"},
        {"nodes": "n1"},
        {"colour": "red"},
        {"min_nodes": "3", "max_nodes": "2"},
        {"max_time_s": "60", "default_time_s": "120"},
        {"max_time_s": "nan"},
    ):
        assert settle(cluster, **wrong) is RefusalCode.INVALID_PARTITION_SETTING, wrong
    assert partition(cluster) == before


@pytest.mark.parametrize("key", sorted(CHANGEABLE))
def test_every_setting_is_read_as_the_configuration_has_it(key: str) -> None:
    texts = {"preempt_mode": "cancel", "qos": "", "allow_accounts": "x,y", "max_time_s": "99.5"}
    cluster = SimCluster(a_configuration(2))
    text = texts.get(key, "x,y" if key.startswith(("allow", "deny")) else "2")
    assert settle(cluster, **{key: text}) is None
    shown = getattr(partition(cluster), key)
    assert (",".join(shown) if isinstance(shown, tuple) else f"{shown}".removesuffix(".0")) == text


def test_it_outlives_a_restart_and_the_snapshot() -> None:
    cluster = SimCluster(a_configuration(2))
    assert settle(cluster, max_nodes="1", allow_qos="a,b") is None
    set_so = partition(cluster)
    cluster.restart_controller()
    assert partition(cluster) == set_so
    assert (set_so.max_nodes, set_so.allow_qos) == (1, ("a", "b"))


def test_what_the_file_says_anew_counts() -> None:
    cluster = SimCluster(a_configuration(2))
    assert settle(cluster, max_nodes="1", priority_tier="5") is None
    _configure(cluster, max_nodes=2)
    assert (partition(cluster).max_nodes, partition(cluster).priority_tier) == (2, 5)
    _configure(cluster, max_nodes=2, min_nodes=2)
    assert settle(cluster, min_nodes="1") is None
    _configure(cluster, max_nodes=2, min_nodes=2, default_time_s=5.0)
    assert partition(cluster).min_nodes == 1


def _configure(cluster: SimCluster, **changes: object) -> None:
    base = a_configuration(2)
    new = replace(base, partitions=(replace(base.partitions[0], **changes),))
    cluster.tell(Configure(to_json(new)))
