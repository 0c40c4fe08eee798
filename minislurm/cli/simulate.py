"""`minislurm simulate`. The simulator is the scheduler's own code: it runs in a process of its own, since
commands know only the protocol."""

from __future__ import annotations

import os
import sys

import typer

SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def simulate(context: typer.Context) -> None:
    """Run a trace, or the live queue, through the scheduler under a virtual clock; see its --help."""
    os.execv(sys.executable, [sys.executable, "-m", "minislurm.sim.main", *context.args])
