"""An overlay on the trace's jobs: what a job that checkpoints keeps when its run is lost."""

from __future__ import annotations

from math import floor

from msgspec import Struct


class Checkpoints(Struct, frozen=True):
    """Every `interval_s` of work a checkpoint is made, which takes `cost_s`; a run that goes on from one
    first takes `restart_s`. `interval_s` 0: no checkpoints, a lost run begins anew."""

    interval_s: float = 0.0
    cost_s: float = 0.0
    restart_s: float = 0.0

    def duration(self, work_s: float, *, restarted: bool) -> float:
        """How long a run takes that has so much work left. After the last piece there is no checkpoint."""
        if not self.interval_s:
            return work_s
        made = max(0, -(-work_s // self.interval_s) - 1)
        return (self.restart_s if restarted else 0.0) + work_s + made * self.cost_s

    def saved(self, elapsed_s: float, work_s: float, *, restarted: bool = False) -> float:
        """Of `work_s`, the seconds that are in a checkpoint when the run is lost after `elapsed_s`."""
        if not self.interval_s:
            return 0.0
        worked_s = max(0.0, elapsed_s - (self.restart_s if restarted else 0.0))
        pieces = floor(worked_s / (self.interval_s + self.cost_s))
        return min(pieces * self.interval_s, work_s)


NO_CHECKPOINTS = Checkpoints()
