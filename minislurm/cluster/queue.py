"""Eligible pending jobs, grouped into request classes, each in order of eligibility."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from minislurm.domain.configuration import Configuration
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.preemption import PreemptionWish
from minislurm.domain.resources import ResourceRequest
from minislurm.scheduling.model import RequestClass


class ClassKey(NamedTuple):
    """Everything that decides whether and when a job can start, but its place in the queue."""

    request: ResourceRequest
    partition: str
    time_limit_s: float
    nice: int
    priority: int | None
    avoided_nodes: tuple[NodeName, ...]
    #: The user matters where nodes may belong to one; the rest to reservations and accounts.
    user_id: int = 0
    user_name: str = ""
    account: str = ""
    qos: str = ""
    site_factor: int = 0
    #: What the order of the partition looks at besides.
    name: str = ""
    attained_service_s: float = 0.0
    attained_time_s: float = 0.0
    bid: float = 0.0
    #: The id of a component of a heterogeneous job, whose class is its own (`snapshot.het_class`).
    component: JobId = JobId(0)
    #: What others give way for, and since when.
    claims: int = 0
    claim_time: float = 0.0
    preemption: PreemptionWish | None = None


#: The orders that look at more of a job; "history": sjf by the user's history.
Looks = Literal["history", "mlfq", "auction"]


def looks_of(configuration: Configuration) -> dict[str, Looks]:
    """By partition, of those that have such an order."""
    scheduler = configuration.scheduler
    result: dict[str, Looks] = {}
    for partition in configuration.partitions:
        order = partition.order or scheduler.order
        if order == "sjf" and (partition.sjf_by or scheduler.sjf_by) == "history":
            result[partition.name] = "history"
        elif order == "mlfq":
            result[partition.name] = "mlfq"
        elif order == "auction":
            result[partition.name] = "auction"
    return result


def class_key(job: Job, by_account: bool = False, looks: Looks | None = None) -> ClassKey:
    spec = job.spec
    # As long as no account was ever added, equal jobs of a user are one class whatever they are charged to.
    named = by_account or bool(job.request.reservation)
    return ClassKey(
        job.request,
        job.partition,
        job.time_limit_s,
        job.nice,
        job.priority,
        job.avoided_nodes,
        spec.user_id,
        spec.user_name if named else "",
        spec.account if named else "",
        spec.qos if by_account else "",
        job.site_factor,
        job.name if looks == "history" else "",
        job.attained_service_s if looks == "mlfq" else 0.0,
        job.attained_time_s if looks == "mlfq" else 0.0,
        job.bid if looks == "auction" else 0.0,
        job.id if job.het_job_id else JobId(0),
        job.claims,
        job.claim_time,
        spec.preemption,
    )


@dataclass(slots=True)
class QueueClass:
    #: What passes know the class by: comparing keys would cost more than the rest of the bookkeeping.
    number: int = field(default=0, compare=False)
    #: (eligible time, job id), ascending.
    members: list[tuple[float, JobId]] = field(default_factory=list)
    #: Those of them that are undivided arrays.
    array_rests: set[JobId] = field(default_factory=set)
    #: As the last snapshot had it; None: changed since.
    view: RequestClass | None = field(default=None, compare=False)
    #: The same of a component of a heterogeneous job.
    het_view: RequestClass | None = field(default=None, compare=False)

    def changed(self) -> None:
        self.view = self.het_view = None


@dataclass(slots=True)
class PendingQueue:
    classes: dict[ClassKey, QueueClass] = field(default_factory=dict)
    #: Where each job stands.
    places: dict[JobId, tuple[ClassKey, float]] = field(default_factory=dict)
    next_number: int = field(default=1, compare=False)
    #: There are accounts: whose a job is decides about it.
    by_account: bool = False
    #: By partition.
    looks: dict[str, Looks] = field(default_factory=dict)

    def key_of(self, job: Job) -> ClassKey:
        return class_key(job, self.by_account, self.looks.get(job.partition))

    def __contains__(self, job_id: object) -> bool:
        return job_id in self.places

    def __len__(self) -> int:
        return len(self.places)

    def add(self, job: Job) -> None:
        self.discard(job.id)
        key = self.key_of(job)
        self.places[job.id] = (key, job.eligible_time)
        queued = self.classes.get(key)
        if queued is None:
            queued = self.classes[key] = QueueClass(self.next_number)
            self.next_number += 1
        queued.changed()
        insort(queued.members, (job.eligible_time, job.id))
        if job.pending_tasks:
            queued.array_rests.add(job.id)

    def partition_changed(self, name: str | None = None) -> None:
        """None: any may have."""
        for key, queued in self.classes.items():
            if name is None or key.partition == name:
                queued.changed()

    def discard(self, job_id: JobId) -> None:
        place = self.places.pop(job_id, None)
        if place is None:
            return
        key, eligible_time = place
        queued = self.classes[key]
        queued.changed()
        index = bisect_left(queued.members, (eligible_time, job_id))
        assert queued.members[index] == (eligible_time, job_id)
        del queued.members[index]
        queued.array_rests.discard(job_id)
        if not queued.members:
            del self.classes[key]
