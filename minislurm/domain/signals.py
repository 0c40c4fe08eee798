"""Names and numbers of signals."""

from __future__ import annotations

import re
import signal

_NUMBER = re.compile(r"[0-9]{1,2}\Z")
_BY_NAME = {member.name.removeprefix("SIG"): int(member) for member in signal.Signals}
#: Where two names share a number the first is the usual one.
_BY_NUMBER = {int(member): member.name.removeprefix("SIG") for member in signal.Signals}


def parse_signal(text: str) -> int:
    """The number of ``USR1``, ``sigusr1``, ``10``. Raises ValueError."""
    if _NUMBER.match(text):
        number = int(text)
        if 1 <= number < signal.NSIG:
            return number
    else:
        name = text.upper().removeprefix("SIG")
        if name in _BY_NAME:
            return _BY_NAME[name]
    raise ValueError(f"unknown signal: {text}")


def signal_name(number: int) -> str:
    """``USR1`` for 10; the number itself where it has no name."""
    return _BY_NUMBER.get(number, str(number))
