"""Plots of a simulation as SVG text. matplotlib draws them; it comes with `minislurm[sim]`."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minislurm.domain.errors import UsageError
from minislurm.sim.courses import bars, by_rack, courses
from minislurm.sim.metrics import bounded_slowdown
from minislurm.sim.recording import Outcome
from minislurm.sim.simulation import Measured

_POINTS = 400
#: A day, below which an axis of time counts hours.
_DAY_S, _HOUR_S = 86400.0, 3600.0
#: So many bars can still be told apart; above it racks are drawn as shades.
_MOST_BARS = 800
_STYLE = {
    # Text stays text: small, and found by the browser's search. The salt makes ids the same each time.
    "svg.fonttype": "none",
    "svg.hashsalt": "minislurm",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": "cycler('color', ['1f6feb', 'd9730d', '2b8a3e', '9c36b5', 'c92a2a', '495057'])",
}
MISSING = "--html needs matplotlib, which is not installed; install it with: pip install 'minislurm[sim]'"


class Plots:
    def __init__(self, matplotlib: Any, figure: Any) -> None:
        self._matplotlib = matplotlib
        self._figure = figure

    @classmethod
    def load(cls) -> Plots:
        """Raises UsageError where matplotlib is missing."""
        try:
            return cls(importlib.import_module("matplotlib"), importlib.import_module("matplotlib.figure"))
        except ImportError:
            raise UsageError(MISSING) from None

    def queue(self, measured: Sequence[Measured]) -> str:
        return self._over_time(measured, "pending", "jobs that wait", lambda one: 1.0)

    def utilisation(self, measured: Sequence[Measured]) -> str:
        units = measured[0].metrics.units
        return self._over_time(
            measured, "used", f"% of {units} in use", lambda one: 100 / max(1, one.result.occupancy.total)
        )

    def _over_time(
        self, measured: Sequence[Measured], name: str, label: str, scale: Callable[[Measured], float]
    ) -> str:
        def draw(figure: Any) -> None:
            axes = figure.subplots()
            for one in measured:
                course = courses(one.result, _POINTS)
                time, unit = _clock(course["time_s"])
                axes.plot(time, course[name] * scale(one), linewidth=1.1, label=one.policy.name)
                axes.set_xlabel(unit)
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
            axes.legend(frameon=False, ncols=6, loc="lower right", bbox_to_anchor=(1, 1))

        return self._svg(10, 3, draw)

    def distributions(self, measured: Sequence[Measured]) -> str:
        """Of waits and of bounded slowdowns: which share of the jobs had so much or less."""

        def draw(figure: Any) -> None:
            left, right = figure.subplots(1, 2)
            for axes, label, least, value_of in (
                (left, "wait (s)", 1.0, lambda outcome: outcome.wait_s),
                (right, "bounded slowdown", 1.0, bounded_slowdown),
            ):
                for one in measured:
                    axes.plot(*_cumulative(one, least, value_of), linewidth=1.3, label=one.policy.name)
                axes.set_xscale("log")
                axes.set_xlabel(label)
                axes.set_ylim(0, 100)
            left.set_ylabel("% of the jobs")
            left.legend(frameon=False)

        return self._svg(10, 3.4, draw)

    def racks(self, one: Measured) -> str:
        """A Gantt chart by rack: each run a bar, or, where those would be too many, how full a rack was."""
        count = sum(len(run.units_by_rack) for outcome in one.result.outcomes for run in outcome.runs)
        racks = len(set(one.result.occupancy.rack_of.values()))
        draw = self._bars if count <= _MOST_BARS else self._shades
        return self._svg(10, 1.4 + 0.16 * max(4, min(racks, 60)), lambda figure: draw(figure, one))

    def _bars(self, figure: Any, one: Measured) -> None:
        """Bars of one rack are stacked by the units that they hold, first fit."""
        axes = figure.subplots()
        edges, racks, _ = by_rack(one.result, 1)
        capacity = _capacities(one, racks)
        time, unit = _clock(edges)
        scale = (time[-1] - time[0]) / (edges[-1] - edges[0]) if len(edges) else 1.0
        origin = edges[0] if len(edges) else 0.0
        for row, rack in enumerate(racks):
            for bar in bars(one.result, rack, capacity[row]):
                span = ((bar.start_s - origin) * scale, (bar.end_s - bar.start_s) * scale)
                place = (row + bar.lane / capacity[row] * 0.9, bar.height / capacity[row] * 0.9)
                axes.broken_barh([span], place, color=f"C{bar.job % 6}", edgecolor="white", linewidth=0.4)
        _name_racks(axes, racks, unit, 0.45)
        axes.invert_yaxis()

    def _shades(self, figure: Any, one: Measured) -> None:
        axes = figure.subplots()
        edges, racks, shares = by_rack(one.result, _POINTS)
        time, unit = _clock(edges)
        rows = np.arange(len(racks) + 1)
        mesh = axes.pcolormesh(
            time, rows, 100 * shares, cmap="YlGnBu", vmin=0, vmax=100, rasterized=True, shading="flat"
        )
        figure.colorbar(mesh, ax=axes, label=f"% of {one.metrics.units} in use")
        _name_racks(axes, racks, unit, 0.5)
        axes.invert_yaxis()

    def _svg(self, width: float, height: float, draw: Callable[[Any], None]) -> str:
        with self._matplotlib.rc_context(_STYLE):
            figure = self._figure.Figure(figsize=(width, height), layout="constrained")
            draw(figure)
            text = io.StringIO()
            figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        # Without the file's head: it stands inside a page.
        return "<figure>" + re.sub(r"\A.*?(?=<svg)", "", text.getvalue(), flags=re.DOTALL) + "</figure>"


def _clock(seconds: Any) -> tuple[Any, str]:
    """From the first moment on, in days or hours."""
    if not len(seconds):
        return seconds, "days"
    since = seconds - seconds[0]
    return (since / _DAY_S, "days") if since[-1] > 2 * _DAY_S else (since / _HOUR_S, "hours")


def _cumulative(one: Measured, least: float, value_of: Callable[[Outcome], float]) -> tuple[Any, Any]:
    values = np.sort([max(least, value_of(outcome)) for outcome in one.result.outcomes if outcome.has_run])
    shares = np.linspace(0, 100, _POINTS + 1)
    return (np.percentile(values, shares), shares) if len(values) else (values, values)


def _capacities(one: Measured, racks: Sequence[str]) -> list[int]:
    occupancy = one.result.occupancy
    return [
        sum(units for name, units in occupancy.capacity.items() if occupancy.rack_of[name] == rack) or 1
        for rack in racks
    ]


def _name_racks(axes: Any, racks: Sequence[str], unit: str, middle: float) -> None:
    step = max(1, len(racks) // 30)
    shown = range(0, len(racks), step)
    axes.set_yticks([row + middle for row in shown], [racks[row] or "all nodes" for row in shown])
    axes.set_xlabel(unit)
