"""Trackable resources (TRES) in Slurm's notation: ``cpu=10,mem=100G,node=2,gres/gpu=4,gres/gpu:a100=2``.

Amounts are whole: CPUs, MiB of memory, nodes, GPUs. A GPU of a type counts twice: as a GPU and as one of its
type, so that a limit may name either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from minislurm.domain.ids import NodeName
from minislurm.domain.memory import format_memory, parse_memory
from minislurm.domain.node import Node
from minislurm.domain.resources import NodeAllocation, TresAmount

CPU, MEMORY, NODE, GPU = "cpu", "mem", "node", "gres/gpu"

#: Amounts by name; a name that is absent stands for 0, or for no limit.
Tres = Mapping[str, int]

_ORDER = {CPU: 0, MEMORY: 1, NODE: 2, GPU: 3}
_TYPED_GPU = re.compile(r"gres/gpu:[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_WEIGHT = re.compile(r"(?P<number>[0-9]{1,9}(\.[0-9]{1,9})?)(?P<unit>[KMGT]?)\Z", re.IGNORECASE)
_UNIT_MIB = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}
_AMOUNT = re.compile(r"[0-9]{1,15}\Z")


def gpus_of_type(gpu_type: str) -> str:
    """The TRES of GPUs of one type; of any type for ""."""
    return f"{GPU}:{gpu_type}" if gpu_type else GPU


def is_tres(name: str) -> bool:
    return name in _ORDER or _TYPED_GPU.match(name) is not None


def parse_tres(text: str) -> dict[str, int | None]:
    """Amounts by name; None for ``-1``, by which Slurm takes a limit back. Raises ValueError."""
    result: dict[str, int | None] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, equals, amount = word.partition("=")
        name = _name(name.strip())
        if not equals:
            raise ValueError(f"{word}: must be NAME=AMOUNT")
        if amount == "-1":
            result[name] = None
        elif name == MEMORY:
            result[name] = parse_memory(amount)
        elif _AMOUNT.match(amount):
            result[name] = int(amount)
        else:
            raise ValueError(f"{word}: the amount must be a whole number, or -1 for none")
    return result


def _name(text: str) -> str:
    head, colon, gpu_type = text.partition(":")
    name = head.lower() + colon + gpu_type  # only the type's own name has a case
    if not is_tres(name):
        raise ValueError(f"unknown TRES {text}; there are cpu, mem, node, gres/gpu, gres/gpu:TYPE")
    return name


def format_tres(amounts: Tres) -> str:
    """``cpu=10,mem=100G,node=2,gres/gpu=4``, in Slurm's order."""
    return ",".join(f"{name}={format_amount(name, amounts[name])}" for name in sorted_names(amounts))


def format_amount(name: str, amount: int) -> str:
    return format_memory(amount) if name == MEMORY else str(amount)


def sorted_names(amounts: Iterable[str]) -> list[str]:
    return sorted(amounts, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))


def parse_weights(text: str) -> dict[str, float]:
    """``cpu=1.0,mem=0.25G,gres/gpu=8``, as Slurm's TRESBillingWeights: the weight of one CPU, MiB, GPU.

    A memory weight is for a megabyte, or for the unit that follows it. Raises ValueError("must be …").
    """
    result: dict[str, float] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, _, weight = word.partition("=")
        try:
            name = _name(name.strip())
        except ValueError as error:
            raise ValueError(f'must be a list such as "cpu=1.0,mem=0.25G,gres/gpu=8.0": {error}') from None
        match = _WEIGHT.match(weight)
        if match is None or (match["unit"] and name != MEMORY):
            raise ValueError(f'must be a list such as "cpu=1.0,mem=0.25G,gres/gpu=8.0": {word}')
        result[name] = float(match["number"]) / _UNIT_MIB[match["unit"].upper()]
    return result


def add(total: dict[str, int], amounts: Tres, sign: int = 1) -> None:
    """Adds in place (or takes away); what comes to 0 leaves."""
    for name, amount in amounts.items():
        value = total.get(name, 0) + sign * amount
        if value:
            total[name] = value
        else:
            total.pop(name, None)


def tres_of_allocation(
    allocation: Iterable[NodeAllocation], nodes: Mapping[NodeName, Node]
) -> tuple[TresAmount, ...]:
    """What a run holds. `nodes`: for the types of its GPUs."""
    cpus = memory_mib = count = gpus = 0
    typed: dict[str, int] = {}
    for part in allocation:
        cpus += part.cpu_count
        memory_mib += part.memory_mib
        count += 1
        if part.gpus:
            gpus += part.gpu_count
            for gpu_type in {group.type for group in nodes[part.node].gpus if group.type}:
                bits = part.gpus & nodes[part.node].gpus_of_type(gpu_type)
                add(typed, {gpus_of_type(gpu_type): bits.bit_count()})
    amounts = ((CPU, cpus), (MEMORY, memory_mib), (NODE, count), (GPU, gpus), *sorted(typed.items()))
    return tuple([TresAmount(name, amount) for name, amount in amounts if amount])


def as_dict(amounts: Iterable[TresAmount]) -> dict[str, int]:
    return {item.name: item.amount for item in amounts}
