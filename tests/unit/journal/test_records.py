"""The state from the store is the state that was; wherever the journal was folded."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from minislurm.cluster.check import check
from minislurm.cluster.state import ClusterState
from minislurm.journal.records import load
from minislurm.journal.store import Store
from tests.unit.controller.histories import a_history, write

COMPARED = (
    "jobs",
    "nodes",
    "arrays",
    "partition_states",
    "partition_settings",
    "requests",
    "reservations",
    "licenses_used",
    "next_job_id",
    "configuration",
    "configuration_text",
    "topology",
    "partitions",
    "partitions_of_node",
    "queue",
    "active",
    "dependents",
    "singletons",
    "tasks",
    "het_jobs",
    "blob_uses",
)


def differences(one: ClusterState, other: ClusterState) -> list[str]:
    names = [name for name in COMPARED if getattr(one, name) != getattr(other, name)]
    if dict(one.ended) != dict(other.ended):
        names.append("ended")
    ours, theirs = one.accounts, other.accounts
    for name in ("tree", "version", "usage", "submitted"):
        if getattr(ours, name) != getattr(theirs, name):
            names.append(f"accounts.{name}")
    if ours.limits.ledger.uses != theirs.limits.ledger.uses:
        names.append("accounts.limits")
    return names


@pytest.mark.parametrize("seed", range(12))
def test_loaded_is_live(seed: int, tmp_path: Path) -> None:
    cluster = a_history(seed)
    chance = random.Random(seed)
    last = len(cluster.journal)
    folds = {chance.randint(1, last) for _ in range(chance.randint(0, 6))}
    if seed % 3 == 0:
        folds.add(last)
    store = Store(str(tmp_path / "journal.db"), keep_events=chance.choice([0, 10, 100_000]))
    write(cluster, store, folds)
    state, seq = load(store)
    assert seq == last
    assert differences(state, cluster.state) == [], f"seed {seed}"
    check(state)
    store.close()


def test_the_histories_are_rich_enough() -> None:
    """What never happens in them is not tested above."""
    from minislurm.cluster.events import Event
    from minislurm.journal.encoding import decode

    kinds = {type(decode(p)).__name__ for seed in range(12) for p in a_history(seed).journal}
    everything = {cls.__name__ for cls in Event.__args__}  # type: ignore[attr-defined]
    assert everything - kinds <= {
        "CheckpointWithdrawn",
        "JobSignalled",
        "RequestHandled",
        "StaleRunEnded",
        "StepCreated",
        "StepNodeEnded",
    }


def test_a_folded_store_goes_on(tmp_path: Path) -> None:
    """Loaded, written on and loaded again."""
    path = str(tmp_path / "journal.db")
    cluster = a_history(3)
    store = Store(path, keep_events=0)
    write(cluster, store, {len(cluster.journal) // 2})
    store.close()
    store = Store(path)
    state, seq = load(store)
    assert seq == len(cluster.journal)
    assert not state.touched.jobs or store.snapshot_seq < seq
    store.close()


def test_specifications_are_shared(tmp_path: Path) -> None:
    """A thousand jobs of one loop have one specification between them in memory."""
    from tests.sim.cluster import SimCluster

    cluster = SimCluster()
    for _ in range(20):
        cluster.submit(hold=True)
    store = Store(str(tmp_path / "journal.db"))
    write(cluster, store, {len(cluster.journal)})
    state, _ = load(store)
    assert len(state.jobs) == 20
    assert len({id(job.spec) for job in state.jobs.values()}) == 1
    store.close()


def test_an_empty_store(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "journal.db"))
    state, seq = load(store)
    assert (seq, state.jobs, state.next_job_id) == (0, {}, 1)
    store.close()
