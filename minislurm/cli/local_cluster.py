"""A cluster on this machine, in one folder: its configuration, its daemons, its logs.

DIR/minislurm.toml    what MINISLURM_CONF points at
DIR/up.json           the options that it was made from
DIR/state/            the controller's: journal and key
DIR/spool/NODE/       a node daemon's
DIR/logs/NAME.log     of "controller", "agent" and each node
DIR/run/NAME.json     which process it is; also the lock and the agent's socket
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minislurm.cli.local_daemon import Daemon
from minislurm.cli.local_plan import Plan, configuration_text, free_port, is_free
from minislurm.domain.configuration import Configuration
from minislurm.domain.configuration_file import load, parse, to_toml
from minislurm.domain.errors import MinislurmError, UsageError
from minislurm.rpc import auth
from minislurm.rpc.agent import LONGEST_SOCKET_PATH

CONTROLLER = "controller"
AGENT = "agent"
_LOCK_TIMEOUT_S = 120.0


class ClusterError(MinislurmError):
    """The local cluster cannot do what was asked; the message says why, and what to do."""


def default_folder() -> Path:
    """~/.local/state/minislurm, or as XDG_STATE_HOME says."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "minislurm"


class LocalCluster:
    """The cluster in `folder`, which need not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.abspath(folder))
        self.configuration_path = self.folder / "minislurm.toml"
        self._plan_path = self.folder / "up.json"

    @property
    def exists(self) -> bool:
        return self.configuration_path.exists()

    def configuration(self) -> Configuration:
        """Raises ClusterError where there is no cluster, ConfigurationError."""
        if not self.exists:
            raise ClusterError(f"there is no cluster in {self.folder}; `minislurm up` makes one")
        return load(str(self.configuration_path))

    # --- daemons -----------------------------------------------------------------------------------------

    def daemons(self, configuration: Configuration) -> list[Daemon]:
        """All daemons in the order of their start. The agent is there where this user is root."""
        config = ("--config", str(self.configuration_path))
        result = [self._daemon(CONTROLLER, "minislurm.controller.main", *config)]
        if os.geteuid() == 0:
            result.append(self._daemon(AGENT, "minislurm.rpc.agent", *config))
        for spec in configuration.nodes:
            result.append(self._daemon(spec.name, "minislurm.node.main", *config, "--node", spec.name))
        return result

    def daemon(self, configuration: Configuration, name: str) -> Daemon:
        """Raises UsageError for an unknown name."""
        for daemon in self.daemons(configuration):
            if daemon.name == name:
                return daemon
        names = ", ".join(daemon.name for daemon in self.daemons(configuration))
        raise UsageError(f"there is no daemon {name} in this cluster (there are {names})")

    def _daemon(self, name: str, *arguments: str) -> Daemon:
        return Daemon(
            name, arguments, self.folder / "run" / f"{name}.json", self.folder / "logs" / f"{name}.log"
        )

    def running(self, configuration: Configuration) -> list[Daemon]:
        return [daemon for daemon in self.daemons(configuration) if daemon.pid() is not None]

    # --- making it ---------------------------------------------------------------------------------------

    def stored_plan(self) -> Plan | None:
        try:
            return Plan.from_json(self._plan_path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise ClusterError(f"{self._plan_path}: cannot be read: {error}") from error

    def prepare(self, plan: Plan) -> Configuration:
        """Folders, key and configuration for `plan`; what is there already and fits stays.

        Raises ClusterError where a running cluster would have to change, ConfigurationError, UsageError.
        """
        plan.check()
        stored = self.stored_plan()
        if self.exists and stored == plan:
            return self._with_free_port(self.configuration(), plan)
        if self.exists:
            configuration = self.configuration()
            running = self.running(configuration)
            if running:
                raise ClusterError(
                    f"the cluster in {self.folder} runs with other options ({_difference(stored, plan)}); "
                    "stop it first with `minislurm down`, or use another --state-dir"
                )
            port: int | None = configuration.cluster.controller_port
        else:
            port = None
        text = configuration_text(plan, self.folder, self._agent_socket(), port)
        self._make_folders()
        auth.make_key(parse(text, str(self.configuration_path)).key_file)
        self._write(text)
        self._plan_path.write_text(plan.to_json() + "\n")
        return self._with_free_port(self.configuration(), plan)

    def _with_free_port(self, configuration: Configuration, plan: Plan) -> Configuration:
        """The same, on another port if a stranger has taken the controller's meanwhile."""
        self._make_folders()
        port = configuration.cluster.controller_port
        if self.daemon(configuration, CONTROLLER).pid() is not None or is_free(port):
            return configuration
        if plan.sets("cluster.controller_port"):
            raise ClusterError(f"another program has taken port {port}, which cluster.controller_port names")
        running = self.running(configuration)
        if running:
            # Their configuration names the old port.
            raise ClusterError(
                f"another program has taken the controller's port {port}, "
                f"and {len(running)} daemons still use it; stop them first with `minislurm down`"
            )
        changed = load(str(self.configuration_path), [f"cluster.controller_port={free_port()}"])
        self._write(to_toml(changed))
        return changed

    def _make_folders(self) -> None:
        """A cluster of root's serves other users: they may read its configuration, and nothing else."""
        is_root = os.geteuid() == 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            owner = self.folder.stat()
            if owner.st_uid != os.geteuid():
                raise ClusterError(f"{self.folder} belongs to another user")
            if stat.S_IMODE(owner.st_mode) & 0o022 or not is_root:
                self.folder.chmod(0o755 if is_root else 0o700)
            for name, mode in (("state", 0o700), ("logs", 0o700), ("run", 0o755), ("spool", 0o755)):
                (self.folder / name).mkdir(exist_ok=True)
                (self.folder / name).chmod(mode)
        except OSError as error:
            what = f"{error.filename}: {error.strerror}"
            raise ClusterError(f"cannot keep a cluster in {self.folder}: {what}") from error

    def _write(self, text: str) -> None:
        temporary = self.configuration_path.with_suffix(".new")
        temporary.write_text(text)
        temporary.chmod(0o644)
        temporary.replace(self.configuration_path)

    def _agent_socket(self) -> str:
        """In the folder, or where its name would be too long for a socket, in a short one of its own."""
        path = str(self.folder / "run" / "agent.sock")
        if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
            return path
        base = (
            "/run"
            if os.geteuid() == 0
            else os.environ.get("XDG_RUNTIME_DIR", f"/tmp/minislurm-{os.geteuid()}")
        )
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]
        return f"{base}/minislurm-{digest}/agent.sock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else starts or stops daemons of this cluster meanwhile. Raises ClusterError."""
        self._make_folders()
        descriptor = os.open(self.folder / "run" / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + _LOCK_TIMEOUT_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise ClusterError(
                            f"another minislurm command is busy with the cluster in {self.folder}"
                        ) from None
                    time.sleep(0.05)
            yield
        finally:
            os.close(descriptor)


def _difference(stored: Plan | None, plan: Plan) -> str:
    if stored is None:
        return "unknown ones"
    names = ("nodes", "cpus", "memory", "gpus", "gpu_type", "racks", "overrides")
    changed = [name for name in names if getattr(stored, name) != getattr(plan, name)]
    return ", ".join(f"{name}: {getattr(stored, name)}" for name in changed)
