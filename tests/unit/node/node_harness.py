"""A node daemon inside the test's process, with a real forker, real shepherds and real jobs."""

from __future__ import annotations

import asyncio
import os
import pwd
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from minislurm.domain.configuration import (
    AuthSection,
    ClusterSection,
    Configuration,
    NodeSection,
    TimersSection,
)
from minislurm.domain.ids import JobId, NodeName, RunNumber, bitmap_of
from minislurm.domain.job import EndCause, Job
from minislurm.domain.resources import NodeAllocation
from minislurm.node.cgroups import find_cgroups
from minislurm.node.daemon import Daemon
from minislurm.node.launcher import Launcher
from minislurm.node.messages import Phase, RunKey
from minislurm.node.run_files import RunFiles
from minislurm.node.service import make_keeper, make_link
from minislurm.node.step_service import serve_steps
from minislurm.node.witness_service import WitnessService
from minislurm.rpc.auth import Verifier, make_key
from minislurm.rpc.codec import to_proto
from minislurm.rpc.gen import node_pb2
from tests.builders import a_node, a_spec
from tests.unit.node.controller_double import ControllerDouble

USER = pwd.getpwuid(os.getuid())


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def until(condition: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    """The first true value of the condition; fails when there is none in time."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)
    return value


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class NodeHarness:
    """`async with NodeHarness(tmp_path) as node:` one daemon n1 and its controller."""

    def __init__(
        self,
        directory: Path,
        tracking: str = "process",
        timers: dict[str, float] | None = None,
        **node_settings: Any,
    ) -> None:
        self._timers = timers or {}
        self.directory = directory
        self.key = make_key(str(directory / "auth.key"))
        self.verifier = Verifier(self.key, "cluster")
        self.controller = ControllerDouble(self.verifier)
        self._tracking = tracking
        self._settings = node_settings
        self.launcher: Launcher
        self.daemon: Daemon
        self.step_port = 0

    async def __aenter__(self) -> NodeHarness:
        await self.controller.start()
        self.configuration = Configuration(
            cluster=ClusterSection(controller_port=self.controller.port, state_dir=str(self.directory)),
            auth=AuthSection(key_file=str(self.directory / "auth.key")),
            timers=TimersSection(reconnect_interval_s=0.05, heartbeat_interval_s=0.2, **self._timers),
            node=NodeSection(
                spool_dir=str(self.directory / "spool"),
                tracking=self._tracking,
                gpu_probe="none",
                **self._settings,
            ),
            nodes=(a_node("n1"),),
        )
        await self.start()
        await self.controller.registered()
        return self

    async def __aexit__(self, *exception: object) -> None:
        for key in list(self.daemon.core.runs):
            self.end(key.job_id, run=key.run, kill=True)
        try:
            await until(lambda: all(r.phase is Phase.CLEAN for r in self.daemon.core.runs.values()))
            for key in list(self.daemon.core.runs):
                self.controller.command(forget_run=node_pb2.ForgetRun(job_id=key.job_id, run=key.run))
            await until(lambda: not self.daemon.core.runs)
        finally:
            await self.stop()
            await self.controller.stop()

    async def start(self) -> None:
        self.launcher = Launcher()
        self.launcher.start()
        self.launcher.watch()
        self._files = RunFiles(self.configuration.node.spool_dir)
        self.cgroups = find_cgroups(self._tracking, f"test.{os.getpid()}")
        self.daemon = Daemon(
            self.configuration, "n1", files=self._files, launcher=self.launcher, cgroups=self.cgroups
        )
        self.keeper = make_keeper(self.configuration, "n1", self.daemon, self.key, self._files.directory)
        witness = WitnessService(self.keeper.vote, self.verifier)
        self._server, self.step_port = await serve_steps(self.daemon, self.verifier, "127.0.0.1", 0, witness)
        self.daemon.link = make_link(
            self.configuration, "n1", self.daemon, self.key, self.step_port, self.keeper
        )
        await self.daemon.checkpoints.open()
        self.daemon.adopt()
        self.keeper.begin(has_runs=bool(self.daemon.core.runs))
        await self.daemon.settle()
        self._parts = [asyncio.ensure_future(part) for part in (self.daemon.link.run(), self.keeper.run())]

    async def stop(self) -> None:
        """As if the daemon had been killed: nothing is said to anyone."""
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)
        self.keeper.close()
        await self.daemon.close()
        await self._server.stop(0)
        self._files.close()
        self.launcher.stop()

    async def restart(self) -> node_pb2.Registration:
        """The new daemon's registration."""
        count = len(self.controller.registrations)
        await self.stop()
        await self.start()
        return await self.controller.registered(count + 1)

    # --- commands ----------------------------------------------------------------------------------------

    def prepare(
        self,
        job_id: int,
        script: str = "",
        *,
        start: bool = True,
        run: int = 1,
        nodes: tuple[str, ...] = ("n1",),
        restart_reason: str = "",
        interpreter: str = "/bin/bash",
        environment: dict[str, str] | None = None,
        gpus: int = 0,
        **spec: Any,
    ) -> None:
        """`script`: the body; #! comes before it. Empty: an allocation."""
        base = a_spec(
            user_id=USER.pw_uid,
            group_id=USER.pw_gid,
            user_name=USER.pw_name,
            work_dir=str(self.directory),
            is_batch=bool(script),
            std_out="%j.out",
        )
        job = Job(
            JobId(job_id),
            replace(base, **spec),
            run=RunNumber(run),
            allocation=tuple(
                NodeAllocation(NodeName(name), bitmap_of([0, 1]), gpus=bitmap_of(range(gpus)))
                for name in nodes
            ),
        )
        given = {"PATH": os.environ["PATH"], **(environment or {})}
        self.controller.command(
            prepare_run=node_pb2.PrepareRun(
                job_id=job_id, run=run, job=to_proto(job), start=start, kill_wait_s=10.0,
                script=f"#!{interpreter}\n{script}\n".encode() if script else b"",
                environment=[f"{name}={value}".encode() for name, value in given.items()],
                restart_reason=restart_reason,
            )
        )  # fmt: skip

    def end(
        self, job_id: int, cause: EndCause = EndCause.CANCEL, *, kill_wait_s: float = 10.0,
        kill: bool = False,
        run: int = 1,
    ) -> None:  # fmt: skip
        self.controller.command(
            end_run=node_pb2.EndRun(
                job_id=job_id,
                run=run,
                cause=cause.value,
                time=time.time(),
                kill_wait_s=kill_wait_s,
                kill=kill,
            )
        )

    def signal(self, job_id: int, number: int, **how: Any) -> None:
        self.controller.command(signal_run=node_pb2.SignalRun(job_id=job_id, run=1, signal=number, **how))

    # --- looking -----------------------------------------------------------------------------------------

    def read(self, name: str) -> str:
        path = self.directory / name
        return path.read_text() if path.exists() else ""

    async def has(self, name: str, text: str = "") -> str:
        """The file's content, once it holds the text (or anything)."""
        found: str = await until(
            lambda: self.read(name) if text in self.read(name) and self.read(name) else ""
        )
        return found

    async def is_clean(self, job_id: int, run: int = 1) -> None:
        key = RunKey(JobId(job_id), RunNumber(run))
        await until(lambda: key in self.daemon.core.runs and self.daemon.core.runs[key].phase is Phase.CLEAN)

    async def pid_in(self, name: str) -> int:
        return int((await self.has(name, "\n")).split()[0])
