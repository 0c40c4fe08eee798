from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain.times import (
    format_duration,
    format_duration_long,
    format_time,
    parse_duration,
    parse_time,
)

_NOW = datetime(2026, 11, 21, 8, 39, 4).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800.0),
        ("0", 0.0),
        ("1:30", 90.0),
        ("2:00:00", 7200.0),
        ("1-0", 86400.0),
        ("1-2", 93600.0),
        ("1-2:30", 95400.0),
        ("1-02:30:05", 95405.0),
        ("90:00", 5400.0),
        ("UNLIMITED", None),
        ("infinite", None),
        ("-1", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "nonsense", "1:2:3:4", "1-", "-5", "1.5", "1h", " 1", "99999999999", "٣"]
)
def test_bad_durations(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_printed_duration_reads_the_same(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds
    assert parse_duration(format_duration_long(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "short", "long"),
    [
        (3, "0:03", "00:00:03"),
        (1800, "30:00", "00:30:00"),
        (7200, "2:00:00", "02:00:00"),
        (86400, "1-00:00:00", "1-00:00:00"),
        (3.9, "0:03", "00:00:03"),
        (None, "UNLIMITED", "UNLIMITED"),
    ],
)
def test_formats(seconds: float | None, short: str, long: str) -> None:
    assert format_duration(seconds) == short
    assert format_duration_long(seconds) == long


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("now", "2026-11-21T08:39:04"),
        ("now+1hour", "2026-11-21T09:39:04"),
        ("now+60", "2026-11-21T08:40:04"),
        ("now+2days", "2026-11-23T08:39:04"),
        ("now-1week", "2026-11-14T08:39:04"),
        ("16:00", "2026-11-21T16:00:00"),
        ("4:00PM", "2026-11-21T16:00:00"),
        ("12:30am", "2026-11-22T00:30:00"),
        ("08:00", "2026-11-22T08:00:00"),
        ("midnight", "2026-11-22T00:00:00"),
        ("noon", "2026-11-21T12:00:00"),
        ("fika", "2026-11-21T15:00:00"),
        ("teatime", "2026-11-21T16:00:00"),
        ("today", "2026-11-21T00:00:00"),
        ("tomorrow", "2026-11-22T00:00:00"),
        ("tomorrow 16:00", "2026-11-22T16:00:00"),
        ("1231", "2026-12-31T00:00:00"),
        ("0101", "2027-01-01T00:00:00"),
        ("123127", "2027-12-31T00:00:00"),
        ("12/31", "2026-12-31T00:00:00"),
        ("12/31/27", "2027-12-31T00:00:00"),
        ("2026-11-21", "2026-11-21T00:00:00"),
        ("2026-11-21T08:39", "2026-11-21T08:39:00"),
        ("2027-01-20T12:34:00", "2027-01-20T12:34:00"),
        ("1970-01-02-00:00:01", "1970-01-02T00:00:01"),
    ],
)
def test_points_in_time(text: str, shown: str) -> None:
    assert format_time(parse_time(text, _NOW)) == shown


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("never", 0), ("25:00", 0), ("13:00PM", 0), ("2026-13-01", 0), ("", 0), ("now+5x", 5),
        ("16:00 17:00", 6), ("today tomorrow", 6), ("now+99999999999", 0),
    ],
)  # fmt: skip
def test_bad_points_in_time_say_where(text: str, position: int) -> None:
    with pytest.raises(ValueError, match="Invalid") as caught:
        parse_time(text, _NOW)
    assert str(caught.value) == f"Invalid time specification (pos={position}): {text}"


@given(st.text(alphabet="now+-0123456789:/.T aptmidghr", max_size=24))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    try:
        assert isinstance(parse_time(text, _NOW), float)
    except ValueError:
        pass


def test_no_time_is_unknown() -> None:
    assert format_time(0) == "Unknown"
    assert format_time(1e300) == "Unknown"
