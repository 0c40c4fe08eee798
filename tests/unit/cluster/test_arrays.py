"""An array is one record until its tasks differ: which leave it, what stays, and what becomes of each."""

from __future__ import annotations

from minislurm.cluster.messages import CancelJob
from minislurm.domain.errors import RefusalCode
from minislurm.domain.states import JobState, Reason
from tests.sim.cluster import SimCluster
from tests.unit.cluster.acting import (
    OTHER,
    USER,
    a_cluster,
    cancel,
    hold,
    release,
    requeue,
    running,
    state_of,
    target,
    task,
    update,
)


def ended_tasks(cluster: SimCluster, array_id: int) -> dict[int, str]:
    return dict(next(s for s in cluster.state.arrays.values() if s.id == array_id).ended_tasks)


def test_one_record_until_a_task_starts() -> None:
    cluster = a_cluster(1, cpus=2)
    array = cluster.submit(array_tasks=tuple(range(1000)))
    assert list(cluster.state.jobs) == [array]
    cluster.run(1)
    assert len(cluster.state.jobs) == 3
    assert cluster.job(array).pending_tasks == list(range(2, 1000))
    assert [task(cluster, array, t).id for t in (0, 1)] == [array + 1, array + 2]
    assert {task(cluster, array, t).array_job_id for t in (0, 1)} == {array}


def test_tasks_start_in_order_and_the_last_keeps_the_arrays_id() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="5", array_tasks=(2, 5, 9))
    other = cluster.submit(name="5")
    cluster.run(60)
    starts = [task(cluster, array, t).start_time for t in (2, 5, 9)]
    assert starts == sorted(starts)
    assert task(cluster, array, 9).id == array
    assert ended_tasks(cluster, array) == {2: "COMPLETED", 5: "COMPLETED", 9: "COMPLETED"}
    assert other not in cluster.state.arrays


def test_an_array_of_one() -> None:
    cluster = a_cluster()
    array = cluster.submit(name="5", array_tasks=(7,))
    cluster.run(10)
    assert list(cluster.state.jobs) == [array]
    assert cluster.job(array).array_task_id == 7
    assert not cluster.state.arrays[array].live


def test_the_limit_holds_at_every_moment() -> None:
    cluster = a_cluster(1, cpus=8)
    array = cluster.submit(name="10", array_tasks=tuple(range(7)), array_limit=2)
    cluster.run(1)
    assert len(running(cluster)) == 2
    assert cluster.reason(array) == "JobArrayTaskLimit"
    most = 0
    for _ in range(60):
        cluster.run(1)
        holding = [j for j in cluster.state.jobs.values() if j.state.holds_nodes]
        most = max(most, len(holding))
    assert most == 2
    assert cluster.all_ended()


def test_the_limit_can_be_changed() -> None:
    cluster = a_cluster(1, cpus=8)
    array = cluster.submit(name="50", array_tasks=tuple(range(7)), array_limit=2)
    cluster.run(1)
    assert update(cluster, array, array_limit=4) is None
    cluster.run(1)
    assert len(running(cluster)) == 4
    assert update(cluster, array, array_limit=0) is None
    cluster.run(1)
    assert len(running(cluster)) == 7


def test_the_limit_counts_for_this_array_alone() -> None:
    cluster = a_cluster(1, cpus=8)
    for _ in range(2):
        cluster.submit(name="50", array_tasks=(0, 1, 2), array_limit=1)
    cluster.run(1)
    assert len(running(cluster)) == 2


def test_cancel_some_waiting_tasks() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="5", array_tasks=tuple(range(5)))
    cluster.run(1)
    assert cancel(cluster, array, 2, 3) is None
    assert cluster.job(array).pending_tasks == [1, 4]
    assert {task(cluster, array, t).state for t in (2, 3)} == {JobState.CANCELLED}
    assert task(cluster, array, 2).cancelled_by == 1000
    assert ended_tasks(cluster, array) == {2: "CANCELLED", 3: "CANCELLED"}
    cluster.run(60)
    assert ended_tasks(cluster, array)[4] == "COMPLETED"


def test_cancel_running_and_waiting_tasks_at_once() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="50", array_tasks=(0, 1, 2))
    cluster.run(1)
    assert cancel(cluster, array, 0, 1) is None
    cluster.run(1)
    assert ended_tasks(cluster, array) == {0: "CANCELLED", 1: "CANCELLED"}
    assert task(cluster, array, 2).state is JobState.RUNNING


def test_cancel_the_whole_array() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="50", array_tasks=(0, 1, 2))
    cluster.run(1)
    assert cancel(cluster, array, by=OTHER) is RefusalCode.ACCESS
    assert cancel(cluster, array) is None
    cluster.run(1)
    assert cluster.all_ended()
    assert ended_tasks(cluster, array) == {0: "CANCELLED", 1: "CANCELLED", 2: "CANCELLED"}
    assert cancel(cluster, array) is RefusalCode.ALREADY_DONE


def test_cancel_by_the_id_of_a_tasks_own_record() -> None:
    cluster = a_cluster(1, cpus=2)
    array = cluster.submit(name="50", array_tasks=(0, 1, 2))
    cluster.run(1)
    assert cancel(cluster, task(cluster, array, 1).id) is None
    cluster.run(1)
    assert ended_tasks(cluster, array) == {1: "CANCELLED"}


def test_a_task_that_the_array_does_not_have() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(array_tasks=(0, 1))
    job_id = cluster.submit()
    assert cancel(cluster, array, 9) is RefusalCode.INVALID_JOB_ID
    assert cancel(cluster, job_id, 0) is RefusalCode.INVALID_JOB_ID
    assert cancel(cluster, array, 1, 9) is None, "the one that there is"
    assert hold(cluster, array, 9) is RefusalCode.INVALID_JOB_ID


def test_cancel_the_last_waiting_task() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="50", array_tasks=(0, 1))
    cluster.run(1)
    assert cluster.tell(CancelJob(target(array, 1), USER)).refusal is None
    cluster.run(1)
    assert ended_tasks(cluster, array) == {1: "CANCELLED"}
    assert task(cluster, array, 0).state is JobState.RUNNING


def test_hold_some_tasks() -> None:
    cluster = a_cluster(1, cpus=8)
    array = cluster.submit(name="5", hold=True, array_tasks=tuple(range(4)))
    assert release(cluster, array, 1, 2) is None
    cluster.run(1)
    assert {task(cluster, array, t).state for t in (1, 2)} == {JobState.RUNNING}
    assert cluster.job(array).pending_tasks == [0, 3]
    assert cluster.job(array).reason is Reason.HELD_USER
    assert release(cluster, array) is None
    assert hold(cluster, array, 3) is None
    cluster.run(10)
    assert task(cluster, array, 3).state is JobState.PENDING
    assert task(cluster, array, 0).state is JobState.COMPLETED


def test_update_one_task() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="5", hold=True, array_tasks=(0, 1, 2))
    assert update(cluster, array, 1, comment="different") is None
    assert task(cluster, array, 1).comment == "different"
    assert cluster.job(array).comment == ""
    assert cluster.job(array).pending_tasks == [0, 2]


def test_requeue_one_task() -> None:
    cluster = a_cluster(1, cpus=8)
    array = cluster.submit(name="10", array_tasks=(0, 1))
    cluster.run(5)
    assert requeue(cluster, array, 0) is None
    cluster.run(1)
    record = task(cluster, array, 0)
    assert (record.state, record.run, record.restarts) == (JobState.RUNNING, 2, 1)
    assert task(cluster, array, 1).restarts == 0
    cluster.run(6)
    assert ended_tasks(cluster, array) == {1: "COMPLETED"}
    cluster.run(6)
    assert ended_tasks(cluster, array) == {0: "COMPLETED", 1: "COMPLETED"}


def test_requeue_a_task_that_failed_clears_its_end() -> None:
    cluster = a_cluster(1, cpus=8)
    array = cluster.submit(name="5", array_tasks=(0, 1))
    cluster.run(1)
    record = task(cluster, array, 0)
    cluster.exit_codes[record.id] = 3
    cluster.run(6)
    assert ended_tasks(cluster, array)[0] == "FAILED"
    cluster.exit_codes.clear()
    assert requeue(cluster, array, 0) is None
    assert ended_tasks(cluster, array) == {1: "COMPLETED"}
    assert record.id in cluster.state.arrays[array].live
    cluster.run(10)
    assert ended_tasks(cluster, array)[0] == "COMPLETED"


def test_requeue_an_array_that_was_cancelled_whole() -> None:
    cluster = a_cluster(1, cpus=8)
    array = cluster.submit(name="5", hold=True, array_tasks=(0, 1))
    cancel(cluster, array)
    assert requeue(cluster, array) is None
    assert ended_tasks(cluster, array) == {}
    assert state_of(cluster, array) == "PENDING"
    release(cluster, array)
    cluster.run(10)
    assert ended_tasks(cluster, array) == {0: "COMPLETED", 1: "COMPLETED"}


def test_the_highest_exit_code_is_kept() -> None:
    cluster = a_cluster(1, cpus=1)
    array = cluster.submit(name="5", array_tasks=(0, 1, 2))
    for task_id, code in ((0, 3), (1, 7), (2, 0)):
        cluster.run_until(lambda t=task_id: (array, t) in cluster.state.tasks)  # type: ignore[misc]
        cluster.exit_codes[task(cluster, array, task_id).id] = code
    cluster.run(10)
    assert cluster.state.arrays[array].highest_exit_code == 7


def test_restart_with_an_array_half_way() -> None:
    cluster = a_cluster(1, cpus=2)
    array = cluster.submit(name="5", array_tasks=tuple(range(6)), array_limit=1)
    cluster.run(8)
    cluster.restart_controller()
    cluster.run(1)
    assert len(running(cluster)) == 1
    cluster.run(60)
    assert ended_tasks(cluster, array) == dict.fromkeys(range(6), "COMPLETED")
