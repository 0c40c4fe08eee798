"""Is the node fit for runs? The site's program and the checks that are built in, made again and again; before
a run is prepared the last result counts, and what is quickly looked at is looked at again."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable

from minislurm.domain.configuration import NodeSection
from minislurm.node.gpu_health import GpuHealth
from minislurm.node.programs import ProgramFailed, run_site_program

log = logging.getLogger(__name__)

_MIB = 1024 * 1024


class Health:
    """`occupancy`: CPUs in use, and how many there are. `on_change`: of the problem ("": all is well)."""

    def __init__(
        self,
        settings: NodeSection,
        directories: tuple[str, ...],
        gpus: GpuHealth,
        *,
        occupancy: Callable[[], tuple[int, int]],
        on_change: Callable[[str], None],
        place: dict[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._directories = directories
        self._gpus = gpus
        self._occupancy = occupancy
        self._on_change = on_change
        self._environment = place or {}
        self._program_problem = ""
        self._gpu_problem = ""
        self._clock_offset_s = 0.0
        self._said: str | None = None
        self._has_run = False

    @property
    def is_on(self) -> bool:
        return self._settings.health_check_interval_s > 0

    def problem(self) -> str:
        """Why no run may be prepared now."""
        if not self.is_on:
            return ""
        checks = (self._disk_problem(), self._clock_problem(), self._gpu_problem, self._program_problem)
        return next(filter(None, checks), "")

    def told_time(self, earliest: float, controller: float, latest: float) -> None:
        """The controller's clock said `controller` when our own was between the two others."""
        self._clock_offset_s = max(0.0, earliest - controller, controller - latest)

    async def run(self) -> None:
        """Until cancelled."""
        while self.is_on:
            await self.check()
            await asyncio.sleep(self._settings.health_check_interval_s)
        await asyncio.Event().wait()

    async def check(self) -> None:
        if self._settings.health_check_gpus:
            # NVML may hang on a GPU that has fallen off its bus.
            problems = await asyncio.to_thread(self._gpus.problems)
            self._gpu_problem = "; ".join(problems)
        if self._settings.health_check_program and self._is_programs_turn():
            self._program_problem = await self._ask_program()
        self._has_run = True
        problem = self.problem()
        if problem != self._said:
            if problem:
                log.error("health check: %s", problem)
            elif self._said:
                log.info("health check: all is well again")
            self._said = problem
            self._on_change(problem)

    def _is_programs_turn(self) -> bool:
        states = self._settings.health_check_states.split(",")
        if "any" in states:
            return True
        if "start_only" in states:
            return not self._has_run
        used, cpus = self._occupancy()
        state = "idle" if not used else "mixed" if used < cpus else "alloc"
        return state in states

    async def _ask_program(self) -> str:
        program, timeout_s = self._settings.health_check_program, self._settings.health_check_timeout_s
        environment = {"PATH": os.environ.get("PATH", os.defpath), **self._environment}
        try:
            await run_site_program(program, environment, timeout_s, keep_output=True)
        except ProgramFailed as error:
            # What is wrong comes first: sinfo -R shows twenty letters.
            name = os.path.basename(program)
            return f"{error.said} ({name})" if error.said else f"{name}: {error.how}"
        return ""

    def _disk_problem(self) -> str:
        least_mib = self._settings.health_min_free_mib
        for directory in self._directories if least_mib else ():
            try:
                free_mib = shutil.disk_usage(directory).free // _MIB
            except OSError as error:
                return f"{directory}: {error.strerror}"
            if free_mib < least_mib:
                return f"{directory}: {free_mib} MiB free, {least_mib} are needed"
        return ""

    def _clock_problem(self) -> str:
        limit_s = self._settings.health_max_clock_offset_s
        if not limit_s or self._clock_offset_s <= limit_s:
            return ""
        return f"the clock differs from the controller's by {self._clock_offset_s:.0f} s"
