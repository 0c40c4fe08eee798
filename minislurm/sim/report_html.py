"""The results as one HTML file that needs nothing else: a table, and plots as SVG inside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from minislurm.domain.version import VERSION
from minislurm.sim import report_text
from minislurm.sim.plots import Plots
from minislurm.sim.simulation import Measured, Plan

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2733 }
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .9rem; text-align: right; border-bottom: 1px solid #dfe4ea }
th:first-child, td:first-child { text-align: left }
thead th { border-bottom: 2px solid #1c2733 }
p.note, dd { color: #52606d } svg { max-width: 100%; height: auto } figure { margin: .5rem 0 1.5rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem } dd { margin: 0 }
"""


def render(plan: Plan, measured: Sequence[Measured]) -> str:
    """The same simulation gives the same file. Raises UsageError where the plotting library is missing."""
    plots = Plots.load()
    body = [
        f"<h1>{escape(plan.workload.name)}</h1>",
        f'<p class="note">{len(plan.workload.jobs):,} jobs, minislurm {VERSION}</p>',
        _definitions(plan.settings),
        "<h2>Results</h2>",
        _table(measured),
        "<h2>Policies</h2>",
        _definitions([(one.policy.name, one.policy.summary) for one in measured]),
        "<h2>Jobs that wait</h2>",
        plots.queue(measured),
        "<h2>Utilisation</h2>",
        plots.utilisation(measured),
        "<h2>How jobs fared</h2>",
        plots.distributions(measured),
    ]
    for one in measured:
        body += [f"<h2>Racks over time: {escape(one.policy.name)}</h2>", plots.racks(one)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>minislurm simulate: {escape(plan.workload.name)}</title><style>{_STYLE}</style></head>\n"
        "<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _definitions(items: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in items)
    return f"<dl>{rows}</dl>"


def _table(measured: Sequence[Measured]) -> str:
    head = "".join(f"<th>{escape(one.policy.name)}</th>" for one in measured)
    rows = "\n".join(
        f"<tr><td>{escape(label)}</td>{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>"
        for label, values in report_text.lines([one.metrics for one in measured])
    )
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>"
