"""Eligible pending jobs, grouped into request classes, each in order of eligibility."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.resources import ResourceRequest


@dataclass(frozen=True, slots=True)
class ClassKey:
    """Everything that decides whether and when a job can start, but its place in the queue."""

    request: ResourceRequest
    partition: str
    time_limit_s: float
    nice: int
    priority: int | None
    avoided_nodes: tuple[NodeName, ...]


def class_key(job: Job) -> ClassKey:
    return ClassKey(job.request, job.partition, job.time_limit_s, job.nice, job.priority, job.avoided_nodes)


@dataclass(slots=True)
class PendingQueue:
    #: (eligible time, job id), ascending.
    classes: dict[ClassKey, list[tuple[float, JobId]]] = field(default_factory=dict)
    #: Where each job stands.
    places: dict[JobId, tuple[ClassKey, float]] = field(default_factory=dict)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self.places

    def __len__(self) -> int:
        return len(self.places)

    def add(self, job: Job) -> None:
        self.discard(job.id)
        key = class_key(job)
        self.places[job.id] = (key, job.eligible_time)
        insort(self.classes.setdefault(key, []), (job.eligible_time, job.id))

    def discard(self, job_id: JobId) -> None:
        place = self.places.pop(job_id, None)
        if place is None:
            return
        key, eligible_time = place
        members = self.classes[key]
        index = bisect_left(members, (eligible_time, job_id))
        assert members[index] == (eligible_time, job_id)
        del members[index]
        if not members:
            del self.classes[key]
