"""Accounts in the core: who may submit, what waits and why, what was used, and that none of it is lost."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.cluster.check import check
from minislurm.cluster.core import Transaction
from minislurm.cluster.messages import Caller, ChangeAccounts, PurgeDue
from minislurm.cluster.snapshot import snapshot
from minislurm.domain.accounts import (
    Account,
    AccountChanges,
    AccountUser,
    Association,
    AssociationKey,
    AssociationLimits,
    Qos,
)
from minislurm.domain.errors import RefusalCode
from tests.builders import a_configuration, a_request
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import cancel, refused_submission, requeue, tell, update
from tests.unit.scheduling.builders import entitlements

HALF_LIFE_S = 100.0


def a_cluster(
    nodes: int = 2, *, cpus: int = 4, gpus: int = 0, order: str = "", **accounts: Any
) -> SimCluster:
    """Scripts run for as long as the job's name says (``30``), else for ever."""
    configuration = a_configuration(nodes, cpus=cpus, gpus=gpus)
    section = replace(configuration.accounts, decay_half_life_s=HALF_LIFE_S, **accounts)
    return SimCluster(
        replace(configuration, accounts=section),
        duration_of=lambda job: float(job.name) if job.name.isdigit() else 1e6,
    )


def change(cluster: SimCluster, *records: Any, by: Caller = OPERATOR, **removed: Any) -> RefusalCode | None:
    changes = AccountChanges(
        accounts=tuple(r for r in records if isinstance(r, Account)),
        users=tuple(r for r in records if isinstance(r, AccountUser)),
        associations=tuple(r for r in records if isinstance(r, Association)),
        qos=tuple(r for r in records if isinstance(r, Qos)),
        **removed,
    )
    return tell(cluster, ChangeAccounts(changes, cluster.state.accounts.version, by))


def with_lab(cluster: SimCluster, *more: Any, limits: AssociationLimits | None = None) -> SimCluster:
    """user1000 in the account lab."""
    refused = change(
        cluster,
        Account("lab", limits=limits or AssociationLimits(), qos=("normal", "high")),
        AccountUser("user1000", "lab"),
        Association("lab", "user1000"),
        *([] if any(isinstance(item, Qos) for item in more) else [Qos("high")]),
        *more,
    )
    assert refused is None
    return cluster


def reasons(cluster: SimCluster) -> list[str]:
    cluster.run(1)
    return [cluster.reason(j) for j in cluster.state.jobs if cluster.job(j).state.value == "PENDING"]


# Who may submit


def test_a_new_cluster_lets_everybody_in() -> None:
    cluster = a_cluster()
    job = cluster.job(cluster.submit(user_name="anybody", account="whatever", qos="any"))
    assert (job.spec.account, job.spec.qos) == ("whatever", "any")
    assert snapshot(cluster.state, cluster.now).accounts is None


def test_only_users_of_an_account_submit() -> None:
    cluster = with_lab(a_cluster(), Account("other"))
    job = cluster.job(cluster.submit())
    assert (job.spec.account, job.spec.qos) == ("lab", "normal")
    assert refused_submission(cluster, user_name="nobody").code is RefusalCode.INVALID_ACCOUNT
    assert refused_submission(cluster, account="other").code is RefusalCode.INVALID_ACCOUNT
    assert cluster.job(cluster.submit(account="LAB", qos="high")).spec.qos == "high"
    assert refused_submission(cluster, qos="best").code is RefusalCode.INVALID_QOS
    assert change(cluster, Qos("best")) is None
    assert refused_submission(cluster, qos="best").code is RefusalCode.INVALID_QOS, "not one of lab's"
    assert cluster.job(cluster.submit(user_name="root")).spec.account == "root"


def test_enforcement_can_be_off() -> None:
    cluster = with_lab(a_cluster(enforce="off"), limits=AssociationLimits({"cpu": 0}))
    cluster.submit(user_name="nobody")
    cluster.submit()
    assert reasons(cluster) == []
    cluster = with_lab(a_cluster(enforce="associations"), limits=AssociationLimits({"cpu": 0}))
    refused_submission(cluster, user_name="nobody")
    cluster.submit()
    assert reasons(cluster) == []


def test_only_operators_change_accounts_and_from_what_is_there() -> None:
    cluster = a_cluster()
    assert change(cluster, Account("a"), by=Caller(1000)) is RefusalCode.ACCESS
    assert change(cluster, Account("a", "b")) is RefusalCode.INVALID_ACCOUNTS
    old = ChangeAccounts(AccountChanges(accounts=(Account("b"),)), 7, OPERATOR)
    assert tell(cluster, old) is RefusalCode.ACCOUNTS_CHANGED
    assert change(cluster, Account("a")) is None
    assert change(cluster, removed_accounts=("root",)) is RefusalCode.INVALID_ACCOUNTS


def test_the_same_request_changes_accounts_once() -> None:
    cluster = a_cluster()
    message = ChangeAccounts(AccountChanges(accounts=(Account("a"),)), 0, OPERATOR, "r1")
    assert tell(cluster, message) is None
    assert tell(cluster, message) is None
    assert cluster.state.accounts.version == 1


def test_what_jobs_are_charged_to_stays() -> None:
    cluster = with_lab(a_cluster())
    job = cluster.submit(name="10")
    gone = {
        "removed_users": ("user1000",),
        "removed_associations": (AssociationKey("lab", "user1000"),),
    }
    assert change(cluster, **gone) is RefusalCode.JOBS_ACTIVE
    cluster.run(20)
    assert cluster.job(job).state.is_final
    assert change(cluster, **gone, removed_accounts=("lab",)) is None
    assert ("lab", "user1000") not in cluster.state.accounts.usage


# Limits


def test_jobs_of_one_pass_count_against_the_same_headroom() -> None:
    cluster = with_lab(a_cluster(), limits=AssociationLimits({"cpu": 3}))
    for _ in range(5):
        cluster.submit()
    assert reasons(cluster) == ["AssocGrpCpuLimit"] * 2
    assert (
        change(cluster, replace(cluster.state.accounts.tree.accounts["lab"], limits=AssociationLimits()))
        is None
    )
    assert reasons(cluster) == [], "a raised limit wakes those who waited for it"


def test_what_one_account_waits_for_stops_no_other() -> None:
    cluster = with_lab(
        a_cluster(),
        Account("b"), AccountUser("user1001", "b"), Association("b", "user1001"),
        limits=AssociationLimits({"cpu": 1}),
    )  # fmt: skip
    cluster.submit()
    waits = cluster.submit()
    other = cluster.submit(user_id=1001)
    cluster.run(1)
    assert cluster.reason(waits) == "AssocGrpCpuLimit"
    assert cluster.job(other).state.value == "RUNNING"


def test_a_job_that_ends_makes_room_for_the_next() -> None:
    cluster = with_lab(a_cluster(), limits=AssociationLimits(max_jobs=1))
    cluster.submit(array_tasks=(0, 1, 2), name="5")
    assert reasons(cluster) == ["AssocMaxJobsLimit"]
    cluster.run(30)
    assert cluster.all_ended()


@pytest.mark.parametrize("more", [{}, {"array_tasks": (0, 1, 2)}])
def test_more_jobs_than_may_be_submitted(more: dict[str, Any]) -> None:
    cluster = with_lab(a_cluster(), limits=AssociationLimits(max_submit_jobs=2))
    cluster.submit()
    if not more:
        last = cluster.submit()
    refusal = refused_submission(cluster, **more)
    assert str(refusal) == (
        "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    )
    assert refusal.details == ("AssocMaxSubmitJobLimit",)
    if not more:
        cancel(cluster, last, by=OPERATOR)
        cluster.run(1)
        cluster.submit()


def test_submit_limits_of_groups_and_qos() -> None:
    cluster = with_lab(
        a_cluster(),
        Account("sub", "lab", qos=("normal", "high")),
        Association("sub", "user1000"),
        Qos("high", max_submit_jobs_per_user=1),
        limits=AssociationLimits(group_submit_jobs=3),
    )
    cluster.submit(account="sub", qos="high")
    assert refused_submission(cluster, qos="high").details == ("QOSMaxSubmitJobPerUserLimit",)
    cluster.submit()
    cluster.submit()
    assert refused_submission(cluster, account="sub").details == ("AssocGrpSubmitJobsLimit",)


def test_a_qos_that_denies_refuses_what_could_never_start() -> None:
    cluster = with_lab(a_cluster(), Qos("high", max_tres_per_job={"cpu": 2}, flags=("DenyOnLimit",)))
    two, three = a_request(cpus_per_task=2), a_request(cpus_per_task=3)
    cluster.submit(qos="high", request=two)
    assert refused_submission(cluster, qos="high", request=three).details == ("QOSMaxCpuPerJobLimit",)
    assert change(cluster, Qos("high", max_tres_per_job={"cpu": 2})) is None
    cluster.submit(qos="high", request=three)
    assert reasons(cluster) == ["QOSMaxCpuPerJobLimit"]


def test_a_job_without_a_time_limit_gets_the_longest_it_may_have() -> None:
    cluster = with_lab(a_cluster(), Qos("high", max_wall_s=60.0), limits=AssociationLimits(max_wall_s=600.0))
    assert cluster.job(cluster.submit()).time_limit_s == 600.0
    assert cluster.job(cluster.submit(qos="high")).time_limit_s == 60.0
    cluster.submit(time_limit_s=601.0)
    assert reasons(cluster) == ["AssocMaxWallDurationPerJobLimit"]


def test_a_placement_is_asked_again_when_it_comes() -> None:
    """Two plans made from the same moment: the second one finds the limit used up."""
    from minislurm.cluster.messages import PlacementProposed
    from minislurm.scheduling.cycle import schedule

    cluster = with_lab(a_cluster(), limits=AssociationLimits({"cpu": 1}))
    cluster.submit()
    first = schedule(snapshot(cluster.state, cluster.now)).placements[0]
    second_id = cluster.submit()
    cluster.run(1)
    second = replace(first, job_id=second_id, allocation=(replace(first.allocation[0], cpus=2),))
    assert tell(cluster, PlacementProposed(second)) is RefusalCode.TRY_LATER


def test_equal_jobs_of_a_user_are_one_class_until_there_are_accounts() -> None:
    cluster = a_cluster(1, cpus=1)
    for account in ("", "a", "b"):
        cluster.submit(account=account)
        cluster.submit(account=account)
    cluster.run(1)
    assert len(cluster.state.queue.classes) == 1
    assert change(cluster, Account("c")) is None
    assert len(cluster.state.queue.classes) == 3


# Laws over random histories

users = st.sampled_from(["user1000", "user1001", "user1002"])
histories = st.lists(
    st.tuples(
        users, st.integers(1, 3), st.integers(0, 2), st.integers(1, 40), st.integers(0, 20), st.booleans()
    ),
    min_size=1,
    max_size=25,
)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def a_history(
    jobs: list[tuple[str, int, int, int, int, bool]], *accounts: Account, observe: Any = None
) -> SimCluster:
    """user1000 and user1001 in a, user1002 in b below a."""
    cluster = a_cluster(2, cpus=4, gpus=2)
    of = {"user1000": "a", "user1001": "a", "user1002": "b"}
    assert change(
        cluster,
        *accounts,
        *(AccountUser(user, account) for user, account in of.items()),
        *(Association(account, user) for user, account in of.items()),
    ) is None  # fmt: skip
    for number, (user, cpus, gpus, seconds, pause, again) in enumerate(jobs, 1):
        request = a_request(cpus_per_task=cpus, gpus_per_node=gpus)
        job_id = cluster.submit(user_name=user, request=request, name=str(seconds))
        for _ in range(pause):
            cluster.run(1)
            if observe is not None:
                observe(cluster)
        if again:
            requeue(cluster, max(1, number // 2), by=OPERATOR)
        if number % 7 == 0:
            cancel(cluster, job_id, by=OPERATOR)
        if number % 11 == 0:
            update(cluster, job_id, by=OPERATOR, time_limit_s=5.0)
    return cluster


@given(histories, st.integers(0, 4), st.integers(0, 3))
@QUICK
def test_use_is_never_over_a_limit(jobs: Any, most_gpus: int, most_jobs: int) -> None:
    def observe(cluster: SimCluster) -> None:
        holding = [j for j in cluster.state.jobs.values() if j.state.holds_nodes]
        gpus = sum(part.gpu_count for job in holding for part in job.allocation)
        assert gpus <= most_gpus
        assert sum(1 for job in holding if job.spec.account == "b") <= most_jobs

    a_history(
        jobs,
        Account("a", limits=AssociationLimits({"gres/gpu": most_gpus})),
        Account("b", "a", limits=AssociationLimits(group_jobs=most_jobs)),
        observe=observe,
    )


@given(histories)
@QUICK
def test_usage_is_the_faded_integral_of_what_was_held(jobs: Any) -> None:
    """Exact, whenever it is asked for; counted here from the journal's starts and ends."""
    cluster = a_history(jobs, Account("a"), Account("b", "a"))
    expected: dict[tuple[str, str], float] = {}
    for start, end, user, cpus in _held(cluster):
        account = "b" if user == "user1002" else "a"
        decay = 0.6931471805599453 / HALF_LIFE_S
        left = [2.718281828459045 ** (-decay * (cluster.now - t)) for t in (start, end)]
        expected[account, user] = expected.get((account, user), 0.0) + cpus * (left[1] - left[0]) / decay
    accounts = cluster.state.accounts
    found = {
        key: accounts.usage_at(record, cluster.now).get("cpu", 0.0) for key, record in accounts.usage.items()
    }
    for key in {*expected, *found}:
        assert found.get(key, 0.0) == pytest.approx(expected.get(key, 0.0), rel=1e-9, abs=1e-5)


def _held(cluster: SimCluster) -> list[tuple[float, float, str, int]]:
    """(start, end, user, CPUs) of every run, from the events."""
    from minislurm.cluster.events import RunEnded, RunPlaced
    from minislurm.journal.encoding import decode

    begun: dict[tuple[int, int], tuple[float, int]] = {}
    runs: list[tuple[float, float, str, int]] = []
    for event in map(decode, cluster.journal):
        match event:
            case RunPlaced():
                cpus = sum(part.cpu_count for part in event.allocation)
                begun[event.job_id, event.run] = event.time, cpus
            case RunEnded():
                start, cpus = begun.pop((event.job_id, event.run))
                runs.append((start, event.time, cluster.job(event.job_id).spec.user_name, cpus))
            case _:
                pass
    for (job_id, _), (start, cpus) in begun.items():
        runs.append((start, cluster.now, cluster.job(job_id).spec.user_name, cpus))
    return runs


@given(histories)
@QUICK
def test_replay_and_restart_neither_lose_nor_count_twice(jobs: Any) -> None:
    cluster = a_history(jobs, Account("a"), Account("b", "a"))
    replayed = cluster.replayed()
    assert replayed.accounts.tree == cluster.state.accounts.tree
    assert replayed.accounts.usage == cluster.state.accounts.usage
    cluster.restart_controller()
    assert cluster.state.accounts.usage == replayed.accounts.usage
    assert cluster.state.accounts.limits.ledger.uses == replayed.accounts.limits.ledger.uses
    check(cluster.state)


def test_another_half_life_counts_from_now_on() -> None:
    from minislurm.cluster.messages import Configure
    from minislurm.domain import configuration_file

    cluster = with_lab(a_cluster())
    cluster.submit(name="100")
    cluster.run(201)
    before = cluster.state.accounts.usage_at(cluster.state.accounts.usage["lab", "user1000"], cluster.now)
    none = replace(cluster.configuration.accounts, decay_half_life_s=0.0)
    cluster.tell(Configure(configuration_file.to_json(replace(cluster.configuration, accounts=none))))
    cluster.run(500)
    record = cluster.state.accounts.usage["lab", "user1000"]
    assert cluster.state.accounts.usage_at(record, cluster.now) == pytest.approx(before)


# Long-run shares


class _Unchecked(SimCluster):
    """For long runs: the invariants are looked at by every other test, after each of its steps."""

    def observe(self, transaction: Transaction) -> None:
        pass


def _saturated(order: str, seed: int, *, cpus: int = 4) -> dict[tuple[str, str], tuple[float, float]]:
    """Five hours on 32 CPUs that everybody always wants: (entitled to, got) of the CPU time by user."""
    chance = random.Random(seed)
    configuration = a_configuration(8, cpus=cpus)
    scheduler = replace(configuration.scheduler, order=order, priority_weight_age=0)
    accounts = replace(configuration.accounts, decay_half_life_s=3600.0, billing_weights="cpu=1")
    timers = replace(configuration.timers, min_job_age_s=1.0)
    cluster = _Unchecked(
        replace(configuration, scheduler=scheduler, accounts=accounts, timers=timers),
        duration_of=lambda job: chance.uniform(60, 900),
    )
    of = {"u1": ("a", 3), "u2": ("a", 1), "u3": ("b1", 1), "u4": ("b2", 2), "u5": ("b2", 1)}
    refused = change(
        cluster,
        *(Account("a", weight=2), Account("b", weight=3), Account("b1", "b"), Account("b2", "b", weight=2)),
        *(AccountUser(user, account) for user, (account, _) in of.items()),
        *(Association(account, user, weight=weight) for user, (account, weight) in of.items()),
        Association("root", "root", weight=0),
    )
    assert refused is None
    held = {(account, user): 0.0 for user, (account, _) in of.items()}
    for user in of:
        cluster.submit(user_name=user, name="many", array_tasks=tuple(range(175 * cpus)))
    samples = 5 * 60
    for _ in range(samples):
        cluster.run(60)
        cluster.tell(PurgeDue())
        for job_id in cluster.state.active:
            job = cluster.state.jobs[job_id]
            held[job.spec.account, job.spec.user_name] += sum(part.cpu_count for part in job.allocation)
    total = sum(held.values())
    assert total > 0.99 * 8 * cpus * samples, "the cluster was not saturated"
    parts = entitlements(cluster.state.accounts.tree)
    return {key: (parts[key], value / total) for key, value in held.items()}


def test_long_run_shares_are_entitlements() -> None:
    """Within two percent of what each is entitled to, the user of a tenth of the cluster included."""
    for key, (entitled, got) in _saturated("fair", seed=1).items():
        assert got == pytest.approx(entitled, rel=0.02), key


def test_long_run_shares_by_the_fair_share_factor() -> None:
    """Slurm's Fair Tree goes by the past alone, so shares swing about entitlements, the more the shorter the
    half-life is: in five hours of an hour's half-life within two percent of the cluster (of the entitlements
    in thirty hours of one of six)."""
    for key, (entitled, got) in _saturated("multifactor", seed=1).items():
        assert got == pytest.approx(entitled, abs=0.02), key
