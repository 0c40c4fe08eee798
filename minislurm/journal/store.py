"""The database behind the state: events, the snapshot they fold into, scripts and environments.

SQLite in WAL mode with synchronous=FULL: when `write` returns, what it wrote survives a kill -9 and a power
cut. One connection writes (the journal's thread), others may read. The snapshot is not one image but
the records themselves, of which only those that have changed are rewritten; `snapshot_seq` says up to
which event they are true.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from msgspec import Struct, field

from minislurm.domain.errors import MinislurmError

FORMAT = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, payload BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS records
    (kind TEXT NOT NULL, id TEXT NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS blobs (hash TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
"""


class StoreError(MinislurmError):
    """The database cannot be read or written (disk full, read-only, damaged)."""


class Snapshot(Struct):
    """Changed records, by kind and id; None for a record that is gone."""

    seq: int
    records: list[tuple[str, str, bytes | None]] = field(default_factory=list)
    unused_blobs: list[str] = field(default_factory=list)


class Batch(Struct):
    """What one transaction writes."""

    events: list[tuple[int, bytes]] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    snapshot: Snapshot | None = None


class _Readable:
    """What any connection can tell."""

    path: str
    _reader: sqlite3.Connection

    def _meta(self, key: str) -> int:
        row = self._reader.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return int(row[0]) if row else 0

    @property
    def snapshot_seq(self) -> int:
        return self._meta("snapshot_seq")

    @property
    def last_seq(self) -> int:
        row = self._reader.execute("SELECT max(seq) FROM events").fetchone()
        return max(int(row[0] or 0), self.snapshot_seq)

    def records(self, kind: str) -> Iterator[tuple[str, bytes]]:
        with _errors(self.path):
            yield from self._reader.execute("SELECT id, payload FROM records WHERE kind = ?", (kind,))

    def events(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Events with a number above `after`, in order; raises StoreError at a gap."""
        expected = None
        with _errors(self.path):
            rows = self._reader.execute(
                "SELECT seq, payload FROM events WHERE seq > ? ORDER BY seq", (after,)
            )
            for seq, payload in rows:
                if expected is not None and seq != expected:
                    raise StoreError(f"{self.path}: event {expected} is missing")
                expected = seq + 1
                yield seq, payload


class Store(_Readable):
    def __init__(self, path: str, *, keep_events: int = 20_000) -> None:
        """Opens or makes the database. Raises StoreError if it cannot, or if it is of another format."""
        self.path = path
        self._keep_events = keep_events
        with _errors(path):
            if not os.path.exists(path):
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.executescript(_SCHEMA)
            # Readers of their own never wait for a transaction that the journal's thread is writing.
            self._reader = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            found = self._meta("format")
            if not found:
                self._connection.execute("INSERT INTO meta VALUES ('format', ?)", (FORMAT,))
        if found not in (0, FORMAT):
            raise StoreError(f"{path}: written by another version (format {found}, this one reads {FORMAT})")

    def close(self) -> None:
        with _errors(self.path):
            self._reader.close()
            self._connection.close()

    def write(self, batch: Batch) -> None:
        """All of it or nothing, and durable. Raises StoreError; then nothing of it is there."""
        connection = self._connection
        with _errors(self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?)", list(batch.blobs.items()))
                connection.executemany("INSERT INTO events VALUES (?, ?)", batch.events)
                if batch.snapshot is not None:
                    self._fold(batch.snapshot, batch.blobs)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def probe(self) -> None:
        """Raises StoreError while nothing can be written."""
        # As large as a usual transaction: a disk with one free page is still a full disk.
        filler = os.urandom(256 * 1024)
        with _errors(self.path):
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute("INSERT OR REPLACE INTO records VALUES ('probe', '', ?)", (filler,))
                connection.execute("COMMIT")
                connection.execute("DELETE FROM records WHERE kind = 'probe'")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _fold(self, snapshot: Snapshot, wanted: Mapping[str, bytes]) -> None:
        """`wanted`: scripts that jobs of this very transaction need, though they were unused until then."""
        connection = self._connection
        kept = [(k, i, p) for k, i, p in snapshot.records if p is not None]
        gone = [(k, i) for k, i, p in snapshot.records if p is None]
        connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", kept)
        connection.executemany("DELETE FROM records WHERE kind = ? AND id = ?", gone)
        unused = [(name,) for name in snapshot.unused_blobs if name not in wanted]
        connection.executemany("DELETE FROM blobs WHERE hash = ?", unused)
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('snapshot_seq', ?)", (snapshot.seq,))
        connection.execute("DELETE FROM events WHERE seq <= ?", (snapshot.seq - self._keep_events,))

    def blob(self, name: str) -> bytes:
        """A script or environment by its hash. Raises StoreError if it is not there."""
        with _errors(self.path):
            row = self._reader.execute("SELECT data FROM blobs WHERE hash = ?", (name,)).fetchone()
        if row is None:
            raise StoreError(f"{self.path}: no stored script or environment {name}")
        return bytes(row[0])

    def blob_names(self) -> Iterable[str]:
        with _errors(self.path):
            return [row[0] for row in self._reader.execute("SELECT hash FROM blobs")]


class StoreView(_Readable):
    """The database as of one moment, for a reader beside whoever writes it. Use as a context manager."""

    def __init__(self, path: str) -> None:
        """Changes nothing in it. Raises StoreError if it is no journal, or of another format."""
        self.path = path
        # Where nobody has it open and the folder is not ours, SQLite could not make its lock file.
        lock = "" if os.path.exists(f"{path}-wal") else "&immutable=1"
        with _errors(path):
            self._reader = sqlite3.connect(
                f"file:{quote(path)}?mode=ro{lock}", uri=True, check_same_thread=False, isolation_level=None
            )
            self._reader.execute("BEGIN")
            found = self._meta("format")
        if found != FORMAT:
            self._reader.close()
            raise StoreError(f"{path}: written by another version (format {found}, this one reads {FORMAT})")

    def __enter__(self) -> StoreView:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def all_records(self) -> Iterator[tuple[str, str, bytes]]:
        """Kind, id and payload of each."""
        with _errors(self.path):
            yield from self._reader.execute("SELECT kind, id, payload FROM records")


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: {error}") from error
