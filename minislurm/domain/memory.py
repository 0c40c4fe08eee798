"""Amounts of memory in Slurm's notation, as mebibytes."""

from __future__ import annotations

import re

_MEMORY = re.compile(r"([0-9]{1,15})([kmgtp]?)b?\Z", re.IGNORECASE)
_EXPONENT = {"m": 0, "": 0, "g": 1, "t": 2, "p": 3}
_UNITS = "MGTPE"


def parse_memory(text: str) -> int:
    """MiB of ``4G``, ``512`` (MiB), ``2048K`` (rounded up), ``1tb``. Raises ValueError."""
    match = _MEMORY.match(text)
    if match is None:
        raise ValueError(f"invalid memory amount: {text}")
    amount, unit = int(match[1]), match[2].lower()
    mib: int = -(-amount // 1024) if unit == "k" else amount * 1024 ** _EXPONENT[unit]
    if mib >= 2**62:
        raise ValueError(f"memory amount too large: {text}")
    return mib


def format_memory(mib: int) -> str:
    """As squeue and scontrol print it: 500M, 1G, 62.50G, 1500M; "0" for nothing.

    The largest unit in which the amount is a multiple of a half; measured on a real Slurm.
    """
    if mib == 0:
        return "0"
    value, unit = float(mib), 0
    while value >= 1024 and unit < len(_UNITS) - 1 and value % 512 == 0:
        value /= 1024
        unit += 1
    return f"{int(value)}{_UNITS[unit]}" if value == int(value) else f"{value:.2f}{_UNITS[unit]}"


def format_size(size_bytes: int) -> str:
    """512B, 1.5K, 20M, 3.2G: for people."""
    value, unit = float(size_bytes), 0
    units = "BK" + _UNITS
    while value >= 999.5 and unit < len(units) - 1:
        value /= 1024
        unit += 1
    return f"{value:.3g}{units[unit]}"
