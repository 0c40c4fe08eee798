"""`minislurm replay JOURNAL`: the state again, from nothing but the journal, every invariant checked."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter

from msgspec.structs import replace

from minislurm.cluster.apply import apply
from minislurm.cluster.check import check
from minislurm.cluster.events import Event, RequestsForgotten
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import MinislurmError
from minislurm.domain.node import Node
from minislurm.journal.records import events_since, load_snapshot
from minislurm.journal.store import Store


def main(path: str, *, verbose: bool = False) -> int:
    """Prints what was replayed; 1 if an invariant broke, or if the journal's own snapshot differs."""
    if not os.path.exists(path):
        print(f"minislurm: error: {path}: no such journal", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        # A copy, so that a running controller's journal can be looked at without touching it.
        copied = os.path.join(folder, "journal.db")
        for suffix in ("", "-wal"):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, copied + suffix)
        try:
            store = Store(copied)
            return _replay(store, verbose)
        except MinislurmError as error:
            print(f"minislurm: error: {error}", file=sys.stderr)
            return 1


def _replay(store: Store, verbose: bool) -> int:
    first = next((seq for seq, _ in store.events(0)), None)
    whole = first == 1
    # Old events are dropped; then the snapshot is the beginning.
    state, after = (ClusterState(), 0) if whole else (load_snapshot(store), store.snapshot_seq)
    kinds: Counter[str] = Counter()
    last = after
    before: Event = RequestsForgotten(0.0)  # nothing yet
    snapshot = load_snapshot(store) if whole and store.snapshot_seq else None
    for seq, event in events_since(store, after):
        if event.time != before.time and not _holds(state, last, before):
            return 1
        if verbose:
            print(f"{seq} {event}")
        apply(state, event)
        before = event
        if snapshot is not None and seq == store.snapshot_seq and (name := _difference(state, snapshot)):
            print(f"event {seq}: the snapshot differs in {name}", file=sys.stderr)
            return 1
        kinds[type(event).__name__] += 1
        last = seq
    if not _holds(state, last, before):
        return 1
    start = "the beginning" if whole else f"the snapshot at event {after}"
    print(f"replayed {sum(kinds.values())} events from {start} to {last}: every invariant holds")
    for name, count in kinds.most_common():
        print(f"  {count:8d} {name}")
    states = Counter(job.state.value for job in state.jobs.values())
    print(f"jobs: {len(state.jobs)} " + " ".join(f"{name}={n}" for name, n in sorted(states.items())))
    print(f"nodes: {len(state.nodes)}")
    return 0


def _holds(state: ClusterState, seq: int, event: Event) -> bool:
    """Invariants hold between transactions, whose events share one time; within one, a run that every node
    has let go is still to be ended."""
    try:
        check(state)
    except AssertionError as error:
        print(f"event {seq} {type(event).__name__}: {error}", file=sys.stderr)
        return False
    return True


def _difference(state: ClusterState, snapshot: ClusterState) -> str:
    """What the two do not have in common; "" if they are the same."""
    for table in ("jobs", "arrays", "requests", "partition_states"):
        replayed, stored = getattr(state, table), getattr(snapshot, table)
        for key in sorted({*replayed, *stored}):
            if replayed.get(key) != stored.get(key):
                return f"{table}: {key}"
    for name in sorted({*state.nodes, *snapshot.nodes}):
        if _journaled(state.nodes.get(name)) != _journaled(snapshot.nodes.get(name)):
            return f"nodes: {name}"
    if state.accounts.tree != snapshot.accounts.tree or state.accounts.version != snapshot.accounts.version:
        return "the account tree"
    for who in sorted({*state.accounts.usage, *snapshot.accounts.usage}):
        if state.accounts.usage.get(who) != snapshot.accounts.usage.get(who):
            return f"usage: {who[1]} in {who[0]}"
    if state.placements != snapshot.placements:
        return "the number of placements"
    return "" if state.next_job_id == snapshot.next_job_id else "the next job id"


def _journaled(node: Node | None) -> Node | None:
    return replace(node, cpu_load=0.0, free_memory_mib=0) if node is not None else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
