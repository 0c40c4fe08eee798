"""Small workloads, and where the public traces lie that are no part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minislurm.sim.trace import TraceJob, Workload

_BESIDE = Path(__file__).resolve().parents[4] / "shared" / "traces"
PUBLIC = Path(os.environ.get("MINISLURM_TRACES") or _BESIDE)


def public(name: str) -> Path:
    """The published trace, or the test is skipped."""
    path = PUBLIC / name
    if not path.exists():
        pytest.skip(
            f"{name} is not there: public traces are looked for in $MINISLURM_TRACES or ../shared/traces"
        )
    return path


def a_trace_job(submit_s: float, run_s: float, processors: int = 1, **changes: object) -> TraceJob:
    """Its estimate is exact unless `changes` say otherwise."""
    values: dict[str, object] = {"limit_s": run_s, "name": f"{submit_s:g}", **changes}
    return TraceJob(submit_s=submit_s, run_s=run_s, processors=processors, **values)  # type: ignore[arg-type]


def a_workload(*jobs: TraceJob) -> Workload:
    return Workload("test", tuple(jobs))
