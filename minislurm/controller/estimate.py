"""`sbatch --test-only`: when would it start, if it were submitted now?"""

from __future__ import annotations

from dataclasses import replace

from minislurm.cluster.messages import Caller, SubmitJob
from minislurm.cluster.snapshot import snapshot
from minislurm.cluster.state import ClusterState
from minislurm.cluster.submission import decide_submission
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.states import PartitionState
from minislurm.domain.views import TestResult
from minislurm.scheduling.model import QueuedJob, RequestClass


def test_submission(state: ClusterState, spec: JobSpec, caller: Caller, now: float) -> TestResult:
    """Alone with what runs and waits now. Raises Refusal where the submission would be refused, or where
    no start can be foreseen."""
    from minislurm.scheduling.cycle import schedule

    decided = decide_submission(state, SubmitJob(spec, caller), now)
    if isinstance(decided, Refusal):
        raise decided
    job: Job = decided[0].job  # type: ignore[union-attr]
    taken = snapshot(state, now)
    partition = state.partitions[job.partition]
    candidate = RequestClass(
        request=job.request,
        partition=replace(partition, state=PartitionState.UP),
        time_limit_s=job.time_limit_s,
        jobs=[QueuedJob(job.id, now, now)],
        user_id=spec.user_id,
        user_name=spec.user_name,
        account=spec.account,
    )
    plan = schedule(replace(taken, classes=[candidate]))
    if plan.placements:
        allocation = plan.placements[0].allocation
        names, start = tuple(part.node for part in allocation), now
        cpus = sum(part.cpu_count for part in allocation)
    else:
        wait = plan.standings[0].head
        if not wait.start_estimate:
            raise Refusal(RefusalCode.NODE_CONFIGURATION)
        names, start = wait.planned_nodes, wait.start_estimate
        cpus = job.request.tasks * job.request.cpus_per_task
    return TestResult(job.id, start, cpus, names, job.partition)
