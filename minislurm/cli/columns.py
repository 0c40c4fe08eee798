"""The column engine of squeue and sinfo: ``-o "%.18i %.9P"`` and ``-O "JobID:.10,Name:|"``.

A `Field` says what a column shows, a `Column` how wide, a `Layout` is a whole line. Text is cut to the
column's width, as Slurm cuts it; width 0 is as wide as the text. Literal text passes through untouched,
whatever bytes it holds; values are made printable, so that a row stays a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from minislurm.cli.printable import printable

T = TypeVar("T")

#: Width of a column of ``-O`` that names none.
NAMED_WIDTH = 20


class Field(Struct, Generic[T], frozen=True):
    """What a column shows. `sort_key` None: rows sort by the text."""

    header: str
    value: Callable[[T], str]
    sort_key: Callable[[T], Any] | None = None

    def key(self, item: T) -> Any:
        return self.value(item) if self.sort_key is None else self.sort_key(item)


class Column(Struct, Generic[T], frozen=True):
    field: Field[T]
    width: int = 0
    right: bool = False
    suffix: str = ""

    def fit(self, text: str) -> str:
        if self.width:
            text = text[: self.width]
            text = text.rjust(self.width) if self.right else text.ljust(self.width)
        return text + self.suffix


class Layout(Struct, Generic[T], frozen=True):
    prefix: str
    columns: tuple[Column[T], ...]

    def header(self) -> str:
        return self.prefix + "".join(column.fit(column.field.header) for column in self.columns)

    def row(self, item: T) -> str:
        texts = [column.fit(printable(column.field.value(item))) for column in self.columns]
        return self.prefix + "".join(texts)

    def fields(self) -> tuple[Field[T], ...]:
        return tuple(column.field for column in self.columns)


_LETTER = re.compile(r"(?P<align>[.-]?)(?P<width>[0-9]{0,5})(?P<letter>.)(?P<suffix>.*)", re.DOTALL)
_NAME = re.compile(r"(?P<right>\.?)(?P<width>[0-9]{0,5})(?P<suffix>.*)", re.DOTALL)


def parse_letters(
    text: str, letters: Mapping[str, Field[T]], report_invalid: Callable[[str], None]
) -> Layout[T]:
    """``%[[.]width]letter[suffix]``, "." for right justified; ``%all`` for every field, separated by bars.

    As in Slurm, ``%%`` is no escape, and an unknown letter is reported and then shown as it stands.
    """
    prefix, *tokens = text.split("%")
    columns: list[Column[T]] = []
    for token in filter(None, tokens):
        if token.startswith("all"):
            columns += _all_columns(letters.values(), token[3:])
            continue
        match = _LETTER.match(token)
        field = letters.get(match["letter"]) if match else None
        if match is None or field is None:
            report_invalid(match["letter"] if match else token)
            columns.append(Column(_literal("%" + token)))
            continue
        columns.append(Column(field, int(match["width"] or 0), match["align"] == ".", match["suffix"]))
    return Layout(prefix, tuple(columns))


def parse_names(text: str, names: Mapping[str, Field[T]], report_invalid: Callable[[str], None]) -> Layout[T]:
    """``name[:[.][width][suffix]]`` separated by commas; names in any case. Without ":" 20 wide."""
    columns: list[Column[T]] = []
    for token in filter(None, text.split(",")):
        name, colon, rest = token.partition(":")
        field = names.get(name.strip().lower())
        if field is None:
            report_invalid(name)
            continue
        match = _NAME.match(rest)
        assert match is not None, "every part of the pattern may be empty"
        width = int(match["width"] or 0) if colon else NAMED_WIDTH
        columns.append(Column(field, width, bool(match["right"]), match["suffix"]))
    return Layout("", tuple(columns))


def sort_rows(rows: Iterable[T], keys: str, letters: Mapping[str, Field[T]]) -> list[T]:
    """Sorted by ``P,t,-p``: letters as in ``-o``, each with "+" or "-" before it. Raises KeyError(letter)."""
    result = list(rows)
    for field, descending in reversed(parse_sort_keys(keys, letters)):
        result.sort(key=field.key, reverse=descending)
    return result


def parse_sort_keys(keys: str, letters: Mapping[str, Field[T]]) -> Sequence[tuple[Field[T], bool]]:
    """(field, descending) for each letter; commas and "#" (configured order) between are passed over."""
    result: list[tuple[Field[T], bool]] = []
    descending = False
    for character in keys:
        if character in "+-":
            descending = character == "-"
        elif character not in ",# ":
            result.append((letters[character], descending))
            descending = False
    return result


def _all_columns(fields: Iterable[Field[T]], suffix: str) -> list[Column[T]]:
    columns = [Column(field, suffix="|") for field in fields]
    if columns:
        columns[-1] = Column(columns[-1].field, suffix=suffix)
    return columns


def _literal(text: str) -> Field[T]:
    return Field(text, lambda item: text)
