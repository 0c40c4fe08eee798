"""Reservations in the core: who makes them, who may use their nodes when, their start and their end."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cluster.messages import (
    Caller,
    Configure,
    CreateReservation,
    DeleteReservation,
    PlacementProposed,
    UpdateReservation,
)
from minislurm.domain import configuration_file
from minislurm.domain.errors import RefusalCode
from minislurm.domain.ids import Bitmap, JobId, NodeName
from minislurm.domain.reservation import Reservation
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.views import ListChange, ReservationChanges
from minislurm.scheduling.model import Placement
from tests.builders import a_configuration, a_request
from tests.sim.cluster import OPERATOR, SimCluster
from tests.unit.cluster.acting import (
    a_cluster,
    cancel,
    operate,
    refused_submission,
    requeue,
    state_of,
    tell,
    update,
)

USER = "user1000"


def changes(cluster: SimCluster, name: str = "r", **given: Any) -> ReservationChanges:
    """`start` and `minutes` from now; lists are replaced."""
    start, minutes = given.pop("start", None), given.pop("minutes", None)
    lists = ("users", "accounts", "nodes", "flags")
    return ReservationChanges(
        name,
        start_time=None if start is None else cluster.now + start,
        duration_s=None if minutes is None else 60.0 * minutes,
        **{k: ListChange("=", tuple(v.split(","))) if k in lists else v for k, v in given.items()},
    )


def reserve(cluster: SimCluster, name: str = "r", **given: Any) -> RefusalCode | None:
    given = {"start": 0.0, "minutes": 10, "users": USER, "nodes": "n1", **given}
    if "node_count" in given:
        del given["nodes"]
    return tell(cluster, CreateReservation(changes(cluster, name, **given), OPERATOR))


def change(cluster: SimCluster, name: str = "r", **given: Any) -> RefusalCode | None:
    return tell(cluster, UpdateReservation(changes(cluster, name, **given), OPERATOR))


def reservation(cluster: SimCluster, name: str = "r") -> Reservation:
    return cluster.state.reservations[name]


def submit(
    cluster: SimCluster, nodes: int = 1, *, reservation: str = "", minutes: float | None = 5, **more: Any
) -> int:
    spec = {k: more.pop(k) for k in ("user_id", "name", "account", "hold") if k in more}
    request = a_request(nodes, reservation=reservation, exclusive=True, **more)
    limit = None if minutes is None else 60.0 * minutes
    return cluster.submit(request=request, time_limit_s=limit, **spec)


def nodes_of(cluster: SimCluster, job_id: int) -> list[str]:
    return [str(part.node) for part in cluster.job(job_id).allocation]


# Making them


def test_only_operators_make_change_and_delete_them() -> None:
    cluster = a_cluster()
    user = Caller(1000)
    made = changes(cluster, start=0.0, minutes=10, users=USER, nodes="n1")
    assert tell(cluster, CreateReservation(made, user)) is RefusalCode.ACCESS
    assert reserve(cluster) is None
    assert tell(cluster, UpdateReservation(changes(cluster, minutes=20), user)) is RefusalCode.ACCESS
    assert tell(cluster, DeleteReservation("r", user)) is RefusalCode.ACCESS
    assert tell(cluster, DeleteReservation("r", OPERATOR)) is None
    assert not cluster.state.reservations


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"nodes": "n9"}, RefusalCode.INVALID_NODE_NAME),
        ({"partition": "nosuch"}, RefusalCode.INVALID_PARTITION),
        ({"node_count": 9}, RefusalCode.INVALID_NODE_COUNT),
        ({"start": -3600.0}, RefusalCode.INVALID_TIME),
        ({"start": float("inf")}, RefusalCode.INVALID_TIME),
        ({"minutes": 0}, RefusalCode.INVALID_TIME),
        ({"flags": "MAINT,TIME_FLOAT"}, RefusalCode.NOT_SUPPORTED),
        ({"flags": "DAILY,WEEKLY"}, RefusalCode.RESERVATION_INVALID),
        ({"flags": "DAILY", "minutes": 25 * 60}, RefusalCode.INVALID_TIME),
        ({"name": "a/b"}, RefusalCode.RESERVATION_INVALID),
        ({"name": "taken", "nodes": "n2"}, RefusalCode.RESERVATION_EXISTS),
        ({"nodes": "n1,n2"}, RefusalCode.RESERVATION_OVERLAP),
        ({"node_count": 2}, RefusalCode.NODES_BUSY),
    ],
)
def test_what_cannot_be_reserved_is_refused(given: dict[str, Any], code: RefusalCode) -> None:
    cluster = a_cluster()
    assert reserve(cluster, "taken", nodes="n2", start=60.0) is None
    assert reserve(cluster, **given) is code
    assert set(cluster.state.reservations) == {"taken"}


def test_a_request_repeated_makes_one_reservation() -> None:
    cluster = a_cluster()
    made = changes(cluster, "", start=0.0, minutes=10, users=USER, nodes="n1")
    for _ in range(2):
        assert tell(cluster, CreateReservation(made, OPERATOR, "one")) is None
    assert list(cluster.state.reservations) == [f"{USER}_1"]


def test_nodes_held_past_its_start_are_busy_unless_it_ignores_jobs() -> None:
    cluster = a_cluster(seconds=1000)
    job = submit(cluster, minutes=5)
    cluster.run(1)
    assert nodes_of(cluster, job) == ["n1"]
    assert reserve(cluster) is RefusalCode.NODES_BUSY
    assert reserve(cluster, "later", start=360.0) is None
    assert reserve(cluster, "soon", minutes=4, flags="IGNORE_JOBS") is None


def test_a_number_of_nodes_comes_from_one_rack_and_is_free() -> None:
    from minislurm.domain.node import NodeState

    cluster = SimCluster(a_configuration(6, racks=2))
    assert cluster.state.nodes[NodeName("n1")].state is NodeState.UP
    operate(cluster, "n2", "DRAIN", "broken")
    assert reserve(cluster, "rest", node_count=2) is None
    assert reservation(cluster, "rest").nodes == ("n1", "n3")  # the rack that is just large enough
    assert reserve(cluster, node_count=3) is None
    assert reservation(cluster).nodes == ("n4", "n5", "n6")
    assert change(cluster, "rest", node_count=1) is None
    assert reservation(cluster, "rest").nodes == ("n1",)


def test_maintenance_may_lie_over_others() -> None:
    cluster = a_cluster()
    assert reserve(cluster) is None
    assert reserve(cluster, "m", flags="MAINT") is None


# Updates


def test_lists_grow_and_shrink() -> None:
    cluster = a_cluster()
    reserve(cluster)
    for operator, expected in (("+", (USER, "alice")), ("-", (USER,))):
        update_ = ReservationChanges("r", users=ListChange(operator, ("alice",)))
        assert tell(cluster, UpdateReservation(update_, OPERATOR)) is None
        assert reservation(cluster).users == expected


def test_the_start_of_one_that_has_begun_stays() -> None:
    cluster = a_cluster()
    reserve(cluster)
    assert change(cluster, start=60.0) is RefusalCode.RESERVATION_STARTED
    assert change(cluster, minutes=20) is None
    assert reservation(cluster).end_time == cluster.now + 1200
    assert change(cluster, "nosuch", minutes=20) is RefusalCode.RESERVATION_INVALID


# Jobs of others


def test_a_job_starts_if_it_ends_before_the_reservation() -> None:
    cluster = a_cluster(seconds=1000)
    assert reserve(cluster, start=600.0, nodes="n1,n2", flags="MAINT") is None
    short, long, endless = (submit(cluster, minutes=m) for m in (10, 11, None))
    cluster.run(1)
    assert state_of(cluster, short) == "RUNNING"
    assert state_of(cluster, long) == state_of(cluster, endless) == "PENDING"
    assert cluster.reason(long) == "ReqNodeNotAvail, Reserved for maintenance"


def test_a_reservation_wakes_those_who_wait_for_its_end() -> None:
    cluster = a_cluster(seconds=5)
    reserve(cluster, nodes="n1,n2")
    job = submit(cluster)
    cluster.run(599)
    assert cluster.reason(job) == "ReqNodeNotAvail, May be reserved for other job"
    cluster.run(2)
    assert state_of(cluster, job) == "RUNNING"
    assert not cluster.state.reservations


def test_a_plan_that_a_reservation_overtook_is_refused() -> None:
    cluster = a_cluster(2)
    held = submit(cluster, hold=True)
    assert reserve(cluster) is None
    cluster.state.unindex_job(cluster.job(held))
    job = cluster.job(held)
    job.held, job.eligible_time = "", cluster.now
    cluster.state.index_job(job)

    def place(node: str) -> RefusalCode | None:
        part = NodeAllocation(NodeName(node), Bitmap(0xFF), 16_000)
        return tell(cluster, PlacementProposed(Placement(JobId(held), None, (part,))))

    assert place("n1") is RefusalCode.TRY_LATER
    cluster.state.unindex_job(job)
    job.changed_request = replace(job.request, reservation="r")
    cluster.state.index_job(job)
    assert place("n2") is RefusalCode.TRY_LATER  # its own are elsewhere
    assert place("n1") is None


# Its own jobs


def test_its_jobs_run_on_its_nodes_when_it_has_begun() -> None:
    cluster = a_cluster(seconds=1000)
    reserve(cluster, start=60.0)
    job = submit(cluster, reservation="r")
    cluster.run(59)
    assert cluster.reason(job) == "Reservation"
    cluster.run(2)
    assert nodes_of(cluster, job) == ["n1"]
    second = submit(cluster, reservation="r")
    cluster.run(1)
    assert cluster.reason(second) == "Resources"  # n2 is idle, and not the reservation's


def test_its_jobs_end_with_it_and_those_that_wait_are_held() -> None:
    cluster = a_cluster(seconds=5000)
    reserve(cluster)
    running, waiting = (submit(cluster, reservation="r", minutes=60) for _ in range(2))
    cluster.run(610)
    assert state_of(cluster, running) == "TIMEOUT"
    job = cluster.job(waiting)
    assert (job.state.value, job.reason.value, job.held) == ("PENDING", "ReservationDeleted", "user")
    assert job.request.reservation == ""
    assert not cluster.state.reservations


def test_jobs_may_go_on_waiting_after_its_end() -> None:
    cluster = a_cluster(seconds=5)
    reserve(cluster, flags="NO_HOLD_JOBS_AFTER_END")
    first, second = submit(cluster, reservation="r", name="700", minutes=20), submit(cluster, reservation="r")
    cluster.run(620)
    assert state_of(cluster, first) == "TIMEOUT"
    assert state_of(cluster, second) in ("RUNNING", "COMPLETED")


def test_flexible_its_jobs_know_neither_bounds_of_time_nor_of_nodes() -> None:
    cluster = a_cluster(seconds=2000)
    reserve(cluster, start=60.0, minutes=1, flags="FLEX")
    jobs = [submit(cluster, reservation="r", minutes=60) for _ in range(2)]
    cluster.run(300)
    assert [state_of(cluster, job) for job in jobs] == ["RUNNING", "RUNNING"]


def test_any_nodes_bounds_the_time_only() -> None:
    cluster = a_cluster(seconds=2000)
    reserve(cluster, start=60.0, minutes=5, flags="ANY_NODES")
    jobs = [submit(cluster, reservation="r", minutes=60) for _ in range(2)]
    cluster.run(50)
    assert [cluster.reason(job) for job in jobs] == ["Reservation", "Reservation"]
    cluster.run(20)
    assert [state_of(cluster, job) for job in jobs] == ["RUNNING", "RUNNING"]
    cluster.run(400)
    assert [state_of(cluster, job) for job in jobs] == ["TIMEOUT", "TIMEOUT"]


def test_who_may_use_it() -> None:
    cluster = a_cluster()
    reserve(cluster, accounts="physics")
    allowed = {"reservation": "r", "account": "physics"}

    def refused(**given: Any) -> RefusalCode:
        request = a_request(
            given.pop("nodes", 1), reservation=given.pop("reservation"), **given.pop("more", {})
        )
        return refused_submission(cluster, request=request, **given).code

    assert refused(reservation="nosuch") is RefusalCode.RESERVATION_INVALID
    assert refused(reservation="r", account="chemistry") is RefusalCode.RESERVATION_ACCESS
    assert refused(**allowed, user_id=1001) is RefusalCode.RESERVATION_ACCESS
    assert refused(**allowed, nodes=2) is RefusalCode.NODE_CONFIGURATION
    elsewhere = {"required_nodes": (NodeName("n2"),)}
    assert refused(**allowed, more=elsewhere) is RefusalCode.NODE_CONFIGURATION
    assert submit(cluster, **allowed)


def test_a_user_who_is_taken_off_waits() -> None:
    cluster = a_cluster()
    reserve(cluster, start=60.0)
    job = submit(cluster, reservation="r")
    change(cluster, users="alice")
    cluster.run(70)
    assert cluster.reason(job) == "Reservation"
    change(cluster, users=f"alice,{USER}")
    cluster.run(5)
    assert state_of(cluster, job) == "RUNNING"


def test_a_job_can_be_moved_into_it_and_out_of_it() -> None:
    cluster = a_cluster()
    reserve(cluster)
    job = submit(cluster, hold=True)
    assert update(cluster, job, reservation="nosuch") is RefusalCode.RESERVATION_INVALID
    assert update(cluster, job, reservation="r") is None
    assert cluster.job(job).request.reservation == "r"
    assert update(cluster, job, reservation="") is None


def test_one_in_use_is_not_deleted() -> None:
    cluster = a_cluster()
    reserve(cluster)
    job = submit(cluster, reservation="r")
    assert tell(cluster, DeleteReservation("r", OPERATOR)) is RefusalCode.RESERVATION_IN_USE
    cancel(cluster, job)
    assert tell(cluster, DeleteReservation("r", OPERATOR)) is None
    assert tell(cluster, DeleteReservation("r", OPERATOR)) is RefusalCode.RESERVATION_INVALID


# Again and again


def test_a_daily_one_comes_again() -> None:
    cluster = a_cluster(seconds=5000)
    reserve(cluster, flags="DAILY", nodes="n1,n2")
    start = cluster.now
    running, waiting = (submit(cluster, 2, reservation="r", minutes=60) for _ in range(2))
    cluster.run(650)
    assert state_of(cluster, running) == "TIMEOUT"
    assert reservation(cluster).start_time == pytest.approx(start + 86400, abs=3601)  # a change of the clocks
    assert cluster.reason(waiting) == "Reservation"
    # Longer than the time between two of them: it can never start.
    endless, day = submit(cluster, minutes=None), submit(cluster, minutes=24 * 60)
    cluster.run(86400)
    assert state_of(cluster, waiting) in ("RUNNING", "TIMEOUT")
    assert state_of(cluster, endless) == state_of(cluster, day) == "PENDING"


def test_a_restart_asks_for_its_timers_again() -> None:
    cluster = a_cluster(seconds=5)
    reserve(cluster, start=60.0)
    reserve(cluster, "done", nodes="n2", minutes=1)
    job = submit(cluster, reservation="r")
    cluster.restart_controller()
    cluster.run(65)
    assert state_of(cluster, job) in ("RUNNING", "COMPLETED")
    assert set(cluster.state.reservations) == {"r"}


def test_times_are_waited_for_not_polled() -> None:
    """Nothing is written between a start and an end."""
    cluster = a_cluster()
    reserve(cluster, start=60.0)
    before = len(cluster.journal)
    cluster.run(59)
    assert len(cluster.journal) == before
    cluster.run(541)
    assert len(cluster.journal) == before + 1


def test_a_job_on_its_way_back_when_it_ends_is_held() -> None:
    cluster = a_cluster(seconds=5000)
    reserve(cluster)
    job = submit(cluster, reservation="r", minutes=60)
    cluster.run(599.5)
    cluster.nodes[NodeName("n1")].alive = False
    requeue(cluster, job, by=OPERATOR)
    cluster.run(5)
    assert not cluster.state.reservations
    cluster.declare_lost("n1")
    record = cluster.job(job)
    assert (record.state.value, record.held, record.request.reservation) == ("PENDING", "user", "")


def test_a_reservation_outlives_a_node_of_its() -> None:
    """One that has left the configuration."""
    cluster = a_cluster(2)
    reserve(cluster, nodes="n1,n2", start=60.0)
    smaller = replace(a_configuration(2), nodes=a_configuration(1).nodes)
    smaller = replace(smaller, partitions=a_configuration(1).partitions)
    cluster.tell(Configure(configuration_file.to_json(smaller)))
    assert change(cluster, start=120.0) is None
    job = submit(cluster)
    cluster.run(150)
    assert cluster.job(job).state.value == "PENDING" or nodes_of(cluster, job) == ["n1"]
