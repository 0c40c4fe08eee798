"""`sbatch --test-only`: when would it start, if it were submitted now?"""

from __future__ import annotations

from msgspec.structs import replace

from minislurm.cluster.messages import Caller, SubmitJob
from minislurm.cluster.snapshot import snapshot
from minislurm.cluster.state import ClusterState
from minislurm.cluster.submission import decide_submission
from minislurm.controller.forecasts import Forecasts
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.states import PartitionState
from minislurm.domain.views import TestResult


async def test_submission(
    state: ClusterState, forecasts: Forecasts, spec: JobSpec, caller: Caller, now: float
) -> TestResult:
    """It joins the queue with the priority that it would have, and the planner runs forward on a copy until
    it starts. Raises Refusal where the submission would be refused, or where no start can be foreseen."""
    # NumPy takes a tenth of a second to load: after a restart, answers come before the first pass.
    from minislurm.cluster.outlook import alone, look_ahead
    from minislurm.scheduling.future import Arrival
    from minislurm.scheduling.predict import Forecast

    decided = decide_submission(state, SubmitJob(spec, caller), now)
    if isinstance(decided, Refusal):
        raise decided
    job: Job = decided[0].job  # type: ignore[union-attr]
    # As Slurm, it asks when the job would start once nothing but the queue is in its way.
    candidate = alone(state, job, max(now, job.begin_time))
    candidate = replace(candidate, partition=replace(candidate.partition, state=PartitionState.UP))
    taken = snapshot(state, now)
    ahead = await forecasts.finish(look_ahead(state, now))
    if job.begin_time > now:
        ahead = replace(ahead, arrivals=(*ahead.arrivals, Arrival(candidate, job.begin_time)))
    else:
        # By its side there may be a class like it, whose key must not be taken for its own.
        taken = replace(taken, classes=[*taken.classes, replace(candidate, key="test only")])
    if job.is_array_rest and job.array_limit:
        ahead = replace(ahead, array_limits={**ahead.array_limits, job.id: job.array_limit})
    forecast = Forecast(taken, ahead)
    await forecasts.carry_on(forecast, job.id)
    estimate = forecast.estimates.get(job.id)
    if estimate is None:
        # Never, as things are; or later than anybody has looked.
        never = forecast.is_complete
        raise Refusal(RefusalCode.NODE_CONFIGURATION if never else RefusalCode.NODES_BUSY)
    cpus = estimate.cpus or job.request.tasks * job.request.cpus_per_task
    return TestResult(job.id, estimate.start, cpus, estimate.nodes, job.partition)
