"""An allocation that a command holds while it lives: srun's outside of a job, and salloc's."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from minislurm.domain.errors import ControllerUnavailable, MinislurmError
from minislurm.domain.ids import JobId
from minislurm.domain.states import JobState
from minislurm.domain.views import JobTarget, JobView

if TYPE_CHECKING:
    from minislurm.rpc.client import ControllerClient

#: Allocations that come within this time are not worth a word about waiting.
_SILENT_S = 0.4
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Revoked(MinislurmError):
    """The job ended before it was this command's to use."""


class WaitedTooLong(MinislurmError):
    """It did not start within the time that --immediate gave it."""


class Interrupted(Exception):
    """A signal ended the wait."""


class Allocation:
    """One job without a script. From `__init__` on a thread keeps the stream that tells the controller that
    this command lives; the job ends when the process does.

    `on_end` is called once, in that thread, when the job is ending by anybody's doing but `release`.
    """

    def __init__(self, client: ControllerClient, job_id: JobId, *, reconnect_interval_s: float) -> None:
        self.job_id = job_id
        self._client = client
        self._reconnect_interval_s = reconnect_interval_s
        self._views: queue.SimpleQueue[JobView | MinislurmError] = queue.SimpleQueue()
        self._running = False
        self._released = threading.Event()
        self._lock = threading.Lock()
        self._ended = False
        self._on_end: Callable[[], None] | None = None
        threading.Thread(target=self._follow, name="allocation", daemon=True).start()

    def wait(self, inform: Callable[[str], None], limit_s: float | None = None) -> JobView:
        """Waits until the job runs, telling the user through `inform` if that takes its time.

        Raises Revoked, WaitedTooLong (after `limit_s`), Interrupted (the job is cancelled in both cases).
        """
        deadline = None if limit_s is None else time.monotonic() + limit_s
        said = False
        said_at = time.monotonic() + _SILENT_S
        try:
            with _raising_signals():
                while True:
                    view = self._next_view(said_at if not said else None, deadline)
                    if view is None and deadline is not None and time.monotonic() >= deadline:
                        raise WaitedTooLong("Requested nodes are busy")
                    if view is None:
                        said = True
                        inform(f"job {self.job_id} queued and waiting for resources")
                    elif view.job.state is JobState.RUNNING:
                        if said:
                            inform(f"job {self.job_id} has been allocated resources")
                        return view
                    elif view.job.state is JobState.COMPLETING or view.job.state.is_final:
                        raise Revoked(f"Job allocation {self.job_id} has been revoked")
        except (Interrupted, WaitedTooLong):
            self._released.set()
            self._client.cancel([JobTarget(self.job_id)])
            raise

    def when_ended(self, act: Callable[[], None]) -> None:
        """`act` is called, from a thread, when the job is being ended; at once if it already is."""
        with self._lock:
            self._on_end = act
            ended = self._ended
        if ended:
            act()

    def release(self, exit_code: int, exit_signal: int) -> None:
        """Ends the job. Raises MinislurmError."""
        self._released.set()
        self._client.end_allocation(self.job_id, exit_code, exit_signal)

    def _next_view(self, *moments: float | None) -> JobView | None:
        """None: the first of the moments has come."""
        limits = [moment for moment in moments if moment is not None]
        try:
            timeout = max(0.0, min(limits) - time.monotonic()) if limits else None
            item = self._views.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(item, MinislurmError):
            raise item
        return item

    def _follow(self) -> None:
        while not self._released.is_set():
            try:
                for view in self._client.hold_allocation(self.job_id):
                    self._views.put(view)
                    if view.job.state is JobState.COMPLETING or view.job.state.is_final:
                        self._note_end()
                        return
            except ControllerUnavailable:
                pass  # a controller that is away ends no job
            except MinislurmError as error:
                self._views.put(error)
                self._note_end()
                return
            self._released.wait(self._reconnect_interval_s)

    def _note_end(self) -> None:
        with self._lock:
            if self._ended or self._released.is_set():
                return
            self._ended = True
            act = self._on_end
        if act is not None:
            act()


@contextmanager
def _raising_signals() -> Iterator[None]:
    """Signals that end a command raise Interrupted meanwhile; those that are ignored stay so."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    previous = {}
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            previous[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
