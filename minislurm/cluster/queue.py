"""Eligible pending jobs, grouped into request classes, each in order of eligibility."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.resources import ResourceRequest
from minislurm.scheduling.model import RequestClass


@dataclass(frozen=True, slots=True)
class ClassKey:
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
    #: Of all the rest: a key is looked up again and again, and a request has many fields.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rest = (self.partition, self.time_limit_s, self.nice, self.priority, self.avoided_nodes)
        whose = (self.user_id, self.user_name, self.account, self.qos)
        object.__setattr__(self, "_hash", hash((self.request, rest, whose)))

    def __hash__(self) -> int:
        return self._hash


def class_key(job: Job, by_account: bool = False) -> ClassKey:
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


@dataclass(slots=True)
class PendingQueue:
    classes: dict[ClassKey, QueueClass] = field(default_factory=dict)
    #: Where each job stands.
    places: dict[JobId, tuple[ClassKey, float]] = field(default_factory=dict)
    next_number: int = field(default=1, compare=False)
    #: There are accounts: whose a job is decides about it.
    by_account: bool = False

    def __contains__(self, job_id: object) -> bool:
        return job_id in self.places

    def __len__(self) -> int:
        return len(self.places)

    def add(self, job: Job) -> None:
        self.discard(job.id)
        key = class_key(job, self.by_account)
        self.places[job.id] = (key, job.eligible_time)
        queued = self.classes.get(key)
        if queued is None:
            queued = self.classes[key] = QueueClass(self.next_number)
            self.next_number += 1
        queued.view = None
        insort(queued.members, (job.eligible_time, job.id))
        if job.pending_tasks:
            queued.array_rests.add(job.id)

    def discard(self, job_id: JobId) -> None:
        place = self.places.pop(job_id, None)
        if place is None:
            return
        key, eligible_time = place
        queued = self.classes[key]
        queued.view = None
        index = bisect_left(queued.members, (eligible_time, job_id))
        assert queued.members[index] == (eligible_time, job_id)
        del queued.members[index]
        queued.array_rests.discard(job_id)
        if not queued.members:
            del self.classes[key]
