"""``scontrol create|update reservation``: reads ``Key=value`` words into what is asked of the controller."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from minislurm.cli.application import print_error
from minislurm.cli.printable import printable
from minislurm.domain.errors import UsageError
from minislurm.domain.hostlist import expand
from minislurm.domain.reservation import ReservationFlag
from minislurm.domain.times import parse_duration, parse_time
from minislurm.domain.views import ListChange, ReservationChanges

#: Without an end.
_FOREVER_S = 365 * 86400.0
_KEYS = (
    "reservationname", "starttime", "endtime", "duration", "users", "accounts", "nodes", "nodecnt",
    "partitionname", "flags",
)  # fmt: skip
#: Slurm's keys and flags that are not built.
_FOREIGN_KEYS = (
    "burstbuffer", "corecnt", "features", "groups", "licenses", "maxstartdelay", "skip", "tres",
    "trespernode", "watts",
)  # fmt: skip
_FOREIGN_FLAGS = (
    "FIRST_CORES", "MAGNETIC", "PART_NODES", "PURGE_COMP", "REPLACE", "REPLACE_DOWN", "STATIC_ALLOC",
    "TIME_FLOAT", "USER_DELETE", "LICENSE_ONLY",
)  # fmt: skip


def parse_creation(words: Sequence[str], now: float) -> ReservationChanges:
    """Raises UsageError with Slurm's texts."""
    changes = _changes(words, now, "No reservation created.")
    if changes.start_time is None:
        raise UsageError("A start time must be given.  No reservation created.")
    if changes.end_time is None and changes.duration_s is None:
        raise UsageError("An end time or duration must be given.  No reservation created.")
    if changes.end_time is not None and changes.end_time <= changes.start_time:
        raise UsageError("Start time cannot be after end time.  No reservation created.")
    if changes.nodes is None and changes.node_count is None:
        raise UsageError("Nodes or NodeCnt must be specified.  No reservation created.")
    if changes.users is None and changes.accounts is None:
        raise UsageError("Either Users and/or Accounts must be specified.  No reservation created.")
    return changes


def parse_change(words: Sequence[str], now: float) -> ReservationChanges:
    """Raises UsageError."""
    changes = _changes(words, now, "No reservation update.")
    if not changes.name:
        raise UsageError("Reservation must be given.  No reservation update.")
    return changes


def _changes(words: Sequence[str], now: float, outcome: str) -> ReservationChanges:
    changes = ReservationChanges()
    for text in words:
        key, operator, value = _split(text)
        match _find(key):
            case "reservationname":
                changes = replace(changes, name=value)
            case "starttime":
                changes = replace(changes, start_time=_time(text, value, now, outcome))
            case "endtime":
                changes = replace(changes, end_time=_time(text, value, now, outcome))
            case "duration":
                changes = replace(changes, duration_s=_duration(text, value, outcome))
            case "users":
                changes = replace(changes, users=_names(text, operator, value, outcome))
            case "accounts":
                changes = replace(changes, accounts=_names(text, operator, value, outcome))
            case "nodes":
                changes = replace(changes, nodes=_nodes(operator, value, outcome))
            case "nodecnt":
                changes = replace(changes, node_count=_count(text, value, outcome))
            case "partitionname":
                changes = replace(changes, partition=value)
            case "flags":
                changes = replace(changes, flags=_flags(operator, value, outcome))
            case _:
                if any(foreign.startswith(key) for foreign in _FOREIGN_KEYS if len(key) > 2):
                    raise UsageError(f"{printable(text)} is not supported by minislurm.  {outcome}")
                raise UsageError(f"Unknown parameter {printable(text)}.  {outcome}")
    return changes


def _split(text: str) -> tuple[str, str, str]:
    """Key in lower case, "=", "+" or "-", value."""
    key, _, value = text.partition("=")
    operator = "="
    if key.endswith(("+", "-")):
        key, operator = key[:-1], key[-1]
    elif value[:1] in ("+", "-") and key.lower().startswith(("nodes", "flags")):
        operator, value = value[0], value[1:]
    return key.lower(), operator, value


def _find(key: str) -> str:
    """A key may be shortened; "" for none."""
    if key in _KEYS:
        return key
    if key in ("name", "reservation"):
        return "reservationname"
    matches = [known for known in _KEYS if len(key) >= 3 and known.startswith(key)]
    return matches[0] if len(matches) == 1 else ""


def _time(text: str, value: str, now: float, outcome: str) -> float:
    try:
        return parse_time(value, now)
    except ValueError as error:
        print_error("scontrol", str(error))
        raise UsageError(f"Invalid time {printable(text)}.  {outcome}") from error


def _duration(text: str, value: str, outcome: str) -> float:
    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise UsageError(f"Invalid duration {printable(text)}.  {outcome}") from error
    return _FOREVER_S if seconds is None else seconds


def _names(text: str, operator: str, value: str, outcome: str) -> ListChange:
    items = tuple(item for item in value.split(",") if item)
    if any(item.startswith("-") for item in items):
        raise UsageError(
            f"{printable(text)}: names that are shut out are not supported by minislurm.  {outcome}"
        )
    return ListChange(operator, items)


def _nodes(operator: str, value: str, outcome: str) -> ListChange:
    if value.upper() == "ALL":
        return ListChange("=", ("ALL",))
    try:
        return ListChange(operator, tuple(expand(value)))
    except ValueError as error:
        raise UsageError(f"Invalid node name {printable(value)}.  {outcome}") from error


def _count(text: str, value: str, outcome: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 8):
        raise UsageError(f"Invalid node count {printable(text)}.  {outcome}")
    return int(value)


def _flags(operator: str, value: str, outcome: str) -> ListChange:
    known = {flag.value for flag in ReservationFlag}
    flags = [_flag(word.upper()) for word in value.split(",") if word]
    for flag in flags:
        if flag in _FOREIGN_FLAGS:
            raise UsageError(f"Flag {printable(flag)} is not supported by minislurm.  {outcome}")
        if flag not in known:
            raise UsageError(f"Error parsing flags {printable(value)}.  {outcome}")
    return ListChange(operator, tuple(flags))


def _flag(word: str) -> str:
    """Slurm takes any beginning of a flag's name, and knows some by other names."""
    every = [flag.value for flag in ReservationFlag]
    word = {"MAINTENANCE": "MAINT", "IGNORE_RUNNING": "IGNORE_JOBS"}.get(word, word)
    if word in every or word in _FOREIGN_FLAGS:
        return word
    matches = [flag for flag in (*every, *_FOREIGN_FLAGS) if len(word) > 2 and flag.startswith(word)]
    return matches[0] if len(matches) == 1 else word
