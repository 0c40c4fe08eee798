"""The state as a scheduling pass sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

from minislurm.cluster.queue import ClassKey, QueueClass
from minislurm.cluster.runs import array_slots
from minislurm.cluster.state import ClusterState
from minislurm.domain.ids import Bitmap, JobId
from minislurm.domain.job import Job
from minislurm.domain.node import Node
from minislurm.domain.resources import capability_number
from minislurm.domain.states import JobState
from minislurm.scheduling.model import (
    NodeAvailability,
    QueuedJob,
    RequestClass,
    RunningJob,
    Snapshot,
)


def snapshot(state: ClusterState, now: float) -> Snapshot:
    """A copy as cheap as it can be: it must stay true while the state goes on."""
    return Snapshot(
        now=now,
        nodes=[_availability(node) for node in state.nodes.values()],
        running=[_running(state.jobs[job_id], now) for job_id in state.active],
        classes=[
            _class(state, key, queued)
            for key, queued in state.queue.classes.items()
            if key.partition in state.partitions  # it may have left the configuration
        ],
        topology=state.topology,
        settings=state.configuration.scheduler,
    )


def _availability(node: Node) -> NodeAvailability:
    cpus, gpus = (1 << node.cpus) - 1, (1 << node.gpu_count) - 1
    types = {group.type for group in node.gpus if group.type}
    return NodeAvailability(
        name=node.name,
        usable=node.is_usable,
        cpus=node.cpus,
        memory_mib=node.memory_mib,
        cpus_free=Bitmap(cpus & ~node.cpus_used),
        memory_free_mib=node.memory_mib - node.memory_used_mib,
        gpus_free=Bitmap(gpus & ~node.gpus_used),
        gpus=Bitmap(gpus),
        gpus_by_type={name: node.gpus_of_type(name) for name in types},
        features=frozenset(node.spec.features),
        weight=node.spec.weight,
        gpu_shares=tuple(node.gpu_shares.items()),
        gpu_attributes=_attributes(node),
        gpu_links=node.gpu_links,
        jobs=len(node.jobs),
        last_placed=node.last_placed,
    )


def _attributes(node: Node) -> dict[str, tuple[int, str]]:
    """By GPU type: memory in MiB and compute capability, where known. Unlike GPUs of one type: the least."""
    attributes: dict[str, tuple[int, str]] = {}
    for group in node.gpus:
        if group.memory_mib or group.capability:
            other = attributes.get(group.type, (group.memory_mib, group.capability))
            least = min(group.capability, other[1], key=capability_number)
            attributes[group.type] = (min(group.memory_mib, other[0]), least)
    return attributes


def _running(job: Job, now: float) -> RunningJob:
    if job.state is not JobState.COMPLETING:
        return RunningJob(job.id, job.expected_end_time, job.allocation)
    # Nodes that have let go are free already: counted twice, they would seem to have room beside a head.
    # The others are about to let go.
    held = tuple(part for part in job.allocation if part.node in job.open_nodes)
    return RunningJob(job.id, min(job.expected_end_time, now), held)


def _class(state: ClusterState, key: ClassKey, queued: QueueClass) -> RequestClass:
    partition = state.partitions[key.partition]
    arrays = {
        job_id: (tuple((job := state.jobs[job_id]).pending_tasks), array_slots(state, job))
        for job_id in queued.array_rests
    }
    return RequestClass(
        request=key.request,
        partition=replace(partition, state=state.partition_state(partition.name)),
        time_limit_s=key.time_limit_s,
        nice=key.nice,
        fixed_priority=key.priority,
        avoided_nodes=key.avoided_nodes,
        jobs=_Members(list(queued.members), arrays),
        key=key,
    )


@dataclass(slots=True)
class _Members(Sequence[QueuedJob]):
    """Makes a `QueuedJob` only for those that the pass looks at: of ten thousand, often one."""

    members: list[tuple[float, JobId]]
    arrays: dict[JobId, tuple[tuple[int, ...], int]]

    def __len__(self) -> int:
        return len(self.members)

    @overload
    def __getitem__(self, index: int) -> QueuedJob: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[QueuedJob]: ...
    def __getitem__(self, index: int | slice) -> QueuedJob | Sequence[QueuedJob]:
        if isinstance(index, slice):
            return _Members(self.members[index], self.arrays)
        eligible_time, job_id = self.members[index]
        tasks, slots = self.arrays.get(job_id, ((), 1))
        return QueuedJob(job_id, eligible_time, eligible_time, tasks, slots)
