"""Dataclasses and their protobuf namesakes mirror each other, and nothing is lost on the way."""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Any, Union

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from minislurm.cluster import events, state
from minislurm.domain import accounts, checkpoint, job, node, resources, views
from minislurm.domain.ids import Bitmap, JobId, NodeName, StepId
from minislurm.domain.job import Job, JobSpec, Step
from minislurm.domain.node import NodeFacts
from minislurm.domain.record import is_record
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState
from minislurm.domain.views import JobChanges, JobView, Submission
from minislurm.journal import encoding
from minislurm.rpc import codec
from minislurm.rpc.gen import common_pb2, controller_pb2, journal_pb2
from tests.builders import a_spec

QUICK = settings(
    max_examples=15,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink a job of sixty fields takes minutes
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
#: Put together by hand by whoever sends or shows them; no message has their name, but for Outcome, whose
#: refusal travels as its code (rpc/status.py).
WITHOUT_MESSAGE = {
    "Outcome", "ControllerInfo", "ConfigurationView", "AccountsView", "Touched", "Kept",
    "ClusterState", "StateExport",
}  # fmt: skip


def _records(module: ModuleType) -> Iterator[type]:
    for _, cls in inspect.getmembers(module, is_record):
        if cls.__module__ == module.__name__ and isinstance(cls, type):
            yield cls


TRAVELLERS = [
    cls
    for module in (accounts, checkpoint, job, node, resources, views, events, state)
    for cls in _records(module)
    if cls.__name__ not in WITHOUT_MESSAGE
]
EVENTS: tuple[type, ...] = typing.get_args(events.Event)


def _plain(hint: Any) -> Any:
    while hasattr(hint, "__supertype__") and hint is not Bitmap:
        hint = hint.__supertype__
    return hint


# Names, both ways


@pytest.mark.parametrize("cls", TRAVELLERS, ids=lambda cls: cls.__name__)
def test_a_message_has_the_fields_of_its_record(cls: type) -> None:
    descriptor = codec.message_class(cls).DESCRIPTOR
    own = {field.name for field in structs.fields(cls)}
    assert own == set(descriptor.fields_by_name)


def test_every_event_can_be_journaled() -> None:
    wire = {f.message_type.name for f in journal_pb2.Event.DESCRIPTOR.oneofs_by_name["kind"].fields}
    assert wire == {cls.__name__ for cls in EVENTS}
    in_module = {cls.__name__ for cls in _records(events)} - {"KnownRun"}
    assert in_module == wire, "an event that is missing in the union"


def test_what_is_left_out_has_no_message() -> None:
    for name in WITHOUT_MESSAGE - {"Outcome"}:
        for module in (common_pb2, journal_pb2, controller_pb2):
            assert name not in module.DESCRIPTOR.message_types_by_name


@pytest.mark.parametrize("cls", TRAVELLERS, ids=lambda cls: cls.__name__)
def test_none_needs_a_field_with_presence(cls: type) -> None:
    """`X | None` without `optional` on the wire would read None as zero."""
    hints = typing.get_type_hints(cls)
    descriptor = codec.message_class(cls).DESCRIPTOR
    for field in structs.fields(cls):
        if type(None) in typing.get_args(hints[field.name]):
            assert descriptor.fields_by_name[field.name].has_presence, field.name


def _zeros(cls: type) -> dict[str, Any] | None:
    """Zero for each plain field; None if the class has parts that must be given."""
    zeros: dict[str, Any] = {}
    hints = typing.get_type_hints(cls)
    for field in structs.fields(cls):
        hint = _plain(hints[field.name])
        if hint in (int, float, bool, str, bytes):
            zeros[field.name] = hint()
        elif hint is Bitmap:
            zeros[field.name] = Bitmap(0)
        elif field.required:
            return None
    return zeros


@pytest.mark.parametrize(
    "cls", [c for c in TRAVELLERS if _zeros(c) is not None], ids=lambda cls: cls.__name__
)
def test_zero_comes_back_as_zero_whatever_the_default(cls: type) -> None:
    value = cls(**(_zeros(cls) or {}))
    assert codec.from_proto(cls, codec.to_proto(value)) == value


# Values, there and back


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FLOATS = st.floats(allow_nan=False, width=64)
_INTEGERS = {
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
}


def _strategy(hint: Any, wire: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Values of a field, from its type and from what the wire can hold."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = [a for a in arguments if a is not type(None)]
        return st.none() | _strategy(inner, wire)
    if origin is dict:
        key, value = wire.message_type.fields_by_name["key"], wire.message_type.fields_by_name["value"]
        return st.dictionaries(_strategy(arguments[0], key), _strategy(arguments[1], value), max_size=2)
    if origin in (tuple, list):
        return st.lists(_strategy(arguments[0], wire), max_size=3).map(origin)
    if origin in (set, frozenset):
        return st.sets(_strategy(arguments[0], wire), max_size=3).map(origin)
    if hint is Bitmap:
        return st.integers(0, 2**200).map(Bitmap)
    hint = _plain(hint)
    if is_record(hint):
        return instances(typing.cast(type, hint))
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    if hint is int:
        return st.integers(*_INTEGERS[wire.type])
    return {bool: st.booleans(), float: FLOATS, str: TEXT, bytes: st.binary(max_size=8)}[hint]


_cache: dict[type, st.SearchStrategy[Any]] = {}


def instances(cls: type) -> st.SearchStrategy[Any]:
    """Any instance of a record that mirrors a message."""
    if cls not in _cache:
        hints = typing.get_type_hints(cls)
        descriptor = codec.message_class(cls).DESCRIPTOR
        fields = {
            field.name: _strategy(hints[field.name], descriptor.fields_by_name[field.name])
            for field in structs.fields(cls)
        }
        _cache[cls] = st.builds(cls, **fields)
    return _cache[cls]


def _through_bytes(value: Any) -> Any:
    message = codec.to_proto(value)
    return codec.from_proto(type(value), type(message).FromString(message.SerializeToString()))


@pytest.mark.parametrize("cls", TRAVELLERS, ids=lambda cls: cls.__name__)
def test_round_trip(cls: type) -> None:
    @QUICK
    @given(instances(cls))
    def check(value: Any) -> None:
        back = _through_bytes(value)
        assert back == value
        for field in structs.fields(cls):
            one, other = getattr(back, field.name), getattr(value, field.name)
            assert type(one) is type(other), field.name

    check()


@pytest.mark.parametrize("cls", EVENTS, ids=lambda cls: cls.__name__)
def test_events_through_the_journal(cls: type) -> None:
    @QUICK
    @given(instances(cls))
    def check(event: Any) -> None:
        assert encoding.decode(encoding.encode(event)) == event

    check()


def test_none_is_not_zero() -> None:
    nothing = a_spec(tasks=None, time_limit_s=None, open_mode_append=None, priority=None)
    zero = a_spec(tasks=0, time_limit_s=0.0, open_mode_append=False, priority=0)
    assert _through_bytes(nothing) == nothing
    assert _through_bytes(zero) == zero
    assert _through_bytes(nothing) != zero
    changes = JobChanges(begin_time=0.0, comment="", requeue=False)
    assert _through_bytes(changes) == changes
    assert _through_bytes(JobChanges()) == JobChanges()


def test_modes_keep_their_zero_and_their_default() -> None:
    assert _through_bytes(a_spec(output_mode=0, umask=0)).output_mode == 0
    assert codec.from_proto(JobSpec, common_pb2.JobSpec()).umask == 0o022


def test_task_zero_of_an_array_is_a_task() -> None:
    task = Job(JobId(5), a_spec(), array_job_id=JobId(4), array_task_id=0)
    assert _through_bytes(task).array_task_id == 0
    assert _through_bytes(Job(JobId(5), a_spec())).array_task_id is None


@given(st.integers(0, 2**4096))
def test_bitmaps_of_any_width(value: int) -> None:
    assert codec.bitmap_from_bytes(codec.bitmap_to_bytes(value)) == value


def test_bitmaps_start_at_the_lowest_bit() -> None:
    allocation = NodeAllocation(NodeName("n"), cpus=Bitmap(0b1_0000_0001))
    assert codec.to_proto(allocation).cpus == b"\x01\x01"
    assert codec.to_proto(allocation).gpus == b""


def test_a_batch_step_keeps_its_negative_id() -> None:
    job_ = Job(JobId(1), a_spec(), steps={StepId(-1): Step(StepId(-1))}, next_step_id=StepId(3))
    assert _through_bytes(job_).steps == {StepId(-1): Step(StepId(-1))}


def test_a_field_of_a_newer_version_is_passed_over() -> None:
    data = codec.to_proto(NodeFacts(cpus=3)).SerializeToString() + b"\xf8\x3f\x01"  # field 1023, varint 1
    assert codec.from_proto(NodeFacts, common_pb2.NodeFacts.FromString(data)).cpus == 3


def test_a_specification_travels_apart_from_its_jobs() -> None:
    """ListJobs sends the specification of a thousand tasks once."""
    view = JobView(Job(JobId(7), a_spec("alone"), state=JobState.RUNNING), priority=5)
    whole = controller_pb2.JobView()
    codec.fill_without(whole, view, "job")
    codec.fill_without(whole.job, view.job, "spec")
    assert not whole.job.HasField("spec")
    job_ = codec.from_proto_with(Job, whole.job, spec=view.job.spec)
    assert codec.from_proto_with(JobView, whole, job=job_) == view


def test_a_class_without_a_message_is_refused() -> None:
    class Nothing(Struct):
        pass

    with pytest.raises(TypeError, match="no protobuf message is named Nothing"):
        codec.to_proto(Nothing())


# Text


@pytest.mark.parametrize("text", ["", "héé", "任务", "\x00", "a\nb", "\U0001f600", "\u202e"])
def test_any_text_travels(text: str) -> None:
    assert _through_bytes(a_spec(text, comment=text, script_arguments=(text,))).comment == text


def test_bytes_that_are_no_text_never_get_onto_the_wire() -> None:
    """Lone surrogates stand for bytes of a command line that are no UTF-8. The commands refuse them by the
    option's name (job_request.py); a message cannot hold them, so that no journal ever does."""
    with pytest.raises(UnicodeEncodeError):
        codec.to_proto(a_spec(comment="\udcff"))
    with pytest.raises(UnicodeEncodeError):
        codec.to_proto(JobChanges(name="\udcff"))


def test_a_message_with_bad_text_is_refused_at_reading() -> None:
    good = codec.to_proto(a_spec(comment="XYZW")).SerializeToString()
    assert good.count(b"XYZW") == 1
    with pytest.raises(Exception, match=r"(?i)pars|utf-?8"):
        common_pb2.JobSpec.FromString(good.replace(b"XYZW", b"\xff\xfe\xff\xfe"))


def test_environment_and_script_are_bytes() -> None:
    submission = Submission(a_spec(), script=b"#!/bin/sh\n\xff", environment=(b"A=\xff\x00", b"B="))
    assert _through_bytes(submission) == submission


def test_infinity_travels() -> None:
    assert math.isinf(_through_bytes(Step(StepId(0), time_limit_s=math.inf)).time_limit_s)


# The journal's envelope


def test_bytes_that_are_no_event() -> None:
    with pytest.raises(ValueError, match="not an event"):
        encoding.decode(b"\xff\xff\xff\xff")
    with pytest.raises(ValueError, match="kind that this version does not know"):
        encoding.decode(b"")


def test_an_event_without_any_value_is_still_that_event() -> None:
    event = events.JobsPurged(0.0, ())
    assert encoding.decode(encoding.encode(event)) == event
