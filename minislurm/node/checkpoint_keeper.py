"""The daemon's side of the program that looks at a job's checkpoints as the job's user
(`minislurm/checkpoint/files.py`). It is started when it is first needed, and one serves a run to its end."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from minislurm.checkpoint import files as program
from minislurm.domain.job import JobSpec

log = logging.getLogger(__name__)


class KeeperError(Exception):
    """What was asked could not be done. `errno` None: the program itself failed, or took too long."""

    def __init__(self, text: str, errno: int | None = None) -> None:
        super().__init__(text)
        self.errno = errno


class Keeper:
    """`on_found`: called for each checkpoint that came into the watched folder."""

    def __init__(self, spec: JobSpec, on_found: Callable[[dict[str, Any]], None]) -> None:
        self._spec = spec
        self._on_found = on_found
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()
        self._starting = asyncio.Lock()

    async def ask(self, do: str, timeout_s: float, **what: Any) -> Any:
        """Raises KeeperError."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._waiting[number] = answer
        try:
            process = await self._started()
            assert process.stdin is not None
            process.stdin.write(json.dumps({"id": number, "do": do, **what}).encode() + b"\n")
            return await asyncio.wait_for(answer, timeout_s)
        except asyncio.TimeoutError:
            # A file system that does not answer: the program hangs in it, and would for the next question.
            self.kill()
            raise KeeperError(f"no answer from its file system after {timeout_s:g} s") from None
        except OSError as error:
            raise KeeperError(f"cannot be looked at: {error.strerror}") from error
        finally:
            self._waiting.pop(number, None)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    async def _started(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                user = await asyncio.to_thread(_user, self._spec)
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-I", "-S", "-c", _source(), *user,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    start_new_session=True,
                )  # fmt: skip
                self._reader = asyncio.ensure_future(self._read(self._process))
            return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            message = json.loads(line)
            if "found" in message:
                self._on_found(message["found"])
                continue
            answer = self._waiting.get(message["id"])
            if answer is None or answer.done():
                continue
            if "error" in message:
                answer.set_exception(KeeperError(message["error"], message["errno"]))
            else:
                answer.set_result(message["result"])
        await process.wait()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(KeeperError("the program that looks at checkpoints has ended"))


def _user(spec: JobSpec) -> list[str]:
    """User, group and further groups that the program takes; [] where that is who we are."""
    if os.geteuid() != 0 or spec.user_id == 0:
        return []
    try:
        groups = os.getgrouplist(spec.user_name, spec.group_id)
    except (KeyError, OSError):
        groups = [spec.group_id]
    return [str(number) for number in (spec.user_id, spec.group_id, *groups)]


@lru_cache(maxsize=1)
def _source() -> str:
    """As text. The program becomes the user by itself, when all is loaded: they need not be able to read
    where Python and minislurm are installed."""
    assert program.__file__ is not None
    return Path(program.__file__).read_text(encoding="utf-8")
