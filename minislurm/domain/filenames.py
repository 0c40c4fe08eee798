"""File names of jobs' standard streams: ``slurm-%A_%a.out``, ``%x-%5j.log``."""

from __future__ import annotations

import re

from msgspec import Struct

DEFAULT_OUTPUT = "slurm-%j.out"
DEFAULT_ARRAY_OUTPUT = "slurm-%A_%a.out"

#: What Slurm writes for %a of a job that is in no array.
NO_ARRAY_TASK = 2**32 - 2
_MAX_WIDTH = 10
_SYMBOL = re.compile(r"%(?:(%)|([0-9]*)([AabJjNnstux]))")


class FilenameFields(Struct, frozen=True):
    """What the symbols stand for. None (for text ""): not known here, the symbol stays for whoever knows."""

    job_id: int
    user_name: str = ""
    job_name: str = ""
    #: The array's id; 0: the job's own.
    array_job_id: int = 0
    array_task_id: int | None = None
    #: None: the batch script.
    step_id: int | None = None
    #: Short host name.
    node: str | None = None
    node_index: int | None = None
    task: int | None = None


def fill(pattern: str, fields: FilenameFields) -> str:
    """The file name. A number after the percent sign pads with zeros, up to 10 digits.

    %A array's job id, %a task id in the array, %b the same modulo 10, %J job id and step id, %j job id,
    %N node, %n node's index in the job, %s step id, %t task, %u user, %x job name, %% a percent sign. In a
    name with a backslash nothing is replaced and the backslashes go.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def replaced(match: re.Match[str]) -> str:
        if match[1]:
            return "%"
        value = _value(match[3], fields)
        if value is None:
            return match[0]
        return _padded(value, min(int(match[2][:3] or 0), _MAX_WIDTH))

    return _SYMBOL.sub(replaced, pattern)


def has_symbol(pattern: str, letters: str) -> bool:
    """Does the name hold one of these symbols (``"tnN"``: is it different for each task)?"""
    if "\\" in pattern:
        return False
    return any(match[3] and match[3] in letters for match in _SYMBOL.finditer(pattern))


def _value(letter: str, fields: FilenameFields) -> int | str | None:
    match letter:
        case "j":
            return fields.job_id
        case "J":
            return fields.job_id if fields.step_id is None else f"{fields.job_id}.{fields.step_id}"
        case "A":
            return fields.array_job_id or fields.job_id
        case "a":
            return NO_ARRAY_TASK if fields.array_task_id is None else fields.array_task_id
        case "b":
            return (NO_ARRAY_TASK if fields.array_task_id is None else fields.array_task_id) % 10
        case "s":
            return "batch" if fields.step_id is None else fields.step_id
        case "t":
            return fields.task
        case "n":
            return fields.node_index
        case "N":
            return fields.node
        case "u":
            return fields.user_name or None
        case _:
            return fields.job_name or None


def _padded(value: int | str, width: int) -> str:
    """Numbers are padded (also the job id of "12.0"), names are not."""
    if isinstance(value, int):
        return f"{value:0{width}d}"
    head, dot, tail = value.partition(".")
    return f"{int(head):0{width}d}.{tail}" if dot and head.isdigit() and tail.isdigit() else value
