"""`scontrol update NumNodes=` of an elastic job that runs: its user, or an operator, sets other bounds."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from minislurm.cluster.elastic_jobs import refuse_elastic_request
from minislurm.cluster.events import Event
from minislurm.cluster.resizes import UPDATE, begin_resize, may_resize
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import NodeName
from minislurm.domain.job import Job
from minislurm.domain.resources import ResourceRequest, size_within
from minislurm.domain.states import JobState
from minislurm.domain.views import JobChanges


def takes_nodes(job: Job, changes: JobChanges) -> Refusal | bool:
    """Is this a change of a run's number of nodes? A refusal where that cannot be changed."""
    if (changes.nodes_min is None and changes.nodes_max is None) or job.state is JobState.PENDING:
        return False
    if not job.is_elastic:
        detail = "only an elastic job (sbatch --elastic) changes its number of nodes while it runs"
        return Refusal(RefusalCode.JOB_NOT_PENDING, details=(detail,), job_id=job.id)
    if not may_resize(job):
        return Refusal(RefusalCode.TRY_LATER, job_id=job.id)
    return True


def change_bounds(state: ClusterState, job: Job, changes: JobChanges) -> Refusal | None:
    """`job`: the copy of a running record. A single number is the most that it may have from now on."""
    before, size = job.asked_request, len(job.allocation)
    most = changes.nodes_max if changes.nodes_max is not None else changes.nodes_min
    least = changes.nodes_min if changes.nodes_min is not None else before.nodes_min
    assert most is not None
    if least == most:
        least = min(before.nodes_min, most)
    if not 1 <= least <= most:
        return Refusal(RefusalCode.INVALID_NODE_COUNT, job_id=job.id)
    if least > size:
        detail = f"it runs on {size} nodes: its least cannot be more"
        return Refusal(RefusalCode.INVALID_NODE_COUNT, details=(detail,), job_id=job.id)
    each = -(-before.tasks // max(1, before.nodes_min))
    job.changed_request = replace(before, nodes_min=least, nodes_max=most, tasks=each * least)
    return None


def fit_bounds(state: ClusterState, job: Job, request: ResourceRequest, now: float) -> list[Event]:
    """What a run that has more nodes than it may have from now on gives back."""
    surplus = len(job.allocation) - size_within(request, len(job.allocation))
    if surplus <= 0:
        return []
    return begin_resize(state, job, UPDATE, now, leaving=_spare(state, job, surplus))


def _spare(state: ClusterState, job: Job, count: int) -> tuple[NodeName, ...]:
    """Those where it has the fewest in a rack, the last first; never the one of its batch script."""
    leaf_of_node = state.topology.leaf_of_node
    names = [part.node for part in job.allocation]
    in_leaf = Counter(leaf_of_node.get(name, "") for name in names)
    last_first = names[:0:-1]
    last_first.sort(key=lambda name: in_leaf[leaf_of_node.get(name, "")])
    return tuple(last_first[:count])


def refuse_pending_size(job: Job) -> Refusal | None:
    """A job that waits may be given a fixed size; a range must be one that it can use."""
    request = job.asked_request
    if not job.is_elastic or request.nodes_min == request.nodes_max:
        return None
    return refuse_elastic_request(request)
