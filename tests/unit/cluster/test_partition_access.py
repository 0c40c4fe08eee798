"""Partitions that do not take everybody's jobs, that have a QOS of their own, or a range of priorities."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from minislurm.cluster.messages import Configure
from minislurm.domain import configuration_file
from minislurm.domain.accounts import Account, AccountUser, Association, AssociationLimits, Qos
from minislurm.domain.configuration import Partition
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import NodeName
from tests.builders import a_configuration, a_request
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import refused_submission, release, tell, update
from tests.unit.cluster.test_accounts import change, reasons

NAMES = (NodeName("n1"), NodeName("n2"))


def a_cluster(*qos: Qos, enforce: str = "limits", **special: Any) -> SimCluster:
    """Two nodes of 4 CPUs; "batch", and "special" as told, over both. user1000 in the accounts lab (default)
    and other, user1001 in lab; QOS normal, high and those given."""
    partitions = (
        Partition("batch", nodes=NAMES, default=True),
        Partition("special", nodes=NAMES, **special),
    )
    configuration = a_configuration(2, cpus=4, partitions=partitions)
    section = replace(configuration.accounts, enforce=enforce)
    cluster = SimCluster(replace(configuration, accounts=section), duration_of=lambda job: 1e6)
    known = tuple(dict.fromkeys(("normal", "high", *(item.name for item in qos))))
    more = [] if any(item.name == "high" for item in qos) else [Qos("high")]
    refused = change(
        cluster,
        Account("lab", qos=known),
        Account("other", qos=known),
        AccountUser("user1000", "lab"),
        AccountUser("user1001", "lab"),
        Association("lab", "user1000"),
        Association("other", "user1000"),
        Association("lab", "user1001"),
        *more,
        *qos,
    )
    assert refused is None
    return cluster


def reconfigure(cluster: SimCluster, **special: Any) -> None:
    batch, old = cluster.configuration.partitions
    changed = replace(cluster.configuration, partitions=(batch, replace(old, **special)))
    assert tell(cluster, Configure(configuration_file.to_json(changed))) is None


# Access


def test_only_allowed_accounts_and_qos_submit() -> None:
    cluster = a_cluster(allow_accounts=("Lab",), deny_qos=("high",))
    cluster.submit(partition="special")
    refusal = refused_submission(cluster, partition="special", account="other")
    assert refusal.code is RefusalCode.INVALID_ACCOUNT
    assert refusal.details == ("partition special does not take account other, only Lab",)
    refusal = refused_submission(cluster, partition="special", qos="high")
    assert (refusal.code, refusal.details) == (
        RefusalCode.INVALID_QOS,
        ("partition special does not take QOS high",),
    )
    cluster.submit(account="other", qos="high")


def test_who_is_allowed_comes_before_who_is_denied() -> None:
    cluster = a_cluster(allow_accounts=("other",), deny_accounts=("other",), allow_qos=("high",))
    cluster.submit(partition="special", account="other", qos="high")
    assert refused_submission(cluster, partition="special", account="other").code is RefusalCode.INVALID_QOS
    cluster = a_cluster(deny_accounts=("other",))
    refused = refused_submission(cluster, partition="special", account="other")
    assert refused.code is RefusalCode.INVALID_ACCOUNT


def test_nobody_is_kept_out_while_accounts_are_not_enforced() -> None:
    cluster = a_cluster(enforce="off", allow_accounts=("nobody",))
    cluster.submit(partition="special")
    assert reasons(cluster) == []
    cluster = a_cluster(enforce="associations", allow_accounts=("nobody",))
    assert refused_submission(cluster, partition="special").code is RefusalCode.INVALID_ACCOUNT


def test_groups_are_those_of_the_user_who_submits() -> None:
    cluster = a_cluster(allow_groups=("staff", "ops"))
    cluster.submit(partition="special", groups=("ops",))
    refusal = refused_submission(cluster, partition="special", groups=("guests",))
    assert str(refusal) == "User's group not permitted to use this partition"
    job_id = cluster.submit(hold=True)
    assert update(cluster, job_id, partition="special") is RefusalCode.PARTITION_GROUPS
    assert update(cluster, job_id, partition="special", by=OPERATOR) is None
    assert update(cluster, job_id, qos="high") is None, "an operator has let it in"


def test_jobs_that_wait_when_their_account_loses_access_keep_waiting() -> None:
    cluster = a_cluster()
    held = [cluster.submit(partition="special", hold=True, qos=qos) for qos in ("normal", "high")]
    reconfigure(cluster, allow_accounts=("other",))
    for job_id in held:
        assert release(cluster, job_id) is None
    assert reasons(cluster) == ["AccountNotAllowed"] * 2
    reconfigure(cluster, allow_accounts=(), deny_qos=("high",))
    cluster.submit()
    assert reasons(cluster) == ["QOSNotAllowed"], "it holds nobody up"
    assert cluster.job(held[0]).state.value == "RUNNING"


def test_an_update_is_refused_like_a_submission() -> None:
    cluster = a_cluster(allow_accounts=("lab",), deny_qos=("high",))
    job_id = cluster.submit(partition="special", hold=True)
    assert update(cluster, job_id, account="other") is RefusalCode.INVALID_ACCOUNT
    assert update(cluster, job_id, qos="high") is RefusalCode.INVALID_QOS
    assert update(cluster, job_id, account="other", qos="high", partition="batch") is None
    job = cluster.job(job_id)
    assert (job.spec.account, job.spec.qos, job.partition) == ("other", "high", "batch")
    assert update(cluster, job_id, partition="special") is RefusalCode.INVALID_ACCOUNT


# A QOS of the partition


def test_the_limits_of_the_partitions_qos_come_first() -> None:
    cluster = a_cluster(
        Qos("part", max_tres_per_job={"cpu": 2}, max_wall_s=600.0),
        Qos("high", max_tres_per_job={"cpu": 1, "node": 1}, max_wall_s=60.0),
        qos="part",
    )
    two = a_request(cpus_per_task=2)
    started = cluster.submit(partition="special", qos="high", request=two, time_limit_s=600.0)
    assert cluster.job(cluster.submit(partition="special", qos="high")).time_limit_s == 600.0
    cluster.submit(qos="high", request=two)
    cluster.submit(partition="special", request=a_request(cpus_per_task=3))
    cluster.submit(partition="special", qos="high", request=a_request(2))
    cluster.submit(partition="special", time_limit_s=601.0)
    assert reasons(cluster) == [
        "QOSMaxCpuPerJobLimit",
        "QOSMaxCpuPerJobLimit",
        "QOSMaxNodePerJobLimit",
        "QOSMaxWallDurationPerJobLimit",
    ]
    assert cluster.job(started).state.value == "RUNNING"


def test_a_qos_may_be_over_that_of_the_partition() -> None:
    cluster = a_cluster(
        Qos("part", max_tres_per_job={"cpu": 1}, max_jobs_per_user=1),
        Qos("high", max_tres_per_job={"cpu": 2}, flags=("OverPartQOS",)),
        qos="part",
    )
    cluster.submit(partition="special", qos="high", request=a_request(cpus_per_task=2))
    cluster.submit(partition="special", qos="high")
    assert reasons(cluster) == ["QOSMaxJobsPerUserLimit"], "of which the job's QOS says nothing"


def test_all_jobs_of_a_partition_count_against_its_qos() -> None:
    cluster = a_cluster(Qos("part", group_tres={"cpu": 3}, max_submit_jobs_per_user=3), qos="part")
    for qos in ("normal", "high"):
        cluster.submit(partition="special", qos=qos, request=a_request(cpus_per_task=2))
    cluster.submit(request=a_request(cpus_per_task=2))
    assert reasons(cluster) == ["QOSGrpCpuLimit"]
    cluster.submit(partition="special")
    refusal = refused_submission(cluster, partition="special")
    assert refusal.details == ("QOSMaxSubmitJobPerUserLimit",)
    cluster.submit(partition="special", user_id=1001, user_name="user1001")
    outside = cluster.submit(hold=True)
    assert update(cluster, outside, partition="special") is RefusalCode.ACCOUNTING_POLICY


def test_who_is_at_a_limit_of_submitted_jobs_may_still_change_them() -> None:
    limits = AssociationLimits(max_submit_jobs=1, group_submit_jobs=1)
    cluster = a_cluster(Qos("high", max_submit_jobs_per_user=1))
    lab = replace(cluster.state.accounts.tree.accounts["lab"], limits=limits)
    assert change(cluster, lab) is None
    job_id = cluster.submit(hold=True)
    refused_submission(cluster)
    assert update(cluster, job_id, qos="high", nodes_min=2) is None
    assert update(cluster, job_id, time_limit_s=60.0, tasks=3) is None
    other = cluster.submit(hold=True, account="other")
    assert update(cluster, other, account="lab") is RefusalCode.ACCOUNTING_POLICY


def test_what_runs_is_counted_anew_when_a_partition_gets_another_qos() -> None:
    cluster = a_cluster(Qos("part", group_jobs=1))
    running = cluster.submit(partition="special")
    waits = cluster.submit(partition="special", hold=True)
    cluster.run(1)
    assert cluster.job(running).state.value == "RUNNING"
    reconfigure(cluster, qos="part")
    assert release(cluster, waits) is None
    assert reasons(cluster) == ["QOSGrpJobsLimit"]
    cluster.restart_controller()
    assert reasons(cluster) == ["QOSGrpJobsLimit"]
    assert change(cluster, removed_qos=("part",)) is RefusalCode.INVALID_ACCOUNTS, "a partition has it"


def test_a_qos_that_is_not_there_lets_nothing_through() -> None:
    cluster = a_cluster()
    waits = cluster.submit(partition="special", hold=True)
    reconfigure(cluster, qos="gone")
    refusal = refused_submission(cluster, partition="special")
    assert refusal.details == ("partition special has a QOS that is not there: gone",)
    assert release(cluster, waits) is None
    assert reasons(cluster) == ["InvalidQOS"]


# Ranges of priority


def priority(cluster: SimCluster, job_id: int) -> int:
    return cluster.plan().priorities[job_id]  # type: ignore[index]


def test_priorities_stay_in_their_range() -> None:
    cluster = a_cluster(Qos("high", min_priority=7000), min_priority=4000, max_priority=6000)
    many = a_request(cpus_per_task=4)
    for _ in range(2):
        cluster.submit(request=many)
    cluster.run(1)
    low = cluster.submit(partition="special", request=many, nice=100_000)
    high = cluster.submit(partition="special", request=many, qos="high")
    free = cluster.submit(request=many, qos="high")
    cluster.run(1)
    assert update(cluster, high, site_factor=50_000, by=OPERATOR) is None
    assert priority(cluster, low) == 4000
    assert priority(cluster, high) == 6000, "the highest one counts"
    assert priority(cluster, free) >= 7000


def test_users_choose_a_priority_only_in_a_range() -> None:
    cluster = a_cluster(max_priority=500)
    assert refused_submission(cluster, priority=5).code is RefusalCode.ACCESS, "nothing allows it"
    job_id = cluster.submit(partition="special", priority=500, hold=True)
    assert cluster.job(job_id).priority == 500
    refusal = refused_submission(cluster, partition="special", priority=501)
    assert refusal.details == ("the priority must be from 0 to 500",)
    assert update(cluster, job_id, priority=600) is RefusalCode.ACCESS
    assert update(cluster, job_id, priority=400) is None
    assert update(cluster, job_id, partition="batch") is RefusalCode.ACCESS, "nor does it take it along"
    assert update(cluster, job_id, priority=600, by=OPERATOR) is None


def test_an_account_may_give_its_users_a_range() -> None:
    cluster = a_cluster()
    limits = AssociationLimits(min_priority=10, max_priority=20)
    lab = replace(cluster.state.accounts.tree.accounts["lab"], limits=limits)
    assert change(cluster, lab) is None
    assert cluster.job(cluster.submit(priority=15)).priority == 15
    for wrong in (9, 21):
        assert refused_submission(cluster, priority=wrong).code is RefusalCode.ACCESS
    assert refused_submission(cluster, account="other", priority=15).code is RefusalCode.ACCESS
