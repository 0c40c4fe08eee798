"""Events to the journal's bytes and back."""

from __future__ import annotations

from minislurm.cluster import events
from minislurm.cluster.events import Event
from minislurm.rpc import codec
from minislurm.rpc.gen import journal_pb2

#: Raised when a kind of event changes its meaning; older versions stay readable.
VERSION = 1


def _classes() -> dict[str, type[Event]]:
    classes: dict[str, type[Event]] = {}
    for field in journal_pb2.Event.DESCRIPTOR.oneofs_by_name["kind"].fields:
        assert field.message_type is not None
        classes[field.name] = getattr(events, field.message_type.name)
    return classes


_CLASSES = _classes()
_NAMES = {cls: name for name, cls in _CLASSES.items()}


def encode(event: Event) -> bytes:
    message = journal_pb2.Event(version=VERSION)
    target = getattr(message, _NAMES[type(event)])
    target.SetInParent()
    codec.fill(target, event)
    data: bytes = message.SerializeToString()
    return data


def decode(data: bytes) -> Event:
    """Raises ValueError on bytes that are no event, or of a kind that this version does not know."""
    message = journal_pb2.Event()
    try:
        message.ParseFromString(data)
    except Exception as error:
        raise ValueError(f"not an event: {error}") from error
    name = message.WhichOneof("kind")
    if name is None:
        raise ValueError("an event of a kind that this version does not know")
    return codec.from_proto(_CLASSES[name], getattr(message, name))
