"""Accounts take back what others have borrowed, and QOS preempt: whose runs, when, and never in a circle.

The laws of the account tree are properties here, of random trees, jobs and ends: after each preemption it is
worked out anew, from the records alone, whether it was one that may be.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.cluster.core import Transaction
from minislurm.cluster.events import RunEnding
from minislurm.domain.accounts import Account, AccountUser, Association, AssociationLimits, Qos
from minislurm.domain.configuration import Partition, PreemptionSection
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import EndCause, Job
from minislurm.domain.preemption import PreemptionWish
from minislurm.domain.states import JobState
from minislurm.domain.tres import as_dict
from tests.builders import a_configuration, a_request
from tests.sim.cluster import SimCluster
from tests.unit.cluster.test_accounts import change

GPU = "gres/gpu"
FOR_EVER = 1e7


def lends(name: str, guarantee: int = 0, **changes: Any) -> Account:
    return Account(name, guarantee={GPU: guarantee} if guarantee else {}, **changes)


class Lab(SimCluster):
    """Nodes of four GPUs; every account has a user of its name, who submits by `ask`. Keeps who gave way."""

    def __init__(
        self, *accounts: Account, nodes: int = 2, qos: tuple[Qos, ...] = (), **preemption: Any
    ) -> None:
        section = PreemptionSection(
            **{"mode": "requeue", "reclaim": "guarantee", "restart_s": 0.0, **preemption}
        )
        configuration = a_configuration(nodes, cpus=8, gpus=4, preemption=section)
        (batch,) = configuration.partitions
        high = Partition("urgent", batch.nodes, priority_tier=2)
        self.given: list[RunEnding] = []
        super().__init__(replace(configuration, partitions=(batch, high)), duration_of=lambda job: FOR_EVER)
        names = ("normal", *(item.name for item in qos))
        users = [AccountUser(account.name, account.name) for account in accounts]
        members = [Association(account.name, account.name, qos=names) for account in accounts]
        assert change(self, *accounts, *users, *members, *qos) is None

    def observe(self, transaction: Transaction) -> None:
        super().observe(transaction)
        ends = [e for e in transaction.events if isinstance(e, RunEnding) and e.cause is EndCause.PREEMPT]
        self.given += ends

    def ask(self, account: str, gpus: int = 1, **changes: Any) -> JobId:
        nodes, rest = divmod(gpus, 4)
        each = 4 if nodes else rest
        request = a_request(nodes or 1, gpus_per_node=each, cpus_per_task=each)
        job_id = self.submit(user_name=account, account=account, request=request, time_limit_s=0, **changes)
        self.run(0.1)
        return job_id

    def runs(self) -> set[int]:
        live = (JobState.RUNNING, JobState.CONFIGURING)
        return {int(job.id) for job in self.state.jobs.values() if job.state in live}

    def causes(self) -> list[str]:
        return [event.decision.cause for event in self.given if event.decision is not None]


def test_an_account_takes_back_what_it_is_guaranteed_and_no_more() -> None:
    lab = Lab(lends("own", 4), lends("borrower", 4))
    borrowed = [lab.ask("borrower") for _ in range(8)]
    assert lab.runs() == set(borrowed)
    own = [lab.ask("own") for _ in range(6)]
    lab.run(1)
    assert lab.runs() == {*borrowed[:4], *own[:4]}
    assert lab.causes() == ["guarantee"] * 4


def test_nothing_is_taken_back_unless_asked_for() -> None:
    lab = Lab(lends("own", 4), lends("borrower", 4), reclaim="off")
    borrowed = {lab.ask("borrower") for _ in range(8)}
    lab.ask("own")
    lab.run(100)
    assert lab.runs() == borrowed


def test_a_run_whose_end_would_bring_its_account_below_its_guarantee_stays() -> None:
    lab = Lab(lends("own", 4), lends("other", 4))
    large = lab.ask("other", 8)
    lab.ask("own")
    lab.run(10)
    assert lab.runs() == {large}


def test_freed_room_is_not_taken_by_the_over_users_own_backlog() -> None:
    """YUNIKORN-2270: a backlog that came before, of the account that has to give back."""
    lab = Lab(lends("own", 4), lends("borrower", 4))
    for _ in range(20):
        lab.ask("borrower")
    own = [lab.ask("own") for _ in range(4)]
    lab.run(1)
    assert set(own) <= lab.runs()
    assert len(lab.given) == 4


def test_who_holds_none_of_what_is_short_stays() -> None:
    """Volcano#4918."""
    lab = Lab(lends("own", 4), lends("borrower", 4))
    cpus = lab.submit(user_name="borrower", account="borrower", request=a_request(cpus_per_task=2))
    lab.run(1)
    borrowed = [lab.ask("borrower") for _ in range(6)]
    assert len(borrowed) == 6
    lab.ask("own", 2)
    lab.ask("own", 1)
    lab.run(5)
    assert cpus in lab.runs()


def test_by_fair_share_accounts_come_to_equal_parts() -> None:
    lab = Lab(lends("a"), lends("b"), reclaim="fair_share")
    first = [lab.ask("a") for _ in range(8)]
    second = [lab.ask("b") for _ in range(8)]
    lab.run(1)
    assert len(lab.runs() & set(first)) == len(lab.runs() & set(second)) == 4
    assert lab.causes() == ["fair_share"] * 4
    lab.run(1000)
    assert len(lab.given) == 4


def test_by_fair_share_weights_count() -> None:
    lab = Lab(lends("a", weight=3), lends("b"), reclaim="fair_share")
    for _ in range(8):
        lab.ask("a")
    for _ in range(8):
        lab.ask("b")
    lab.run(1)
    assert sum(1 for job in lab.runs() if lab.job(job).spec.account == "b") == 2


def test_inside_a_department_by_what_is_guaranteed_there() -> None:
    """`left` takes back from its sibling; what another department has is not its sibling's affair."""
    lab = Lab(
        lends("physics", 8), lends("left", 4, parent="physics"), lends("right", 4, parent="physics"), nodes=2
    )
    borrowed = [lab.ask("right") for _ in range(8)]
    own = [lab.ask("left") for _ in range(5)]
    lab.run(1)
    assert lab.runs() == {*borrowed[:4], *own[:4]}


def test_under_a_limit_that_the_borrower_fills() -> None:
    """The department may have four GPUs, all with one of its groups; there is room on the nodes."""
    limits = AssociationLimits(group_tres={GPU: 4})
    lab = Lab(
        lends("physics", 4, limits=limits),
        lends("left", 2, parent="physics"),
        lends("right", 2, parent="physics"),
    )
    borrowed = [lab.ask("right") for _ in range(4)]
    own = [lab.ask("left") for _ in range(3)]
    assert lab.runs() == {*borrowed[:2], *own[:2]}
    lab.run(10)
    assert len(lab.given) == 2


def test_room_under_a_limit_is_kept_as_well() -> None:
    """Both borrowers have to go. The first is gone, the second still leaves: the first may not come back."""
    limits = AssociationLimits(group_tres={GPU: 4})
    lab = Lab(
        lends("physics", 4, limits=limits), lends("left", 4, parent="physics"),
        lends("right", parent="physics"), nodes=2,
    )  # fmt: skip
    request = a_request(1, gpus_per_node=2, cpus_per_task=2)
    for node in ("n1", "n2"):
        one = replace(request, required_nodes=(node,))
        lab.submit(user_name="right", account="right", request=one, time_limit_s=0)
    lab.run(1)
    lab.nodes[NodeName("n2")].alive = False
    own = lab.submit(
        user_name="left",
        account="left",
        request=a_request(1, gpus_per_node=4, cpus_per_task=4),
        time_limit_s=0,
    )
    lab.run(5)
    assert len(lab.given) == 2
    assert lab.runs() == set()
    lab.nodes[NodeName("n2")].runs.clear()
    lab.register("n2")
    lab.run(1)
    assert lab.runs() == {own}


@pytest.mark.parametrize("fence", ["lend", "borrow"])
def test_nothing_is_taken_across_a_fence(fence: str) -> None:
    own = lends("own", 4)
    borrower = lends("borrower", 4)
    lab = Lab(own, borrower)
    borrowed = [lab.ask("borrower") for _ in range(8)]
    changed = (
        replace(own, lend_limit={GPU: 0}) if fence == "lend" else replace(borrower, borrow_limit={GPU: 0})
    )
    assert change(lab, changed) is None
    lab.ask("own")
    lab.run(10)
    assert lab.runs() == set(borrowed)


def test_a_higher_tier_does_not_touch_a_guarantee() -> None:
    lab = Lab(lends("own", 4), lends("other", 4))
    held = [lab.ask("own") for _ in range(4)] + [lab.ask("other") for _ in range(4)]
    urgent = lab.ask("other", partition="urgent")
    lab.run(1)
    # Of its own account it may: that has no less for it.
    assert lab.runs() == {*held[:7], urgent}
    assert lab.causes() == ["tier"]


def test_a_lower_tier_takes_nothing_back_from_a_higher_one() -> None:
    lab = Lab(lends("own", 4), lends("borrower", 4))
    borrowed = {lab.ask("borrower", partition="urgent") for _ in range(8)}
    lab.ask("own")
    lab.run(10)
    assert lab.runs() == borrowed


def test_a_job_may_leave_borrowers_alone() -> None:
    lab = Lab(lends("own", 4), lends("borrower", 4))
    borrowed = {lab.ask("borrower") for _ in range(8)}
    lab.ask("own", preemption=PreemptionWish("lower"))
    lab.run(10)
    assert lab.runs() == borrowed


# QOS


def test_a_qos_preempts_those_that_it_names() -> None:
    qos = (Qos("high", preempt=("low",)), Qos("low"))
    lab = Lab(lends("lab"), qos=qos, reclaim="off")
    low = [lab.ask("lab", 4, qos="low"), lab.ask("lab", 4, qos="normal")]
    high = [lab.ask("lab", 4, qos="high") for _ in range(2)]
    lab.run(1)
    assert lab.runs() == {low[1], high[0]}
    assert lab.causes() == ["qos"]
    lab.run(100)
    assert lab.runs() == {low[1], high[0]}


def test_a_tier_comes_before_a_qos() -> None:
    qos = (Qos("high", preempt=("low",)), Qos("low"))
    lab = Lab(lends("lab"), qos=qos, reclaim="off", nodes=1)
    urgent = lab.ask("lab", 4, qos="low", partition="urgent")
    lab.ask("lab", 4, qos="high")
    lab.run(10)
    assert lab.runs() == {urgent}


def test_a_qos_says_what_becomes_of_its_jobs_and_how_long_they_are_left_alone() -> None:
    qos = (Qos("high", preempt=("low",)), Qos("low", preempt_mode="cancel", preempt_exempt_s=60.0))
    lab = Lab(lends("lab"), qos=qos, reclaim="off", nodes=1, mode="off")
    low = lab.ask("lab", 4, qos="low")
    high = lab.ask("lab", 4, qos="high")
    lab.run(50)
    assert lab.runs() == {low}
    lab.run(11)
    assert lab.runs() == {high}
    assert lab.job(low).state is JobState.PREEMPTED


def test_a_change_of_a_qos_counts_for_what_runs() -> None:
    lab = Lab(lends("lab"), qos=(Qos("high"), Qos("low")), reclaim="off", nodes=1)
    low, high = lab.ask("lab", 4, qos="low"), lab.ask("lab", 4, qos="high")
    lab.run(10)
    assert lab.runs() == {low}
    assert change(lab, Qos("high", preempt=("low",))) is None
    lab.run(1)
    assert lab.runs() == {high}


def test_what_a_qos_has_driven_out_is_not_taken_back_by_fair_share() -> None:
    qos = (Qos("high", preempt=("normal",)),)
    lab = Lab(lends("a"), lends("b"), qos=qos, reclaim="fair_share")
    low = [lab.ask("a") for _ in range(8)]
    high = [lab.ask("b", 4, qos="high") for _ in range(2)]
    lab.run(100)
    assert lab.runs() == set(high)
    assert len(lab.given) == len(low)


# The laws


class Judge(Lab):
    """Each preemption is judged by the records as they were before it."""

    def used(self, *, without: frozenset[JobId] = frozenset()) -> dict[str, int]:
        total: dict[str, int] = {}
        for job in self.state.jobs.values():
            if job.state in (JobState.RUNNING, JobState.CONFIGURING) and job.id not in without:
                for name in self.state.accounts.tree.path(job.spec.account):
                    total[name] = total.get(name, 0) + as_dict(job.allocated_tres).get(GPU, 0)
        return total

    def tell(self, message: Any) -> Transaction:
        before, given = self.used(), len(self.given)
        transaction = super().tell(message)
        ends = self.given[given:]
        if ends:
            self.judge(before, self.used(), ends)
        return transaction

    def judge(self, before: dict[str, int], after: dict[str, int], ends: list[RunEnding]) -> None:
        tree = self.state.accounts.tree
        preemptor = self.job(ends[0].preemptor)
        mine = set(tree.path(preemptor.spec.account))
        for event in ends:
            assert event.decision is not None
            victim = self.job(event.job_id)
            theirs = [name for name in tree.path(victim.spec.account) if name not in mine]
            for name in theirs:
                guaranteed = tree.guarantee(name).get(GPU, 0)
                assert after.get(name, 0) >= guaranteed, f"{name} is below its guarantee"
            if event.decision.cause in ("guarantee", "fair_share"):
                assert theirs or preemptor.spec.account != victim.spec.account, "inside one account"
                self.judge_reclaim(preemptor, victim, before, event.decision.cause, theirs)

    def judge_reclaim(
        self, preemptor: Job, victim: Job, before: dict[str, int], cause: str, theirs: list[str]
    ) -> None:
        tree = self.state.accounts.tree
        others = set(tree.path(victim.spec.account))
        mine = [name for name in tree.path(preemptor.spec.account) if name not in others]
        for name in mine:
            assert tree.accounts[name].lend_limit.get(GPU) != 0, "across a fence"
        for name in theirs:
            assert tree.accounts[name].borrow_limit.get(GPU) != 0, "across a fence"
        if cause == "guarantee":
            asked = preemptor.request.gpus_per_node * preemptor.request.nodes_min
            top = mine[-1]
            assert before.get(top, 0) + asked <= tree.guarantee(top)[GPU], "it is not under its guarantee"
            if theirs:
                assert before[theirs[-1]] > tree.guarantee(theirs[-1]).get(GPU, 0), "it has not borrowed"


#: (account, GPUs, seconds until the next)
ASKED = st.tuples(st.sampled_from("abcd"), st.sampled_from([1, 1, 2, 3, 4, 8]), st.integers(0, 30))
GUARANTEES = st.tuples(*[st.integers(0, 4) for _ in range(4)])
#: A case takes a while, and few jobs are easily read.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)


@settings(max_examples=120, deadline=None, phases=NO_SHRINKING, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(ASKED, min_size=4, max_size=16), GUARANTEES, st.booleans(),
    st.sampled_from(["guarantee", "fair_share"]),
    st.sampled_from([{}, {"b": "lend"}, {"c": "borrow"}]), st.sampled_from([20.0, FOR_EVER]),
)  # fmt: skip
def test_the_laws_hold(
    asked: list[tuple[str, int, int]], guarantees: tuple[int, ...], nested: bool, reclaim: str,
    fences: dict[str, str], lasts: float,
) -> None:  # fmt: skip
    """Below no guarantee; only for who is under its own, from who is over; across no fence; each preemptor
    starts; and where nothing ends there comes an end to it: no circles."""
    accounts = [lends(name, amount) for name, amount in zip("abcd", guarantees, strict=True)]
    if nested:
        accounts = [
            lends("top", sum(guarantees[:2])),
            *(replace(a, parent="top") for a in accounts[:2]),
            *accounts[2:],
        ]
    for i, account in enumerate(accounts):
        if account.name in fences:
            limit = {"lend": "lend_limit", "borrow": "borrow_limit"}[fences[account.name]]
            accounts[i] = replace(account, **{limit: {GPU: 0}})
    lab = Judge(*accounts, nodes=3, reclaim=reclaim)
    lab.duration_of = lambda job: lasts
    for account, gpus, wait_s in asked:
        lab.ask(account, gpus)
        lab.run(wait_s)
    lab.run(5)
    settled = len(lab.given)
    if lasts == FOR_EVER:
        lab.run(500)
        assert len(lab.given) == settled, "it goes round and round"
    else:
        lab.run(1000)
    for preemptor in {event.preemptor for event in lab.given}:
        assert lab.job(preemptor).run > 0, "it has never started"


def test_odd_sizes_do_not_go_round() -> None:
    """Kueue#3779 #7101 #14543, Volcano#4949: two accounts, jobs of 3 and of 2 on 8, each guaranteed 4."""
    lab = Lab(lends("a", 4), lends("b", 4))
    for _ in range(4):
        lab.ask("a", 3)
        lab.ask("b", 2)
    lab.run(1000)
    assert len(lab.given) <= 1


def test_a_victim_that_has_come_back_is_left_alone_for_a_while() -> None:
    """Cooldown: from its start on, and only of those who came back after a preemption."""
    lab = Lab(lends("lab"), nodes=1, reclaim="off", cooldown_s=60.0)
    lab.duration_of = lambda job: 5.0 if job.partition == "urgent" else FOR_EVER
    low = lab.ask("lab", 4)
    lab.run(10)
    lab.ask("lab", 4, partition="urgent")
    lab.run(10)
    assert (lab.runs(), len(lab.given)) == ({low}, 1)
    lab.ask("lab", 4, partition="urgent")
    lab.run(50)
    assert (lab.runs(), len(lab.given)) == ({low}, 1)
    lab.run(10)
    assert len(lab.given) == 2
