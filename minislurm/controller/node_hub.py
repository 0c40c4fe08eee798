"""The controller's end of the node daemons' streams."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from msgspec import Struct, field

from minislurm.cluster.contacts import Contacts
from minislurm.cluster.effects import NodeCommand
from minislurm.cluster.messages import Message, NodeGivenUp, NodeSilent
from minislurm.controller.commands import command_message
from minislurm.controller.engine import Engine
from minislurm.domain.ids import NodeName
from minislurm.domain.node import Witness
from minislurm.journal.store import StoreError
from minislurm.rpc.gen import node_pb2

log = logging.getLogger(__name__)


class Connection(Struct, eq=False):
    """One node daemon's stream. Commands gather while the last message is being sent."""

    node: NodeName
    commands: list[Any] = field(default_factory=list)
    acknowledged: int = 0
    sent_acknowledged: int = 0
    #: The last heartbeat, and the witnesses that the node is told of with the answer to it.
    heard: int = 0
    sent_heard: int = 0
    witnesses: tuple[Witness, ...] = ()
    sent_witnesses: tuple[Witness, ...] | None = None
    closed: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, command: Any) -> None:
        self.commands.append(command)
        self.wake.set()

    def acknowledge(self, number: int) -> None:
        self.acknowledged = max(self.acknowledged, number)
        self.wake.set()

    def hear(self, beat: int, witnesses: tuple[Witness, ...]) -> None:
        self.heard, self.witnesses = beat, witnesses
        self.wake.set()

    def close(self) -> None:
        self.closed = True
        self.wake.set()

    async def next_message(self) -> node_pb2.ControllerMessage | None:
        """Everything that is to be said; None when the stream shall end."""
        while not self._has_news:
            if self.closed:
                return None
            self.wake.clear()
            await self.wake.wait()
        if self.closed:
            return None
        taken, self.commands = self.commands, []
        self.sent_acknowledged = self.acknowledged
        self.sent_heard = self.heard
        message = node_pb2.ControllerMessage(
            commands=taken, acknowledged=self.acknowledged, heard=self.heard, time=time.time()
        )
        if self.heard and self.witnesses != self.sent_witnesses:
            self.sent_witnesses = self.witnesses
            message.witnesses.SetInParent()
            for one in self.witnesses:
                message.witnesses.witnesses.add(node=one.node, address=one.address, port=one.port)
        return message

    @property
    def _has_news(self) -> bool:
        said = (self.sent_acknowledged, self.sent_heard)
        return bool(self.commands) or (self.acknowledged, self.heard) != said


class NodeHub:
    """Who is connected, and when each was last heard."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connections: dict[NodeName, Connection] = {}
        self._contacts = Contacts(engine.configuration.timers, time.monotonic())

    def open(self, node: NodeName) -> Connection:
        """A new stream takes the place of an older one of the same node."""
        previous = self._connections.get(node)
        if previous is not None:
            previous.close()
        connection = self._connections[node] = Connection(node)
        self._contacts.opened(node, time.monotonic())
        return connection

    def closed(self, connection: Connection) -> None:
        """The stream broke. The node is offered nothing until it is back; its clock goes on."""
        connection.close()
        if self._connections.get(connection.node) is connection:
            del self._connections[connection.node]
            self._contacts.closed(connection.node)
            if self._engine.journal.broken is None:
                self._engine.tell(NodeSilent(connection.node))

    def close_all(self) -> None:
        for connection in self._connections.values():
            connection.close()
            self._contacts.closed(connection.node)
        self._connections.clear()

    def heard(self, connection: Connection, beat: int = 0) -> None:
        """Something came; `beat`: a heartbeat of that number, which the node wants to know that we have
        heard."""
        self._contacts.heard(connection.node, time.monotonic())
        if beat:
            connection.hear(beat, self._witnesses_of(connection.node))

    def _witnesses_of(self, name: NodeName) -> tuple[Witness, ...]:
        """Whom it asks when it loses us, and where they are, as far as that is known."""
        found: list[Witness] = []
        for other in self._engine.state.nodes[name].witnesses:
            node = self._engine.state.nodes.get(other)
            if node is not None:
                address = node.spec.address or node.facts.address
                found.append(Witness(other, address, node.facts.step_port))
        return tuple(found)

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
        """Tells the core of nodes that have fallen silent, are lost, or answer again."""
        timers = self._engine.configuration.timers
        interval = min(
            timers.heartbeat_interval_s,
            timers.node_suspect_s / 2,
            timers.node_timeout_s / 4,
            timers.node_grace_s / 8,
        )
        previous = time.monotonic()
        while True:
            await asyncio.sleep(interval)
            now = time.monotonic()
            absent, previous = now - previous > interval + 1.0, now
            if absent or self._engine.journal.broken is not None:
                # We were away (stopped, swapped out, a store that failed): no node is to blame for that.
                self._contacts.start_anew(now)
                continue
            for message in self._contacts.look(self._engine.state, now):
                self._tell(message, now)

    def _tell(self, message: Message, now: float) -> None:
        match message:
            case NodeSilent():
                what = ", now down" if message.lost else ""
                silence_s = self._contacts.silence_s(message.node, now)
                log.warning("node %s: silent for %.1f s%s", message.node, silence_s, what)
            case NodeGivenUp():
                log.warning("node %s: given up", message.node)
        self._engine.tell(message)
