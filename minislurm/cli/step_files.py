"""Where --output, --error and --input of a step lead: srun's own stream, one file that srun opens, or a file
for each task or node, which the node opens."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

#: Patterns that differ between tasks or nodes.
_PER_TASK = "tnN"
_PATTERN = re.compile(r"%(\d*)([%a-zA-Z])")
#: What Slurm prints for %a where there is no array.
_NO_TASK_ID = 0xFFFFFFFE


@dataclass(frozen=True, slots=True)
class PatternValues:
    """What the patterns that are the same for all tasks stand for."""

    job_id: int
    step_id: int
    array_job_id: int
    array_task_id: int | None
    user: str

    def text(self, letter: str) -> str | None:
        """None: not a pattern of srun's."""
        match letter:
            case "j":
                return str(self.job_id)
            case "J":
                return f"{self.job_id}.{self.step_id}"
            case "A":
                return str(self.array_job_id or self.job_id)
            case "a":
                return str(_NO_TASK_ID if self.array_task_id is None else self.array_task_id)
            case "s":
                return str(self.step_id)
            case "u":
                return self.user
        return None


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """One stream's way. All fields empty: srun's own stream, all tasks."""

    #: A file that srun itself opens.
    file: str = ""
    #: What the nodes open; patterns filled in but for those of tasks and nodes.
    node_pattern: str = ""
    #: srun's own stream, for this task alone.
    only_task: int | None = None


def plan_stream(text: str, values: PatternValues, directory: str, task_count: int) -> StreamPlan:
    """Reads the value of --output, --error or --input.

    "" and "all" stand for srun's own stream; relative paths start at `directory`.
    """
    if text in ("", "all"):
        return StreamPlan()
    if text == "none":
        return StreamPlan(node_pattern=os.devnull)
    if text.isdecimal() and int(text) < task_count:
        return StreamPlan(only_task=int(text))
    per_task, name = _fill(text, values)
    path = os.path.join(directory, name)
    if per_task:
        return StreamPlan(node_pattern=path)
    return StreamPlan(file=path)


def _fill(text: str, values: PatternValues) -> tuple[bool, str]:
    """Whether a pattern of tasks or nodes is left, and the text with the others filled in."""
    if "\\" in text:  # as Slurm has it: no patterns then
        return False, text.replace("\\", "")
    per_task = any(match[2] in _PER_TASK for match in _PATTERN.finditer(text))

    def fill(match: re.Match[str]) -> str:
        if match[2] == "%":
            return "%%" if per_task else "%"
        value = values.text(match[2])
        if value is None:
            return match[0]
        return value.zfill(min(int(match[1]), 10)) if match[1] else value

    return per_task, _PATTERN.sub(fill, text)
