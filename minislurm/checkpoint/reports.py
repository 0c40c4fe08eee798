"""Reporting checkpoints, and finding the one to start from."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from minislurm.checkpoint.files import measure
from minislurm.checkpoint.notices import NOTICES
from minislurm.checkpoint.place import Line, Place, place

#: So long the daemon may take to answer.
_TIMEOUT_S = 5.0


class Latest(NamedTuple):
    """A checkpoint that this run can start from. `step`, `epoch` -1: not said when it was reported."""

    path: str
    step: int = -1
    epoch: int = -1
    metadata: Mapping[str, str] = {}


class _Last:
    """This process's last report: monotonic time, and step."""

    time = time.monotonic()
    step = -1


def latest() -> Latest | None:
    """The newest checkpoint of the job that is whole; None: there is none, start from the beginning.

    What was reported on this node in this run, else what the run was started from. All ranks of a run that
    has not yet reported any get the same answer.
    """
    where = place()
    if where is None:
        return None
    try:
        with Line(where, listen=False, timeout_s=_TIMEOUT_S) as line:
            found = line.welcome.get("latest")
    except OSError:
        found = None
    if isinstance(found, dict):
        return Latest(found["path"], found["step"], found["epoch"], found["metadata"])
    path = os.environ.get("MINISLURM_CHECKPOINT_PATH", "")
    return (
        Latest(path, _number("MINISLURM_CHECKPOINT_STEP"), _number("MINISLURM_CHECKPOINT_EPOCH"))
        if path
        else None
    )


def report(
    path: str | os.PathLike[str],
    step: int = -1,
    epoch: int = -1,
    metadata: Mapping[str, object] | None = None,
    *,
    duration_s: float = 0.0,
) -> bool:
    """`path`, a file or folder, is a checkpoint: whole, and not going to change. True: it will be known, also
    if the node daemon or the controller are away now. Never raises: training goes on; why it is False is
    logged. Outside of minislurm: False. `duration_s`: what it took to make; without it as far as can be seen.
    """
    problem = try_report(path, step, epoch, metadata, duration_s=duration_s)
    if problem and place() is not None:
        import logging

        logging.getLogger("minislurm.checkpoint").warning("%s is not reported: %s", path, problem)
    return not problem


def try_report(
    path: str | os.PathLike[str],
    step: int = -1,
    epoch: int = -1,
    metadata: Mapping[str, object] | None = None,
    *,
    duration_s: float = 0.0,
) -> str:
    """As `report`: "", or why it is not known to anyone."""
    where = place()
    now = time.monotonic()
    duration_s = duration_s or (now - NOTICES.seen_time if NOTICES.seen_time else 0.0)
    _Last.time, _Last.step = now, step
    if where is None:
        NOTICES.answered()
        return "this is no job of minislurm's"
    try:
        problem = _send(where, _message(os.fspath(path), step, epoch, metadata or {}, duration_s))
    except OSError as error:
        problem = error.strerror or str(error)
    except (ValueError, TypeError) as error:
        problem = str(error)
    if not problem:
        NOTICES.answered()
    return problem


def _message(
    path: str, step: int, epoch: int, metadata: Mapping[str, object], duration_s: float
) -> dict[str, Any]:
    if "://" in path:
        raise ValueError("object stores are not supported; give a path")
    full = os.path.abspath(path)
    size, modified = measure(full)
    report: dict[str, Any] = {
        "path": full,
        "step": int(step),
        "epoch": int(epoch),
        "metadata": {str(name): str(value) for name, value in metadata.items()},
        "size_bytes": size,
        "modified": modified,
        "duration_s": duration_s,
        "time": time.time(),
    }
    message: dict[str, Any] = {"report": report}
    if NOTICES.is_listening:
        # Of a request that the script did not know of, this is not the answer: more steps may follow.
        message["request"] = NOTICES.seen
    return message


def _send(where: Place, message: dict[str, Any]) -> str:
    """ "", or why it is refused."""
    try:
        with Line(where, listen=False, timeout_s=_TIMEOUT_S) as line:
            if "error" in line.welcome:
                return str(line.welcome["error"])
            line.send(message)
            while True:
                answer = line.receive()
                if "reported" in answer or "error" in answer:
                    return str(answer.get("error", ""))
    except OSError as error:
        if not where.reports:
            return f"the node daemon does not answer: {error}"
        leave(where, message)
        return ""


def leave(where: Place, message: dict[str, Any]) -> None:
    """On disk, for a daemon that is not there now. Raises OSError."""
    name = f"{message['report']['time']:.6f}.{os.getpid()}"
    temporary = f"{where.reports}/.{name}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        json.dump(message, file)
        file.flush()
        os.fsync(descriptor)
    os.rename(temporary, f"{where.reports}/{name}.json")


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else -1
