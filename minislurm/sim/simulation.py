"""A simulation: one workload, several policies, each measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from minislurm.domain.configuration import Configuration
from minislurm.sim.checkpoints import NO_CHECKPOINTS, Checkpoints
from minislurm.sim.failures import Failures
from minislurm.sim.metrics import Metrics, measure
from minislurm.sim.policy import Policy
from minislurm.sim.replay import Result, replay
from minislurm.sim.trace import Workload


class Plan(Struct, frozen=True):
    """What is simulated. `settings`: how the user asked for it, for the reports' heads."""

    workload: Workload
    configuration: Configuration
    policies: tuple[Policy, ...]
    exact: bool = False
    checkpoints: Checkpoints = NO_CHECKPOINTS
    failures: Failures | None = None
    settings: tuple[tuple[str, str], ...] = ()


class Measured(Struct, frozen=True):
    policy: Policy
    result: Result
    metrics: Metrics


def simulate(
    plan: Plan, progress: Callable[[str, int], None] = lambda name, ended: None
) -> Sequence[Measured]:
    """Raises ConfigurationError for a policy that cannot be had, before the first one runs. `progress` is
    told the policy's name and how many jobs are over."""
    configurations = [policy.on(plan.configuration) for policy in plan.policies]
    measured = []
    for policy, configuration in zip(plan.policies, configurations, strict=True):
        name = policy.name
        result = replay(
            plan.workload,
            configuration,
            exact=plan.exact,
            checkpoints=plan.checkpoints,
            failures=plan.failures,
            progress=lambda ended, name=name: progress(name, ended),  # type: ignore[misc]
        )
        measured.append(Measured(policy, result, measure(result)))
    return measured
