"""Frames over a Unix stream socket: between daemon and forker, daemon and shepherd.

A frame is a 4-byte length, a kind byte and the payload. Imported by the forker, so: nothing heavy.
"""

from __future__ import annotations

import json
import socket
import struct
from collections import deque

#: Payload: a JSON object. Strings are `os.fsdecode`d; JSON carries their lone surrogates as escapes.
CONTROL = 0
#: Payload: OUTPUT_HEADER, then bytes that a task wrote.
OUTPUT = 1
#: Payload: INPUT_HEADER, then bytes for the tasks' standard input.
INPUT = 2
#: Payload: a ShepherdOrder in JSON.
ORDER = 3

#: Number of the message, task (global rank), flags.
OUTPUT_HEADER = struct.Struct("!QIB")
FLAG_ERROR = 1
FLAG_END = 2
#: Task (global rank), or ALL_TASKS; flags (FLAG_END).
INPUT_HEADER = struct.Struct("!iB")
ALL_TASKS = -1

_HEADER = struct.Struct("!IB")
MAXIMUM_FRAME = 64 * 1024 * 1024

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class FrameSocket:
    """Non-blocking: what the socket does not take waits in memory (`pending_bytes`) for `flush`."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._incoming = bytearray()
        self._outgoing: deque[tuple[memoryview, list[int]]] = deque()
        self.pending_bytes = 0

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        self._connection.close()
        self._outgoing.clear()
        self.pending_bytes = 0

    def send(self, kind: int, payload: bytes, descriptors: list[int] | None = None) -> None:
        """Queues a frame and sends what the socket takes. Raises OSError if the other side is gone.

        `descriptors` must stay open until the frame is out (`pending_bytes` 0).
        """
        data = _HEADER.pack(len(payload), kind) + payload
        self._outgoing.append((memoryview(data), descriptors or []))
        self.pending_bytes += len(data)
        self.flush()

    def send_control(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        self.send(CONTROL, json.dumps(message, separators=(",", ":")).encode(), descriptors)

    def flush(self) -> None:
        while self._outgoing:
            data, descriptors = self._outgoing[0]
            try:
                if descriptors:
                    sent = socket.send_fds(self._connection, [data], descriptors, socket.MSG_NOSIGNAL)
                else:
                    sent = self._connection.send(data, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            self.pending_bytes -= sent
            if sent == len(data):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = (data[sent:], [])

    def receive(self) -> list[tuple[int, bytes]]:
        """Frames that are complete now. Raises EOFError at the end, OSError if the other side is gone."""
        try:
            data = self._connection.recv(262144)
        except BlockingIOError:
            return []
        if not data:
            raise EOFError
        self._incoming += data
        return split_frames(self._incoming)


def split_frames(buffer: bytearray) -> list[tuple[int, bytes]]:
    """Takes the complete frames off the front of `buffer`."""
    frames: list[tuple[int, bytes]] = []
    start = 0
    while len(buffer) - start >= _HEADER.size:
        length, kind = _HEADER.unpack_from(buffer, start)
        assert length <= MAXIMUM_FRAME, "not a frame"
        end = start + _HEADER.size + length
        if len(buffer) < end:
            break
        frames.append((kind, bytes(buffer[start + _HEADER.size : end])))
        start = end
    del buffer[:start]
    return frames
