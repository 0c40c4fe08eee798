"""What the node daemon says to a job's process: a checkpoint is wanted, or the run is about to give way.

A thread of its own listens; asking costs a look at an attribute. It starts with the first question and comes
back by itself when the daemon was restarted. A forked child (a DataLoader's worker) has no such thread, and
knows what was known at the fork, until it asks itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from minislurm.checkpoint.place import Line, Place, place

#: (reason, seconds left until the run is ended)
Callback = Callable[[str, float], object]

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class Notices:
    """What is wanted of this process's run now."""

    def __init__(self) -> None:
        #: The request (a number that tells it from others); 0: nothing is wanted.
        self.request = 0.0
        #: The last request that the script was told of.
        self.seen = 0.0
        #: When (monotonic) it was: what a checkpoint takes is counted from there. 0: no such time.
        self.seen_time = 0.0
        self.reason = ""
        #: The run is ended then (monotonic); None: it goes on.
        self.end: float | None = None
        #: The script's last question was whether to stop, and the answer was no: it goes on with its step.
        self.goes_on = False
        self.is_listening = False
        self._callbacks: list[Callback] = []
        self._told: set[tuple[int, float]] = set()
        # A signal's handler may report while the same thread is in here.
        self._lock = threading.RLock()
        self._line: Line | None = None

    # --- for the script ----------------------------------------------------------------------------------

    def listen(self) -> None:
        if self.is_listening:
            return
        where = place()
        with self._lock:
            if self.is_listening or where is None:
                return
            self.is_listening = True
        threading.Thread(target=self._run, args=(where,), name="minislurm-checkpoint", daemon=True).start()

    def see(self) -> None:
        """The script is told of what is wanted."""
        if self.seen != self.request:
            self.seen, self.seen_time = self.request, time.monotonic()

    def call_on_preempt(self, callback: Callback) -> None:
        with self._lock:
            self._callbacks.append(callback)
        self.listen()
        self._call()

    def answered(self) -> None:
        """The script has reported a checkpoint. A run that gives way still does."""
        with self._lock:
            if self.end is None and self.request and self.request == self.seen:
                self.request = 0.0
            self.seen_time = 0.0

    def forget_thread(self) -> None:
        """In a forked child."""
        self._lock = threading.RLock()
        self.is_listening = False
        line, self._line = self._line, None
        if line is not None:
            line.socket.close()  # the child's descriptor; the parent's goes on

    # --- the thread --------------------------------------------------------------------------------------

    def _run(self, where: Place) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                with Line(where, listen=True, timeout_s=None) as line:
                    if "error" in line.welcome:
                        return  # this run is over, or not ours: asking again changes nothing
                    self._line = line
                    pause_s = _FIRST_PAUSE_S
                    while True:
                        self._heard(line.receive())
            except OSError:
                pass  # the daemon is being restarted
            self._line = None
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _heard(self, message: dict[str, Any]) -> None:
        if "asked" not in message:
            return
        asked = message["asked"]
        with self._lock:
            if not asked:
                self.request, self.end = 0.0, None
            else:
                left = asked.get("seconds_left")
                self.reason = str(asked.get("reason", ""))
                self.end = None if left is None else time.monotonic() + float(left)
                self.request = float(asked["request"])
        self._call()

    def _call(self) -> None:
        """Whoever wants to know, of each request once."""
        with self._lock:
            if self.end is None or not self.request:
                return
            due = [c for i, c in enumerate(self._callbacks) if (i, self.request) not in self._told]
            self._told |= {(i, self.request) for i in range(len(self._callbacks))}
            reason, left = self.reason, max(0.0, self.end - time.monotonic())
        for callback in due:
            self.see()
            try:
                callback(reason, left)
            except Exception:
                import logging

                logging.getLogger("minislurm.checkpoint").exception("a callback of on_preempt failed")


NOTICES = Notices()
os.register_at_fork(after_in_child=lambda: NOTICES.forget_thread())


def should_stop() -> bool:
    """Is this run about to be ended to make room? Save, report, and leave the loop: the run is ended as soon
    as its report has come, and starts again from there. Cheap enough for every step. Ranks may hear of it at
    different steps: let one decide for all."""
    if not NOTICES.is_listening:
        NOTICES.listen()
    NOTICES.goes_on = NOTICES.end is None
    if NOTICES.goes_on:
        return False
    NOTICES.see()
    return True


def is_wanted() -> bool:
    """Has somebody asked for a checkpoint that was not reported since? (`scontrol checkpoint`, the interval,
    or because the run is about to be ended.)"""
    if not NOTICES.is_listening:
        NOTICES.listen()
    goes_on, NOTICES.goes_on = NOTICES.goes_on, False
    if not NOTICES.request:
        return False
    # Told a moment ago that it need not stop, a script will do another step after this checkpoint: it is not
    # the one with which the run can be ended.
    if NOTICES.end is None or not goes_on:
        NOTICES.see()
    return True


def on_preempt(callback: Callback) -> None:
    """Calls `callback(reason, seconds_left)` once when this run is about to be ended to make room, in a
    thread of its own (or at once, if that is known already)."""
    NOTICES.call_on_preempt(callback)
