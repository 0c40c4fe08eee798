"""scancel: ends jobs, array tasks and steps, or sends them a signal."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from minislurm.cli.application import Application, print_error, print_line
from minislurm.cli.connection import connect
from minislurm.cli.option import Option, OptionError, Repeat, flag
from minislurm.cli.printable import printable
from minislurm.domain.errors import Refusal, RefusalCode, UsageError
from minislurm.domain.hostlist import expand
from minislurm.domain.job_targets import format_target, parse_target, split_targets
from minislurm.domain.signals import parse_signal, signal_name
from minislurm.domain.states import JobState

if TYPE_CHECKING:
    from minislurm.domain.job import Job
    from minislurm.domain.views import JobTarget, Outcome
    from minislurm.rpc.client import ControllerClient

_KILL = 9
#: Slurm's exit codes are its error numbers, cut to a byte.
_EXIT_CODES = {RefusalCode.TRY_LATER: 228, RefusalCode.HET_COMPONENT: 60}
#: Without --verbose and without a signal these are no errors: the job is as gone as was asked.
_GONE = (RefusalCode.INVALID_JOB_ID, RefusalCode.ALREADY_DONE, RefusalCode.EXPIRED)
_STATES = {
    "PENDING": JobState.PENDING,
    "PD": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "R": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
    "S": JobState.SUSPENDED,
}


class Values(Struct):
    account: str = ""
    batch: bool = False
    full: bool = False
    interactive: bool = False
    me: bool = False
    name: str = ""
    nodelist: tuple[str, ...] = ()
    partition: str = ""
    qos: str = ""
    quiet: int = 0
    signal: int | None = None
    state: JobState | None = None
    user: str = ""
    verbose: int = 0
    wckey: str = ""

    @property
    def has_filter(self) -> bool:
        return bool(
            self.account or self.me or self.name or self.nodelist or self.partition or self.qos
            or self.state or self.user or self.wckey
        )  # fmt: skip


def main() -> int:
    return APPLICATION.main()


def run(values: Values, positionals: tuple[str, ...]) -> int:
    if not positionals and not values.has_filter:
        raise UsageError("No job identification provided")
    targets = _targets(positionals)
    if positionals and not targets:
        return 0
    users = _user_ids(values)
    with connect() as client:
        if values.has_filter or values.interactive:
            targets = _matching(client, values, users, targets)
        if values.interactive:
            targets = [target for target in targets if _confirmed(target)]
        if not targets:
            return 0
        for target in targets if values.verbose else ():
            print_line(f"scancel: {_announcement(values, target)}")
        outcomes = client.cancel(targets, signal=_signal(values), batch_only=values.batch, full=values.full)
    return _report(values, outcomes)


def _targets(words: Iterable[str]) -> list[JobTarget]:
    """Raises UsageError. An array's id with an empty index names nothing, as in Slurm."""
    targets = []
    for word in words:
        for item in split_targets(word):
            if item.endswith("_") and item[:-1].isdigit():
                continue
            try:
                targets.append(parse_target(item))
            except ValueError as error:
                raise UsageError(f"Invalid job id {printable(item)}") from error
    return targets


def _user_ids(values: Values) -> int | None:
    """The user whose jobs are meant; None: anybody's. Raises UsageError."""
    if values.me:
        return os.getuid()
    if not values.user:
        return None
    try:
        return pwd.getpwnam(values.user).pw_uid
    except KeyError:
        pass
    if values.user.isdecimal():
        return int(values.user)
    raise UsageError(f"Invalid user name: {printable(values.user)}")


def _matching(
    client: ControllerClient, values: Values, user_id: int | None, targets: Sequence[JobTarget]
) -> list[JobTarget]:
    """The jobs that the filters let through; where ids were given, only of those."""
    from minislurm.domain.views import JobQuery, JobTarget

    jobs = [view.job for view in client.list_jobs(JobQuery()) if _passes(view.job, values, user_id)]
    if targets:
        return [target for target in targets if any(_concerns(target, job) for job in jobs)]
    ids = {job.id for job in jobs}
    return [
        JobTarget(job.array_job_id, (job.array_task_id,)) if job.array_task_id is not None else _rest(job)
        for job in jobs
        if job.id == job.het_job_id or job.het_job_id not in ids  # else it goes with its leader
    ]


def _rest(job: Job) -> JobTarget:
    """A job, or the tasks of an array that never differed (others of it may not match)."""
    from minislurm.domain.views import JobTarget

    return JobTarget(job.id, tuple(job.pending_tasks))


def _concerns(target: JobTarget, job: Job) -> bool:
    if target.het_offset is not None:
        return (target.job_id, target.het_offset) == (job.het_job_id, job.het_job_offset)
    if target.job_id == job.id and not target.tasks:
        return True
    if target.job_id == job.het_job_id and job.is_component and not target.tasks:
        return True
    if target.job_id not in (job.array_job_id, job.id):
        return False
    own = job.pending_tasks if job.array_task_id is None else [job.array_task_id]
    return not target.tasks or any(task in own for task in target.tasks)


def _passes(job: Job, values: Values, user_id: int | None) -> bool:
    spec = job.spec
    wanted = (
        (values.account, spec.account),
        (values.name, job.name),
        (values.partition, job.partition),
        (values.qos, spec.qos),
        (values.wckey, spec.wckey),
    )
    if job.state.is_final or job.state is JobState.COMPLETING:
        return False
    if any(text and actual not in text.split(",") for text, actual in wanted):
        return False
    if user_id is not None and spec.user_id != user_id:
        return False
    if values.state is not None and _shown_state(job.state) is not values.state:
        return False
    return not values.nodelist or any(part.node in values.nodelist for part in job.allocation)


def _shown_state(state: JobState) -> JobState:
    return JobState.RUNNING if state is JobState.CONFIGURING else state


def _confirmed(target: JobTarget) -> bool:
    sys.stdout.write(f"Cancel job_id={printable(format_target(target))} [y/n]? ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _signal(values: Values) -> int:
    """0: end the job the usual way, which is also what KILL to a whole job means in Slurm."""
    if values.signal is None or (values.signal == _KILL and not values.batch):
        return 0
    return values.signal


def _announcement(values: Values, target: JobTarget) -> str:
    what = "step" if target.step_id is not None else "job"
    signal = _signal(values)
    if signal:
        return f"Signal {signal_name(signal)} to {what} {format_target(target)}"
    return f"Terminating {what} {format_target(target)}"


def _report(values: Values, outcomes: Sequence[Outcome]) -> int:
    """Prints what was refused. The exit code is that of the last error."""
    exit_code = 0
    for outcome in outcomes:
        refusal = outcome.refusal
        if refusal is None:
            continue
        is_step = outcome.target.step_id is not None
        quiet_end = values.signal is None and not is_step and refusal.code in _GONE
        if quiet_end and not values.verbose:
            continue
        what = "job step id" if is_step else "job id"
        if not values.quiet:
            print_error("scancel", f"Kill job error on {what} {format_target(outcome.target)}: {refusal}")
        if not quiet_end:
            exit_code = _exit_code(refusal)
    return exit_code


def _exit_code(refusal: Refusal) -> int:
    return _EXIT_CODES.get(refusal.code, 1)


def _parse_signal(text: str) -> int:
    try:
        return parse_signal(text)
    except ValueError as error:
        raise OptionError(f"Unknown job signal: {printable(text)}") from error


def _parse_state(text: str) -> JobState:
    state = _STATES.get(text.upper())
    if state is None:
        raise OptionError(
            f"Invalid job state specified: {printable(text)}\n"
            "Valid job states are PENDING, RUNNING, SUSPENDED"
        )
    return state


def _parse_nodes(text: str) -> tuple[str, ...]:
    return tuple(expand(text))


_FILTERS, _SIGNALS, _REPORTING = "Which jobs", "What they get", "Reporting"
_UNSUPPORTED = ("reservation", "R"), ("clusters", "M"), ("sibling", ""), ("admin-comment", "")
_UNSUPPORTED_FLAGS = ("ctld", ""), ("cron", "c"), ("hurry", "H")

APPLICATION: Application[Values] = Application(
    name="scancel",
    summary="End jobs, array tasks (12_3, 12_[1-4]) and steps (12.0), or send them a signal.",
    synopsis="[OPTIONS] [job_id[_task_id][.step_id] ...]",
    options=(
        Option("account", "A", "Jobs of this account.", "NAME", panel=_FILTERS),
        Option("name", "n", "Jobs of this name.", "NAME", aliases=("jobname",), panel=_FILTERS),
        Option(
            "nodelist", "w", "Jobs on any of these nodes.", "HOSTLIST", parse=_parse_nodes, panel=_FILTERS,
        ),
        Option("partition", "p", "Jobs of this partition.", "NAME", panel=_FILTERS),
        Option("qos", "q", "Jobs of this quality of service.", "NAME", panel=_FILTERS),
        Option(
            "state", "t", "Jobs in this state.", "PENDING|RUNNING|SUSPENDED", parse=_parse_state,
            panel=_FILTERS,
        ),
        Option("user", "u", "Jobs of this user.", "NAME", panel=_FILTERS),
        flag("me", "", "Jobs of your own.", panel=_FILTERS),
        Option("wckey", "", "Jobs with this key.", "KEY", panel=_FILTERS),
        Option("signal", "s", "Send this signal to the steps.", "NAME", parse=_parse_signal, panel=_SIGNALS),
        flag("batch", "b", "To the batch script alone.", panel=_SIGNALS),
        flag("full", "f", "To the steps, the batch script and its children.", panel=_SIGNALS),
        flag("interactive", "i", "Ask before each job.", panel=_REPORTING),
        flag("quiet", "Q", "Say nothing.", repeat=Repeat.COUNT, panel=_REPORTING),
        flag("verbose", "v", "Say more.", repeat=Repeat.COUNT, panel=_REPORTING),
        *(Option(name, short, supported=False) for name, short in _UNSUPPORTED),
        *(flag(name, short, supported=False) for name, short in _UNSUPPORTED_FLAGS),
    ),
    new_values=Values,
    run=run,
)  # fmt: skip
