"""Text of a job option to its value. ValueError becomes "Invalid --name specification"; other texts are
OptionErrors with Slurm's exit code."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable

from msgspec import Struct

from minislurm.cli.option import OptionError
from minislurm.cli.printable import printable
from minislurm.domain.checkpoint import CheckpointSignal
from minislurm.domain.comebacks import parse_requeue_limits
from minislurm.domain.job import SignalBeforeEnd
from minislurm.domain.preemption import POLICIES, PreemptionWish
from minislurm.domain.resources import DOUBLING, GpuGroup
from minislurm.domain.signals import parse_signal
from minislurm.domain.times import parse_duration, parse_time

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}\Z")
_GPUS = re.compile(r"(?:([^\s:,=]+):)?([0-9]{1,6})\Z")
_GRES = re.compile(r"(?:gres[/:])?gpu(?::(?![0-9]+\Z)([^\s:,=()]+))?(?::([0-9]{1,6}))?\Z")
_GPU_PART = re.compile(r"(?:([^\s:,=]+):)?([0-9]{0,6}\.[0-9]{1,9})\Z")
_SHARDS = re.compile(r"(?:gres[/:])?shard(?::(?![0-9]+\Z)([^\s:,=()]+))?(?::([0-9]{1,6}))?\Z")
_CAPABILITY = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3})?\Z")
_SIGNAL = re.compile(r"(?:([RB]{1,2}):)?([A-Za-z0-9+-]+)(?:@([0-9]{1,5}))?\Z", re.IGNORECASE)
_TOPOLOGY = re.compile(r"([A-Za-z0-9_.-]+)(?::(required|preferred))?\Z")
_COUNT_SUFFIX = {"": 1, "k": 1024, "m": 1024 * 1024}
_NODE_COUNT = re.compile(r"([0-9]{1,9})([km]?)\Z", re.IGNORECASE)

#: Largest number of tasks, CPUs … that Slurm's 32 bits hold.
_MAX_COUNT = 2**31 - 1


class NodeCount(Struct, frozen=True):
    """``--nodes=min[-max]``. Zero passes: the controller refuses it."""

    minimum: int
    maximum: int


class TopologyLevel(Struct, frozen=True):
    """``--topology=level[:required|preferred]``"""

    level: str
    required: bool = False


class SwitchCount(Struct, frozen=True):
    """``--switches=count[@time]``; None: the cluster's longest wait."""

    count: int
    wait_s: float | None = None


def count(option: str, minimum: int = 1) -> Callable[[str], int]:
    """A parser of whole numbers from `minimum` up."""

    def parse(text: str) -> int:
        if _INTEGER.match(text) and minimum <= int(text) <= _MAX_COUNT:
            return int(text)
        raise OptionError(f'Invalid numeric value "{printable(text)}" for --{option}.')

    return parse


def parse_nodes(text: str) -> NodeCount:
    first, dash, last = text.partition("-")
    minimum = _node_count(first, text)
    maximum = _node_count(last, text) if dash else minimum
    if maximum < minimum:
        raise OptionError(
            f"Maximum node count {maximum} is less than minimum node count {minimum}", exit_code=255
        )
    return NodeCount(minimum, maximum)


def _node_count(text: str, whole: str) -> int:
    match = _NODE_COUNT.match(text)
    value = int(match[1]) * _COUNT_SUFFIX[match[2].lower()] if match else _MAX_COUNT + 1
    if value > _MAX_COUNT:
        raise OptionError(f'"{printable(whole)}" is not a valid node count', exit_code=255)
    return value


def parse_topology(text: str) -> TopologyLevel:
    match = _TOPOLOGY.match(text)
    if match is None:
        raise ValueError(text)
    return TopologyLevel(match[1], match[2] == "required")


def parse_switches(text: str) -> SwitchCount:
    number, at, wait = text.partition("@")
    # No limit of time: it waits for as long as the cluster allows.
    wait_s = parse_duration(wait) if at else None
    return SwitchCount(count("switches", minimum=0)(number), wait_s)


def parse_time_limit(text: str) -> float:
    """Seconds; 0 for no limit (``UNLIMITED``, and 0 itself, as Slurm has it)."""
    return parse_duration(text) or 0.0


def parse_begin(text: str) -> float:
    try:
        return parse_time(text, time.time())
    except ValueError as error:
        raise OptionError("Invalid --begin specification", exit_code=255, preface=[str(error)]) from error


def parse_deadline(text: str) -> float:
    try:
        return parse_time(text, time.time())
    except ValueError as error:
        raise OptionError("Invalid --deadline specification", exit_code=255, preface=[str(error)]) from error


def licenses_text(text: str) -> str:
    """Kept as given; what is no list of licenses the controller's answer names, as in Slurm."""
    if not text:
        raise ValueError(text)
    return text


def parse_signal_before_end(text: str) -> SignalBeforeEnd:
    match = _SIGNAL.match(text)
    if match is None or int(match[3] or 0) > 65535:
        raise ValueError(text)
    flags = (match[1] or "").upper()
    if len(set(flags)) != len(flags):
        raise ValueError(text)
    seconds = 60.0 if match[3] is None else float(match[3])
    return SignalBeforeEnd(parse_signal(match[2]), seconds, batch_shell_only="B" in flags)


def parse_elastic(text: str) -> str:
    mode = text.lower()
    if mode not in ("restart", "in-place"):
        raise ValueError(text)
    return mode


def parse_elastic_step(text: str) -> int:
    """See `ResourceRequest.nodes_step`."""
    return DOUBLING if text.lower() == "double" else count("elastic-step")(text)


parse_elastic_signal = parse_signal


def parse_checkpoint_dir(text: str) -> str:
    if "://" in text:
        raise OptionError(f"--checkpoint-dir={printable(text)}: object stores are not supported by minislurm")
    if not text:
        raise ValueError(text)
    return text


def parse_checkpoint_interval(text: str) -> float:
    """Seconds, more than 0."""
    seconds = parse_duration(text)
    if not seconds:
        raise ValueError(text)
    return seconds


def parse_checkpoint_restart(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None:
        raise ValueError(text)
    return seconds


def parse_checkpoint_signal(text: str) -> CheckpointSignal:
    """``[B:]SIG[@seconds]``"""
    name, at, grace = text.removeprefix("B:").partition("@")
    number = parse_signal(name)
    if number in (signal.SIGKILL, signal.SIGSTOP) or (at and not re.match(r"[0-9]{1,5}\Z", grace)):
        raise ValueError(text)
    return CheckpointSignal(number, float(grace) if at else None, to_shells=text.startswith("B:"))


def parse_gpus(text: str) -> GpuGroup:
    """``[type:]number``."""
    match = _GPUS.match(text)
    if match is None:
        raise ValueError(text)
    return GpuGroup(int(match[2]), match[1] or "")


class GpuPart(Struct, frozen=True):
    """A share of one GPU: `milli` thousandths (--gpus=0.5), or so many shards (--gres=shard:2)."""

    type: str = ""
    milli: int = 0
    shards: int = 0


def parse_gpu_part(text: str) -> GpuPart | None:
    """``[type:]0.5``; None: a whole number of GPUs, or something else."""
    match = _GPU_PART.match(text)
    if match is None:
        return None
    milli = round(float(match[2]) * 1000)
    if not 0 < milli < 1000 or abs(milli - float(match[2]) * 1000) > 1e-6:
        raise OptionError(
            f"{printable(text)}: a part of a GPU is between 0.001 and 0.999 of one GPU, in thousandths"
        )
    return GpuPart(match[1] or "", milli)


def gpus_text(text: str) -> str:
    """Checked; kept as given for the job's environment."""
    if parse_gpu_part(text) is None:
        parse_gpus(text)
    return text


def parse_capability(text: str) -> str:
    """A compute capability, ``8.0`` or ``9``."""
    if not _CAPABILITY.match(text):
        raise ValueError(text)
    return text


def parse_shards(text: str) -> GpuPart | None:
    """The shards in a list of generic resources, ``shard:2``, ``shard:a100:2``; None where it has none."""
    found = [match for item in text.split(",") if (match := _SHARDS.match(item))]
    if not found:
        return None
    if len(found) > 1 or "," in text:
        raise OptionError("shards of a GPU cannot be combined with other generic resources")
    count = int(found[0][2]) if found[0][2] is not None else 1
    return GpuPart(found[0][1] or "", shards=count)


def parse_gres(text: str) -> tuple[GpuGroup, ...]:
    """``gpu``, ``gpu:2``, ``gpu:a100:2``, several with commas. Only GPUs exist here, and shards of them
    (`parse_shards`)."""
    if text.lower() in ("", "none") or parse_shards(text) is not None:
        return ()
    groups = []
    for item in text.split(","):
        match = _GRES.match(item)
        if match is None:
            raise OptionError("Invalid generic resource (gres) specification")
        groups.append(GpuGroup(int(match[2]) if match[2] is not None else 1, match[1] or ""))
    return tuple(groups)


def gres_text(text: str) -> str:
    parse_gres(text)
    return text


def parse_exclusive(text: str) -> str:
    """ "node" for the whole node, "user" for nodes shared by one user's jobs."""
    if text.lower() in ("", "node", "exclusive", "yes", "1"):
        return "node"
    if text.lower() == "user":
        return "user"
    if text.lower() == "mcs":
        raise OptionError(f"--exclusive={text} is not supported by minislurm")
    raise ValueError(text)


def parse_open_mode(text: str) -> bool:
    """Append?"""
    if text.lower() in ("a", "append"):
        return True
    if text.lower() in ("t", "truncate"):
        return False
    raise ValueError(text)


def parse_output_mode(text: str) -> int:
    """An octal file mode without execution and special bits."""
    if not re.match(r"[0-7]{3,4}\Z", text) or int(text, 8) & ~0o666:
        raise ValueError(text)
    return int(text, 8)


def parse_yes_no(text: str) -> bool:
    if text.lower() in ("yes", "y", "1", "true"):
        return True
    if text.lower() in ("no", "n", "0", "false"):
        return False
    raise ValueError(text)


def parse_nice(text: str) -> int:
    if not _INTEGER.match(text) or abs(int(text)) > 2147483645:
        raise ValueError(text)
    return int(text)


def parse_bid(text: str) -> float:
    """Credits for a GPU-hour, to the millionth."""
    if not re.match(r"[0-9]{1,9}(\.[0-9]{1,6})?\Z", text):
        raise ValueError(text)
    return float(text)


def parse_preemption(text: str) -> PreemptionWish:
    """``lower,difference=100,victims=2``; the policy may be left out."""
    policy = ""
    numbers: dict[str, int] = {}
    for word in text.lower().split(","):
        name, equals, value = word.partition("=")
        if not equals and name in POLICIES and not policy:
            policy = name
        elif equals and name in ("difference", "victims") and name not in numbers:
            numbers[name] = count(f"preemption={name}", minimum=0)(value)
        else:
            raise ValueError(text)
    return PreemptionWish(policy, numbers.get("difference"), numbers.get("victims"))


def parse_priority(text: str) -> int:
    if text.upper() == "TOP":
        raise OptionError("--priority=TOP is not supported by minislurm")
    if not re.match(r"[0-9]{1,10}\Z", text) or int(text) > 2**32 - 2:
        raise ValueError(text)
    return int(text)


def parse_seconds(text: str) -> float:
    if not re.match(r"[0-9]{1,9}\Z", text):
        raise ValueError(text)
    return float(text)


def one_of(*words: str) -> Callable[[str], str]:
    """A parser of one of these words, in small letters or not."""

    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(text)
        return text.lower()

    return parse


def parse_max_requeues(text: str) -> dict[str, int]:
    return parse_requeue_limits(text)


def only(option: str, *accepted: str) -> Callable[[str], str]:
    """A parser for an option of which only some values are built; others are refused by name."""

    def parse(text: str) -> str:
        if text.lower() not in accepted:
            raise OptionError(f"--{option}={printable(text)} is not supported by minislurm")
        return text.lower()

    return parse
