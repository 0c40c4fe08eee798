"""The systemd units are ones that systemd accepts, and start what this package installs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "etc" / "systemd").glob("*.service"))


def test_there_is_one_for_each_daemon() -> None:
    assert {path.name for path in UNITS} == {
        "minislurmctld.service",
        "minislurmd.service",
        "minislurmd@.service",
        "minislurm-agent.service",
    }


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_it_starts_a_command_of_ours_with_the_configuration(path: Path) -> None:
    command = re.search(r"^ExecStart=/usr/bin/env (\S+)(.*)$", path.read_text(), re.MULTILINE)
    assert command is not None
    assert f'\n{command[1]} = "minislurm.' in (ROOT / "pyproject.toml").read_text()
    assert "--config /etc/minislurm/minislurm.toml" in command[2]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_it(path: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    # Unknown keys are only warned of.
    assert path.name not in done.stderr, done.stderr
