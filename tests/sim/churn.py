"""Random clusters, accounts and jobs in which runs give way to others, and a judge of every time one does.

What is asserted, of each preemption:

- None of its victims could have been spared: with any one of them staying, a pass of its own over the rest
  does not place the preemptor (where nothing else was kept for anybody in the same pass).
- Its preemptor is the next of all that start on what was freed, and starts there, unless its user cancels it
  or something else has ended meanwhile; or where, of several limits, it is only what others keep back that is
  in the way, and one has started that is within its guarantee, which nobody may be kept from.
- Nobody is driven out by whom he drove out while nothing has ended or come in between; and where nothing
  ends, there comes an end to it.

The same seed gives the same scenario. `scripts/bench/run churn` plays thousands, the tests some hundreds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from minislurm.cluster.check import check
from minislurm.cluster.core import Transaction
from minislurm.cluster.effects import AskCheckpoint, Effect
from minislurm.cluster.events import NodeReleased, RunEnded, RunEnding, RunPlaced
from minislurm.cluster.messages import (
    Caller,
    CancelJob,
    ChangeAccounts,
    CheckpointMade,
    NodeReport,
    PreemptionProposed,
    SubmitJob,
)
from minislurm.cluster.snapshot import snapshot
from minislurm.domain.accounts import Account, AccountChanges, AccountUser, Association, Qos
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.configuration import Configuration, Partition, PreemptionSection
from minislurm.domain.ids import Bitmap, JobId, NodeName, RunNumber
from minislurm.domain.job import EndCause, Job
from minislurm.domain.preemption import PreemptionWish
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState
from minislurm.domain.tres import as_dict
from minislurm.domain.views import JobTarget
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import NodeAvailability, Plan, Preemption, Snapshot
from minislurm.sim.virtual_cluster import VirtualCluster
from tests.builders import a_configuration, a_request, a_spec

OPERATOR = Caller(0, is_operator=True)
GPU = "gres/gpu"
FOR_EVER = 1e7


class Tally(Struct):
    """What came of one scenario, or of many."""

    scenarios: int = 0
    jobs: int = 0
    preemptions: int = 0
    victims: int = 0
    #: Of the preemptions: those whose victims were tried one by one.
    tried: int = 0
    cancelled: int = 0
    #: Preemptors that something else made room for before their victims had left.
    elsewhere: int = 0
    foreseen: float = 0.0
    lost: float = 0.0

    def add(self, other: Tally) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Claim(Struct):
    """A preemptor that has not started yet."""

    victims: tuple[tuple[JobId, RunNumber], ...]
    freed: set[NodeName]
    #: There was room on nodes, but a limit was in the way, which its victims filled.
    by_limit: bool = False
    #: Somebody has started who is within its guarantee.
    is_overtaken: bool = False
    #: Something has ended that nobody was to give.
    has_changed: bool = False


class Churn(VirtualCluster):
    """Victims take a while to leave."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tally = Tally(scenarios=1)
        self.claims: dict[JobId, Claim] = {}
        #: (victim, preemptor) since something last ended by itself or was submitted.
        self.driven_out: set[tuple[JobId, JobId]] = set()
        self.last_plan = Plan()
        self.lasts_for_ever = self.random.random() < 0.3
        self._lengths: dict[JobId, float] = {}
        super().__init__(_configuration(self.random), self.length_of, latency_s=0.01)
        self.names = _accounts(self)

    def length_of(self, job: Job) -> float:
        if self.lasts_for_ever:
            return FOR_EVER
        return self._lengths.setdefault(job.id, self.random.choice([3.0, 20.0, 60.0, 300.0]))

    # What happens

    def submit(self) -> None:
        draw = self.random
        nodes = draw.choice([1, 1, 1, 1, 2, 3])
        gpus = draw.choice([1, 2, 4, 4]) if nodes == 1 else 4
        request = a_request(nodes, gpus_per_node=gpus, cpus_per_task=gpus)
        if nodes > 1 and self.configuration.topology and draw.random() < 0.4:
            request = replace(request, topology_level="rack", topology_required=draw.random() < 0.7)
        account = draw.choice(self.names) if self.names else ""
        wish = PreemptionWish(draw.choice(["never", "lower", "borrowers"])) if draw.random() < 0.1 else None
        spec = a_spec(
            request=request,
            partition=draw.choice(["batch", "batch", "urgent", "top"]),
            user_name=account or "user1000",
            account=account,
            qos=draw.choice(["normal", "normal", "high"]) if account else "",
            time_limit_s=0.0 if self.lasts_for_ever else draw.choice([60.0, 600.0, 0.0]),
            preemption=wish,
            checkpoint_command="save" if draw.random() < 0.3 else "",
        )
        array = {"array_tasks": tuple(range(3))} if draw.random() < 0.1 else {}
        self.tally.jobs += 1
        self.driven_out.clear()
        refusal = self.tell(SubmitJob(replace(spec, **array), Caller(spec.user_id))).refusal
        assert refusal is None or nodes > 1, refusal

    def save(self) -> None:
        """Some of what runs has a checkpoint now."""
        for job_id in list(self.state.active):
            job = self.state.jobs[job_id]
            if job.state is JobState.RUNNING and job_id % 3 and self.random.random() < 0.3:
                made = Checkpoint(job.run, f"/{job_id}.{self.now}", time=self.now, duration_s=1.0)
                self.tell(CheckpointMade(job_id, job.run, made))

    def perform(self, effect: Effect) -> None:
        if isinstance(effect, AskCheckpoint) and not effect.withdrawn:
            job = self.state.jobs[effect.job_id]
            if effect.node == job.batch_host and self.random.random() < 0.8:
                self.later(
                    self.random.choice([0.2, 1.0, 8.0]), self.answer, (job.id, job.checkpoint_requested)
                )
        super().perform(effect)

    def answer(self, asked: tuple[JobId, float]) -> None:
        job_id, request = asked
        job = self.state.jobs[job_id]
        made = Checkpoint(job.run, f"/{job_id}.{self.now}", time=self.now, duration_s=0.2)
        self.tell(CheckpointMade(job_id, job.run, made, answers=request))

    def cancel_one(self) -> None:
        ids = [job.id for job in self.state.jobs.values() if not job.state.is_final and not job.pending_tasks]
        if ids:
            job_id = self.random.choice(ids)
            self.driven_out.clear()
            if self.claims.pop(job_id, None) is not None:
                self.tally.cancelled += 1
            self.tell(CancelJob(JobTarget(job_id), OPERATOR))

    def _report(self, report: NodeReport) -> None:
        if report.report.phase == "CLEAN":
            self.later(self.random.choice([0.0, 0.5, 3.0, 15.0]), self._arrived, report)
        else:
            super()._report(report)

    # What is watched

    def plan(self) -> Plan:
        self.last_plan = super().plan()
        return self.last_plan

    def tell(self, message: Any) -> Transaction:
        if isinstance(message, PreemptionProposed):
            self.judge(message.preemption)
        return super().tell(message)

    def judge(self, preemption: Preemption) -> None:
        jobs = [self.state.jobs[job_id] for job_id, _ in preemption.victims]
        assert jobs, "a preemption of nobody"
        self.tally.preemptions += 1
        self.tally.victims += len(jobs)
        self.tally.foreseen += preemption.cost
        for job in jobs:
            assert (preemption.job_id, job.id) not in self.driven_out, (
                f"{job.id} and {preemption.job_id} in turn"
            )
            self.driven_out.add((job.id, preemption.job_id))
        self.claims[preemption.job_id] = Claim(
            preemption.victims,
            {part.node for job in jobs for part in job.allocation},
            by_limit=self.could_start(preemption.job_id, set(), limited=False),
        )
        held = [job_id for job_id, wait in self.last_plan.waits.items() if wait.planned_nodes]
        if held == [preemption.job_id] and not self.state.jobs[preemption.job_id].pending_tasks:
            self.tally.tried += 1
            for spared, _ in preemption.victims:
                gone = {job_id for job_id, _ in preemption.victims} - {spared}
                assert not self.could_start(preemption.job_id, gone), f"{spared} was not needed"

    def could_start(self, job_id: JobId, gone: set[JobId], *, limited: bool = True) -> bool:
        """By a pass of its own, on a cluster without these, and without what is ending."""
        taken = snapshot(self.state, self.now)
        leaving = gone | {run.job_id for run in taken.running if not run.end_time}
        nodes = {node.name: node for node in taken.nodes}
        accounts = taken.accounts if limited else None
        ledger = accounts.ledger.copy() if accounts is not None else None
        for other in leaving:
            job = self.state.jobs[other]
            for part in job.allocation:
                if job.state is not JobState.COMPLETING or part.node in job.open_nodes:
                    nodes[part.node] = _with_freed(nodes[part.node], part)
            if ledger is not None:
                ledger.charge(self.state.accounts.charged_of(job), as_dict(job.allocated_tres), -1)
        alone = replace(
            taken,
            nodes=list(nodes.values()),
            running=[run for run in taken.running if run.job_id not in leaving],
            classes=[
                replace(jobs, jobs=mine, key=None)
                for jobs in taken.classes
                if (mine := tuple(job for job in jobs.jobs if job.job_id == job_id))
            ],
            accounts=replace(accounts, ledger=ledger)
            if accounts is not None and ledger is not None
            else None,
            preemption=PreemptionSection(),
        )
        return bool(schedule(_without_preemption(alone)).placements)

    def observe(self, transaction: Transaction) -> None:
        for event in transaction.events:
            if isinstance(event, RunEnding) and event.cause is not EndCause.PREEMPT:
                self.driven_out.clear()
            if isinstance(event, NodeReleased | RunEnded):
                for claim in self.claims.values():
                    claim.has_changed |= (event.job_id, event.run) not in claim.victims
            if isinstance(event, RunPlaced):
                self.placed(event)

    def placed(self, event: RunPlaced) -> None:
        nodes = {part.node for part in event.allocation}
        job = self.state.jobs[event.job_id]
        claim = self.claims.pop(job.array_job_id or job.id, None)
        if claim is None:
            is_guaranteed = self.is_guaranteed(job)
            for preemptor, other in self.claims.items():
                other.is_overtaken |= is_guaranteed
                gone = all(
                    self.state.jobs[v].run != run or not self.state.jobs[v].state.holds_nodes
                    for v, run in other.victims
                )
                wait = self.last_plan.waits.get(preemptor)
                # What others leave it may have got in exchange.
                is_kept = wait is not None and bool(wait.planned_nodes)
                is_free = is_kept or other.has_changed or other.by_limit or not nodes & other.freed
                assert is_free or not gone or preemptor not in self.state.queue, (
                    f"{event.job_id} has taken what {preemptor} was to have"
                )
            return
        if not nodes & claim.freed and not claim.by_limit:
            assert claim.has_changed, f"{job.id} starts on {nodes}, its victims have left {claim.freed}"
            self.tally.elsewhere += 1

    def is_guaranteed(self, job: Job) -> bool:
        """Is its account, with it, within what it is guaranteed?"""
        accounts = self.state.accounts
        used = accounts.limits.ledger.of("account", job.spec.account).tres.get(GPU, 0)
        guarantee = accounts.tree.guarantee(job.spec.account).get(GPU, 0) if not accounts.tree.is_empty else 0
        return 0 < used <= guarantee

    # The whole

    def play(self) -> Tally:
        for _ in range(self.random.randint(6, 18)):
            self.submit()
            self.advance(self.now + self.random.choice([0.0, 0.1, 2.0, 20.0, 90.0]))
            self.save()
            if self.random.random() < 0.08:
                self.cancel_one()
        self.advance(self.now + 100)
        if self.lasts_for_ever:
            before = self.tally.preemptions
            self.advance(self.now + 3000)
            assert self.tally.preemptions == before, "it goes round and round"
        else:
            self.advance(self.now + 20_000)
        check(self.state)
        for preemptor, claim in self.claims.items():
            is_excused = claim.by_limit and claim.is_overtaken
            assert is_excused or not self.state.jobs[preemptor].claims, f"{preemptor} has never started"
        self.tally.lost = sum(
            record.true_cost or 0.0 for job in self.state.jobs.values() for record in job.preemptions
        )
        return self.tally


def _without_preemption(taken: Snapshot) -> Snapshot:
    return replace(taken, running=[replace(run, preempt_mode="off") for run in taken.running])


def _with_freed(node: NodeAvailability, part: NodeAllocation) -> NodeAvailability:
    return replace(
        node,
        cpus_free=Bitmap(node.cpus_free | part.cpus),
        gpus_free=Bitmap(node.gpus_free | part.gpus),
        memory_free_mib=node.memory_free_mib + part.memory_mib,
    )


def _configuration(draw: random.Random) -> Configuration:
    section = PreemptionSection(
        mode="requeue",
        exempt_s=draw.choice([0.0, 0.0, 30.0]),
        cooldown_s=draw.choice([0.0, 60.0]),
        limit_per_job=draw.choice([0, 0, 2]),
        max_victims=draw.choice([0, 0, 2]),
        reclaim=draw.choice(["off", "guarantee", "fair_share"]),
        checkpoint_wait_s=draw.choice([0.0, 30.0]),
        restart_s=draw.choice([0.0, 10.0]),
    )
    nodes = draw.randint(2, 6)
    configuration = a_configuration(
        nodes, cpus=8, gpus=4, racks=draw.choice([0, 2]) if nodes > 3 else 0, preemption=section
    )
    (batch,) = configuration.partitions
    mode = draw.choice(["", "", "cancel", "off"])
    urgent = Partition("urgent", batch.nodes, priority_tier=2, preempt_mode=mode)
    top = Partition("top", batch.nodes, priority_tier=3)
    return replace(configuration, partitions=(batch, urgent, top))


def _accounts(cluster: Churn) -> Sequence[str]:
    """Two departments, one with two groups; or none at all."""
    draw = cluster.random
    if draw.random() < 0.3:
        return ()
    capacity = 4 * len(cluster.nodes)
    parts = [draw.randint(0, capacity // 4) for _ in range(3)]

    def account(name: str, guarantee: int, parent: str = "root") -> Account:
        fence = {GPU: 0} if draw.random() < 0.1 else {}
        return Account(
            name, parent, guarantee={GPU: guarantee}, weight=draw.randint(1, 3), lend_limit=fence,
            qos=("normal", "high"),
        )  # fmt: skip

    accounts = [
        account("top", parts[0] + parts[1]), account("left", parts[0], "top"),
        account("right", parts[1], "top"), account("other", parts[2]),
    ]  # fmt: skip
    names = ("left", "right", "other")
    changes = AccountChanges(
        accounts=tuple(accounts),
        users=tuple(AccountUser(name, name) for name in names),
        associations=tuple(Association(name, name) for name in names),
        qos=(Qos("high", preempt=("normal",) if draw.random() < 0.5 else ()),),
    )
    refusal = cluster.tell(ChangeAccounts(changes, cluster.state.accounts.version, OPERATOR)).refusal
    assert refusal is None, refusal
    return names


def play(seed: int) -> Tally:
    """Raises AssertionError, with the seed in its notes."""
    try:
        return Churn(seed).play()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
