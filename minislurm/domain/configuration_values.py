"""One configuration value: from TOML to its field's type, and to text again.

Everything follows from the field: its type, its name's unit (`_s`, `_mib`) and the two tables of rules below.
A conversion that fails raises ValueError with what is allowed ("must be …").
"""

from __future__ import annotations

import json
import math
import re
import typing
from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Any

from msgspec import structs

from minislurm.domain import hostlist, times
from minislurm.domain.record import plain, without_none
from minislurm.domain.resources import GpuGroup

#: Keys that take one of a few words.
CHOICES: dict[str, tuple[str, ...]] = {
    "order": ("multifactor", "fair", "fifo", "sjf", "mlfq", "auction", "round-robin"),
    "sjf_by": ("limit", "history"),
    "mode": ("off", "requeue", "cancel"),
    "preempt_mode": ("off", "requeue", "cancel"),
    "backfill": ("easy", "conservative", "off"),
    "backfill_order": ("queue", "shortest"),
    "placement": (
        "binpack",
        "spread",
        "fgd",
        "fgd-balanced",
        "best-fit",
        "least-jobs",
        "round-robin",
        "weighted-round-robin",
        "affinity",
    ),
    "enforce": ("limits", "associations", "off"),
    "victim_order": ("cost", "youngest", "priority", "nodes", "accounts"),
    "reclaim": ("off", "guarantee", "fair_share"),
    "tracking": ("auto", "cgroup", "process"),
    "gpu_probe": ("auto", "nvml", "none"),
}

_NO_MODE = {
    "suspend": "is not supported yet: a run that gives way is requeued or cancelled",
    "checkpoint": 'is not supported yet; "requeue" sends SIGTERM, and SIGKILL after the grace',
}
#: Words that one could expect, and why they are refused.
REFUSED: dict[str, dict[str, str]] = {
    "mode": _NO_MODE,
    "preempt_mode": _NO_MODE,
}

#: (lowest, highest) of numbers; any other is 0 or more.
RANGES: dict[str, tuple[float, float]] = {
    "controller_port": (1, 65535),
    "step_port": (0, 65535),
    "cpus": (1, 65536),
    "min_nodes": (0, math.inf),
    "max_nodes": (0, math.inf),
    "first_job_id": (1, 2**31),
    "max_job_count": (1, math.inf),
    "max_array_size": (1, 4_000_001),
    "max_script_bytes": (1, 1 << 30),
    "max_environment_bytes": (1, 1 << 30),
    "snapshot_every_events": (1, math.inf),
    "backfill_depth": (0, math.inf),
    "shards_per_gpu": (0, 1000),
    "lemon_runs": (1, 20),
    "conservative_depth": (1, math.inf),
    "large_gang_share": (0, 1),
    "token_lifetime_s": (1, 86400),
    "heartbeat_interval_s": (0.01, 3600),
}
#: Durations of which 0 makes no sense.
POSITIVE = frozenset(
    {
        "node_suspect_s",
        "node_timeout_s",
        "node_grace_s",
        "prepare_timeout_s",
        "client_grace_s",
        "connect_timeout_s",
        "call_timeout_s",
        "reconnect_interval_s",
        "retry_interval_s",
        "yield_after_s",
        "priority_max_age_s",
        "prolog_timeout_s",
        "time_slice_s",
    }
)
_UNITS = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)
_GPUS = re.compile(r"(?:gpu:)?(?:(?P<type>[A-Za-z_][\w.-]*):)?(?P<count>\d+)\Z")
_OCTAL = re.compile(r"0?[0-7]{3}\Z")


@cache
def hints(owner: type) -> dict[str, Any]:
    """Field types of a record by field name."""
    return typing.get_type_hints(owner)


@cache
def field_names(owner: type) -> tuple[str, ...]:
    names: tuple[str, ...] = owner.__struct_fields__  # type: ignore[attr-defined]
    return names


def _default(owner: type, key: str) -> object:
    return next(field.default for field in structs.fields(owner) if field.name == key)


# --- from TOML -------------------------------------------------------------------------------------------


def convert(owner: type, key: str, value: object) -> object:
    """`value` as the field `key` of `owner` wants it. Raises ValueError("must be …")."""
    hint, optional = without_none(hints(owner)[key])
    kind = plain(hint)
    if optional and key.startswith("max_") and isinstance(value, str) and value.upper() == "UNLIMITED":
        return None
    if kind is bool:
        if not isinstance(value, bool):
            raise ValueError("must be true or false")
        return value
    if kind in (int, float):
        return _number(kind, key, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind, value)
    if kind is str:
        return _text(owner, key, value)
    item = plain(typing.get_args(kind)[0])
    if item is GpuGroup:
        return gpu_groups(value)
    if key == "nodes":
        return tuple(names(value))
    return tuple(word for text in _texts(value, "a list of words") for word in text.split(",") if word)


def convert_with_unit(owner: type, key: str, value: object) -> object:
    """As `convert`, for a value that is written with its unit: "512G" for `_mib`, "1-00:00:00" for `_s`."""
    if not isinstance(value, str):
        raise ValueError(f"must be a string with its unit; for a plain number there is {key}")
    if key.endswith("_mib"):
        return convert(owner, key, size_mib(value))
    try:
        seconds = times.parse_duration(value)
    except ValueError:
        raise ValueError('must be a duration such as "30" (minutes), "1:30:00" or "7-00:00:00"') from None
    return convert(owner, key, "UNLIMITED" if seconds is None else seconds)


def size_mib(text: str) -> int:
    """MiB of "512G", "1.5T", "800M" or "1000" (MiB); less than one is rounded up. Raises ValueError."""
    match = _SIZE.match(text.strip())
    if match is None:
        raise ValueError('must be a size such as "512G", "800M" or "1.5T"')
    return math.ceil(float(match[1]) * _UNITS[match[2].upper()])


def parse_levels(text: str) -> tuple[float, ...]:
    """``3600,36000``: where each next level of "mlfq" begins, GPU-seconds. Raises ValueError("must be …")."""
    try:
        levels = tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError:
        levels = (0.0,)
    if any(not 0 < level < math.inf for level in levels) or list(levels) != sorted(set(levels)):
        raise ValueError('must be ascending numbers of GPU-seconds such as "3600,36000"')
    return levels


def gpu_groups(value: object) -> tuple[GpuGroup, ...]:
    """8, "8", "a100:8", "gpu:a100:8", several separated by commas, or a list of these. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return (GpuGroup(value),) if value else ()
    groups: dict[str, int] = {}
    for text in _texts(value, 'a number, "TYPE:NUMBER" such as "a100:8", or a list of these'):
        for word in filter(None, (word.strip() for word in text.split(","))):
            match = _GPUS.match(word)
            if match is None:
                raise ValueError('must be a number, "TYPE:NUMBER" such as "a100:8", or a list of these')
            gpu_type = match["type"] or ""
            # "gpu:8" is Slurm's way to write eight GPUs without a type.
            gpu_type = "" if gpu_type == "gpu" else gpu_type
            groups[gpu_type] = groups.get(gpu_type, 0) + int(match["count"])
    return tuple(GpuGroup(count, gpu_type) for gpu_type, count in groups.items() if count)


def names(value: object) -> list[str]:
    """A hostlist, or a list of them. Raises ValueError."""
    allowed = 'a hostlist such as "gpu[001-064,070]"'
    try:
        return [name for text in _texts(value, allowed) for name in hostlist.expand(text)]
    except ValueError as error:
        raise ValueError(str(error) if "must be" in str(error) else f"must be {allowed}: {error}") from None


def _texts(value: object, allowed: str) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise ValueError(f"must be {allowed}")


def _number(kind: type, key: str, value: object) -> int | float:
    low, high = RANGES.get(key, (0, math.inf))
    positive = key in POSITIVE
    what = "a number of seconds" if key.endswith("_s") else "a number" if kind is float else "a whole number"
    allowed = f"must be {what}"
    if positive:
        allowed += " above 0"
    else:
        allowed += f", {low:g} or more" if high == math.inf else f" from {low:.16g} to {high:.16g}"
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(allowed)
    if kind is int and not isinstance(value, int):
        raise ValueError(allowed)
    if not low <= value <= high or (positive and value <= 0):
        raise ValueError(allowed)
    return float(value) if kind is float else int(value)


def _member(kind: type[Enum], value: object) -> Enum:
    if isinstance(value, str):
        for member in kind:
            if member.value.upper() == value.upper():
                return member
    raise ValueError("must be " + _either([member.value for member in kind]))


def _text(owner: type, key: str, value: object) -> str:
    if key in CHOICES:
        # "" is allowed where it is the default: a partition's placement is then the scheduler's.
        choices = CHOICES[key] + (("",) if _default(owner, key) == "" else ())
        if value in choices:
            return str(value)
        if isinstance(value, str) and value in REFUSED.get(key, {}):
            raise ValueError(REFUSED[key][value])
        raise ValueError("must be " + _either(choices))
    if not isinstance(value, str):
        raise ValueError("must be a string")
    if "\0" in value or "\n" in value:
        raise ValueError("must be one line")
    if key == "output_file_mode" and not _OCTAL.match(value):
        raise ValueError('must be a file mode in octal, such as "0600"')
    if key in ("key_file", "agent_socket", "spool_dir", "prolog", "epilog", "state_dir"):
        if value and not value.startswith("/"):
            raise ValueError("must be an absolute path")
        if key.endswith("_dir") and not value:
            raise ValueError("must be an absolute path")
    return value


def _either(words: Sequence[str]) -> str:
    quoted = [f'"{word}"' for word in words]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]


# --- to text ---------------------------------------------------------------------------------------------


def to_toml_value(value: object) -> str:
    """The value as TOML that `convert` reads back. None has no such text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Enum):
        return quote(str(value.value))
    if isinstance(value, str):
        return quote(value)
    assert isinstance(value, tuple), value
    return "[" + ", ".join(quote(_item_text(item)) for item in value) + "]"


def to_text(value: object) -> str:
    """The value for a reader, as `scontrol show config` prints it."""
    if value is None or value == "" or value == ():
        return "(null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ",".join(_item_text(item) for item in value)
    return str(value)


def _item_text(item: object) -> str:
    if isinstance(item, GpuGroup):
        return f"{item.type}:{item.count}" if item.type else str(item.count)
    return str(item)


def quote(text: str) -> str:
    """A TOML basic string; JSON's escapes are all TOML's too, but for DEL."""
    return json.dumps(text).replace("\x7f", "\\u007f")
