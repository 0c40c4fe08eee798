"""The whole account tree as a TOML file: `sacctmgr load FILE.toml` and `sacctmgr dump`.

    [[accounts]]                     [[associations]]            [[qos]]
    name = "lab"                     account = "lab"             name = "high"
    parent = "physics"               user = "alice"              priority = 100
    fairshare = 10                   fairshare = 2               max_jobs_per_user = 4
    guarantee = "gres/gpu:a100=8"    max_jobs = 10
    grp_tres = "cpu=512"             [[users]]
    max_wall = "2-00:00:00"          name = "alice"
    qos = ["normal", "high"]         default_account = "lab"

A user's first account is the default one where [[users]] does not say otherwise.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import fields

from minislurm.domain import tres
from minislurm.domain.account_check import problems
from minislurm.domain.accounts import (
    ROOT,
    Account,
    AccountTree,
    AccountUser,
    Association,
    AssociationLimits,
    Qos,
)
from minislurm.domain.errors import ConfigurationError
from minislurm.domain.times import format_duration, parse_duration

#: Key in the file -> field, where they differ.
_NAMES = {
    "fairshare": "weight", "grp_tres": "group_tres", "grp_jobs": "group_jobs",
    "grp_submit_jobs": "group_submit_jobs", "max_tres": "max_tres_per_job", "max_wall": "max_wall_s",
    "budget_period": "budget_period_s", "preempt_exempt": "preempt_exempt_s", "grace": "grace_s",
}  # fmt: skip
_KEYS = {field: key for key, field in _NAMES.items()}
_LIMITS = set(AssociationLimits.__struct_fields__)
_TABLES: dict[str, type] = {
    "accounts": Account,
    "users": AccountUser,
    "associations": Association,
    "qos": Qos,
}


def read_file(path: str) -> AccountTree:
    """Raises ConfigurationError as `read` does, and OSError."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        return read(content.decode(), path)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{path}:{line}: not text in UTF-8") from error


def read(text: str, path: str) -> AccountTree:
    """Raises ConfigurationError with one line for each thing that is wrong."""
    toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        raw: Mapping[str, object] = toml.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{path}: not valid TOML: {error}") from error
    complaints: list[str] = []
    records: dict[str, list[Any]] = {name: [] for name in _TABLES}
    for table, items in raw.items():
        if table not in _TABLES or not isinstance(items, list):
            known = ", ".join(f"[[{name}]]" for name in _TABLES)
            complaints.append(f"{path}: {table}: unknown table (there are {known})")
            continue
        for number, item in enumerate(items, 1):
            try:
                records[table].append(_record(_TABLES[table], item))
            except ValueError as error:
                complaints.append(f"{path}: [[{table}]] number {number}: {error}")
    complaints += [f"{path}: {line}" for line in _doubles(records)]
    if not complaints and not records["accounts"]:
        # Whatever is not in the file is removed: one that was cut off would remove everything.
        complaints.append(f"{path}: has no [[accounts]]; an empty tree has at least the one named root")
    named = {user.name for user in records["users"]}
    for item in records["associations"]:
        if item.user not in named:
            named.add(item.user)
            records["users"].append(AccountUser(item.user))
    tree = AccountTree(**records).with_default_accounts()
    complaints = complaints or [f"{path}: {line}" for line in problems(tree)]
    if complaints:
        raise ConfigurationError("\n".join(complaints))
    return tree


def _doubles(records: Mapping[str, list[Any]]) -> list[str]:
    lines: list[str] = []
    for table, items in records.items():
        seen: set[tuple[str, str]] = set()
        for item in items:
            key = (item.account, item.user) if isinstance(item, Association) else (item.name, "")
            if key in seen:
                lines.append(f"[[{table}]] {' '.join(filter(None, key))}: is there twice")
            seen.add(key)
    return lines


def _record(cls: type, item: object) -> Any:
    if not isinstance(item, dict):
        raise ValueError("must be a table")
    own = {field.name: field for field in fields(cls)}
    values: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for key, value in item.items():
        field = _NAMES.get(key, key)
        if field != key and field in item:
            raise ValueError(f"{key}: {field} says so already")
        if "limits" in own and field in _LIMITS:
            limits[field] = _value(AssociationLimits, field, key, value)
        elif field in own and field != "limits" and key not in _KEYS:
            values[field] = _value(cls, field, key, value)
        else:
            raise ValueError(f"{key}: unknown key")
    for name, field_ in own.items():
        if field_.required and name not in values:
            raise ValueError(f"has no {name}")
    if cls is Account and values["name"] == ROOT:
        values.setdefault("parent", "")
    if limits:
        values["limits"] = AssociationLimits(**limits)
    return cls(**values)


def _value(cls: type, field: str, key: str, value: object) -> object:
    hint = cls.__annotations__[field]
    reader, allowed = _CREDITS if field == "budget" else _READERS[hint]
    try:
        return reader(value)
    except (ValueError, TypeError) as error:
        more = f": {error}" if isinstance(error, ValueError) and str(error) else ""
        raise ValueError(f"{key} = {value!r}: must be {allowed}{more}") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError
    return value


def _amounts(value: object) -> dict[str, int]:
    given = tres.parse_tres(_text(value))
    if any(amount is None for amount in given.values()):
        raise ValueError("leave out what has no limit")
    return {name: amount for name, amount in given.items() if amount is not None}


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError
    return tuple(value)


def _seconds(value: object) -> float | None:
    return parse_duration(_text(value))


def _amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


_CREDITS = _amount, "a number of credits, 0 or more"


_READERS: dict[str, tuple[Callable[[object], object], str]] = {
    "str": (_text, "a string"),
    "int": (_whole, "a whole number, 0 or more"),
    "int | None": (_whole, "a whole number, 0 or more"),
    "float | None": (_seconds, 'a duration such as "1-00:00:00"'),
    "dict[str, int]": (_amounts, 'TRES such as "cpu=10,gres/gpu=4"'),
    "tuple[str, ...]": (_names, "a list of names"),
}


def write(tree: AccountTree) -> str:
    """A file that `read` makes the same tree of."""
    tables: list[tuple[str, Any]] = [("accounts", item) for item in tree.accounts.values()]
    tables += [("qos", item) for item in tree.qos.values()]
    tables += [("users", item) for item in tree.users.values()]
    tables += [("associations", item) for item in tree.associations.values()]
    return "\n".join("\n".join([f"[[{table}]]", *_lines(item)]) + "\n" for table, item in tables)


def _lines(item: Any) -> list[str]:
    lines: list[str] = []
    for name in item.__struct_fields__:
        value = getattr(item, name)
        if isinstance(value, AssociationLimits):
            lines += _lines(value)
        elif name == "priority" and not value:
            continue
        elif value not in (None, {}, (), ""):
            shown = repr(value) if name == "budget" else _shown(value)
            lines.append(f"{_KEYS.get(name, name)} = {shown}")
    return lines


def _shown(value: object) -> str:
    if isinstance(value, dict):
        # Exact: Slurm's short form of memory would round.
        return json.dumps(",".join(f"{name}={value[name]}" for name in tres.sorted_names(value)))
    if isinstance(value, float):
        return json.dumps(format_duration(value))
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
