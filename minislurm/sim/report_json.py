"""The results as JSON: settings, figures by policy, and the course of time in at most `_POINTS` steps."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import to_builtins

from minislurm.sim.courses import courses
from minislurm.sim.simulation import Measured, Plan

_POINTS = 500


def render(plan: Plan, measured: Sequence[Measured]) -> str:
    """The same simulation gives the same text."""
    content = {
        "trace": plan.workload.name,
        "jobs": len(plan.workload.jobs),
        "skipped_lines": len(plan.workload.skipped),
        "settings": dict(plan.settings),
        "policies": [
            {
                "policy": one.policy.name,
                "summary": one.policy.summary,
                "metrics": to_builtins(one.metrics),
                "course": {name: values.tolist() for name, values in courses(one.result, _POINTS).items()},
            }
            for one in measured
        ],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"
