"""Slurm's hostlists: ``gpu[001-064,070],login`` and back. Order, duplicates and zero padding are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from math import prod

#: More names than this are a mistake (``n[1-99999999]``), not a cluster.
MAX_NAMES = 1_000_000

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?\Z")
_TRAILING_NUMBER = re.compile(r"(.*?)([0-9]{1,18})\Z", re.DOTALL)
_DIGITS = re.compile(r"([0-9]+)")
_FORBIDDEN = re.compile(r"[\s\[\],\x00-\x1f\x7f]")


def expand(text: str) -> list[str]:
    """The names of a hostlist in its order: ``n[1-2]x[08-09]`` gives n1x08, n1x09, n2x08, n2x09.

    Items are separated by commas or white space; empty items are skipped. Raises ValueError on unbalanced
    brackets, a bad or descending range, or more than `MAX_NAMES` names.
    """
    names: list[str] = []
    for item in _items(text):
        literals, choices = _parts(item)
        count = prod(sum(last - first + 1 for first, last, _ in choice) for choice in choices)
        if count + len(names) > MAX_NAMES:
            raise ValueError(f"hostlist has more than {MAX_NAMES} names")
        if not choices:
            names.append(item)
            continue
        for numbers in product(*(list(_numbers(choice)) for choice in choices)):
            pieces = [literals[0]]
            for number, literal in zip(numbers, literals[1:], strict=True):
                pieces += (number, literal)
            names.append("".join(pieces))
    return names


def compress(names: Iterable[str]) -> str:
    """The shortest list in the given order: n1, n2, n3, n7 gives ``n[1-3,7]``. `expand` is its inverse.

    Only neighbours in the given order are joined; sort by `natural_key` first where order does not matter.
    Raises ValueError for a name that no hostlist can hold (empty, blanks, commas, brackets).
    """
    result: list[str] = []
    prefix: str | None = None
    ranges: list[list[str]] = []  # [first, last] as written

    def flush() -> None:
        if prefix is None:
            return
        if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            result.append(prefix + ranges[0][0])
        else:
            joined = ",".join(a if a == b else f"{a}-{b}" for a, b in ranges)
            result.append(f"{prefix}[{joined}]")

    for name in names:
        if not name or _FORBIDDEN.search(name):
            raise ValueError(f"not a host name: {name!r}")
        match = _TRAILING_NUMBER.match(name)
        if match is None:
            flush()
            prefix, ranges = None, []
            result.append(name)
            continue
        stem, number = match.groups()
        if stem != prefix:
            flush()
            prefix, ranges = stem, [[number, number]]
            continue
        first, last = ranges[-1]
        # Joined only if the range, written with its first number's width, gives this name back.
        if number == f"{int(last) + 1:0{len(first)}d}":
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    flush()
    return ",".join(result)


def natural_key(name: str) -> tuple[tuple[str, int, str], ...]:
    """Sort key under which n2 comes before n10."""
    pieces = _DIGITS.split(name)
    return tuple(
        (pieces[i], int(pieces[i + 1][:18] or 0), pieces[i + 1])
        if i + 1 < len(pieces)
        else (pieces[i], -1, "")
        for i in range(0, len(pieces), 2)
    )


def _items(text: str) -> Iterator[str]:
    """Splits at separators outside of brackets."""
    start, inside = 0, False
    for i, character in enumerate(text):
        if character == "[":
            if inside:
                raise ValueError(f"nested bracket in hostlist: {text!r}")
            inside = True
        elif character == "]":
            if not inside:
                raise ValueError(f"unmatched ']' in hostlist: {text!r}")
            inside = False
        elif not inside and (character == "," or character.isspace()):
            if i > start:
                yield text[start:i]
            start = i + 1
        elif character < " " or character == "\x7f":
            raise ValueError(f"control character in hostlist: {text!r}")
    if inside:
        raise ValueError(f"unmatched '[' in hostlist: {text!r}")
    if start < len(text):
        yield text[start:]


def _parts(item: str) -> tuple[list[str], list[list[tuple[int, int, int]]]]:
    """``a[1-2]b`` as (["a", "b"], [[(1, 2, width)]])."""
    literals, choices = [], []
    rest = item
    while "[" in rest:
        literal, _, tail = rest.partition("[")
        inner, _, rest = tail.partition("]")
        literals.append(literal)
        choices.append([_range(piece, item) for piece in inner.split(",")])
    literals.append(rest)
    return literals, choices


def _range(text: str, item: str) -> tuple[int, int, int]:
    match = _RANGE.match(text)
    if match is None:
        raise ValueError(f"bad range {text!r} in hostlist: {item!r}")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ValueError(f"descending range {text!r} in hostlist: {item!r}")
    return first, last, len(match[1])


def _numbers(ranges: list[tuple[int, int, int]]) -> Iterator[str]:
    for first, last, width in ranges:
        for value in range(first, last + 1):
            yield f"{value:0{width}d}"
