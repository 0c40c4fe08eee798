"""Where jobs' processes and their node daemon meet about checkpoints: a Unix socket, a folder for each run
whose reports no daemon was there to take, and each run's own checkpoint folder.

Who calls is asked of the kernel. What is said goes to the core as an event; what is wanted of a run comes
from it.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import socket
import stat
import struct
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

from minislurm.checkpoint.place import LONGEST_LINE, reachable
from minislurm.domain.checkpoint import Checkpoint
from minislurm.node import spool
from minislurm.node.checkpoint_keeper import Keeper, KeeperError
from minislurm.node.checkpoint_words import (
    read_hello,
    read_message,
    read_report,
    read_request,
    told_asked,
    told_latest,
)
from minislurm.node.core import NodeCore, RunRecord
from minislurm.node.environment import checkpoint_directory
from minislurm.node.messages import Ask, Event, Listens, Made, Phase, Prepare, RunKey
from minislurm.node.run_files import RunFiles

log = logging.getLogger(__name__)

#: struct ucred: pid, uid, gid.
_CREDENTIALS = struct.Struct("=iii")
#: Of one user, at once.
_MOST_CONNECTIONS = 1024
#: A client has said who it is by then.
_HELLO_S = 30.0
#: So long the file system of a job's checkpoints may take to answer.
_FILES_S = 60.0
#: The same, while the nodes of a run that is over wait for it.
_FLUSH_S = 10.0
#: So many reports are taken from a run's folder.
_MOST_LEFT = 1000
#: A checkpoint folder that cannot be made for one of these reasons cannot be made on any other node.
_JOB_FAULTS = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EEXIST}
)


class CheckpointDesk:
    def __init__(self, core: NodeCore, files: RunFiles, on_event: Callable[[Event], None]) -> None:
        self._core = core
        self._files = files
        self._on_event = on_event
        self._path = f"{files.directory}/{spool.CHECKPOINT_SOCKET}"
        self._server: asyncio.AbstractServer | None = None
        self._connections: Counter[int] = Counter()
        self._listeners: dict[RunKey, set[asyncio.StreamWriter]] = {}
        self._clients: set[asyncio.Task[None]] = set()
        self._keepers: dict[RunKey, Keeper] = {}

    async def open(self) -> None:
        """The spool's lock is held: what lies there is an earlier daemon's. Raises OSError."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        with reachable(self._path) as path:
            umask = os.umask(0o111)  # open to all users
            try:
                listener.bind(path)
            finally:
                os.umask(umask)
        self._server = await asyncio.start_unix_server(self._connected, sock=listener, limit=LONGEST_LINE)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for keeper in self._keepers.values():
            keeper.kill()

    # --- runs --------------------------------------------------------------------------------------------

    def must_prepare(self, prepare: Prepare) -> bool:
        """Is there something to look at before it starts?"""
        job = prepare.job
        return job.batch_host == self._core.node and bool(job.checkpoints or job.spec.checkpoint_dir)

    async def prepare(self, prepare: Prepare) -> Checkpoint | None:
        """Makes the job's checkpoint folder; the newest checkpoint that is still whole. Raises
        KeeperError."""
        directory = checkpoint_directory(prepare)
        keeper = self._keeper(prepare)
        if directory:
            try:
                await keeper.ask("make", _FILES_S, folder=directory)
            except KeeperError as error:
                raise KeeperError(f"checkpoint folder {directory}: {error}", error.errno) from error
            await self.watch(prepare, time.time())
        newest = prepare.job.checkpoints[::-1]
        if not newest:
            return None
        asked = [(one.path, one.size_bytes, one.modified) for one in newest]
        try:
            index = await keeper.ask("choose", _FILES_S, checkpoints=asked)
        finally:
            if not directory:
                self.forget(prepare.key)
        for one in newest[:index]:
            log.warning("run %s: %s is not as it was reported: it is not used", prepare.key, one.path)
        return newest[index] if index is not None else None

    async def watch(self, prepare: Prepare, since: float) -> None:
        """From now on what is renamed into the job's checkpoint folder is reported, and what has been since
        then."""
        try:
            await self._keeper(prepare).ask(
                "watch", _FILES_S, folder=checkpoint_directory(prepare), since=since
            )
        except KeeperError as error:
            log.warning("run %s: its checkpoint folder is not watched: %s", prepare.key, error)

    def must_finish(self, key: RunKey) -> bool:
        return key in self._keepers or bool(self._left(key))

    async def finish(self, key: RunKey) -> None:
        """Nothing of the run is left: takes what it has reported last."""
        keeper = self._keepers.get(key)
        if keeper is not None:
            try:
                await keeper.ask("flush", _FLUSH_S)
            except KeeperError as error:
                log.warning("run %s: its checkpoint folder: %s", key, error)
        self.collect(key)
        self.forget(key)

    def forget(self, key: RunKey) -> None:
        keeper = self._keepers.pop(key, None)
        if keeper is not None:
            keeper.kill()

    async def delete(self, prepare: Prepare, path: str) -> None:
        """By a keeper of its own: the run may be over before it is done."""
        keeper = Keeper(prepare.job.spec, lambda found: None)
        try:
            await keeper.ask("delete", _FILES_S, folder=checkpoint_directory(prepare), path=path)
            log.info("run %s: deleted the old checkpoint %s", prepare.key, path)
        except KeeperError as error:
            log.warning("run %s: the old checkpoint %s stays: %s", prepare.key, path, error)
        finally:
            keeper.kill()

    def _keeper(self, prepare: Prepare) -> Keeper:
        keeper = self._keepers.get(prepare.key)
        if keeper is None:
            key = prepare.key
            keeper = Keeper(prepare.job.spec, lambda found: self._found(key, found))
            self._keepers[key] = keeper
        return keeper

    def _found(self, key: RunKey, found: dict[str, Any]) -> None:
        record = self._core.runs.get(key)
        if record is None:
            return
        try:
            checkpoint = read_report(found, key.run, time.time())
        except ValueError as error:
            log.warning("run %s: in its checkpoint folder: %s", key, error)
            return
        # Of a run that listens only its own word is the answer: this one it may have begun before it was
        # asked.
        self._on_event(Made(key, checkpoint, 0.0 if record.listens else None))

    # --- reports that no daemon was there to take --------------------------------------------------------

    def collect(self, key: RunKey) -> None:
        record = self._core.runs.get(key)
        if record is None:
            return
        for name in self._left(key):
            line = self._take(key, name, record.prepare.job.spec.user_id)
            if not line:
                continue
            try:
                message = read_message(line)
                checkpoint = read_report(message.get("report"), key.run, time.time())
                self._on_event(Made(key, checkpoint, read_request(message)))
            except ValueError as error:
                log.warning("run %s: a report on disk: %s", key, error)

    def _left(self, key: RunKey) -> list[str]:
        """As many as are looked at, at once: the folder is the user's, who may put there what they want."""
        try:
            with os.scandir(self._files.reports(key)) as entries:
                names = [entry.name for entry in islice(entries, _MOST_LEFT)]
        except OSError:
            return []
        return sorted(name for name in names if name.endswith(".json"))

    def _take(self, key: RunKey, name: str, user_id: int) -> bytes:
        """A file that the job's user has put there; b"" for anything else that they may have put there."""
        path = f"{self._files.reports(key)}/{name}"
        line = b""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode) and status.st_uid == user_id:
                    line = file.read(LONGEST_LINE)
        except OSError:
            pass
        try:
            os.unlink(path)
        except OSError:
            pass  # a folder; it goes with the run
        return line

    # --- who listens -------------------------------------------------------------------------------------

    def tell(self, key: RunKey, asked: Ask | None) -> None:
        for writer in list(self._listeners.get(key, ())):
            _say(writer, {"asked": told_asked(asked, time.time())})

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        user_id = _user_of(writer)
        self._connections[user_id] += 1
        key: RunKey | None = None
        try:
            if self._connections[user_id] > _MOST_CONNECTIONS:
                raise ValueError("too many connections")
            hello = read_message(await asyncio.wait_for(reader.readline(), _HELLO_S))
            record = self._admit(read_hello(hello), user_id)
            self.collect(record.key)  # what was left while we were away comes before what is said now
            _say(writer, {"latest": told_latest(record.newest or record.prepare.resume)})
            if hello.get("listen"):
                key = record.key
                self._listen(record, writer)
            while line := await reader.readline():
                self._hear(record.key, line, writer)
        except (ValueError, asyncio.TimeoutError) as error:  # also a line that is too long
            _say(writer, {"error": str(error) or "nothing was said"})
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._clients.discard(task)
            self._connections[user_id] -= 1
            if key is not None:
                self._listeners[key].discard(writer)
                if not self._listeners[key]:
                    del self._listeners[key]
            writer.close()

    def _admit(self, key: RunKey, user_id: int) -> RunRecord:
        """Raises ValueError, with the same words whether the run is not here or not theirs."""
        record = self._core.runs.get(key)
        refused = f"run {key} is not here, or not yours"
        if record is None or record.prepare.job.spec.user_id != user_id:
            raise ValueError(refused)
        if record.phase not in (Phase.RUNNING, Phase.EXITED):
            raise ValueError(refused)
        return record

    def _listen(self, record: RunRecord, writer: asyncio.StreamWriter) -> None:
        self._listeners.setdefault(record.key, set()).add(writer)
        self._on_event(Listens(record.key))
        _say(writer, {"asked": told_asked(record.asked, time.time())})

    def _hear(self, key: RunKey, line: bytes, writer: asyncio.StreamWriter) -> None:
        message = read_message(line)
        record = self._core.runs.get(key)
        if record is None:
            raise ValueError(f"run {key} is over")
        if "report" in message:
            checkpoint = read_report(message["report"], key.run, time.time())
            self._on_event(Made(key, checkpoint, read_request(message)))
            _say(writer, {"reported": checkpoint.path})
        elif "latest" in message:
            _say(writer, {"latest": told_latest(record.newest or record.prepare.resume)})
        else:
            raise ValueError("neither a report nor a question that is known")


def is_job_fault(error: KeeperError) -> bool:
    """Could its folder be made nowhere?"""
    return error.errno in _JOB_FAULTS


def _user_of(writer: asyncio.StreamWriter) -> int:
    connection = writer.get_extra_info("socket")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user_id: int = _CREDENTIALS.unpack(credentials)[1]
    return user_id


def _say(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    """To one who does not read no more than its socket holds."""
    if writer.transport.get_write_buffer_size() > LONGEST_LINE:
        writer.transport.abort()
    else:
        writer.write(json.dumps(message).encode() + b"\n")
