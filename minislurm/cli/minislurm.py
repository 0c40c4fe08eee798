"""`minislurm`: a cluster on this machine, the host's agent, a journal's replay, why jobs wait."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from minislurm.cli import simulate, why
from minislurm.cli.application import guarded, print_error, print_line, print_version

if TYPE_CHECKING:
    from minislurm.cli.local_cluster import LocalCluster
    from minislurm.domain.configuration import Configuration

app = typer.Typer(
    name="minislurm",
    help="A batch system for GPU clusters that keeps Slurm's commands; here: a cluster on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Typer reads these annotations on Python 3.10, too: Optional, not `|`, where a default of None is meant.
StateDir = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--state-dir", metavar="DIR", help="The cluster's folder.", show_default="~/.local/state/minislurm"
    ),
]
Overrides = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--set", metavar="KEY=VALUE", help="Override a configuration key: section.key=value."),
]


def main() -> int:
    """The console script."""
    return guarded("minislurm", _main)


def _main() -> int:
    from minislurm.cli.local_cluster import ClusterError

    try:
        app(prog_name="minislurm")  # ends the process itself
    except ClusterError as error:
        _complain(str(error))
    return 1


def _complain(text: str) -> None:
    """An error, the first line as such, then what belongs to it: the end of a log."""
    first, *rest = text.split("\n")
    print_error("minislurm", first)
    for line in rest:
        print_line(line)


def _version(value: bool) -> None:
    if value:
        print_version()
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def up(
    nodes: Annotated[
        Optional[int], typer.Option(help="Nodes n1, n2 …", show_default="4")  # noqa: UP045
    ] = None,
    cpus: Annotated[
        Optional[int], typer.Option(help="Declared CPUs of each node.", show_default="8")  # noqa: UP045
    ] = None,
    memory: Annotated[
        Optional[str], typer.Option(help="Declared memory of each node.", show_default="16G")  # noqa: UP045
    ] = None,
    gpus: Annotated[
        Optional[int], typer.Option(help="Declared GPUs of each node.", show_default="4")  # noqa: UP045
    ] = None,
    gpu_type: Annotated[
        Optional[str], typer.Option(help="Their type, such as a100.", show_default="none")  # noqa: UP045
    ] = None,
    racks: Annotated[
        Optional[int], typer.Option(help="Racks that the nodes stand in.", show_default="2")  # noqa: UP045
    ] = None,
    state_dir: StateDir = None,
    overrides: Overrides = None,
    timeout: Annotated[float, typer.Option(help="Seconds until every node must be ready.")] = 60.0,
) -> None:
    """Start a cluster on this machine, or what is not running of it.

    Options that are left out are those of the last time.
    """
    from minislurm.cli.local_actions import Progress, await_nodes, start_missing
    from minislurm.cli.local_plan import Plan

    cluster, progress = _cluster(state_dir), Progress()
    with cluster.locked():
        plan = (cluster.stored_plan() or Plan()).changed(
            nodes=nodes,
            cpus=cpus,
            memory=memory,
            gpus=gpus,
            gpu_type=gpu_type,
            racks=racks,
            overrides=tuple(overrides or ()),
        )
        configuration = cluster.prepare(plan)
        started = start_missing(cluster, configuration)
        progress.show("starting " + ", ".join(daemon.name for daemon in started) if started else "attaching")
        await_nodes(cluster, configuration, timeout, progress)
    _print_next_steps(cluster, configuration, plan.racks, attached=not started)


@app.command()
def status(state_dir: StateDir = None) -> None:
    """Show the cluster's daemons and nodes. Exit code 0 if all of it runs, else 1."""
    from minislurm.cli.local_status import show

    cluster = _cluster(state_dir)
    if not show(cluster, cluster.configuration()):
        raise typer.Exit(1)


@app.command()
def logs(
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[controller|agent|NODE]", help="Whose; all, if left out."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is added.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="So many of the last lines.")] = 20,
    state_dir: StateDir = None,
) -> None:
    """Show the daemons' logs."""
    from minislurm.cli import local_daemon
    from minislurm.cli.printable import printable

    cluster = _cluster(state_dir)
    configuration = cluster.configuration()
    daemons = [cluster.daemon(configuration, name)] if name else cluster.daemons(configuration)
    for daemon, line in local_daemon.follow(daemons, lines, keep_on=follow):
        print(printable(line) if name else f"{daemon.name}: {printable(line)}", flush=follow)


@app.command()
def down(
    keep_jobs: Annotated[
        bool,
        typer.Option("--keep-jobs", help="Leave jobs running and waiting for the next `up`."),
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Cancel all jobs and stop the daemons. The cluster's folder stays."""
    from minislurm.cli.local_actions import Progress, stop

    cluster = _cluster(state_dir)
    configuration = cluster.configuration()
    with cluster.locked():
        was_running = bool(cluster.running(configuration))
        warnings = stop(cluster, configuration, keep_jobs=keep_jobs, progress=Progress())
    for warning in warnings:
        _complain(warning)
    print(f"The cluster in {cluster.folder} {'is stopped' if was_running else 'was not running'}.")
    if warnings:
        raise typer.Exit(1)


@app.command()
def restart(
    name: Annotated[str, typer.Argument(metavar="controller|agent|NODE|all", help="Which daemon.")],
    state_dir: StateDir = None,
) -> None:
    """Restart a daemon. Running jobs are not touched."""
    from minislurm.cli import local_actions

    cluster = _cluster(state_dir)
    configuration = cluster.configuration()
    everything = cluster.daemons(configuration)
    daemons = everything if name == "all" else [cluster.daemon(configuration, name)]
    with cluster.locked():
        local_actions.restart(cluster, configuration, daemons, local_actions.Progress())
    print(f"{name} is back." if name != "all" else "All daemons are back.")


@app.command()
def env(state_dir: StateDir = None) -> None:
    """Print what points a shell at the cluster: eval "$(minislurm env)"."""
    cluster = _cluster(state_dir)
    cluster.configuration()
    print(f"export MINISLURM_CONF={shlex.quote(str(cluster.configuration_path))}")
    commands = _commands_folder()
    if commands is not None and str(commands) not in os.environ.get("PATH", "").split(os.pathsep):
        print(f'export PATH={shlex.quote(str(commands))}:"$PATH"')


@app.command()
def agent(
    config: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--config", metavar="FILE", help="The configuration file."),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Sign credentials for the users of this host, until it is told to end. For root, on every host."""
    from minislurm.domain.configuration_file import load
    from minislurm.rpc import agent as rpc_agent

    rpc_agent.run(load(config, overrides or ()))


@app.command()
def replay(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="The controller's journal.")],
) -> None:
    """Apply a journal's events again, and check every invariant after each."""
    # The controller's code runs in a process of its own; commands know only its protocol.
    os.execv(sys.executable, [sys.executable, "-m", "minislurm.controller.replay", str(journal)])


app.command(context_settings=simulate.SETTINGS)(simulate.simulate)
app.command()(why.why)


def _cluster(folder: Path | None) -> LocalCluster:
    from minislurm.cli.local_cluster import LocalCluster, default_folder

    return LocalCluster(folder or default_folder())


def _commands_folder() -> Path | None:
    """Where this installation's commands lie, None if it has none (run from a source tree)."""
    import sysconfig

    for folder in (Path(sys.argv[0]).absolute().parent, Path(sysconfig.get_path("scripts"))):
        if (folder / "sbatch").exists() and (folder / "minislurm").exists():
            return folder
    return None


def _print_next_steps(
    cluster: LocalCluster, configuration: Configuration, racks: int, *, attached: bool
) -> None:
    from minislurm.cli.local_cluster import default_folder

    spec = configuration.nodes[0]
    gpus = sum(group.count for group in spec.gpus)
    shape = f"{len(configuration.nodes)} nodes of {spec.cpus} CPUs, {(spec.memory_mib or 0) / 1024:g} GiB"
    shape += f" and {gpus} GPUs" if gpus else ""
    shape += f", in {min(racks, len(configuration.nodes))} racks" if racks else ""
    commands = _commands_folder()
    on_path = commands is None or str(commands) in os.environ.get("PATH", "").split(os.pathsep)
    own = "minislurm" if on_path else shlex.quote(f"{commands}/minislurm")
    where = "" if cluster.folder == default_folder() else f" --state-dir {shlex.quote(str(cluster.folder))}"
    print(
        f"{'Attached to the cluster' if attached else 'The cluster is up'}: {shape}.\n\n"
        "Point this shell at it:\n"
        f'    eval "$({own} env{where})"\n'
        "Then, for example:\n"
        "    sinfo\n"
        "    srun -N2 hostname\n"
        "    sbatch --wrap 'echo hello from $SLURMD_NODENAME'\n"
        "    squeue\n"
        f"See how it does, and stop it:\n    {own} status{where}\n    {own} down{where}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
