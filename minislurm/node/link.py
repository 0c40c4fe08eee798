"""The stream to the controller: registration, heartbeats and reports up, commands down.

It is dialled again for ever. A report is kept until the controller, which has journaled it by then, says so,
and is sent again on the next stream with a new number; so a controller that is away loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

import grpc
import grpc.aio
from msgspec import Struct

from minislurm.domain.ids import NodeName
from minislurm.domain.node import Witness
from minislurm.node import lease
from minislurm.rpc.auth import authorization
from minislurm.rpc.gen import node_pb2, node_pb2_grpc

log = logging.getLogger(__name__)

#: Scripts and environments travel in one message.
_OPTIONS = [
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
    # Our own loop dials; gRPC's back-off would grow to minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
]

#: So many reports in one message at most.
_REPORTS_A_MESSAGE = 500


class _Kept(Struct):
    report: node_pb2.Report
    on_acknowledged: Callable[[], None] | None


class ControllerLink:
    """`target`: host:port. `token` gives a fresh credential, `registration` what is true now.

    A stream from which nothing came for `silence_limit_s` is given up for a new one. `on_heard` is given the
    time (`lease.now`) when a heartbeat was sent that the controller has answered.
    """

    def __init__(
        self,
        target: str,
        *,
        token: Callable[[], str],
        registration: Callable[[], node_pb2.Registration],
        heartbeat: Callable[[], node_pb2.Heartbeat],
        on_command: Callable[[node_pb2.Command], None],
        reconnect_interval_s: float,
        heartbeat_interval_s: float,
        silence_limit_s: float = float("inf"),
        on_heard: Callable[[float], None] = lambda sent: None,
        on_witnesses: Callable[[tuple[Witness, ...]], None] = lambda witnesses: None,
    ) -> None:
        self._target = target
        self._token = token
        self._registration = registration
        self._heartbeat = heartbeat
        self._on_command = on_command
        self._reconnect_interval_s = reconnect_interval_s
        self._heartbeat_interval_s = heartbeat_interval_s
        self._silence_limit_s = silence_limit_s
        self._on_heard = on_heard
        self._on_witnesses = on_witnesses
        #: Given what our clock said when a heartbeat was sent, what the controller's said with the answer to
        #: it, and what ours says now.
        self.on_time: Callable[[float, float, float], None] = lambda earliest, controller, latest: None
        #: What the health checks say, "" for nothing wrong; None: not made yet.
        self._health: str | None = None
        self._health_due = False
        #: When each heartbeat of this stream that is not answered was sent; number 0: the registration.
        self._beats: dict[int, float] = {}
        self._beat_number = 0
        self._last_word = 0.0
        self._redial = asyncio.Event()
        #: Not acknowledged, oldest first; the first `_sent` of them are out on the present stream.
        self._kept: deque[_Kept] = deque()
        self._sent = 0
        self._number = 0
        self._beat_due = False
        self._something_to_send = asyncio.Event()
        self.connected = asyncio.Event()

    def report(self, report: node_pb2.Report, on_acknowledged: Callable[[], None] | None = None) -> None:
        self._kept.append(_Kept(report, on_acknowledged))
        self._something_to_send.set()

    def report_health(self, problem: str) -> None:
        """Now, and on every stream to come."""
        self._health = problem
        self._health_due = True
        self._something_to_send.set()

    @property
    def unacknowledged(self) -> int:
        return len(self._kept)

    async def run(self) -> None:
        """Until cancelled."""
        was_reached = True
        while True:
            try:
                async with grpc.aio.insecure_channel(self._target, options=_OPTIONS) as channel:
                    await self._serve(channel)
                problem = "the stream ended"
            except grpc.aio.AioRpcError as error:
                problem = f"{error.code().name}: {error.details()}"
            except (grpc.aio.UsageError, asyncio.InvalidStateError, OSError) as error:
                problem = str(error) or type(error).__name__
            if self.connected.is_set() or was_reached:
                log.warning("no stream to the controller at %s: %s", self._target, problem)
            was_reached = self.connected.is_set()
            self.connected.clear()
            await asyncio.sleep(self._reconnect_interval_s)

    async def _serve(self, channel: grpc.aio.Channel) -> None:
        stub: Any = node_pb2_grpc.NodeControlStub(channel)
        call = stub.Connect(metadata=(authorization(self._token()),))
        self._sent = 0
        self._beat_number = 0
        self._health_due = self._health is not None
        self._redial.clear()
        self._last_word = lease.now()
        self._beats = {0: self._last_word}
        parts = [asyncio.ensure_future(part) for part in (self._talk(call), self._redial.wait())]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            if parts[0].done():
                parts[0].result()
        finally:
            for part in parts:
                part.cancel()
            call.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _talk(self, call: Any) -> None:
        await call.write(node_pb2.NodeMessage(registration=self._registration()))
        helpers = [asyncio.ensure_future(part) for part in (self._write(call), self._beat())]
        try:
            while (message := await call.read()) is not grpc.aio.EOF:
                self._receive(message)
            await call.code()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    def dial_anew(self) -> None:
        """A new stream, with a registration that says what is true now."""
        self._redial.set()

    async def _write(self, call: Any) -> None:
        while True:
            await self._something_to_send.wait()
            self._something_to_send.clear()
            if self._beat_due:
                self._beat_due = False
                self._beat_number += 1
                beat = self._heartbeat()
                beat.number = self._beat_number
                self._beats[beat.number] = lease.now()
                await call.write(node_pb2.NodeMessage(heartbeat=beat))
            if self._health_due:
                self._health_due = False
                await call.write(node_pb2.NodeMessage(health=node_pb2.Health(problem=self._health or "")))
            while self._sent < len(self._kept):
                await call.write(node_pb2.NodeMessage(reports=self._next_reports()))

    def _next_reports(self) -> node_pb2.Reports:
        """What has gathered while the last message was being sent."""
        taken = [kept.report for kept in islice(self._kept, self._sent, self._sent + _REPORTS_A_MESSAGE)]
        for report in taken:
            self._number += 1
            report.number = self._number
        self._sent += len(taken)
        return node_pb2.Reports(reports=taken)

    async def _beat(self) -> None:
        # Through the writer: two writes at once are not allowed.
        while True:
            self._beat_due = True
            self._something_to_send.set()
            await asyncio.sleep(self._heartbeat_interval_s)
            if lease.now() - self._last_word > self._silence_limit_s:
                log.warning("nothing came from the controller for %.1f s", lease.now() - self._last_word)
                self._redial.set()

    def _receive(self, message: node_pb2.ControllerMessage) -> None:
        self._last_word = lease.now()
        self._acknowledge(message.acknowledged)
        if message.HasField("witnesses"):
            rows = message.witnesses.witnesses
            self._on_witnesses(tuple(Witness(NodeName(one.node), one.address, one.port) for one in rows))
        self._heard(message.heard, message.time)
        for command in message.commands:
            if command.HasField("registered"):
                self._registered(command.registered)
            else:
                self._on_command(command)

    def _registered(self, registered: node_pb2.Registered) -> None:
        if registered.heartbeat_interval_s > 0:
            self._heartbeat_interval_s = registered.heartbeat_interval_s
        if not self.connected.is_set():
            log.info("registered with the controller at %s", self._target)
        self.connected.set()
        self._heard(0)

    def _heard(self, number: int, controller_time: float = 0.0) -> None:
        sent = self._beats.pop(number, None)
        if sent is not None:
            if controller_time:
                now = time.time()
                self.on_time(now - (lease.now() - sent), controller_time, now)
            self._beats = {later: time for later, time in self._beats.items() if later > number}
            self._on_heard(sent)

    def _acknowledge(self, number: int) -> None:
        while self._sent and self._kept[0].report.number <= number:
            kept = self._kept.popleft()
            self._sent -= 1
            if kept.on_acknowledged is not None:
                kept.on_acknowledged()


def heartbeat_message(cpu_load: float, free_memory_mib: int) -> node_pb2.Heartbeat:
    return node_pb2.Heartbeat(cpu_load=cpu_load, free_memory_mib=free_memory_mib)
