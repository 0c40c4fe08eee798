"""Why a job of the queue does not start now, who is before it, and whether it would start if it were another.

Pure. Every answer comes from a pass over a copy of the snapshot, never from a rule of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable

from msgspec import Struct
from msgspec.structs import replace

from minislurm.domain.configuration import Partition
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.states import Reason
from minislurm.scheduling.accounts import AccountsPass
from minislurm.scheduling.cycle import steps
from minislurm.scheduling.filters import Filters, asks_for_gpus
from minislurm.scheduling.model import (
    TASK_LIMIT,
    Placement,
    Plan,
    QueuedJob,
    RequestClass,
    Snapshot,
    Standing,
    Wait,
)
from minislurm.scheduling.nodes import Mask
from minislurm.scheduling.order import Queue, Ranking, Turn
from minislurm.scheduling.ranks import Ranks
from minislurm.scheduling.workspace import Workspace

#: So many of those before the job are named, so many heads are tried to be left out.
NAMED = 5
_HEADS_TRIED = 3
#: Jobs taken from the queue between two yields: about a millisecond.
_PIECE = 100

#: Whoever waits for one of these takes nothing from those behind it.
_HOLDS_UP = frozenset({Reason.RESOURCES, Reason.PRIORITY, Reason.MAINTENANCE, Reason.NODES_RESERVED})


class HeadInTheWay(Struct, frozen=True):
    """A job with a reservation. `is_cause`: without it, the job that is explained would start now."""

    job_id: JobId
    start: float
    nodes: tuple[NodeName, ...]
    is_cause: bool = False


class Findings(Struct, frozen=True):
    """`wait` None: it starts now. `rejected`: nodes by what they lack, were the job alone in the queue."""

    wait: Wait | None
    priority: int
    rejected: dict[str, int]
    #: How many jobs come first and want the same nodes; the first of them; those of them that wait for
    #: something else than nodes and hold nobody up.
    ahead: int = 0
    first_ahead: tuple[JobId, ...] = ()
    ahead_but_waiting: int = 0
    heads: tuple[HeadInTheWay, ...] = ()


def find(
    snapshot: Snapshot, job_id: JobId, key: Hashable, workspace: Workspace
) -> Generator[None, None, Findings]:
    """`key`: of the class that the job is in. Yields between units of work."""
    jobs = _class_of(snapshot, key)
    plan = yield from _pass(snapshot, workspace)
    standing = next((s for s in plan.standings if s.jobs is jobs), None)
    position = next((i for i, job in enumerate(jobs.jobs) if job.job_id == job_id), 0)
    wait = _wait_of(plan, standing, jobs.jobs[position])
    rejected = wait.rejected if wait is not None else {}
    if wait is not None and wait is not TASK_LIMIT and not rejected:
        alone = replace(jobs, jobs=[replace(jobs.jobs[position], slots=1)])
        by_itself = yield from _pass(replace(snapshot, classes=[alone]), workspace)
        rejected = by_itself.standings[0].head.rejected if by_itself.standings else {}
    if standing is None:
        return Findings(wait, 1, rejected)
    priority = standing.priority.at(jobs.jobs[position].eligible_time)
    heads = _heads(plan, jobs.partition)
    before = yield from _before(snapshot, plan, jobs, job_id, workspace)
    ids = frozenset(before.ids)
    ahead = [head for head in heads if head.job_id in ids]
    if wait is not None and wait.reason is Reason.PRIORITY:
        ahead = yield from _try_without(snapshot, ahead, job_id, workspace)
    return Findings(
        wait, priority, rejected, before.count, tuple(before.ids[:NAMED]), before.waiting, tuple(ahead)
    )


def what_if(
    snapshot: Snapshot, job_id: JobId, key: Hashable, changed: RequestClass, workspace: Workspace
) -> Generator[None, None, Placement | None]:
    """Where the job starts now if it is `changed` (with this job alone); None: it does not."""
    plan = yield from _pass(changed_to(snapshot, job_id, key, changed), workspace, explain=False)
    return next((placement for placement in plan.placements if placement.job_id == job_id), None)


def changed_to(snapshot: Snapshot, job_id: JobId, key: Hashable, changed: RequestClass | None) -> Snapshot:
    """The same queue, but for the job."""
    classes = [_without(jobs, job_id) if jobs.key == key else jobs for jobs in snapshot.classes]
    if changed is not None:
        # Its own class: its key must not be taken for that of another.
        classes.append(replace(changed, key=("what if", changed.request, changed.partition.name)))
    return replace(snapshot, classes=[jobs for jobs in classes if jobs.jobs])


def _without(jobs: RequestClass, job_id: JobId) -> RequestClass:
    return replace(jobs, jobs=[job for job in jobs.jobs if job.job_id != job_id])


def _class_of(snapshot: Snapshot, key: Hashable) -> RequestClass:
    return next(jobs for jobs in snapshot.classes if jobs.key == key)


def _pass(snapshot: Snapshot, workspace: Workspace, *, explain: bool = True) -> Generator[None, None, Plan]:
    # What another pass found blocked may not be, now that somebody is gone.
    workspace.verdicts = None
    plan = yield from steps(snapshot, workspace, explain=explain)
    workspace.verdicts = None
    return plan


def _wait_of(plan: Plan, standing: Standing | None, job: QueuedJob) -> Wait | None:
    if any(placement.job_id == job.job_id for placement in plan.placements):
        return None
    if not job.slots:
        return TASK_LIMIT
    return standing.wait_of(job.job_id) if standing is not None else None


def _heads(plan: Plan, partition: Partition) -> list[HeadInTheWay]:
    """Who has a reservation on the partition's nodes."""
    nodes = frozenset(partition.nodes)
    found = []
    for standing in plan.standings:
        for position, wait in enumerate(standing.why):
            if wait.planned_nodes and not nodes.isdisjoint(wait.planned_nodes):
                job = standing.jobs.jobs[standing.first + position]
                found.append(HeadInTheWay(job.job_id, wait.start_estimate, wait.planned_nodes))
    return found


def _try_without(
    snapshot: Snapshot, heads: list[HeadInTheWay], job_id: JobId, workspace: Workspace
) -> Generator[None, None, list[HeadInTheWay]]:
    """Tells which of them the job would delay: with it gone, the job starts."""
    tried = []
    for head in heads[:_HEADS_TRIED]:
        classes = []
        for jobs in snapshot.classes:
            is_its = any(job.job_id == head.job_id for job in jobs.jobs)
            classes.append(_without(jobs, head.job_id) if is_its else jobs)
            yield
        less = replace(snapshot, classes=[jobs for jobs in classes if jobs.jobs])
        plan = yield from _pass(less, workspace, explain=False)
        is_cause = any(placement.job_id == job_id for placement in plan.placements)
        tried.append(replace(head, is_cause=is_cause))
    return tried + heads[_HEADS_TRIED:]


class _Before(Struct, frozen=True):
    ids: list[JobId]
    waiting: int

    @property
    def count(self) -> int:
        return len(self.ids)


def _before(
    snapshot: Snapshot, plan: Plan, jobs: RequestClass, job_id: JobId, workspace: Workspace
) -> Generator[None, None, _Before]:
    """Those whom the pass comes to before the job, in its order, as far as they may want the same nodes and
    can ever start."""
    yield from workspace.load(snapshot)
    accounts = AccountsPass(snapshot.accounts, snapshot.settings)
    ranking = Ranking(snapshot, accounts, len(workspace.table.inventory), workspace.cpus)
    queue = Queue(accounts, Ranks(snapshot, accounts, workspace.total_of))
    turns, rivals = [], _Rivals(jobs, workspace.filters)
    for other in snapshot.classes:
        if other.jobs and rivals.may_be(other):
            candidate = workspace.candidate(other)
            if candidate.misfit is None:
                turns.append(Turn(candidate, ranking.line(candidate)))
        yield
    yield from queue.load(turns)
    reasons = {id(standing.jobs): standing.head.reason for standing in plan.standings}
    ids: list[JobId] = []
    waiting = count = 0
    while (turn := queue.pop()) is not None and turn.job.job_id != job_id:
        if reasons.get(id(turn.jobs), Reason.RESOURCES) in _HOLDS_UP:
            ids.append(turn.job.job_id)
        else:
            waiting += 1
        if turn.advance():
            queue.add(turn)
        count += 1
        if count % _PIECE == 0:
            yield
    return _Before(ids, waiting)


class _Rivals:
    """Who may want a node that this class wants."""

    def __init__(self, jobs: RequestClass, filters: Filters) -> None:
        self._filters = filters
        self._mine = self._nodes_of(jobs)
        self._known: dict[Hashable, bool] = {}

    def may_be(self, other: RequestClass) -> bool:
        # Most of a long queue wants one of a few kinds of nodes.
        kind = tuple(map(_kind_of_nodes, (other, *other.parts)))
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = bool((self._mine & self._nodes_of(other)).any())
        return found

    def _nodes_of(self, jobs: RequestClass) -> Mask:
        mask = self._filters.suited(jobs)
        for part in jobs.parts:
            mask = mask | self._filters.suited(part)
        return mask


def _kind_of_nodes(jobs: RequestClass) -> Hashable:
    request = jobs.request
    gpus = (request.gpu_type, request.gpu_memory_min_mib, request.gpu_capability_min, asks_for_gpus(request))
    named = (request.required_nodes, request.excluded_nodes, jobs.avoided_nodes)
    return jobs.partition.name, request.features, gpus, named
