"""Records: the classes whose instances are nothing but named values.

They are `msgspec.Struct`s: a class of them is made thirty times as quickly as a dataclass (there are three
hundred, and every command makes those it imports), and an instance seven times.
"""

from __future__ import annotations

import types
import typing
from typing import Any

from msgspec import Struct


def is_record(kind: object) -> bool:
    """Is it a class of records?"""
    return isinstance(kind, type) and issubclass(kind, Struct)


def without_none(hint: Any) -> tuple[Any, bool]:
    """A field's type itself, and whether None is allowed besides: records have no other unions."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        assert len(kinds) == 1, f"only X | None is a field of a record, not {hint}"
        return kinds[0], True
    return hint, False


def plain(hint: Any) -> Any:
    """What a NewType stands for."""
    return getattr(hint, "__supertype__", hint)
