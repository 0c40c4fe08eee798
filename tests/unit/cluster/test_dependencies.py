"""Each kind of dependency: on jobs, arrays and tasks; on jobs that failed, are unknown, or are forgotten."""

from __future__ import annotations

import pytest

from minislurm.cluster.messages import PurgeDue, UpdateJob
from minislurm.domain.errors import RefusalCode
from minislurm.domain.job import Dependency
from minislurm.domain.states import Reason
from minislurm.domain.views import JobChanges
from tests.builders import a_request
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import (
    OTHER,
    USER,
    a_cluster,
    after,
    cancel,
    hold,
    release,
    requeue,
    state_of,
    submit_after,
    target,
    task,
    update,
)

#: Longer than anything here, shorter than what purges.
LONG = 100.0


def ended(cluster: SimCluster, *, failed: bool = False, **changes: object) -> int:
    job_id = cluster.submit(name="1", **changes)
    cluster.exit_codes[job_id] = int(failed)
    cluster.run(5)
    assert cluster.job(job_id).state.is_final
    return job_id


@pytest.mark.parametrize(
    ("kind", "failed", "goes_on"),
    [
        ("after", False, True),
        ("after", True, True),
        ("afterany", False, True),
        ("afterany", True, True),
        ("afterok", False, True),
        ("afterok", True, False),
        ("afternotok", False, False),
        ("afternotok", True, True),
        ("aftercorr", False, True),
        ("aftercorr", True, False),
    ],
)
@pytest.mark.parametrize("already", [True, False], ids=["ended before", "ends later"])
def test_each_kind(kind: str, failed: bool, goes_on: bool, already: bool) -> None:
    cluster = a_cluster()
    first = cluster.submit(name="10")
    cluster.exit_codes[first] = int(failed)
    if already:
        cluster.run(20)
    second = submit_after(cluster, after(kind, first), name="50")
    if not already:
        assert cluster.job(second).reason is Reason.DEPENDENCY
        cluster.run(9)
        assert state_of(cluster, second) == ("RUNNING" if kind == "after" else "PENDING")
        cluster.run(10)
    cluster.run(1)
    if goes_on:
        assert state_of(cluster, second) == "RUNNING"
        assert cluster.job(second).dependencies == ()
    else:
        assert state_of(cluster, second) == "PENDING"
        assert cluster.job(second).reason is Reason.DEPENDENCY_NEVER_SATISFIED
        assert cluster.job(second).dependencies == (after(kind, first),)


def test_a_cancelled_job_is_one_that_failed() -> None:
    cluster = a_cluster(1, cpus=1)
    running, waiting = cluster.submit(), cluster.submit()
    ok = submit_after(cluster, after("afterok", running))
    not_ok = submit_after(cluster, after("afternotok", waiting), name="50")
    cluster.run(1)
    cancel(cluster, waiting)
    cancel(cluster, running)
    cluster.run(1)
    assert cluster.reason(ok) == "DependencyNeverSatisfied"
    assert state_of(cluster, not_ok) == "RUNNING"


def test_all_clauses_must_hold() -> None:
    cluster = a_cluster()
    first, second = cluster.submit(name="10"), cluster.submit(name="20")
    third = submit_after(cluster, after("afterok", first), after("afterany", second))
    cluster.run(15)
    assert cluster.job(third).dependencies == (after("afterany", second),), "the other is fulfilled"
    assert state_of(cluster, third) == "PENDING"
    cluster.run(10)
    assert state_of(cluster, third) == "RUNNING"


def test_any_clause_is_enough_with_a_question_mark() -> None:
    cluster = a_cluster()
    first, second = cluster.submit(name="10"), cluster.submit(name="90")
    cluster.exit_codes[first] = 1
    clauses = (after("afterok", first), after("afterany", second))
    third = submit_after(cluster, *clauses, dependency_any=True)
    cluster.run(15)
    assert cluster.job(third).reason is Reason.DEPENDENCY, "one can still come true"
    cluster.run(80)
    assert state_of(cluster, third) == "RUNNING"


def test_never_with_a_question_mark_only_if_all_are() -> None:
    cluster = a_cluster()
    first, second = cluster.submit(name="10"), cluster.submit(name="20")
    cluster.exit_codes.update({first: 1, second: 1})
    third = submit_after(cluster, after("afterok", first), after("afterok", second), dependency_any=True)
    cluster.run(15)
    assert cluster.reason(third) == "Dependency"
    cluster.run(10)
    assert cluster.reason(third) == "DependencyNeverSatisfied"


def test_one_that_never_holds_spoils_all_at_once() -> None:
    cluster = a_cluster()
    first, second = cluster.submit(name="10"), cluster.submit(name="90")
    cluster.exit_codes[first] = 1
    third = submit_after(cluster, after("afterok", first), after("afterok", second))
    cluster.run(15)
    assert cluster.reason(third) == "DependencyNeverSatisfied"


@pytest.mark.parametrize("kind", ["after", "afterany", "afterok", "afternotok", "aftercorr"])
def test_an_unknown_job_counts_as_satisfied(kind: str) -> None:
    cluster = a_cluster()
    job_id = submit_after(cluster, after(kind, 999_999))
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"


def test_a_job_cannot_wait_for_itself() -> None:
    """Its id is one that nobody knows yet."""
    cluster = a_cluster()
    job_id = submit_after(cluster, after("afterok", 1))
    cluster.run(1)
    assert (job_id, state_of(cluster, job_id)) == (1, "RUNNING")


@pytest.mark.parametrize("kill", [True, False])
def test_never_satisfied_with_and_without_kill(kill: bool) -> None:
    cluster = a_cluster()
    first = ended(cluster, failed=True)
    second = submit_after(cluster, after("afterok", first), kill_on_invalid_dependency=kill)
    third = submit_after(cluster, after("afternotok", second), name="50")
    cluster.run(1)
    assert state_of(cluster, second) == ("CANCELLED" if kill else "PENDING")
    assert cluster.job(second).cancelled_by is None, "CANCELLED, by nobody"
    assert cluster.job(second).reason is Reason.DEPENDENCY_NEVER_SATISFIED
    assert state_of(cluster, third) == ("RUNNING" if kill else "PENDING")


def test_a_long_chain_that_cannot_be_satisfied_falls_whole() -> None:
    cluster = a_cluster()
    last = cluster.submit(name="5")
    cluster.exit_codes[last] = 1
    chain = []
    for _ in range(20):
        last = submit_after(cluster, after("afterok", last), kill_on_invalid_dependency=True)
        chain.append(last)
    cluster.run(10)
    assert {state_of(cluster, job_id) for job_id in chain} == {"CANCELLED"}


# after:ID+minutes


def test_after_with_a_delay() -> None:
    cluster = a_cluster(1, cpus=2)
    first = cluster.submit(name="5", begin_time=cluster.now + 100)
    second = submit_after(cluster, after("after", first, minutes=2))
    cluster.run(101)
    assert state_of(cluster, second) == "PENDING"
    cluster.run(118)
    assert state_of(cluster, second) == "PENDING"
    cluster.run(2)
    assert state_of(cluster, second) == "RUNNING"


def test_after_an_array_with_a_delay() -> None:
    """Counted from the start of the last task."""
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="30", array_tasks=(0, 1))
    second = submit_after(cluster, after("after", array, minutes=1))
    cluster.run(88)
    assert cluster.job(second).dependencies
    cluster.run(5)
    assert state_of(cluster, second) == "RUNNING"


def test_after_with_a_delay_outlives_a_restart() -> None:
    cluster = a_cluster(1, cpus=2)
    first = cluster.submit(name="5")
    second = submit_after(cluster, after("after", first, minutes=1))
    cluster.run(30)
    cluster.restart_controller()
    cluster.run(31)
    assert state_of(cluster, second) == "RUNNING"


def test_after_a_job_that_was_cancelled_while_it_waited() -> None:
    cluster = a_cluster(1, cpus=1)
    cluster.submit(name="5")
    waiting = cluster.submit()
    second = submit_after(cluster, after("after", waiting), name="50")
    cluster.run(1)
    cancel(cluster, waiting)
    cluster.run(10)
    assert state_of(cluster, second) == "RUNNING"


# singleton


def test_singleton_runs_one_after_the_other() -> None:
    cluster = a_cluster()
    jobs = [submit_after(cluster, after("singleton"), name="10") for _ in range(3)]
    other_name = submit_after(cluster, after("singleton"), name="11")
    other_user = submit_after(cluster, after("singleton"), name="10", user_id=1001)
    cluster.run(1)
    assert [state_of(cluster, j) for j in jobs] == ["RUNNING", "PENDING", "PENDING"]
    assert state_of(cluster, other_name) == "RUNNING"
    assert state_of(cluster, other_user) == "RUNNING"
    cluster.run(10)
    assert [state_of(cluster, j) for j in jobs] == ["COMPLETED", "RUNNING", "PENDING"]
    cluster.run(10)
    assert [state_of(cluster, j) for j in jobs] == ["COMPLETED", "COMPLETED", "RUNNING"]


def test_singleton_waits_for_jobs_without_it_too() -> None:
    cluster = a_cluster()
    cluster.submit(name="10")
    second = submit_after(cluster, after("singleton"), name="10")
    cluster.run(9)
    assert cluster.reason(second) == "Dependency"
    cluster.run(3)
    assert state_of(cluster, second) == "RUNNING"


def test_singleton_goes_on_when_the_one_before_is_cancelled() -> None:
    cluster = a_cluster(1, cpus=1)
    first, second, third = (submit_after(cluster, after("singleton"), name="10") for _ in range(3))
    cluster.run(1)
    cancel(cluster, second)
    cancel(cluster, first)
    cluster.run(1)
    assert state_of(cluster, third) == "RUNNING"


def test_the_tasks_of_a_singleton_array_do_not_wait_for_each_other() -> None:
    cluster = a_cluster()
    array = submit_after(cluster, after("singleton"), name="10", array_tasks=(0, 1, 2))
    cluster.run(1)
    assert {state_of(cluster, task(cluster, array, t).id) for t in range(3)} == {"RUNNING"}


# Arrays


def test_after_a_whole_array() -> None:
    cluster = a_cluster(1, cpus=2)
    array = cluster.submit(name="10", array_tasks=(0, 1, 2))
    begun = submit_after(cluster, after("after", array))
    done = submit_after(cluster, after("afterok", array))
    cluster.run(9)
    assert state_of(cluster, begun) == "PENDING", "the last task has not begun"
    cluster.run(3)
    assert cluster.job(begun).dependencies == ()
    assert cluster.job(done).dependencies != ()
    cluster.run(40)
    assert state_of(cluster, done) == "COMPLETED"


def test_afterok_of_an_array_fails_with_its_first_failed_task() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="10", array_tasks=(0, 1))
    ok = submit_after(cluster, after("afterok", array))
    any_ = submit_after(cluster, after("afterany", array), name="50")
    not_ok = submit_after(cluster, after("afternotok", array), name="50")
    cluster.run(1)
    cluster.exit_codes[task(cluster, array, 0).id] = 1
    cluster.run(12)
    assert cluster.reason(ok) == "DependencyNeverSatisfied"
    assert cluster.reason(any_) == "Dependency"
    cluster.run(12)
    assert state_of(cluster, any_) == "RUNNING"
    assert cluster.job(not_ok).dependencies == ()


def test_after_one_task() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="10", array_tasks=(3, 4, 5))
    first = submit_after(cluster, after("afterok", array, 4), name="50")
    cluster.run(12)
    assert cluster.reason(first) == "Dependency", "3 has ended, 4 runs"
    cluster.run(11)
    assert cluster.job(first).dependencies == ()


def test_after_a_task_that_the_array_does_not_have() -> None:
    cluster = a_cluster()
    array = cluster.submit(name="10", array_tasks=(3, 4))
    job_id = submit_after(cluster, after("afterok", array, 9))
    cluster.run(1)
    assert state_of(cluster, job_id) == "RUNNING"


@pytest.mark.parametrize(
    ("kind", "goes_on"), [("after", True), ("afterany", True), ("afternotok", True), ("afterok", False)]
)
def test_an_array_cancelled_before_any_task_began(kind: str, goes_on: bool) -> None:
    cluster = a_cluster(1, cpus=1)
    cluster.submit(name="5")
    array = cluster.submit(array_tasks=(0, 1, 2))
    waiting = submit_after(cluster, after(kind, array), name="50")
    cluster.run(1)
    cancel(cluster, array)
    cluster.run(10)
    if goes_on:
        assert state_of(cluster, waiting) == "RUNNING"
    else:
        assert cluster.reason(waiting) == "DependencyNeverSatisfied"


def test_an_array_cancelled_when_some_tasks_have_run() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="5", array_tasks=(0, 1, 2))
    waiting = submit_after(cluster, after("afterany", array), name="50")
    cluster.run(7)
    cancel(cluster, array)
    cluster.run(1)
    assert state_of(cluster, waiting) == "RUNNING"


def test_an_array_that_waits_for_a_job() -> None:
    cluster = a_cluster()
    first = cluster.submit(name="10")
    array = submit_after(cluster, after("afterok", first), name="50", array_tasks=(0, 1))
    cluster.run(5)
    assert cluster.job(array).is_array_rest
    cluster.run(10)
    assert {state_of(cluster, task(cluster, array, t).id) for t in (0, 1)} == {"RUNNING"}


# aftercorr


def test_aftercorr_goes_task_by_task() -> None:
    cluster = a_cluster(1, cpus=1)
    upstream = cluster.submit(name="10", array_tasks=(0, 1))
    downstream = submit_after(cluster, after("aftercorr", upstream), name="3", array_tasks=(0, 1))
    cluster.run(5)
    assert cluster.job(downstream).pending_tasks == [0, 1]
    cluster.run(6)
    assert task(cluster, downstream, 0).dependencies == ()
    assert cluster.job(downstream).pending_tasks == [1]
    cluster.run(40)
    assert {task(cluster, downstream, t).state.value for t in (0, 1)} == {"COMPLETED"}


def test_aftercorr_of_a_task_that_failed() -> None:
    cluster = a_cluster()
    upstream = cluster.submit(name="10", array_tasks=(0, 1))
    downstream = submit_after(cluster, after("aftercorr", upstream), name="3", array_tasks=(0, 1))
    cluster.run(1)
    cluster.exit_codes[task(cluster, upstream, 1).id] = 1
    cluster.run(30)
    assert task(cluster, downstream, 0).state.value == "COMPLETED"
    assert task(cluster, downstream, 1).reason is Reason.DEPENDENCY_NEVER_SATISFIED


def test_two_arrays_follow_the_same_one() -> None:
    """Each takes ids of its own for the tasks that go their own way."""
    cluster = a_cluster()
    upstream = cluster.submit(name="10", array_tasks=(0, 1, 2))
    one = submit_after(cluster, after("aftercorr", upstream), name="3", array_tasks=(0, 1, 2))
    two = submit_after(cluster, after("aftercorr", upstream), name="3", array_tasks=(0, 1, 2))
    cluster.run(40)
    states = {task(cluster, array, t).state.value for array in (one, two) for t in range(3)}
    assert states == {"COMPLETED"}


def test_aftercorr_on_an_array_that_has_ended() -> None:
    cluster = a_cluster()
    upstream = cluster.submit(name="1", array_tasks=(0, 1))
    cluster.run(1)
    cluster.exit_codes[task(cluster, upstream, 1).id] = 1
    cluster.run(5)
    downstream = submit_after(cluster, after("aftercorr", upstream), name="3", array_tasks=(0, 1))
    cluster.run(10)
    assert task(cluster, downstream, 0).state.value == "COMPLETED"
    assert task(cluster, downstream, 1).reason is Reason.DEPENDENCY_NEVER_SATISFIED


def test_aftercorr_on_an_array_that_has_half_ended() -> None:
    cluster = a_cluster(1, cpus=1)
    upstream = cluster.submit(name="10", array_tasks=(0, 1))
    cluster.run(12)
    downstream = submit_after(cluster, after("aftercorr", upstream), name="3", array_tasks=(0, 1))
    cluster.run(1)
    assert task(cluster, downstream, 0).dependencies == ()
    assert cluster.job(downstream).pending_tasks == [1]
    cluster.run(40)
    assert {task(cluster, downstream, t).state.value for t in (0, 1)} == {"COMPLETED"}


def test_aftercorr_tasks_without_a_namesake_wait_for_nothing_in_the_end() -> None:
    cluster = a_cluster()
    upstream = cluster.submit(name="10", array_tasks=(0, 1))
    downstream = submit_after(cluster, after("aftercorr", upstream), name="3", array_tasks=(0, 1, 2))
    cluster.run(60)
    assert {task(cluster, downstream, t).state.value for t in range(3)} == {"COMPLETED"}


def test_aftercorr_on_an_array_cancelled_before_it_began() -> None:
    cluster = a_cluster()
    upstream = cluster.submit(hold=True, array_tasks=(0, 1))
    downstream = submit_after(cluster, after("aftercorr", upstream), array_tasks=(0, 1))
    cancel(cluster, upstream)
    cluster.run(1)
    records = list(cluster.state.array_records(downstream))
    assert {record.reason for record in records} == {Reason.DEPENDENCY_NEVER_SATISFIED}


# Time goes by


def test_a_job_that_others_depend_on_is_not_forgotten() -> None:
    cluster = a_cluster(min_job_age_s=10.0)
    first = ended(cluster, failed=True)
    lonely = ended(cluster)
    waiting = submit_after(cluster, after("afterok", first))
    cluster.run(50)
    cluster.tell(PurgeDue())
    assert lonely not in cluster.state.jobs
    assert first in cluster.state.jobs
    assert cluster.reason(waiting) == "DependencyNeverSatisfied"
    cancel(cluster, waiting)
    cluster.tell(PurgeDue())
    assert first not in cluster.state.jobs


def test_a_forgotten_job_counts_as_satisfied() -> None:
    cluster = a_cluster(min_job_age_s=10.0)
    first = ended(cluster, failed=True)
    cluster.run(20)
    cluster.tell(PurgeDue())
    second = submit_after(cluster, after("afterok", first))
    cluster.run(1)
    assert state_of(cluster, second) == "RUNNING"


def test_tasks_of_an_array_that_others_depend_on_may_be_forgotten_one_by_one() -> None:
    cluster = a_cluster(1, cpus=1, min_job_age_s=10.0)
    array = cluster.submit(name="20", array_tasks=(0, 1, 2))
    ok = submit_after(cluster, after("afterok", array))
    any_ = submit_after(cluster, after("afterany", array), name="50")
    cluster.run(1)
    cluster.exit_codes[task(cluster, array, 0).id] = 1
    cluster.run(40)
    cluster.tell(PurgeDue())
    cluster.run(30)
    cluster.tell(PurgeDue())
    assert cluster.reason(ok) == "DependencyNeverSatisfied", "task 0 is forgotten, its failure is not"
    assert state_of(cluster, any_) == "RUNNING"


def test_dependents_follow_a_requeued_job() -> None:
    """It has not ended: its run goes round again."""
    cluster = a_cluster()
    first = cluster.submit(name="10")
    second = submit_after(cluster, after("afterany", first))
    cluster.run(5)
    requeue(cluster, first)
    cluster.run(7)
    assert state_of(cluster, second) == "PENDING"
    cluster.run(10)
    assert state_of(cluster, second) == "RUNNING"


def test_a_dependent_cancelled_and_requeued_looks_again() -> None:
    """Its dependency was fulfilled while it was no pending job."""
    cluster = a_cluster()
    first = cluster.submit(name="10")
    second = submit_after(cluster, after("afterok", first))
    third = submit_after(cluster, after("afterok", first))
    cluster.run(1)
    cancel(cluster, second)
    cancel(cluster, third)
    requeue(cluster, third)
    assert cluster.job(third).reason is Reason.DEPENDENCY
    cluster.run(15)
    assert state_of(cluster, third) == "RUNNING"
    requeue(cluster, second)
    cluster.run(1)
    assert state_of(cluster, second) == "RUNNING"


def test_dependency_and_hold() -> None:
    cluster = a_cluster()
    first = cluster.submit(name="10")
    second = submit_after(cluster, after("afterok", first), hold=True)
    cluster.run(5)
    assert cluster.reason(second) == "JobHeldUser"
    release(cluster, second)
    assert cluster.reason(second) == "Dependency"
    hold(cluster, second)
    cluster.run(10)
    assert cluster.reason(second) == "JobHeldUser"
    release(cluster, second)
    cluster.run(1)
    assert state_of(cluster, second) == "RUNNING"


def test_dependency_and_begin_time() -> None:
    cluster = a_cluster()
    first = cluster.submit(name="10")
    second = submit_after(cluster, after("afterok", first), begin_time=cluster.now + 50)
    cluster.run(20)
    assert cluster.job(second).dependencies == ()
    assert state_of(cluster, second) == "PENDING"
    cluster.run(31)
    assert state_of(cluster, second) == "RUNNING"


# Updates


def test_a_circle_is_refused() -> None:
    cluster = a_cluster(1, cpus=1)
    cluster.submit(name="50", request=a_request(cpus_per_task=1))
    first = cluster.submit()
    second = submit_after(cluster, after("afterok", first))
    third = submit_after(cluster, after("afterok", second))
    assert update(cluster, first, dependencies=(after("afterok", third),)) is RefusalCode.DEPENDENCY
    assert update(cluster, first, dependencies=(after("afterany", first),)) is RefusalCode.DEPENDENCY
    assert update(cluster, third, dependencies=(after("afterok", first),)) is None
    assert update(cluster, second, dependencies=(after("afterok", third),)) is None
    assert update(cluster, first, dependencies=(after("afterok", second),)) is RefusalCode.DEPENDENCY


def test_dependencies_are_changed_and_cleared() -> None:
    cluster = a_cluster()
    first = cluster.submit(name="10")
    second = submit_after(cluster, after("afternotok", first))
    assert update(cluster, second, by=OTHER, clear_dependencies=True) is RefusalCode.ACCESS
    assert update(cluster, second, dependencies=(after("afterok", first),)) is None
    cluster.run(15)
    assert state_of(cluster, second) == "RUNNING"
    third = submit_after(cluster, after("after", 999), after("afterok", second))
    assert update(cluster, third, clear_dependencies=True) is None
    cluster.run(1)
    assert state_of(cluster, third) == "RUNNING"
    assert update(cluster, third, clear_dependencies=True) is RefusalCode.JOB_NOT_PENDING


def test_an_update_may_make_any_clause_enough() -> None:
    cluster = a_cluster()
    first, second = cluster.submit(name="10"), cluster.submit(name="90")
    third = submit_after(cluster, after("afterok", first), after("afterok", second))
    clauses = (after("afterok", first), after("afterok", second))
    assert update(cluster, third, dependencies=clauses, dependency_any=True) is None
    cluster.run(15)
    assert state_of(cluster, third) == "RUNNING"


def test_a_never_satisfied_job_can_be_given_another_dependency() -> None:
    cluster = a_cluster()
    first = ended(cluster, failed=True)
    second = submit_after(cluster, after("afterok", first))
    assert cluster.reason(second) == "DependencyNeverSatisfied"
    assert update(cluster, second, dependencies=(after("afterany", first),)) is None
    cluster.run(1)
    assert state_of(cluster, second) == "RUNNING"


def test_indexes_survive_a_restart_with_dependencies() -> None:
    cluster = a_cluster()
    first = cluster.submit(name="30")
    second = submit_after(cluster, after("afterok", first))
    cluster.run(5)
    cluster.restart_controller()
    cluster.run(60)
    assert state_of(cluster, second) in ("RUNNING", "COMPLETED")


# Cycles


def cycle_of(cluster: SimCluster, job_id: int, *clauses: Dependency) -> tuple[str, ...]:
    """What the refusal of such an update names; () if it is not refused."""
    refusal = cluster.tell(UpdateJob(target(job_id), USER, JobChanges(dependencies=clauses))).refusal
    return refusal.details if refusal is not None else ()


def test_a_cycle_is_refused_and_named() -> None:
    cluster = a_cluster()
    first = cluster.submit(hold=True)
    second = submit_after(cluster, after("afterok", first))
    third = submit_after(cluster, after("afterany", second))
    assert cycle_of(cluster, first, after("after", third)) == ("Dependency cycle: 1 -> 3 -> 2 -> 1",)
    assert cycle_of(cluster, first, after("after", first)) == ("Dependency cycle: 1 -> 1",)
    assert cluster.job(first).dependencies == ()
    fourth = cluster.submit(hold=True)
    assert cycle_of(cluster, first, after("afterok", fourth)) == ()


def test_a_cycle_through_tasks_of_an_array() -> None:
    cluster = a_cluster()
    array = cluster.submit(array_tasks=(0, 1), hold=True)
    release(cluster, array, 0)
    hold(cluster, array, 0)  # a record of its own, that still waits
    after_task = submit_after(cluster, after("afterok", array, 0))
    after_all = submit_after(cluster, after("afterok", array))
    after_id = submit_after(cluster, after("afterok", task(cluster, array, 0).id))
    for last in (after_task, after_all, after_id):
        expected = (f"Dependency cycle: {array} -> {last} -> {array}",)
        assert cycle_of(cluster, array, after("afterok", last)) == expected


def test_a_singleton_waits_for_those_of_its_name() -> None:
    cluster = a_cluster()
    first = cluster.submit(name="same", hold=True)
    second = submit_after(cluster, after("singleton"), name="same")
    assert cycle_of(cluster, first, after("afterok", second)) == ("Dependency cycle: 1 -> 2 -> 1",)
    other = submit_after(cluster, after("singleton"), name="other")
    assert cycle_of(cluster, first, after("afterok", other)) == ()
