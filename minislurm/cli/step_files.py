"""Where --output, --error and --input of a step lead: srun's own stream, one file that srun opens, or a file
for each task or node, which the node opens."""

from __future__ import annotations

import os

from msgspec import Struct

from minislurm.domain.filenames import FilenameFields, fill, has_symbol

#: Symbols that differ between tasks or nodes.
_PER_TASK = "tnN"


class StreamPlan(Struct, frozen=True):
    """One stream's way. All fields empty: srun's own stream, all tasks."""

    #: A file that srun itself opens.
    file: str = ""
    #: What the nodes open; symbols filled in but for those of tasks and nodes.
    node_pattern: str = ""
    #: srun's own stream, for this task alone.
    only_task: int | None = None


def plan_stream(text: str, names: FilenameFields, directory: str, task_count: int) -> StreamPlan:
    """Reads the value of --output, --error or --input.

    "" and "all" stand for srun's own stream; relative paths start at `directory`.
    """
    if text in ("", "all"):
        return StreamPlan()
    if text == "none":
        return StreamPlan(node_pattern=os.devnull)
    if text.isdecimal() and int(text) < task_count:
        return StreamPlan(only_task=int(text))
    if has_symbol(text, _PER_TASK):
        # The node fills in what is left, and takes the doubled percent signs for itself.
        return StreamPlan(node_pattern=os.path.join(directory, fill(text.replace("%%", "%%%%"), names)))
    return StreamPlan(file=os.path.join(directory, fill(text, names)))
