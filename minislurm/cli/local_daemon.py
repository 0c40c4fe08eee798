"""Background processes of a local cluster: started detached, found again, ended, and never mistaken.

A record in `run/NAME.json` names a process by its pid, the time it started and the boot it started in, so
that a pid which the kernel has given to somebody else since is never taken for the daemon.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

import minislurm

#: A log that has grown beyond this is set aside (NAME.log.1) when its daemon starts.
LARGEST_LOG_BYTES = 20 * 1024 * 1024


class Daemon(Struct, frozen=True):
    """One daemon of a cluster, running or not."""

    #: "controller", "agent", or the node's name.
    name: str
    #: Module and arguments, as for `python -m`.
    arguments: tuple[str, ...]
    record_path: Path
    log_path: Path

    def pid(self) -> int | None:
        """Its process, None if it does not run."""
        try:
            record = json.loads(self.record_path.read_text())
            pid, start_time, boot = int(record["pid"]), int(record["start_time"]), record["boot"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return pid if boot == _boot_id() and _start_time(pid) == start_time else None

    def start(self) -> int:
        """Starts it detached from this process and its terminal; returns its pid. Raises OSError."""
        if self.log_path.exists() and self.log_path.stat().st_size > LARGEST_LOG_BYTES:
            self.log_path.replace(f"{self.log_path}.1")
        log = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_environment(),
                start_new_session=True,
            )
        finally:
            os.close(log)
        record = {"pid": process.pid, "start_time": _start_time(process.pid), "boot": _boot_id()}
        temporary = self.record_path.with_suffix(".new")
        temporary.write_text(json.dumps(record))
        temporary.replace(self.record_path)
        _children[process.pid] = process
        return process.pid

    def log_tail(self, lines: int = 20) -> list[str]:
        """The end of its log."""
        try:
            with self.log_path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 200 * lines))
                return file.read().decode(errors="replace").splitlines()[-lines:]
        except OSError:
            return []


#: Processes that this one started: kept until they end, so that they are waited for and leave no zombie.
_children: dict[int, subprocess.Popen[bytes]] = {}


def end(daemons: Iterable[Daemon], timeout_s: float = 15.0) -> list[Daemon]:
    """Sends SIGTERM, after `timeout_s` SIGKILL, and waits; returns those that had to be killed.

    Every signal goes through a pidfd that was opened before the process was checked to be the daemon.
    """
    waiting: dict[int, Daemon] = {}
    for daemon in daemons:
        descriptor = _pidfd(daemon)
        if descriptor is not None:
            waiting[descriptor] = daemon
            _send(descriptor, signal.SIGTERM)
    _await_end(waiting, time.monotonic() + timeout_s)
    killed = list(waiting.values())
    for descriptor in waiting:
        _send(descriptor, signal.SIGKILL)
    _await_end(waiting, time.monotonic() + 5.0)
    for descriptor in waiting:
        os.close(descriptor)
    return killed


def _pidfd(daemon: Daemon) -> int | None:
    pid = daemon.pid()
    if pid is None:
        return None
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    if daemon.pid() == pid:
        return descriptor
    os.close(descriptor)
    return None


def _await_end(waiting: dict[int, Daemon], deadline: float) -> None:
    """Takes out of `waiting` what has ended."""
    poll = select.poll()
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            poll.unregister(descriptor)
            os.close(descriptor)
            waiting.pop(descriptor).record_path.unlink(missing_ok=True)
            _reap()


def _send(descriptor: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        pass


def _reap() -> None:
    for pid, process in list(_children.items()):
        if process.poll() is not None:
            del _children[pid]


def _start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process; None if there is none, or only its zombie."""
    _reap()
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The second field is the command in brackets and may hold anything.
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZXx" else int(fields[19])


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _environment() -> dict[str, str]:
    """This process' environment without the job it may run in, and with this package importable."""
    result = {
        name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "SRUN"))
    }
    result.pop("MINISLURM_CONF", None)
    source = str(Path(minislurm.__file__).resolve().parent.parent)
    if "site-packages" not in source:
        result["PYTHONPATH"] = os.pathsep.join(filter(None, [source, result.get("PYTHONPATH", "")]))
    return result


def follow(daemons: Sequence[Daemon], lines: int, *, keep_on: bool) -> Iterable[tuple[Daemon, str]]:
    """The last lines of each log, then with `keep_on` what is added, for ever."""
    places: dict[str, int] = {}
    for daemon in daemons:
        places[daemon.name] = daemon.log_path.stat().st_size if daemon.log_path.exists() else 0
        yield from ((daemon, line) for line in daemon.log_tail(lines))
    while keep_on:
        time.sleep(0.25)
        for daemon in daemons:
            if not daemon.log_path.exists():
                continue
            size = daemon.log_path.stat().st_size
            if size < places[daemon.name]:
                places[daemon.name] = 0  # set aside and begun anew
            with daemon.log_path.open("rb") as file:
                file.seek(places[daemon.name])
                whole, newline, _ = file.read().rpartition(b"\n")
            places[daemon.name] += len(whole + newline)
            yield from ((daemon, line) for line in whole.decode(errors="replace").splitlines())
