"""The distribution's real Slurm beside minislurm: several slurmd on loopback, in a temporary folder, as root.

Packages on Debian and Ubuntu: slurm-wlm, slurm-wlm-basic-plugins, slurm-client, munge.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from system import CPUS, GPUS, GRACE_S, NODES, Cluster, System, Work, await_true, chunks

_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel", "munged", "munge")
_CLIENTS = 4

#: Everything that makes starts quicker than Slurm's own settings do.
_SCHEDULER = (
    "batch_sched_delay=0,sched_min_interval=1000,sched_max_job_start=0,default_queue_depth=1000,"
    "partition_job_depth=0,bf_interval=30,bf_resolution=600,bf_max_job_test=1000,bf_continue,max_rpc_cnt=150"
)


class SlurmMissing(Exception):
    """It is not there, or may not be started."""


class RealSlurm(System):
    name = "slurm"

    @classmethod
    def found(cls) -> RealSlurm:
        """Raises SlurmMissing."""
        missing = [program for program in _PROGRAMS if _which(program) is None]
        if missing:
            packages = "slurm-wlm slurm-wlm-basic-plugins slurm-client munge"
            raise SlurmMissing(f"{', '.join(missing)} not found (packages: {packages})")
        if os.geteuid() != 0:
            raise SlurmMissing("a real Slurm's daemons need root")
        return cls()

    @contextmanager
    def cluster(self) -> Iterator[Cluster]:
        folder = Path(tempfile.mkdtemp(prefix="slurm-bench-"))
        folder.chmod(0o755)
        cluster = _Cluster(folder)
        try:
            with _munge(folder):
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
        self._configuration = folder / "slurm.conf"
        foreign = ("SLURM", "SBATCH", "SRUN")
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        self._environment["SLURM_CONF"] = str(self._configuration)

    def start(self) -> None:
        for name in ("state", "spool", "run", "log"):
            (self._folder / name).mkdir()
        self._configuration.write_text(_configuration(self._folder))
        # Slurm counts a node's GPUs by their device files; these lead to /dev/null.
        for i in range(GPUS):
            os.mknod(self._folder / f"gpu{i}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        (self._folder / "gres.conf").write_text(f"Name=gpu File={self._folder}/gpu[0-{GPUS - 1}]\n")
        (self._folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self._daemon("slurmctld", "-c")
        for i in range(1, NODES + 1):
            (self._folder / "spool" / f"n{i}").mkdir()
            self._daemon("slurmd", "-N", f"n{i}")
        await_true(lambda: self._idle_nodes() == NODES, 60, "Slurm's nodes", 0.2)
        version = [self.run("sbatch", "--version") for _ in range(20)]
        self.submission_overhead_s = sorted(version)[len(version) // 2]

    def end(self) -> None:
        if not self._configuration.exists():
            return
        if self.daemons()["controller"]:
            self._call("scancel", "-u", "root")
            try:
                self.wait_until_idle(20, 0.2)
            except TimeoutError:
                pass  # the processes of its jobs end with the daemons' process groups below
        # The nodes first: a step daemon that lost its slurmd would go on.
        for kind in ("node", "controller"):
            pids = self.daemons()[kind]
            for pid in pids:
                _signal(pid, signal.SIGTERM)
            try:
                await_true(lambda pids=pids: not any(map(_lives, pids)), 20, "Slurm's end", 0.1)
            except TimeoutError:
                for pid in filter(_lives, pids):
                    _signal(pid, signal.SIGKILL)

    def cancel_all(self) -> None:
        self._call("scancel", "-u", "root")
        self.wait_until_idle(120, 0.2)

    def submit(self, work: Work) -> int:
        with tempfile.NamedTemporaryFile("w", dir=self._folder, suffix=".sh") as file:
            file.write(work.script)
            file.flush()
            return int(self._call("sbatch", "--parsable", *_options(work), file.name).split(";")[0])

    def submit_many(self, work: Work, count: int) -> None:
        """Loops of sbatch, as Slurm has no other client for it."""
        script = self._folder / "many.sh"
        script.write_text(work.script)
        words = " ".join(["sbatch", "-Q", *_options(work), str(script)])
        loops = [
            subprocess.Popen(
                ["bash", "-c", f"for i in $(seq {part}); do {words} >/dev/null || exit 1; done"],
                env=self._environment,
            )
            for part in chunks(count, _CLIENTS)
        ]
        codes = [loop.wait() for loop in loops]
        if any(codes):
            raise RuntimeError("sbatch failed")

    def pending_and_running(self) -> tuple[int, int]:
        states = self._call("squeue", "-h", "-r", "-o", "%T").split()
        pending = states.count("PENDING")
        return pending, len(states) - pending

    def known(self, ids: Sequence[int]) -> int:
        found = {int(word) for word in self._call("squeue", "-h", "-t", "all", "-o", "%A").split()}
        return len(found & set(ids))

    def command(self, *words: str) -> Sequence[str]:
        return words

    def environment(self) -> Mapping[str, str]:
        return self._environment

    def daemons(self) -> dict[str, list[int]]:
        return {
            "controller": list(filter(None, [self._pid("slurmctld", "slurmctld")])),
            "node": [pid for i in range(1, NODES + 1) if (pid := self._pid(f"slurmd-n{i}", "slurmd"))],
        }

    def kill_controller(self) -> None:
        (pid,) = self.daemons()["controller"]
        os.kill(pid, signal.SIGKILL)
        await_true(lambda: not _lives(pid), 10, "slurmctld's end", 0.001)

    def start_controller(self) -> None:
        self._daemon("slurmctld")

    def answers(self) -> bool:
        done = subprocess.run(
            ["squeue", "-h", "-t", "R", "-o", "%A"], env=self._environment, capture_output=True, timeout=60
        )
        return done.returncode == 0

    def _idle_nodes(self) -> int:
        done = subprocess.run(
            ["sinfo", "-h", "-p", "batch", "-N", "-t", "idle", "-o", "%n"],
            env=self._environment, capture_output=True, text=True,
        )  # fmt: skip
        return len(done.stdout.split())

    def _daemon(self, program: str, *arguments: str) -> None:
        path = _which(program)
        assert path is not None
        subprocess.run(
            [path, *arguments], env=self._environment, check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _call(self, *words: str) -> str:
        done = subprocess.run(words, env=self._environment, capture_output=True, text=True, check=True)
        return done.stdout

    def _pid(self, name: str, program: str) -> int:
        """The daemon's process, 0 if it does not run. The program's name guards against a reused number."""
        try:
            pid = int((self._folder / "run" / f"{name}.pid").read_text())
            running = Path(f"/proc/{pid}/comm").read_text().strip()
        except (OSError, ValueError):
            return 0
        return pid if running == program and _lives(pid) else 0


def _configuration(folder: Path) -> str:
    host = socket.gethostname().split(".")[0]
    first = _free_ports(NODES + 1)
    return f"""ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={first}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmctldDebug=error
SlurmdSpoolDir={folder}/spool/%n
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmdLogFile={folder}/log/slurmd-%n.log
SlurmdDebug=error
SlurmdParameters=config_overrides
ReturnToService=2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SchedulerType=sched/backfill
SchedulerParameters={_SCHEDULER}
MaxJobCount=60000
MaxArraySize=20001
MinJobAge=300
MessageTimeout=60
KillWait=5
CompleteWait=0
PropagateResourceLimits=NONE
NodeName=n[1-{NODES}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first + 1}-{first + NODES}] \
CPUs={CPUS} Boards=1 SocketsPerBoard=1 CoresPerSocket={CPUS} ThreadsPerCore=1 RealMemory=64000 \
Gres=gpu:{GPUS} State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=batch Nodes=ALL Default=YES MaxTime=1-00:00:00 DefaultTime=00:30:00 PriorityTier=1 \
GraceTime={GRACE_S} State=UP
PartitionName=urgent Nodes=ALL MaxTime=1-00:00:00 DefaultTime=00:30:00 PriorityTier=10 \
PreemptMode=OFF State=UP
"""


def _free_ports(count: int) -> int:
    """The first of `count` neighbouring ports that nobody listens on."""
    for first in range(20000, 30000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise RuntimeError("no free ports")


@contextmanager
def _munge(folder: Path) -> Iterator[None]:
    """A munged for the time of the block, unless one runs."""
    if subprocess.run(["munge", "-n"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
        yield
        return
    for path in ("/run/munge", "/var/log/munge"):
        os.makedirs(path, exist_ok=True)
        shutil.chown(path, "munge", "munge")
        os.chmod(path, 0o755)
    pid_file = Path("/run/munge/munged.pid")
    subprocess.run(
        ["runuser", "-u", "munge", "--", _which("munged") or "munged", "--num-threads=4"], check=True
    )
    pid = int(pid_file.read_text())
    try:
        yield
    finally:
        _signal(pid, signal.SIGTERM)
        await_true(lambda: not _lives(pid), 10, "munged's end", 0.05)


def _options(work: Work) -> list[str]:
    options = ["-o", "/dev/null", "-D", "/tmp", "-p", work.partition]
    if work.held:
        options.append("-H")
    if work.tasks:
        options.append(f"--array=0-{work.tasks - 1}")
    if work.whole_cluster:
        options += ["-N", str(NODES), "--exclusive"]
    if work.whole_node:
        options += ["-N", "1", "--exclusive"]
    return options


def _which(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _lives(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return re.sub(r"^.*\)", "", status, flags=re.S).split()[0] != "Z"
