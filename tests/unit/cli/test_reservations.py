"""scontrol's reservations and licenses, sinfo -T: Slurm's texts, field for field."""

from __future__ import annotations

import time
from typing import Any

import pytest

from minislurm.cli import connection, scontrol, sinfo
from minislurm.cli.reservation_request import parse_creation
from minislurm.domain.errors import Refusal, RefusalCode, UsageError
from minislurm.domain.ids import NodeName
from minislurm.domain.reservation import Reservation, ReservationFlag
from minislurm.domain.times import format_time
from minislurm.domain.views import LicenseView, ListChange, ReservationChanges, ReservationView
from tests.view_builders import NOW, RecordedController

FLAGS = (ReservationFlag.MAINT, ReservationFlag.IGNORE_JOBS, ReservationFlag.SPEC_NODES)
NODES = (NodeName("n3"), NodeName("n4"))
NEEDED = ("ReservationName=a", "StartTime=now", "Duration=10", "Users=root", "Nodes=n1")


class Reserving(RecordedController):
    def __init__(self) -> None:
        super().__init__()
        self.reservations = [
            ReservationView(Reservation("m", NOW, NOW + 600, NODES, ("root",), flags=FLAGS), True, 32),
            ReservationView(Reservation("later", NOW + 60, NOW + 3660, NODES[:1], (), ("physics",), "batch"), False, 16),
        ]  # fmt: skip
        self.refusal: Refusal | None = None

    def list_reservations(self) -> list[ReservationView]:
        return self.reservations

    def list_licenses(self) -> list[LicenseView]:
        return [LicenseView("ansys", 4, 3), LicenseView("matlab", 2)]

    def create_reservation(self, changes: ReservationChanges) -> str:
        return self._asked("create", changes) or changes.name

    def update_reservation(self, changes: ReservationChanges) -> None:
        self._asked("update", changes)

    def delete_reservation(self, name: str) -> None:
        self._asked("delete", name)

    def _asked(self, *request: Any) -> str:
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)
        return ""


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Reserving:
    recorded = Reserving()
    monkeypatch.setattr(connection, "connect", lambda: recorded)
    monkeypatch.setattr(time, "time", lambda: NOW)
    return recorded


def _said(capsys: pytest.CaptureFixture[str], *words: str, command: Any = scontrol) -> tuple[str, str, int]:
    exit_code = command.APPLICATION.main(words)
    captured = capsys.readouterr()
    return captured.out, captured.err, exit_code


def test_show(controller: Reserving, capsys: pytest.CaptureFixture[str]) -> None:
    expected = (
        f"ReservationName=m StartTime={format_time(NOW)} EndTime={format_time(NOW + 600)} Duration=00:10:00\n"
        "   Nodes=n[3-4] NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=(null) "
        "Flags=MAINT,IGNORE_JOBS,SPEC_NODES\n"
        "   TRES=cpu=32\n"
        "   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a\n"
        "   MaxStartDelay=(null)\n\n"
    )
    for words in (["show", "reservation", "m"], ["show", "res=m"], ["show", "ReservationName=m"]):
        assert _said(capsys, *words) == (expected, "", 0)
    out = _said(capsys, "-o", "show", "reservations")[0].splitlines()
    assert len(out) == 2
    assert "PartitionName=batch Flags= TRES=cpu=16 Users=(null) Groups=(null) Accounts=physics " in out[1]
    assert _said(capsys, "show", "res", "x") == ("Reservation x not found\n", "", 1)
    controller.reservations = []
    assert _said(capsys, "show", "res") == ("No reservations in the system\n", "", 0)


def test_show_licenses(controller: Reserving, capsys: pytest.CaptureFixture[str]) -> None:
    out = "LicenseName=ansys\n    Total=4 Used=3 Free=1 Reserved=0 Remote=no\n"
    assert _said(capsys, "show", "license", "ansys") == (out, "", 0)
    assert _said(capsys, "show", "lic")[0].count("LicenseName") == 2
    assert _said(capsys, "-o", "show", "lic", "matlab")[0] == (
        "LicenseName=matlab Total=2 Used=0 Free=2 Reserved=0 Remote=no\n"
    )


def test_sinfo(controller: Reserving, capsys: pytest.CaptureFixture[str]) -> None:
    out, _, exit_code = _said(capsys, "-T", command=sinfo)
    lines = out.splitlines()
    assert lines[0] == "RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST"
    assert (
        lines[1] == f"m            ACTIVE  {format_time(NOW)}  {format_time(NOW + 600)}     00:10:00  n[3-4]"
    )
    assert (len(lines), exit_code) == (3, 0)
    controller.reservations = []
    assert _said(capsys, "-T", command=sinfo)[0] == "No reservations in the system\n"


def test_create(controller: Reserving, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "ReservationName=a", "StartTime=now+1hour", "EndTime=now+2hours", "Users=root,daemon", "Accounts=physics",
        "NodeCnt=4", "PartitionName=batch", "Flags=maint,ignore_jobs,DAILY",
    )  # fmt: skip
    assert _said(capsys, "create", "reservation", *words) == ("Reservation created: a\n", "", 0)
    assert controller.requests == [
        (
            "create",
            ReservationChanges(
                "a", NOW + 3600, NOW + 7200, None, ListChange("=", ("root", "daemon")),
                ListChange("=", ("physics",)), None, 4, "batch", ListChange("=", ("MAINT", "IGNORE_JOBS", "DAILY")),
            ),
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "err"),
    [
        ((), "A start time must be given.  No reservation created."),
        (NEEDED[:2], "An end time or duration must be given.  No reservation created."),
        (NEEDED[:4], "Nodes or NodeCnt must be specified.  No reservation created."),
        ((*NEEDED[:3], "Nodes=n1"), "Either Users and/or Accounts must be specified.  No reservation created."),
        ((*NEEDED, "EndTime=2020-01-01"), "Start time cannot be after end time.  No reservation created."),
        ((*NEEDED, "Flags=BOGUS"), "Error parsing flags BOGUS.  No reservation created."),
        ((*NEEDED, "Flags=TIME_FLOAT"), "Flag TIME_FLOAT is not supported by minislurm.  No reservation created."),
        ((*NEEDED, "Bogus=1"), "Unknown parameter Bogus=1.  No reservation created."),
        ((*NEEDED, "Licenses=a:1"), "Licenses=a:1 is not supported by minislurm.  No reservation created."),
        ((*NEEDED, "Users=-x"), "Users=-x: names that are shut out are not supported by minislurm.  No reservation "
         "created."),
    ],
)  # fmt: skip
def test_what_cannot_be_read(
    words: tuple[str, ...], err: str, controller: Reserving, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _said(capsys, "create", "res", *words) == ("", f"scontrol: error: {err}\n", 1)
    assert controller.requests == []


def test_refusals(controller: Reserving, capsys: pytest.CaptureFixture[str]) -> None:
    controller.refusal = Refusal(RefusalCode.RESERVATION_OVERLAP)
    text = "Requested reservation overlaps with another reservation"
    created = _said(capsys, "create", "res", *NEEDED)
    assert created == ("", f"Error creating the reservation: {text}\n", 1)
    updated = _said(capsys, "update", "ReservationName=a", "Duration=1")
    assert updated == ("", f"Error updating the reservation: {text}\nslurm_update error: {text}\n", 1)
    deleted = _said(capsys, "delete", "ReservationName=a")
    assert deleted == ("", f"delete_reservation ReservationName=a: {text}\n", 1)


def test_update_and_delete(controller: Reserving, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("ReservationName=a", "Duration=1:00:00", "Users+=bob", "Flags-=MAINT", "Nodes=ALL")
    assert _said(capsys, "update", *words) == ("Reservation updated.\n", "", 0)
    changes = ReservationChanges(
        "a", duration_s=3600.0, users=ListChange("+", ("bob",)), nodes=ListChange("=", ("ALL",)),
        flags=ListChange("-", ("MAINT",)),
    )  # fmt: skip
    assert controller.requests.pop() == ("update", changes)
    for words in (("ReservationName=a",), ("reservation=a",), ("reservation", "a")):
        assert _said(capsys, "delete", *words) == ("", "", 0)
        assert controller.requests.pop() == ("delete", "a")
    assert _said(capsys, "delete") == ("", "too few arguments for delete keyword\n", 1)


def test_the_reservation_of_a_job_is_the_jobs(
    controller: Reserving, capsys: pytest.CaptureFixture[str]
) -> None:
    _said(capsys, "update", "jobid=1", "ReservationName=m", "Licenses=a:1", "Deadline=uts100")
    kind, changes, _ = controller.requests.pop()
    assert kind == "update_job"
    assert (changes.reservation, changes.licenses, changes.deadline) == ("m", "a:1", 100.0)


def test_a_duration_without_end_is_a_year() -> None:
    changes = parse_creation(("start=now", "dur=infinite", "user=a", "nodes=n1"), NOW)
    assert changes.duration_s == 365 * 86400


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="Invalid time EndTime=x"):
        parse_creation(("starttime=now", "EndTime=x"), NOW)
