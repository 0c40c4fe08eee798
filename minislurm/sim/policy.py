"""Named policies: what each changes in the scheduler's settings. The code behind them is production's."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.domain.configuration import Configuration, Partition, SchedulerSection
from minislurm.domain.configuration_values import convert, field_names
from minislurm.domain.errors import ConfigurationError


class Policy(Struct, frozen=True):
    name: str
    summary: str
    settings: dict[str, object] = field(default_factory=dict)
    #: It goes by accounts: a trace's are made a tree (`trace_accounts`).
    by_accounts: bool = False

    @property
    def takes_bids(self) -> bool:
        return self.settings.get("order") == "auction"

    def on(self, configuration: Configuration) -> Configuration:
        return with_settings(configuration, self.settings, f"--policy {self.name}")


#: As in the literature: no guard against starvation changes the order.
_STRICT: dict[str, object] = {"large_gang_wait_s": 0.0}

POLICIES = {
    policy.name: policy
    for policy in (
        Policy("configured", "as the cluster's configuration says"),
        Policy(
            "fifo",
            "submission order, nobody passes the first job that waits",
            {**_STRICT, "order": "fifo", "backfill": "off"},
        ),
        Policy("easy", "submission order, EASY backfill", {**_STRICT, "order": "fifo", "backfill": "easy"}),
        Policy(
            "easy-sjf",
            "as easy, but behind the first job that waits the shortest is tried first",
            {**_STRICT, "order": "fifo", "backfill": "easy", "backfill_order": "shortest"},
        ),
        Policy(
            "conservative",
            "submission order, backfill delays none of those before it",
            {**_STRICT, "order": "fifo", "backfill": "conservative"},
        ),
        Policy(
            "sjf",
            "the shortest time limit first, nobody passes it",
            {**_STRICT, "order": "sjf", "sjf_by": "limit", "backfill": "off"},
        ),
        Policy(
            "sjf-history",
            "as sjf, but by the user's last similar jobs instead of the limit",
            {**_STRICT, "order": "sjf", "sjf_by": "history", "backfill": "off"},
        ),
        Policy(
            "mlfq",
            "levels by attained service, EASY backfill",
            {"order": "mlfq", "backfill": "easy"},
        ),
        Policy(
            "round-robin",
            "time slices (scheduler.time_slice_s) in turn: who has had one is requeued, EASY backfill",
            {**_STRICT, "order": "round-robin", "backfill": "easy"},
        ),
        Policy(
            "fair",
            "whose account has the least of its fair share (all weigh the same in a trace), EASY backfill",
            {"order": "fair", "backfill": "easy"},
            by_accounts=True,
        ),
        Policy(
            "auction",
            "the highest bid first, paid at the second price out of the account's budget, EASY backfill",
            {"order": "auction", "backfill": "easy"},
            by_accounts=True,
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
    return with_settings(configuration, {"placement": placement}, f"--placement {placement}")


def with_settings(configuration: Configuration, settings: dict[str, object], asked: str) -> Configuration:
    """The scheduler's settings, and those of partitions that would stand before them, changed."""
    scheduler = configuration.scheduler
    own: dict[str, Any] = {}
    for key, value in settings.items():
        try:
            changed = {key: convert(SchedulerSection, key, value)}
        except ValueError as error:
            raise ConfigurationError(f"{asked}: {key} {error}") from None
        scheduler = replace(scheduler, **changed)
        if key in field_names(Partition):
            own[key] = ""
    partitions = tuple(replace(partition, **own) for partition in configuration.partitions)
    return replace(configuration, scheduler=scheduler, partitions=partitions)
