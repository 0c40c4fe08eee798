"""The state to stored records and back: of a store, or of what a controller sent of its own.

Specifications shared by many jobs are decoded once.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Protocol, TypeVar

from minislurm.cluster.accounts import UsageRecord
from minislurm.cluster.apply import apply
from minislurm.cluster.budgets import SpendingRecord
from minislurm.cluster.events import Event
from minislurm.cluster.history import HistoryRecord
from minislurm.cluster.state import ArraySummary, ClusterState, RequestRecord
from minislurm.domain import configuration_file
from minislurm.domain.accounts import AccountChanges, AccountTree
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.node import Node
from minislurm.domain.reservation import Reservation
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.states import PartitionState
from minislurm.journal.encoding import decode
from minislurm.journal.store import Snapshot, StoreError
from minislurm.rpc import codec
from minislurm.rpc.gen import common_pb2, journal_pb2

K = TypeVar("K")
V = TypeVar("V")


class Stored(Protocol):
    """Records that are true as of event `snapshot_seq`, and the events since. `path`: for messages."""

    @property
    def path(self) -> str: ...
    @property
    def snapshot_seq(self) -> int: ...
    def records(self, kind: str) -> Iterator[tuple[str, bytes]]: ...
    def events(self, after: int) -> Iterator[tuple[int, bytes]]: ...


def changed_records(state: ClusterState, seq: int, unused_blobs: list[str]) -> Snapshot:
    """Encodes what has been touched since the last snapshot, true as of event `seq`; empties the list."""
    snapshot = Snapshot(seq, unused_blobs=unused_blobs)
    touched = state.touched
    snapshot.records += _take("job", touched.jobs, state.jobs)
    snapshot.records += _take("node", touched.nodes, state.nodes)
    snapshot.records += _take("array", touched.arrays, state.arrays)
    snapshot.records += _take("request", touched.requests, state.requests)
    snapshot.records += _take("reservation", touched.reservations, state.reservations)
    snapshot.records += _take("usage", state.accounts.touched_usage, state.accounts.usage)
    snapshot.records += _take("spending", state.accounts.budgets.touched, state.accounts.budgets.spending)
    snapshot.records += _take("history", state.history.touched, state.history.records)
    if state.accounts.touched_tree:
        state.accounts.touched_tree = False
        records = codec.to_proto(state.accounts.tree.records())
        snapshot.records.append(("accounts", "", records.SerializeToString()))
    header = journal_pb2.StateHeader(
        accounts_version=state.accounts.version,
        next_job_id=state.next_job_id,
        placements=state.placements,
        configuration=state.configuration_text,
        partition_states={name: value.value for name, value in state.partition_states.items()},
    )
    for name, settings in state.partition_settings.items():
        header.partition_settings[name].values.update(settings)
    snapshot.records.append(("header", "", header.SerializeToString()))
    return snapshot


def _take(kind: str, keys: set[K], table: dict[K, V]) -> list[tuple[str, str, bytes | None]]:
    records: list[tuple[str, str, bytes | None]] = []
    for key in keys:
        record = table.get(key)
        payload = codec.to_proto(record).SerializeToString() if record is not None else None
        records.append((kind, str(key), payload))
    keys.clear()
    return records


def load(store: Stored) -> tuple[ClusterState, int]:
    """The state as of the last event in the store, and that event's number."""
    # Nothing of what is made here is garbage; looking for some doubles the time of a start.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _load(store)
    finally:
        if was_enabled:
            gc.enable()


def _load(store: Stored) -> tuple[ClusterState, int]:
    state = load_snapshot(store)
    seq = store.snapshot_seq
    for number, event in events_since(store, seq):
        apply(state, event)
        seq = number
    return state, seq


def events_since(store: Stored, seq: int) -> Iterator[tuple[int, Event]]:
    """Those behind that number, with their own. Raises StoreError where one is missing or cannot be read."""
    for number, payload in store.events(seq):
        if number != seq + 1:
            raise StoreError(f"{store.path}: event {seq + 1} is missing")
        try:
            event = decode(payload)
        except ValueError as error:
            raise StoreError(f"{store.path}: event {number}: {error}") from error
        yield number, event
        seq = number


def load_snapshot(store: Stored) -> ClusterState:
    state = ClusterState()
    header = journal_pb2.StateHeader()
    for _, payload in store.records("header"):
        header.ParseFromString(payload)
    for _, payload in store.records("node"):
        node = codec.from_proto(Node, common_pb2.Node.FromString(payload))
        state.nodes[node.name] = node
    for _, payload in store.records("array"):
        summary = codec.from_proto(ArraySummary, journal_pb2.ArraySummary.FromString(payload))
        state.arrays[summary.id] = summary
    for _, payload in store.records("request"):
        request = codec.from_proto(RequestRecord, journal_pb2.RequestRecord.FromString(payload))
        state.requests[request.request_id] = request
    for _, payload in store.records("reservation"):
        reservation = codec.from_proto(Reservation, common_pb2.Reservation.FromString(payload))
        state.reservations[reservation.name] = reservation
    for _, payload in store.records("accounts"):
        changes = codec.from_proto(AccountChanges, common_pb2.AccountChanges.FromString(payload))
        state.accounts.tree = AccountTree().changed(changes)
    for _, payload in store.records("usage"):
        usage = codec.from_proto(UsageRecord, journal_pb2.UsageRecord.FromString(payload))
        state.accounts.usage[usage.account, usage.user] = usage
    for _, payload in store.records("spending"):
        spending = codec.from_proto(SpendingRecord, journal_pb2.SpendingRecord.FromString(payload))
        state.accounts.budgets.spending[spending.account] = spending
    for _, payload in store.records("history"):
        history = codec.from_proto(HistoryRecord, journal_pb2.HistoryRecord.FromString(payload))
        state.history.records[history.user_id, history.similar] = history
    state.accounts.version = header.accounts_version
    state.partition_states = {k: PartitionState(v) for k, v in header.partition_states.items()}
    state.partition_settings = {k: dict(v.values) for k, v in header.partition_settings.items()}
    if header.configuration:
        state.configure(configuration_file.from_json(header.configuration))
        state.configuration_text = header.configuration
    state.next_job_id = JobId(max(header.next_job_id, state.next_job_id))
    state.placements = header.placements
    specs = _SpecCache()
    state.rebuild([specs.job(payload) for _, payload in store.records("job")])
    state.touched.jobs.clear()
    state.touched.nodes.clear()
    return state


class _SpecCache:
    """Ten thousand jobs of one array, or of one loop, have one specification between them."""

    def __init__(self) -> None:
        self._specs: dict[bytes, JobSpec] = {}
        self._requests: dict[bytes, ResourceRequest] = {}

    def job(self, payload: bytes) -> Job:
        message = common_pb2.Job()
        message.ParseFromString(payload)
        data = message.spec.SerializeToString()
        spec = self._specs.get(data)
        if spec is None:
            spec = codec.from_proto_with(JobSpec, message.spec, request=self._request(message.spec.request))
            self._specs[data] = spec
        message.ClearField("spec")
        return codec.from_proto_with(Job, message, spec=spec)

    def _request(self, message: common_pb2.ResourceRequest) -> ResourceRequest:
        data = message.SerializeToString()
        request = self._requests.get(data)
        if request is None:
            request = self._requests[data] = codec.from_proto(ResourceRequest, message)
        return request
