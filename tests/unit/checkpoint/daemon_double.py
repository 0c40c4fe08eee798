"""A node daemon as a job's process sees it: a Unix socket that says and hears JSON lines."""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any


class DaemonDouble:
    """`heard`: all messages after a hello; `hellos`: those. Answers reports unless `refuses` says why not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.latest: dict[str, Any] | None = None
        self.asked: dict[str, Any] | None = None
        self.refuses = ""
        self.is_dumb = False
        self.hellos: list[dict[str, Any]] = []
        self.heard: queue.Queue[dict[str, Any]] = queue.Queue()
        self._listeners: list[socket.socket] = []
        self._connections: list[socket.socket] = []

    def __enter__(self) -> DaemonDouble:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self.path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(self.path.parent, os.O_PATH)
        self._socket.bind(f"/proc/self/fd/{folder}/{self.path.name}")
        os.close(folder)
        self._socket.listen(16)
        threading.Thread(target=self._accept, args=(self._socket,), daemon=True).start()

    def stop(self) -> None:
        """As if it had been killed."""
        self.path.unlink(missing_ok=True)
        for one in (self._socket, *self._connections):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
        self._listeners.clear()
        self._connections.clear()

    def ask(self, request: float, reason: str = "preempt", seconds_left: float | None = 30.0) -> None:
        self.asked = {"request": request, "reason": reason, "seconds_left": seconds_left}
        self._tell_all()

    def withdraw(self) -> None:
        self.asked = None
        self._tell_all()

    def reports(self, count: int) -> list[dict[str, Any]]:
        return [self.heard.get(timeout=10) for _ in range(count)]

    def wait_listener(self) -> None:
        until(lambda: self._listeners)

    def _tell_all(self) -> None:
        for listener in self._listeners:
            _say(listener, {"asked": self.asked})

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rb") as lines:
                hello = json.loads(next(lines))
                self.hellos.append(hello)
                if self.is_dumb:
                    return
                _say(connection, {"latest": self.latest})
                if hello["listen"]:
                    _say(connection, {"asked": self.asked})
                    self._listeners.append(connection)
                for line in lines:
                    self.heard.put(json.loads(line))
                    _say(connection, {"error": self.refuses} if self.refuses else {"reported": "it"})
        except (OSError, ValueError, StopIteration):
            pass


def until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.005)


def _say(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")
