"""How users name jobs: ``12``, an array's task ``12_3``, some of its tasks ``12_[1-3]``, a component of a
heterogeneous job ``12+1``, a step ``12.0``."""

from __future__ import annotations

import re

from minislurm.domain.arrays import format_tasks, parse_array
from minislurm.domain.ids import BATCH_STEP, JobId, StepId
from minislurm.domain.views import JobTarget

_TARGET = re.compile(
    r"([0-9]{1,10})(?:_(?:([0-9]{1,9})|\[([^\]]*)\]|\*)|\+([0-9]{1,4}))?(?:\.([0-9]{1,9}|batch))?\Z"
)


def parse_target(text: str, *, batch_step: bool = False) -> JobTarget:
    """Raises ValueError. `batch_step`: ``12.batch`` is taken too."""
    match = _TARGET.match(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"Invalid job id: {text}")
    tasks: tuple[int, ...] = ()
    if match[2] is not None:
        tasks = (int(match[2]),)
    elif match[3] is not None:
        tasks = parse_array(match[3]).tasks
    step: StepId | None = None
    if match[5] == "batch":
        if not batch_step:
            raise ValueError(f"Invalid job id: {text}")
        step = BATCH_STEP
    elif match[5] is not None:
        step = StepId(int(match[5]))
    if step is not None and len(tasks) > 1:
        raise ValueError(f"Invalid job id: {text}")
    offset = int(match[4]) if match[4] is not None else None
    return JobTarget(JobId(int(match[1])), tasks, step, offset)


def split_targets(text: str) -> list[str]:
    """``1,2_[3,4]`` as ["1", "2_[3,4]"]."""
    return [item for item in re.split(r",(?![^\[]*\])", text) if item]


def format_target(target: JobTarget) -> str:
    text = str(target.job_id)
    if len(target.tasks) == 1:
        text += f"_{target.tasks[0]}"
    elif target.tasks:
        text += f"_[{format_tasks(target.tasks)}]"
    elif target.het_offset is not None:
        text += f"+{target.het_offset}"
    if target.step_id is not None:
        text += ".batch" if target.step_id == BATCH_STEP else f".{target.step_id}"
    return text
