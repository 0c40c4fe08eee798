"""Which processes belong to a step, and how to signal and kill them all.

Two ways: a control group of cgroup v2, which nothing can leave; or descent from the step's shepherd, which is
a "child subreaper" (prctl(2)), so that a daemonized orphan becomes its child instead of init's. Imported by
the forker: nothing heavy.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class DescendantTracker:
    """The descendants of a subreaper."""

    def __init__(self, root_pid: int) -> None:
        self._root_pid = root_pid

    def pids(self) -> list[int]:
        return descendants(self._root_pid)

    def kill(self) -> None:
        """KILL to all. What forks meanwhile is caught by the next call: repeat until none is left."""
        send_signal(self.pids(), signal.SIGKILL)

    def remove(self) -> bool:
        return True


class CgroupTracker:
    """The members of one control group and of those below it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def pids(self) -> list[int]:
        found: list[int] = []
        for directory, _, _ in os.walk(self._path):
            try:
                with open(f"{directory}/cgroup.procs") as file:
                    found.extend(int(line) for line in file)
            except OSError:
                continue
        return [pid for pid in found if pid]  # 0: a process of another PID namespace

    def kill(self) -> None:
        try:
            descriptor = os.open(f"{self._path}/cgroup.kill", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # before Linux 5.14
            send_signal(self.pids(), signal.SIGKILL)
            return
        try:
            os.write(descriptor, b"1")
        finally:
            os.close(descriptor)

    def remove(self) -> bool:
        """False while something is left in it."""
        try:
            os.rmdir(self._path)
        except FileNotFoundError:
            return True
        except OSError:
            return self._remove_below()
        return True

    def _remove_below(self) -> bool:
        try:
            for directory, _, _ in os.walk(self._path, topdown=False):
                os.rmdir(directory)
        except OSError:
            return not os.path.exists(self._path)
        return True


def send_signal(pids: Iterable[int], number: int) -> None:
    """To each process that still exists."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


#: Each installs handlers for all signals when it has something to do at its exit (bash: `trap … EXIT`), does
#: that, and ends: that it catches a signal does not mean that it could do with it.
_SHELLS = frozenset(
    {"bash", "sh", "dash", "ash", "busybox", "ksh", "ksh93", "mksh", "zsh", "fish", "csh", "tcsh"}
)


def catchers(pids: Iterable[int], number: int, *, shells: bool) -> list[int]:
    """Those that have a handler for the signal (SigCgt of proc(5)); `shells`: also those that are a shell."""
    found: list[int] = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status", "rb") as file:
                text = file.read()
            # Not the process' name, which is the script's.
            program = os.path.basename(os.readlink(f"/proc/{pid}/exe")).partition(" ")[0]
        except OSError:
            continue
        caught = text.partition(b"\nSigCgt:")[2].split(None, 1)
        if caught and int(caught[0], 16) >> (number - 1) & 1 and (shells or program not in _SHELLS):
            found.append(pid)
    return found


def descendants(root_pid: int) -> list[int]:
    """Pids of all descendants, zombies left out; parents before children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat_fields(int(name))
            if fields is not None and fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    wave = children.get(root_pid, [])
    while wave:
        found.extend(wave)
        wave = [child for pid in wave for child in children.get(pid, ())]
    return found


def start_time(pid: int) -> int | None:
    """In clock ticks since boot; with the pid it names a process for ever. None: no such process."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields is not None and fields[0] != "Z" else None


def marked_processes(marks: Mapping[str, str]) -> list[int]:
    """Processes that have all of these in their environment.

    For what a killed shepherd left behind: its descendants are init's children by then.
    """
    marked = [f"{name}={value}".encode() for name, value in marks.items()]
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue
        if all(mark in entries for mark in marked):
            found.append(int(name))
    return found


def session_members(session_ids: Iterable[int]) -> list[int]:
    """Processes in any of these sessions (each task leads one)."""
    wanted = {str(session_id) for session_id in session_ids}
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat_fields(int(name))
            if fields is not None and fields[0] != "Z" and fields[3] in wanted:
                found.append(int(name))
    return found


def _stat_fields(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on: state, parent, group, session … (proc(5), field 3 on)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name, in parentheses, may itself hold blanks and parentheses.
    return text[text.rindex(b")") + 2 :].decode().split()
