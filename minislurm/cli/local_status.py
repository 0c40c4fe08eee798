"""`minislurm status`: which daemons run, and how the nodes are."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from msgspec import Struct

from minislurm.cli.local_actions import call
from minislurm.cli.local_cluster import LocalCluster
from minislurm.cli.local_daemon import Daemon
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import MinislurmError
from minislurm.domain.times import format_duration


class _Row(Struct, frozen=True):
    daemon: str
    pid: str
    status: str
    uptime: str = ""
    memory: str = ""
    cpu: str = ""
    node: str = ""


_HEADERS = ("DAEMON", "PID", "STATUS", "UPTIME", "MEMORY", "CPU", "NODE STATE")


def show(cluster: LocalCluster, configuration: Configuration) -> bool:
    """Prints the table; True if every daemon runs and the controller answers."""
    nodes: dict[str, str] = {}
    answer = "the controller does not answer"
    try:
        call(
            configuration,
            lambda client: nodes.update({view.node.name: view.state.lower() for view in client.list_nodes()}),
        )
        answer = ""
    except MinislurmError as error:
        answer = str(error)
    rows = [_row(daemon, nodes.get(daemon.name, "")) for daemon in cluster.daemons(configuration)]
    is_up = not answer and all(row.status == "running" for row in rows)
    host, port = configuration.cluster.controller_host, configuration.cluster.controller_port
    print(f"Cluster {configuration.cluster.name} in {cluster.folder}, controller at {host}:{port}")
    _print_table(rows)
    if answer:
        print(f"controller: {answer}", file=sys.stderr)
    return is_up


def _row(daemon: Daemon, node_state: str) -> _Row:
    import psutil

    pid = daemon.pid()
    if pid is None:
        status = "ended" if daemon.record_path.exists() else "stopped"
        return _Row(daemon.name, "-", status, node=node_state)
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return _Row(
            daemon.name,
            str(pid),
            "running",
            format_duration(max(0.0, time.time() - process.create_time())),
            f"{process.memory_info().rss / 2**20:.0f} MiB",
            f"{times.user + times.system:.1f} s",
            node_state,
        )
    except psutil.Error:
        return _Row(daemon.name, str(pid), "ended", node=node_state)


def _print_table(rows: Sequence[_Row]) -> None:
    cells = [(row.daemon, row.pid, row.status, row.uptime, row.memory, row.cpu, row.node) for row in rows]
    if sys.stdout.isatty():
        _print_rich(cells)
        return
    widths = [max(map(len, column)) for column in zip(_HEADERS, *cells, strict=True)]
    for line in (_HEADERS, *cells):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_rich(cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for header in _HEADERS:
        table.add_column(header, justify="right" if header in ("PID", "UPTIME", "MEMORY", "CPU") else "left")
    for line in cells:
        style = "" if line[2] == "running" else "red"
        table.add_row(*(Text(cell) for cell in line), style=style)
    Console().print(table)
