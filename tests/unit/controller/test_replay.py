"""`minislurm replay`: a good journal, and journals that someone has doctored."""

from __future__ import annotations

from pathlib import Path

import pytest

from minislurm.cluster.events import RunPlaced
from minislurm.controller import replay
from minislurm.journal.encoding import decode, encode
from minislurm.journal.store import Store
from tests.builders import a_request
from tests.unit.cluster.acting import a_cluster
from tests.unit.controller.histories import a_history, write


def stored(tmp_path: Path, seed: int = 2, folds: tuple[float, ...] = (), keep: int = 100_000) -> str:
    cluster = a_history(seed)
    path = str(tmp_path / "journal.db")
    store = Store(path, keep_events=keep)
    write(cluster, store, {int(len(cluster.journal) * fold) for fold in folds})
    store.close()
    return path


def doctor(path: str, statement: str, *values: object) -> None:
    store = Store(path)
    store._connection.execute(statement, values)
    store.close()


@pytest.mark.parametrize("folds", [(), (0.5,), (0.3, 1.0)])
def test_a_good_journal(tmp_path: Path, folds: tuple[float, ...], capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, folds=folds)
    before = Path(path).read_bytes()
    assert replay.main(path) == 0
    output = capsys.readouterr().out
    assert "from the beginning to" in output
    assert "every invariant holds" in output
    assert "JobSubmitted" in output
    assert Path(path).read_bytes() == before, "only looked at"


def test_a_journal_whose_beginning_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, folds=(0.5,), keep=0)
    assert replay.main(path) == 0
    assert "from the snapshot at event" in capsys.readouterr().out


def test_a_running_controllers_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is still in the write-ahead log counts."""
    cluster = a_history(2)
    store = Store(str(tmp_path / "journal.db"))
    write(cluster, store, set())
    assert replay.main(str(tmp_path / "journal.db")) == 0
    assert f"replayed {len(cluster.journal)} events" in capsys.readouterr().out
    store.close()


def test_verbose_shows_each_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.main(stored(tmp_path), verbose=True) == 0
    assert "1 ClusterConfigured(" in capsys.readouterr().out


def test_no_such_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.main(str(tmp_path / "nope")) == 1
    assert "no such journal" in capsys.readouterr().err


def test_not_a_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text"
    path.write_text("hello " * 1000)
    assert replay.main(str(path)) == 1
    assert "not a database" in capsys.readouterr().err


def test_a_missing_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path)
    doctor(path, "DELETE FROM events WHERE seq = 9")
    assert replay.main(path) == 1
    assert "event 9 is missing" in capsys.readouterr().err


def test_a_missing_event_behind_the_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, folds=(0.5,), keep=0)
    store = Store(path)
    first = store.snapshot_seq + 1
    store.close()
    doctor(path, "DELETE FROM events WHERE seq = ?", first)
    assert replay.main(path) == 1
    assert f"event {first} is missing" in capsys.readouterr().err


def test_an_event_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path)
    doctor(path, "UPDATE events SET payload = x'ffff' WHERE seq = 4")
    assert replay.main(path) == 1
    assert "event 4: not an event" in capsys.readouterr().err


def test_an_event_that_breaks_an_invariant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a gang."""
    cluster = a_cluster(2)
    cluster.submit(request=a_request(2))
    cluster.run(1)
    events = [decode(payload) for payload in cluster.journal]
    at = next(i for i, event in enumerate(events) if isinstance(event, RunPlaced))
    placed = events[at]
    assert isinstance(placed, RunPlaced)
    half = RunPlaced(placed.time, placed.job_id, placed.run, placed.allocation[:1])
    cluster.journal[at] = encode(half)
    store = Store(str(tmp_path / "journal.db"))
    write(cluster, store, set())
    store.close()
    assert replay.main(str(tmp_path / "journal.db")) == 1
    assert f"event {at + 1} RunPlaced: 1: fewer nodes than the gang needs" in capsys.readouterr().err


@pytest.mark.parametrize("table", ["job", "node"])
def test_a_snapshot_that_is_not_the_journals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    path = stored(tmp_path, folds=(0.9,))
    doctor(path, "DELETE FROM records WHERE kind = ? AND id = (SELECT max(id) FROM records WHERE kind = ?)",
           table, table)  # fmt: skip
    assert replay.main(path) == 1
    assert f"the snapshot differs in {table}s" in capsys.readouterr().err
