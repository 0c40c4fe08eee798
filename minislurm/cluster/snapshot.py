"""The state as a scheduling pass sees it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any, overload

from msgspec.structs import replace

from minislurm.cluster.licenses import free_licenses
from minislurm.cluster.queue import ClassKey, QueueClass
from minislurm.cluster.reserved_nodes import run_end
from minislurm.cluster.resizes import grow_from, shrink_from
from minislurm.cluster.runs import array_slots
from minislurm.cluster.state import ClusterState
from minislurm.cluster.victims import (
    checkpoint_interval_s,
    exempt_until,
    mode_of,
    restart_s,
    save_s,
    saved_time,
    slice_end,
    tier_of,
)
from minislurm.domain.configuration import Partition
from minislurm.domain.ids import Bitmap, JobId
from minislurm.domain.job import Job
from minislurm.domain.node import Node
from minislurm.domain.reservation import Reservation, ReservationFlag
from minislurm.domain.resources import GpuGroup, capability_number
from minislurm.domain.states import JobState
from minislurm.domain.tres import as_dict
from minislurm.scheduling.model import (
    ElasticRun,
    NodeAvailability,
    QueuedJob,
    RequestClass,
    ReservedNodes,
    RunningJob,
    Snapshot,
)


def snapshot(state: ClusterState, now: float) -> Snapshot:
    """A copy as cheap as it can be: it must stay true while the state goes on. What has not changed since the
    last one are the same objects, by which a pass's `Workspace` knows what it need not read again."""
    nodes, running = state.kept.nodes, state.kept.running
    reservations = state.reservations.values()
    return Snapshot(
        now=now,
        nodes=[nodes.get(name) or kept_availability(state, node) for name, node in state.nodes.items()],
        running=[running.get(job_id) or kept_run(state, job_id) for job_id in state.active],
        classes=_classes(state),
        topology=state.topology,
        settings=state.configuration.scheduler,
        job_factor_max=max([p.priority_job_factor for p in state.partitions.values()], default=1),
        reservations=tuple([_reserved(r) for r in sorted(reservations, key=_by_start)])
        if reservations
        else (),
        licenses=free_licenses(state) if state.configuration.licenses else {},
        accounts=state.accounts.snapshot(now, state.nodes.values()),
        preemption=state.configuration.preemption,
        qos_preempts=qos_preempts(state),
    )


def qos_preempts(state: ClusterState) -> dict[str, tuple[str, ...]]:
    """By QOS that may preempt any: which."""
    if not state.accounts.are_enforced:
        return {}
    return {qos.name: qos.preempt for qos in state.accounts.tree.qos.values() if qos.preempt}


def _classes(state: ClusterState) -> list[RequestClass]:
    looks = state.queue.looks
    classes: list[RequestClass] = []
    for key, queued in state.queue.classes.items():
        view = queued.view
        if view is not None and not queued.array_rests and not looks:
            classes.append(view)  # mostly, and there may be a hundred thousand
        elif not key.component and key.partition in state.partitions:  # it may have left the configuration
            classes.append(_kept_class(state, key, queued))
    if state.het_jobs:
        classes += [_kept_het_class(state, components) for components in waiting_components(state)]
    return classes


def kept_availability(state: ClusterState, node: Node) -> NodeAvailability:
    found = state.kept.nodes.get(node.name)
    if found is None:
        found = state.kept.nodes[node.name] = availability(node)
    return found


def availability(node: Node) -> NodeAvailability:
    cpus, groups = (1 << node.cpus) - 1, node.gpus
    gpus = (1 << sum([group.count for group in groups])) - 1
    types = {group.type for group in groups if group.type} if groups else ()
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
        weight=node.weight,
        gpu_shares=tuple(node.gpu_shares.items()),
        gpu_attributes=_attributes(groups) if groups else {},
        gpu_links=node.gpu_links if groups else (),
        jobs=len(node.jobs),
        last_placed=node.last_placed,
    )


def _attributes(groups: tuple[GpuGroup, ...]) -> dict[str, tuple[int, str]]:
    """By GPU type: memory in MiB and compute capability, where known. Unlike GPUs of one type: the least."""
    attributes: dict[str, tuple[int, str]] = {}
    for group in groups:
        if group.memory_mib or group.capability:
            other = attributes.get(group.type, (group.memory_mib, group.capability))
            least = min(group.capability, other[1], key=capability_number)
            attributes[group.type] = (min(group.memory_mib, other[0]), least)
    return attributes


#: So many times of a recurring reservation are foreseen.
_WINDOWS = 16


def _by_start(reservation: Reservation) -> tuple[float, str]:
    return reservation.start_time, reservation.name


def _reserved(reservation: Reservation) -> ReservedNodes:
    has = reservation.has
    return ReservedNodes(
        reservation.name,
        tuple(islice(reservation.windows(), _WINDOWS)),
        reservation.nodes,
        reservation.users,
        reservation.accounts,
        maintenance=has(ReservationFlag.MAINT),
        binds_nodes=reservation.binds_nodes,
        binds_time=not has(ReservationFlag.FLEX),
        overrides=has(ReservationFlag.MAINT) or has(ReservationFlag.OVERLAP),
    )


def kept_run(state: ClusterState, job_id: JobId) -> RunningJob:
    found = state.kept.running.get(job_id)
    if found is None:
        found = state.kept.running[job_id] = run_of(state, state.jobs[job_id])
    return found


def run_of(state: ClusterState, job: Job) -> RunningJob:
    request = job.request
    asked = (job.spec.user_id, request.exclusive_user is not None, request.licenses)
    slice_s = state.configuration.scheduler.time_slice_s
    gives_way = (tier_of(state, job), mode_of(state, job), exempt_until(state, job))
    costs = (saved_time(job), bool(job.checkpoints), save_s(state, job), restart_s(state, job))
    own: tuple[Any, ...] = (
        *asked, job.run, job.start_time, job.partition, *gives_way, slice_end(state, job), slice_s,
        *costs, checkpoint_interval_s(job), job.start_priority, *_charged(state, job),
    )  # fmt: skip
    if job.is_resizing:
        return _resizing_run(state, job, own)
    if job.gives_way:
        return RunningJob(job.id, 0.0, job.parts, *own)  # its nodes are about to be free
    if job.state is not JobState.COMPLETING or job.replacing:
        changes = job.is_elastic and job.state is JobState.RUNNING and job.partition in state.partitions
        run = RunningJob(job.id, run_end(state, job), job.parts, *own)
        return replace(run, elastic=elastic_run(state, job)) if changes else run
    # Nodes that have let go are free already: counted twice, they would seem to have room beside a head.
    # The others are about to let go.
    held = tuple(part for part in job.allocation if part.node in job.open_nodes)
    return replace(RunningJob(job.id, 0.0, held, *own), ending_since=job.ending_time)


def _resizing_run(state: ClusterState, job: Job, own: Sequence[Any]) -> RunningJob:
    """As it will be: until then it is left alone. What it gives back is about to come free."""
    stays = job.state is not JobState.COMPLETING or (job.keeps_nodes and job.requeue_cause)
    leaving = tuple([part for part in job.held_parts if part.node in job.leaving])
    held = tuple([part for part in job.held_parts if part not in leaving])
    run = RunningJob(job.id, run_end(state, job) if stays else 0.0, held, *own)
    since = 0.0 if stays else job.ending_time
    run = replace(run, leaving=leaving, exempt_until=inf, slice_end=inf, ending_since=since)
    if not (stays and job.keeps_nodes and job.joining and job.partition in state.partitions):
        return run
    return replace(run, joining=job.joining, elastic=elastic_run(state, job))


def elastic_run(state: ClusterState, job: Job) -> ElasticRun:
    """How the run may change its size."""
    spec, cooldown_s = job.spec, state.configuration.elastic.grow_cooldown_s
    # Licenses are the job's, however large it is.
    jobs = request_class(state, state.queue.key_of(job), (), None)
    jobs = replace(
        jobs,
        request=replace(jobs.request, licenses=()),
        account=spec.account, user_id=spec.user_id, user_name=spec.user_name, qos=spec.qos, expected_s=0.0,
    )  # fmt: skip
    restarts = not job.resizes_in_place
    # A restart that soon ends is worth nothing.
    until = run_end(state, job) - cooldown_s if restarts else inf
    return ElasticRun(jobs, restarts, grow_from(state, job), until, shrink_from(state, job))


def _charged(state: ClusterState, job: Job) -> tuple[str, str, str, str, dict[str, int]]:
    """Whom it is charged to, and for what; nothing where there are no accounts."""
    if state.accounts.tree.is_empty:
        return "", "", "", "", {}
    return (*state.accounts.charged_of(job), as_dict(job.allocated_tres))


def _kept_class(state: ClusterState, key: ClassKey, queued: QueueClass) -> RequestClass:
    view = queued.view
    # What an array may still start depends on its running tasks as well.
    if view is None or queued.array_rests:
        view = queued.view = _class(state, key, queued)
    elif state.queue.looks.get(key.partition) == "history" and view.expected_s != _expected_s(state, key):
        view = queued.view = replace(view, expected_s=_expected_s(state, key))
    return view


def waiting_components(state: ClusterState) -> Iterator[list[Job]]:
    """Of each heterogeneous job that may start: all its components. None may before all may."""
    for leader_id, ids in state.het_jobs.items():
        if leader_id in state.queue:
            components = [state.jobs[job_id] for job_id in ids]
            if all(job.id in state.queue and job.partition in state.partitions for job in components):
                yield components


def _kept_het_class(state: ClusterState, components: Sequence[Job]) -> RequestClass:
    queued = [state.queue.classes[state.queue.places[job.id][0]] for job in components]
    view = queued[0].het_view
    if (
        view is None
        or any(one.het_view is None for one in queued)
        or view.expected_s != _expected_s(state, state.queue.key_of(components[0]))
    ):
        view = het_class(state, components, components[0].eligible_time)
        for one, jobs in zip(queued, (view, *view.parts), strict=True):
            one.het_view = jobs
    return view


def het_class(state: ClusterState, components: Sequence[Job], eligible_time: float) -> RequestClass:
    """The class of a heterogeneous job. Nodes on which one component's launch failed are avoided by all."""
    avoided = tuple(dict.fromkeys(name for job in components for name in job.avoided_nodes))
    classes: list[RequestClass] = []
    for job in components:
        key = state.queue.key_of(job)
        queued = state.queue.classes.get(key)
        name: Hashable = key if queued is None else queued.number
        since = job.eligible_time if classes and job.eligible_time else eligible_time
        member = QueuedJob(job.id, since, since)
        classes.append(request_class(state, key._replace(avoided_nodes=avoided), [member], name))
    return replace(classes[0], parts=tuple(classes[1:]))


def _expected_s(state: ClusterState, key: ClassKey) -> float:
    """0 where the partition's order does not ask for it."""
    if state.queue.looks.get(key.partition) != "history":
        return 0.0
    return state.history.expected_s(key.user_id, key.name, key.request, key.time_limit_s)


def _class(state: ClusterState, key: ClassKey, queued: QueueClass) -> RequestClass:
    arrays = {
        job_id: (tuple((job := state.jobs[job_id]).pending_tasks), _slots(state, job))
        for job_id in queued.array_rests
    }
    return request_class(state, key, _Members(list(queued.members), arrays), queued.number)


def _slots(state: ClusterState, rest: Job) -> int:
    """How many of its tasks a pass looks at. While others give way to some of them, these alone: they come
    before all other jobs, and the rest of the array has no claim to that."""
    slots = array_slots(state, rest)
    return min(slots, rest.claims) if rest.claims else slots


def request_class(
    state: ClusterState, key: ClassKey, jobs: Sequence[QueuedJob], name: Hashable
) -> RequestClass:
    return RequestClass(
        request=key.request,
        partition=_partition(state, key.partition),
        time_limit_s=key.time_limit_s,
        nice=key.nice,
        fixed_priority=key.priority,
        avoided_nodes=key.avoided_nodes,
        account=key.account,
        user_id=key.user_id,
        user_name=key.user_name,
        qos=key.qos,
        site_factor=key.site_factor,
        expected_s=_expected_s(state, key),
        attained_service_s=key.attained_service_s,
        attained_time_s=key.attained_time_s,
        bid=key.bid,
        claims=key.claims,
        claim_time=key.claim_time,
        preemption=key.preemption,
        jobs=jobs,
        key=name,
    )


def _partition(state: ClusterState, name: str) -> Partition:
    """With its state of now."""
    found = state.kept.partitions.get(name)
    if found is None:
        found = replace(state.partitions[name], state=state.partition_state(name))
        state.kept.partitions[name] = found
    return found


@dataclass(slots=True, eq=False)
class _Members(Sequence[QueuedJob]):
    """Makes a `QueuedJob` only for those that the pass looks at: of ten thousand, often one."""

    members: list[tuple[float, JobId]]
    arrays: dict[JobId, tuple[tuple[int, ...], int]]
    made: dict[int, QueuedJob] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.members)

    @overload
    def __getitem__(self, index: int) -> QueuedJob: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[QueuedJob]: ...
    def __getitem__(self, index: int | slice) -> QueuedJob | Sequence[QueuedJob]:
        if not isinstance(index, int):
            return _Members(self.members[index], self.arrays)
        job = self.made.get(index)
        if job is None:
            eligible_time, job_id = self.members[index]
            tasks, slots = self.arrays.get(job_id, ((), 1))
            job = self.made[index] = QueuedJob(job_id, eligible_time, eligible_time, tasks, slots)
        return job
