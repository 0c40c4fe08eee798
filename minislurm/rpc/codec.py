"""Records of the domain to protobuf messages and back, by name.

A message mirrors the record of the same name, field by field; `tests/unit/rpc/test_codec.py` holds the
two together. The converters of a class are worked out once, at first use, and only fields that are set
are touched, since most of a job's sixty are not.

Rules: enumerations travel as their value; `Bitmap` as little-endian bytes; tuples, lists and sets as
repeated fields; None as an absent `optional` or message field. A field without presence that is absent
reads as the type's zero, whatever the record's default.
"""

from __future__ import annotations

import operator
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from msgspec import NODEFAULT, Struct, field
from msgspec.structs import fields

from minislurm.domain.ids import Bitmap
from minislurm.domain.job import JobSpec
from minislurm.domain.record import is_record, without_none
from minislurm.rpc.gen import common_pb2, controller_pb2, journal_pb2, node_pb2

T = TypeVar("T")
_Writer = Callable[[Message, Any], None]
_Reader = Callable[[Any], Any]

_MODULES: tuple[Any, ...] = (common_pb2, controller_pb2, journal_pb2, node_pb2)


def to_proto(value: Any) -> Any:
    """The message for a record (its class' namesake)."""
    message = message_class(type(value))()
    fill(message, value)
    return message


def fill(message: Message, value: Any) -> None:
    """Writes a record into an empty message."""
    plan = _plan(type(value))
    for item, write, rule in zip(plan.get(value), plan.writers, plan.rules, strict=True):
        # Most fields of most records are empty: this loop is what the journal's speed depends on.
        if item or rule is _ALWAYS or (rule is _UNLESS_NONE and item is not None):
            write(message, item)


def fill_without(message: Message, value: Any, left_out: str) -> None:
    """As `fill`, but for one field."""
    plan = _plan(type(value))
    for name, write, rule in zip(plan.names, plan.writers, plan.rules, strict=True):
        item = getattr(value, name)
        if name != left_out and (item or rule is _ALWAYS or (rule is _UNLESS_NONE and item is not None)):
            write(message, item)


def from_proto(cls: type[T], message: Message) -> T:
    """The record that a message stands for."""
    return from_proto_with(cls, message)


def from_proto_with(cls: type[T], message: Message, **given: Any) -> T:
    """As `from_proto`, with some fields that are known already."""
    plan = _plan(cls)
    values = plan.absent.copy()
    readers = plan.readers
    # Ten thousand jobs go through this loop before a restarted controller answers.
    for wire, item in message.ListFields():
        found = readers.get(wire)
        if found is None:  # a field that a newer version wrote
            continue
        name, read = found
        if name not in given:
            values[name] = item if read is None else read(item)
    values.update(given)
    for name, make in plan.absent_containers:
        if name not in values:
            values[name] = make()
    return cls(**values)


_message_classes: dict[type, Any] = {}


def message_class(cls: type) -> Any:
    """The generated class whose messages stand for instances of `cls`."""
    found = _message_classes.get(cls)
    if found is None:
        found = next((m for module in _MODULES if (m := getattr(module, cls.__name__, None))), None)
        if found is None:
            raise TypeError(f"no protobuf message is named {cls.__name__}")
        _message_classes[cls] = found
    return found


class _ClassPlan(Struct):
    names: list[str]
    #: All fields of an instance at once, in the order of `names`.
    get: Callable[[Any], tuple[Any, ...]]
    writers: list[_Writer] = field(default_factory=list)
    #: Which values of a field are written though they are empty.
    rules: list[object] = field(default_factory=list)
    #: (name, conversion) by the field of the message; no conversion: the value as it is.
    readers: dict[FieldDescriptor, tuple[str, _Reader | None]] = field(default_factory=dict)
    #: What fields absent from the wire read as, where the record's own default would be wrong.
    absent: dict[str, Any] = field(default_factory=dict)
    absent_containers: list[tuple[str, Callable[[], Any]]] = field(default_factory=list)


_UNLESS_EMPTY, _UNLESS_NONE, _ALWAYS = object(), object(), object()


_plans: dict[type, _ClassPlan] = {}


def _plan(cls: type) -> _ClassPlan:
    plan = _plans.get(cls)
    if plan is None:
        plan = _plans[cls] = _make_plan(cls)
    return plan


def _make_plan(cls: type) -> _ClassPlan:
    hints = typing.get_type_hints(cls)
    descriptor = message_class(cls).DESCRIPTOR
    records = fields(cls)
    names = [own.name for own in records]
    plan = _ClassPlan(names, _getter(names))
    for own in records:
        wire = descriptor.fields_by_name.get(own.name)
        if wire is None:
            raise TypeError(f"message {cls.__name__} lacks the field {own.name}")
        hint, optional = without_none(hints[own.name])
        kind = _kind_of(hint, wire)
        plan.writers.append(kind.writer(own.name))
        plan.rules.append(_rule(optional, wire))
        plan.readers[wire] = (own.name, kind.read)
        if optional or wire.has_presence:
            # With presence the record's default stands, or None where it has none.
            if own.required:
                plan.absent[own.name] = None
        elif kind.container is not None:
            if own.default_factory is NODEFAULT and own.default != kind.container():
                plan.absent_containers.append((own.name, kind.container))
        elif own.default is NODEFAULT or own.default != kind.zero:
            plan.absent[own.name] = kind.zero
    return plan


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        return lambda value: (getattr(value, names[0]),)
    return operator.attrgetter(*names)


def _rule(optional: bool, wire: FieldDescriptor) -> object:
    if optional:
        return _UNLESS_NONE
    if wire.message_type is not None:
        return _UNLESS_EMPTY if _is_repeated(wire) else _ALWAYS
    # `optional` on the wire and a plain value here: absent would mean the record's default.
    return _ALWAYS if wire.has_presence else _UNLESS_EMPTY


def _is_repeated(wire: FieldDescriptor) -> bool:
    return bool(wire.is_repeated)


class _Kind(Struct):
    writer: Callable[[str], _Writer]
    #: None: the value as it is.
    read: _Reader | None
    zero: Any = None
    container: Callable[[], Any] | None = None


def _kind_of(hint: Any, wire: FieldDescriptor) -> _Kind:
    origin = typing.get_origin(hint)
    if origin is dict:
        return _map_kind(hint, wire)
    if origin in (tuple, list, set, frozenset):
        return _sequence_kind(origin, typing.get_args(hint)[0])
    if is_record(hint):
        cls = typing.cast(type, hint)
        return _Kind(lambda name: lambda m, v: _fill_field(m, name, v), lambda item: from_proto(cls, item))
    write, read, zero = _scalar(hint)
    return _Kind(lambda name: lambda m, v: setattr(m, name, write(v) if write else v), read, zero)


def _fill_field(message: Message, name: str, value: Any) -> None:
    target = getattr(message, name)
    if type(value) is JobSpec:
        target.CopyFrom(_spec_message(value))
        return
    target.SetInParent()
    fill(target, value)


#: A specification is shared by all tasks of an array, and written with each of them, again and again. By
#: identity, with the object itself so that its id stays its own.
_spec_messages: dict[int, tuple[JobSpec, Any]] = {}
_SPECS_KEPT = 64


def _spec_message(spec: JobSpec) -> Any:
    known = _spec_messages.get(id(spec))
    if known is not None:
        return known[1]
    message = to_proto(spec)
    while len(_spec_messages) >= _SPECS_KEPT:
        del _spec_messages[next(iter(_spec_messages))]
    _spec_messages[id(spec)] = (spec, message)
    return message


def _scalar(hint: Any) -> tuple[_Reader | None, _Reader | None, Any]:
    """(to the wire, from the wire, zero) for a type that is no container; None: as it is."""
    if hint is Bitmap:
        return bitmap_to_bytes, bitmap_from_bytes, 0
    while hasattr(hint, "__supertype__"):  # NewType
        hint = hint.__supertype__
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_value, _Members(hint).__getitem__, next(iter(hint))
    assert hint in (int, float, str, bool, bytes), f"cannot convert {hint}"
    return None, None, hint()


class _Members(dict[Any, Enum]):
    """By value: several times as quick as calling the enumeration."""

    def __init__(self, enumeration: type[Enum]) -> None:
        super().__init__({member.value: member for member in enumeration})
        self._enumeration = enumeration

    def __missing__(self, value: Any) -> Enum:
        return self._enumeration(value)


def _enum_value(member: Enum) -> Any:
    return member.value


def _sequence_kind(origin: Any, item_hint: Any) -> _Kind:
    if is_record(item_hint):
        cls = typing.cast(type, item_hint)

        def write(message: Message, name: str, value: Any) -> None:
            target = getattr(message, name)
            for item in value:
                fill(target.add(), item)

        return _Kind(
            lambda name: lambda m, v: write(m, name, v),
            lambda items: origin(from_proto(cls, item) for item in items),
            container=origin,
        )
    to_wire, from_wire, _ = _scalar(item_hint)
    return _Kind(
        lambda name: lambda m, v: getattr(m, name).extend(map(to_wire, v) if to_wire else v),
        (lambda items: origin(map(from_wire, items))) if from_wire else origin,
        container=origin,
    )


def _map_kind(hint: Any, wire: FieldDescriptor) -> _Kind:
    _, value_hint = typing.get_args(hint)
    if is_record(value_hint):
        cls = typing.cast(type, value_hint)

        def write(message: Message, name: str, value: dict[Any, Any]) -> None:
            target = getattr(message, name)
            for key, item in value.items():
                target[key].SetInParent()
                fill(target[key], item)

        return _Kind(
            lambda name: lambda m, v: write(m, name, v),
            lambda items: {key: from_proto(cls, item) for key, item in items.items()},
            container=dict,
        )
    to_wire, from_wire, _ = _scalar(value_hint)
    assert to_wire is None, "maps hold plain values or messages"
    assert from_wire is None, "maps hold plain values or messages"
    return _Kind(lambda name: lambda m, v: getattr(m, name).update(v), dict, container=dict)


def bitmap_to_bytes(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "little")


def bitmap_from_bytes(data: bytes) -> Bitmap:
    return Bitmap(int.from_bytes(data, "little"))
