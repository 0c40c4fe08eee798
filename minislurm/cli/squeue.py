"""squeue: the jobs and job steps that the controller knows."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from minislurm.cli import job_fields, step_row
from minislurm.cli.application import Application, print_error, print_line
from minislurm.cli.columns import Field, Layout, parse_letters, parse_names, parse_sort_keys, sort_rows
from minislurm.cli.job_row import JobRow, expanded, is_meant, job_rows, narrowed
from minislurm.cli.listing import parse_interval, parse_list, parse_nodes, print_lines, repeat
from minislurm.cli.option import Argument, Option, OptionError, flag
from minislurm.cli.printable import printable
from minislurm.cli.step_row import StepRow, step_rows
from minislurm.domain.errors import AccessDenied, ControllerUnavailable, Refusal, RefusalCode, UsageError
from minislurm.domain.ids import NodeName
from minislurm.domain.job_targets import parse_target, split_targets
from minislurm.domain.states import JobState
from minislurm.domain.views import JobQuery, JobTarget, JobView

if TYPE_CHECKING:
    from minislurm.rpc.client import ControllerClient

T = TypeVar("T")

_DEFAULT_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_LONG_FORMAT = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
_START_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
_STEP_FORMAT = "%.15i %.8j %.9P %.8u %.9M %N"

_ACTIVE_STATES = frozenset(state for state in JobState if not state.is_final)
#: Valid in Slurm; no job of ours is ever in them.
_FOREIGN_STATES = {
    "RESIZING": "RS",
    "RESV_DEL_HOLD": "RD",
    "REQUEUED": "RQ",
    "REQUEUE_FED": "RF",
    "REQUEUE_HOLD": "RH",
    "REVOKED": "RV",
    "SIGNALING": "SI",
    "SPECIAL_EXIT": "SE",
    "STAGE_OUT": "SO",
    "STOPPED": "ST",
}
_VALID_STATES = (
    "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,DEADLINE,"
    "OUT_OF_MEMORY,COMPLETING,CONFIGURING,RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,REQUEUE_HOLD,REVOKED,"
    "SIGNALING,SPECIAL_EXIT,STAGE_OUT,STOPPED"
)


def main() -> int:
    return APPLICATION.main()


class Values(Struct):
    """The options. Lists None: not given, everything passes."""

    no_header: bool = False
    format: str | None = None
    long_format: str | None = None
    states: frozenset[JobState] | None = None
    jobs: tuple[JobTarget, ...] | None = None
    users: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    partitions: tuple[str, ...] | None = None
    accounts: tuple[str, ...] | None = None
    qos: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None
    array: bool = False
    #: Everything is shown anyway: no partition is hidden, there is one cluster.
    all: bool = False
    long: bool = False
    #: None: jobs; otherwise steps, of these if any are named.
    steps: tuple[JobTarget, ...] | None = None
    me: bool = False
    start: bool = False
    no_convert: bool = False
    sort: str | None = None
    iterate: float = 0.0


def run(values: Values, arguments: tuple[str, ...]) -> int:
    """Prints once, or every `iterate` seconds until interrupted."""
    if values.steps == () and arguments:
        values.steps, arguments = _parse_steps(arguments[0]), arguments[1:]
    if arguments:
        raise UsageError(
            f"squeue: error: Unrecognized option: {printable(arguments[0])}\nUsage: squeue {_SYNOPSIS}",
            prefix=False,
        )
    from minislurm.cli.connection import connect

    with connect() as client:
        return repeat(lambda now: show(values, client, now), values.iterate)


def show(values: Values, client: ControllerClient, now: float) -> int:
    """One listing; returns the exit code."""
    unknown_users = _unknown_users(values.users)
    try:
        views = load_jobs(client, values)
        known_nodes = {str(view.node.name) for view in client.list_nodes()} if values.nodes else set()
    except (Refusal, AccessDenied, ControllerUnavailable) as error:
        print_line(f"slurm_load_jobs error: {error}")
        return 1
    for node in values.nodes or ():
        if node not in known_nodes:
            raise UsageError(f"Invalid node name {node}")
    rows = job_rows(views, now, convert=not values.no_convert)
    for user in unknown_users:
        if not any(row.job.spec.user_name == user for row in rows):
            print_error("squeue", f"Invalid user: {user}")
            print_line("")
    if values.steps is not None:
        lines = step_lines(values, rows)
    else:
        lines = job_lines(values, rows)
    if not values.no_header and (values.long or values.iterate):
        print(time.ctime(now))
    print_lines(lines)
    return 0


def load_jobs(client: ControllerClient, values: Values) -> list[JobView]:
    """The records that may have to be shown. A single unknown id is refused, one of many passed over."""
    targets = values.jobs or ()
    ids = tuple(dict.fromkeys(target.job_id for target in targets))
    single = len(targets) == 1
    wanted = _wanted_states(values)
    include_ended = single or not wanted <= _ACTIVE_STATES
    views = client.list_jobs(JobQuery(ids, include_ended, forecast=values.start))
    if single and not views:
        raise Refusal(RefusalCode.INVALID_JOB_ID)
    return views


def job_lines(values: Values, rows: Sequence[JobRow]) -> list[str]:
    """The header and a line for each job that passes the filters."""
    if values.long_format is not None:
        layout = parse_names(values.long_format, job_fields.NAMES, _report_invalid("job"))
    else:
        layout = parse_letters(_job_format(values), job_fields.LETTERS, _report_invalid("job"))
    default_sort = "S" if values.start else "P,t,-p"
    return _lines(values, layout, filtered(values, rows), job_fields.LETTERS, default_sort)


def step_lines(values: Values, rows: Sequence[JobRow]) -> list[str]:
    if values.long_format is not None:
        layout = parse_names(values.long_format, step_row.NAMES, _report_invalid("job step"))
    else:
        text = values.format if values.format is not None else _STEP_FORMAT
        layout = parse_letters(text, step_row.LETTERS, _report_invalid("job step"))
    steps = [step for step in step_rows(filtered(values, rows)) if _is_wanted_step(step, values.steps or ())]
    return _lines(values, layout, steps, step_row.LETTERS, "P,i")


def filtered(values: Values, rows: Iterable[JobRow]) -> list[JobRow]:
    """The rows that pass all filters; with -r one for each task."""
    states = _wanted_states(values)
    users = _user_ids(values)
    nodes = frozenset(NodeName(node) for node in values.nodes) if values.nodes is not None else None

    def passes(row: JobRow) -> bool:
        job = row.job
        return (
            job.state in states
            and (users is None or job.spec.user_id in users or job.spec.user_name in users)
            and _among(job.name, values.names)
            and _among(job.partition, values.partitions)
            and _among(job.spec.account, values.accounts)
            and _among(job.spec.qos, values.qos)
            and (nodes is None or not nodes.isdisjoint(row.nodes))
        )

    kept = [part for row in rows if passes(row) for part in _selected(row, values.jobs)]
    return [task for row in kept for task in expanded(row)] if values.array else kept


def _lines(
    values: Values, layout: Layout[T], rows: list[T], letters: dict[str, Field[T]], default_sort: str
) -> list[str]:
    header = [] if values.no_header else [layout.header()]
    sort = values.sort if values.sort is not None else default_sort
    unknown = _unknown_sort_key(sort, letters)
    if unknown:
        raise UsageError(f"Invalid sort specification: {unknown}")
    rows = sort_rows(rows, sort, letters)
    return header + [layout.row(row) for row in rows]


def _job_format(values: Values) -> str:
    if values.format is not None:
        return values.format
    if values.start:
        return _START_FORMAT
    return _LONG_FORMAT if values.long else _DEFAULT_FORMAT


def _report_invalid(kind: str) -> Callable[[str], None]:
    return lambda text: print_error("squeue", f"Invalid {kind} format specification: {text}")


def _wanted_states(values: Values) -> frozenset[JobState]:
    if values.states is not None:
        return values.states
    return frozenset({JobState.PENDING}) if values.start else _ACTIVE_STATES


def _among(text: str, wanted: tuple[str, ...] | None) -> bool:
    return wanted is None or text in wanted


def _selected(row: JobRow, targets: tuple[JobTarget, ...] | None) -> list[JobRow]:
    """The part of a row that -j asks for: all of it, some tasks of an array, nothing."""
    if targets is None:
        return [row]
    tasks: set[int] = set()
    for target in targets:
        if row.job.is_component and target.job_id in row.view.het_job_ids:
            return [row]  # one names all, as in Slurm
        if target.job_id in (row.job.id, row.array_job_id):
            if not target.tasks:
                return [row]
            if target.job_id == row.array_job_id:
                tasks.update(target.tasks)
    return list(narrowed(row, frozenset(tasks)))


def _is_wanted_step(step: StepRow, targets: tuple[JobTarget, ...]) -> bool:
    return not targets or any(
        target.step_id in (None, step.step.id)
        and is_meant(step.row, target)
        and (not target.tasks or step.row.job.array_task_id in target.tasks)
        for target in targets
    )


def _user_ids(values: Values) -> frozenset[int | str] | None:
    """Ids and names, for those who have no account on this host."""
    names = list(values.users) if values.users is not None else None
    result: set[int | str] = set()
    for name in names or ():
        result.add(int(name) if name.isascii() and name.isdigit() else name)
        try:
            result.add(pwd.getpwnam(name).pw_uid)
        except (KeyError, ValueError):
            pass
    if values.me:
        result.add(os.getuid())
    return None if names is None and not values.me else frozenset(result)


def _unknown_users(users: tuple[str, ...] | None) -> list[str]:
    result = []
    for user in users or ():
        try:
            if not (user.isascii() and user.isdigit()):
                pwd.getpwnam(user)
        except (KeyError, ValueError):
            result.append(user)
    return result


# Parsers of the options' values.


def _parse_states(text: str) -> frozenset[JobState] | None:
    names = [name for name in text.split(",") if name]
    if not names:
        return None
    result: set[JobState] = set()
    for name in names:
        if name.lower() == "all":
            return frozenset(JobState)
        result.update(_state_named(name))
    return frozenset(result)


def _state_named(name: str) -> list[JobState]:
    upper = name.upper()
    for state in JobState:
        if upper in (state.value, state.compact):
            return [state]
    if upper in _FOREIGN_STATES or upper in _FOREIGN_STATES.values():
        return []
    raise UsageError(
        f"squeue: error: Invalid job state specified: {name}\n"
        f"squeue: error: Valid job states include: {_VALID_STATES}\n",
        prefix=False,
    )


def _parse_jobs(text: str) -> tuple[JobTarget, ...] | None:
    return tuple(_job_target(item) for item in split_targets(text)) or None


def _job_target(text: str) -> JobTarget:
    try:
        target = parse_target(text)
    except ValueError:
        target = None
    if target is None or target.step_id is not None:
        raise OptionError(f"Invalid job id: {printable(text)}")
    return target


def _parse_steps(text: str) -> tuple[JobTarget, ...]:
    """ "": all steps."""
    result = []
    for item in split_targets(text):
        try:
            target = parse_target(item, batch_step=True)
        except ValueError as error:
            raise OptionError(f"Invalid job_step id: {printable(item)}") from error
        result.append(target)
    return tuple(result)


def _parse_sort(text: str) -> str:
    """Letters of either kind; which of them apply is known once it is known what is listed."""
    unknown = _unknown_sort_key(text, job_fields.LETTERS)
    if unknown and _unknown_sort_key(text, step_row.LETTERS):
        raise OptionError(f"Invalid sort specification: {printable(unknown)}")
    return text


def _unknown_sort_key(text: str, letters: Mapping[str, Field[T]]) -> str:
    try:
        parse_sort_keys(text, letters)
    except KeyError as error:
        return str(error.args[0])
    return ""


#: Environment variable -> the option it stands for.
_ENVIRONMENT = {
    "SQUEUE_ACCOUNT": "account",
    "SQUEUE_ALL": "all",
    "SQUEUE_ARRAY": "array",
    "SQUEUE_FORMAT": "format",
    "SQUEUE_FORMAT2": "Format",
    "SQUEUE_NAMES": "name",
    "SQUEUE_PARTITION": "partition",
    "SQUEUE_QOS": "qos",
    "SQUEUE_SORT": "sort",
    "SQUEUE_STATES": "states",
    "SQUEUE_USERS": "user",
}


def _set_environment(values: Values) -> None:
    from minislurm.cli.option import by_name, set_value

    options = by_name(OPTIONS)
    for variable, name in _ENVIRONMENT.items():
        if variable in os.environ:
            set_value(values, options[name], os.environ[variable])


_SYNOPSIS = (
    "[-A account] [-i seconds] [-j jobid] [-n name] [-o format] [-p partitions] [-q qos] [-S fields] "
    "[--start] [-s step_id] [-t states] [-u user_name] [-w nodes] [-ahlr]"
)

OPTIONS: tuple[Option, ...] = (
    Option("account", "A", "Only jobs of these accounts.", "LIST", parse=parse_list, field="accounts"),
    flag("all", "a", "Also hidden partitions (none is hidden)."),
    flag("array", "r", "One line for each task of an array.", aliases=("array-unique",)),
    Option("format", "o", 'Columns: "%[.][width]letter[text]".', "FORMAT"),
    Option("Format", "O", 'Columns: "name[:[.][width][text]],…".', "FORMAT", field="long_format"),
    flag("noheader", "h", "No header line.", field="no_header"),
    flag("hide", help="No hidden partitions (none is hidden).", field="all", constant=False),
    Option("iterate", "i", "Show again every SECONDS.", "SECONDS", parse=parse_interval),
    Option("jobs", "j", "Only these jobs.", "LIST", parse=_parse_jobs),
    flag("local", help="Only this cluster (there is no other).", field="all"),
    flag("long", "l", "More columns."),
    flag("me", help="Only my jobs."),
    Option("name", "n", "Only jobs of these names.", "LIST", parse=parse_list, field="names"),
    flag("noconvert", help="Leave amounts in their unit (2048M).", field="no_convert"),
    Option("nodelist", "w", "Only jobs on these nodes.", "HOSTLIST", parse=parse_nodes, field="nodes"),
    Option("partition", "p", "Only jobs in these partitions.", "LIST", parse=parse_list, field="partitions"),
    Option("qos", "q", "Only jobs with these QOS.", "LIST", parse=parse_list),
    Option("sort", "S", "Sort by columns: P,t,-p.", "KEYS", parse=_parse_sort),
    flag("start", help="When pending jobs are expected to start."),
    Option("states", "t", 'Only jobs in these states ("all": ended ones too).', "LIST", parse=_parse_states),
    Option(
        "steps", "s", "Job steps instead of jobs.", "LIST", argument=Argument.OPTIONAL, parse=_parse_steps
    ),
    Option(
        "user", "u", "Only jobs of these users.", "LIST", parse=parse_list, field="users", aliases=("users",)
    ),
    *(
        Option(name, short, supported=False, argument=argument)
        for name, short, argument in (
            ("clusters", "M", Argument.REQUIRED),
            ("federation", "", Argument.NONE),
            ("json", "", Argument.OPTIONAL),
            ("licenses", "L", Argument.REQUIRED),
            ("only-job-state", "", Argument.NONE),
            ("priority", "P", Argument.NONE),
            ("reservation", "R", Argument.REQUIRED),
            ("sibling", "", Argument.NONE),
            ("verbose", "v", Argument.NONE),
            ("yaml", "", Argument.OPTIONAL),
        )
    ),
)

APPLICATION = Application(
    name="squeue",
    summary="Show the jobs and job steps in the queue.",
    synopsis=_SYNOPSIS,
    options=OPTIONS,
    new_values=Values,
    run=run,
    set_environment=_set_environment,
)
