"""The far end of srun's streams: a real gRPC step service on loopback that plays what a test wrote for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from grpc import aio

from minislurm.domain.ids import JobId, NodeName, StepId
from minislurm.domain.job import Job
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.views import StepGrant, StepNode
from minislurm.rpc.gen import step_pb2, step_pb2_grpc
from tests.builders import a_spec

CREDENTIAL = "step-credential"


class ScriptedNode:
    """One node: `play(node)` runs after the launch; it sends with `node.output(...)` and the like."""

    def __init__(self, play: Callable[[ScriptedNode], Awaitable[None]], tasks: Sequence[int] = (0,)) -> None:
        self.play = play
        self.tasks = tuple(tasks)
        self.launch = step_pb2.LaunchStep()
        self.metadata: dict[str, Any] = {}
        self.input = bytearray()
        self.inputs: list[tuple[int | None, bytes]] = []
        self.ended_inputs: list[int | None] = []
        self.signals: list[int] = []
        self.port = 0
        self.was_cut = False
        self._news = asyncio.Condition()
        self._context: Any = None
        self._sending = asyncio.Lock()
        #: False: nobody reads the input.
        self.takes_input = True

    async def send(self, **kind: Any) -> None:
        async with self._sending:
            await self._context.write(step_pb2.StepOutput(**kind))

    async def output(self, task: int, data: bytes, *, error: bool = False, end: bool = False) -> None:
        await self.send(data=step_pb2.StepData(task=task, is_error=error, data=data, end=end))

    async def ends(self, task: int, code: int = 0, signal: int = 0, core: bool = False) -> None:
        ended = step_pb2.TaskExited(task=task, exit_code=code, exit_signal=signal, core_dumped=core)
        await self.send(task_exited=ended)

    async def all_end(self, code: int = 0, signal: int = 0) -> None:
        for task in self.tasks:
            await self.ends(task, code, signal)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for input or signals that make `condition` true."""
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(condition), 10)

    async def receive(self, signal: int) -> None:
        """As from the controller, not from srun."""
        async with self._news:
            self.signals.append(signal)
            self._news.notify_all()

    async def break_off(self) -> None:
        """The stream ends with an error, as if the daemon had died."""
        import grpc

        await self._context.abort(grpc.StatusCode.INTERNAL, "broken off")

    async def run(self, requests: AsyncIterator[step_pb2.StepInput], context: Any) -> None:
        self._context = context
        self.metadata = dict(context.invocation_metadata())
        first = await requests.__anext__()
        self.launch.CopyFrom(first.launch)
        listening = asyncio.ensure_future(self._listen(requests))
        try:
            await self.send(started=step_pb2.StepStarted(pids=[1000 + task for task in self.tasks]))
            await self.play(self)
            await self.send(done=step_pb2.StepDone())
        except asyncio.CancelledError:
            self.was_cut = True
            raise
        finally:
            listening.cancel()

    async def _listen(self, requests: AsyncIterator[step_pb2.StepInput]) -> None:
        async for request in requests:
            async with self._news:
                if request.HasField("signal"):
                    self.signals.append(request.signal.signal)
                elif request.HasField("stdin"):
                    task = request.stdin.task if request.stdin.HasField("task") else None
                    self.input += request.stdin.data
                    self.inputs.append((task, request.stdin.data))
                    if request.stdin.end:
                        self.ended_inputs.append(task)
                self._news.notify_all()
            if self.takes_input and request.stdin.data:
                await self.send(input_taken=step_pb2.StepInputTaken(count=len(request.stdin.data)))


class _Servicer(step_pb2_grpc.StepServiceServicer):
    def __init__(self, node: ScriptedNode) -> None:
        self._node = node

    async def RunStep(self, requests: Any, context: Any) -> None:
        await self._node.run(requests, context)


async def serve(nodes: Sequence[ScriptedNode]) -> list[Any]:
    """Starts a server for each node; the caller stops them."""
    servers = []
    for node in nodes:
        server = aio.server()
        step_pb2_grpc.add_StepServiceServicer_to_server(_Servicer(node), server)
        node.port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        servers.append(server)
    return servers


def a_grant(nodes: Sequence[ScriptedNode], **job_changes: Any) -> StepGrant:
    """Step 7.3 on nodes n1, n2 … as scripted."""
    allocation = tuple(
        NodeAllocation(NodeName(f"n{i}"), tasks=len(node.tasks)) for i, node in enumerate(nodes, 1)
    )
    job = Job(
        JobId(7), a_spec("train"), name="train", partition="batch", allocation=allocation, **job_changes
    )
    return StepGrant(
        job_id=JobId(7),
        step_id=StepId(3),
        run=1,
        nodes=tuple(
            StepNode(NodeName(f"n{i}"), "127.0.0.1", node.port, node.tasks) for i, node in enumerate(nodes, 1)
        ),
        credential=CREDENTIAL,
        job=job,
        allocation=allocation,
    )
