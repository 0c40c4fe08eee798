"""Group commit: order, effects only after the commit, and what happens when the store fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from minislurm.controller.journal import Journal
from minislurm.journal.store import Batch, Snapshot, Store, StoreError


class FaultyStore(Store):
    """The real one, on a disk that can be filled."""

    full = False

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.transactions: list[int] = []

    def write(self, batch: Batch) -> None:
        if self.full:
            raise StoreError("database or disk is full")
        super().write(batch)
        self.transactions.append(len(batch.events))


def with_journal(
    tmp_path: Path,
    story: Callable[[Journal, FaultyStore, list[StoreError]], Awaitable[None]],
    *,
    group_commit_s: float = 0.0,
) -> None:
    async def main() -> None:
        store = FaultyStore(str(tmp_path / "journal.db"))
        failures: list[StoreError] = []
        journal = Journal(store, 0, group_commit_s=group_commit_s, on_failure=failures.append)
        await story(journal, store, failures)
        await journal.flush()
        journal.close()
        store.close()

    asyncio.run(asyncio.wait_for(main(), 20))


def test_callbacks_come_in_order_and_after_the_commit(tmp_path: Path) -> None:
    async def story(journal: Journal, store: FaultyStore, failures: list[StoreError]) -> None:
        seen: list[tuple[int, int]] = []
        for number in range(1, 31):
            assert journal.append(b"e%d" % number) == number
            journal.after_commit(lambda n=number: seen.append((n, store.last_seq)))  # type: ignore[misc]
            if number % 7 == 0:
                await asyncio.sleep(0)
        assert not [n for n, _ in seen if n > store.last_seq]
        await journal.flush()
        assert [n for n, _ in seen] == list(range(1, 31))
        assert all(durable >= n for n, durable in seen), "an effect before its event was durable"
        assert [data for _, data in store.events(0)] == [b"e%d" % n for n in range(1, 31)]
        assert not failures

    with_journal(tmp_path, story)


def test_what_arrives_while_one_is_written_shares_the_next(tmp_path: Path) -> None:
    async def story(journal: Journal, store: FaultyStore, failures: list[StoreError]) -> None:
        for _ in range(100):
            journal.append(b"x")
        journal.after_commit(lambda: None)
        while not store.transactions:
            await asyncio.sleep(0)
        for _ in range(50):
            journal.append(b"y")
            journal.after_commit(lambda: None)
        await journal.flush()
        assert store.transactions == [100, 50]

    with_journal(tmp_path, story)


def test_group_commit_waits_for_more(tmp_path: Path) -> None:
    async def story(journal: Journal, store: FaultyStore, failures: list[StoreError]) -> None:
        for _ in range(5):
            journal.append(b"x")
            journal.after_commit(lambda: None)
            await asyncio.sleep(0.001)
        await journal.flush()
        assert store.transactions == [5]

    with_journal(tmp_path, story, group_commit_s=0.2)


def test_a_snapshot_goes_with_the_events_before_it(tmp_path: Path) -> None:
    async def story(journal: Journal, store: FaultyStore, failures: list[StoreError]) -> None:
        journal.store_blob("h", b"data")
        journal.append(b"x")
        journal.fold(Snapshot(1, [("job", "1", b"r")]))
        assert journal.has_snapshot_pending
        await journal.flush()
        assert not journal.has_snapshot_pending
        assert (store.snapshot_seq, dict(store.records("job"))) == (1, {"1": b"r"})
        assert store.blob("h") == b"data"

    with_journal(tmp_path, story)


def test_with_nothing_to_write_callbacks_come_at_once(tmp_path: Path) -> None:
    async def story(journal: Journal, store: FaultyStore, failures: list[StoreError]) -> None:
        done = asyncio.Event()
        journal.after_commit(done.set)
        await asyncio.wait_for(done.wait(), 5)
        assert store.transactions == []

    with_journal(tmp_path, story)


@pytest.mark.parametrize("later_too", [True, False])
def test_a_failure_drops_everything_and_says_so_once(tmp_path: Path, later_too: bool) -> None:
    async def story(journal: Journal, store: FaultyStore, failures: list[StoreError]) -> None:
        journal.append(b"good")
        await journal.flush()
        store.full = True
        done: list[str] = []
        failed: list[str] = []
        for name in ("a", "b"):
            journal.append(b"lost")
            journal.after_commit(lambda n=name: done.append(n), lambda e, n=name: failed.append(n))  # type: ignore[misc]
        await asyncio.sleep(0)  # taken, being written
        if later_too:
            journal.append(b"built on what is lost")
            journal.after_commit(lambda: done.append("c"), lambda e: failed.append("c"))
        while not failures:
            await asyncio.sleep(0.001)
        assert done == []
        assert failed == (["a", "b", "c"] if later_too else ["a", "b"])
        assert len(failures) == 1
        assert str(failures[0]) == "database or disk is full"
        assert journal.broken is failures[0]
        assert [data for _, data in store.events(0)] == [b"good"]

        # While it is broken nothing new is taken, even if there is room again.
        store.full = False
        journal.append(b"too early")
        journal.after_commit(lambda: done.append("d"), lambda e: failed.append("d"))
        while "d" not in failed:
            await asyncio.sleep(0.001)
        assert done == []
        assert len(list(store.events(0))) == 1

        journal.broken = None
        journal.seq = store.last_seq
        assert journal.append(b"again") == 2
        await journal.flush()
        assert [data for _, data in store.events(0)] == [b"good", b"again"]

    with_journal(tmp_path, story)
