"""Keeps the node's lease: renews it at each word from the controller, asks the witnesses when there is none,
and says when it has ended. What is decided is decided in `isolation.py`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Awaitable, Callable, Sequence

from minislurm.domain.configuration import TimersSection
from minislurm.domain.ids import NodeName
from minislurm.domain.node import Witness
from minislurm.node import lease
from minislurm.node.isolation import Isolation, Vote

log = logging.getLogger(__name__)

Ask = Callable[[Sequence[Witness], float], Awaitable[list[Vote]]]
#: The lease is looked at this often at least.
_LONGEST_SLEEP_S = 1.0


class LeaseKeeper:
    """`directory`: the spool. `ask`: the witnesses, with a time-out; `on_end`: nothing may go on here."""

    def __init__(
        self, timers: TimersSection, directory: str, *, ask: Ask, on_end: Callable[[], None]
    ) -> None:
        self.path = f"{directory}/lease"
        now = lease.now()
        self.isolation = Isolation.begin(timers.node_timeout_s, timers.node_suspect_s, now)
        self._ask = ask
        self._on_end = on_end
        self._begun = now
        self._was_heard = False
        self._has_ended = False
        self._witness_path = f"{directory}/witnesses"
        self.isolation.witnesses = _read_witnesses(self._witness_path)
        self._file: lease.LeaseFile | None = None

    def begin(self, *, has_runs: bool) -> None:
        """`has_runs`: an earlier daemon left runs behind; their lease goes on, it does not begin anew. Raises
        OSError."""
        isolation = self.isolation
        if has_runs:
            isolation.until = min(lease.now() + lease.left_s(self.path), isolation.until)
            isolation.confirmed = isolation.until - isolation.timeout_s
        self._file = lease.LeaseFile(self.path)
        self._file.write(isolation.until)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def heard(self, sent: float) -> None:
        """The controller has answered what was sent then."""
        self._was_heard = True
        self.isolation.confirm(sent)
        self._write()

    def told_witnesses(self, witnesses: tuple[Witness, ...]) -> None:
        """On disk too: the next daemon may have to ask before it has heard anything."""
        self.isolation.witnesses = witnesses
        rows = [[one.node, one.address, one.port] for one in witnesses]
        try:
            with open(f"{self._witness_path}.new", "w", encoding="utf-8") as file:
                json.dump(rows, file)
            os.replace(f"{self._witness_path}.new", self._witness_path)
        except OSError as error:
            log.warning("witnesses are not on disk: %s", error)

    def vote(self) -> Vote:
        """What this node says as a witness."""
        now = lease.now()
        silence_s = now - self.isolation.confirmed if self._was_heard else None
        return Vote(silence_s, now - self._begun)

    async def run(self) -> None:
        """Until cancelled."""
        isolation = self.isolation
        while True:
            now = lease.now()
            if isolation.asks(now):
                await self._ask_witnesses(now)
            now = lease.now()
            if isolation.has_ended(now) and not self._has_ended:
                self._has_ended = True
                log.error("cut off from the controller: ending what runs here")
                self._on_end()
            pause_s = min(_LONGEST_SLEEP_S, isolation.ask_interval_s)
            if not self._has_ended:
                pause_s = min(pause_s, max(0.02, isolation.until - now))
            await asyncio.sleep(pause_s)

    async def _ask_witnesses(self, now: float) -> None:
        isolation = self.isolation
        isolation.last_asked = now
        left_s = isolation.until - now
        timeout_s = min(isolation.ask_interval_s, max(left_s, 0.1))
        votes = await self._ask(isolation.witnesses or (), timeout_s) if isolation.witnesses else []
        if isolation.has_ended(lease.now()):
            return  # too late: what has ended stays so until the controller is heard
        if isolation.judge(votes, now):
            self._write()

    def _write(self) -> None:
        self._has_ended = self._has_ended and self.isolation.has_ended(lease.now())
        assert self._file is not None, "not begun"
        try:
            self._file.write(self.isolation.until)
        except OSError as error:  # it ends too early, never too late
            log.error("the lease is not on disk: %s", error)


def _read_witnesses(path: str) -> tuple[Witness, ...] | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
        return tuple(Witness(NodeName(str(node)), str(address), int(port)) for node, address, port in rows)
    return None
