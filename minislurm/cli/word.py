"""One word of scontrol's and sacctmgr's command lines: ``Key=value``, ``Key+=value``, ``Key-=value``."""

from __future__ import annotations

from msgspec import Struct


class Word(Struct, frozen=True):
    """Key, "=", "+=" or "-=", value, and all of it as typed; without "=", key and value are the caller's."""

    key: str
    operator: str
    value: str
    text: str


def split_word(text: str) -> Word:
    """Without "=" all of it is the key. Raises UnicodeEncodeError for bytes of the command line that are no
    text."""
    text.encode("utf-8")
    key, equals, value = text.partition("=")
    operator = "=" if equals else ""
    if key.endswith(("+", "-")) and equals:
        key, operator = key[:-1], key[-1] + "="
    return Word(key, operator, value, text)
