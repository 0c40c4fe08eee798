"""minislurm for the benchmarks: `minislurm up` in a temporary folder, its Python client, its commands."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace
from system import CPUS, GPUS, GRACE_S, NODES, Cluster, System, Work, await_true

from minislurm.cli.job_options import JobOptions
from minislurm.cli.job_request import Program, make_submission
from minislurm.cli.local_cluster import CONTROLLER, LocalCluster
from minislurm.domain.arrays import parse_array
from minislurm.domain.errors import MinislurmError, Refusal
from minislurm.domain.ids import JobId
from minislurm.domain.states import JobState
from minislurm.domain.views import JobQuery, JobTarget, Submission
from minislurm.rpc.client import ControllerClient

ROOT = Path(__file__).resolve().parent.parent.parent
_COMMANDS = ("srun", "sbatch", "squeue", "minislurm")


class MinislurmCluster(System):
    name = "minislurm"

    @contextmanager
    def cluster(self) -> Iterator[Cluster]:
        folder = Path(tempfile.mkdtemp(prefix="minislurm-bench-"))
        try:
            cluster = _Cluster(folder)
            try:
                cluster.start()
                yield cluster
            finally:
                cluster.end()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class _Cluster(Cluster):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state = folder / "cluster"
        self._local = LocalCluster(self._state)
        self._programs = _programs(folder / "bin")
        self._environment = _environment(folder)
        self._client: ControllerClient | None = None

    def start(self) -> None:
        size = ("--nodes", str(NODES), "--cpus", str(CPUS), "--gpus", str(GPUS), "--memory", "64G")
        # Ended jobs must stay countable; the kill wait only matters to `down`.
        values = (
            "timers.kill_wait_s=2",
            "partitions.urgent.nodes=ALL",
            "partitions.urgent.priority_tier=10",
            "preemption.mode=requeue",
            f"preemption.grace_s={GRACE_S}",
        )
        settings = [word for value in values for word in ("--set", value)]
        self._minislurm("up", "--state-dir", str(self._state), *size, *settings)
        self._environment["MINISLURM_CONF"] = str(self._local.configuration_path)
        self._configuration = self._local.configuration()
        self._client = ControllerClient(self._configuration)

    def end(self) -> None:
        """What runs is cancelled first: `down` alone may not get through a long queue in its time."""
        if self._client is not None:
            try:
                self._cancel_running()
            finally:
                self._client.close()
        if self._local.exists:
            try:
                self._minislurm("down", "--state-dir", str(self._state))
            except RuntimeError:
                if self._local.running(self._local.configuration()):
                    raise

    def _cancel_running(self) -> None:
        if not self.daemons()["controller"]:
            self.start_controller()
            await_true(self.answers, 60, "the controller's answer")
        running = [
            JobTarget(view.job.id)
            for view in self.client.list_jobs(JobQuery())
            if view.job.state is not JobState.PENDING
        ]
        if running:
            self.client.cancel(running)
            await_true(lambda: self.pending_and_running()[1] == 0, 30, "the jobs' end", 0.1)

    @property
    def client(self) -> ControllerClient:
        assert self._client is not None
        return self._client

    def cancel_all(self) -> None:
        ids = [JobTarget(view.job.id) for view in self.client.list_jobs(JobQuery())]
        self.client.cancel(ids)
        self.wait_until_idle()

    def submit(self, work: Work) -> int:
        return self.client.submit(self._submission(work))

    def wait_for(self, job_id: int) -> None:
        """The controller says when; listing the queue ten times a second would be work of its own."""
        for _ in self.client.watch_job(JobId(job_id)):
            pass

    def submit_many(self, work: Work, count: int) -> None:
        submission = self._submission(work)
        for answer in self.client.submit_many(submission for _ in range(count)):
            if isinstance(answer, Refusal):
                raise answer

    def pending_and_running(self) -> tuple[int, int]:
        pending = running = 0
        for view in self.client.list_jobs(JobQuery()):
            if view.job.state is JobState.PENDING:
                pending += max(1, len(view.job.pending_tasks))
            elif not view.job.state.is_final:
                running += 1
        return pending, running

    def known(self, ids: Sequence[int]) -> int:
        query = JobQuery(tuple(JobId(number) for number in ids), include_ended=True)
        return len({view.job.id for view in self.client.list_jobs(query)} & set(ids))

    def command(self, *words: str) -> Sequence[str]:
        return [str(self._programs / words[0]), *words[1:]]

    def environment(self) -> Mapping[str, str]:
        return self._environment

    def daemons(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {"controller": [], "node": []}
        nodes = {spec.name for spec in self._configuration.nodes}
        for daemon in self._local.running(self._configuration):
            pid = daemon.pid()
            kind = "controller" if daemon.name == CONTROLLER else "node" if daemon.name in nodes else "agent"
            if pid is not None:
                found.setdefault(kind, []).append(pid)
        return found

    def kill_controller(self) -> None:
        daemon = self._local.daemon(self._configuration, CONTROLLER)
        pid = daemon.pid()
        assert pid is not None, "the controller does not run"
        os.kill(pid, signal.SIGKILL)
        await_true(lambda: daemon.pid() is None or _is_zombie(pid), 10, "the controller's end", 0.001)

    def start_controller(self) -> None:
        self._local.daemon(self._configuration, CONTROLLER).start()

    def answers(self) -> bool:
        quick = replace(self._configuration.timers, connect_timeout_s=0.05, call_timeout_s=5.0)
        try:
            with ControllerClient(replace(self._configuration, timers=quick)) as client:
                client.list_jobs(JobQuery((JobId(1),), include_ended=True))
        except MinislurmError as error:
            return isinstance(error, Refusal)
        return True

    def _submission(self, work: Work) -> Submission:
        options = JobOptions(output="/dev/null", chdir="/tmp", hold=work.held, partition=work.partition)
        if work.whole_cluster:
            options.ntasks = NODES
            options.ntasks_per_node = 1
        if work.whole_cluster or work.whole_node:
            options.exclusive = "node"
        program = Program("bench", script=work.script.encode(), environment=(b"PATH=/usr/bin:/bin",))
        submission = make_submission(options, program, self._configuration, command="sbatch")
        if work.tasks:
            tasks = parse_array(f"0-{work.tasks - 1}").tasks
            submission = replace(submission, spec=replace(submission.spec, array_tasks=tasks))
        return submission

    def _minislurm(self, *words: str) -> None:
        done = subprocess.run(
            [str(self._programs / "minislurm"), *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"minislurm {words[0]} failed:\n{done.stdout}{done.stderr}")


def _programs(folder: Path) -> Path:
    """The commands beside this interpreter, or else the same few lines that an installation puts there."""
    beside = Path(sys.executable).parent
    if all((beside / name).exists() for name in _COMMANDS):
        return beside
    folder.mkdir(parents=True)
    for name in _COMMANDS:
        text = (
            f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            f"from minislurm.cli.{name} import main\nsys.exit(main())\n"
        )
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def _environment(folder: Path) -> dict[str, str]:
    """As a user's shell outside of any job; byte code is kept, as an installation has it."""
    foreign = ("SLURM", "SBATCH", "SRUN", "MINISLURM")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    kept["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    paths = [str(ROOT), *filter(None, [kept.get("PYTHONPATH", "")])]
    kept["PYTHONPATH"] = os.pathsep.join(paths)
    return kept


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
