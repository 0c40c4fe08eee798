"""`--add-nodes`, as it is written."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

from msgspec import Struct

_MOST_NODES = 100_000
_ADDED = re.compile(r"(?P<count>\d{1,6})(?::like=(?P<like>[^:=,]+))?\Z")


class NodesToAdd(Struct, frozen=True):
    """``8``, ``8:like=gpu001``. `like` "": of the kind that most nodes are of."""

    count: int
    like: str = ""

    @classmethod
    def parse(cls, text: str) -> NodesToAdd:
        """Raises ArgumentTypeError."""
        match = _ADDED.match(text)
        if match is None or not 1 <= int(match["count"]) <= _MOST_NODES:
            allowed = f"a number of nodes, 1 to {_MOST_NODES}, such as 8, or 8:like=NODE"
            raise ArgumentTypeError(f"{text!r} is not {allowed}")
        return cls(int(match["count"]), match["like"] or "")
