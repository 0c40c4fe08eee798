"""The state as it is given out for simulations: what a restarted controller would have, as of one moment."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from pathlib import Path

import pytest

from minislurm.controller import export as module
from minislurm.controller.export import exported_state
from minislurm.domain.views import StateExport
from minislurm.journal.records import load
from minislurm.journal.store import Batch, Store, StoreError, StoreView
from tests.unit.controller.histories import a_history, write
from tests.unit.journal.test_records import differences


async def _gathered(path: str, between: list[Batch], store: Store) -> StateExport:
    """As the client puts it together; `between` is written while it is being read."""
    export = StateExport(path)
    async for chunk in exported_state(path):
        if chunk.now:
            export.now, export.snapshot_seq = chunk.now, chunk.snapshot_seq
        for item in chunk.records:
            export.by_kind.setdefault(item.kind, []).append((item.id, item.payload))
        export.since += chunk.events
        if between:
            store.write(between.pop())
    return export


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_state(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 3)
    cluster, chance = a_history(seed), random.Random(seed)
    path, last = str(tmp_path / "journal.db"), len(cluster.journal)
    store = Store(path)
    write(cluster, store, {chance.randint(1, last)})
    assert 0 < store.snapshot_seq < last
    export = asyncio.run(_gathered(path, [Batch([(last + 1, cluster.journal[-1])])], store))
    assert store.last_seq == last + 1
    state, seq = load(export)
    assert seq == last, "what came after the reading had begun belongs to another moment"
    assert set(differences(state, cluster.state)) <= {"requests"}
    assert "request" not in export.by_kind
    store.close()


def test_a_view_of_a_journal_that_nobody_has_open(tmp_path: Path) -> None:
    cluster = a_history(1)
    path = tmp_path / "journal.db"
    store = Store(str(path))
    write(cluster, store, {5})
    store.close()
    before = path.read_bytes()
    with StoreView(str(path)) as view:
        state, _ = load(view)
    assert differences(state, cluster.state) == []
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["journal.db"]


def test_a_view_of_what_is_no_journal(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (a)")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match=r"other\.db"):
        StoreView(str(tmp_path / "other.db"))
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at")
    with pytest.raises(StoreError, match="not a database"):
        StoreView(str(tmp_path / "text"))
    with pytest.raises(StoreError, match="none"):
        StoreView(str(tmp_path / "none.db"))
