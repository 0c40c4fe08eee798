"""Text from users, made safe to show on a terminal and in a table."""

from __future__ import annotations

import re

# C0 and C1 controls, line separators, and the marks that reverse the direction of text.
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """`text` on one line, with control characters, terminal escapes and undecodable bytes written out."""
    return _UNSAFE.sub(_written_out, text) if _UNSAFE.search(text) else text


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if match[0] in "\n\r":
        return "\\n" if match[0] == "\n" else "\\r"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
