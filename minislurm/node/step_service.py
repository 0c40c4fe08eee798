"""The step service: srun's streams to the tasks of its step on this node (step.proto)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from minislurm.domain.errors import AccessDenied
from minislurm.domain.ids import JobId, RunNumber, StepId
from minislurm.node.daemon import Daemon
from minislurm.node.environment import StepShape, parse
from minislurm.node.launch_orders import StepRequest
from minislurm.node.messages import RunKey
from minislurm.node.step_process import StepProcess
from minislurm.node.witness_service import WitnessService
from minislurm.rpc.auth import Verifier, token_of
from minislurm.rpc.gen import node_pb2_grpc, step_pb2, step_pb2_grpc

log = logging.getLogger(__name__)

#: Input that the tasks have not read; srun is not read from beyond that.
INPUT_WINDOW = 256 * 1024
#: srun has so long to say that it has the end of the step.
_LAST_WORD_S = 2.0
_OPTIONS = [
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.so_reuseport", 0),
]


async def serve_steps(
    daemon: Daemon, verifier: Verifier, host: str, port: int, witness: WitnessService | None = None
) -> tuple[grpc.aio.Server, int]:
    """A started server and its port. Raises OSError or RuntimeError where the port cannot be had."""
    server = grpc.aio.server(options=_OPTIONS)
    step_pb2_grpc.add_StepServiceServicer_to_server(StepService(daemon, verifier), server)
    if witness is not None:
        node_pb2_grpc.add_WitnessServiceServicer_to_server(witness, server)
    address = f"[{host}]" if ":" in host else host
    bound = server.add_insecure_port(f"{address}:{port}")
    if not bound:
        raise OSError(f"cannot listen on {host}:{port}")
    await server.start()
    return server, bound


class StepService(step_pb2_grpc.StepServiceServicer):
    def __init__(self, daemon: Daemon, verifier: Verifier) -> None:
        self._daemon = daemon
        self._verifier = verifier

    async def RunStep(self, request_iterator: AsyncIterator[step_pb2.StepInput], context: Any) -> None:
        launch = await self._first_message(request_iterator, context)
        await self._authorize(launch, context)
        stream = _StepStream(context)
        process = await (self._attach if launch.attach else self._launch)(launch, context)
        stream.process = process
        process.listen(stream, launch.received if launch.attach else None)
        reader = asyncio.ensure_future(stream.read(request_iterator))
        try:
            await stream.write()
        finally:
            reader.cancel()
            stream.leave(kill=launch.kill_on_disconnect)
        if stream.is_lost:
            await context.abort(grpc.StatusCode.ABORTED, "the step's shepherd was killed")

    async def _launch(self, launch: step_pb2.LaunchStep, context: Any) -> StepProcess:
        try:
            return self._daemon.launch_step(_key(launch), _request(launch))
        except OSError as error:
            await context.abort(grpc.StatusCode.INTERNAL, f"the step cannot be launched: {error}")
            raise AssertionError from error

    async def _attach(self, launch: step_pb2.LaunchStep, context: Any) -> StepProcess:
        process = self._daemon.steps.get((_key(launch), StepId(launch.step_id)))
        if process is None or process.listener is not None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "the step is not on this node")
            raise AssertionError
        return process

    async def _first_message(
        self, request_iterator: AsyncIterator[step_pb2.StepInput], context: Any
    ) -> step_pb2.LaunchStep:
        first = await anext(request_iterator, None)
        if first is None or not first.HasField("launch"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must launch the step")
            raise AssertionError
        if not first.launch.arguments or not first.launch.tasks:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a step has a program and tasks")
        return first.launch

    async def _authorize(self, launch: step_pb2.LaunchStep, context: Any) -> None:
        """Aborts the call unless the credential is for this very step and the step may start here."""
        try:
            credential = self._verifier.verify_step(token_of(context.invocation_metadata()))
        except AccessDenied as error:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            raise AssertionError from error
        named = (credential.job_id, credential.run, credential.step_id)
        if named != (launch.job_id, launch.run, launch.step_id):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "the credential is for another step")
        if launch.attach:
            return  # it was admitted when it was launched
        refusal = self._daemon.core.admit_step(
            _key(launch), StepId(launch.step_id), credential.user_id, is_first=launch.node_index == 0
        )
        if refusal:
            log.info("step %s.%d refused: %s", _key(launch), launch.step_id, refusal)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, refusal)


class _StepStream:
    """Between a step's shepherd and srun's call. What waits here is bounded by the shepherd: it sends so much
    ahead of what is acknowledged, and a message is acknowledged once srun says that it has it."""

    def __init__(self, context: Any) -> None:
        self.process: StepProcess | None = None
        self.is_lost = False
        self._context = context
        self._waiting: deque[tuple[int, step_pb2.StepOutput]] = deque()
        self._changed = asyncio.Event()
        self._input_open = 0
        self._input_room = asyncio.Event()
        self._input_room.set()
        self._done = False
        self._received = 0
        self._received_changed = asyncio.Event()

    # --- from the shepherd (Listener) --------------------------------------------------------------------

    def on_output(self, number: int, task: int, is_error: bool, data: bytes, end: bool) -> None:
        self._add(
            number,
            step_pb2.StepOutput(data=step_pb2.StepData(task=task, is_error=is_error, data=data, end=end)),
        )

    def on_message(self, number: int, message: dict[str, Any]) -> None:
        output = step_pb2.StepOutput()
        if "started" in message:
            output.started.pids.extend(message["started"])
        elif "exited" in message:
            task, exit_code, exit_signal, dumped_core = message["exited"]
            output.task_exited.task = task
            output.task_exited.exit_code = exit_code
            output.task_exited.exit_signal = exit_signal
            output.task_exited.core_dumped = dumped_core
        elif "message" in message:
            output.message.text = message["message"]
        else:
            output.done.SetInParent()
        self._add(number, output)

    def on_input_taken(self, count: int) -> None:
        self._input_open -= count
        if not self._done:
            self._add(0, step_pb2.StepOutput(input_taken=step_pb2.StepInputTaken(count=count)))
        if self._input_open < INPUT_WINDOW:
            self._input_room.set()

    def on_lost(self) -> None:
        self.is_lost = not self._done
        self._changed.set()

    # --- with srun ---------------------------------------------------------------------------------------

    async def write(self) -> None:
        """Until the step is over, or its shepherd gone."""
        assert self.process is not None
        while True:
            while self._waiting:
                number, output = self._waiting.popleft()
                await self._context.write(output)
                if output.HasField("done"):
                    await self._until_received(number)
                    return
            if self.is_lost:
                return
            self._changed.clear()
            await self._changed.wait()

    async def _until_received(self, number: int) -> None:
        """srun has the last message, or does not say so: then nobody will come for it either."""
        assert self.process is not None
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._reach(number), _LAST_WORD_S)
        self.process.acknowledge(number)

    async def _reach(self, number: int) -> None:
        while self._received < number:
            self._received_changed.clear()
            await self._received_changed.wait()

    async def read(self, requests: AsyncIterator[step_pb2.StepInput]) -> None:
        assert self.process is not None
        async for request in requests:
            if request.HasField("stdin"):
                given = request.stdin
                task = given.task if given.HasField("task") else None
                self._input_open += len(given.data)
                self.process.give_input(task, given.data, given.end)
                if self._input_open >= INPUT_WINDOW:
                    self._input_room.clear()
                    await self._input_room.wait()
            elif request.HasField("signal"):
                self.process.send_signal(request.signal.signal)
            elif request.HasField("received"):
                self._received = request.received.number
                self._received_changed.set()
                self.process.acknowledge(self._received)

    def leave(self, *, kill: bool) -> None:
        """srun's call is over. What the tasks still write goes nowhere; or they are killed."""
        assert self.process is not None
        if self._done:
            return
        self.process.listener = None
        for number, _ in self._waiting:
            self.process.acknowledge(number)
        if kill and not self.is_lost:
            log.info("step %s: its srun has left; killing it", self.process)
            self.process.kill()

    def _add(self, number: int, output: step_pb2.StepOutput) -> None:
        output.number = number
        self._done = self._done or output.HasField("done")
        self._waiting.append((number, output))
        self._changed.set()


def _key(launch: step_pb2.LaunchStep) -> RunKey:
    return RunKey(JobId(launch.job_id), RunNumber(launch.run))


def _request(launch: step_pb2.LaunchStep) -> StepRequest:
    shape = StepShape(
        step_id=StepId(launch.step_id),
        node_index=launch.node_index,
        node_count=launch.step_node_count,
        task_count=launch.step_task_count,
        node_list=launch.step_node_list,
        tasks_per_node=launch.step_tasks_per_node,
        tasks=tuple(launch.tasks),
        cpus_per_task=launch.cpus_per_task if launch.HasField("cpus_per_task") else None,
        topology_address=launch.topology_address,
        topology_pattern=launch.topology_pattern,
        umask=launch.umask,
    )
    return StepRequest(
        shape=shape,
        arguments=tuple(launch.arguments),
        work_dir=launch.work_dir,
        environment=parse(launch.environment),
        std_in=launch.std_in,
        std_out=launch.std_out,
        std_err=launch.std_err,
        append=launch.append_output,
        output_mode=launch.output_mode or 0o600,
        kill_on_disconnect=launch.kill_on_disconnect,
    )
