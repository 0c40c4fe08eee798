"""From job options to what is asked of the controller. Shared by sbatch, srun and salloc.

What the cluster decides (default partition, time limit, memory) stays None or "" for the controller.
"""

from __future__ import annotations

import grp
import os
import pwd

from msgspec import Struct

from minislurm.cli.application import print_line
from minislurm.cli.job_options import JobOptions
from minislurm.cli.resource_request import resources_of
from minislurm.domain.arrays import ArrayExpression, parse_array
from minislurm.domain.configuration import Configuration
from minislurm.domain.dependencies import parse_dependencies
from minislurm.domain.errors import Refusal, RefusalCode, UsageError
from minislurm.domain.job import Dependency, JobSpec
from minislurm.domain.views import Submission


class Program(Struct, frozen=True):
    """What the job runs. An allocation (srun, salloc) has no script and no environment of its own."""

    #: The job's name unless --job-name gives one.
    name: str
    script: bytes = b""
    path: str = ""
    arguments: tuple[str, ...] = ()
    #: "NAME=value" entries.
    environment: tuple[bytes, ...] = ()


def make_submission(
    options: JobOptions, program: Program, configuration: Configuration, *, command: str
) -> Submission:
    """Raises UsageError for options that contradict each other, Refusal for what a controller refuses."""
    _check_comebacks(options)
    resources = resources_of(
        options,
        lambda text: print_line(f"{command}: warning: {text}"),
        configuration.jobs.shards_per_gpu,
    )
    user_name, group_name = _identity()
    array = _array(options.array)
    dependencies, any_one = _dependencies(options.dependency)
    spec = JobSpec(
        name=_text(options.job_name or program.name, "job-name"),
        user_id=os.getuid(),
        group_id=os.getgid(),
        user_name=user_name,
        group_name=group_name,
        partition=_text(options.partition, "partition"),
        work_dir=_work_dir(options.chdir),
        request=resources.request,
        account=_text(options.account, "account"),
        qos=_text(options.qos, "qos"),
        is_batch=bool(program.script),
        script_arguments=tuple(_text(a, "script arguments") for a in program.arguments),
        command=_text(program.path, "script"),
        std_in=_stream(options.input, "input", bool(program.script)),
        std_out=_stream(options.output, "output", bool(program.script)),
        std_err=_stream(options.error, "error", bool(program.script)),
        open_mode_append=options.open_mode,
        output_mode=_output_mode(options, configuration),
        umask=_umask(),
        submit_host=os.uname().nodename,
        submit_pid=os.getpid(),
        nodes_given=options.nodes is not None,
        tasks=resources.tasks,
        tasks_per_node=resources.tasks_per_node,
        cpus_per_task=options.cpus_per_task,
        cpus_per_gpu=options.cpus_per_gpu,
        memory_per_node_mib=options.mem,
        memory_per_cpu_mib=options.mem_per_cpu,
        memory_per_gpu_mib=options.mem_per_gpu,
        gpus=options.gpus or "",
        gpus_per_node=options.gpus_per_node or "",
        gpus_per_task=options.gpus_per_task or "",
        gres=options.gres or "",
        exclusive=options.exclusive or "",
        constraint=_text(options.constraint, "constraint"),
        required_nodes=_text(options.nodelist, "nodelist"),
        excluded_nodes=_text(options.exclude, "exclude"),
        time_limit_s=options.time,
        begin_time=options.begin or 0.0,
        dependencies=dependencies,
        dependency_any=any_one,
        kill_on_invalid_dependency=options.kill_on_invalid_dep,
        array_tasks=array.tasks,
        array_limit=array.limit,
        signal=options.signal,
        requeue=options.requeue,
        hold=options.hold,
        nice=options.nice,
        priority=options.priority,
        comment=_text(options.comment, "comment"),
        wckey=_text(options.wckey, "wckey"),
        reservation=_text(options.reservation, "reservation"),
        licenses=_text(options.licenses, "licenses"),
        deadline=options.deadline or 0.0,
        max_wait_s=options.max_wait,
        bid=options.bid,
        max_requeues=options.max_requeues or {},
        on_node_fail=options.on_node_fail,
        on_task_fail=options.on_task_fail,
        requeue_on_timeout=options.requeue_on_timeout,
        spare_nodes=options.spare_nodes,
        preemption=options.preemption,
        elastic=options.elastic,
        elastic_signal=options.elastic_signal or 0,
        checkpoint_dir=_text(options.checkpoint_dir, "checkpoint-dir"),
        checkpoint_interval_s=options.checkpoint_interval,
        checkpoint_signal=options.checkpoint_signal,
        checkpoint_keep=_checkpoints_kept(options),
        checkpoint_restart_s=options.checkpoint_restart_s,
        checkpoint_command=_text(options.checkpoint_command, "checkpoint-command"),
    )
    return Submission(spec, program.script, program.environment, test_only=options.test_only)


def _check_comebacks(options: JobOptions) -> None:
    """A job that is never requeued comes back for nothing."""
    if options.requeue is not False:
        return
    asked = {
        "requeue-on-timeout": options.requeue_on_timeout,
        "max-requeues": bool(options.max_requeues),
        "spare-nodes": bool(options.spare_nodes),
        "on-node-fail": options.on_node_fail not in ("", "end"),
        "on-task-fail": options.on_task_fail not in ("", "end"),
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise UsageError(f"--{name} and --no-requeue contradict each other")


def _checkpoints_kept(options: JobOptions) -> int:
    if options.checkpoint_keep and not options.checkpoint_dir:
        raise UsageError("--checkpoint-keep deletes in --checkpoint-dir, which is not given")
    return options.checkpoint_keep


def _text(value: str, option: str) -> str:
    """Requests carry text; bytes that are none would come back as something else."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"--{option}: not valid UTF-8") from error
    return value


def _identity() -> tuple[str, str]:
    """Names of the real user and group; their numbers where they have none."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    try:
        group = grp.getgrgid(os.getgid()).gr_name
    except KeyError:
        group = str(os.getgid())
    return user, group


def _work_dir(chdir: str) -> str:
    if os.path.isabs(chdir):
        return _text(chdir, "chdir")
    try:
        current = os.getcwd()
    except OSError as error:
        raise UsageError(f"getcwd failed: {error.strerror}") from error
    return _text(os.path.normpath(os.path.join(current, chdir)), "chdir")


def _stream(pattern: str, option: str, is_batch: bool) -> str:
    """A batch job's "none" is /dev/null; for srun it has a meaning of its own."""
    if is_batch and pattern.lower() == "none":
        return "/dev/null"
    return _text(pattern, option)


def _output_mode(options: JobOptions, configuration: Configuration) -> int:
    if options.output_mode is not None:
        return options.output_mode
    return int(configuration.jobs.output_file_mode, 8)


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _array(text: str) -> ArrayExpression:
    if not text:
        return ArrayExpression(())
    try:
        return parse_array(text)
    except ValueError as error:
        raise Refusal(RefusalCode.INVALID_ARRAY) from error


def _dependencies(text: str) -> tuple[tuple[Dependency, ...], bool]:
    if not text:
        return (), False
    try:
        return parse_dependencies(text)
    except ValueError as error:
        raise Refusal(RefusalCode.DEPENDENCY) from error
