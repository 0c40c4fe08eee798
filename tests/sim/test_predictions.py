"""What is foreseen is what comes: with run times as long as their limits and nothing new, the simulated
cluster starts every job at the time, and on the nodes, that were predicted at the beginning."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from minislurm.cluster.check import check
from minislurm.cluster.core import Transaction
from minislurm.cluster.messages import Caller, SubmitJob
from minislurm.cluster.outlook import outlook
from minislurm.cluster.snapshot import snapshot
from minislurm.domain.configuration import License
from minislurm.domain.ids import JobId
from minislurm.domain.job import Dependency, DependencyKind, Job, JobSpec
from minislurm.domain.reservation import LicenseCount
from minislurm.domain.states import JobState
from minislurm.scheduling.predict import Forecast
from minislurm.sim.virtual_cluster import VirtualCluster
from tests.builders import a_configuration, a_request, a_spec, facts
from tests.unit.scheduling.builders import predict

NODES = 4


@st.composite
def a_random_spec(draw: st.DrawFn) -> JobSpec:
    nodes = draw(st.integers(1, NODES))
    tasks = draw(st.integers(nodes, 2 * nodes))
    share = draw(st.sampled_from([0, 0, 0, 300, 500]))
    request = a_request(
        nodes,
        tasks=tasks,
        gpus_per_node=0 if share else draw(st.integers(0, 2)),
        gpu_share_milli=share,
        gpu_share_of_node=bool(share),
        exclusive=not share and draw(st.sampled_from([False, False, False, True])),
        licenses=draw(st.sampled_from([(), (), (LicenseCount("a", 1),)])),
        switches=draw(st.sampled_from([0, 0, 0, 1])) if nodes <= 2 else 0,
        switches_wait_s=100.0,
    )
    array = draw(st.sampled_from([0, 0, 0, 3, 5]))
    return a_spec(
        request=request,
        time_limit_s=60.0 * draw(st.integers(1, 30)),
        begin_time=draw(st.sampled_from([0.0, 0.0, 0.0, 1_000_777.0])),
        array_tasks=tuple(range(array)),
        array_limit=draw(st.sampled_from([0, 2])) if array else 0,
    )


def the_whole_limit(job: Job) -> float:
    return job.time_limit_s


class Punctual(VirtualCluster):
    """Commands and reports take no time; every invariant is asserted at every step."""

    def submit(self, spec: JobSpec) -> JobId | None:
        """None: it can never run here."""
        request_id = f"request-{self.state.next_job_id}"
        transaction = self.tell(SubmitJob(spec, Caller(spec.user_id), request_id))
        return None if transaction.refusal is not None else self.state.requests[request_id].job_id

    def observe(self, transaction: Transaction) -> None:
        check(self.state)


def a_cluster(backfill: str = "easy") -> Punctual:
    configuration = a_configuration(NODES, cpus=4, gpus=2, racks=2, licenses=(License("a", 2),))
    timers = replace(configuration.timers, min_job_age_s=1e9)
    scheduler = replace(configuration.scheduler, backfill=backfill)
    configuration = replace(configuration, timers=timers, scheduler=scheduler)
    return Punctual(configuration, the_whole_limit, facts=facts())


def forecast_of(cluster: Punctual) -> Forecast:
    return predict(snapshot(cluster.state, cluster.now), outlook(cluster.state, cluster.now))


@given(
    specs=st.lists(a_random_spec(), min_size=1, max_size=14),
    follows=st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=14, max_size=14),
    backfill=st.sampled_from(["easy", "easy", "conservative"]),
    wait=st.sampled_from([0.0, 90.0]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_with_exact_run_times_all_starts_are_as_predicted(
    specs: list[JobSpec], follows: list[int], backfill: str, wait: float
) -> None:
    cluster = a_cluster(backfill)
    ids: list[JobId] = []
    for spec, distance in zip(specs, follows, strict=False):
        if distance and len(ids) >= distance:
            on = ids[-distance]
            spec = replace(spec, dependencies=(Dependency(DependencyKind.AFTER_ANY, on),))
        job_id = cluster.submit(spec)
        ids += [job_id] if job_id is not None else []
    cluster.advance(cluster.now + wait)
    waiting = [
        (job.id, job.pending_tasks[:]) for job in cluster.state.jobs.values() if job.state is JobState.PENDING
    ]
    forecast = forecast_of(cluster)
    cluster.advance(cluster.now + 1e7)
    for job_id, tasks in waiting:
        for task_id in tasks:
            record = cluster.state.task_record(job_id, task_id)
            assert record is not None
            assert record.start_time == forecast.task_starts[job_id, task_id]
        if not tasks:
            estimate = forecast.estimates[job_id]
            job = cluster.state.jobs[job_id]
            assert job.start_time == estimate.start
            assert tuple(part.node for part in job.allocation) == estimate.nodes


@given(specs=st.lists(a_random_spec(), min_size=3, max_size=14), later_s=st.integers(1, 50))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_as_long_as_nothing_happens_no_promise_moves(specs: list[JobSpec], later_s: int) -> None:
    cluster = a_cluster()
    for spec in specs:
        cluster.submit(spec)
    cluster.advance(cluster.now)
    before = forecast_of(cluster)
    seen = cluster.state.next_job_id, set(cluster.state.active), set(cluster.state.queue.places)
    cluster.advance(cluster.now + later_s)
    if seen != (cluster.state.next_job_id, set(cluster.state.active), set(cluster.state.queue.places)):
        return
    after = forecast_of(cluster)
    assert {job_id: e.start for job_id, e in after.estimates.items()} == {
        job_id: e.start for job_id, e in before.estimates.items()
    }
