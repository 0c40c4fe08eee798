"""Scripts and environments as stored: each once, under its SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def blob_name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if data else ""


def join_environment(entries: Sequence[bytes]) -> bytes:
    """Environment entries hold no NUL."""
    return b"\0".join(entries)


def split_environment(data: bytes) -> list[bytes]:
    return data.split(b"\0") if data else []
