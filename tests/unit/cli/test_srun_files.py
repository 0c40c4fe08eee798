from __future__ import annotations

import pytest

from minislurm.cli.step_files import StreamPlan, plan_stream
from minislurm.domain.filenames import FilenameFields

VALUES = FilenameFields(job_id=12, step_id=3, array_job_id=10, array_task_id=4, user_name="alice")


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("", StreamPlan()),
        ("all", StreamPlan()),
        ("none", StreamPlan(node_pattern="/dev/null")),
        ("1", StreamPlan(only_task=1)),
        ("9", StreamPlan(file="/work/9")),  # no such task: a file's name
        ("out.txt", StreamPlan(file="/work/out.txt")),
        ("/abs/out", StreamPlan(file="/abs/out")),
        ("o-%j-%J-%A-%a-%s-%u", StreamPlan(file="/work/o-12-12.3-10-4-3-alice")),
        ("o%5j", StreamPlan(file="/work/o00012")),
        ("o%%j", StreamPlan(file="/work/o%j")),
        ("o.%t", StreamPlan(node_pattern="/work/o.%t")),
        ("o%j.%4t", StreamPlan(node_pattern="/work/o12.%4t")),
        ("%N/%n%%j", StreamPlan(node_pattern="/work/%N/%n%%j")),
        ("o%x", StreamPlan(file="/work/o%x")),  # stays literal in srun
        ("o\\%j", StreamPlan(file="/work/o%j")),
    ],
)
def test_where_a_stream_leads(text: str, plan: StreamPlan) -> None:
    assert plan_stream(text, VALUES, "/work", task_count=4) == plan


def test_without_an_array_the_task_id_is_slurms_number_for_none() -> None:
    values = FilenameFields(job_id=12, step_id=3, user_name="alice")
    assert plan_stream("%A_%a", values, "/", 1) == StreamPlan(file="/12_4294967294")
