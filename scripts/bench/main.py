#!/usr/bin/env python3
"""Measures minislurm on this machine, and with --versus-slurm the distribution's real Slurm in the same run.

Each benchmark starts a cluster of its own (8 declared nodes of 16 CPUs and 8 GPUs, on loopback, in a
temporary folder) and ends it. Values are medians of the repetitions. Nothing else should run on the machine
meanwhile. `scripts/bench/run scheduling` measures the scheduler alone, without any daemon.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from measurements import BENCHMARKS, Scale  # noqa: E402
from minislurm_cluster import MinislurmCluster  # noqa: E402
from real_slurm import RealSlurm, SlurmMissing  # noqa: E402
from system import System  # noqa: E402


class Row(Struct, frozen=True):
    what: str
    unit: str
    #: By system; a missing one could not be measured.
    values: dict[str, float]
    #: "<= 50", as issue 2 has it; "" for none.
    target: str = ""

    @property
    def is_met(self) -> bool | None:
        if not self.target or "minislurm" not in self.values:
            return None
        sign, limit = self.target.split()
        value = self.values["minislurm"]
        return value <= float(limit) if sign == "<=" else value >= float(limit)

    @property
    def ratio(self) -> float | None:
        ours, theirs = self.values.get("minislurm"), self.values.get("slurm")
        return ours / theirs if ours is not None and theirs else None


def main() -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    arguments = _arguments()
    scale = Scale(repeat=arguments.repeat, pending=arguments.pending, kills=arguments.kills)
    systems: list[System] = [MinislurmCluster()]
    if arguments.versus_slurm:
        try:
            systems.append(RealSlurm.found())
        except SlurmMissing as missing:
            print(f"--versus-slurm: {missing}", file=sys.stderr)
            return 1
    rows: list[Row] = []
    try:
        for name in arguments.benchmarks or list(BENCHMARKS):
            rows += _run(name, systems, scale)
    except KeyboardInterrupt:
        print("interrupted; what was measured so far:", file=sys.stderr)
    _print_table(rows, [system.name for system in systems])
    if arguments.json:
        _write_json(rows, arguments.json)
    return 1 if any(row.is_met is False for row in rows) and arguments.strict else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench/run", description=__doc__.split("\n\n")[0])
    described = "; ".join(f"{name}: {benchmark.title}" for name, benchmark in BENCHMARKS.items())
    parser.add_argument(
        "benchmarks", nargs="*", choices=[*BENCHMARKS, []], metavar="BENCHMARK", help=described
    )
    parser.add_argument("--versus-slurm", action="store_true", help="the same work on a real Slurm (root)")
    parser.add_argument("--repeat", type=int, default=20, help="repetitions of short measurements")
    parser.add_argument("--pending", type=int, default=10_000, help="jobs that wait, for memory and restart")
    parser.add_argument("--kills", type=int, default=20, help="kills of the controller, for durability")
    parser.add_argument("--json", metavar="FILE", help="write the figures there; - for standard output")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a figure misses its target")
    return parser.parse_args()


def _run(name: str, systems: Sequence[System], scale: Scale) -> list[Row]:
    benchmark = BENCHMARKS[name]
    measured: dict[str, dict[str, float]] = {}
    for system in systems:
        print(f"-- {benchmark.title}: {system.name} …", file=sys.stderr, flush=True)
        with system.cluster() as cluster:
            measured[system.name] = benchmark.measure(cluster, scale)
    labels = list(dict.fromkeys(label for values in measured.values() for label in values))
    return [
        Row(
            label.format(pending=scale.pending),
            benchmark.figures[label].unit,
            {system: values[label] for system, values in measured.items() if label in values},
            benchmark.figures[label].target,
        )
        for label in labels
    ]


def _print_table(rows: Sequence[Row], systems: Sequence[str]) -> None:
    header = ["what", "unit", *systems, *(["ratio"] if len(systems) > 1 else []), "to reach", ""]
    lines = [header]
    for row in rows:
        cells = [row.what, row.unit, *(_number(row.values.get(system)) for system in systems)]
        if len(systems) > 1:
            cells.append("-" if row.ratio is None else f"{row.ratio:.2f}")
        met = {True: "met", False: "MISSED", None: ""}[row.is_met]
        lines.append([*cells, row.target, met])
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        left = line[0].ljust(widths[0])
        rest = "  ".join(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        print(f"{left}  {rest}".rstrip())


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"


def _write_json(rows: Sequence[Row], path: str) -> None:
    figures = [
        {
            "what": row.what,
            "unit": row.unit,
            **row.values,
            "ratio": row.ratio,
            "target": row.target,
            "met": row.is_met,
        }
        for row in rows
    ]
    text = json.dumps({"cpus": os.cpu_count(), "load": os.getloadavg()[0], "figures": figures}, indent=1)
    if path == "-":
        print(text)
    else:
        Path(path).write_text(text + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
