"""What a job's process says of its checkpoints (minislurm/checkpoint/README.md), to the core's words and
back. Pure.

Whoever speaks is a user's program: everything is looked at, and what is wrong is a ValueError whose text that
user may read.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from minislurm.domain.checkpoint import LARGEST_METADATA, LONGEST_PATH, Checkpoint
from minislurm.domain.ids import JobId, RunNumber
from minislurm.node.messages import Ask, RunKey

_INT64 = 2**63
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKET = re.compile(rb"[\[{]")
_MOST_BRACKETS = 16


def read_message(line: bytes) -> dict[str, Any]:
    wrong = ValueError("not a JSON object on one line")
    # Not left to the parser: it would go down as deep as the interpreter can.
    if len(_BRACKET.findall(_TEXT.sub(b"", line))) > _MOST_BRACKETS:
        raise wrong
    try:
        message = json.loads(line)
    except ValueError as error:
        raise wrong from error
    if not isinstance(message, dict):
        raise wrong
    return message


def read_hello(message: dict[str, Any]) -> RunKey:
    return RunKey(JobId(_number(message, "job", 0, least=1)), RunNumber(_number(message, "run", 0, least=1)))


def read_request(message: dict[str, Any]) -> float | None:
    """See `messages.Made.request`."""
    return _seconds(message, "request", 0.0) if "request" in message else None


def read_report(report: object, run: RunNumber, now: float) -> Checkpoint:
    """`now`: for a report without a time, or with one that cannot be."""
    if not isinstance(report, dict):
        raise ValueError("report: not an object")
    time = _seconds(report, "time", now)
    return Checkpoint(
        run=run,
        path=_path(report.get("path")),
        step=_number(report, "step", -1),
        epoch=_number(report, "epoch", -1),
        size_bytes=_number(report, "size_bytes", 0, least=0),
        duration_s=_seconds(report, "duration_s", 0.0),
        time=time if 0 < time < now + 60 else now,
        metadata=_metadata(report.get("metadata", {})),
        modified=_seconds(report, "modified", 0.0),
    )


def told_latest(latest: Checkpoint | None) -> dict[str, Any] | None:
    if latest is None:
        return None
    return {
        "path": latest.path,
        "step": latest.step,
        "epoch": latest.epoch,
        "metadata": latest.metadata,
        "run": latest.run,
        "time": latest.time,
    }


def told_asked(asked: Ask | None, now: float) -> dict[str, Any] | None:
    if asked is None:
        return None
    left = max(0.0, asked.deadline - now) if asked.deadline < math.inf else None
    return {"request": asked.request, "reason": asked.reason, "seconds_left": left}


def _path(path: object) -> str:
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise ValueError("path: not an absolute path")
    if len(_encoded(path, "path")) > LONGEST_PATH:
        raise ValueError(f"path: longer than {LONGEST_PATH} bytes")
    return path


def _metadata(metadata: object) -> dict[str, str]:
    if not isinstance(metadata, dict):
        raise ValueError("metadata: not an object")
    size = 0
    for name, value in metadata.items():
        if not isinstance(value, str):
            raise ValueError("metadata: a value that is not a text")
        size += len(_encoded(name, "metadata")) + len(_encoded(value, "metadata"))
    if size > LARGEST_METADATA:
        raise ValueError(f"metadata: more than {LARGEST_METADATA} bytes")
    return dict(metadata)


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what}: not valid UTF-8") from error


def _number(message: dict[str, Any], name: str, default: int, *, least: int = -1) -> int:
    value = message.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _INT64:
        raise ValueError(f"{name}: not a whole number from {least} up")
    return value


def _seconds(message: dict[str, Any], name: str, default: float) -> float:
    value = message.get(name, default)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e15:
        raise ValueError(f"{name}: not a number from 0 up")
    return float(value)
