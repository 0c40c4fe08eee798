"""One transaction: decide, then apply and react, then whatever follows. No I/O; the controller and the
simulator drive the same code."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct, field

from minislurm.cluster.apply import apply
from minislurm.cluster.decide import decide
from minislurm.cluster.effects import Effect
from minislurm.cluster.events import Event
from minislurm.cluster.follow import follow
from minislurm.cluster.messages import Message
from minislurm.cluster.react import react
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import Refusal


class Transaction(Struct):
    """What a message led to. `effects` wait until `events` are in the journal."""

    events: list[Event] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    refusal: Refusal | None = None


def handle(state: ClusterState, message: Message, now: float, record: Callable[[Event], None]) -> Transaction:
    """Carries a message out on the state. `record` is given each event before it is applied, since
    records inside an event become part of the state."""
    transaction = Transaction()
    decided = decide(state, message, now)
    if isinstance(decided, Refusal):
        transaction.refusal = decided
        return transaction
    if not decided:  # of most timers nothing comes: what they were for is over
        return transaction
    # What follows comes before what was decided beside it: a run must have ended before the next event of
    # the same message looks at the job. Each follower is worked out when those before it have been
    # applied, so that two of them cannot give the same new id away.
    stack: list[Iterator[Event]] = [iter(decided)]
    while stack:
        event = next(stack[-1], None)
        if event is None:
            stack.pop()
            continue
        record(event)
        apply(state, event)
        transaction.events.append(event)
        transaction.effects += react(state, event)
        followers = follow(state, event)
        if followers:  # of most events nothing follows
            stack.append(iter(followers))
    return transaction
