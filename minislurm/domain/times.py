"""Slurm's notations for durations and points in time (seconds since the epoch, shown in local time)."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from datetime import time as time_of_day

#: Slurm keeps minutes in 32 bits; so long is a mistake anyway.
MAX_DURATION_S = 60.0 * (2**32 - 3)

_DURATION = re.compile(
    r"(?:(?P<days>[0-9]{1,10})-(?P<dh>[0-9]{1,10})(?::(?P<dm>[0-9]{1,10})(?::(?P<ds>[0-9]{1,10}))?)?"
    r"|(?P<a>[0-9]{1,10})(?::(?P<b>[0-9]{1,10})(?::(?P<c>[0-9]{1,10}))?)?)\Z"
)


def parse_duration(text: str) -> float | None:
    """Seconds; None for UNLIMITED, INFINITE and -1. Raises ValueError.

    Minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS.
    """
    if text.lower() in ("infinite", "unlimited", "-1"):
        return None
    match = _DURATION.match(text)
    if match is None:
        raise ValueError(f"invalid time: {text}")
    part = {key: int(value) for key, value in match.groupdict().items() if value is not None}
    if "days" in part:
        seconds = part["days"] * 86400 + part["dh"] * 3600 + part.get("dm", 0) * 60 + part.get("ds", 0)
    elif "c" in part:
        seconds = part["a"] * 3600 + part["b"] * 60 + part["c"]
    else:
        seconds = part["a"] * 60 + part.get("b", 0)
    if seconds > MAX_DURATION_S:
        raise ValueError(f"time too large: {text}")
    return float(seconds)


def format_duration(seconds: float | None) -> str:
    """As squeue prints it: 0:03, 30:00, 2:00:00, 1-00:00:00; None is UNLIMITED."""
    if seconds is None or seconds == float("inf"):
        return "UNLIMITED"
    if seconds < 0:
        return "INVALID"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02d}:{minute:02d}:{second:02d}"
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


def format_duration_long(seconds: float | None) -> str:
    """As scontrol prints it: 00:30:00, 1-00:00:00; None is UNLIMITED."""
    if seconds is None or seconds == float("inf"):
        return "UNLIMITED"
    if seconds < 0:
        return "INVALID"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02d}:{minute:02d}:{second:02d}"


def format_time(t: float) -> str:
    """2026-11-21T08:39:04 in local time; 0 is Unknown."""
    if t <= 0:
        return "Unknown"
    try:
        return datetime.fromtimestamp(int(t)).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "Unknown"


def parse_time(text: str, now: float) -> float:
    """A point in time as --begin takes it; a time of day that has passed means tomorrow's.

    now, now+1hour, HH:MM[:SS][AM|PM], midnight, noon, fika, teatime, today, tomorrow, MMDD[YY], MM/DD[/YY],
    YYYY-MM-DD[THH:MM[:SS]], and a date with a time of day in either order. Raises ValueError with the
    message that Slurm prints.
    """
    lowered = text.strip().lower()
    match = _NOW.match(lowered)
    if match is not None:
        return now + _offset(match, text)
    match = _EPOCH.match(lowered)
    if match is not None:
        return float(match[1])
    current = datetime.fromtimestamp(now)
    day: date | None = None
    clock: time_of_day | None = None
    position = 0
    while position < len(lowered):
        token = _TOKEN.match(lowered, position)
        assert token is not None
        word = token[1]
        found = _clock(word) if word else None
        found_day = _day(word, current) if word and found is None else None
        if (found is None or clock is not None) and (found_day is None or day is not None):
            raise _invalid(text, position)
        clock = found or clock if found is not None else clock
        day = found_day if found_day is not None else day
        position = token.end()
    if day is None and clock is None:
        raise _invalid(text, 0)
    try:
        if day is not None:
            return datetime.combine(day, clock or time_of_day()).timestamp()
        assert clock is not None
        moment = datetime.combine(current.date(), clock)
        # The minute that is running still counts as today.
        if moment < current.replace(microsecond=0):
            moment += timedelta(days=1)
        return moment.timestamp()
    except (OverflowError, OSError) as error:
        raise _invalid(text, 0) from error


_NOW = re.compile(r"now(?:\s*([+-])\s*([0-9]{1,10})\s*([a-z]*))?\Z")
_EPOCH = re.compile(r"uts([0-9]{1,11})\Z")
# A date ends at "T", at a blank, or at the dash before a time of day (1970-01-01-00:00:01).
_TOKEN = re.compile(
    r"([0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?=[t\s-]|\Z)|[0-9/.]+(?=t[0-9])|[0-9:.]+\s*[ap]m|[^\s]+)(?:[t-](?=[0-9])|\s+|\Z)"
)
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.[0-9]*)?)?\s*([ap]m)?\Z")
_NAMED_CLOCKS = {
    "midnight": time_of_day(0),
    "elevenses": time_of_day(11),
    "noon": time_of_day(12),
    "fika": time_of_day(15),
    "teatime": time_of_day(16),
}
_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 604800}


def _invalid(text: str, position: int) -> ValueError:
    return ValueError(f"Invalid time specification (pos={position}): {text}")


def _offset(match: re.Match[str], text: str) -> float:
    sign, count, unit = match.groups()
    if sign is None:
        return 0.0
    factor = next((seconds for name, seconds in _UNITS.items() if name.startswith(unit)), None)
    if factor is None:
        raise _invalid(text, match.start(3))
    seconds = int(count) * factor
    if seconds > MAX_DURATION_S:
        raise _invalid(text, match.start(2))
    return float(-seconds if sign == "-" else seconds)


def _clock(word: str) -> time_of_day | None:
    if word in _NAMED_CLOCKS:
        return _NAMED_CLOCKS[word]
    match = _CLOCK.match(word)
    if match is None:
        return None
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if match[4]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match[4] == "pm" else 0)
    try:
        return time_of_day(hour, minute, second)
    except ValueError:
        return None


def _day(word: str, current: datetime) -> date | None:
    if word == "today":
        return current.date()
    if word == "tomorrow":
        return current.date() + timedelta(days=1)
    for pattern in _DATES:
        match = pattern.match(word)
        if match is not None:
            return _date_of(match, current)
    return None


_DATES = (
    re.compile(r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})\Z"),
    re.compile(r"(?P<month>[0-9]{1,2})[/.](?P<day>[0-9]{1,2})(?:[/.](?P<year>[0-9]{2}|[0-9]{4}))?\Z"),
    re.compile(r"(?P<month>[0-9]{2})(?P<day>[0-9]{2})(?P<year>[0-9]{2})?\Z"),
)


def _date_of(match: re.Match[str], current: datetime) -> date | None:
    month, day, year = int(match["month"]), int(match["day"]), match["year"]
    try:
        if year is not None:
            return date(int(year) + (2000 if len(year) == 2 else 0), month, day)
        found = date(current.year, month, day)
        return found if found >= current.date() else date(current.year + 1, month, day)
    except ValueError:
        return None
