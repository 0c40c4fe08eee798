"""What squeue and sinfo share: values of their options, and showing a listing again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from minislurm.cli.option import OptionError
from minislurm.cli.printable import printable
from minislurm.domain.hostlist import expand


def print_lines(lines: Sequence[str]) -> None:
    if lines:
        print("\n".join(lines))


def repeat(show: Callable[[float], int], interval_s: float) -> int:
    """Calls `show(now)` once, or every `interval_s` seconds until interrupted; returns the last exit code."""
    exit_code = show(time.time())
    while interval_s:
        print(flush=True)
        time.sleep(interval_s)
        exit_code = show(time.time())
    return exit_code


def parse_list(text: str) -> tuple[str, ...] | None:
    """None for "": Slurm takes an empty list for no filter."""
    return tuple(item for item in text.split(",") if item) or None


def parse_nodes(text: str) -> tuple[str, ...] | None:
    try:
        return tuple(expand(text)) or None
    except ValueError as error:
        raise OptionError(f"Invalid node name {printable(text)}") from error


def parse_interval(text: str) -> float:
    """Seconds of --iterate."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise OptionError(f"--iterate={printable(text)}")
    return seconds
