"""Records: the classes whose instances are nothing but named values.

They are `msgspec.Struct`s: a class of them is made thirty times as quickly as a dataclass (there are three
hundred, and every command makes those it imports), and an instance seven times.
"""

from __future__ import annotations

from msgspec import Struct


def is_record(kind: object) -> bool:
    """Is it a class of records?"""
    return isinstance(kind, type) and issubclass(kind, Struct)
