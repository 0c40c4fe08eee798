"""srun's far end for tests: a controller and nodes on loopback that do what a test wrote, and srun itself
as a real process against them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpc import aio
from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.domain.errors import Refusal
from minislurm.domain.ids import Bitmap, JobId, NodeName, StepId
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState
from minislurm.domain.views import JobView, StepGrant, StepNode, StepRequest
from minislurm.rpc import codec, status
from minislurm.rpc.auth import make_key
from minislurm.rpc.gen import controller_pb2, controller_pb2_grpc
from tests.step_service_double import CREDENTIAL, ScriptedNode, serve

ROOT = Path(__file__).resolve().parents[3]
JOB = JobId(7)


class FarEnd(Struct, controller_pb2_grpc.ControllerServicer):
    """Job 7 on the scripted nodes; srun gets step 7.0."""

    nodes: Sequence[ScriptedNode]
    #: What a holder of the allocation sees, each after `pauses_s`.
    states: Sequence[JobState] = (JobState.RUNNING,)
    pauses_s: Sequence[float] = (0.0,)
    submit_refusal: Refusal | None = None
    step_refusal: Refusal | None = None
    spec: JobSpec | None = None
    steps: list[StepRequest] = field(default_factory=list)
    #: (exit code, exit signal) of released allocations.
    released: list[tuple[int, int]] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    ended_steps: list[int] = field(default_factory=list)
    #: Options for srun's configuration file.
    settings: str = ""

    async def Submit(self, request: Any, context: Any) -> Any:
        if self.submit_refusal is not None:
            await status.abort(context, self.submit_refusal)
        self.spec = codec.from_proto(JobSpec, request.submission.spec)
        return controller_pb2.SubmitReply(job_id=JOB)

    async def HoldAllocation(self, request: Any, context: Any) -> AsyncIterator[Any]:
        for state, pause in zip(self.states, self.pauses_s, strict=True):
            await asyncio.sleep(pause)
            yield codec.to_proto(JobView(replace(self._job(), state=state)))
        await asyncio.Event().wait()

    async def CreateStep(self, request: Any, context: Any) -> Any:
        if self.step_refusal is not None:
            await status.abort(context, self.step_refusal)
        self.steps.append(codec.from_proto(StepRequest, request.request))
        nodes = tuple(
            StepNode(NodeName(f"n{i}"), "127.0.0.1", node.port, node.tasks)
            for i, node in enumerate(self.nodes, 1)
        )
        job = self._job()
        grant = StepGrant(JOB, StepId(0), 1, nodes, CREDENTIAL, job, job.allocation)
        return codec.to_proto(grant)

    async def ListJobs(self, request: Any, context: Any) -> AsyncIterator[Any]:
        job = self._job()
        view = codec.to_proto(JobView(job))
        yield controller_pb2.JobsChunk(jobs=[view], specs=[codec.to_proto(job.spec)], spec_of=[0])

    async def EndAllocation(self, request: Any, context: Any) -> Any:
        self.released.append((request.exit_code, request.exit_signal))
        return controller_pb2.ActReply()

    async def Cancel(self, request: Any, context: Any) -> Any:
        for target in request.targets:
            if target.HasField("step_id"):
                self.ended_steps.append(target.step_id)
                for node in self.nodes:
                    await node.receive(signal.SIGKILL)
            else:
                self.cancelled.append(target.job_id)
        outcomes = [controller_pb2.Outcome(target=target) for target in request.targets]
        return controller_pb2.ActReply(outcomes=outcomes)

    def _job(self) -> Job:
        from tests.builders import a_spec

        allocation = tuple(
            NodeAllocation(NodeName(f"n{i}"), cpus=Bitmap(0b1111), gpus=Bitmap(0b11), tasks=len(node.tasks))
            for i, node in enumerate(self.nodes, 1)
        )
        spec = self.spec or a_spec("batch job")
        return Job(
            JOB, spec, state=JobState.RUNNING, name=spec.name, partition="batch", allocation=allocation
        )


class Srun:
    """Runs srun against a far end."""

    def __init__(self, directory: Path, port: int, settings: str) -> None:
        self.directory = directory
        state = directory / "state"
        state.mkdir()
        make_key(str(state / "auth.key"))
        path = directory / "minislurm.toml"
        # A far end that breaks off does not come back.
        timers = "[timers]\nclient_grace_s = 0.3\n"
        settings = timers + settings.replace("[timers]\n", "")
        path.write_text(
            f'[cluster]\nname = "test"\ncontroller_port = {port}\nstate_dir = "{state}"\n'
            f'{settings}\n[[nodes]]\nname = "n[1-4]"\ncpus = 4\n[[partitions]]\nname = "batch"\n'
            f'nodes = "n[1-4]"\ndefault = true\n'
        )
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SRUN", "MINISLURM"))}
        self.environment = {
            **kept, "MINISLURM_CONF": str(path), "PYTHONPATH": str(ROOT), "MINISLURM_TRACEBACK": "1",
        }  # fmt: skip

    def start(self, *words: str, inside: bool = False, **options: Any) -> subprocess.Popen[bytes]:
        environment = {**self.environment, **options.pop("env", {})}
        if inside:
            environment["SLURM_JOB_ID"] = str(JOB)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [sys.executable, "-c", "from minislurm.cli.srun import main; main()", *words],
            env=environment,
            cwd=self.directory,
            **{**pipes, **options},
        )

    def __call__(
        self, *words: str, inside: bool = False, stdin: bytes = b"", **options: Any
    ) -> tuple[int, str, str]:
        """Exit code, output, errors."""
        process = self.start(*words, inside=inside, **options)
        try:
            out, err = process.communicate(stdin, timeout=60)
        finally:
            process.kill()
        return process.returncode, out.decode(), err.decode()


@contextmanager
def far_end(directory: Path, end: FarEnd) -> Iterator[Srun]:
    """Serves `end` from a thread of its own while the block runs."""
    started = threading.Event()
    ports: list[int] = []
    loop = asyncio.new_event_loop()

    async def body(stopping: asyncio.Event) -> None:
        server = aio.server()
        controller_pb2_grpc.add_ControllerServicer_to_server(end, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        servers = [server, *await serve(end.nodes)]
        ports.append(port)
        started.set()
        await stopping.wait()
        for each in servers:
            await each.stop(0)

    stopping = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(body(stopping)))
    thread.start()
    try:
        assert started.wait(10)
        yield Srun(directory, ports[0], end.settings)
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(20)
        loop.close()


def node(play: Callable[[ScriptedNode], Any], *tasks: int) -> ScriptedNode:
    return ScriptedNode(play, tasks or (0,))
