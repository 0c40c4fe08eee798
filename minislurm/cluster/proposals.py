"""Changes to a pending job that may let it start, the least of each kind first. Whether one does is asked of
a pass (`scheduling/explain.py`); here only what could be asked for, and how.

Every change goes through the code of `scontrol update`, as the job's user: whatever that refuses, is not
proposed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from minislurm.cluster.events import JobUpdated
from minislurm.cluster.messages import Caller, UpdateJob
from minislurm.cluster.outlook import alone
from minislurm.cluster.requests import decide_update_job
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal
from minislurm.domain.job import Job
from minislurm.domain.job_targets import format_target
from minislurm.domain.resources import GpuGroup
from minislurm.domain.states import PartitionState
from minislurm.domain.times import format_duration_long
from minislurm.domain.views import JobChanges, JobTarget
from minislurm.scheduling.model import RequestClass

#: Seconds between the answer and the change: a shorter limit must still fit then.
_TYPING_S = 10.0
#: So many numbers of nodes or GPUs are looked at, evenly spread.
_STEPS = 64


class Change(Struct, frozen=True):
    """`text`: in words; `command`: the exact way to it; `jobs`: the job as it would be, alone in its
    class."""

    text: str
    command: str
    jobs: RequestClass


def changes(state: ClusterState, job: Job, now: float, times: Sequence[float]) -> list[list[Change]]:
    """By kind. `times`: those before which a shorter job would have to end. Of a heterogeneous job, none are
    looked for."""
    if job.is_component:
        return []
    caller = Caller(job.spec.user_id)
    kinds = [
        list(_fewer_nodes(state, job, caller, now)),
        list(_shorter(state, job, caller, now, times)),
        list(_anywhere(state, job, caller, now)),
        list(_fewer_gpus(state, job, caller, now)),
        *([change] for change in _other_partitions(state, job, caller, now)),
    ]
    return [kind for kind in kinds if kind]


def _fewer_nodes(state: ClusterState, job: Job, caller: Caller, now: float) -> Iterator[Change]:
    request = job.request
    is_range = request.nodes_max != request.nodes_min
    for nodes in _less(request.nodes_min):
        most = request.nodes_max if is_range else nodes
        text = f"{nodes}-{most}" if is_range and most else str(nodes)
        wanted = JobChanges(nodes_min=nodes, nodes_max=most)
        changed = _updated(state, job, caller, wanted, now)
        if changed is not None:
            words = f"{_count(nodes, 'node')} instead of {request.nodes_min}"
            yield Change(words, _update(job, f"NumNodes={text}"), changed)


def _shorter(
    state: ClusterState, job: Job, caller: Caller, now: float, times: Sequence[float]
) -> Iterator[Change]:
    limits = {60.0 * int((time - now - _TYPING_S) // 60) for time in times}
    for limit_s in sorted(limits, reverse=True):
        if limit_s < 60 or 0 < job.time_limit_s <= limit_s:
            continue
        changed = _updated(state, job, caller, JobChanges(time_limit_s=limit_s), now)
        if changed is not None:
            text = format_duration_long(limit_s)
            yield Change(f"a time limit of {text}", _update(job, f"TimeLimit={text}"), changed)


def _other_partitions(state: ClusterState, job: Job, caller: Caller, now: float) -> Iterator[Change]:
    for name in state.partitions:
        if name == job.partition or state.partition_state(name) is not PartitionState.UP:
            continue
        changed = _updated(state, job, caller, JobChanges(partition=name), now)
        if changed is not None:
            yield Change(f"partition {name}", _update(job, f"Partition={name}"), changed)


def _anywhere(state: ClusterState, job: Job, caller: Caller, now: float) -> Iterator[Change]:
    request, level = job.request, job.request.topology_level
    if request.topology_required and level:
        wanted = JobChanges(topology_level=level, topology_required=False)
        yield from _one(state, job, caller, now, f"not all in one {level}", f"Topology={level}", wanted)
    if request.switches:
        yield from _one(state, job, caller, now, "on more switches", "Switches=0", JobChanges(switches=0))
    if request.segment:
        yield from _one(state, job, caller, now, "in any segments", "Segment=0", JobChanges(segment=0))


def _one(
    state: ClusterState, job: Job, caller: Caller, now: float, text: str, word: str, wanted: JobChanges
) -> Iterator[Change]:
    changed = _updated(state, job, caller, wanted, now)
    if changed is not None:
        yield Change(text, _update(job, word), changed)


def _fewer_gpus(state: ClusterState, job: Job, caller: Caller, now: float) -> Iterator[Change]:
    """Of whole GPUs; a share of one is no number of them."""
    request = job.request
    if request.gpu_share_milli:
        return
    gpu_type = f"{request.gpu_type}:" if request.gpu_type else ""
    for name, key, of in _GPU_FORMS:
        amount: int = getattr(request, name)
        for gpus in _less(amount):
            text = f"{_count(gpus, 'GPU')} {of} instead of {amount}"
            wanted = replace(JobChanges(), **{name: GpuGroup(gpus, request.gpu_type)})
            yield from _one(state, job, caller, now, text, f"{key}=gpu:{gpu_type}{gpus}", wanted)


#: Field of the request, Slurm's key, in words.
_GPU_FORMS = (
    ("gpus_per_node", "TresPerNode", "a node"),
    ("gpus_per_task", "TresPerTask", "a task"),
    ("gpus_total", "TresPerJob", "in all"),
)


def _less(amount: int) -> list[int]:
    """From one less down to 1."""
    step = max(1, amount // _STEPS)
    smaller = list(range(amount - 1, 0, -step))
    return smaller if not smaller or smaller[-1] == 1 else [*smaller, 1]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _updated(
    state: ClusterState, job: Job, caller: Caller, wanted: JobChanges, now: float
) -> RequestClass | None:
    """The job as `scontrol update` would make it; None where that refuses."""
    target = JobTarget(job.id, tuple(job.pending_tasks))
    decided = decide_update_job(state, UpdateJob(target, caller, wanted), now)
    if isinstance(decided, Refusal):
        return None
    changed = next((event.job for event in decided if isinstance(event, JobUpdated)), None)
    if changed is None or not changed.eligible_time:
        return None
    return alone(state, changed, changed.eligible_time)


def _update(job: Job, word: str) -> str:
    return f"scontrol update JobId={shown_id(job)} {shlex.quote(word)}"


def shown_id(job: Job) -> str:
    """As commands take it: of an array, the tasks that wait."""
    if job.is_array_task:
        return f"{job.array_job_id}_{job.array_task_id}"
    started = len(job.pending_tasks) < len(job.spec.array_tasks)
    return format_target(JobTarget(job.id, tuple(job.pending_tasks) if started else ()))
