"""scontrol: shows the controller's records and changes them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from minislurm.cli.application import Application, print_error, print_line
from minislurm.cli.job_row import JobRow, is_meant, job_rows, narrowed
from minislurm.cli.option import Argument, Option, flag
from minislurm.cli.printable import printable
from minislurm.domain.errors import AccessDenied, ControllerUnavailable, Refusal, RefusalCode, UsageError
from minislurm.domain.hostlist import compress, expand, natural_key
from minislurm.domain.job_targets import format_target, parse_target
from minislurm.domain.views import JobQuery, JobTarget

if TYPE_CHECKING:
    from minislurm.rpc.client import ControllerClient


def main() -> int:
    return APPLICATION.main()


class Values(Struct):
    details: bool = False
    one_line: bool = False
    #: Everything is shown anyway: no partition or node is hidden.
    all: bool = False


def run(values: Values, arguments: tuple[str, ...]) -> int:
    if not arguments:
        raise UsageError("interactive mode is not supported: give a command")
    keyword = _find(arguments[0], _KEYWORDS)
    if keyword is None:
        raise _plain(f"invalid keyword: {arguments[0]}")
    if keyword in _UNSUPPORTED_KEYWORDS:
        raise UsageError(f"{keyword} is not supported")
    words = arguments[1:]
    match keyword:
        case "show":
            return _show(values, words)
        case "ping":
            return _ping(words)
        case "version":
            return APPLICATION.main(["--version"])
        case "update":
            return _update(words)
        case "create" | "delete":
            return _reserve(keyword, words)
        case _:
            return _act(keyword, words)


def _act(keyword: str, words: Sequence[str]) -> int:
    from minislurm.cli.job_actions import act

    if not words:
        raise _plain(f"too few arguments for keyword:{keyword}")
    context = "slurm_requeue" if keyword.startswith("requeue") else "slurm_suspend"
    if keyword == "checkpoint":
        context = "scontrol_checkpoint"
    return _with_client(f"{context} error", lambda client: act(client, keyword, words))


def _update(words: Sequence[str]) -> int:
    from minislurm.cli.job_actions import update
    from minislurm.cli.reservation_actions import names_reservation
    from minislurm.cli.reservation_actions import update as update_reservation
    from minislurm.cli.update import parse_update

    if names_reservation(words):
        return update_reservation(words)
    # What cannot be read is refused whether or not the controller is there.
    parse_update(words, time.time())
    return _with_client("slurm_update error", lambda client: update(client, words, time.time()))


def _reserve(keyword: str, words: Sequence[str]) -> int:
    from minislurm.cli.reservation_actions import create, delete

    return create(words) if keyword == "create" else delete(words)


def _ping(words: Sequence[str]) -> int:
    if words:
        raise _plain("too many arguments for keyword:ping")
    from minislurm.cli.connection import configuration, connect

    try:
        with connect() as client:
            print(f"Slurmctld(primary) at {client.ping().host} is UP")
    except ControllerUnavailable:
        print(f"Slurmctld(primary) at {configuration().cluster.controller_host} is DOWN")
        return 1
    return 0


def _show(values: Values, words: Sequence[str]) -> int:
    if not words:
        raise _plain("too few arguments for keyword:show")
    # "show job=12" is "show job 12".
    entity_text, equals, value = words[0].partition("=")
    arguments = ([value] if equals else []) + list(words[1:])
    entity = _find(entity_text, _ENTITIES)
    if entity is None:
        raise _plain(f"invalid entity:{entity_text} for keyword:show ")
    if entity in _UNSUPPORTED_ENTITIES:
        raise UsageError(f"show {entity} is not supported")
    if len(arguments) > 1:
        raise _plain("too many arguments for keyword:show")
    return _SHOW[entity](values, arguments[0] if arguments else None)


def _show_job(values: Values, argument: str | None) -> int:
    target = _job_argument(argument)
    return _with_client("slurm_load_jobs error", lambda client: _print_jobs(client, values, target, argument))


def _print_jobs(
    client: ControllerClient, values: Values, target: JobTarget | None, argument: str | None
) -> int:
    from minislurm.cli.show_job import job_text

    rows = _load_rows(client, target)
    if not rows and target is None:
        print("No jobs in the system")
        return 0
    if not rows:
        print(f"Job {printable(argument or '')} not found")
        return 1
    is_one = len(rows) == 1 or rows[0].job.is_component
    explains = values.details and target is not None and is_one and rows[0].is_pending
    why = _why(client, target) if explains and target is not None else ()
    texts = (
        # What components wait for, they wait for together.
        job_text(row, one_line=values.one_line, details=values.details, why=why if row is rows[0] else ())
        for row in rows
    )
    sys.stdout.write("".join(texts))
    return 0


def _why(client: ControllerClient, target: JobTarget) -> Sequence[str]:
    from minislurm.cli.why import short_lines

    try:
        told = client.explain(target)
    except Refusal:
        return ()  # it has gone meanwhile
    return tuple(short_lines(told)) if told.state == "PENDING" else ()


def _load_rows(client: ControllerClient, target: JobTarget | None) -> list[JobRow]:
    """The records of all jobs, of one, or of some of its tasks. Raises Refusal for an unknown job."""
    if target is None:
        return job_rows(client.list_jobs(JobQuery(include_ended=True)), time.time())
    views = client.list_jobs(JobQuery(job_ids=(target.job_id,), include_ended=True))
    if not views:
        raise Refusal(RefusalCode.INVALID_JOB_ID)
    rows = [row for row in job_rows(views, time.time()) if row.in_array or is_meant(row, target)]
    if not target.tasks:
        return rows
    return [part for row in rows for part in narrowed(row, frozenset(target.tasks))]


def _job_argument(argument: str | None) -> JobTarget | None:
    if argument is None:
        return None
    try:
        target = parse_target(argument)
    except ValueError:
        target = None
    if target is None or target.step_id is not None:
        raise _plain("scontrol_print_job error: Invalid job id specified")
    return target


def _show_step(values: Values, argument: str | None) -> int:
    try:
        target = parse_target(argument, batch_step=True) if argument is not None else None
    except ValueError as error:
        raise UsageError(f"Invalid job_step id: {printable(argument or '')}") from error
    return _with_client("slurm_get_job_steps error", lambda client: _print_steps(client, values, target))


def _print_steps(client: ControllerClient, values: Values, target: JobTarget | None) -> int:
    from minislurm.cli.show_step import step_text
    from minislurm.cli.step_row import step_rows

    steps = step_rows(_load_rows(client, target))
    if target is not None and target.step_id is not None:
        steps = [step for step in steps if step.step.id == target.step_id]
    if not steps and target is not None:
        print(f"Job step {format_target(target)} not found")
        return 1
    if not steps:
        print("No job steps in the system")
    sys.stdout.write("".join(step_text(step, one_line=values.one_line) for step in steps))
    return 0


def _show_node(values: Values, argument: str | None) -> int:
    return _with_client("slurm_load_node error", lambda client: _print_nodes(client, values, argument))


def _print_nodes(client: ControllerClient, values: Values, argument: str | None) -> int:
    from minislurm.cli.show_node import node_text

    views = {str(view.node.name): view for view in client.list_nodes()}
    try:
        names = sorted(views, key=natural_key) if argument is None else expand(argument)
    except ValueError:
        names = [argument or ""]
    exit_code = 0
    for name in names:
        if name in views:
            sys.stdout.write(node_text(views[name], one_line=values.one_line, details=values.details))
        else:
            print(f"Node {printable(name)} not found")
            exit_code = 1
    return exit_code


def _show_partition(values: Values, argument: str | None) -> int:
    return _with_client(
        "slurm_load_partitions error", lambda client: _print_partitions(client, values, argument)
    )


def _print_partitions(client: ControllerClient, values: Values, argument: str | None) -> int:
    from minislurm.cli.show_partition import partition_text

    views = [view for view in client.list_partitions() if argument in (None, view.name)]
    if not views and argument is not None:
        print(f"Partition {printable(argument)} not found")
        return 1
    sys.stdout.write("".join(partition_text(view, one_line=values.one_line) for view in views))
    return 0


def _show_reservation(values: Values, argument: str | None) -> int:
    from minislurm.cli.reservation_actions import show_reservations

    def show(client: ControllerClient) -> int:
        return show_reservations(client, argument, one_line=values.one_line)

    return _with_client("slurm_load_reservations error", show)


def _show_license(values: Values, argument: str | None) -> int:
    from minislurm.cli.reservation_actions import show_licenses

    def show(client: ControllerClient) -> int:
        return show_licenses(client, argument, one_line=values.one_line)

    return _with_client("slurm_load_licenses error", show)


def _show_config(values: Values, argument: str | None) -> int:
    def show(client: ControllerClient) -> int:
        from minislurm.cli.show_config import configuration_text

        print(configuration_text(client.show_configuration(), time.time()))
        print(f"Slurmctld(primary) at {client.ping().host} is UP")
        return 0

    return _with_client("slurm_load_ctl_conf error", show)


def _show_hostnames(values: Values, argument: str | None) -> int:
    """One name a line; without an argument those of the allocation around it."""
    text = argument
    if text is None:
        text = os.environ.get("SLURM_NODELIST") or os.environ.get("SLURM_JOB_NODELIST") or ""
    if not text:
        print_error("scontrol", "host list is empty")
        return 0
    try:
        names = expand(text)
    except ValueError as error:
        raise UsageError(f"Invalid hostlist: {printable(text)}") from error
    print("\n".join(printable(name) for name in names))
    return 0


def _show_hostlist(values: Values, argument: str | None) -> int:
    return _print_hostlist(argument, lambda names: names)


def _show_hostlist_sorted(values: Values, argument: str | None) -> int:
    return _print_hostlist(argument, lambda names: sorted(names, key=natural_key))


def _print_hostlist(argument: str | None, order: Callable[[list[str]], list[str]]) -> int:
    if argument is None:
        raise _plain("invalid encode argument")
    try:
        print(printable(compress(order(expand(argument)))))
    except ValueError as error:
        raise UsageError(f"Invalid hostlist: {printable(argument)}") from error
    return 0


def _with_client(context: str, body: Callable[[ControllerClient], int]) -> int:
    """Calls `body`; what the controller refuses is printed as "context: text"."""
    from minislurm.cli.connection import connect

    with connect() as client:
        try:
            return body(client)
        except (Refusal, AccessDenied, ControllerUnavailable) as error:
            sys.stdout.flush()
            if isinstance(error, Refusal):
                for line in error.details:
                    print_line(line)
            print_line(f"{context}: {error}")
            return 1


def _plain(message: str) -> UsageError:
    """An error that Slurm prints without "scontrol: error: "."""
    return UsageError(printable(message), prefix=False)


def _find(text: str, known: Sequence[str]) -> str | None:
    """Slurm takes any beginning of a word; the first that fits, in Slurm's order."""
    lowered = text.lower()
    if lowered in known:
        return lowered
    return next((word for word in known if len(lowered) >= 3 and word.startswith(lowered)), None)


_UNSUPPORTED_KEYWORDS = frozenset({
    "abort", "cancel_reboot", "cluster", "completing", "errnumstr", "fsdampeningfactor",
    "getaddrs", "listpids", "notify", "pidinfo", "power", "reboot", "reconfigure", "resume", "schedloglevel",
    "setdebug", "setdebugflags", "shutdown", "suspend", "takeover", "token", "top", "wait_job", "write",
})  # fmt: skip
_KEYWORDS = (
    "show",
    "update",
    "hold",
    "uhold",
    "release",
    "requeue",
    "requeuehold",
    "ping",
    "version",
    "create",
    "delete",
    "checkpoint",
    *sorted(_UNSUPPORTED_KEYWORDS),
)

_SHOW: dict[str, Callable[[Values, str | None], int]] = {
    "job": _show_job,
    "jobs": _show_job,
    "jobid": _show_job,
    "node": _show_node,
    "nodes": _show_node,
    "partition": _show_partition,
    "partitions": _show_partition,
    "config": _show_config,
    "configuration": _show_config,
    "hostnames": _show_hostnames,
    "hostlist": _show_hostlist,
    "hostlistsorted": _show_hostlist_sorted,
    "step": _show_step,
    "steps": _show_step,
    "reservation": _show_reservation,
    "reservations": _show_reservation,
    "reservationname": _show_reservation,
    "licenses": _show_license,
}
_UNSUPPORTED_ENTITIES = (
    "aliases", "assoc_mgr", "bbstat", "burstbuffer", "daemons", "dwstat", "federation", "frontend",
    "slurmd", "topology",
)  # fmt: skip
_ENTITIES = (*_SHOW, *_UNSUPPORTED_ENTITIES)

OPTIONS: tuple[Option, ...] = (
    flag("all", "a", "Also what is hidden (nothing is)."),
    flag("details", "d", "More about each job and node."),
    flag("oneliner", "o", "One line for each record.", field="one_line"),
    flag("local", help="Only this cluster (there is no other).", field="all"),
    *(
        Option(name, short, supported=False, argument=argument)
        for name, short, argument in (
            ("cluster", "M", Argument.REQUIRED),
            ("federation", "", Argument.NONE),
            ("future", "F", Argument.NONE),
            ("hide", "", Argument.NONE),
            ("json", "", Argument.OPTIONAL),
            ("quiet", "Q", Argument.NONE),
            ("sibling", "", Argument.NONE),
            ("uid", "u", Argument.REQUIRED),
            ("verbose", "v", Argument.NONE),
            ("yaml", "", Argument.OPTIONAL),
        )
    ),
)

APPLICATION = Application(
    name="scontrol",
    summary="Show and change jobs, nodes, partitions and the configuration.",
    synopsis=(
        "[-ado] show {job|node|partition|reservation|license|config|step|hostnames|hostlist} [NAME] | "
        "{hold|uhold|release|requeue|requeuehold|checkpoint} ID … | update KEY=VALUE … | "
        "create reservation KEY=VALUE … | delete ReservationName=NAME | ping"
    ),
    options=OPTIONS,
    new_values=Values,
    run=run,
    help_short="h",
)
