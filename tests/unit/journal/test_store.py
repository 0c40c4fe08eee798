"""The database: whole transactions or none, and damage that is said instead of passed over."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from minislurm.journal.records import load
from minislurm.journal.store import Batch, Snapshot, Store, StoreError
from tests.unit.controller.histories import a_history, write


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal.db")


@pytest.fixture
def store(path: str) -> Iterator[Store]:
    opened = Store(path)
    yield opened
    opened.close()


def events(first: int, last: int) -> list[tuple[int, bytes]]:
    return [(seq, f"event {seq}".encode()) for seq in range(first, last + 1)]


def copy_of(path: str, to: Path) -> str:
    """What a kill -9 leaves: the file and its log as they are now."""
    target = str(to / "copy.db")
    for suffix in ("", "-wal"):
        if os.path.exists(path + suffix):
            shutil.copyfile(path + suffix, target + suffix)
    return target


def test_what_was_written_is_there_without_a_close(store: Store, path: str, tmp_path: Path) -> None:
    store.write(Batch(events=events(1, 3), blobs={"h": b"#!/bin/sh"}))
    other = Store(copy_of(path, tmp_path))
    assert list(other.events(0)) == events(1, 3)
    assert list(other.events(1)) == events(2, 3)
    assert other.blob("h") == b"#!/bin/sh"
    assert other.last_seq == 3
    other.close()


def test_a_transaction_is_whole_or_not_at_all(store: Store) -> None:
    store.write(Batch(events=events(1, 3)))
    snapshot = Snapshot(3, [("job", "1", b"x")])
    with pytest.raises(StoreError, match="UNIQUE"):
        store.write(Batch(events=[(4, b"new"), (3, b"again")], blobs={"h": b"data"}, snapshot=snapshot))
    assert list(store.events(0)) == events(1, 3)
    assert list(store.records("job")) == []
    assert list(store.blob_names()) == []
    store.write(Batch(events=events(4, 4)))
    assert store.last_seq == 4


def test_only_the_owner_reads_it(store: Store, path: str) -> None:
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_folding(path: str) -> None:
    store = Store(path, keep_events=2)
    store.write(Batch(events=events(1, 5), blobs={"a": b"1", "b": b"2"}))
    records: list[tuple[str, str, bytes | None]] = [("job", "1", b"one"), ("job", "2", b"two")]
    store.write(Batch(snapshot=Snapshot(5, records, ["a"])))
    assert store.snapshot_seq == 5
    assert dict(store.records("job")) == {"1": b"one", "2": b"two"}
    assert [seq for seq, _ in store.events(0)] == [4, 5], "kept for replay"
    assert list(store.blob_names()) == ["b"]
    store.write(Batch(events=events(6, 6), snapshot=Snapshot(6, [("job", "1", None), ("job", "2", b"2")])))
    assert dict(store.records("job")) == {"2": b"2"}
    store.close()
    store = Store(path)
    assert (store.snapshot_seq, store.last_seq) == (6, 6)
    store.close()


def test_an_unknown_blob(store: Store) -> None:
    with pytest.raises(StoreError, match="no stored script or environment nope"):
        store.blob("nope")


def test_a_probe_leaves_nothing(store: Store) -> None:
    store.probe()
    assert list(store.records("probe")) == []


def test_another_format_is_refused(path: str) -> None:
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = 99 WHERE key = 'format'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=r"written by another version \(format 99, this one reads 1\)"):
        Store(path)


def test_a_file_that_is_no_database(path: str) -> None:
    Path(path).write_bytes(b"not a database, however long it may be" * 100)
    with pytest.raises(StoreError, match=r"journal\.db: file is not a database"):
        Store(path)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory"):
        Store(str(tmp_path / "nope" / "journal.db"))


@pytest.mark.parametrize("missing", [1, 2, 5])
def test_a_gap_is_said(tmp_path: Path, missing: int) -> None:
    cluster = a_history(1, 20)
    store = Store(str(tmp_path / "journal.db"))
    write(cluster, store, set())
    store._connection.execute("DELETE FROM events WHERE seq = ?", (missing,))
    with pytest.raises(StoreError, match=f"event {missing} is missing"):
        load(store)
    store.close()


def test_a_gap_behind_the_snapshot_is_said(tmp_path: Path) -> None:
    cluster = a_history(1, 20)
    store = Store(str(tmp_path / "journal.db"))
    write(cluster, store, {10})
    store._connection.execute("DELETE FROM events WHERE seq = 11")
    with pytest.raises(StoreError, match="event 11 is missing"):
        load(store)
    store.close()


def test_an_event_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    cluster = a_history(1, 20)
    store = Store(str(tmp_path / "journal.db"))
    write(cluster, store, set())
    store._connection.execute("UPDATE events SET payload = x'ffffff' WHERE seq = 7")
    with pytest.raises(StoreError, match="event 7: not an event"):
        load(store)
    store.close()


# Damage to the files


@pytest.mark.parametrize("damage", ["cut", "zeroed", "rubbish"])
def test_a_torn_tail_of_the_log_loses_only_the_torn_transaction(
    store: Store, path: str, tmp_path: Path, damage: str
) -> None:
    """The power went while a transaction was written: it was never acknowledged, all before it were."""
    store.write(Batch(events=events(1, 50)))
    acknowledged = os.path.getsize(path + "-wal")
    store.write(Batch(events=events(51, 100)))
    copied = copy_of(path, tmp_path)
    size = os.path.getsize(copied + "-wal")
    assert size > acknowledged
    with open(copied + "-wal", "r+b") as log:
        if damage == "cut":
            log.truncate((acknowledged + size) // 2)
        else:
            log.seek(acknowledged)
            filler = b"\0" if damage == "zeroed" else b"\xa5"
            log.write(filler * (size - acknowledged))
    other = Store(copied)
    assert list(other.events(0)) == events(1, 50)
    other.write(Batch(events=events(51, 51)))
    assert other.last_seq == 51
    other.close()


def test_a_damaged_page_is_never_passed_over(tmp_path: Path) -> None:
    """Each page of the file zeroed in turn: everything is still there, or the damage is said."""
    path = str(tmp_path / "journal.db")
    opened = Store(path)
    opened.write(Batch(events=[(seq, bytes([seq % 256]) * 300) for seq in range(1, 200)]))
    opened.write(Batch(snapshot=Snapshot(50, [("job", str(n), b"j" * 200) for n in range(60)])))
    opened.close()
    whole = Path(path).read_bytes()
    said = 0
    pages = len(whole) // 4096
    assert pages > 10
    for page in range(pages):
        copied = tmp_path / f"page{page}.db"
        copied.write_bytes(whole[: page * 4096] + bytes(4096) + whole[(page + 1) * 4096 :])
        try:
            damaged = Store(str(copied))
        except StoreError:
            said += 1
            continue
        try:
            assert len(list(damaged.events(0))) == 199, f"page {page}: events are missing in silence"
            assert len(list(damaged.records("job"))) == 60, f"page {page}: records are missing in silence"
            assert damaged.snapshot_seq == 50
        except StoreError:
            said += 1
        damaged.close()
    assert said > pages / 2


def test_a_file_cut_short_is_said(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    opened = Store(path)
    opened.write(Batch(events=[(seq, bytes(300)) for seq in range(1, 200)]))
    opened.close()
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)
    with pytest.raises(StoreError):
        list(Store(path).events(0))
