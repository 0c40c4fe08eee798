"""Work in units: generators that yield where a caller may do other things between, and return a result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def finished(working: Generator[None, None, T]) -> T:
    """The result, with nothing done between."""
    while True:
        try:
            next(working)
        except StopIteration as done:
            result: T = done.value
            return result
