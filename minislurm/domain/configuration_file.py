"""Reads the configuration: minislurm.toml, with overrides `section.key=value`.

Keys and types follow from the records in `domain.configuration`; nothing is listed twice. Everywhere, a
key with a unit (`node_timeout_s`, `memory_mib`) may also be written without it, as a string that carries the
unit (`max_time = "7-00:00:00"`, `memory = "512G"`). Besides, `[[nodes]]` knows `gres` for `gpus`, and its
`name` is a hostlist; `[[topology]]` knows `children` for the `parent` of others. All that is wrong is
reported at once.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from minislurm.domain.configuration import Configuration, DomainSpec, License, Partition
from minislurm.domain.configuration_check import nearest, problems
from minislurm.domain.configuration_text import effective, from_json, to_json, to_toml
from minislurm.domain.configuration_values import (
    convert,
    convert_with_unit,
    field_names,
    hints,
    names,
    to_toml_value,
)
from minislurm.domain.errors import ConfigurationError
from minislurm.domain.ids import NodeName
from minislurm.domain.node import NodeSpec
from minislurm.domain.record import is_record, plain

__all__ = ["DEFAULT_PATH", "effective", "find", "from_json", "known_keys", "load", "to_json", "to_toml"]

DEFAULT_PATH = "/etc/minislurm/minislurm.toml"
ENVIRONMENT_VARIABLE = "MINISLURM_CONF"

#: Arrays of tables, `[[nodes]]`, and what each table describes.
TABLES: dict[str, type] = {
    "nodes": NodeSpec,
    "partitions": Partition,
    "topology": DomainSpec,
    "licenses": License,
}
#: Fields that no key sets directly, and keys that are no field.
_HIDDEN = {"gpus_declared"}
_ALIASES: dict[str, dict[str, str]] = {"nodes": {"gres": "gpus"}, "topology": {"children": "nodes"}}


_ACCESS = ("allow_accounts", "allow_qos", "allow_groups")


class _Setting(Struct, frozen=True):
    """A key's value and where it was written; `text`: as given on the command line, None from the file."""

    place: str
    value: object
    text: str | None = None


_Table = dict[str, _Setting]


def find(path: str | None = None) -> str:
    """The configuration file to use: `path`, else MINISLURM_CONF, else /etc/minislurm/minislurm.toml."""
    return path or os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_PATH


def load(path: str | None = None, overrides: Sequence[str] = ()) -> Configuration:
    """The configuration in the file that `find(path)` names, with `section.key=value` overrides.

    Tables are addressed by name: `partitions.batch.max_time=1:00:00`, `nodes.gpu[001-004].weight=5`.
    Raises ConfigurationError.
    """
    path = os.path.abspath(find(path))
    return parse(_read(path), path, overrides)


def parse(text: str, path: str = "", overrides: Sequence[str] = ()) -> Configuration:
    """As `load`, from the file's text; `path` appears in messages. Raises ConfigurationError."""
    reader = _Reader(path or "configuration")
    try:
        raw = _toml().loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{reader.path}: not valid TOML: {error}") from error
    configuration = reader.read(raw, overrides)
    if not reader.complaints:
        reader.complaints += [f"{reader.path}: {where}: {what}" for where, what in problems(configuration)]
    if reader.complaints:
        raise ConfigurationError("\n".join(reader.complaints))
    return replace(configuration, path=path)


def known_keys(section: str) -> list[str]:
    """Every key that may stand in `[section]` or `[[section]]`."""
    owner = TABLES.get(section) or plain(hints(Configuration)[section])
    keys = [name for name in field_names(owner) if name not in _HIDDEN]
    keys += [short for name in keys if (short := _without_unit(name))]
    return keys + list(_ALIASES.get(section, ()))


def _sections() -> list[str]:
    return [
        name for name in field_names(Configuration) if name in TABLES or is_record(hints(Configuration)[name])
    ]


def _without_unit(key: str) -> str:
    for unit in ("_s", "_mib"):
        if key.endswith(unit):
            return key[: -len(unit)]
    return ""


def _toml() -> Any:
    return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path}: no such configuration file; name one with {ENVIRONMENT_VARIABLE} or --config, "
            "or start a cluster on this machine with `minislurm up`"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not valid TOML: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot read the configuration: {error.strerror}") from error


class _Reader:
    """Turns raw TOML into the configuration and collects complaints on the way."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.complaints: list[str] = []

    def read(self, raw: Mapping[str, object], overrides: Sequence[str]) -> Configuration:
        sections, tables = self._settings(raw)
        node_overrides: list[tuple[list[str], _Table]] = []
        for override in overrides:
            self._override(override, sections, tables, node_overrides)
        values: dict[str, Any] = {}
        for section, table in sections.items():
            owner = plain(hints(Configuration)[section])
            values[section] = owner(**self._fields(section, owner, table))
        nodes = self._nodes(tables["nodes"])
        values["nodes"] = nodes = self._overridden_nodes(nodes, node_overrides)
        every = tuple(spec.name for spec in nodes)
        values["partitions"] = tuple(self._partition(table, every) for table in tables["partitions"])
        values["topology"] = self._topology(tables["topology"], every)
        values["licenses"] = tuple(
            License(**{"name": "", **self._fields("licenses", License, table)})
            for table in tables["licenses"]
        )
        return Configuration(**values)

    def complain(self, place: str, what: str) -> None:
        self.complaints.append(f"{place}: {what}")

    # --- the file's shape --------------------------------------------------------------------------------

    def _settings(self, raw: Mapping[str, object]) -> tuple[dict[str, _Table], dict[str, list[_Table]]]:
        """The file's keys as settings, by section and by array of tables."""
        sections: dict[str, _Table] = {}
        tables: dict[str, list[_Table]] = {name: [] for name in TABLES}
        for section, content in raw.items():
            if section in TABLES:
                tables[section] = self._array(section, content)
            elif section not in _sections():
                known = ", ".join(_sections())
                close = nearest(section, _sections())
                self.complain(f"{self.path}: [{section}]", f"unknown section{close} (there are {known})")
            elif not isinstance(content, dict):
                self.complain(f"{self.path}: {section} = {content!r}", f"must be a section, [{section}]")
            else:
                sections[section] = {
                    key: _Setting(f"{self.path}: [{section}] {key} = {_shown(value)}", value)
                    for key, value in content.items()
                }
        return sections, tables

    def _array(self, section: str, content: object) -> list[_Table]:
        if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
            self.complain(f"{self.path}: [{section}]", f"must be an array of tables, [[{section}]]")
            return []
        result = []
        for number, item in enumerate(content, start=1):
            label = item.get("name") if isinstance(item.get("name"), str) else f"number {number}"
            result.append(
                {
                    key: _Setting(f"{self.path}: [[{section}]] {label}: {key} = {_shown(value)}", value)
                    for key, value in item.items()
                }
            )
            if "name" not in item:
                self.complain(f"{self.path}: [[{section}]] {label}", "has no name")
                result.pop()
        return result

    # --- overrides ---------------------------------------------------------------------------------------

    def _override(
        self,
        override: str,
        sections: dict[str, _Table],
        tables: dict[str, list[_Table]],
        node_overrides: list[tuple[list[str], _Table]],
    ) -> None:
        """Enters one `section.key=value` or `table.name.key=value`; those of nodes are kept for later."""
        place = f"--set {override}"
        name, separator, text = override.partition("=")
        path = [name.strip().partition(".")[0], *name.strip().partition(".")[2].rpartition(".")[::2]]
        section, item, key = path
        if not separator or not key or (section in TABLES and not item) or (section not in TABLES and item):
            self.complain(
                place, "must be section.key=value, or TABLE.NAME.key=value for nodes and partitions"
            )
            return
        setting = _Setting(place, _bare_value(text.strip()), text.strip())
        if section == "nodes":
            try:
                node_overrides.append((["ALL"] if item == "ALL" else names(item), {key: setting}))
            except ValueError as error:
                self.complain(place, f"{item} {error}")
        elif section in TABLES:
            found = [table for table in tables[section] if table["name"].value == item]
            if not found:
                # A partition or domain of its own: `--set partitions.debug.nodes=n1` is enough.
                found = [{"name": _Setting(place, item)}]
                tables[section] += found
            found[0][key] = setting
        elif section in _sections():
            sections.setdefault(section, {})[key] = setting
        else:
            self.complain(place, f"unknown section{nearest(section, _sections())}")

    def _overridden_nodes(
        self, nodes: tuple[NodeSpec, ...], overrides: Iterable[tuple[list[str], _Table]]
    ) -> tuple[NodeSpec, ...]:
        by_name = {spec.name: spec for spec in nodes}
        for wanted, table in overrides:
            changes = self._node_fields(table)
            place = next(iter(table.values())).place
            if "name" in changes:
                self.complain(place, "a node's name cannot be overridden")
                continue
            for name in by_name if wanted == ["ALL"] else wanted:
                spec = by_name.get(NodeName(name))
                if spec is None:
                    self.complain(place, f"no such node{nearest(name, by_name)}")
                    break
                by_name[spec.name] = replace(spec, **changes)
        # Doubles stay for the check to find.
        return tuple(by_name[spec.name] for spec in nodes)

    # --- keys --------------------------------------------------------------------------------------------

    def _fields(self, section: str, owner: type, table: _Table) -> dict[str, Any]:
        """Arguments for `owner` from the keys that are its fields; complains of all others."""
        result: dict[str, Any] = {}
        given: dict[str, str] = {}
        for key, setting in table.items():
            field = self._field(section, owner, key)
            if field is None:
                known = ", ".join(known_keys(section))
                close = nearest(key, known_keys(section))
                self.complain(setting.place, f"unknown key{close} (there are {known})")
                continue
            if field in given and setting.text is None:
                self.complain(setting.place, f"{given[field]} says so already; give one of them")
                continue
            given[field] = key
            try:
                result[field] = self._value(owner, field, key, setting)
            except ValueError as error:
                self.complain(setting.place, str(error))
        return result

    def _field(self, section: str, owner: type, key: str) -> str | None:
        """The field that `key` sets, None for an unknown key."""
        if key in field_names(owner):
            return None if key in _HIDDEN else key
        alias = _ALIASES.get(section, {}).get(key)
        if alias is not None:
            return alias
        return next((name for name in field_names(owner) if _without_unit(name) == key), None)

    def _value(self, owner: type, field: str, key: str, setting: _Setting) -> object:
        with_unit = key == _without_unit(field)
        value = setting.value
        wants_text = with_unit or plain(hints(owner)[field]) is str
        if setting.text is not None and wants_text and not isinstance(value, (str, list)):
            value = setting.text  # on a command line `max_time=30` and `name=7` are text, too
        return convert_with_unit(owner, field, value) if with_unit else convert(owner, field, value)

    # --- tables ------------------------------------------------------------------------------------------

    def _node_fields(self, table: _Table) -> dict[str, Any]:
        result = self._fields("nodes", NodeSpec, table)
        if "gpus" in result:
            result["gpus_declared"] = True
        return result

    def _nodes(self, tables: Iterable[_Table]) -> tuple[NodeSpec, ...]:
        """One specification for each name of each hostlist."""
        specs: list[NodeSpec] = []
        for table in tables:
            values = self._node_fields({key: value for key, value in table.items() if key != "name"})
            try:
                template = NodeSpec(NodeName(""), **values)
                specs += [replace(template, name=NodeName(name)) for name in names(table["name"].value)]
            except ValueError as error:
                self.complain(table["name"].place, str(error))
        return tuple(specs)

    def _partition(self, table: _Table, every: tuple[NodeName, ...]) -> Partition:
        values = self._fields("partitions", Partition, _all(table, every))
        for key in _ACCESS:
            if values.get(key) == ("ALL",):  # Slurm's word for no list
                values[key] = ()
        if "qos" in values:
            values["qos"] = values["qos"].lower()  # as it is known
        return Partition(**{"name": "", **values})

    def _topology(self, tables: Iterable[_Table], every: tuple[NodeName, ...]) -> tuple[DomainSpec, ...]:
        """The domains, each `children` list turned into the parents of those it names."""
        domains: dict[str, DomainSpec] = {}
        doubles: list[DomainSpec] = []
        parents: list[tuple[_Setting, str, list[str]]] = []
        for table in tables:
            children = table.get("children")
            rest = {key: value for key, value in table.items() if key != "children"}
            values = self._fields("topology", DomainSpec, _all(rest, every))
            domain = DomainSpec(**{"name": "", **values})
            if domain.name in domains:
                doubles.append(domain)
            domains.setdefault(domain.name, domain)
            if children is not None:
                try:
                    parents.append((children, domain.name, names(children.value)))
                except ValueError as error:
                    self.complain(children.place, str(error))
        for setting, parent, children_names in parents:
            for name in children_names:
                child = domains.get(name)
                if child is None:
                    self.complain(setting.place, f"no such domain {name}{nearest(name, domains)}")
                elif child.parent not in ("", parent):
                    self.complain(setting.place, f"{name} is in {child.parent} already")
                else:
                    domains[name] = replace(child, parent=parent)
        return (*domains.values(), *doubles)


def _all(table: _Table, every: tuple[NodeName, ...]) -> _Table:
    """`nodes = "ALL"` written out."""
    setting = table.get("nodes")
    if setting is None or setting.value != "ALL":
        return table
    return {**table, "nodes": replace(setting, value=list(every))}


def _bare_value(text: str) -> object:
    """A TOML value, or the text itself where it is none: `--set scheduler.placement=spread`."""
    try:
        value: object = _toml().loads(f"value = {text}\n")["value"]
    except ValueError:
        return text
    return value if isinstance(value, (bool, int, float, str, list)) else text


def _shown(value: object) -> str:
    """The value in a message, as TOML where that is short."""
    if isinstance(value, (bool, int, float, str)):
        return to_toml_value(value)
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
