"""Checkpoints on disk: what they measure, whether they are still as they were reported, which have come.

Also a program, which the node daemon runs as the job's user (`main`): so nobody can make the daemon look at,
or delete, what that user could not. It is given to Python as text: standard library only, and nothing of
minislurm.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import stat
import struct
import sys
from collections.abc import Iterator
from typing import Any

#: Names of what is not yet finished: in a checkpoint folder they are passed over.
_UNFINISHED = (".tmp", ".temp", ".part", ".partial", ".incomplete", "~")

#: For what comes without a notice: renamed on another host, on a file system that both share.
LOOK_EVERY_MS = 5000

_IN_MOVED_TO = 0x80
_IN_Q_OVERFLOW = 0x4000
_IN_IGNORED = 0x8000
_EVENT = struct.Struct("iIII")  # struct inotify_event: wd, mask, cookie, len


def measure(path: str) -> tuple[int, float]:
    """(bytes, newest time of modification) of a file, or of all files in a folder. Raises OSError."""
    size, modified = 0, 0.0
    for status in _files(path):
        size += status.st_size
        modified = max(modified, status.st_mtime)
    return size, modified


def is_whole(path: str, size: int, modified: float) -> bool:
    """Is all still there that was reported? Files may have been added since. One that was written again, or
    cut off, is newer than the report or not as large."""
    try:
        return sum(s.st_size for s in _files(path) if s.st_mtime <= modified) == size
    except OSError:
        return False


def _files(path: str) -> Iterator[os.stat_result]:
    top = os.stat(path)
    if not stat.S_ISDIR(top.st_mode):
        yield top
        return
    for folder, _, names in os.walk(path, onerror=_fail):
        for name in names:
            yield os.lstat(os.path.join(folder, name))


def _fail(error: OSError) -> None:
    raise error


def is_finished_name(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(_UNFINISHED)


def delete(folder: str, path: str) -> None:
    """Deletes a checkpoint inside of `folder`. Raises OSError, ValueError for what lies outside."""
    place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    inside = os.path.realpath(folder)
    if not folder or os.path.commonpath([inside, place]) != inside or place == inside:
        raise ValueError(f"{path} is not in {folder}")
    if os.path.isdir(place) and not os.path.islink(place):
        shutil.rmtree(place)
    else:
        os.unlink(place)


class Watch:
    """Finished files and folders that are renamed into a folder. Raises OSError."""

    def __init__(self, folder: str, since: float) -> None:
        """`since`: what was renamed into it after that time (Unix seconds) has not been seen yet."""
        self._folder = folder
        self._known: set[tuple[str, int, int]] = set()
        import ctypes  # what only measures needs it not

        library = ctypes.CDLL(None, use_errno=True)
        self.descriptor = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self.descriptor < 0:
            raise _error(ctypes.get_errno(), "inotify_init1")
        if library.inotify_add_watch(self.descriptor, os.fsencode(folder), _IN_MOVED_TO) < 0:
            raise _error(ctypes.get_errno(), folder)
        self._since = since

    def renamed(self) -> Iterator[str]:
        """Names that have come since the last call."""
        try:
            data = os.read(self.descriptor, 65536)
        except BlockingIOError:
            return
        position = 0
        while position < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, position)
            name = data[position + _EVENT.size : position + _EVENT.size + length].rstrip(b"\0")
            position += _EVENT.size + length
            if mask & _IN_MOVED_TO:
                yield os.fsdecode(name)
            elif mask & (_IN_Q_OVERFLOW | _IN_IGNORED):
                yield from self.missed()

    def missed(self) -> Iterator[str]:
        """Names that were renamed into the folder without our seeing it: while the daemon was away, or on
        another host. A rename changes the time of the inode and not that of its content; who writes in place
        changes both to the same. (A rename within a few milliseconds after the last write looks like the
        latter.)"""
        for entry in os.scandir(self._folder):
            status = entry.stat(follow_symlinks=False)
            was_renamed = status.st_ctime_ns > status.st_mtime_ns and status.st_ctime >= self._since
            if was_renamed and is_finished_name(entry.name):
                yield entry.name

    def found(self, names: Iterator[str]) -> Iterator[dict[str, Any]]:
        """Of each name, once for each time it has come, what there is to report."""
        for name in names:
            path = os.path.join(self._folder, name)
            try:
                status = os.lstat(path)
                identity = (name, status.st_ino, status.st_ctime_ns)
                if identity in self._known or not is_finished_name(name):
                    continue
                size, modified = measure(path)
            except OSError:
                continue  # it has gone already
            self._known.add(identity)
            yield {"path": path, "size_bytes": size, "modified": modified, "time": status.st_ctime}


def _error(number: int, what: str) -> OSError:
    return OSError(number, os.strerror(number), what)


class Keeper:
    """The program: one JSON object a line in, one out. `{"id", "do", …}` is answered with `{"id", …}`; what
    is found in the watched folder is said as `{"found": …}` as it comes."""

    def __init__(self) -> None:
        self._watch: Watch | None = None
        self._buffer = b""

    def run(self) -> None:
        """Until nobody is there to tell."""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        while True:
            events = poll.poll(None if self._watch is None else LOOK_EVERY_MS)
            if not events:
                self._tell_missed()
            for descriptor, _ in events:
                if descriptor != 0:
                    self._look()
                    continue
                data = os.read(0, 65536)
                if not data:
                    return
                *lines, self._buffer = (self._buffer + data).split(b"\n")
                for line in lines:
                    before = self._watch
                    self._answer(json.loads(line))
                    if self._watch is not None and before is None:
                        poll.register(self._watch.descriptor, select.POLLIN)

    def _answer(self, request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer["result"] = getattr(self, "do_" + request["do"])(request)
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else None
            text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            answer["error"], answer["errno"] = text, number
        _say(answer)

    def do_make(self, request: dict[str, Any]) -> None:
        os.makedirs(request["folder"], exist_ok=True)
        if not os.access(request["folder"], os.W_OK | os.X_OK):
            raise PermissionError(13, os.strerror(13), request["folder"])

    def do_choose(self, request: dict[str, Any]) -> int | None:
        """Index of the first that is whole."""
        for index, (path, size, modified) in enumerate(request["checkpoints"]):
            if is_whole(path, size, modified):
                return index
        return None

    def do_watch(self, request: dict[str, Any]) -> None:
        self._watch = Watch(request["folder"], request["since"])
        self._tell_missed()

    def do_flush(self, request: dict[str, Any]) -> None:
        """Everything that has come so far has been said when this is answered."""
        self._look()
        self._tell_missed()

    def do_delete(self, request: dict[str, Any]) -> None:
        delete(request["folder"], request["path"])

    def _look(self) -> None:
        if self._watch is not None:
            self._tell(self._watch.found(self._watch.renamed()))

    def _tell_missed(self) -> None:
        if self._watch is not None:
            self._tell(self._watch.found(self._watch.missed()))

    def _tell(self, found: Iterator[dict[str, Any]]) -> None:
        try:
            for one in found:
                _say({"found": one})
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise  # the daemon has gone; otherwise it is the folder


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Arguments: user, group, further groups to become; none: it stays whose it is."""
    numbers = [int(argument) for argument in sys.argv[1:]]
    if numbers:
        import ctypes  # noqa: F401 (the user may not be able to load it)

        user_id, group_id, *groups = numbers
        os.setgroups(groups)
        os.setresgid(group_id, group_id, group_id)
        os.setresuid(user_id, user_id, user_id)
    os.chdir("/")
    os.umask(0o022)
    try:
        Keeper().run()
    except (BrokenPipeError, KeyboardInterrupt):
        pass


if __name__ == "__main__":
    main()
