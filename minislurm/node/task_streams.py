"""The shepherd's ends of its tasks' pipes: output to the relay, input from it."""

from __future__ import annotations

import os
import select

from minislurm.node import frames
from minislurm.node.relay import InputQueue, Relay
from minislurm.node.tasks import Task

CHUNK = 65536


class TaskStreams:
    def __init__(self, poll: select.poll, relay: Relay) -> None:
        self._poll = poll
        self._relay = relay
        #: Descriptor: (rank, is_error).
        self._outputs: dict[int, tuple[int, bool]] = {}
        self._inputs: dict[int, InputQueue] = {}
        self._input_of_rank: dict[int, int] = {}
        self._paused = False

    def add(self, task: Task) -> None:
        for descriptor, is_error in ((task.output_fd, False), (task.error_fd, True)):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)
                self._outputs[descriptor] = (task.rank, is_error)
                if not self._paused:
                    self._poll.register(descriptor, select.POLLIN)
        if task.input_fd >= 0:
            os.set_blocking(task.input_fd, False)
            self._inputs[task.input_fd] = InputQueue()
            self._input_of_rank[task.rank] = task.input_fd

    def serve(self, descriptor: int, events: int) -> int:
        """Handles a descriptor that `poll` named; how many bytes of input left the queues."""
        if descriptor in self._inputs:
            return self._write_input(descriptor)
        if descriptor in self._outputs and not self._relay.is_full:
            self._read_output(descriptor)
        return 0

    def update_pauses(self) -> None:
        """Reads the pipes only while the relay can hold more."""
        if self._relay.is_full == self._paused:
            return
        self._paused = not self._paused
        for descriptor in self._outputs:
            if self._paused:
                self._poll.unregister(descriptor)
            else:
                self._poll.register(descriptor, select.POLLIN)

    def drain(self) -> bool:
        """When no task is left: takes what the pipes still hold; False where the relay is full before."""
        for descriptor in list(self._inputs):
            self._close_input(descriptor)
        while self._outputs and not self._relay.is_full:
            descriptor = next(iter(self._outputs))
            if not self._read_output(descriptor):
                self._close_output(descriptor)
        return not self._outputs

    def give_input(self, payload: bytes) -> int:
        """An INPUT frame; how many bytes went straight through or nowhere."""
        rank, flags = frames.INPUT_HEADER.unpack_from(payload)
        data = payload[frames.INPUT_HEADER.size :]
        targets = list(self._inputs)
        if rank != frames.ALL_TASKS:
            wanted = self._input_of_rank.get(rank, -1)
            targets = [wanted] if wanted in self._inputs else []
        before = self._queued()
        for descriptor in targets:
            queue = self._inputs[descriptor]
            queue.data += data
            queue.ended = queue.ended or bool(flags & frames.FLAG_END)
            self._write_input(descriptor)
        # With several tasks the slowest counts.
        return max(0, before + len(data) - self._queued())

    def _queued(self) -> int:
        return max((len(queue.data) for queue in self._inputs.values()), default=0)

    def _write_input(self, descriptor: int) -> int:
        queue = self._inputs[descriptor]
        before = self._queued()
        try:
            while queue.data:
                del queue.data[: os.write(descriptor, bytes(queue.data[:CHUNK]))]
        except BlockingIOError:
            self._poll.register(descriptor, select.POLLOUT)
            return max(0, before - self._queued())
        except OSError:  # the task does not read
            self._close_input(descriptor)
            return max(0, before - self._queued())
        if queue.ended:
            self._close_input(descriptor)
        else:
            self._unregister(descriptor)
        return max(0, before - self._queued())

    def _close_input(self, descriptor: int) -> None:
        self._unregister(descriptor)
        del self._inputs[descriptor]
        os.close(descriptor)

    def _read_output(self, descriptor: int) -> bool:
        """False where nothing could be read now."""
        rank, is_error = self._outputs[descriptor]
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close_output(descriptor)
            return True
        self._relay.post_output(rank, is_error, data)
        return True

    def _close_output(self, descriptor: int) -> None:
        rank, is_error = self._outputs.pop(descriptor)
        if not self._paused:
            self._unregister(descriptor)
        os.close(descriptor)
        self._relay.post_output(rank, is_error, b"", end=True)

    def _unregister(self, descriptor: int) -> None:
        try:
            self._poll.unregister(descriptor)
        except KeyError:
            pass
