"""`minislurm why`: what is said of a job, and what is proposed: carried out, it helps."""

from __future__ import annotations

import shlex

import pytest

from minislurm.cli.update import JobUpdate, parse_update
from minislurm.cli.why import explanation_text, short_lines
from minislurm.cluster.explanation import OutOfTime, explanation
from minislurm.cluster.messages import Caller, HoldJob, UpdateJob
from minislurm.domain.configuration import License, Partition
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Dependency, DependencyKind
from minislurm.domain.job_targets import parse_target
from minislurm.domain.reservation import LicenseCount
from minislurm.domain.states import JobState
from minislurm.domain.views import Explanation, JobTarget
from tests.builders import a_configuration, a_request, a_spec
from tests.sim.cluster import SimCluster

WHOLE = a_request(exclusive=True)


def told(cluster: SimCluster, job_id: int, task: int | None = None) -> Explanation:
    working = explanation(cluster.state, cluster.job(job_id), cluster.now, task=task)
    while True:
        try:
            next(working)
        except StopIteration as done:
            result: Explanation = done.value
            return result


def carry_out(cluster: SimCluster, command: str) -> None:
    """`scontrol update …`, as typed."""
    words = shlex.split(command)
    assert words[:2] == ["scontrol", "update"]
    update = parse_update(words[2:], cluster.now)
    assert isinstance(update, JobUpdate)
    target = parse_target(update.job_ids)
    transaction = cluster.tell(UpdateJob(target, Caller(1000), update.changes))
    assert transaction.refusal is None
    cluster.run(1)


def a_busy_cluster(**sections: object) -> SimCluster:
    """Two of four nodes are taken for an hour (job 1)."""
    cluster = SimCluster(a_configuration(4, cpus=4, gpus=4, **sections), duration_of=lambda job: 3600.0)
    cluster.submit(a_spec(request=a_request(2, exclusive=True), time_limit_s=3600.0))
    cluster.run(1)
    return cluster


@pytest.mark.parametrize(
    "changes",
    [
        {"request": a_request(4, exclusive=True)},
        {"request": a_request(3, exclusive=True), "array_tasks": (1, 2, 3)},
    ],
)
def test_fewer_nodes(changes: dict[str, object]) -> None:
    cluster = a_busy_cluster()
    job_id = cluster.submit(a_spec(time_limit_s=600.0, **changes))
    cluster.run(1)
    found = told(cluster, job_id)
    assert (found.reason, found.rejected) == ("Resources", {"cpus busy": 2})
    (proposal,) = found.proposals
    assert proposal.command == f"scontrol update JobId={job_id} NumNodes=2"
    assert proposal.starts_now
    carry_out(cluster, proposal.command)
    assert any(job.state is JobState.RUNNING and job.id != 1 for job in cluster.state.jobs.values())


def test_a_shorter_limit_fits_before_the_head() -> None:
    cluster = a_busy_cluster()
    head = cluster.submit(a_spec(request=a_request(4, exclusive=True), time_limit_s=3600.0))
    job_id = cluster.submit(a_spec(request=a_request(2, exclusive=True), time_limit_s=7200.0))
    cluster.run(1)
    found = told(cluster, job_id)
    assert found.reason == "Priority"
    assert [(h.job_id, h.is_cause) for h in found.heads] == [(head, True)]
    assert found.heads[0].start == cluster.job(1).expected_end_time
    assert found.start_estimate == found.heads[0].start + 3600
    (proposal,) = found.proposals
    assert proposal.command == f"scontrol update JobId={job_id} TimeLimit=00:59:00"
    text = explanation_text(found)
    assert f"It would delay job {head}, for which n[1-4] at " in text
    assert "Any one of these would let it start now:" in text
    carry_out(cluster, proposal.command)
    assert cluster.job(job_id).state is JobState.RUNNING


def test_no_limit_is_proposed_that_would_be_none() -> None:
    """Less than a minute is left before the head; 0 would stand for no limit."""
    cluster = a_busy_cluster()
    cluster.submit(a_spec(request=a_request(4, exclusive=True), time_limit_s=3600.0))
    job_id = cluster.submit(a_spec(request=a_request(2, exclusive=True), time_limit_s=7200.0))
    cluster.run(3600 - 40)
    found = told(cluster, job_id)
    assert (found.reason, found.proposals) == ("Priority", ())


def test_another_partition() -> None:
    names = tuple(NodeName(f"n{i}") for i in range(1, 5))
    partitions = (
        Partition("batch", nodes=names[:2], default=True),
        Partition("short", nodes=names[2:], max_time_s=60.0),
        Partition("other", nodes=names[2:]),
    )
    cluster = a_busy_cluster(partitions=partitions)
    job_id = cluster.submit(a_spec(request=WHOLE, time_limit_s=600.0))
    cluster.run(1)
    (proposal,) = told(cluster, job_id).proposals
    assert proposal.command == f"scontrol update JobId={job_id} Partition=other"
    carry_out(cluster, proposal.command)
    assert cluster.job(job_id).state is JobState.RUNNING


def test_fewer_gpus_or_no_single_rack() -> None:
    cluster = SimCluster(a_configuration(4, cpus=4, gpus=4, racks=2), duration_of=lambda job: 3600.0)
    for name in ("n1", "n3"):
        request = a_request(required_nodes=(NodeName(name),), gpus_per_node=2)
        cluster.submit(a_spec(request=request, time_limit_s=3600.0))
    cluster.run(1)
    racked = a_request(2, gpus_per_node=3, topology_level="rack", topology_required=True)
    job_id = cluster.submit(a_spec(request=racked, time_limit_s=600.0, gpus_per_node="3"))
    cluster.run(1)
    commands = {proposal.command for proposal in told(cluster, job_id).proposals}
    update = f"scontrol update JobId={job_id}"
    gpus = f"{update} TresPerNode=gpu:2"
    assert commands == {f"{update} Topology=rack", gpus, f"{update} NumNodes=1"}
    carry_out(cluster, gpus)
    assert cluster.job(job_id).state is JobState.RUNNING


def test_sooner_where_nothing_helps_now() -> None:
    cluster = a_busy_cluster()
    cluster.submit(a_spec(request=a_request(2, exclusive=True), time_limit_s=7200.0))
    cluster.run(1)
    job_id = cluster.submit(a_spec(request=a_request(4, exclusive=True), time_limit_s=600.0))
    cluster.run(1)
    found = told(cluster, job_id)
    assert found.start_estimate == cluster.job(2).expected_end_time
    assert all(not proposal.starts_now for proposal in found.proposals)
    commands = {proposal.command: proposal.start for proposal in found.proposals}
    assert commands[f"scontrol update JobId={job_id} NumNodes=2"] == cluster.job(1).expected_end_time
    assert "Any one of these would let it start sooner:" in explanation_text(found)


def test_nothing_is_proposed_that_does_not_help() -> None:
    cluster = SimCluster(a_configuration(2, cpus=4, licenses=(License("a", 1),)), duration_of=lambda job: 1e5)
    wanted = a_request(2, licenses=(LicenseCount("a", 1),))
    for _ in range(2):
        cluster.submit(a_spec(request=wanted, time_limit_s=3600.0))
    cluster.run(1)
    found = told(cluster, 2)
    assert found.proposals == ()
    assert "License a: 0 free, it asks for 1." in found.sentences


def test_those_that_are_not_in_the_queue() -> None:
    cluster = a_busy_cluster()
    after = Dependency(DependencyKind.AFTER_OK, JobId(1))
    follower = cluster.submit(a_spec(dependencies=(after,), time_limit_s=60.0))
    later = cluster.submit(a_spec(begin_time=cluster.now + 500, time_limit_s=60.0))
    held = cluster.submit(a_spec(hold=True))
    cluster.tell(HoldJob(JobTarget(held), Caller(1000)))
    cluster.run(1)
    found = told(cluster, follower)
    assert "It depends on afterok:1: job 1 is RUNNING." in found.sentences
    assert found.start_estimate == cluster.job(1).expected_end_time
    found = told(cluster, later)
    assert found.sentences[0].startswith("It may not begin before ")
    assert found.start_estimate == cluster.job(later).begin_time
    found = told(cluster, held)
    assert found.sentences[0].startswith("It is held by its user")
    assert found.start_estimate == 0
    assert "Nobody can say when it will start." in explanation_text(found)
    assert told(cluster, 1).sentences[0].startswith("It has been RUNNING since ")
    cluster.run_until(lambda: cluster.job(1).state.is_final)
    assert "TIMEOUT" in told(cluster, 1).sentences[0]


def test_a_task_of_an_array_has_its_own_start() -> None:
    cluster = a_busy_cluster()
    request = a_request(2, exclusive=True)
    rest = cluster.submit(a_spec(request=request, time_limit_s=600.0, array_tasks=(1, 2, 3), array_limit=1))
    cluster.run(1)
    first = told(cluster, rest, 2)
    second = told(cluster, rest, 3)
    assert second.shown_id == f"{rest}_3"
    assert second.start_estimate == first.start_estimate + 600
    assert "Tasks of its array that come before it: 1." in second.sentences
    assert second.reason == "JobArrayTaskLimit"


def test_out_of_time_what_was_found_is_told() -> None:
    cluster = a_busy_cluster()
    job_id = cluster.submit(a_spec(request=a_request(4, exclusive=True), time_limit_s=600.0))
    working = explanation(cluster.state, cluster.job(job_id), cluster.now)
    next(working)
    with pytest.raises(StopIteration) as stop:
        working.throw(OutOfTime())
    assert stop.value.value.job_id == job_id


def test_a_few_lines_for_scontrol() -> None:
    cluster = a_busy_cluster()
    job_id = cluster.submit(a_spec(request=a_request(4, exclusive=True), time_limit_s=600.0))
    cluster.run(1)
    lines = list(short_lines(told(cluster, job_id)))
    assert "  WhyNotNodes=cpus busy:2" in lines
    assert f"  Try=scontrol update JobId={job_id} NumNodes=2 StartTime=now" in lines
