"""The configuration as text: TOML for a file, "section.key" lines for a reader, JSON for the journal."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from msgspec import Struct

from minislurm.domain import hostlist
from minislurm.domain.configuration import Configuration, DomainSpec, License, Partition
from minislurm.domain.configuration_values import (
    field_names,
    hints,
    quote,
    to_text,
    to_toml_value,
)
from minislurm.domain.node import NodeSpec
from minislurm.domain.record import is_record, plain, without_none

#: Fields that are shown in another way, or are no setting.
_UNSHOWN = {"name", "gpus_declared", "path"}


def to_toml(configuration: Configuration) -> str:
    """A file that `configuration_file.load` reads back as this configuration."""
    parts = []
    for section, values in _section_values(configuration):
        lines = [f"{key} = {to_toml_value(value)}" for key, value in _items(values)]
        parts.append("\n".join([f"[{section}]", *lines]))
    for group in _node_groups(configuration.nodes):
        parts.append(_table("nodes", hostlist.compress(spec.name for spec in group), group[0], to_toml_value))
    for partition in configuration.partitions:
        parts.append(_table("partitions", partition.name, partition, to_toml_value))
    for domain in configuration.topology:
        parts.append(_table("topology", domain.name, domain, to_toml_value))
    for license in configuration.licenses:
        parts.append(_table("licenses", license.name, license, to_toml_value))
    return "\n\n".join(parts) + "\n"


def effective(configuration: Configuration) -> dict[str, str]:
    """Every key and its value, "section.key" -> text; tables as "partitions.NAME.key"."""
    result = {
        f"{section}.{key}": to_text(value)
        for section, values in _section_values(configuration)
        for key, value in _items(values)
    }
    for group in _node_groups(configuration.nodes):
        name = hostlist.compress(spec.name for spec in group)
        result |= {f"nodes.{name}.{key}": to_text(value) for key, value in _items(group[0])}
    tables: Iterable[tuple[str, Partition | DomainSpec | License]] = (
        *(("partitions", partition) for partition in configuration.partitions),
        *(("topology", domain) for domain in configuration.topology),
        *(("licenses", license) for license in configuration.licenses),
    )
    for section, table in tables:
        for key, value in _items(table):
            if key == "nodes" and not isinstance(table, License):
                text = hostlist.compress(table.nodes) or "(null)"
            else:
                text = to_text(value)
            result[f"{section}.{table.name}.{key}"] = text
    return result


def to_json(configuration: Configuration) -> str:
    """Everything, `path` included; `from_json` gives an equal configuration back."""
    return json.dumps(_encode(configuration), separators=(",", ":"))


def from_json(text: str) -> Configuration:
    """The configuration that `to_json` wrote, also one of an older version: what it lacks has its default.

    What this version does not know is left out. Raises ValueError if the text is no configuration.
    """
    try:
        configuration = _decode(Configuration, json.loads(text))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a configuration: {error}") from error
    assert isinstance(configuration, Configuration)
    return configuration


def _section_values(configuration: Configuration) -> Iterator[tuple[str, Any]]:
    for name in field_names(Configuration):
        value = getattr(configuration, name)
        if isinstance(value, Struct):
            yield name, value


def _items(values: Any) -> Iterator[tuple[str, object]]:
    for name in values.__struct_fields__:
        if name not in _UNSHOWN or (name == "name" and "name" in _section_fields(values)):
            yield name, getattr(values, name)


def _section_fields(values: Any) -> tuple[str, ...]:
    """`name` is a setting of [cluster], but the heading of a table."""
    return () if isinstance(values, (NodeSpec, Partition, DomainSpec, License)) else ("name",)


def _table(section: str, name: str, values: Any, render: Callable[[object], str]) -> str:
    lines = [f"[[{section}]]", f"name = {quote(name)}"]
    for key, value in _items(values):
        if key == "gpus" and not values.gpus_declared:
            continue
        if key == "nodes":
            lines.append(f"nodes = {quote(hostlist.compress(values.nodes))}")
        elif value is not None:  # TOML has no null; an absent key is None again
            lines.append(f"{key} = {render(value)}")
    return "\n".join(lines)


def _node_groups(nodes: tuple[NodeSpec, ...]) -> list[list[NodeSpec]]:
    """Runs of neighbours that differ in nothing but the name."""
    groups: list[list[NodeSpec]] = []
    for spec in nodes:
        if groups and _nameless(groups[-1][0]) == _nameless(spec):
            groups[-1].append(spec)
        else:
            groups.append([spec])
    return groups


def _nameless(spec: NodeSpec) -> tuple[object, ...]:
    return tuple(getattr(spec, name) for name in field_names(NodeSpec) if name != "name")


def _encode(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _encode(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _decode(hint: Any, data: Any) -> Any:
    kind = plain(without_none(hint)[0])
    if data is None:
        return None
    if is_record(kind):
        types = hints(kind)
        return kind(**{name: _decode(types[name], value) for name, value in data.items() if name in types})
    if typing.get_origin(kind) is tuple:
        item = plain(typing.get_args(kind)[0])
        return tuple(_decode(item, value) for value in data)
    return kind(data)
