"""The Standard Workload Format of the Parallel Workloads Archive: one job a line, 18 numbers.

Source: S. Chapin et al., "Benchmarks and standards for the evaluation of parallel job schedulers",
JSSPP 1999. Read are submission (2), run time (4), allocated and requested processors (5, 8), requested time
(9), user (12), group (13, as the account) and partition is left aside. -1 stands for "not known".
"""

from __future__ import annotations

import math
from pathlib import Path

from minislurm.sim.trace import LARGEST, LONGEST_S, Reading, TraceJob, Workload

_COLUMNS = 18
_JOB, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _TIME, _USER, _GROUP = 0, 1, 3, 4, 7, 8, 11, 12


def read(path: Path, *, lenient: bool = False) -> Workload:
    """Raises TraceError."""
    reading = Reading(path, lenient)
    jobs = []
    for number, line in reading.lines(comment=";"):
        if not line.strip():
            continue
        job = _job(line)
        if isinstance(job, TraceJob):
            jobs.append(job)
        else:
            reading.bad(number, job)
    return Workload.of(reading, jobs)


def _job(line: str) -> TraceJob | str:
    """The job, or why the line is none."""
    words = line.split()
    if len(words) != _COLUMNS:
        return f"has {len(words)} columns, SWF has {_COLUMNS}"
    values = []
    for column, word in enumerate(words, start=1):
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            return f"column {column} is not a number: {word}"
        values.append(value)
    for column in (_SUBMIT, _RUN, _TIME):
        if values[column] > LONGEST_S:
            return f"column {column + 1} is over {LONGEST_S:g} seconds: {words[column]}"
    processors = int(values[_REQUESTED] if values[_REQUESTED] > 0 else values[_ALLOCATED])
    if processors <= 0:
        return "neither requested nor allocated processors are known"
    if processors > LARGEST:
        return f"there are no {processors:g} processors"
    if values[_RUN] < 0:
        return "the run time is not known"
    if values[_SUBMIT] < 0:
        return "the submission time is not known"
    return TraceJob(
        name=words[_JOB],
        submit_s=values[_SUBMIT],
        run_s=values[_RUN],
        limit_s=values[_TIME] if values[_TIME] > 0 else None,
        processors=processors,
        user=_named("user", values[_USER]),
        account=_named("group", values[_GROUP]),
    )


def _named(kind: str, value: float) -> str:
    return f"{kind}{int(value)}" if value >= 0 else ""
