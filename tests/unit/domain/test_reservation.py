"""Times that come again, and lists of licenses."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain.reservation import (
    LicenseCount,
    Reservation,
    ReservationFlag,
    format_licenses,
    overlap,
    parse_licenses,
)

#: A Friday, 08:00 local time.
FRIDAY = datetime(2026, 11, 20, 8).timestamp()


def a_reservation(*flags: ReservationFlag, start: float = FRIDAY, hours: float = 1.0) -> Reservation:
    return Reservation("r", start, start + 3600 * hours, flags=flags)


@pytest.mark.parametrize(
    ("flag", "days"),
    [
        (ReservationFlag.DAILY, ["Sat 08", "Sun 08", "Mon 08"]),
        (ReservationFlag.WEEKDAY, ["Mon 08", "Tue 08", "Wed 08"]),
        (ReservationFlag.WEEKEND, ["Sat 08", "Sun 08", "Sat 08"]),
        (ReservationFlag.WEEKLY, ["Fri 08", "Fri 08", "Fri 08"]),
        (ReservationFlag.HOURLY, ["Fri 09", "Fri 10", "Fri 11"]),
    ],
)
def test_when_it_comes_again(flag: ReservationFlag, days: list[str]) -> None:
    starts = [start for start, _ in islice(a_reservation(flag).windows(), 1, 4)]
    assert [datetime.fromtimestamp(start).strftime("%a %H") for start in starts] == days


def test_one_that_does_not_recur_has_one_time() -> None:
    assert list(a_reservation().windows()) == [(FRIDAY, FRIDAY + 3600)]


def test_touching_ends_are_no_overlap() -> None:
    first = a_reservation()
    assert not overlap(first, a_reservation(start=FRIDAY + 3600))
    assert overlap(first, a_reservation(start=FRIDAY + 3599))
    assert overlap(
        a_reservation(ReservationFlag.DAILY), a_reservation(start=FRIDAY + 30 * 86400 + 1800, hours=30)
    )


@given(st.sampled_from([ReservationFlag.DAILY, ReservationFlag.HOURLY, ReservationFlag.WEEKEND]),
       st.integers(0, 400), st.integers(1, 30))  # fmt: skip
def test_overlap_is_mutual(flag: ReservationFlag, hours: int, length: int) -> None:
    one, other = a_reservation(flag, hours=0.5), a_reservation(start=FRIDAY + 1800 * hours, hours=length / 4)
    assert overlap(one, other) is overlap(other, one)
    windows = list(islice(one.windows(), 500))
    expected = any(s < other.end_time and e > other.start_time for s, e in windows)
    assert overlap(one, other) is expected


def test_who_is_admitted() -> None:
    both = Reservation("r", 0, 1, users=("alice",), accounts=("physics",))
    assert both.admits("alice", "physics")
    assert not both.admits("alice", "")
    assert not both.admits("bob", "physics")
    assert Reservation("r", 0, 1, accounts=("physics",)).admits("bob", "physics")


def test_licenses() -> None:
    licenses = parse_licenses("matlab,ansys:2,matlab:3")
    assert licenses == (LicenseCount("ansys", 2), LicenseCount("matlab", 4))
    assert format_licenses(licenses) == "ansys:2,matlab:4"
    assert parse_licenses("ansys:0") == (LicenseCount("ansys", 0),)


@pytest.mark.parametrize("text", ["", ",", "a:", "a:x", "a:-1", ":2", "a b", "a@server", "a:1:2"])
def test_what_is_no_license(text: str) -> None:
    with pytest.raises(ValueError, match="license"):
        parse_licenses(text)
