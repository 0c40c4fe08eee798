"""The course of a replay in equal steps of time, for plots: means over each step, so that nothing short is
lost and nothing long is drawn twice."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from minislurm.sim.recording import Outcome, Series
from minislurm.sim.replay import Result

Numbers = NDArray[np.float64]


def courses(result: Result, points: int) -> dict[str, Numbers]:
    """`time_s` (the middle of each step), and the means of `used`, `pending`, `running` (jobs)."""
    series = result.series
    edges = _edges(series, points)
    if len(edges) < 2:
        return {name: np.zeros(0) for name in ("time_s", "used", "pending", "running")}
    times = np.asarray(series.times)
    return {
        "time_s": (edges[:-1] + edges[1:]) / 2,
        **{
            name: _means(times, np.asarray(getattr(series, name)), edges)
            for name in ("used", "pending", "running")
        },
    }


def _edges(series: Series, points: int) -> Numbers:
    if len(series.times) < 2:
        return np.zeros(0)
    return np.linspace(series.times[0], series.times[-1], points + 1)


def _means(times: Numbers, values: Numbers, edges: Numbers) -> Numbers:
    """Of the step function, between each two edges."""
    area = np.concatenate(([0.0], np.cumsum(np.diff(times) * values[:-1])))
    means: Numbers = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    return means


def by_rack(result: Result, points: int) -> tuple[Numbers, list[str], Numbers]:
    """Edges of time, racks, and the share of each rack's units in use (racks × steps)."""
    occupancy = result.occupancy
    capacity: dict[str, int] = {}
    for name, units in occupancy.capacity.items():
        rack = occupancy.rack_of[name]
        capacity[rack] = capacity.get(rack, 0) + units
    edges, racks = _edges(result.series, points), list(capacity)
    shares = np.zeros((len(racks), points))
    if len(edges):
        row = {rack: i for i, rack in enumerate(racks)}
        for outcome in result.outcomes:
            _add(shares, row, outcome, edges)
    shares /= np.array([max(1, capacity[rack]) for rack in racks])[:, None]
    return edges, racks, shares


def _add(shares: Numbers, row: dict[str, int], outcome: Outcome, edges: Numbers) -> None:
    """Adds each run's units to the steps that it covers, in part at both ends."""
    step = edges[1] - edges[0]
    for run in outcome.runs:
        begin, end = (run.start_s - edges[0]) / step, (run.end_s - edges[0]) / step
        first, last = int(begin), min(int(end), shares.shape[1] - 1)
        cover = np.ones(max(0, last - first) + 1)
        cover[0] -= begin - first
        cover[-1] -= last + 1 - end
        for rack, units in run.units_by_rack.items():
            shares[row[rack], first : last + 1] += units * cover[: shares.shape[1] - first]


class Bar(Struct, frozen=True):
    """A part of a run in a Gantt chart of one rack: `height` units from `lane` upwards."""

    job: int
    start_s: float
    end_s: float
    lane: int
    height: int


def bars(result: Result, rack: str, capacity: int) -> list[Bar]:
    """All that ran in that rack, stacked first fit by the units that they held, the lowest first."""
    runs = [
        (run.start_s, run.end_s, number, run.units_by_rack[rack])
        for number, outcome in enumerate(result.outcomes)
        for run in outcome.runs
        if rack in run.units_by_rack
    ]
    free_from = [-np.inf] * capacity
    found: list[Bar] = []
    # By start: who was submitted before may have started later, and its lanes are free until then.
    for start_s, end_s, number, units in sorted(runs):
        lanes = [lane for lane, free in enumerate(free_from) if free <= start_s][:units]
        for lane in lanes:
            free_from[lane] = end_s
        found += [Bar(number, start_s, end_s, lane, height) for lane, height in _pieces(lanes)]
    return found


def _pieces(lanes: list[int]) -> list[tuple[int, int]]:
    """Neighbours in one piece: the first of them, and how many."""
    pieces: list[tuple[int, int]] = []
    for lane in lanes:
        if pieces and sum(pieces[-1]) == lane:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + 1)
        else:
            pieces.append((lane, 1))
    return pieces
