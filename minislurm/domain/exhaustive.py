"""`typing.assert_never` for Python 3.10."""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """mypy names the forgotten case; at run time it stops the program."""
    raise AssertionError(f"unhandled: {value!r}")
