"""The controller's end of the node daemons' streams."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from msgspec import Struct, field

from minislurm.cluster.effects import NodeCommand
from minislurm.cluster.messages import NodeAnswers, NodeSilent
from minislurm.controller.commands import command_message
from minislurm.controller.engine import Engine
from minislurm.domain.ids import NodeName
from minislurm.domain.states import NodeState
from minislurm.journal.store import StoreError
from minislurm.rpc.gen import node_pb2

log = logging.getLogger(__name__)


class Connection(Struct, eq=False):
    """One node daemon's stream. Commands gather while the last message is being sent."""

    node: NodeName
    commands: list[Any] = field(default_factory=list)
    acknowledged: int = 0
    sent_acknowledged: int = 0
    closed: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, command: Any) -> None:
        self.commands.append(command)
        self.wake.set()

    def acknowledge(self, number: int) -> None:
        self.acknowledged = max(self.acknowledged, number)
        self.wake.set()

    def close(self) -> None:
        self.closed = True
        self.wake.set()

    async def next_message(self) -> node_pb2.ControllerMessage | None:
        """Everything that is to be said; None when the stream shall end."""
        while not self.commands and self.acknowledged == self.sent_acknowledged:
            if self.closed:
                return None
            self.wake.clear()
            await self.wake.wait()
        if self.closed:
            return None
        taken, self.commands = self.commands, []
        self.sent_acknowledged = self.acknowledged
        return node_pb2.ControllerMessage(commands=taken, acknowledged=self.acknowledged)


class NodeHub:
    """Who is connected, and when each was last heard."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connections: dict[NodeName, Connection] = {}
        #: On the monotonic clock. A restart of the controller starts every node's clock anew.
        self._last_heard: dict[NodeName, float] = {}

    def open(self, node: NodeName) -> Connection:
        """A new stream takes the place of an older one of the same node."""
        previous = self._connections.get(node)
        if previous is not None:
            previous.close()
        connection = self._connections[node] = Connection(node)
        self.heard(node)
        return connection

    def closed(self, connection: Connection) -> None:
        """The stream broke. The node is offered nothing until it is back; its clock goes on."""
        connection.close()
        if self._connections.get(connection.node) is connection:
            del self._connections[connection.node]
            if self._engine.journal.broken is None:
                self._engine.tell(NodeSilent(connection.node))

    def close_all(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def heard(self, node: NodeName) -> None:
        self._last_heard[node] = time.monotonic()

    def is_connected(self, node: NodeName) -> bool:
        return node in self._connections

    def send(self, command: NodeCommand) -> None:
        """To a node that is not connected nothing is sent: what it must do is said again when it comes."""
        connection = self._connections.get(command.node)
        if connection is None:
            return
        try:
            message = command_message(self._engine, command)
        except StoreError as error:
            log.error("job %s run %s: %s", command.job_id, command.run, error)
            return
        if message is not None:
            connection.send(message)

    async def watch(self) -> None:
        """Tells the core of nodes that have fallen silent, and of those that answer again."""
        timers = self._engine.configuration.timers
        interval = min(timers.heartbeat_interval_s, timers.node_suspect_s / 2, timers.node_timeout_s / 4)
        started = previous = time.monotonic()
        while True:
            await asyncio.sleep(interval)
            now = time.monotonic()
            absent, previous = now - previous > interval + 1.0, now
            if absent or self._engine.journal.broken is not None:
                # We were away (stopped, swapped out, a store that failed): no node is to blame for that.
                started = now
                self._last_heard.clear()
                continue
            for node in list(self._engine.state.nodes.values()):
                silent_s = now - self._last_heard.get(node.name, started)
                if node.state is NodeState.UNKNOWN:
                    continue
                if silent_s > timers.node_timeout_s:
                    if node.state is not NodeState.DOWN:
                        log.warning("node %s: silent for %.1f s, now down", node.name, silent_s)
                        self._engine.tell(NodeSilent(node.name, lost=True))
                elif silent_s > timers.node_suspect_s:
                    if node.responding:
                        log.warning("node %s: silent for %.1f s", node.name, silent_s)
                        self._engine.tell(NodeSilent(node.name))
                elif not node.responding and self.is_connected(node.name):
                    self._engine.tell(NodeAnswers(node.name))
