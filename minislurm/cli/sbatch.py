"""sbatch: submits a batch script."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from minislurm.cli.application import Application, print_line, report
from minislurm.cli.argv import CommandLine, Occurrence, parse
from minislurm.cli.batch_script import BatchScript, directives, read_script, read_standard_input, wrapped
from minislurm.cli.connection import configuration, connect
from minislurm.cli.het_options import SEPARATORS, layers_of, split_components, take_over
from minislurm.cli.job_environment import exported_environment
from minislurm.cli.job_options import JobOptions
from minislurm.cli.job_request import Program, make_submission
from minislurm.cli.options import options_of, set_from_environment
from minislurm.cli.printable import printable
from minislurm.domain.errors import (
    ControllerUnavailable,
    MinislurmError,
    Refusal,
    RefusalCode,
    UsageError,
)
from minislurm.domain.hostlist import compress
from minislurm.domain.ids import JobId
from minislurm.domain.states import JobState
from minislurm.domain.times import format_time

if TYPE_CHECKING:
    from minislurm.domain.job import Job, JobSpec
    from minislurm.domain.views import Submission
    from minislurm.rpc.client import ControllerClient

_FAILED = "Batch job submission failed"
#: A controller that went away under --wait is asked again after this.
_RETRY_S = 1.0


class BatchOptions(JobOptions):
    """Job options and the script that some of them came from."""

    script: BatchScript = field(default_factory=lambda: BatchScript(b"", ""))
    #: What stands behind the options: the script and its arguments.
    words: tuple[str, ...] = ()
    #: Of a heterogeneous job: the options of the components after the first.
    others: tuple[JobOptions, ...] = ()


def main() -> int:
    return APPLICATION.main()


def read_values(line: CommandLine) -> BatchOptions:
    """Options from the script, then from the environment, then from the command line; each overrides. Of a
    heterogeneous job for each component, the first one's with those of the others beside them."""
    typed, words = split_components(line, _parse_words)
    given = BatchOptions()
    for occurrences in typed:
        APPLICATION.apply(given, occurrences)
    script = _script_of(given.wrap, words)
    written = directive_options(script)
    components = []
    for number in range(max(len(typed), len(written))):
        values = BatchOptions()
        for layers in layers_of(written, typed, number):
            APPLICATION.apply(values, layers.written)
            set_from_environment(values, "sbatch")
            APPLICATION.apply(values, layers.typed)
        components.append(values)
    first = components[0]
    first.script, first.words, first.others = script, tuple(words), tuple(components[1:])
    if first.others:
        take_over(first, components[-1])
    return first


def directive_options(script: BatchScript) -> list[Sequence[Occurrence]]:
    """The options of the script's ``#SBATCH`` lines, one list for each component of a heterogeneous job.
    Raises UsageError as for the command line."""
    found: list[list[Occurrence]] = [[]]
    for directive in directives(script):
        if directive.words[0] in SEPARATORS:
            if len(directive.words) > 1:
                raise UsageError(f"Invalid directive found in batch script: {printable(directive.words[1])}")
            found.append([])
            continue
        line = _parse_words(directive.words)
        if line.positionals:
            raise UsageError(f"Invalid directive found in batch script: {printable(line.positionals[0])}")
        found[-1].extend(line.occurrences)
    return [*found]


def _parse_words(words: Sequence[str]) -> CommandLine:
    return parse(words, options_of("sbatch"), command="sbatch", permute=False, usage_exit_code=255)


def run(values: BatchOptions, positionals: tuple[str, ...]) -> int:
    script = values.script
    program = Program(
        name=script.name,
        script=script.content,
        path=script.path,
        arguments=() if values.wrap is not None else values.words[1:],
        environment=exported_environment(values.export, os.environb),
    )
    try:
        submission = make_submission(values, program, configuration(), command="sbatch")
        if values.others:
            submission = replace(submission, components=_components(values, program))
        _check_cluster(values.clusters)
    except Refusal as refusal:
        report("sbatch", refusal, _FAILED)
        return 1
    return _test_only(submission) if values.test_only else _submit(values, submission)


def _components(values: BatchOptions, program: Program) -> tuple[JobSpec, ...]:
    """The first one alone has the script. Raises UsageError and Refusal as for a plain job."""
    if values.array:
        raise Refusal(RefusalCode.INVALID_ARRAY, details=("a heterogeneous job can be no array",))
    without_script = replace(program, script=b"", environment=())
    return tuple(
        make_submission(other, without_script, configuration(), command="sbatch").spec
        for other in values.others
    )


def _script_of(wrap: str | None, positionals: Sequence[str]) -> BatchScript:
    if wrap is not None:
        if positionals:
            raise UsageError("Script arguments not permitted with --wrap option")
        return wrapped(wrap)
    return read_script(positionals[0]) if positionals else read_standard_input()


def _check_cluster(clusters: str) -> None:
    name = configuration().cluster.name
    for other in clusters.split(",") if clusters else ():
        if other not in (name, "all"):
            raise UsageError(f"No cluster '{printable(other)}' known by database.")


def _submit(values: BatchOptions, submission: Submission) -> int:
    cluster = configuration().cluster.name if values.clusters else ""
    try:
        client = connect()
        job_id = client.submit(submission)
    except MinislurmError as error:
        report("sbatch", error, _FAILED)
        return 1
    with client:
        if values.parsable:
            print(f"{job_id};{printable(cluster)}" if cluster else job_id, flush=True)
        elif not values.quiet:
            where = f" on cluster {printable(cluster)}" if cluster else ""
            print(f"Submitted batch job {job_id}{where}", flush=True)
        return _wait(client, job_id) if values.wait else 0


def _test_only(submission: Submission) -> int:
    try:
        with connect() as client:
            result = client.test_only(submission)
    except MinislurmError as error:
        for detail in error.details if isinstance(error, Refusal) else ():
            print_line(f"sbatch: error: {detail}")
        print_line(f"allocation failure: {error}")
        return 1
    print_line(
        f"sbatch: Job {result.job_id} to start at {format_time(result.start_time)} using {result.cpus} "
        f"processors on nodes {compress(result.nodes)} in partition {result.partition}"
    )
    return 0


def _wait(client: ControllerClient, job_id: JobId) -> int:
    """Until the job, or every task of the array, has ended; the highest exit code."""
    from minislurm.domain.views import JobQuery

    while True:
        try:
            for _ in client.watch_job(job_id):
                pass
            views = client.list_jobs(JobQuery((job_id,), include_ended=True))
            return max((wait_code(view.job) for view in views), default=0)
        except ControllerUnavailable:
            # The job goes on without its controller, and so does the wait.
            time.sleep(_RETRY_S)


def wait_code(job: Job) -> int:
    """What --wait makes of an ended job: its exit code; 1 if a signal killed it; 0 if it was never started
    and if it has not ended."""
    if not job.state.is_final or (job.state is JobState.CANCELLED and not job.start_time):
        return 0
    if job.exit_signal:
        return 1
    if job.exit_code or job.state is JobState.COMPLETED:
        return job.exit_code
    return 1


APPLICATION: Application[BatchOptions] = Application(
    name="sbatch",
    summary="Submit a batch script. Without a file it is read from standard input. Options of the components "
    "of a heterogeneous job are set apart by a colon.",
    synopsis="[OPTIONS [: OPTIONS ...]] [script [args ...]]",
    options=options_of("sbatch"),
    new_values=BatchOptions,
    run=run,
    read_values=read_values,
    permute=False,
    usage_exit_code=255,
    help_short="h",
)
