"""`sbatch --test-only`: when would it start, if it were submitted now?"""

from __future__ import annotations

from msgspec.structs import replace

from minislurm.cluster.events import JobSubmitted
from minislurm.cluster.messages import SubmitJob
from minislurm.cluster.snapshot import snapshot
from minislurm.cluster.state import ClusterState
from minislurm.cluster.submission import decide_submission
from minislurm.controller.forecasts import Forecasts
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.states import PartitionState
from minislurm.domain.views import TestResult
from minislurm.scheduling.model import RequestClass


async def test_submission(
    state: ClusterState, forecasts: Forecasts, message: SubmitJob, now: float
) -> TestResult:
    """It joins the queue with the priority that it would have, and the planner runs forward on a copy until
    it starts. Raises Refusal where the submission would be refused, or where no start can be foreseen."""
    # NumPy takes a tenth of a second to load: after a restart, answers come before the first pass.
    from minislurm.cluster.outlook import alone, look_ahead
    from minislurm.cluster.snapshot import het_class
    from minislurm.scheduling.future import Arrival
    from minislurm.scheduling.predict import Forecast

    decided = decide_submission(state, message, now)
    if isinstance(decided, Refusal):
        raise decided
    submitted = decided[0]
    assert isinstance(submitted, JobSubmitted)
    job, jobs = submitted.job, (submitted.job, *submitted.components)
    # As Slurm, it asks when the job would start once nothing but the queue is in its way.
    since = max(now, job.begin_time)
    candidate = het_class(state, jobs, since) if submitted.components else alone(state, job, since)
    candidate = replace(_where_open(candidate), parts=tuple(map(_where_open, candidate.parts)))
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
    found = [forecast.estimates[one.id] for one in jobs if one.id in forecast.estimates]
    if estimate is None:
        # Never, as things are; or later than anybody has looked.
        never = forecast.is_complete
        raise Refusal(RefusalCode.NODE_CONFIGURATION if never else RefusalCode.NODES_BUSY)
    cpus = sum(one.cpus for one in found)
    cpus = cpus or sum(one.request.tasks * one.request.cpus_per_task for one in jobs)
    nodes = estimate.nodes
    if submitted.components:
        names = {name for one in found for name in one.nodes}
        nodes = tuple(name for name in state.nodes if name in names)
    return TestResult(job.id, estimate.start, cpus, nodes, job.partition)


def _where_open(jobs: RequestClass) -> RequestClass:
    return replace(jobs, partition=replace(jobs.partition, state=PartitionState.UP))
