"""Why a job does not start, who is before it, and what if it were another."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar, cast

from msgspec.structs import replace

from minislurm.domain.ids import JobId
from minislurm.domain.states import Reason
from minislurm.scheduling.explain import Findings, find, what_if
from minislurm.scheduling.model import Placement, RequestClass, Snapshot
from minislurm.scheduling.workspace import Workspace
from tests.builders import a_request
from tests.unit.scheduling.builders import a_class, a_partition, a_run, a_snapshot, some_nodes

T = TypeVar("T")

NODES = some_nodes(4, gpus=2)
BATCH = a_partition(NODES)
WHOLE = a_request(3, exclusive=True)


def result_of(working: Generator[None, None, T]) -> T:
    while True:
        try:
            next(working)
        except StopIteration as done:
            return cast(T, done.value)


def found(snapshot: Snapshot, job_id: int, key: str) -> Findings:
    return result_of(find(snapshot, JobId(job_id), key, Workspace()))


def tried(snapshot: Snapshot, job_id: int, key: str, changed: RequestClass) -> Placement | None:
    return result_of(what_if(snapshot, JobId(job_id), key, changed, Workspace()))


def a_queue() -> Snapshot:
    """Two nodes are busy; job 1 needs three, so jobs 2 to 4 would have to be over before it starts."""
    return a_snapshot(
        NODES,
        a_class(BATCH, 1, request=WHOLE, minutes=60, key="head"),
        a_class(BATCH, 2, 3, 4, request=a_request(2, gpus_per_node=2), minutes=60, key="rest"),
        running=[a_run("n1", minutes=30), a_run("n2", minutes=30)],
    )


def test_the_head_in_the_way_is_named_since_without_it_the_job_starts() -> None:
    findings = found(a_queue(), 2, "rest")
    assert findings.wait is not None
    assert findings.wait.reason is Reason.PRIORITY
    (head,) = findings.heads
    assert (head.job_id, head.is_cause) == (1, True)
    assert head.nodes == ("n1", "n2", "n3")
    assert (findings.ahead, findings.first_ahead) == (1, (1,))


def test_nodes_are_counted_by_what_they_lack() -> None:
    findings = found(a_queue(), 1, "head")
    assert findings.wait is not None
    assert findings.wait.reason is Reason.RESOURCES
    assert findings.rejected == {"not idle": 2}
    assert findings.heads == ()


def test_those_before_it_are_counted_in_the_order_of_the_pass() -> None:
    findings = found(a_queue(), 4, "rest")
    assert (findings.ahead, findings.first_ahead) == (3, (1, 2, 3))


def test_other_nodes_jobs_are_not_before_it() -> None:
    other = a_partition(NODES[3:], "other")
    queue = a_queue()
    busy = a_class(other, 9, request=a_request(tasks=4), key="far", fixed_priority=10**6)
    mine = a_partition(NODES[:3], "mine")
    late = a_class(mine, 10, request=WHOLE, key="mine")
    findings = found(replace(queue, classes=[busy, late]), 10, "mine")
    assert findings.ahead == 0


def test_who_can_never_start_is_before_nobody() -> None:
    queue = a_queue()
    never = a_class(BATCH, 9, request=a_request(5), key="never", fixed_priority=10**6)
    findings = found(replace(queue, classes=[never, *queue.classes]), 2, "rest")
    assert findings.first_ahead == (1,)
    assert findings.ahead_but_waiting == 0


def test_what_would_start_is_told_with_where_and_without_the_original() -> None:
    queue = a_queue()
    shorter = a_class(BATCH, 2, request=a_request(2, gpus_per_node=2), minutes=30)
    placement = tried(queue, 2, "rest", shorter)
    assert placement is not None
    assert [p.node for p in placement.allocation] == ["n1", "n2"]
    assert tried(queue, 2, "rest", replace(shorter, time_limit_s=1860.0)) is None


def test_a_change_is_not_judged_by_what_another_pass_found() -> None:
    """One workspace for all: the verdicts of a pass in which the job was longer are not true of the next."""
    queue, workspace = a_queue(), Workspace()
    request = a_request(2, gpus_per_node=2)
    for minutes, starts in ((60, False), (30, True), (45, False), (20, True)):
        working = what_if(
            queue, JobId(2), "rest", a_class(BATCH, 2, request=request, minutes=minutes), workspace
        )
        assert (result_of(working) is not None) is starts


def test_nothing_is_in_the_way() -> None:
    snapshot = a_snapshot(NODES, a_class(BATCH, 1, key="one"))
    assert found(snapshot, 1, "one").wait is None
