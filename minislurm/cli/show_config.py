"""`scontrol show config`: Slurm's keys and what they are here, then minislurm's own keys."""

from __future__ import annotations

from minislurm.cli.printable import printable
from minislurm.domain.times import format_time
from minislurm.domain.views import ConfigurationView

_KEY_WIDTH = 23


def configuration_text(view: ConfigurationView, now: float) -> str:
    values = dict(view.values)
    values.setdefault("BOOT_TIME", format_time(view.boot_time))
    values.setdefault("NEXT_JOB_ID", str(view.next_job_id))
    own = [key for key in values if "." in key]
    slurms = [key for key in values if "." not in key]
    lines = [f"Configuration data as of {format_time(now)}"]
    lines += [_line(key, values[key]) for key in sorted(slurms, key=str.lower)]
    if own:
        lines += ["", "minislurm configuration:"]
        lines += [_line(key, values[key]) for key in sorted(own)]
    return "\n".join(lines) + "\n"


def _line(key: str, value: str) -> str:
    return printable(f"{key:<{_KEY_WIDTH}} = {value}")
