"""When it is time for a checkpoint."""

from __future__ import annotations

import os
import time

from minislurm.checkpoint.notices import NOTICES, is_wanted
from minislurm.checkpoint.reports import _Last

INTERVAL = "MINISLURM_CHECKPOINT_INTERVAL"


class Saver:
    """Says when a checkpoint is due: so long, or so many steps, after the last one was reported, or when one
    is asked for."""

    def __init__(self, seconds: float | None = None, steps: int | None = None) -> None:
        if (seconds is not None and seconds <= 0) or (steps is not None and steps <= 0):
            raise ValueError("save_every: more than 0")
        self.seconds = seconds
        self.steps = steps
        self._made = time.monotonic()
        self._first_step: int | None = None

    def due(self, step: int | None = None) -> bool:
        """`step`: how many have been done; with `steps` it is needed. What the checkpoint then takes is
        counted from here."""
        asked = is_wanted()
        late = self.seconds is not None and time.monotonic() - max(self._made, _Last.time) >= self.seconds
        enough = step is not None and self._are_enough(step)
        if not (asked or late or enough):
            return False
        if not NOTICES.seen_time:
            NOTICES.seen_time = time.monotonic()
        return True

    def _are_enough(self, step: int) -> bool:
        if self.steps is None:
            return False
        if self._first_step is None:
            self._first_step = step - 1  # the first question comes after the first step
        return step - max(self._first_step, _Last.step) >= self.steps


def save_every(seconds: float | None = None, steps: int | None = None) -> Saver:
    """Neither: the job's --checkpoint-interval, if it has one; and whenever a checkpoint is asked for."""
    if seconds is None and steps is None:
        text = os.environ.get(INTERVAL, "")
        seconds = float(text) if text else None
    return Saver(seconds, steps)
