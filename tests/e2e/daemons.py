"""Real daemons on loopback for a test: started, killed and restarted one by one, all ended at the end.

Commands run as a user's would, found on PATH, with MINISLURM_CONF set. Waiting polls with a deadline; a
deadline missed shows the queue and the daemons' logs.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from minislurm.domain import configuration_file
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job
from minislurm.domain.views import JobQuery, NodeView
from minislurm.rpc import auth
from minislurm.rpc.client import ControllerClient

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

_CONFIGURATION = """
[cluster]
name = "test"
controller_port = {port}
state_dir = "{folder}/state"
[node]
spool_dir = "{folder}/spool/{{node}}"
{node}
[timers]
heartbeat_interval_s = 0.5
node_suspect_s = {node_suspect_s}
node_timeout_s = {node_timeout_s}
prepare_timeout_s = 2.0
kill_wait_s = 1.0
reconnect_interval_s = 0.1
client_grace_s = {client_grace_s}
{timers}
[journal]
retry_interval_s = 0.2
{journal}
[[nodes]]
name = "n[1-{nodes}]"
cpus = {cpus}
memory = "16G"
gpus = {gpus}
[[partitions]]
name = "batch"
nodes = "ALL"
default = true
default_time = "10:00"
[[partitions]]
name = "small"
nodes = "n1"
max_time = "1:00:00"
"""


class Daemons:
    """A cluster in a folder of its own. Use as a context manager."""

    def __init__(
        self,
        nodes: int = 2,
        *,
        cpus: int = 8,
        gpus: int = 0,
        node_timeout_s: float = 30.0,
        timers: str = "",
        client_grace_s: float = 1.0,
        journal: str = "",
        node: str = "",
        folder: Path | None = None,
        extra: str = "",
    ) -> None:
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="ms-"))
        self.work = self.folder / "work"
        self.work.mkdir(exist_ok=True)
        self.path = self.folder / "minislurm.toml"
        self.path.write_text(
            _CONFIGURATION.format(
                port=free_port(),
                folder=self.folder,
                nodes=nodes,
                cpus=cpus,
                gpus=gpus,
                node_suspect_s=min(1.5, 0.4 * node_timeout_s),
                node_timeout_s=node_timeout_s,
                timers=timers,
                client_grace_s=client_grace_s,
                journal=journal,
                node=node,
            )
            + extra
        )
        self.configuration = configuration_file.load(str(self.path))
        (self.folder / "state").mkdir(exist_ok=True)
        auth.make_key(self.configuration.key_file)
        self.names = [str(spec.name) for spec in self.configuration.nodes]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.client = ControllerClient(self.configuration)

    def __enter__(self) -> Daemons:
        try:
            self.start("controller")
            for name in self.names:
                self.start(name)
            self.wait(lambda: all(v.state == "IDLE" for v in self.nodes()), "all nodes idle", 30)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end_jobs()
        finally:
            self.client.close()
            for name in list(self.processes):
                self.stop(name)
            if self._own_folder:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _end_jobs(self) -> None:
        """So that no shepherd stays behind."""
        if self.processes.get("controller") is None or self.processes["controller"].poll() is not None:
            self.start("controller")
        for name in self.names:
            if name not in self.processes or self.processes[name].poll() is not None:
                self.start(name)
        self.command("scancel", "--me", check=False)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and self.jobs(ended=False):
            time.sleep(0.05)

    # Daemons

    def start(self, name: str) -> None:
        """`controller`, or a node's name."""
        module = "minislurm.controller.main" if name == "controller" else "minislurm.node.main"
        words = [sys.executable, "-m", module, "--config", str(self.path)]
        if name != "controller":
            words += ["--node", name]
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT, start_new_session=True
            )

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """kill -9 of the daemon alone, as when it crashes; what it started goes on."""
        process = self.processes.pop(name)
        process.send_signal(number)
        process.wait(timeout=20)

    def stop(self, name: str) -> None:
        process = self.processes.pop(name)
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=20)

    # Commands

    def environment(self) -> dict[str, str]:
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("SLURM", "SBATCH", "SQUEUE", "MINISLURM"))
        }
        return {**kept, "MINISLURM_CONF": str(self.path), "PATH": f"{BIN}:{os.environ['PATH']}"}

    def run(
        self, *words: str, timeout: float = 60, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command in the work folder, whatever its exit code."""
        return subprocess.run(
            words,
            env=self.environment(),
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=timeout,
            input=stdin if stdin is not None else "",
        )

    def command(self, *words: str, check: bool = True, stdin: str | None = None) -> str:
        """Its standard output; it must succeed unless `check` is false."""
        done = self.run(*words, stdin=stdin)
        if check:
            assert done.returncode == 0, (
                f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.report()}"
            )
        return done.stdout

    def sbatch(self, *words: str) -> int:
        return int(self.command("sbatch", "--parsable", *words).strip())

    def script(self, text: str, name: str = "job.sh") -> str:
        path = self.work / name
        path.write_text("#!/bin/bash\n" + text)
        return str(path)

    # Looking

    def jobs(self, *, ended: bool = True) -> list[Job]:
        return [view.job for view in self.client.list_jobs(JobQuery(include_ended=ended))]

    def job(self, job_id: int) -> Job:
        query = JobQuery(job_ids=(JobId(job_id),), include_ended=True)
        return next(view.job for view in self.client.list_jobs(query) if view.job.id == job_id)

    def state(self, job_id: int) -> str:
        return self.job(job_id).state.value

    def reason(self, job_id: int) -> str:
        query = JobQuery(job_ids=(JobId(job_id),), include_ended=True)
        return self.client.list_jobs(query)[0].reason

    def nodes(self) -> list[NodeView]:
        return self.client.list_nodes()

    def wait(self, condition: Callable[[], object], what: str, timeout: float = 30) -> None:
        deadline = time.monotonic() + timeout
        while True:
            try:
                if condition():
                    return
            except Exception as error:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{what}: {error}\n{self.report()}") from error
            assert time.monotonic() < deadline, f"not in time: {what}\n{self.report()}"
            time.sleep(0.02)

    def wait_state(self, job_id: int, *states: str, timeout: float = 30) -> None:
        self.wait(lambda: self.state(job_id) in states, f"job {job_id} {'/'.join(states)}", timeout)

    def processes_with(self, text: str) -> list[int]:
        """Pids of processes of this cluster's runs whose environment holds `text`."""
        wanted = {text.encode(), f"MINISLURM_CONF={self.path}".encode()}
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    data = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if wanted <= set(data.split(b"\0")):
                    found.append(int(entry.name))
        return found

    def report(self) -> str:
        """The queue and the ends of the logs, for a failure's message."""
        queue = self.run("squeue", "-t", "all", timeout=20)
        logs = "".join(f"--- {p.name}\n{p.read_text()[-2500:]}" for p in sorted(self.folder.glob("*.log")))
        return f"{queue.stdout}{queue.stderr}{logs}"

    def read(self, name: str) -> str:
        path = self.work / name
        return path.read_text() if path.exists() else ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run_all(daemons: Daemons, words: Sequence[Sequence[str]]) -> list[str]:
    return [daemons.command(*one) for one in words]
