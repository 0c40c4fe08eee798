"""scheckpoint: checkpoints of a job, from inside of it and from a login node."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from minislurm.cli.application import Application, print_error
from minislurm.cli.option import Option, OptionError, Repeat, flag
from minislurm.cli.option_values import count
from minislurm.cli.printable import printable
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.errors import UsageError
from minislurm.domain.job_targets import parse_target
from minislurm.domain.memory import format_size
from minislurm.domain.times import format_time
from minislurm.domain.views import JobQuery, JobTarget

if TYPE_CHECKING:
    from minislurm.domain.job import Job
    from minislurm.rpc.client import ControllerClient


def main() -> int:
    return APPLICATION.main()


class Values(Struct):
    step: int = -1
    epoch: int = -1
    metadata: tuple[tuple[str, str], ...] = ()
    as_json: bool = False
    no_header: bool = False


def run(values: Values, arguments: tuple[str, ...]) -> int:
    if not arguments:
        raise UsageError("what is wanted: report, latest, list or request?")
    action = _ACTIONS.get(arguments[0])
    if action is None:
        raise UsageError(f"{printable(arguments[0])}: none of report, latest, list, request")
    return action(values, arguments[1:])


def _report(values: Values, words: Sequence[str]) -> int:
    from minislurm.checkpoint.reports import try_report

    if len(words) != 1:
        raise UsageError("report: the path of one checkpoint")
    problem = try_report(words[0], values.step, values.epoch, dict(values.metadata))
    if problem:
        print_error("scheckpoint", f"{words[0]} is not reported: {problem}")
        return 1
    return 0


def _latest(values: Values, words: Sequence[str]) -> int:
    """The path, for a script to take; nothing and exit code 1 where there is none."""
    from minislurm.checkpoint.reports import latest

    if words:
        raise UsageError("latest: of the job around it; scheckpoint list JOBID shows those of another")
    found = latest()
    if found is None:
        return 1
    if values.as_json:
        print(json.dumps({**found._asdict(), "metadata": dict(found.metadata)}))
    else:
        print(printable(found.path))
    return 0


def _list(values: Values, words: Sequence[str]) -> int:
    from minislurm.cli.connection import connect
    from minislurm.cli.job_row import is_meant, job_rows

    target = _target("list", words)
    with connect() as client:
        views = client.list_jobs(JobQuery(job_ids=(target.job_id,), include_ended=True))
    jobs = [row.job for row in job_rows(views, 0.0) if is_meant(row, target)]
    if not jobs:
        print_error("scheckpoint", "Invalid job id specified")
        return 1
    if values.as_json:
        print(json.dumps([{"job_id": job.id, **to_builtins(one)} for job in jobs for one in job.checkpoints]))
        return 0
    rows = [_row(job, one) for job in jobs for one in job.checkpoints]
    for row in rows if values.no_header else [_HEADER, *rows]:
        print("{:>10} {:>4} {:>10} {:>6} {:>8} {:>8} {:19} {:8} {}".format(*row))
    return 0


_HEADER = ("JOBID", "RUN", "STEP", "EPOCH", "SIZE", "SECONDS", "TIME", "REASON", "PATH")


def _row(job: Job, one: Checkpoint) -> tuple[object, ...]:
    took = f"{one.duration_s:.1f}" if one.duration_s else "-"
    step, epoch = (number if number >= 0 else "-" for number in (one.step, one.epoch))
    size, when = format_size(one.size_bytes), format_time(one.time)
    return job.id, one.run, step, epoch, size, took, when, one.reason or "-", printable(one.path)


def _request(values: Values, words: Sequence[str]) -> int:
    from minislurm.cli.connection import connect
    from minislurm.cli.job_actions import report_outcomes

    target = _target("request", words)

    def ask(client: ControllerClient) -> int:
        return report_outcomes(client.request_checkpoint([target]))

    with connect() as client:
        return ask(client)


def _target(action: str, words: Sequence[str]) -> JobTarget:
    """The job that is named, or the one around."""
    texts = words or [os.environ.get("SLURM_JOB_ID", "")]
    if len(texts) != 1 or not texts[0]:
        raise UsageError(f"{action}: one job id")
    try:
        target = parse_target(texts[0])
    except ValueError as error:
        raise UsageError(f"Invalid job id {printable(texts[0])}") from error
    if target.step_id is not None:
        raise UsageError(f"Invalid job id {printable(texts[0])}")
    return target


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise OptionError(f"--metadata={printable(text)}: not NAME=VALUE")
    return name, value


_ACTIONS: dict[str, Callable[[Values, Sequence[str]], int]] = {
    "report": _report,
    "latest": _latest,
    "list": _list,
    "request": _request,
}

APPLICATION = Application(
    name="scheckpoint",
    summary="Report a job's checkpoint, find the one to start from, list them, ask for one.",
    synopsis=(
        "report PATH [--step=N] [--epoch=N] [--metadata=NAME=VALUE] | latest | list [JOBID] | request [JOBID]"
    ),
    options=(
        Option("step", "s", "report: the step it was made at.", "N", parse=count("step", 0)),
        Option("epoch", "e", "report: the epoch it was made in.", "N", parse=count("epoch", 0)),
        Option(
            "metadata", "m", "report: whatever is worth knowing of it.", "NAME=VALUE", parse=_pair,
            repeat=Repeat.APPEND,
        ),
        flag("json", help="latest, list: for programs.", field="as_json"),
        flag("noheader", "h", "list: no header.", field="no_header"),
    ),
    new_values=Values,
    run=run,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
