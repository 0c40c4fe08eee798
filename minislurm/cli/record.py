"""scontrol's records: lines of ``Key=value`` under each other, or all on one line with -o."""

from __future__ import annotations

from collections.abc import Sequence

from minislurm.cli.printable import printable


def record_text(lines: Sequence[str], *, one_line: bool, trailing_line: bool = False) -> str:
    """One record with its final newline(s). `trailing_line`: a job's record ends with an empty line."""
    separator = " " if one_line else "\n   "
    text = separator.join(printable(line) for line in lines)
    if trailing_line:
        text += separator
    return text + ("\n" if one_line else "\n\n")
