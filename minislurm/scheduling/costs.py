"""What is lost when a run gives way: GPU-seconds (CPU-seconds, of a run without GPUs)."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from statistics import median

from minislurm.scheduling.model import RunningJob


def size_of(run: RunningJob) -> int:
    """Its GPUs; its CPUs, where it has none."""
    gpus = sum([part.gpus.bit_count() for part in run.allocation])
    return gpus or sum([part.cpu_count for part in run.allocation])


def unsaved_s(run: RunningJob, now: float) -> float:
    """How long its last checkpoint, or the start of its run, is past."""
    return max(0.0, now - max(run.start_time, run.saved_time))


def typical_unsaved_s(running: Iterable[RunningJob], now: float) -> float:
    """The median over the runs that report checkpoints; infinity: none does."""
    times = [unsaved_s(run, now) for run in running if run.reports and run.end_time]
    return median(times) if times else inf


def cost_of(run: RunningJob, now: float, typical_s: float = inf) -> float:
    """Work since the last checkpoint, or the time that one takes if it can make one in its grace; and what
    the next start takes.

    A job that reports no checkpoint is charged what is typical of those that do (`typical_s`), though no more
    than it has done: if it were charged all that it has done, whoever reports would always go first.
    """
    lost_s = unsaved_s(run, now)
    if not run.reports:
        lost_s = min(lost_s, typical_s)
    return size_of(run) * (min(lost_s, run.save_s) + run.restart_s)


def next_checkpoint(run: RunningJob, now: float) -> float:
    """When it is expected; infinity: it is not known, or it is late."""
    if not run.checkpoint_interval_s:
        return inf
    time = max(run.start_time, run.saved_time) + run.checkpoint_interval_s
    return time if time > now else inf


def cost_at(run: RunningJob, time: float, now: float, typical_s: float = inf) -> float:
    """The same at a later time, if it goes on as before and its next checkpoint comes when it is expected."""
    saved = next_checkpoint(run, now)
    if saved <= time:
        return size_of(run) * (min(time - saved, run.save_s) + run.restart_s)
    return cost_of(run, time, typical_s)
