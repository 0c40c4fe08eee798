"""Identifiers. One type per kind, so that mypy keeps a job id out of a step id's place."""

from __future__ import annotations

from typing import NewType

JobId = NewType("JobId", int)
StepId = NewType("StepId", int)
NodeName = NewType("NodeName", str)

#: One attempt of a job. The first is 1; each requeue starts the next. 0: it never ran.
RunNumber = NewType("RunNumber", int)

#: The step that is the batch script itself; shown as ``12.batch``.
BATCH_STEP = StepId(-1)
#: The first --checkpoint-command of a run, on its batch host; each further one is one less. Only its node
#: daemon knows of them.
CHECKPOINT_STEP = StepId(-6)

#: A set of small indexes (CPUs or GPUs of one node), bit i for index i.
Bitmap = NewType("Bitmap", int)


def bitmap_of(indexes: list[int] | tuple[int, ...] | range) -> Bitmap:
    value = 0
    for index in indexes:
        value |= 1 << index
    return Bitmap(value)


def indexes_of(bitmap: int) -> tuple[int, ...]:
    """The set's members, ascending."""
    return tuple(i for i in range(bitmap.bit_length()) if bitmap >> i & 1)


def lowest_bits(bitmap: int, count: int) -> Bitmap:
    """The `count` lowest members of the set; it must have that many."""
    if not count:
        return Bitmap(0)
    in_a_row = ((1 << count) - 1) << max(0, (bitmap & -bitmap).bit_length() - 1)
    if bitmap & in_a_row == in_a_row:
        return Bitmap(in_a_row)
    if count > 64:
        return _many_lowest_bits(bitmap, count)
    taken = 0
    for _ in range(count):
        bit = bitmap & -bitmap
        assert bit, "the set has fewer members than asked for"
        taken |= bit
        bitmap ^= bit
    return Bitmap(taken)


def _many_lowest_bits(bitmap: int, count: int) -> Bitmap:
    """By halves, so that a set of thousands costs little more than being read twice."""
    assert bitmap.bit_count() >= count, "the set has fewer members than asked for"
    taken, shift, size = 0, 0, bitmap.bit_length()
    while count:
        size = (size + 1) // 2
        low = bitmap & ((1 << size) - 1)
        members = low.bit_count()
        if members <= count:
            taken |= low << shift
            bitmap >>= size
            shift += size
            count -= members
            size = bitmap.bit_length()
        else:
            bitmap = low
    return Bitmap(taken)
