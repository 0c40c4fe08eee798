"""The daemon's end of the socket to one shepherd."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any, Protocol

from minislurm.node import frames
from minislurm.node.orders import ShepherdOrder

#: struct ucred: pid, uid, gid.
_CREDENTIALS = struct.Struct("=iii")


class Receiver(Protocol):
    """Who a link talks to: the daemon's record of a step."""

    def on_control(self, message: dict[str, Any]) -> None: ...

    def on_output(self, payload: bytes) -> None: ...

    def on_closed(self) -> None:
        """The shepherd has ended, by itself or not. Last call."""


class ShepherdLink:
    """Needs a running loop. Calls after the end do nothing. `receiver` may be changed at any time."""

    def __init__(self, connection: socket.socket, receiver: Receiver) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket: frames.FrameSocket | None = frames.FrameSocket(connection)
        self.receiver = receiver
        self._loop.add_reader(self._socket.fileno(), self._readable)

    @property
    def is_closed(self) -> bool:
        return self._socket is None

    def order(self, order: ShepherdOrder) -> None:
        self._send(frames.ORDER, json.dumps(order, separators=(",", ":")).encode())

    def tell(self, message: dict[str, Any]) -> None:
        self._send(frames.CONTROL, json.dumps(message, separators=(",", ":")).encode())

    def give_input(self, task: int, data: bytes, end: bool) -> None:
        header = frames.INPUT_HEADER.pack(task, frames.FLAG_END if end else 0)
        self._send(frames.INPUT, header + data)

    def close(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _send(self, kind: int, payload: bytes) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send(kind, payload)
        except OSError:
            return  # its end is found out by reading, after what it said last
        if self._socket.pending_bytes:
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        if self._socket is None:
            return
        try:
            self._socket.flush()
        except OSError:
            self._loop.remove_writer(self._socket.fileno())
            return
        if not self._socket.pending_bytes:
            self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            received = self._socket.receive()
        except (EOFError, OSError):
            self.close()
            self.receiver.on_closed()
            return
        for kind, payload in received:
            if kind == frames.OUTPUT:
                self.receiver.on_output(payload)
            else:
                self.receiver.on_control(json.loads(payload))


def connect(state: dict[str, Any]) -> socket.socket | None:
    """To the shepherd that wrote this state (first line of the status file); None where it is gone."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect("\0" + state["socket"])
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        connection.close()
        return None
    if _CREDENTIALS.unpack(credentials)[0] != state["pid"]:
        # Someone else has taken the name of a dead one.
        connection.close()
        return None
    return connection
