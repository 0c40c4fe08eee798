"""The daemon's loop around the core: decide, append, apply; perform the effects once they are durable.

Single-threaded in the asyncio loop; only the journal's transactions run in a thread of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from minislurm.cluster.core import Transaction, handle
from minislurm.cluster.effects import (
    Effect,
    JobChanged,
    NodeCommand,
    Schedule,
    SetTimer,
)
from minislurm.cluster.events import Event
from minislurm.cluster.messages import Configure, Message, NodeSilent, PurgeDue
from minislurm.cluster.state import ClusterState
from minislurm.cluster.timers import all_timers
from minislurm.controller.journal import Journal
from minislurm.controller.timer_queue import TimerQueue
from minislurm.domain import configuration_file
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import JobId
from minislurm.domain.states import NodeState
from minislurm.journal.encoding import encode
from minislurm.journal.records import changed_records, load
from minislurm.journal.store import Store, StoreError

log = logging.getLogger(__name__)


class Outside(Struct):
    """Where effects go. Set by the daemon's parts."""

    command: Callable[[NodeCommand], None] = lambda command: None
    schedule: Callable[[], None] = lambda: None
    job_changed: Callable[[JobId], None] = lambda job_id: None
    #: The state was read from the store again; whatever hung on the old one must go.
    reloaded: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Engine:
    store: Store
    configuration: Configuration
    outside: Outside = field(default_factory=Outside)
    state: ClusterState = field(default_factory=ClusterState)
    start_time: float = field(default_factory=time.time)
    journal: Journal = field(init=False)
    timers: TimerQueue = field(init=False)
    _snapshot_seq: int = 0
    _retry: asyncio.Task[None] | None = None
    _blobs: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state, seq = load(self.store)
        self._snapshot_seq = self.store.snapshot_seq
        self.journal = Journal(
            self.store,
            seq,
            group_commit_s=self.configuration.journal.group_commit_s,
            on_failure=self._store_failed,
        )
        self.timers = TimerQueue(self._timer_fired)

    async def start(self) -> None:
        """Brings the state in line with the configuration, and asks for every timer anew."""
        text = configuration_file.to_json(self.configuration)
        if text != self.state.configuration_text:
            self.tell(Configure(text))
        # Every stream is gone: nothing is offered to a node before its daemon has come back and said
        # what it runs. The nodes' clocks start anew, so that no absence of ours counts against them.
        for node in self.state.nodes.values():
            if node.state is NodeState.UP and node.responding:
                self.tell(NodeSilent(node.name))
        self._set_timers()
        await self.journal.flush()
        if self.journal.broken is not None:
            raise self.journal.broken

    def _set_timers(self) -> None:
        now = time.time()
        self.timers.clear()
        for effect in all_timers(self.state, now):
            assert isinstance(effect, SetTimer)
            self.timers.add(effect.time, effect.message)
        self._purge_later()

    def _purge_later(self) -> None:
        interval = min(max(self.configuration.timers.min_job_age_s / 10, 0.05), 30.0)
        self.timers.add(time.time() + interval, PurgeDue())

    # Messages in

    def tell(
        self,
        message: Message,
        *,
        done: Callable[[], None] | None = None,
        failed: Callable[[StoreError], None] | None = None,
    ) -> Transaction:
        """Carries a message out now. Its effects, and `done`, come once it is durable."""
        transaction = handle(self.state, message, time.time(), self._record)
        if transaction.events:
            self._fold_if_due()
        immediate, later = _split(transaction.effects)
        if later or done is not None:

            def finish() -> None:
                for effect in later:
                    self._perform(effect)
                if done is not None:
                    done()

            self.journal.after_commit(finish, failed)
        elif transaction.events:
            self.journal.after_commit(_nothing, failed)
        if immediate:
            self.outside.schedule()
        return transaction

    async def act(self, message: Message) -> Transaction:
        """As `tell`, and returns when it is durable. Raises Refusal."""
        if self.journal.broken is not None:
            raise Refusal(RefusalCode.STORE_UNAVAILABLE)
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done() -> None:
            if not settled.done():
                settled.set_result(None)

        def failed(error: StoreError) -> None:
            if not settled.done():
                settled.set_exception(Refusal(RefusalCode.STORE_UNAVAILABLE))

        transaction = self.tell(message, done=done, failed=failed)
        if transaction.refusal is not None:
            settled.cancel()
            raise transaction.refusal
        await settled
        return transaction

    def _record(self, event: Event) -> None:
        self.journal.append(encode(event))

    def _timer_fired(self, message: Message) -> None:
        if self.journal.broken is None:
            self.tell(message)
        if isinstance(message, PurgeDue):
            self._purge_later()

    # Effects out

    def _perform(self, effect: Effect) -> None:
        match effect:
            case SetTimer():
                self.timers.add(effect.time, effect.message)
            case JobChanged():
                self.outside.job_changed(effect.job_id)
            case Schedule():
                self.outside.schedule()
            case _:
                self.outside.command(effect)

    # Scripts and environments

    def keep_blob(self, name: str, data: bytes) -> None:
        """Stores a script or environment in the transaction of the job that needs it."""
        if name and name not in self.state.blob_uses:
            self.journal.store_blob(name, data)
        self._cache_blob(name, data)

    def blob(self, name: str) -> bytes:
        """Raises StoreError."""
        if not name:
            return b""
        data = self._blobs.get(name)
        if data is None:
            data = self.store.blob(name)
            self._cache_blob(name, data)
        return data

    def _cache_blob(self, name: str, data: bytes) -> None:
        self._blobs[name] = data
        while len(self._blobs) > 64:
            del self._blobs[next(iter(self._blobs))]

    # Snapshot

    def _fold_if_due(self) -> None:
        due = self.journal.seq - self._snapshot_seq >= self.configuration.journal.snapshot_every_events
        if due and not self.journal.has_snapshot_pending:
            self.fold()

    def fold(self) -> None:
        """Folds the journal into the snapshot with the transaction that is being gathered."""
        self._snapshot_seq = self.journal.seq
        self.journal.fold(changed_records(self.state, self.journal.seq, self._unused_blobs()))

    def _unused_blobs(self) -> list[str]:
        return [name for name in self.store.blob_names() if name not in self.state.blob_uses]

    async def stop(self) -> None:
        """Folds the journal, so that the next start is quick."""
        if self._retry is not None:
            self._retry.cancel()
        if self.journal.broken is None:
            await self.journal.flush()
            if not self.journal.has_snapshot_pending:
                self.fold()
            await self.journal.flush()
        self.timers.clear()
        self.journal.close()
        self.store.close()

    # The store cannot be written

    def _store_failed(self, error: StoreError) -> None:
        """What was not written has not happened: the state is read back as it was, and every effect that
        waited is dropped. As after a kill -9, only quicker."""
        self.timers.clear()
        self.state, self.journal.seq = load(self.store)
        self._snapshot_seq = self.store.snapshot_seq
        self.outside.reloaded()
        if self._retry is None:
            self._retry = asyncio.get_running_loop().create_task(self._retry_store())

    async def _retry_store(self) -> None:
        interval = self.configuration.journal.retry_interval_s
        while True:
            await asyncio.sleep(interval)
            try:
                self.store.probe()
            except StoreError as error:
                log.debug("still not writable: %s", error)
                continue
            break
        log.warning("the journal can be written again")
        self.journal.broken = None
        self._retry = None
        with contextlib.suppress(StoreError):
            await self.start()
        self.outside.schedule()


def _split(effects: list[Effect]) -> tuple[bool, list[Effect]]:
    """A pass may start at once: what it places is written after what made it possible."""
    later: list[Effect] = [effect for effect in effects if not isinstance(effect, Schedule)]
    return len(later) < len(effects), later


def _nothing() -> None:
    pass
