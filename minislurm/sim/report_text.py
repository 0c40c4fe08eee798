"""The results as a table: a line a figure, a column a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minislurm.sim.metrics import Metrics
from minislurm.sim.simulation import Measured

_PLAIN_LIMIT = 1e5


def render(measured: Sequence[Measured]) -> str:
    rows = [["", *(one.policy.name for one in measured)]]
    rows += [[label, *values] for label, values in lines([one.metrics for one in measured])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    text = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in [*text, *_never_ran(measured)])


def lines(metrics: Sequence[Metrics]) -> Iterator[tuple[str, list[str]]]:
    """A label, and one value for each column. What holds for none of them is left out."""
    units = metrics[0].units if metrics else "units"
    yield "jobs", [str(m.jobs) for m in metrics]
    for end in sorted({end for m in metrics for end in m.ends}):
        yield f"  {end.lower()}", [str(m.ends.get(end, 0)) for m in metrics]
    for name, title in (("wait_s", "wait"), ("turnaround_s", "turnaround")):
        yield f"{title}, mean (s)", [_number(getattr(m, name).mean) for m in metrics]
        yield f"{title}, median (s)", [_number(getattr(m, name).median) for m in metrics]
        yield f"{title}, 95th percentile (s)", [_number(getattr(m, name).p95) for m in metrics]
    yield "wait, longest (s)", [_number(m.wait_s.most) for m in metrics]
    yield "bounded slowdown, mean", [f"{m.bounded_slowdown.mean:.3f}" for m in metrics]
    yield "bounded slowdown, median", [f"{m.bounded_slowdown.median:.3f}" for m in metrics]
    yield "makespan (s)", [_number(m.makespan_s) for m in metrics]
    yield f"utilisation of {units}", [_share(m.utilisation) for m in metrics]
    yield from _optional("fragmentation of what is free", [_share(m.fragmentation) for m in metrics])
    yield from _optional("racks per gang", [_ratio(m.racks_per_gang) for m in metrics])
    yield from _optional("racks per gang, fewest possible", [_ratio(m.racks_needed) for m in metrics])
    yield "preemptions", [str(m.preemptions) for m in metrics]
    for cause in sorted({cause for m in metrics for cause in m.requeues} - {"preempt"}):
        yield f"requeues ({cause})", [str(m.requeues.get(cause, 0)) for m in metrics]
    if any(m.node_failures for m in metrics):
        yield "node failures", [str(m.node_failures) for m in metrics]
    yield f"{units[:-1]}-hours lost", [f"{m.lost_unit_hours:.1f}" for m in metrics]
    yield from _optional("fairness (Jain, accounts)", [_ratio(m.fairness) for m in metrics])
    yield "scheduling passes", [str(m.passes) for m in metrics]


def _optional(label: str, values: list[str]) -> Iterator[tuple[str, list[str]]]:
    if any(value != "-" for value in values):
        yield label, values


def _never_ran(measured: Sequence[Measured]) -> Iterator[str]:
    for one in measured:
        for why, count in one.metrics.never_ran.items():
            yield f"{one.policy.name}: {count} jobs never ran: {why}"


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) < _PLAIN_LIMIT else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
