"""`minislurm simulate`: a trace on a cluster that need not exist, or the live queue on a copy, scheduled by
the code that schedules real ones."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from math import inf, nan
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from msgspec.structs import replace

from minislurm.domain import times
from minislurm.domain.configuration import Configuration
from minislurm.domain.configuration_values import CHOICES
from minislurm.domain.errors import ConfigurationError, MinislurmError, UsageError
from minislurm.sim import cluster_file, policy, trace_file
from minislurm.sim.checkpoints import Checkpoints
from minislurm.sim.failures import Failures
from minislurm.sim.nodes_to_add import NodesToAdd
from minislurm.sim.trace import Workload
from minislurm.sim.trace_accounts import Budget
from minislurm.sim.workload import Synthetic, generate

if TYPE_CHECKING:
    from minislurm.sim.packing import Fill

_SYNTHETIC = "synthetic"
_LIVE_ONLY = ("add_nodes", "run_share", "horizon")
_TRACE_ONLY = (
    "trace", "cluster", "time_scale", "racks", "partition_by", "mtbf", "repair", "checkpoint_every",
    "checkpoint_cost", "restart_cost", "fill", "seeds", "seed", "lenient", "budget", "budget_period",
)  # fmt: skip
_EPILOG = """\
traces: SWF (*.swf, *.swf.gz); openb's pod list; any CSV or JSON lines with the columns submit, run, limit,
gpus, cpus, processors, nodes, memory_mib, gpu_type, user, account, partition, bid (Philly's as they are);
a controller's journal (STATE_DIR/journal.db; --cluster journal:FILE is the cluster that wrote it); or
synthetic:jobs=5000,load=0.9,... for a generated workload (see minislurm/sim/workload.py).

examples:
  minislurm simulate --trace KTH-SP2.swf.gz --cluster flat:100 --policy fifo --policy easy
  minislurm simulate --from-cluster --add-nodes 8 --set scheduler.priority_weight_age=5000
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 1 where something is wrong with what was asked."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except BrokenPipeError:
        return 1
    except MinislurmError as error:
        print(f"minislurm simulate: error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minislurm simulate",
        description="Run a trace, or the live queue, through the production scheduler under a virtual clock.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--trace", metavar="FILE", help="the jobs; or synthetic[:SETTING=VALUE,...]")
    add(
        "--cluster",
        metavar="CLUSTER",
        help="a configuration file, flat:PROCESSORS, openb:NODES.csv or journal:JOURNAL",
    )
    add("--set", metavar="KEY=VALUE", action="append", default=[], help="override a key of the configuration")
    add(
        "--policy", metavar="NAME", action="append", default=[],
        help=f"one of {', '.join(policy.POLICIES)}; repeatable, all are compared (default: configured)",
    )  # fmt: skip
    add(
        "--placement",
        metavar="NAME",
        help=f"how every partition chooses nodes: {', '.join(CHOICES['placement'])}",
    )
    add(
        "--runtimes", choices=["estimates", "exact", "history"], default="estimates",
        help="what the scheduler knows: the users' estimates (default), or each job's run time; of a live "
        "queue: jobs run to their limits (default), or as long as the user's last similar ones",
    )  # fmt: skip
    add("--seed", type=int, default=0, help="of everything that is drawn (default: 0)")
    add(
        "--time-scale",
        type=_positive,
        default=1.0,
        metavar="X",
        help="stretch submission times: 0.5 is twice the load",
    )
    add("--racks", type=_count, metavar="NODES", help="put the nodes into racks of so many, in their order")
    add("--partition-by", choices=["account"], help="each job goes to the partition named as its account")
    add("--mtbf", type=_duration, metavar="TIME", help="mean time between failures of one node")
    add(
        "--repair",
        type=_duration,
        default=3600.0,
        metavar="TIME",
        help="mean time to repair a node (default: 1:00:00)",
    )
    add(
        "--checkpoint-every",
        type=_duration,
        default=0.0,
        metavar="TIME",
        help="jobs checkpoint after so much work",
    )
    add("--checkpoint-cost", type=_duration, default=0.0, metavar="TIME", help="one checkpoint takes so long")
    add(
        "--restart-cost",
        type=_duration,
        default=0.0,
        metavar="TIME",
        help="a run that goes on from one begins so late",
    )
    add(
        "--fill", type=_positive, metavar="FACTOR",
        help="no time: submit in a drawn order until FACTOR times the GPUs are asked for; nothing ends",
    )  # fmt: skip
    add(
        "--seeds",
        type=_count,
        default=1,
        metavar="N",
        help="with --fill: runs, with --seed and those after it",
    )
    add(
        "--budget", type=_positive, metavar="CREDITS",
        help="with --policy auction: of each account in each --budget-period (default: an equal part of the "
        "cluster, at one credit for a GPU-hour)",
    )  # fmt: skip
    add(
        "--budget-period",
        type=_duration,
        metavar="TIME",
        help="budgets are given anew after it (default: 1-0)",
    )
    add("--lenient", action="store_true", help="count and skip lines that cannot be read")
    add("--json", metavar="OUT", help="write figures and courses there; - for standard output")
    add("--html", metavar="OUT", help="write a report with plots there (needs minislurm[sim])")
    _add_live_options(parser)
    return parser


def _add_live_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("instead of a trace and a cluster, a live one").add_argument
    add(
        "--from-cluster",
        action="store_true",
        help="play the live queue forward on a copy, as it is and with --add-nodes, --set, --placement or "
        "each --policy; for operators",
    )
    add(
        "--add-nodes", metavar="N[:like=NODE]", type=NodesToAdd.parse, action="append", default=[],
        help="so many nodes more, like that one (default: like most), in a rack of their own; repeatable",
    )  # fmt: skip
    add(
        "--run-share", metavar="SHARE", type=_share,
        help="jobs run for this part of their time limit, above 0 to 1 (default: 1, to their limits)",
    )  # fmt: skip
    add("--horizon", metavar="TIME", type=_duration, help="look ahead so far at most (default: 365-0)")


def _run(options: argparse.Namespace) -> None:
    if options.from_cluster:
        _run_live(options)
        return
    for name in _LIVE_ONLY:
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} is for --from-cluster")
    if options.runtimes == "history":
        raise UsageError(
            "--runtimes history is for --from-cluster: a trace's jobs have run times of their own"
        )
    for name in ("trace", "cluster"):
        if not getattr(options, name):
            raise UsageError(f"--{name} is needed; see minislurm simulate --help")
    if options.fill:
        _fill(options)
        return
    for name in ("budget", "budget_period"):
        if getattr(options, name) and "auction" not in options.policy:
            raise UsageError(f"--{name.replace('_', '-')} is for --policy auction")
    configuration = _cluster(options)
    workload = _workload(options, configuration)
    for line in [*workload.notes, *_skipped(workload)]:
        print(f"minislurm simulate: {line}", file=sys.stderr)
    # NumPy takes a tenth of a second to load: what is wrong with the command line is said before.
    from minislurm.sim import report_html, report_json, report_text
    from minislurm.sim.plots import Plots
    from minislurm.sim.simulation import Plan, simulate

    if options.html:
        Plots.load()  # what is missing is said before the work
    plan = Plan(
        workload,
        configuration,
        tuple(policy.named(name) for name in dict.fromkeys(options.policy or ["configured"])),
        exact=options.runtimes == "exact",
        checkpoints=Checkpoints(options.checkpoint_every, options.checkpoint_cost, options.restart_cost),
        failures=Failures(options.mtbf, options.repair, options.seed) if options.mtbf else None,
        settings=_settings(options),
        seed=options.seed,
        budget=Budget(options.budget, options.budget_period or Budget().period_s),
    )
    _expect_many_records()
    jobs = len(workload.jobs)
    with _Progress() as progress:
        measured = simulate(plan, lambda name, ended: progress.show(name, ended, jobs))
    if options.json != "-":
        print(report_text.render(measured))
    if options.json:
        _write(options.json, report_json.render(plan, measured))
    if options.html:
        _write(options.html, report_html.render(plan, measured))


def _run_live(options: argparse.Namespace) -> None:
    changed = [name for name in _TRACE_ONLY if getattr(options, name) != _parser().get_default(name)]
    if changed:
        option = changed[0].replace("_", "-")
        raise UsageError(f"--from-cluster: jobs and nodes are the live ones, so --{option} means nothing")
    if options.runtimes == "exact":
        raise UsageError("--from-cluster: nobody knows how long jobs will run; see --run-share and history")
    if options.html:
        raise UsageError("--from-cluster: there is no --html; --json has when each job starts")
    from minislurm.sim import from_cluster, live_report
    from minislurm.sim.live import LONGEST_S, RunTimes
    from minislurm.sim.what_if import WhatIf

    for name in options.policy:
        policy.named(name)
    question = from_cluster.Question(
        WhatIf(tuple(options.add_nodes), tuple(options.set), options.placement or ""),
        tuple(options.policy),
        RunTimes(options.run_share or 1.0, by_history=options.runtimes == "history"),
        options.horizon or LONGEST_S,
    )
    _expect_many_records()
    export = from_cluster.fetch()
    with _Progress() as progress:
        answer = from_cluster.answer(export, question, progress.show)
    if options.json != "-":
        print(live_report.render(answer))
    if options.json:
        _write(options.json, live_report.as_json(answer))


def _expect_many_records() -> None:
    """Hundreds of thousands, that stay: looking through them for cycles costs more than it frees."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def _fill(options: argparse.Namespace) -> None:
    """CPUs are counted in thousandths here: pods ask for parts of one."""
    for name in ("policy", "mtbf", "json", "html", "partition_by", "budget", "budget_period"):
        if getattr(options, name):
            raise UsageError(f"--fill: there is no time in it, so --{name.replace('_', '-')} means nothing")
    kind, _, nodes = options.cluster.partition(":")
    if kind != "openb":
        raise UsageError("--fill: needs --cluster openb:NODES.csv and openb's pod list as the trace")
    from minislurm.sim import openb, packing

    configuration = openb.cluster(Path(nodes), cpu_parts=openb.WHOLE)
    if options.placement:
        configuration = policy.with_placement(configuration, options.placement)
    pods = openb.read(Path(options.trace), lenient=options.lenient, cpu_parts=openb.WHOLE)
    for line in _skipped(pods):
        print(f"minislurm simulate: {line}", file=sys.stderr)
    fills = []
    for seed in range(options.seed, options.seed + options.seeds):
        fills.append(packing.fill(configuration, pods.jobs, seed, options.fill))
        print(f"seed {seed}: {_filled(fills[-1:], options.fill)}")
    if len(fills) > 1:
        print(f"mean of {len(fills)}: {_filled(fills, options.fill)}")


def _filled(fills: Sequence[Fill], factor: float) -> str:
    at_capacity, at_end, dropped = (
        fmean(values) for values in zip(*((f.at_capacity, f.at_end, f.dropped) for f in fills), strict=True)
    )
    return (
        f"{100 * at_end:.2f} % of the GPUs allocated at {100 * factor:g} % arrivals "
        f"({100 * at_capacity:.2f} % at 100 %), {dropped:g} dropped"
    )


def _cluster(options: argparse.Namespace) -> Configuration:
    configuration = cluster_file.read(options.cluster, tuple(options.set))
    if options.racks:
        configuration = cluster_file.in_racks(configuration, options.racks)
    if options.placement:
        configuration = policy.with_placement(configuration, options.placement)
    for name in options.policy:
        policy.named(name).on(configuration)
    return configuration


def _workload(options: argparse.Namespace, configuration: Configuration) -> Workload:
    kind, _, settings = options.trace.partition(":")
    if kind == _SYNTHETIC:
        workload = generate(Synthetic.parse(settings), _units(configuration), options.seed)
    else:
        workload = trace_file.read(Path(options.trace), lenient=options.lenient)
    if options.partition_by:
        known = {partition.name for partition in configuration.partitions}
        unknown = sorted({job.account for job in workload.jobs} - known)
        if unknown:
            raise ConfigurationError(
                f"--partition-by account: no partition {unknown[0]} ({len(unknown)} unknown)"
            )
        workload = replace(workload, jobs=tuple(replace(job, partition=job.account) for job in workload.jobs))
    return workload.scaled(options.time_scale)


def _units(configuration: Configuration) -> int:
    gpus = sum(group.count for spec in configuration.nodes for group in spec.gpus)
    return gpus or sum(spec.cpus or 0 for spec in configuration.nodes)


def _skipped(workload: Workload) -> list[str]:
    if not workload.skipped:
        return []
    return [trace_file.skipped_lines(workload.skipped)]


def _settings(options: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """What was asked for, as far as it decides the result."""
    left_out = {"json", "html", "policy", "from_cluster", "lenient"}
    given = {name: value for name, value in vars(options).items() if value not in (None, [], False, 0.0)}
    return tuple(
        (name.replace("_", "-"), _shown(value)) for name, value in given.items() if name not in left_out
    )


def _shown(value: object) -> str:
    return (
        " ".join(value)
        if isinstance(value, list)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _positive(text: str) -> float:
    return _number(text, 0.0, inf, "a number above 0")


def _share(text: str) -> float:
    return _number(text, 0.0, 1.0, "a number above 0, 1 at most")


def _number(text: str, above: float, most: float, allowed: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not above < value <= most or value == inf:
        raise argparse.ArgumentTypeError(f"must be {allowed}, not {text!r}")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {text!r}")
    return int(text)


def _duration(text: str) -> float:
    """Slurm's forms: 30 is minutes, 1:00:00 an hour, 7-00:00:00 a week."""
    try:
        seconds = times.parse_duration(text)
    except ValueError:
        seconds = None
    if not seconds:
        raise argparse.ArgumentTypeError(
            f"must be a time above 0, such as 30 (minutes), 1:00:00 or 7-0, not {text!r}"
        )
    return seconds


class _Progress:
    """A bar on the terminal; nothing where standard error is none."""

    def __init__(self) -> None:
        self._bar: Callable[[str, int, int], None] | None = None

    def __enter__(self) -> _Progress:
        if not sys.stderr.isatty():
            return self
        from rich.console import Console
        from rich.progress import Progress, TaskID

        self._rich = Progress(console=Console(stderr=True), transient=True)
        tasks: dict[str, TaskID] = {}

        def bar(name: str, ended: int, jobs: int) -> None:
            if name not in tasks:
                tasks[name] = self._rich.add_task(name, total=jobs)
            self._rich.update(tasks[name], completed=ended)

        self._rich.start()
        self._bar = bar
        return self

    def show(self, name: str, ended: int, jobs: int) -> None:
        if self._bar is not None:
            self._bar(name, ended, jobs)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._rich.stop()


if __name__ == "__main__":
    raise SystemExit(main())
