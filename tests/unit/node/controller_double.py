"""A controller that does what a test tells it: the real gRPC service, no decisions behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from minislurm.rpc.auth import Verifier, token_of
from minislurm.rpc.gen import node_pb2, node_pb2_grpc


class ControllerDouble(node_pb2_grpc.NodeControlServicer):
    """`reports` are acknowledged at once while `acknowledging`."""

    def __init__(self, verifier: Verifier, port: int = 0) -> None:
        self._verifier = verifier
        self._port = port
        self._commands: asyncio.Queue[node_pb2.ControllerMessage] = asyncio.Queue()
        self._server: grpc.aio.Server | None = None
        self.acknowledging = True
        #: Registrations and heartbeats are answered.
        self.hearing = True
        self.registrations: list[node_pb2.Registration] = []
        self.heartbeats: list[node_pb2.Heartbeat] = []
        self.reports: list[node_pb2.Report] = []
        self.health: list[node_pb2.Health] = []
        self.changed = asyncio.Event()

    @property
    def port(self) -> int:
        return self._port

    async def start(self) -> None:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        node_pb2_grpc.add_NodeControlServicer_to_server(self, self._server)
        self._port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
        await self._server.start()

    async def stop(self) -> None:
        assert self._server is not None
        await self._server.stop(0)

    def command(self, **kind: Any) -> None:
        self._commands.put_nowait(node_pb2.ControllerMessage(commands=[node_pb2.Command(**kind)]))

    async def report(self, job_id: int, kind: str, timeout_s: float = 10.0) -> Any:
        """The first such report of the job, waited for."""
        return (await self.all_reports(job_id, kind, 1, timeout_s))[0]

    async def all_reports(self, job_id: int, kind: str, count: int, timeout_s: float = 10.0) -> list[Any]:
        async def wait() -> list[Any]:
            while True:
                found = [
                    getattr(report, kind)
                    for report in self.reports
                    if report.job_id == job_id and report.HasField(kind)
                ]
                if len(found) >= count:
                    return found
                self.changed.clear()
                await self.changed.wait()

        return await asyncio.wait_for(wait(), timeout_s)

    async def registered(self, count: int = 1, timeout_s: float = 10.0) -> node_pb2.Registration:
        async def wait() -> None:
            while len(self.registrations) < count:
                self.changed.clear()
                await self.changed.wait()

        await asyncio.wait_for(wait(), timeout_s)
        return self.registrations[count - 1]

    async def Connect(self, request_iterator: AsyncIterator[node_pb2.NodeMessage], context: Any) -> None:
        node = self._verifier.verify_node(token_of(context.invocation_metadata()))
        writer = asyncio.ensure_future(self._write(context))
        try:
            async for message in request_iterator:
                match message.WhichOneof("kind"):
                    case "registration":
                        assert message.registration.node == node
                        self.registrations.append(message.registration)
                        if self.hearing:
                            registered = node_pb2.Command(registered=node_pb2.Registered())
                            self._commands.put_nowait(node_pb2.ControllerMessage(commands=[registered]))
                    case "heartbeat":
                        self.heartbeats.append(message.heartbeat)
                        if self.hearing:
                            heard = node_pb2.ControllerMessage(heard=message.heartbeat.number)
                            self._commands.put_nowait(heard)
                    case "health":
                        self.health.append(message.health)
                    case "reports":
                        if self.acknowledging:
                            reports = message.reports.reports
                            self.reports += reports
                            acknowledged = node_pb2.ControllerMessage(acknowledged=reports[-1].number)
                            self._commands.put_nowait(acknowledged)
                self.changed.set()
        finally:
            writer.cancel()

    async def _write(self, context: Any) -> None:
        while True:
            await context.write(await self._commands.get())
