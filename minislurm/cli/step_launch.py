"""Launches a granted step and sees it through: where its streams lead, its environment, its event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

from msgspec import Struct

from minislurm.cli.application import print_line
from minislurm.cli.connection import connect
from minislurm.cli.job_environment import exported_environment
from minislurm.cli.step_environment import Launcher, step_environment
from minislurm.cli.step_exit import StepExit
from minislurm.cli.step_files import StreamPlan, plan_stream
from minislurm.cli.step_io import StreamWriter, TaskOutputs
from minislurm.cli.step_run import StepInput, StepRun, StepSettings, open_output
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import MinislurmError, RefusalCode, UsageError
from minislurm.domain.filenames import FilenameFields
from minislurm.domain.views import JobTarget, StepGrant, StepRequest

if TYPE_CHECKING:
    from minislurm.cli.allocation import Allocation
    from minislurm.cli.srun import StepOptions


class AskedStep(Struct, frozen=True):
    """How the grant was asked for; asked for again it is the same one, with the addresses of that moment."""

    request: StepRequest
    request_id: str


def launch_step(
    grant: StepGrant,
    asked: AskedStep,
    values: StepOptions,
    command: tuple[str, ...],
    configuration: Configuration,
    allocation: Allocation | None = None,
) -> StepExit:
    """Runs the step to its end. Raises UsageError for files that cannot be opened."""
    return asyncio.run(_Launch(grant, asked, values, command, configuration).run(allocation))


class _Launch:
    def __init__(
        self,
        grant: StepGrant,
        asked: AskedStep,
        values: StepOptions,
        command: tuple[str, ...],
        configuration: Configuration,
    ) -> None:
        self._grant = grant
        self._request, self._request_id = asked.request, asked.request_id
        self._values = values
        self._command = command
        self._configuration = configuration
        self._task_count = sum(len(node.tasks) for node in grant.nodes)
        self._work_dir = os.path.join(_current_directory(), values.chdir)
        self._names = FilenameFields(
            job_id=grant.job_id,
            user_name=grant.job.spec.user_name,
            array_job_id=grant.job.array_job_id,
            array_task_id=grant.job.array_task_id,
            step_id=grant.step_id,
        )
        self._files: dict[str, StreamWriter] = {}

    async def run(self, allocation: Allocation | None) -> StepExit:
        from minislurm.rpc.step_client import StepLaunch

        values = self._values
        out = self._plan(values.output)
        err = self._plan(values.error) if values.error else out
        into = self._plan(values.input)
        standard_error = StreamWriter(2)
        with _presence(self._grant.nodes[0].address) as presence:
            launch = StepLaunch(
                arguments=self._command,
                work_dir=self._work_dir,
                environment=self._environment(presence),
                std_in=into.node_pattern,
                std_out=out.node_pattern,
                std_err=err.node_pattern,
                append_output=bool(values.open_mode),
                umask=_umask(),
                output_mode=self._output_mode(),
            )
            step = StepRun(
                self._grant,
                launch,
                self._outputs(out, StreamWriter(1)),
                self._outputs(err, standard_error if not values.output or values.error else StreamWriter(1)),
                self._input(into),
                self._settings(),
                standard_error=standard_error,
                end_step=self._end_step,
                refresh=self._refresh,
            )
            if allocation is not None:
                loop = asyncio.get_running_loop()

                def job_is_ending() -> None:
                    loop.call_soon_threadsafe(step.job_is_ending)

                allocation.when_ended(job_is_ending)
            return await step.run()

    async def _refresh(self) -> StepGrant | None:
        return await asyncio.get_running_loop().run_in_executor(None, self._ask_again)

    def _ask_again(self) -> StepGrant | None:
        try:
            with connect() as client:
                return client.create_step(self._request, self._request_id)
        except MinislurmError:
            return None

    async def _end_step(self) -> bool:
        return await asyncio.get_running_loop().run_in_executor(None, self._ask_for_the_end)

    def _ask_for_the_end(self) -> bool:
        """True: the controller has ended the step, or is ending the job."""
        target = JobTarget(self._grant.job_id, step_id=self._grant.step_id)
        try:
            with connect() as client:
                outcome = client.cancel([target])[0]
        except MinislurmError:
            return False
        return outcome.refusal is None or outcome.refusal.code is RefusalCode.TRY_LATER

    def _plan(self, text: str) -> StreamPlan:
        return plan_stream(text, self._names, self._work_dir, self._task_count)

    def _outputs(self, plan: StreamPlan, standard: StreamWriter) -> TaskOutputs:
        return TaskOutputs(
            self._file(plan.file) if plan.file else standard,
            task_count=self._task_count,
            label=self._values.label,
            unbuffered=self._values.unbuffered,
            only_task=plan.only_task,
        )

    def _file(self, path: str) -> StreamWriter:
        """One writer for each file, also where output and errors name the same."""
        if path not in self._files:
            try:
                descriptor = open_output(path, append=bool(self._values.open_mode), mode=self._output_mode())
            except OSError as error:
                raise UsageError(f"Could not open stdout file {path}: {error.strerror}") from error
            self._files[path] = StreamWriter(descriptor)
        return self._files[path]

    def _input(self, plan: StreamPlan) -> StepInput:
        if plan.node_pattern:
            return StepInput()
        if not plan.file:
            return StepInput(0, plan.only_task)
        try:
            return StepInput(os.open(plan.file, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            raise UsageError(f"Could not open stdin file {plan.file}: {error.strerror}") from error

    def _settings(self) -> StepSettings:
        values = self._values
        return StepSettings(
            kill_on_bad_exit=bool(values.kill_on_bad_exit),
            wait_s=values.wait_s or 0.0,
            kill_wait_s=self._configuration.timers.kill_wait_s,
            client_grace_s=self._configuration.timers.client_grace_s,
            quiet=bool(values.quiet),
            verbosity=values.verbose,
        )

    def _environment(self, presence: socket.socket) -> tuple[bytes, ...]:
        address, port = presence.getsockname()[:2]
        base = exported_environment(self._values.export, os.environb, login=False)
        return step_environment(
            dict(entry.split(b"=", 1) for entry in base),
            self._grant,
            Launcher(address, port, _umask(), self._values.verbose),
            cluster=self._configuration.cluster.name,
            tasks_per_node=self._values.ntasks_per_node,
            step_name=self._values.given.job_name or "",
            submit_dir=_current_directory(),
        )

    def _output_mode(self) -> int:
        if self._values.output_mode is not None:
            return self._values.output_mode
        return int(self._configuration.jobs.output_file_mode, 8)


def _presence(node_address: str) -> socket.socket:
    """The socket that SLURM_SRUN_COMM_HOST and _PORT name, on the interface that leads to the nodes.

    Nothing is said on it: whoever connects knows that srun lives, and hears when it does no more.
    """
    family = socket.AF_INET6 if ":" in node_address else socket.AF_INET
    address = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((node_address, 9))  # sends nothing, only finds the way
            address = probe.getsockname()[0]
        except OSError:
            pass
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(8)
    return listener


def _current_directory() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        print_line(f"srun: warning: getcwd failed: {error.strerror}; using /tmp")
        return "/tmp"


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
