"""A simulation: one workload, several policies, each measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from minislurm.domain.accounts import AccountChanges
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import UsageError
from minislurm.sim import trace_accounts
from minislurm.sim.checkpoints import NO_CHECKPOINTS, Checkpoints
from minislurm.sim.failures import Failures
from minislurm.sim.metrics import Metrics, measure
from minislurm.sim.policy import Policy
from minislurm.sim.recording import Occupancy
from minislurm.sim.replay import Result, replay
from minislurm.sim.trace import Workload
from minislurm.sim.trace_accounts import Budget


class Plan(Struct, frozen=True):
    """What is simulated. `settings`: how the user asked for it, for the reports' heads."""

    workload: Workload
    configuration: Configuration
    policies: tuple[Policy, ...]
    exact: bool = False
    checkpoints: Checkpoints = NO_CHECKPOINTS
    failures: Failures | None = None
    settings: tuple[tuple[str, str], ...] = ()
    #: Of bids that are drawn, and what accounts may spend on them.
    seed: int = 0
    budget: Budget = Budget()


class Measured(Struct, frozen=True):
    policy: Policy
    result: Result
    metrics: Metrics


def simulate(
    plan: Plan, progress: Callable[[str, int], None] = lambda name, ended: None
) -> Sequence[Measured]:
    """Raises ConfigurationError or UsageError for a policy that cannot be had, before the first one runs.
    `progress` is told the policy's name and how many jobs are over."""
    configurations = [policy.on(plan.configuration) for policy in plan.policies]
    for configuration in configurations:
        _refuse_endless(configuration, plan.checkpoints)
    workloads = [_workload(plan, policy) for policy in plan.policies]
    measured = []
    for policy, configuration, workload in zip(plan.policies, configurations, workloads, strict=True):
        name = policy.name
        result = replay(
            workload,
            configuration,
            exact=plan.exact,
            checkpoints=plan.checkpoints,
            failures=plan.failures,
            progress=lambda ended, name=name: progress(name, ended),  # type: ignore[misc]
            accounts=_accounts(plan, policy, workload),
        )
        measured.append(Measured(policy, result, measure(result)))
    return measured


def _refuse_endless(configuration: Configuration, checkpoints: Checkpoints) -> None:
    """Who gives way after each slice, and has saved nothing in it, begins anew for ever."""
    scheduler = configuration.scheduler
    if all((p.order or scheduler.order) != "round-robin" for p in configuration.partitions):
        return
    slice_s = scheduler.time_slice_s
    if not checkpoints.saved(slice_s, slice_s, restarted=True):
        raise UsageError(
            f"time slices of {slice_s:g} s (scheduler.time_slice_s) need checkpoints within them: "
            "--checkpoint-every; a job that begins anew with each slice never ends"
        )


def _workload(plan: Plan, policy: Policy) -> Workload:
    if not policy.by_accounts:
        return plan.workload
    workload = trace_accounts.charged(plan.workload, policy.name)
    return trace_accounts.with_bids(workload, plan.seed) if policy.takes_bids else workload


def _accounts(plan: Plan, policy: Policy, workload: Workload) -> AccountChanges | None:
    if not policy.by_accounts:
        return None
    units = Occupancy.declared(plan.configuration).total
    return trace_accounts.tree_of(workload, units, plan.budget if policy.takes_bids else None)
