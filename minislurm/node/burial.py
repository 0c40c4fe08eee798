"""After a shepherd: whatever it left behind is killed, and how its step ended is found out."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minislurm.node.messages import Exit
from minislurm.node.tracking import CgroupTracker, marked_processes, send_signal, session_members, start_time

log = logging.getLogger(__name__)

_FIRST_INTERVAL_S = 0.02
_LONGEST_INTERVAL_S = 1.0

SHEPHERD_LOST = Exit(exit_signal=9, reason="its shepherd was killed")
NEVER_STARTED = Exit(exit_signal=53, launch_failed=True, reason="its shepherd did not start")


def lives(state: dict[str, Any]) -> bool:
    """Is the process that wrote this state file still there?"""
    return bool(state["pid"]) and start_time(state["pid"]) == state["start_ticks"]


def left_behind(marks: Mapping[str, str], sessions: Iterable[int], cgroup: str) -> list[int]:
    """Processes of a step whose shepherd is gone. `marks`: variables of its environment that no other step on
    this host has, of this cluster or of another. `sessions`: pids of its tasks, as far as they are known."""
    found: set[int] = set()
    if cgroup:
        found.update(CgroupTracker(cgroup).pids())
    else:
        found.update(marked_processes(marks))
        found.update(session_members(sessions))
    found.discard(os.getpid())
    return sorted(found)


async def kill_left_behind(marks: Mapping[str, str], sessions: Sequence[int], cgroup: str) -> None:
    """Returns when none is left."""
    interval_s = _FIRST_INTERVAL_S
    while pids := left_behind(marks, sessions, cgroup):
        run, step = marks["MINISLURM_RUN"], marks["MINISLURM_STEP"]
        log.warning("step %s.%s: killing %d processes that its shepherd left", run, step, len(pids))
        if cgroup:
            CgroupTracker(cgroup).kill()
        else:
            send_signal(pids, 9)
        await asyncio.sleep(interval_s)
        interval_s = min(interval_s * 2, _LONGEST_INTERVAL_S)
    if cgroup:
        while not CgroupTracker(cgroup).remove():
            await asyncio.sleep(interval_s)
            interval_s = min(interval_s * 2, _LONGEST_INTERVAL_S)
