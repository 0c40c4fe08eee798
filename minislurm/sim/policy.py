"""Named policies: what each changes in the scheduler's settings. The code behind them is production's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from minislurm.domain.configuration import Configuration, SchedulerSection
from minislurm.domain.configuration_values import convert, field_names
from minislurm.domain.errors import ConfigurationError

#: Jobs in the order of their submission: nothing else counts.
_SUBMISSION_ORDER: dict[str, object] = {
    "priority_weight_age": 0,
    "priority_weight_job_size": 0,
    "priority_weight_partition": 0,
}


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    summary: str
    settings: dict[str, object] = field(default_factory=dict)

    def on(self, configuration: Configuration) -> Configuration:
        """Raises ConfigurationError where this version's scheduler has no such setting."""
        return with_settings(configuration, self.settings, f"--policy {self.name}")


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("configured", "as the cluster's configuration says"),
        Policy(
            "fifo", "submission order, nobody passes the first job", {**_SUBMISSION_ORDER, "backfill": "off"}
        ),
        Policy("easy", "submission order, EASY backfill", {**_SUBMISSION_ORDER, "backfill": "easy"}),
        Policy(
            "easy-sjf",
            "as easy, but the shortest job is backfilled first",
            {**_SUBMISSION_ORDER, "backfill": "easy", "backfill_order": "shortest"},
        ),
        Policy(
            "conservative",
            "submission order, every job before it has a reservation",
            {**_SUBMISSION_ORDER, "backfill": "conservative"},
        ),
        Policy(
            "sjf",
            "the shortest time limit first, nobody passes the first job",
            {**_SUBMISSION_ORDER, "order": "sjf", "backfill": "off"},
        ),
    )
}


def named(name: str) -> Policy:
    """Raises ConfigurationError."""
    policy = POLICIES.get(name)
    if policy is None:
        raise ConfigurationError(f"--policy {name}: no such policy (there are {', '.join(POLICIES)})")
    return policy


def with_placement(configuration: Configuration, placement: str) -> Configuration:
    """Every partition places this way. Raises ConfigurationError."""
    changed = with_settings(configuration, {"placement": placement}, f"--placement {placement}")
    return replace(changed, partitions=tuple(replace(p, placement="") for p in changed.partitions))


def with_settings(configuration: Configuration, settings: dict[str, object], asked: str) -> Configuration:
    scheduler = configuration.scheduler
    for key, value in settings.items():
        if key not in field_names(SchedulerSection):
            raise ConfigurationError(f"{asked}: not built yet (the scheduler has no {key})")
        try:
            checked = convert(SchedulerSection, key, value)
        except ValueError as error:
            raise ConfigurationError(f"{asked}: not built yet ({key} = {value}: {error})") from None
        scheduler = replace(scheduler, **{key: checked})  # type: ignore[arg-type]
    return replace(configuration, scheduler=scheduler)
