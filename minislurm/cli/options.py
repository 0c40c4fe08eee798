"""THE table of job options: it feeds sbatch, srun, salloc, the ``#SBATCH`` reader, the input variables
(``SBATCH_*``, ``SLURM_*``, ``SALLOC_*``), ``scontrol update`` and the help.

An option that is not built stands in `unsupported_options` and is refused by name. To build one, move it here
and give `JobOptions` its attribute.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from msgspec import field

from minislurm.cli.job_options import JobOptions
from minislurm.cli.option import Argument, Option, Repeat, refuse_unsupported, set_value
from minislurm.cli.option_values import (
    count,
    gpus_text,
    gres_text,
    licenses_text,
    one_of,
    only,
    parse_begin,
    parse_bid,
    parse_capability,
    parse_checkpoint_dir,
    parse_checkpoint_interval,
    parse_checkpoint_restart,
    parse_checkpoint_signal,
    parse_deadline,
    parse_elastic,
    parse_elastic_signal,
    parse_elastic_step,
    parse_exclusive,
    parse_max_requeues,
    parse_nice,
    parse_nodes,
    parse_open_mode,
    parse_output_mode,
    parse_preemption,
    parse_priority,
    parse_seconds,
    parse_signal_before_end,
    parse_switches,
    parse_time_limit,
    parse_topology,
    parse_yes_no,
)
from minislurm.cli.unsupported_options import UNSUPPORTED
from minislurm.domain.comebacks import NODE_FAIL_ACTIONS, TASK_FAIL_ACTIONS
from minislurm.domain.memory import parse_memory

SBATCH, SRUN, SALLOC = "sbatch", "srun", "salloc"
_ALL = (SBATCH, SRUN, SALLOC)
_BATCH = (SBATCH,)
_STEPS = (SRUN,)

RESOURCES, JOB, STREAMS, STEP, REPORTING = "Resources", "Job", "Files and environment", "Step", "Reporting"
CHECKPOINTS = "Checkpoints (minislurm's own)"


class JobOption(Option, frozen=True):
    commands: tuple[str, ...] = _ALL
    #: Input environment variables by command, the one that counts first.
    environment: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _variables(suffix: str, *, srun: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """The usual names: SBATCH_X, SLURM_X for srun (or those given), SALLOC_X."""
    return {
        SBATCH: (f"SBATCH_{suffix}",),
        SRUN: srun or (f"SLURM_{suffix}",),
        SALLOC: (f"SALLOC_{suffix}",),
    }


_OTHER_MEMORY = {
    "mem": ("mem_per_cpu", "mem_per_gpu"),
    "mem-per-cpu": ("mem", "mem_per_gpu"),
    "mem-per-gpu": ("mem", "mem_per_cpu"),
}

_RESOURCES = (
    JobOption(
        "nodes", "N", "Number of nodes, or the least and the most.", "MIN[-MAX]", parse=parse_nodes,
        environment={SRUN: ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")},
        panel=RESOURCES,
    ),
    JobOption(
        "ntasks", "n", "Number of tasks.", "N", parse=count("ntasks"), aliases=("tasks",),
        environment={SRUN: ("SLURM_NTASKS", "SLURM_NPROCS")}, panel=RESOURCES,
    ),
    JobOption(
        "ntasks-per-node", "", "Tasks on each node (with --ntasks: at most).", "N",
        aliases=("tasks-per-node",),
        parse=count("ntasks-per-node"), environment={SRUN: ("SLURM_NTASKS_PER_NODE",)}, panel=RESOURCES,
    ),
    JobOption(
        "cpus-per-task", "c", "CPUs for each task.", "N", parse=count("cpus-per-task"),
        environment={SRUN: ("SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK")},
        panel=RESOURCES,
    ),
    JobOption(
        "mincpus", "", "At least so many CPUs on each node.", "N", parse=count("mincpus"), panel=RESOURCES,
    ),
    JobOption(
        "mem", "", "Memory on each node.", "SIZE[K|M|G|T]", parse=parse_memory, clears=_OTHER_MEMORY["mem"],
        environment=_variables("MEM_PER_NODE"), panel=RESOURCES,
    ),
    JobOption(
        "mem-per-cpu", "", "Memory for each CPU.", "SIZE[K|M|G|T]", parse=parse_memory,
        clears=_OTHER_MEMORY["mem-per-cpu"], environment=_variables("MEM_PER_CPU"),
        panel=RESOURCES,
    ),
    JobOption(
        "mem-per-gpu", "", "Memory for each GPU.", "SIZE[K|M|G|T]", parse=parse_memory,
        clears=_OTHER_MEMORY["mem-per-gpu"], environment=_variables("MEM_PER_GPU"), panel=RESOURCES,
    ),
    JobOption(
        "gres", "", "GPUs on each node: gpu:2, gpu:a100:2; or shards of one: shard:2.", "LIST",
        parse=gres_text,
        environment=_variables("GRES"), panel=RESOURCES,
    ),
    JobOption(
        "gpus", "G", "GPUs in all, or a part of one: 0.5. TYPE may be A|B.", "[TYPE:]N", parse=gpus_text,
        environment=_variables("GPUS"),
        panel=RESOURCES
    ),
    JobOption(
        "gpus-per-node", "", "GPUs on each node, or a part of one.", "[TYPE:]N", parse=gpus_text,
        environment=_variables("GPUS_PER_NODE"), panel=RESOURCES,
    ),
    JobOption(
        "gpus-per-task", "", "GPUs for each task, or a part of one.", "[TYPE:]N", parse=gpus_text,
        environment=_variables("GPUS_PER_TASK"), panel=RESOURCES,
    ),
    JobOption(
        "cpus-per-gpu", "", "CPUs for each GPU.", "N", parse=count("cpus-per-gpu"),
        environment=_variables("CPUS_PER_GPU"), panel=RESOURCES,
    ),
    JobOption(
        "gpu-memory-min", "", "Only GPUs with at least so much memory.", "SIZE[K|M|G|T]", parse=parse_memory,
        environment=_variables("GPU_MEMORY_MIN"), panel=RESOURCES,
    ),
    JobOption(
        "gpu-capability-min", "", "Only GPUs of at least this compute capability, such as 8.0.", "X.Y",
        parse=parse_capability, environment=_variables("GPU_CAPABILITY_MIN"), panel=RESOURCES,
    ),
    JobOption(
        "exclusive", "", "Whole nodes; user: shared only by own jobs (srun in a job: CPUs of its own).",
        "node|user", argument=Argument.OPTIONAL, parse=parse_exclusive, default_text="node",
        environment=_variables("EXCLUSIVE"), panel=RESOURCES,
    ),
    JobOption(
        "nodelist", "w", "These nodes, or a file that lists them.", "HOSTLIST",
        panel=RESOURCES,
    ),
    JobOption(
        "exclude", "x", "None of these nodes.", "HOSTLIST", panel=RESOURCES
    ),
    JobOption(
        "constraint", "C", "Features that the nodes must have.", "EXPRESSION",
        environment=_variables("CONSTRAINT"), panel=RESOURCES,
    ),
    JobOption(
        "reservation", "", "Nodes of this reservation.", "NAME", environment=_variables("RESERVATION"),
        panel=RESOURCES,
    ),
    JobOption(
        "licenses", "L", "Licenses, held while the job runs: ansys:2,matlab.", "LIST", parse=licenses_text,
        panel=RESOURCES,
    ),
    JobOption(
        "topology", "", "Within one domain of this level of the topology, if that is possible or always.",
        "LEVEL[:preferred|required]", parse=parse_topology, environment=_variables("TOPOLOGY"),
        panel=RESOURCES,
    ),
    JobOption(
        "switches", "", "On at most so many leaf domains; anywhere after waiting so long.", "N[@MAX-TIME]",
        parse=parse_switches, environment=_variables("REQ_SWITCH"), panel=RESOURCES,
    ),
    JobOption(
        "segment", "", "Groups of so many nodes, each within one leaf domain.", "NODES",
        parse=count("segment"), environment=_variables("SEGMENT_SIZE"), panel=RESOURCES,
    ),
    JobOption(
        "spread-job", "", "Over as many nodes and leaf domains as possible, tasks dealt evenly.",
        argument=Argument.NONE, environment=_variables("SPREAD_JOB"), panel=RESOURCES,
    ),
)  # fmt: skip

_JOB = (
    JobOption(
        "job-name", "J", "Name of the job.", "NAME", environment=_variables("JOB_NAME"), panel=JOB,
    ),
    JobOption(
        "partition", "p", "Partition.", "NAME", environment=_variables("PARTITION"),
        panel=JOB,
    ),
    JobOption("account", "A", "Account to charge.", "NAME", environment=_variables("ACCOUNT"), panel=JOB),
    JobOption("qos", "q", "Quality of service.", "NAME", environment=_variables("QOS"), panel=JOB),
    JobOption(
        "wckey", "", "Workload characterization key.", "KEY", environment=_variables("WCKEY"), panel=JOB,
    ),
    JobOption("comment", "", "A comment, kept with the job.", "TEXT", panel=JOB),
    JobOption(
        "time", "t", "Time limit: minutes, MM:SS, HH:MM:SS, D-HH[:MM[:SS]], UNLIMITED.", "TIME",
        parse=parse_time_limit, environment=_variables("TIMELIMIT"), panel=JOB,
    ),
    JobOption(
        "begin", "b", "Not before this time: 16:00, tomorrow, now+1hour, 2026-01-20T12:34.", "TIME",
        parse=parse_begin, panel=JOB,
    ),
    JobOption(
        "deadline", "", "End the job when it can no longer be over by this time.", "TIME",
        parse=parse_deadline, panel=JOB,
    ),
    JobOption(
        "max-wait", "", "End the job when it has waited so long for its start (minislurm's own).", "TIME",
        parse=parse_time_limit, panel=JOB, abbreviates=False,
    ),
    JobOption(
        "dependency", "d", "Only after other jobs: afterok:12:13, afterany:14, singleton.", "LIST",
        environment={SRUN: ("SLURM_DEPENDENCY",)}, panel=JOB,
    ),
    JobOption(
        "kill-on-invalid-dep", "", "Cancel the job when its dependency can never be met.", "yes|no",
        parse=parse_yes_no, panel=JOB,
    ),
    JobOption(
        "array", "a", "A job array: 0-9, 1,3,5-7, 0-15:4, 0-99%8.", "INDEXES", commands=_BATCH,
        environment={SBATCH: ("SBATCH_ARRAY_INX",)}, panel=JOB,
    ),
    JobOption("hold", "H", "Submit in held state.", argument=Argument.NONE, panel=JOB),
    JobOption(
        "nice", "", "Lower the priority by this.", "N", argument=Argument.OPTIONAL, parse=parse_nice,
        default_text="100", panel=JOB,
    ),
    JobOption(
        "priority", "", "Priority, set by an operator.", "N", parse=parse_priority,
        panel=JOB,
    ),
    JobOption(
        "bid", "", "Credits offered for a GPU-hour (CPU-hour without GPUs), in partitions with order auction "
        "(minislurm's own).", "AMOUNT", parse=parse_bid, panel=JOB, abbreviates=False,
    ),
    JobOption(
        "preemption", "", "Whose place the job may take: nobody's (never), of jobs lower by tier or QOS, "
        "or of borrowers as well; least difference of priorities, most victims (minislurm's own).",
        "POLICY[,difference=N][,victims=N]", parse=parse_preemption, panel=JOB, abbreviates=False,
    ),
    JobOption(
        "requeue", "", "The job may be requeued.", argument=Argument.NONE, commands=_BATCH,
        environment={SBATCH: ("SBATCH_REQUEUE",)}, panel=JOB,
    ),
    JobOption(
        "no-requeue", "", "The job is never requeued.", argument=Argument.NONE, field="requeue",
        constant=False,
        commands=_BATCH, environment={SBATCH: ("SBATCH_NO_REQUEUE",)}, panel=JOB,
    ),
    JobOption(
        "requeue-on-timeout", "", "At the time limit requeue the job instead of ending it (minislurm's own).",
        argument=Argument.NONE, commands=_BATCH, panel=JOB, abbreviates=False,
    ),
    JobOption(
        "max-requeues", "", "So often for each cause, then the job is held: node_fail:5,preempt:20 "
        "(minislurm's own).", "LIST", parse=parse_max_requeues, commands=_BATCH, panel=JOB, abbreviates=False,
    ),
    JobOption(
        "on-node-fail", "", "What becomes of the job when a node of it is lost (minislurm's own).",
        "requeue|replace|end|hold", parse=one_of(*NODE_FAIL_ACTIONS), commands=_BATCH, panel=JOB,
        abbreviates=False,
    ),
    JobOption(
        "on-task-fail", "", "What becomes of the job when its script fails (minislurm's own).",
        "end|requeue|hold", parse=one_of(*TASK_FAIL_ACTIONS), commands=_BATCH, panel=JOB, abbreviates=False,
    ),
    JobOption(
        "spare-nodes", "", "Hold so many nodes besides; a lost node is replaced by one at once, without "
        "queueing again (minislurm's own).", "N", parse=count("spare-nodes", minimum=0), commands=_BATCH,
        panel=JOB, abbreviates=False,
    ),
    JobOption(
        "signal", "", "Send this signal so long before the time limit.", "[R][B:]SIGNAL[@SECONDS]",
        parse=parse_signal_before_end, environment=_variables("SIGNAL"), panel=JOB,
    ),
    JobOption(
        "elastic", "", "The job may get more nodes while it runs, and give them back, between the numbers of "
        "--nodes: by a restart, or in place (minislurm's own).", "restart|in-place",
        argument=Argument.OPTIONAL, parse=parse_elastic, default_text="restart", commands=_BATCH,
        environment={SBATCH: ("SBATCH_ELASTIC",)}, panel=JOB, abbreviates=False,
    ),
    JobOption(
        "elastic-step", "", "Elastic: only so many nodes more at a time, or always twice as many.",
        "N|double", parse=parse_elastic_step, commands=_BATCH, panel=JOB, abbreviates=False,
        environment={SBATCH: ("SBATCH_ELASTIC_STEP",)},
    ),
    JobOption(
        "elastic-signal", "", "Elastic in place: tell the batch script of other nodes by this signal.",
        "SIGNAL", parse=parse_elastic_signal, commands=_BATCH,
        environment={SBATCH: ("SBATCH_ELASTIC_SIGNAL",)}, panel=JOB, abbreviates=False,
    ),
    JobOption(
        "clusters", "M", "The cluster to submit to; there is only this one.", "NAME", commands=_BATCH,
        aliases=("cluster",),
        environment={SBATCH: ("SBATCH_CLUSTERS", "SLURM_CLUSTERS")}, panel=JOB,
    ),
)  # fmt: skip


def _checkpoint_option(
    name: str, help: str, metavar: str, parse: Callable[[str], object] = str, field: str = ""
) -> JobOption:
    return JobOption(
        name, "", help, metavar, parse=parse, field=field, commands=_BATCH, panel=CHECKPOINTS,
        abbreviates=False, environment={SBATCH: ("SBATCH_" + name.replace("-", "_").upper(),)},
    )  # fmt: skip


_CHECKPOINTS = (
    _checkpoint_option(
        "checkpoint-dir", "Folder of the job's checkpoints, made if need be: a file or folder that is "
        "renamed into it is one (symbols as in --output).", "DIR", parse_checkpoint_dir,
    ),
    _checkpoint_option(
        "checkpoint-interval", "Ask for a checkpoint when the last one is so old.", "TIME",
        parse_checkpoint_interval,
    ),
    _checkpoint_option(
        "checkpoint-signal", "The signal that asks for one, sent to the processes that catch it (to shells "
        "only with B:), and how long it may take when the job has to give way.", "[B:]SIGNAL[@SECONDS]",
        parse_checkpoint_signal,
    ),
    _checkpoint_option(
        "checkpoint-keep", "Keep so many of the newest checkpoints, and delete older ones in "
        "--checkpoint-dir.", "N", count("checkpoint-keep"),
    ),
    _checkpoint_option(
        "checkpoint-restart-time", "What a restart costs: from the job's start until it does new work.",
        "TIME", parse_checkpoint_restart, "checkpoint_restart_s",
    ),
    _checkpoint_option(
        "checkpoint-command", "A command, run in the job on its first node, that makes a checkpoint and "
        "reports it (scheckpoint report, or a rename into --checkpoint-dir).", "COMMAND",
    ),
)  # fmt: skip

_STREAMS = (
    JobOption(
        "output", "o", "File for standard output (%j job, %A_%a array task, %x name, %N node …).", "PATTERN",
        environment={SBATCH: ("SBATCH_OUTPUT",), SRUN: ("SLURM_STDOUTMODE",)}, commands=(SBATCH, SRUN),
        panel=STREAMS,
    ),
    JobOption(
        "error", "e", "File for standard error.", "PATTERN", commands=(SBATCH, SRUN), panel=STREAMS,
        environment={SBATCH: ("SBATCH_ERROR",), SRUN: ("SLURM_STDERRMODE",)},
    ),
    JobOption(
        "input", "i", "File for standard input.", "PATTERN", commands=(SBATCH, SRUN), panel=STREAMS,
        environment={SBATCH: ("SBATCH_INPUT",), SRUN: ("SLURM_STDINMODE",)},
    ),
    JobOption(
        "open-mode", "", "Append to output files or truncate them.", "append|truncate", parse=parse_open_mode,
        environment={SBATCH: ("SBATCH_OPEN_MODE",), SRUN: ("SLURM_OPEN_MODE",)}, commands=(SBATCH, SRUN),
        panel=STREAMS,
    ),
    JobOption(
        "output-mode", "", "File mode of output files, octal (minislurm's own; default: the cluster's).",
        "MODE",
        parse=parse_output_mode, commands=(SBATCH, SRUN), panel=STREAMS, abbreviates=False,
        environment={SBATCH: ("SBATCH_OUTPUT_MODE",)},
    ),
    JobOption(
        "chdir", "D", "Working directory.", "DIR", aliases=("workdir",), panel=STREAMS,
        environment={SRUN: ("SLURM_WORKING_DIR",)},
    ),
    JobOption(
        "export", "", "Environment for the job: ALL, NONE, or a list of NAME and NAME=value.", "LIST",
        commands=(SBATCH, SRUN), environment={SBATCH: ("SBATCH_EXPORT",), SRUN: ("SLURM_EXPORT_ENV",)},
        panel=STREAMS,
    ),
)  # fmt: skip

_SBATCH = (
    JobOption("wrap", "", "Make the script from this command line.", "COMMAND", commands=_BATCH, panel=JOB),
    JobOption(
        "wait", "W", "Wait for the job's end and leave with its exit code.", argument=Argument.NONE,
        commands=_BATCH, environment={SBATCH: ("SBATCH_WAIT",)}, panel=REPORTING,
    ),
    JobOption(
        "wait-all-nodes", "", "Start when all nodes are ready (always so here).", "0|1", parse=parse_yes_no,
        commands=(SBATCH, SALLOC), environment={SBATCH: ("SBATCH_WAIT_ALL_NODES",)}, panel=JOB,
    ),
    JobOption(
        "parsable", "", "Print the job id alone.", argument=Argument.NONE, commands=_BATCH, panel=REPORTING
    ),
    JobOption(
        "test-only", "", "Say when and where the job would start; submit nothing.", argument=Argument.NONE,
        commands=_BATCH, panel=REPORTING,
    ),
    JobOption(
        "ignore-pbs", "", "Leave #PBS and #BSUB lines alone (always so here).", argument=Argument.NONE,
        commands=_BATCH, environment={SBATCH: ("SBATCH_IGNORE_PBS",)}, panel=JOB,
    ),
    JobOption(
        "mail-type", "", "Only NONE: minislurm sends no mail.", "NONE", parse=only("mail-type", "none"),
        panel=JOB
    ),
)  # fmt: skip

_SRUN = (
    JobOption(
        "label", "l", "Put the task's number before each line of output.", argument=Argument.NONE,
        commands=_STEPS, environment={SRUN: ("SLURM_LABELIO",)}, panel=STEP,
    ),
    JobOption(
        "unbuffered", "u", "Pass output on as it comes, not by lines.", argument=Argument.NONE,
        commands=_STEPS,
        environment={SRUN: ("SLURM_UNBUFFEREDIO",)}, panel=STEP,
    ),
    JobOption(
        "overlap", "", "Share CPUs with other steps.", argument=Argument.NONE, commands=_STEPS,
        environment={SRUN: ("SLURM_OVERLAP",)}, panel=STEP,
    ),
    JobOption(
        "exact", "", "Only the resources that the step asked for.", argument=Argument.NONE, commands=_STEPS,
        environment={SRUN: ("SLURM_EXACT",)}, panel=STEP,
    ),
    JobOption(
        "jobid", "", "Start the step in this job.", "ID", parse=count("jobid"), commands=_STEPS,
        environment={SRUN: ("SLURM_JOB_ID",)}, panel=STEP,
    ),
    JobOption(
        "mpi", "", "Kind of MPI start: only none; list shows it.", "none|list", commands=_STEPS,
        parse=only("mpi", "none", "list"), environment={SRUN: ("SLURM_MPI_TYPE",)}, panel=STEP,
    ),
    JobOption(
        "cpu-bind", "", "Binding of tasks to CPUs: only none.", "none", commands=_STEPS,
        aliases=("cpu_bind",),
        parse=only("cpu-bind", "none", "quiet", "q", "quiet,none", "no"),
        environment={SRUN: ("SLURM_CPU_BIND",)}, panel=STEP,
    ),
    JobOption(
        "gpu-bind", "", "Binding of tasks to GPUs: only none.", "none", commands=_STEPS,
        parse=only("gpu-bind", "none"), environment={SRUN: ("SLURM_GPU_BIND",)}, panel=STEP,
    ),
    JobOption(
        "immediate", "I", "Give up when it cannot start within so many seconds.", "SECONDS",
        argument=Argument.OPTIONAL, parse=parse_seconds, default_text="1", commands=(SRUN, SALLOC),
        environment={SRUN: ("SLURM_IMMEDIATE",), SALLOC: ("SALLOC_IMMEDIATE",)}, panel=STEP,
    ),
    JobOption(
        "kill-on-bad-exit", "K", "End the step when a task fails.", "0|1", argument=Argument.OPTIONAL,
        parse=parse_yes_no, default_text="1", commands=_STEPS, environment={SRUN: ("SLURM_KILL_BAD_EXIT",)},
        panel=STEP,
    ),
    JobOption(
        "wait", "W", "Kill the step so long after its first task has ended.", "SECONDS", parse=parse_seconds,
        field="wait_s", commands=_STEPS, environment={SRUN: ("SLURM_WAIT",)}, panel=STEP,
    ),
    JobOption(
        "external-launcher", "", "Started by an MPI launcher.", argument=Argument.NONE, commands=_STEPS,
        environment={SRUN: ("SLURM_EXTERNAL_LAUNCHER",)}, panel=STEP,
    ),
)  # fmt: skip

_REPORTING = (
    JobOption(
        "quiet", "Q", "Say nothing but errors.", argument=Argument.NONE, repeat=Repeat.COUNT, panel=REPORTING
    ),
    JobOption(
        "verbose", "v", "Say more.", argument=Argument.NONE, repeat=Repeat.COUNT, panel=REPORTING,
        environment={SBATCH: ("SBATCH_DEBUG",), SRUN: ("SLURM_DEBUG",), SALLOC: ("SALLOC_DEBUG",)},
    ),
)  # fmt: skip


def _unsupported() -> tuple[JobOption, ...]:
    return tuple(
        JobOption(
            name, short, argument=Argument(argument), aliases=aliases, commands=commands, supported=False,
            environment={c: (v,) for c, v in variables.items()},
        )
        for name, short, argument, commands, aliases, variables in UNSUPPORTED
    )  # fmt: skip


JOB_OPTIONS: tuple[JobOption, ...] = (
    *_RESOURCES, *_JOB, *_CHECKPOINTS, *_STREAMS, *_SBATCH, *_SRUN, *_REPORTING, *_unsupported(),
)  # fmt: skip

#: In an elastic job that changes in place these say what was there when the script began.
_OF_THE_START = frozenset({"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS", "SLURM_NPROCS"})

#: Values that say no where an option takes none.
_OFF = frozenset({"0", "no", "false", "off"})


def options_of(command: str) -> tuple[JobOption, ...]:
    """The options of "sbatch", "srun" or "salloc", those refused by name included."""
    return tuple(option for option in JOB_OPTIONS if command in option.commands)


def set_from_environment(
    values: JobOptions, command: str, environment: Mapping[str, str] | None = None
) -> None:
    """Stores the options that the command's input variables give. Raises UsageError.

    An option without argument is set by any value but 0, no, false and off.
    """
    variables = os.environ if environment is None else environment
    found = []
    for option in options_of(command):
        for name in option.environment.get(command, ()):
            # Inside a job it is the batch job's name, which is no name for each of its steps.
            if name == "SLURM_JOB_NAME" and "SLURM_JOB_ID" in variables:
                continue
            if name in _OF_THE_START and "MINISLURM_NODELIST_FILE" in variables:
                continue
            text = variables.get(name)
            if text is None or (option.argument is Argument.NONE and text.lower() in _OFF):
                continue
            refuse_unsupported(option, command, origin=name)
            found.append((option, text))
            break
    for option, _ in found:
        for attribute in option.clears:
            setattr(values, attribute, None)
    for option, text in found:
        set_value(values, option, text, invalid_exit_code=255)
