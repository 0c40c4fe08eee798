"""What `scontrol update PartitionName=` sets over the configuration: keys of a partition, values as text."""

from __future__ import annotations

import typing
from collections.abc import Mapping

from msgspec.structs import replace

from minislurm.domain.configuration import Partition
from minislurm.domain.configuration_check import partition_problems
from minislurm.domain.configuration_values import convert, field_names, hints
from minislurm.domain.record import plain, without_none

#: Key -> its value: a number, or words joined by commas; "": none, all, or as in the section above.
Settings = Mapping[str, str]

#: What may change while the cluster runs. Which nodes a partition has, how it places and orders its jobs, and
#: which one is the default stay the configuration's.
CHANGEABLE = frozenset(field_names(Partition)) - {
    "name", "nodes", "default", "state", "placement", "order", "sjf_by",
}  # fmt: skip


def with_settings(configured: Partition, settings: Settings) -> Partition:
    """Raises ValueError ("max_nodes must be …") for a value that is none."""
    return replace(configured, **{key: _value(key, text) for key, text in settings.items()})


def settings_problem(configured: Partition, settings: Settings) -> str:
    """What is wrong with them, by themselves or together with what is configured; "": nothing."""
    unknown = sorted(set(settings) - CHANGEABLE)
    if unknown:
        return f"{unknown[0]} of a partition cannot be changed"
    try:
        changed = with_settings(configured, settings)
    except ValueError as error:
        return str(error)
    return next((f"{where} {what}" for where, what in partition_problems(changed)), "")


def still_set(settings: Settings, before: Partition | None, now: Partition) -> dict[str, str]:
    """Those that outlive a change of the configuration: it says of these keys what it said before."""
    if before is None:
        return dict(settings)
    return {key: text for key, text in settings.items() if getattr(before, key) == getattr(now, key)}


def _value(key: str, text: str) -> object:
    hint, optional = without_none(hints(Partition)[key])
    kind = plain(hint)
    if optional and not text:
        return None
    value: object = text
    if kind in (int, float):
        try:
            value = typing.cast("type[int] | type[float]", kind)(text)
        except ValueError:
            value = text
    try:
        return convert(Partition, key, value)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from None
