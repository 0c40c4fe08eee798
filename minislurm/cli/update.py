"""`scontrol update`: reads ``Key=value`` words into changes of jobs, nodes and partitions.

A key may be shortened, as in Slurm, as long as it names one key. What minislurm cannot change is refused in
Slurm's words before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.cli.option import OptionError
from minislurm.cli.option_values import parse_bid, parse_gres, parse_switches, parse_topology
from minislurm.cli.printable import printable
from minislurm.cli.word import Word, split_word
from minislurm.domain.dependencies import parse_dependencies
from minislurm.domain.errors import UsageError
from minislurm.domain.memory import parse_memory
from minislurm.domain.resources import GpuGroup
from minislurm.domain.times import parse_duration, parse_time
from minislurm.domain.views import JobChanges

_ENTITIES = ("jobid", "jobname", "nodename", "partitionname")
_FOREIGN_ENTITIES = ("slurmctlddebug", "stepid", "frontendname", "powercap")


class UpdateError(UsageError):
    """Printed as it stands, without "scontrol: error: "."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(printable(line) for line in lines), prefix=False)


class JobUpdate(Struct, frozen=True):
    """`job_ids` and `names` as given. `time_limit_change_s`: to be added to each job's limit."""

    job_ids: str = ""
    names: tuple[str, ...] = ()
    changes: JobChanges = field(default_factory=JobChanges)
    time_limit_change_s: float = 0.0


class NodeUpdate(Struct, frozen=True):
    names: str
    state: str | None = None
    reason: str | None = None
    weight: int | None = None


class PartitionUpdate(Struct, frozen=True):
    """`state` "": unchanged. `settings`: `domain/partition_settings.py`."""

    name: str
    state: str = ""
    settings: dict[str, str] = field(default_factory=dict)


def parse_update(words: Sequence[str], now: float) -> JobUpdate | NodeUpdate | PartitionUpdate:
    """Raises UpdateError or UsageError."""
    if not words:
        raise UpdateError("too few arguments for update keyword")
    parsed = [_word(text) for text in words]
    for index, word in enumerate(parsed):
        entity = _entity(word.key)
        if entity is None:
            continue
        rest = parsed[:index] + parsed[index + 1 :]
        match entity:
            case "jobid":
                return _job_update(JobUpdate(job_ids=word.value), rest, now)
            case "jobname" if not any(_entity(other.key) == "jobid" for other in rest):
                return _job_update(JobUpdate(names=tuple(word.value.split(","))), rest, now)
            case "nodename":
                return _node_update(word.value, rest)
            case "partitionname" if not any(_is_job(other.key) for other in rest):
                return _partition_update(word.value, rest)
            case "foreign":
                _refuse(word)
    raise UpdateError(
        "No valid entity in update command",
        'Input line must include "NodeName", "PartitionName", or "JobId"',
    )


def _word(text: str) -> Word:
    try:
        word = split_word(text)
    except UnicodeEncodeError:
        raise UpdateError(f"Invalid input: {text}", "Request aborted") from None
    return replace(word, key=word.key.lower())


def _entity(key: str) -> str | None:
    """Which of `_ENTITIES` the key starts; "foreign" for what only Slurm has."""
    if len(key) < 3:
        return None
    if "jobid".startswith(key):  # "job" too
        return "jobid"
    found = next((entity for entity in _ENTITIES if entity.startswith(key)), None)
    if found is None and any(entity.startswith(key) for entity in _FOREIGN_ENTITIES) and len(key) > 3:
        return "foreign"
    return found


def _is_job(key: str) -> bool:
    return _entity(key) in ("jobid", "jobname")


def _refuse(word: Word) -> NoReturn:
    raise UpdateError(f"Update of this parameter is not supported: {word.text}", "Request aborted")


# Jobs.


def _job_update(update: JobUpdate, words: Sequence[Word], now: float) -> JobUpdate:
    values: dict[str, Any] = {}
    shift = 0.0
    if not words:
        raise UpdateError("No changes specified")
    for word in words:
        key = _find_key(word.key, _JOB_KEYS)
        if key is None or (word.operator in ("+=", "-=") and key != "timelimit"):
            _refuse(word)
        if key == "timelimit" and _is_relative(word):
            shift = _time_limit_shift(word)
        elif not word.operator and key != "nice":
            _refuse(word)
        else:
            values.update(_JOB_KEYS[key](word.value if word.operator else "100", now))
    return replace(update, changes=JobChanges(**values), time_limit_change_s=shift)


def _find_key(key: str, known: Mapping[str, object]) -> str | None:
    if key in known:
        return key
    matches = [name for name in known if len(key) >= 4 and name.startswith(key)]
    return matches[0] if len(matches) == 1 else None


def _is_relative(word: Word) -> bool:
    """``TimeLimit+=10`` or ``TimeLimit=+10``; -1 alone is no limit."""
    return word.operator in ("+=", "-=") or (word.value[:1] in ("+", "-") and word.value != "-1")


def _time_limit_shift(word: Word) -> float:
    sign = word.operator[0] if word.operator != "=" else word.value[0]
    amount = _duration(word.value.lstrip("+-"))
    if not amount:
        raise UsageError("Invalid TimeLimit value")
    return -amount if sign == "-" else amount


def _duration(text: str) -> float:
    """Seconds; 0 for no limit."""
    try:
        return parse_duration(text) or 0.0
    except ValueError as error:
        raise UsageError("Invalid TimeLimit value") from error


def _time_limit(text: str, now: float) -> dict[str, Any]:
    return {"time_limit_s": _duration(text)}


def _begin_time(text: str, now: float) -> dict[str, Any]:
    try:
        return {"begin_time": parse_time(text, now)}
    except ValueError as error:
        raise UpdateError(str(error), "No changes specified") from error


def _dependency(text: str, now: float) -> dict[str, Any]:
    if not text:
        return {"clear_dependencies": True}
    try:
        dependencies, any_one = parse_dependencies(text)
    except ValueError as error:
        raise UpdateError("Job dependency problem") from error
    return {"dependencies": dependencies, "dependency_any": any_one}


def _deadline(text: str, now: float) -> dict[str, Any]:
    try:
        return {"deadline": parse_time(text, now)}
    except ValueError as error:
        raise UpdateError(str(error), "Invalid Deadline specification") from error


def _node_count(text: str, now: float) -> dict[str, Any]:
    least, dash, most = text.partition("-")
    low = _integer(least, text, "requested node count", least_allowed=1)
    high = _integer(most, text, "requested node count", least_allowed=low) if dash else low
    return {"nodes_min": low, "nodes_max": high}


def _requeue(text: str, now: float) -> dict[str, Any]:
    if text.lower() not in ("0", "1", "no", "yes"):
        raise UsageError(f"Invalid Requeue value: {printable(text)}")
    return {"requeue": text.lower() in ("1", "yes")}


def _priority(text: str, now: float) -> dict[str, Any]:
    if not (text.isascii() and text.isdigit() and int(text) < 2**32 - 1):
        raise UsageError(f"Invalid Priority value: {printable(text)}")
    return {"priority": int(text)}


def _bid(text: str, now: float) -> dict[str, Any]:
    try:
        return {"bid": parse_bid(text)}
    except ValueError as error:
        raise UsageError(f"Invalid Bid value: {printable(text)}") from error


def _gpus(field: str, name: str) -> Callable[[str, float], dict[str, Any]]:
    """``gpu:2``, ``gres:gpu:a100:2`` or ``gres/gpu:2`` as Slurm shows it; "" or "none": no GPUs."""

    def parse(text: str, now: float) -> dict[str, Any]:
        if text.lower() in ("", "none"):
            return {field: GpuGroup(0)}
        try:
            groups = parse_gres(text)
        except OptionError:
            groups = ()
        if len(groups) != 1:
            raise UsageError(f"Invalid {name} value: {printable(text)} (GPUs of one type: gpu:[TYPE:]N)")
        return {field: groups[0]}

    return parse


def _switches(text: str, now: float) -> dict[str, Any]:
    try:
        wanted = parse_switches(text)
    except (ValueError, OptionError) as error:
        raise UsageError(f"Invalid Switches value: {printable(text)}") from error
    if wanted.wait_s == 0.0:
        return {"switches": 0}  # not worth any wait
    return {"switches": wanted.count, "switches_wait_s": wanted.wait_s or 0.0}


def _topology(text: str, now: float) -> dict[str, Any]:
    if text.lower() in ("", "none"):
        return {"topology_level": ""}
    try:
        wanted = parse_topology(text)
    except ValueError as error:
        raise UsageError(f"Invalid Topology value: {printable(text)}") from error
    return {"topology_level": wanted.level, "topology_required": wanted.required}


def _number(field: str, name: str, least: int) -> Callable[[str, float], dict[str, Any]]:
    return lambda text, now: {field: _integer(text, text, name, least_allowed=least)}


def _memory(field: str, name: str) -> Callable[[str, float], dict[str, Any]]:
    def parse(text: str, now: float) -> dict[str, Any]:
        try:
            return {field: parse_memory(text)}
        except ValueError as error:
            raise UsageError(f"Invalid {name} value: {printable(text)}") from error

    return parse


def _text(field: str) -> Callable[[str, float], dict[str, Any]]:
    return lambda text, now: {field: text}


def _integer(text: str, shown: str, name: str, *, least_allowed: int) -> int:
    digits = text[1:] if least_allowed < 0 and text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10) or int(text) < least_allowed:
        raise UsageError(f'Invalid numeric value "{printable(shown)}" for {name}.')
    return int(text)


#: Key in lower case -> what it changes.
_JOB_KEYS: dict[str, Callable[[str, float], dict[str, Any]]] = {
    "name": _text("name"),
    "jobname": _text("name"),
    "partition": _text("partition"),
    "account": _text("account"),
    "qos": _text("qos"),
    "timelimit": _time_limit,
    "nice": _number("nice", "Nice", -2_147_483_645),
    "priority": _priority,
    "sitefactor": _number("site_factor", "SiteFactor", -2_147_483_645),
    "bid": _bid,
    "comment": _text("comment"),
    "arraytaskthrottle": _number("array_limit", "ArrayTaskThrottle", 0),
    "starttime": _begin_time,
    "eligibletime": _begin_time,
    "deadline": _deadline,
    "reservationname": _text("reservation"),
    "licenses": _text("licenses"),
    "requeue": _requeue,
    "numnodes": _node_count,
    "reqnodes": _node_count,
    "features": _text("features"),
    "reqnodelist": _text("required_nodes"),
    "excnodelist": _text("excluded_nodes"),
    "dependency": _dependency,
    "numtasks": _number("tasks", "NumTasks", 1),
    "cpuspertask": _number("cpus_per_task", "CPUsPerTask", 1),
    "cpus/task": _number("cpus_per_task", "CPUs/Task", 1),
    "mincpusnode": _number("cpus_per_node_min", "MinCPUsNode", 1),
    "gres": _gpus("gpus_per_node", "Gres"),
    "trespernode": _gpus("gpus_per_node", "TresPerNode"),
    "trespertask": _gpus("gpus_per_task", "TresPerTask"),
    "tresperjob": _gpus("gpus_total", "TresPerJob"),
    "switches": _switches,
    "topology": _topology,
    "segment": _number("segment", "Segment", 0),
    "minmemorynode": _memory("memory_per_node_mib", "MinMemoryNode"),
    "minmemorycpu": _memory("memory_per_cpu_mib", "MinMemoryCPU"),
}


# Nodes and partitions.

_NODE_STATES = ("DRAIN", "RESUME", "DOWN", "UNDRAIN")
#: Slurm's, which minislurm has no notion of.
_FOREIGN_NODE_STATES = ("NORESP", "FAIL", "FUTURE", "IDLE", "POWER_DOWN", "POWER_UP")
_PARTITION_STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")


def _node_update(names: str, words: Sequence[Word]) -> NodeUpdate:
    update = NodeUpdate(names)
    for word in words:
        match word.key if word.operator == "=" else "":
            case "state":
                update = replace(update, state=_node_state(word))
            case "reason":
                update = replace(update, reason=word.value)
            case "weight":
                update = replace(update, weight=_integer(word.value, word.value, "Weight", least_allowed=0))
            case _:
                _refuse(word)
    if not words:
        raise UpdateError("No changes specified")
    if update.state in ("DOWN", "DRAIN") and not update.reason:
        raise UpdateError("You must specify a reason when DOWNING or DRAINING a node. Request denied")
    return update


def _node_state(word: Word) -> str:
    state = word.value.upper()
    if state in _FOREIGN_NODE_STATES:
        _refuse(word)
    if state not in _NODE_STATES:
        raise UpdateError(
            f"Invalid input: {word.text}",
            "Request aborted",
            "Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN",
            "Not all states are valid given a node's prior state",
        )
    return state


def _partition_update(name: str, words: Sequence[Word]) -> PartitionUpdate:
    state, settings = "", {}
    for word in words:
        key = _find_key(word.key, _PARTITION_KEYS) if word.operator == "=" else None
        if key is None:
            _refuse(word)
        if key == "state":
            state = word.value.upper()
            if state not in _PARTITION_STATES:
                raise UsageError(
                    f"Invalid input: {printable(word.text)}\n"
                    "Acceptable State values are UP, DOWN, DRAIN and INACTIVE"
                )
        else:
            settings.update(_PARTITION_KEYS[key](word.value))
    if not state and not settings:
        raise UsageError("No changes specified")
    return PartitionUpdate(name, state, settings)


def _partition_number(field: str, key: str) -> Callable[[str], dict[str, str]]:
    """-1, UNLIMITED and NONE stand for none."""

    def read(text: str) -> dict[str, str]:
        if text.upper() in ("UNLIMITED", "INFINITE", "NONE", "-1"):
            return {field: ""}
        return {field: str(_integer(text, text, key, least_allowed=0))}

    return read


def _partition_time(field: str, key: str) -> Callable[[str], dict[str, str]]:
    def read(text: str) -> dict[str, str]:
        if text.upper() in ("NONE", "DEFAULT", "-1"):
            return {field: ""}
        try:
            seconds = parse_duration(text)
        except ValueError as error:
            raise UsageError(f"Invalid {key} value: {printable(text)}") from error
        return {field: "" if seconds is None else f"{seconds:g}"}

    return read


def _partition_names(field: str) -> Callable[[str], dict[str, str]]:
    return lambda text: {field: "" if text.upper() == "ALL" else text}


def _grace(text: str) -> dict[str, str]:
    return {"preempt_grace_s": str(_integer(text, text, "GraceTime", least_allowed=0))}


#: By Slurm's key, in lower case; the last two are minislurm's own.
_PARTITION_KEYS: dict[str, Callable[[str], dict[str, str]]] = {
    "state": lambda text: {},
    "maxtime": _partition_time("max_time_s", "MaxTime"),
    "defaulttime": _partition_time("default_time_s", "DefaultTime"),
    "maxnodes": _partition_number("max_nodes", "MaxNodes"),
    "minnodes": _partition_number("min_nodes", "MinNodes"),
    "prioritytier": _partition_number("priority_tier", "PriorityTier"),
    "priorityjobfactor": _partition_number("priority_job_factor", "PriorityJobFactor"),
    "preemptmode": lambda text: {"preempt_mode": text.lower()},
    "gracetime": _grace,
    "allowaccounts": _partition_names("allow_accounts"),
    "denyaccounts": lambda text: {"deny_accounts": text},
    "allowqos": _partition_names("allow_qos"),
    "denyqos": lambda text: {"deny_qos": text},
    "allowgroups": _partition_names("allow_groups"),
    "qos": lambda text: {"qos": "" if text.upper() == "N/A" else text},
    "defmempercpu": _partition_number("default_memory_per_cpu_mib", "DefMemPerCPU"),
    "minpriority": _partition_number("min_priority", "MinPriority"),
    "maxpriority": _partition_number("max_priority", "MaxPriority"),
}
