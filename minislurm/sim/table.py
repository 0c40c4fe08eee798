"""Traces as a table: CSV with a header line, or JSON lines. One job a row.

| column | meaning |
|---|---|
| `submit` | seconds, or a date and time (`2017-10-09 07:01:55`); needed |
| `run` | run time in seconds; needed |
| `limit` | the user's estimate in seconds; empty: none |
| `gpus`, `cpus` | of the whole job |
| `processors` | instead of both: GPUs on a cluster that has them, else CPUs |
| `nodes` | empty or 0: as few as can hold it |
| `memory_mib` | of the whole job |
| `gpu_type`, `gpu_share_milli` | a type, or several joined by a bar; thousandths of one GPU |
| `bid` | credits for a GPU- or CPU-hour, under `--policy auction` |
| `name`, `user`, `account`, `partition` | text |

At least one of `gpus`, `cpus`, `processors`, `gpu_share_milli` has to be above 0. Other names of the same
columns, as published traces have them, are in `ALIASES`: Microsoft's Philly trace reads as it is.
Columns that are neither are left aside, and the workload's notes say which.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import Any

from minislurm.cluster.budgets import is_amount
from minislurm.sim.trace import LARGEST, LONGEST_S, Reading, TraceError, TraceJob, Workload

_TEXTS = ("name", "user", "account", "partition", "gpu_type")
_AMOUNTS = ("processors", "nodes", "cpus", "gpus", "gpu_share_milli", "memory_mib")
COLUMNS = ("submit", "run", "limit", "bid", *_AMOUNTS, *_TEXTS)

#: Other names of columns. `timestamp`, `duration`, `num_gpus`, `cluster` are Philly's (virtual clusters are
#: its accounts); the others are common.
ALIASES = {
    "timestamp": "submit",
    "submit_time": "submit",
    "duration": "run",
    "run_time": "run",
    "time_limit": "limit",
    "num_gpus": "gpus",
    "num_cpus": "cpus",
    "cluster": "account",
    "group": "account",
    "job_id": "name",
}


def read(path: Path, *, lenient: bool = False) -> Workload:
    """By its first character: JSON lines begin with a brace. Raises TraceError."""
    reading = Reading(path, lenient)
    jobs: list[TraceJob] = []
    unused: dict[str, None] = {}
    for number, row in _rows(reading):
        if isinstance(row, str):
            reading.bad(number, row)
            continue
        known: dict[str, object] = {}
        for column, value in row.items():
            name = ALIASES.get(column, column)
            if name in COLUMNS:
                known.setdefault(name, value)
            else:
                unused[column] = None
        job = _job(known, f"{len(jobs) + 1}")
        if isinstance(job, TraceJob):
            jobs.append(job)
        else:
            reading.bad(number, job)
    notes = [f"columns not used: {', '.join(unused)}"] if unused else []
    return Workload.of(reading, jobs, notes)


def _rows(reading: Reading) -> Iterator[tuple[int, Mapping[str, object] | str]]:
    """Numbered rows; a text instead of a row: why it is none."""
    lines = ((number, line) for number, line in reading.lines() if line.strip())
    first = next(lines, None)
    if first is None:
        raise TraceError(f"{reading.path}: is empty")
    if first[1].lstrip().startswith("{"):
        yield from _json_rows(chain([first], lines))
    else:
        yield from _csv_rows(reading, chain([first], lines))


def _json_rows(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, object] | str]]:
    for number, line in lines:
        try:
            row = json.loads(line)
        except ValueError as error:
            yield number, f"not valid JSON: {error}"
            continue
        yield number, row if isinstance(row, dict) else "not a JSON object"


def _csv_rows(
    reading: Reading, lines: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, Mapping[str, object] | str]]:
    rows = reading.rows(lines)
    number, header = next(rows)
    names = {ALIASES.get(column, column) for column in header}
    missing = [column for column in ("submit", "run") if column not in names]
    if missing:
        known = ", ".join(COLUMNS)
        raise TraceError(
            f"{reading.path}:{number}: the header has no column {' and '.join(missing)} (known are {known})"
        )
    yield from rows


def _job(row: Mapping[str, object], name: str) -> TraceJob | str:
    """The job, or why the row is none."""
    try:
        submit_s, run_s = _time(row, "submit"), _number(row, "run")
        limit_s, bid = _number(row, "limit"), _number(row, "bid") or 0.0
        amounts = {column: _amount(row, column) for column in _AMOUNTS}
    except ValueError as error:
        return str(error)
    if submit_s is None or run_s is None:
        return f"{'submit' if submit_s is None else 'run'} is missing"
    if not is_amount(bid):
        return f"bid is {bid:g}, must be 1e9 or less"
    texts = {column: str(row.get(column) or "") for column in _TEXTS}
    if not any(amounts[column] for column in ("processors", "cpus", "gpus", "gpu_share_milli")):
        return "asks for nothing: gpus, cpus, processors and gpu_share_milli are all 0 or missing"
    if amounts["gpu_share_milli"] >= 1000:
        return f"gpu_share_milli is {amounts['gpu_share_milli']}, must be below 1000"
    values: dict[str, Any] = {**texts, **amounts, "name": texts["name"] or name}
    return TraceJob(submit_s=submit_s, run_s=run_s, limit_s=limit_s or None, bid=bid, **values)


def _amount(row: Mapping[str, object], column: str) -> int:
    number = _number(row, column) or 0.0
    if not number.is_integer():
        raise ValueError(f"{column} is not a whole number: {row[column]}")
    return int(number)


def _number(row: Mapping[str, object], column: str) -> float | None:
    value = row.get(column)
    if value is None or value == "":
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{column} is not a number of 0 or more: {value}")
    if number > (LARGEST if column in _AMOUNTS else LONGEST_S):
        raise ValueError(f"{column} is too large: {value}")
    return number


def _time(row: Mapping[str, object], column: str) -> float | None:
    """Seconds as they are; a date and time without a zone counts as UTC."""
    value = row.get(column)
    if isinstance(value, str) and ("-" in value[1:] or ":" in value):
        try:
            moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            raise ValueError(f"{column} is neither seconds nor a date and time: {value}") from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    return _number(row, column)
