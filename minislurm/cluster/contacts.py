"""When a node is suspect, DOWN, and given up: by silence, and by nothing shorter than that. Pure: the time,
which may be any monotonic clock's, comes with each call.

    heard … silent for node_suspect_s: not responding (sinfo's ``*``), no new work
          … for node_timeout_s: DOWN; its runs are ended on their other nodes
          … and node_grace_s later: given up; what it ran may start elsewhere

No run is executed twice at once, since the node ends its runs before it is given up (`node/isolation.py`): it
may run what it runs for `node_timeout_s` after the last heartbeat that it knows was heard, and then only as
long as a majority of its witnesses, and none that says otherwise, has not heard the controller either. The
controller in turn gives it up only if a majority of the same witnesses has been in contact for longer than
such an extension lasts: one witness at least would have told the node so. A node that nobody can give up by
that rule (it has no witnesses, or most of them are gone as well) waits for an operator (`State=DOWN`), or for
its
return.
"""

from __future__ import annotations

from collections.abc import Iterator

from minislurm.cluster.messages import Message, NodeAnswers, NodeGivenUp, NodeSilent
from minislurm.cluster.state import ClusterState
from minislurm.cluster.witnesses import majority_of
from minislurm.domain.configuration import TimersSection
from minislurm.domain.ids import NodeName
from minislurm.domain.node import Node
from minislurm.domain.states import NodeState


def extension_s(timers: TimersSection) -> float:
    """For so long a node may go on that has learnt that the controller is away."""
    return timers.node_timeout_s / 2


class Contacts:
    """Who was heard when. A restart of the controller starts every node's clock anew."""

    def __init__(self, timers: TimersSection, now: float) -> None:
        self._timers = timers
        self._started = now
        self._heard: dict[NodeName, float] = {}
        #: Since when there has been no gap in it.
        self._since: dict[NodeName, float] = {}
        self._connected: set[NodeName] = set()

    def start_anew(self, now: float) -> None:
        """The controller itself was away: no node is to blame for that."""
        self._started = now
        self._heard.clear()
        self._since.clear()

    def opened(self, node: NodeName, now: float) -> None:
        self._connected.add(node)
        self._since[node] = self._heard[node] = now

    def closed(self, node: NodeName) -> None:
        self._connected.discard(node)
        self._since.pop(node, None)

    def heard(self, node: NodeName, now: float) -> None:
        if now - self._heard.get(node, self._started) > self._timers.node_suspect_s:
            self._since.pop(node, None)
        self._since.setdefault(node, now)
        self._heard[node] = now

    def silence_s(self, node: NodeName, now: float) -> float:
        return now - self._heard.get(node, self._started)

    def look(self, state: ClusterState, now: float) -> Iterator[Message]:
        """What the core must be told; each message is to be carried out before the next is asked for."""
        timers = self._timers
        for node in list(state.nodes.values()):
            silent_s = self.silence_s(node.name, now)
            if node.state is NodeState.UNKNOWN:
                continue
            if silent_s > timers.node_timeout_s:
                if node.state is not NodeState.DOWN or node.responding:
                    yield NodeSilent(node.name, lost=True)
                elif not node.given_up and self._may_be_given_up(state, node, now):
                    yield NodeGivenUp(node.name)
            elif silent_s > timers.node_suspect_s:
                if node.responding:
                    yield NodeSilent(node.name)
            elif not node.responding and node.name in self._connected:
                yield NodeAnswers(node.name)

    def _may_be_given_up(self, state: ClusterState, node: Node, now: float) -> bool:
        timers = self._timers
        if self.silence_s(node.name, now) <= timers.node_timeout_s + timers.node_grace_s:
            return False
        sure_s = extension_s(timers) + timers.node_grace_s
        sure = [name for name in node.witnesses if self._contact_s(state, name, now) > sure_s]
        return len(sure) >= majority_of(len(node.witnesses))

    def _contact_s(self, state: ClusterState, name: NodeName, now: float) -> float:
        """For how long it has been in contact without a gap; 0: it is not."""
        if name not in state.nodes or self.silence_s(name, now) > self._timers.node_suspect_s:
            return 0.0
        since = self._since.get(name)
        return now - since if since is not None else 0.0
