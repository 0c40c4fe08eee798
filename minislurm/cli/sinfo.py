"""sinfo: partitions and nodes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from minislurm.cli.application import Application, print_error, print_line
from minislurm.cli.columns import Layout, parse_letters, parse_names, parse_sort_keys
from minislurm.cli.listing import parse_interval, parse_list, parse_nodes, print_lines, repeat
from minislurm.cli.node_fields import LETTERS, NAMES, NodeField, node_name_likeness
from minislurm.cli.node_group import NodeGroup, NodeLikeness, group_nodes
from minislurm.cli.node_state import NodeStateText, matches_state, node_state
from minislurm.cli.option import Argument, Option, OptionError, by_name, flag, set_value
from minislurm.cli.printable import printable
from minislurm.domain.errors import AccessDenied, ControllerUnavailable, Refusal
from minislurm.domain.views import NodeView, PartitionView

if TYPE_CHECKING:
    from minislurm.rpc.client import ControllerClient

_VALID_STATES = (
    "unknown,down,idle,allocated,mixed,future,drain,drained,draining,no_respond,reserved,perfctrs,cloud,"
    "completing,powering_down,powered_down,power_down,powering_up,fail,maint,reboot,unknown"
)
#: Least width of the columns that are as wide as their longest text.
_AUTO_WIDTH = 9


def main() -> int:
    return APPLICATION.main()


class Values(Struct):
    """The options. None: not given."""

    no_header: bool = False
    #: Everything is shown anyway: no partition is hidden, amounts are never converted.
    all: bool = False
    by_node: bool = False
    format: str | None = None
    long_format: str | None = None
    partitions: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None
    #: Any of these, each a list of names that must all hold.
    states: tuple[tuple[str, ...], ...] | None = None
    long: bool = False
    list_reasons: bool = False
    summarize: bool = False
    exact: bool = False
    dead: bool = False
    responding: bool = False
    sort: str | None = None
    reservation: bool = False
    iterate: float = 0.0


def run(values: Values, arguments: tuple[str, ...]) -> int:
    """Prints once, or every `iterate` seconds until interrupted."""
    from minislurm.cli.connection import connect

    with connect() as client:
        return repeat(lambda now: show(values, client, now), values.iterate)


def show(values: Values, client: ControllerClient, now: float) -> int:
    """One listing; returns the exit code."""
    if values.reservation:
        return _show_reservations(values, client)
    try:
        partitions, nodes = client.list_partitions(), client.list_nodes()
    except (Refusal, AccessDenied, ControllerUnavailable) as error:
        print_line(f"slurm_load_partitions: {error}")
        return 1
    lines = node_lines(values, partitions, nodes)
    if not values.no_header and (values.long or values.iterate):
        print(time.ctime(now))
    print_lines(lines)
    return 0


def _show_reservations(values: Values, client: ControllerClient) -> int:
    from minislurm.cli.show_reservation import reservation_lines

    try:
        views = client.list_reservations()
    except (Refusal, AccessDenied, ControllerUnavailable) as error:
        print_line(f"slurm_load_reservations: {error}")
        return 1
    print_lines(reservation_lines(views, header=not values.no_header))
    return 0


def node_lines(values: Values, partitions: Sequence[PartitionView], nodes: Sequence[NodeView]) -> list[str]:
    """The header and the rows."""
    if values.partitions is not None:
        partitions = [partition for partition in partitions if partition.name in values.partitions]
    passed = {view.node.name: view for view in nodes if _passes(values, view)}
    # Grouping needs to know the columns, and the width of two of them follows from the groups.
    layout = _layout(values, {}, report=True)
    fields = [field for field in layout.fields() if isinstance(field, NodeField)]
    groups = group_nodes(
        partitions,
        passed,
        [field.partition_likeness for field in fields if field.partition_likeness is not None],
        _node_likenesses(values, fields),
        keep_empty=not values.by_node and not values.list_reasons,
    )
    groups = _sorted(values, groups)
    layout = _layout(values, _auto_widths(groups), report=False)
    header = [] if values.no_header else [layout.header()]
    return header + [layout.row(group) for group in groups]


def _passes(values: Values, view: NodeView) -> bool:
    state = node_state(view)
    if values.nodes is not None and view.node.name not in values.nodes:
        return False
    if (values.dead and state.responding) or (values.responding and not state.responding):
        return False
    if values.list_reasons and not (state.drain or state.base == "DOWN"):
        return False
    return values.states is None or any(
        all(matches_state(state, name) for name in names) for names in values.states
    )


def _node_likenesses(values: Values, fields: Sequence[NodeField]) -> list[NodeLikeness]:
    result = [field.node_likeness for field in fields if field.node_likeness is not None]
    if values.exact:
        result += [field.exact_likeness for field in fields if field.exact_likeness is not None]
    if values.by_node:
        result.append(node_name_likeness)
    return result


def _layout(values: Values, widths: dict[str, int], *, report: bool) -> Layout[NodeGroup]:
    def invalid(text: str) -> None:
        if report:
            print_error("sinfo", f"Invalid node format specification: {text}")

    if values.long_format is not None:
        return parse_names(values.long_format, NAMES, invalid)
    return parse_letters(_format(values, widths), LETTERS, invalid)


def _format(values: Values, widths: dict[str, int]) -> str:
    p, n = widths.get("P", _AUTO_WIDTH), widths.get("N", _AUTO_WIDTH)
    if values.format is not None:
        return values.format
    if values.summarize:
        return f"%{p}P %.5a %.10l %.16F %N"
    if values.by_node and values.long:
        return f"%{n}N %.6D %.{p}P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
    if values.by_node:
        return f"%{n}N %.6D %.{p}P %6t"
    if values.list_reasons:
        return "%20E %12U %19H %6t %N" if values.long else "%20E %9u %19H %N"
    if values.long:
        return f"%{p}P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
    return f"%{p}P %.5a %.10l %.6D %.6t %N"


def _auto_widths(groups: Sequence[NodeGroup]) -> dict[str, int]:
    return {
        "P": max([_AUTO_WIDTH, *(len(group.partition_name) for group in groups)]),
        "N": max([_AUTO_WIDTH, *(len(group.node_list) for group in groups)]),
    }


def _sorted(values: Values, groups: list[NodeGroup]) -> list[NodeGroup]:
    keys = values.sort if values.sort is not None else ("N" if values.by_node else "#P,-t")
    result = list(groups)
    if values.by_node:
        result.sort(key=lambda group: group.position)
    for field, descending, configured in reversed(_sort_keys(keys)):
        if configured:
            result.sort(key=lambda group: group.position, reverse=descending)
        else:
            result.sort(key=field.key, reverse=descending)
    return result


def _sort_keys(keys: str) -> list[tuple[NodeField, bool, bool]]:
    """(column, descending, in the configuration's order) for each key. Raises KeyError(letter)."""
    result = []
    for item in keys.split(","):
        for field, descending in parse_sort_keys(item, LETTERS):
            assert isinstance(field, NodeField)
            result.append((field, descending, "#" in item and field is LETTERS["P"]))
    return result


# Parsers of the options' values.


def _parse_states(text: str) -> tuple[tuple[str, ...], ...] | None:
    if text.lower() == "all" or not text:
        return None
    any_state = NodeStateText("IDLE", drain=False, completing=False, responding=True)
    for name in text.replace("&", ",").split(","):
        try:
            matches_state(any_state, name)
        except ValueError as error:
            raise OptionError(f"{printable(str(error))}\nvalid states: {_VALID_STATES}") from error
    return tuple(tuple(names.split("&")) for names in text.split(","))


def _parse_sort(text: str) -> str:
    try:
        _sort_keys(text)
    except KeyError as error:
        raise OptionError(f"Invalid sort specification: {printable(str(error.args[0]))}") from error
    return text


#: Environment variable -> the option it stands for.
_ENVIRONMENT = {
    "SINFO_ALL": "all",
    "SINFO_FORMAT": "format",
    "SINFO_FORMAT2": "Format",
    "SINFO_PARTITION": "partition",
    "SINFO_SORT": "sort",
}


def _set_environment(values: Values) -> None:
    options = by_name(OPTIONS)
    for variable, name in _ENVIRONMENT.items():
        if variable in os.environ:
            set_value(values, options[name], os.environ[variable])


OPTIONS: tuple[Option, ...] = (
    flag("all", "a", "Also hidden partitions (none is hidden)."),
    flag("dead", "d", "Only nodes that do not respond."),
    flag("exact", "e", "Nodes that differ in what is shown never share a row."),
    Option("format", "o", 'Columns: "%[.][width]letter[text]".', "FORMAT"),
    Option("Format", "O", 'Columns: "name[:[.][width][text]],…".', "FORMAT", field="long_format"),
    flag("hide", help="No hidden partitions (none is hidden).", field="all", constant=False),
    Option("iterate", "i", "Show again every SECONDS.", "SECONDS", parse=parse_interval),
    flag("list-reasons", "R", "Why nodes are down or drained.", field="list_reasons"),
    flag("local", help="Only this cluster (there is no other).", field="all"),
    flag("long", "l", "More columns."),
    flag("noconvert", help="Leave amounts in their unit (sinfo always does).", field="all"),
    flag("Node", "N", "A row for each node and partition.", field="by_node"),
    Option("nodes", "n", "Only these nodes.", "HOSTLIST", parse=parse_nodes),
    flag("noheader", "h", "No header line.", field="no_header"),
    Option("partition", "p", "Only these partitions.", "LIST", parse=parse_list, field="partitions"),
    flag("reservation", "T", "The reservations."),
    flag("responding", "r", "Only nodes that respond."),
    Option("sort", "S", "Sort by columns: #P,-t.", "KEYS", parse=_parse_sort),
    Option("states", "t", "Only nodes in these states; a&b: in both.", "LIST", parse=_parse_states),
    flag("summarize", "s", "A row for each partition."),
    *(
        Option(name, short, supported=False, argument=argument)
        for name, short, argument in (
            ("clusters", "M", Argument.REQUIRED),
            ("federation", "", Argument.NONE),
            ("json", "", Argument.OPTIONAL),
            ("verbose", "v", Argument.NONE),
            ("yaml", "", Argument.OPTIONAL),
        )
    ),
)

APPLICATION = Application(
    name="sinfo",
    summary="Show partitions and nodes.",
    synopsis="[-abdehlNRrs] [-n nodes] [-o format] [-p partitions] [-S fields] [-t states] [-i seconds]",
    options=OPTIONS,
    new_values=Values,
    run=run,
    set_environment=_set_environment,
    takes_arguments=False,
)
