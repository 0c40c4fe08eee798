"""What is stored of the state, for a simulation that starts from it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import islice

from minislurm.journal.store import StoreView
from minislurm.rpc.gen import controller_pb2

_CHUNK = 200
#: Answers to clients' calls decide nothing.
_LEFT_OUT = frozenset({"request"})


async def exported_state(path: str) -> AsyncIterator[controller_pb2.StateChunk]:
    """In chunks, giving way between them; the first says what the others are true of. Raises StoreError."""
    with StoreView(path) as view:
        yield controller_pb2.StateChunk(now=time.time(), snapshot_seq=view.snapshot_seq)
        records = view.all_records()
        while found := list(islice(records, _CHUNK)):
            chunk = controller_pb2.StateChunk()
            for kind, name, payload in found:
                if kind not in _LEFT_OUT:
                    chunk.records.add(kind=kind, id=name, payload=payload)
            yield chunk
            await asyncio.sleep(0)
        events = view.events(view.snapshot_seq)
        while payloads := [payload for _, payload in islice(events, _CHUNK)]:
            yield controller_pb2.StateChunk(events=payloads)
            await asyncio.sleep(0)
