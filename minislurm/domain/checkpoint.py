"""Checkpoints: restorable states that runs have reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct, field

from minislurm.domain.ids import RunNumber

#: So many records of a job are kept where --checkpoint-keep does not say.
RECORDS_KEPT = 3
#: Of one report, in bytes of UTF-8.
LONGEST_PATH = 4096
LARGEST_METADATA = 4096


class Checkpoint(Struct, frozen=True):
    """As reported. Two reports are the same one if `run`, `path` and `time` are."""

    run: RunNumber
    path: str
    #: Of the training; -1: not known.
    step: int = -1
    epoch: int = -1
    #: Of the file, or of all files in the folder, when it was reported.
    size_bytes: int = 0
    #: How long it took to make; 0: not known.
    duration_s: float = 0.0
    #: When it was reported (Unix seconds).
    time: float = 0.0
    #: Why it was asked for ("user", "interval", "time_limit", "preempt", "time_slice"); "": it was not.
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    #: Newest time of modification of its files when it was reported: by it and the size it is known again.
    modified: float = 0.0


class CheckpointSignal(Struct, frozen=True):
    """``--checkpoint-signal=[B:]SIG[@grace]``: asks for a checkpoint those processes that catch it. `grace_s`
    None: the cluster's. `to_shells`: also shells, which catch every signal when they have anything to do at
    their exit, and then end: only for a script with a trap for this one."""

    signal: int
    grace_s: float | None = None
    to_shells: bool = False


def is_known(checkpoints: Iterable[Checkpoint], new: Checkpoint) -> bool:
    """Also when it is seen in the checkpoint folder after the job has reported it, and has said more of
    it."""
    for one in checkpoints:
        if (one.run, one.path) == (new.run, new.path):
            is_same = new.modified > 0 and (one.size_bytes, one.modified) == (new.size_bytes, new.modified)
            if one.time == new.time or (is_same and new.step < 0 and not new.metadata):
                return True
    return False


def with_reported(
    checkpoints: Sequence[Checkpoint], new: Checkpoint, keep: int
) -> tuple[tuple[Checkpoint, ...], tuple[Checkpoint, ...]]:
    """(those that stay, the newest last; those beyond the newest `keep`). A path that is reported again has
    been written anew: the older record of it goes, and is in neither."""
    latest = {one.path: one for one in sorted([*checkpoints, new], key=_age)}
    ordered = sorted(latest.values(), key=_age)
    count = max(0, len(ordered) - (keep or RECORDS_KEPT))
    return tuple(ordered[count:]), tuple(ordered[:count])


def _age(checkpoint: Checkpoint) -> tuple[int, float, str]:
    return checkpoint.run, checkpoint.time, checkpoint.path


def typical_duration_s(checkpoints: Iterable[Checkpoint]) -> float:
    """The median of those that are known; 0: none is."""
    known = [one.duration_s for one in checkpoints if one.duration_s > 0]
    return median(known) if known else 0.0


def typical_size_bytes(checkpoints: Iterable[Checkpoint]) -> int:
    known = [one.size_bytes for one in checkpoints if one.size_bytes > 0]
    return int(median(known)) if known else 0
