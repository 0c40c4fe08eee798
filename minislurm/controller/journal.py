"""Group commit: everything that has arrived while one transaction is written goes into the next.

`append` is called by the core for each event, in order. Effects and replies wait in `after_commit`, and
run only when the events before them are durable. If the store fails, nothing of the batch has happened:
`on_failure` is called, and the state must be read from the store again (daemon.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct, field

from minislurm.journal.store import Batch, Snapshot, Store, StoreError

log = logging.getLogger(__name__)


class _Pending(Struct):
    batch: Batch = field(default_factory=Batch)
    done: list[Callable[[], None]] = field(default_factory=list)
    failed: list[Callable[[StoreError], None]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.batch.events or self.done or self.batch.snapshot)


class Journal:
    def __init__(
        self, store: Store, seq: int, *, group_commit_s: float, on_failure: Callable[[StoreError], None]
    ) -> None:
        self.seq = seq
        self._store = store
        self._group_commit_s = group_commit_s
        self._on_failure = on_failure
        self._pending = _Pending()
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        #: Set while the store cannot be written.
        self.broken: StoreError | None = None

    def append(self, payload: bytes) -> int:
        """The event's number. It is durable when the callbacks given to `after_commit` after it run."""
        self.seq += 1
        self._pending.batch.events.append((self.seq, payload))
        return self.seq

    def store_blob(self, name: str, data: bytes) -> None:
        self._pending.batch.blobs[name] = data

    def fold(self, snapshot: Snapshot) -> None:
        assert self._pending.batch.snapshot is None, "one snapshot a transaction"
        self._pending.batch.snapshot = snapshot

    @property
    def has_snapshot_pending(self) -> bool:
        return self._pending.batch.snapshot is not None

    def after_commit(
        self, done: Callable[[], None], failed: Callable[[StoreError], None] | None = None
    ) -> None:
        """`done` runs when everything appended so far is durable, at once if it is already."""
        self._pending.done.append(done)
        if failed is not None:
            self._pending.failed.append(failed)
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._pending:
                if self._group_commit_s:
                    await asyncio.sleep(self._group_commit_s)
                taken, self._pending = self._pending, _Pending()
                await self._write_one(taken)
        finally:
            self._writer = None

    async def _write_one(self, taken: _Pending) -> None:
        batch = taken.batch
        if batch.events or batch.snapshot or batch.blobs:
            try:
                if self.broken is not None:
                    raise self.broken
                await asyncio.get_running_loop().run_in_executor(self._thread, self._store.write, batch)
            except StoreError as error:
                self._fail(taken, error)
                return
        for callback in taken.done:
            callback()

    def _fail(self, taken: _Pending, error: StoreError) -> None:
        """Nothing of this batch, nor of what was built on it since, has happened."""
        log.error("the journal cannot be written: %s", error)
        later, self._pending = self._pending, _Pending()
        self.broken = error
        for callback in (*taken.failed, *later.failed):
            callback(error)
        self._on_failure(error)

    async def flush(self) -> None:
        """Returns when everything appended so far is durable, or has failed."""
        done = asyncio.get_running_loop().create_future()

        def finish() -> None:
            if not done.done():
                done.set_result(None)

        self.after_commit(finish, lambda error: finish())
        await done

    def close(self) -> None:
        self._thread.shutdown(wait=True)
