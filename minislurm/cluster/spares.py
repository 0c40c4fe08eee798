"""Spare nodes (``--spare-nodes``): held by a job beside those on which it runs. A node that is lost is
replaced by one, and the script starts again at once: what the job holds is kept for it until the old run has
ended everywhere, so that nobody takes it in between."""

from __future__ import annotations

from msgspec.structs import replace

from minislurm.cluster import reservations
from minislurm.cluster.eligibility import latest_start
from minislurm.cluster.events import Event, RunPlaced
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import NodeName, RunNumber
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.resources import NodeAllocation, ResourceRequest
from minislurm.domain.states import PartitionState


def with_spares(spec: JobSpec) -> JobSpec | Refusal:
    """With a request for the spare nodes as well: each may have to take the place of any other."""
    if not spec.spare_nodes:
        if spec.on_node_fail == "replace":
            return _refused("--on-node-fail=replace needs --spare-nodes")
        return spec
    request, nodes = spec.request, spec.request.nodes_min
    if spec.elastic:
        return _refused("--spare-nodes does not go with --elastic")
    if not spec.is_batch:
        return _refused("--spare-nodes needs a batch script")
    if request.nodes_max != nodes:
        return _refused("--spare-nodes needs a fixed number of nodes")
    if request.tasks % nodes or request.gpus_total % nodes or request.segment:
        return _refused("--spare-nodes needs the same tasks and GPUs on every node, and no segments")
    if request.gpu_share_milli and not request.gpu_share_of_node:
        return _refused("--spare-nodes does not go with shares of GPUs")
    return replace(spec, request=_scaled(request, nodes + spec.spare_nodes))


def _refused(detail: str) -> Refusal:
    return Refusal(RefusalCode.NOT_SUPPORTED, details=(detail,))


def _scaled(request: ResourceRequest, nodes: int) -> ResourceRequest:
    each = request.tasks // request.nodes_min
    return replace(
        request,
        nodes_min=nodes,
        nodes_max=nodes,
        tasks=each * nodes,
        tasks_per_node=each,
        gpus_total=request.gpus_total // request.nodes_min * nodes,
    )


def request_of_run(job: Job) -> ResourceRequest:
    """What its run asks for without the spares that it has not (or no longer)."""
    request = job.request
    if not job.spec.spare_nodes:
        return request
    return _scaled(request, request.nodes_min - job.spec.spare_nodes + len(job.spares))


def split(
    job: Job, allocation: tuple[NodeAllocation, ...]
) -> tuple[tuple[NodeAllocation, ...], tuple[NodeAllocation, ...]]:
    """Where it runs, and its spares."""
    count = len(allocation) - job.spec.spare_nodes
    return allocation[:count], allocation[count:]


def run_on_spares(state: ClusterState, job: Job, now: float) -> list[Event]:
    """The run that follows on those of its nodes that are left, and on a spare; []: it queues again."""
    if not job.replacing or not job.requeue_cause or job.requeue_held:
        return []
    count = job.request.nodes_min - job.spec.spare_nodes
    parts = [p for p in job.parts if state.nodes[p.node].is_usable and p.node not in job.avoided_nodes]
    names: list[NodeName] = [part.node for part in parts]
    if (
        len(parts) < count
        or job.partition not in state.partitions
        or state.partition_state(job.partition) in (PartitionState.DOWN, PartitionState.INACTIVE)
        or now > latest_start(job)
        or not reservations.may_run(state, job, names, now)
    ):
        return []
    placed = RunPlaced(
        now,
        job.id,
        RunNumber(job.run + 1),
        tuple(parts[:count]),
        priority=job.start_priority,
        price=job.price,
        spares=tuple(parts[count:]),
    )
    return [placed]
