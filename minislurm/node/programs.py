"""Prolog and epilog: the site's own programs around each run."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping

from minislurm.node.environment import Place, job_environment
from minislurm.node.messages import Prepare


class ProgramFailed(Exception):
    """`how` it failed, and the last line that it wrote, if it did."""

    def __init__(self, program: str, how: str, said: str = "") -> None:
        super().__init__(f"{program}: {how}" + (f": {said}" if said else ""))
        self.how = how
        self.said = said


async def run_program(program: str, prepare: Prepare, place: Place, timeout_s: float) -> None:
    """Runs it as the daemon's user with the job's SLURM_ variables. Raises ProgramFailed."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), **job_environment(prepare, place)}
    await run_site_program(program, environment, timeout_s)


async def run_site_program(
    program: str, environment: Mapping[str, str], timeout_s: float, *, keep_output: bool = False
) -> None:
    """Raises ProgramFailed with the last line that it wrote to its standard error (`keep_output`: or
    output)."""
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            env=environment,
            cwd="/",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if keep_output else asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ProgramFailed(program, error.strerror or str(error)) from error
    try:
        output, errors = await asyncio.wait_for(process.communicate(), timeout_s)
    except asyncio.TimeoutError as error:
        _kill_group(process.pid)
        await process.wait()
        raise ProgramFailed(program, f"no end after {timeout_s:g} s") from error
    if process.returncode:
        lines = (errors.strip() or (output or b"").strip()).decode(errors="replace").splitlines()
        raise ProgramFailed(program, f"exit code {process.returncode}", lines[-1] if lines else "")


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
