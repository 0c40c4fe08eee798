"""srun: runs a step. Inside a job over its nodes; outside of one it allocates, runs and releases."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from msgspec import field

from minislurm.cli.application import Application, print_error, print_line, report
from minislurm.cli.argv import CommandLine
from minislurm.cli.connection import configuration, connect
from minislurm.cli.job_options import JobOptions
from minislurm.cli.options import options_of, set_from_environment
from minislurm.domain.errors import MinislurmError, Refusal, RefusalCode, UsageError
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job
from minislurm.domain.views import StepRequest

if TYPE_CHECKING:
    from minislurm.cli.allocation import Allocation
    from minislurm.cli.step_exit import StepExit
    from minislurm.rpc.client import ControllerClient


class StepOptions(JobOptions):
    """Options from environment and command line, and those of the command line alone."""

    given: JobOptions = field(default_factory=JobOptions)


def main() -> NoReturn:
    """Leaves without the interpreter's own end: it costs a tenth of srun's time, and would wait for nothing
    but threads that read standard input or hold streams that are over."""
    gc.disable()  # until the step runs: collections during the imports find nothing
    code = APPLICATION.main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(code)


def read_values(line: CommandLine) -> StepOptions:
    values = StepOptions()
    set_from_environment(values, "srun")
    APPLICATION.apply(values, line.occurrences)
    given = StepOptions()
    APPLICATION.apply(given, line.occurrences)
    values.given = given
    return values


def run(values: StepOptions, command: tuple[str, ...]) -> int:
    if values.mpi == "list":
        print("MPI plugin types are...\n\tnone")
        return 0
    if not command:
        print_line("srun: fatal: No command given to execute.")
        return 1
    if ":" in command[:-1]:
        # Taken for an argument of the command, it would start something else than what was meant.
        raise UsageError("a step of several components (srun A : B) is not supported by minislurm")
    for argument in command:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise UsageError("command: not valid UTF-8") from error
    if values.exact:
        raise UsageError("--exact is not supported by minislurm: the steps of a job share its resources")
    if values.jobid is not None:
        return _inside(JobId(values.jobid), values, command)
    return _outside(values, command)


# Inside a job


def _inside(job_id: JobId, values: StepOptions, command: tuple[str, ...]) -> int:
    from minislurm.cli.step_request import check_resources, needs_job, step_request

    with connect() as client:
        if needs_job(values.given):
            job = _job(client, job_id)
            if job is None:
                return 1
            check_resources(values.given, job)
        request = step_request(job_id, values, command[0], lambda text: _inform(values, f"Warning: {text}"))
        return _run_step(client, request, values, command)


def _job(client: ControllerClient, job_id: JobId) -> Job | None:
    """None: there is none that a step could start in, and the user knows."""
    from minislurm.domain.views import JobQuery

    for view in client.list_jobs(JobQuery((job_id,))):
        if view.job.id == job_id:
            return view.job
    _say_no_job(Refusal(RefusalCode.INVALID_JOB_ID, job_id=job_id), job_id)
    return None


def _say_refused(refusal: Refusal, job_id: JobId) -> None:
    if refusal.code in (RefusalCode.INVALID_JOB_ID, RefusalCode.EXPIRED, RefusalCode.JOB_PENDING):
        _say_no_job(refusal, job_id)
    elif refusal.code is RefusalCode.STEP_NODE_COUNT and refusal.details:
        for line in refusal.details:
            print_error("srun", line)
    else:
        report("srun", refusal, f"Unable to create step for job {job_id}")


def _say_no_job(refusal: Refusal, job_id: JobId) -> None:
    if refusal.code is RefusalCode.EXPIRED:
        print_error("srun", f"Slurm job {job_id} has expired")
    else:
        print_error("srun", f"Unable to confirm allocation for job {job_id}: {refusal}")
    if refusal.code is not RefusalCode.JOB_PENDING:
        print_line(f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job_id}")


# Outside of a job


def _outside(values: StepOptions, command: tuple[str, ...]) -> int:
    from minislurm.cli.allocation import Allocation, Interrupted, Revoked
    from minislurm.cli.job_request import Program, make_submission
    from minislurm.cli.step_request import name_of, whole_job

    job_name = os.environ.get("SLURM_JOB_NAME") or name_of(command[0])
    try:
        submission = make_submission(values, Program(job_name), configuration(), command="srun")
    except Refusal as refusal:
        report("srun", refusal, "Unable to allocate resources")
        return 1
    with connect() as client:
        try:
            job_id = client.submit(submission)
        except MinislurmError as error:
            report("srun", error, "Unable to allocate resources")
            return 1
        allocation = Allocation(
            client, job_id, reconnect_interval_s=configuration().timers.reconnect_interval_s
        )
        # What running the step takes is loaded while the controller places the job.
        import minislurm.cli.step_launch
        import minislurm.rpc.step_client  # noqa: F401

        try:
            view = allocation.wait(lambda text: _inform(values, text), values.immediate)
        except (Revoked, Interrupted):
            _inform(values, f"Job allocation {job_id} has been revoked")
            return 1
        except MinislurmError as error:
            report("srun", error, "Unable to allocate resources")
            return 1
        request = whole_job(view.job, values, command[0])
        try:
            return _run_step(client, request, values, command, allocation)
        except MinislurmError:
            _release(allocation, 1, 0)
            raise


def _release(allocation: Allocation, exit_code: int, exit_signal: int) -> None:
    try:
        allocation.release(exit_code, exit_signal)
    except Refusal:
        pass  # it has ended already
    except MinislurmError as error:
        report("srun", error, f"Unable to release the allocation of job {allocation.job_id}")


# The step


def _run_step(
    client: ControllerClient,
    request: StepRequest,
    values: StepOptions,
    command: tuple[str, ...],
    allocation: Allocation | None = None,
) -> int:
    from minislurm.cli.step_launch import AskedStep, launch_step
    from minislurm.rpc.client import new_request_id

    asked = AskedStep(request, new_request_id())
    try:
        grant = client.create_step(request, asked.request_id)
    except Refusal as refusal:
        _say_refused(refusal, request.job_id)
        if allocation is not None:
            _release(allocation, 1, 0)
        return 1
    gc.enable()
    step: StepExit = launch_step(grant, asked, values, command, configuration(), allocation)
    if allocation is not None:
        _release(allocation, step.ending.exit_code, step.ending.exit_signal)
    return step.exit_code


def _inform(values: StepOptions, text: str) -> None:
    if not values.quiet:
        print_line(f"srun: {text}")


APPLICATION: Application[StepOptions] = Application(
    name="srun",
    summary="Run a command as the tasks of a job step. Outside of a job it allocates what it needs.",
    synopsis="[OPTIONS] command [args ...]",
    options=options_of("srun"),
    new_values=StepOptions,
    run=run,
    read_values=read_values,
    permute=False,
    usage_exit_code=255,
    help_short="h",
)
