"""The columns of squeue's jobs: every letter of ``-o`` and every name of ``-O``, with Slurm's headers.

What minislurm has no notion of (sockets, burst buffers …) shows what a Slurm without it shows.
"""

from __future__ import annotations

from collections.abc import Callable

from minislurm.cli.columns import Field
from minislurm.cli.job_row import JobRow
from minislurm.cli.resource_text import (
    NULL,
    memory_text,
    min_cpus_per_node,
    min_memory,
    tres_per_job,
    tres_per_node,
    tres_per_task,
)
from minislurm.domain.hostlist import compress
from minislurm.domain.reservation import format_licenses
from minislurm.domain.times import format_duration, format_time

JobField = Field[JobRow]

_NOT_SET = "N/A"
_NEVER = float("inf")


def _constant(header: str, text: str) -> JobField:
    return Field(header, lambda row: text)


def _number(header: str, value: Callable[[JobRow], int]) -> JobField:
    return Field(header, lambda row: str(value(row)), value)


def _or_null(header: str, value: Callable[[JobRow], str]) -> JobField:
    return Field(header, lambda row: value(row) or NULL)


def _or_not_set(header: str, value: Callable[[JobRow], str]) -> JobField:
    return Field(header, lambda row: value(row) or _NOT_SET)


def _time(header: str, value: Callable[[JobRow], float]) -> JobField:
    """Unknown times sort last."""
    return Field(header, lambda row: time_text(value(row)), lambda row: value(row) or _NEVER)


def _duration(header: str, value: Callable[[JobRow], float | None]) -> JobField:
    def key(row: JobRow) -> float:
        seconds = value(row)
        return _NEVER if seconds is None else seconds

    return Field(header, lambda row: format_duration(value(row)), key)


def time_text(t: float) -> str:
    return format_time(t) if t else _NOT_SET


def exclusive_text(row: JobRow) -> str:
    """OVER_SUBSCRIBE: may others use the same nodes?"""
    if row.job.spec.exclusive == "user":
        return "USER"
    return "NO" if row.job.request.exclusive else "OK"


def _batch_host(row: JobRow) -> str:
    if row.is_pending or not row.job.allocation:
        return "n/a"
    # For an allocation: where srun or salloc was typed.
    return row.job.allocation[0].node if row.job.spec.is_batch else row.job.spec.submit_host


def _priority_share(row: JobRow) -> str:
    """The priority as a share of the highest that 32 bits hold."""
    return f"{row.priority / 0xFFFFFFFF:.14f}"


def _command(row: JobRow) -> str:
    return " ".join((row.job.spec.command, *row.job.spec.script_arguments)).strip()


def _pending_time(row: JobRow) -> int:
    until = row.now if row.is_pending else row.start_time
    return max(0, int(until - row.job.submit_time))


_ID = Field[JobRow]("JOBID", lambda row: row.display_id, lambda row: row.order)
_RECORD_ID = _number("JOBID", lambda row: row.job.id)
_ACCOUNT = _or_null("ACCOUNT", lambda row: row.job.spec.account)
_TRES_PER_NODE = _or_not_set("TRES_PER_NODE", lambda row: tres_per_node(row.job.spec))
_EXEC_HOST = Field[JobRow]("EXEC_HOST", _batch_host)
_MIN_CPUS = _number("MIN_CPUS", lambda row: min_cpus_per_node(row.job.request))
_CPUS = _number("CPUS", lambda row: row.cpu_count)
_MIN_TMP_DISK = _constant("MIN_TMP_DISK", "0")
_NODES = _number("NODES", lambda row: row.node_count)
_END_TIME = _time("END_TIME", lambda row: row.end_time)
_DEPENDENCY = _or_null("DEPENDENCY", lambda row: row.dependency_text)
_FEATURES = _or_null("FEATURES", lambda row: row.job.request.features)
_ARRAY_JOB_ID = _number("ARRAY_JOB_ID", lambda row: row.array_job_id)
_GROUP_NAME = Field[JobRow]("GROUP", lambda row: row.job.spec.group_name)
_GROUP_ID = _number("GROUP", lambda row: row.job.spec.group_id)
_OVER_SUBSCRIBE = Field[JobRow]("OVER_SUBSCRIBE", exclusive_text)
_SOCKETS = _constant("SOCKETS_PER_NODE", "*")
_CORES = _constant("CORES_PER_SOCKET", "*")
_THREADS = _constant("THREADS_PER_CORE", "*")
_NAME = Field[JobRow]("NAME", lambda row: row.job.name)
_COMMENT = _or_null("COMMENT", lambda row: row.job.comment)
_ARRAY_TASK_ID = Field[JobRow]("ARRAY_TASK_ID", lambda row: row.task_text, lambda row: row.order)
_TIME_LIMIT = _duration("TIME_LIMIT", lambda row: row.time_limit_s)
_TIME_LEFT = _duration("TIME_LEFT", lambda row: row.time_left_s)
_MIN_MEMORY = Field[JobRow](
    "MIN_MEMORY",
    lambda row: memory_text(min_memory(row.job.request), convert=row.convert),
    lambda row: min_memory(row.job.request),
)
_TIME = _duration("TIME", lambda row: row.elapsed_s)
_REQ_NODES = Field[JobRow]("REQ_NODES", lambda row: compress(row.job.request.required_nodes))
_EXC_NODES = Field[JobRow]("EXC_NODES", lambda row: compress(row.job.request.excluded_nodes))
_NODE_LIST = Field[JobRow]("NODELIST", lambda row: row.node_list)
_COMMAND = _or_null("COMMAND", _command)
_CONTIGUOUS = _constant("CONTIGUOUS", "0")
_PRIORITY_SHARE = Field[JobRow]("PRIORITY", _priority_share, lambda row: row.priority)
_PRIORITY = _number("PRIORITY", lambda row: row.priority)
_PARTITION = Field[JobRow]("PARTITION", lambda row: row.job.partition)
_QOS = _or_null("QOS", lambda row: row.job.spec.qos)
_REASON = Field[JobRow]("REASON", lambda row: row.reason)
_REASON_LIST = Field[JobRow]("NODELIST(REASON)", lambda row: row.reason_or_nodes)
_START_TIME = _time("START_TIME", lambda row: row.start_time)
_STATE_COMPACT = Field[JobRow]("ST", lambda row: row.job.state.compact)
_STATE = Field[JobRow]("STATE", lambda row: row.job.state.value)
_USER = Field[JobRow]("USER", lambda row: row.job.spec.user_name)
_USER_ID = _number("UID", lambda row: row.job.spec.user_id)
_RESERVATION = _or_null("RESERVATION", lambda row: row.job.request.reservation)
_SUBMIT_TIME = _time("SUBMIT_TIME", lambda row: row.job.submit_time)
_WCKEY = _constant("WCKEY", NULL)
_LICENSES = _or_null("LICENSES", lambda row: licenses_text(row))
_CORE_SPEC = _constant("CORE_SPEC", _NOT_SET)
_NICE = _number("NICE", lambda row: row.job.nice)
_SCHED_NODES = _or_null("SCHEDNODES", lambda row: compress(row.view.planned_nodes))
_SCT = _constant("S:C:T", "*:*:*")
_WORK_DIR = Field[JobRow]("WORK_DIR", lambda row: row.job.spec.work_dir)

#: In the order in which ``%all`` shows them.
LETTERS: dict[str, JobField] = {
    "a": _ACCOUNT,
    "b": _TRES_PER_NODE,
    "c": _MIN_CPUS,
    "d": _MIN_TMP_DISK,
    "e": _END_TIME,
    "f": _FEATURES,
    "g": _GROUP_NAME,
    "h": _OVER_SUBSCRIBE,
    "i": _ID,
    "j": _NAME,
    "k": _COMMENT,
    "l": _TIME_LIMIT,
    "m": _MIN_MEMORY,
    "n": _REQ_NODES,
    "o": _COMMAND,
    "p": _PRIORITY_SHARE,
    "q": _QOS,
    "r": _REASON,
    "s": _constant("", ""),
    "t": _STATE_COMPACT,
    "u": _USER,
    "v": _RESERVATION,
    "w": _WCKEY,
    "x": _EXC_NODES,
    "y": _NICE,
    "z": _SCT,
    "A": _RECORD_ID,
    "B": _EXEC_HOST,
    "C": _CPUS,
    "D": _NODES,
    "E": _DEPENDENCY,
    "F": _ARRAY_JOB_ID,
    "G": _GROUP_ID,
    "H": _SOCKETS,
    "I": _CORES,
    "J": _THREADS,
    "K": _ARRAY_TASK_ID,
    "L": _TIME_LEFT,
    "M": _TIME,
    "N": _NODE_LIST,
    "O": _CONTIGUOUS,
    "P": _PARTITION,
    "Q": _PRIORITY,
    "R": _REASON_LIST,
    "S": _START_TIME,
    "T": _STATE,
    "U": _USER_ID,
    "V": _SUBMIT_TIME,
    "W": _LICENSES,
    "X": _CORE_SPEC,
    "Y": _SCHED_NODES,
    "Z": _WORK_DIR,
}

NAMES: dict[str, JobField] = {
    "account": _ACCOUNT,
    "accruetime": _time("ACCRUE_TIME", lambda row: row.accrue_time),
    "admin_comment": _constant("ADMIN_COMMENT", NULL),
    "allocnodes": _or_null("ALLOC_NODES", lambda row: row.job.spec.submit_host),
    "allocsid": _number("ALLOC_SID", lambda row: row.job.spec.submit_pid),
    "arrayjobid": _ARRAY_JOB_ID,
    "arraytaskid": _ARRAY_TASK_ID,
    "associd": _constant("ASSOC_ID", "0"),
    "batchflag": _number("BATCH_FLAG", lambda row: int(row.job.spec.is_batch)),
    "batchhost": _EXEC_HOST,
    "boardspernode": _constant("BOARDS_PER_NODE", "0"),
    "burstbuffer": _constant("BURST_BUFFER", NULL),
    "burstbufferstate": _constant("BURST_BUFFER_STATE", NULL),
    "clusterfeature": _constant("CLUSTER_FEATURES", NULL),
    "command": _COMMAND,
    "comment": _COMMENT,
    "container": _constant("CONTAINER", NULL),
    "contiguous": _CONTIGUOUS,
    "cores": _CORES,
    "corespec": _CORE_SPEC,
    "cpus-per-task": _number("CPUS_PER_TASK", lambda row: row.job.request.cpus_per_task),
    "cpuspertask": _number("CPUS_PER_TASK", lambda row: row.job.request.cpus_per_task),
    "cpus-per-tres": _or_not_set("CPUS_PER_TRES", lambda row: cpus_per_tres(row)),
    "deadline": _time("DEADLINE", lambda row: row.job.deadline),
    "delayboot": _constant("DELAY_BOOT", "0:00"),
    "dependency": _DEPENDENCY,
    "derivedec": _number("DERIVED_EC", lambda row: row.job.derived_exit_code),
    "eligibletime": _time("ELIGIBLE_TIME", lambda row: row.eligible_time),
    "endtime": _END_TIME,
    "exit_code": _number("EXIT_CODE", lambda row: row.job.exit_code),
    "feature": _FEATURES,
    "gres": _TRES_PER_NODE,
    "groupid": _GROUP_ID,
    "groupname": _GROUP_NAME,
    "hetjobid": _or_not_set("HET_JOB_ID", lambda row: str(row.job.het_job_id or "")),
    "hetjobidset": _or_not_set("HET_JOB_ID_SET", lambda row: row.het_ids),
    "hetjoboffset": _or_not_set(
        "HET_JOB_OFFSET", lambda row: str(row.job.het_job_offset) if row.job.is_component else ""
    ),
    "jobarrayid": _ID,
    "jobid": _RECORD_ID,
    "lastschedeval": _time("LAST_SCHED_EVAL", lambda row: row.view.last_considered),
    "licenses": _LICENSES,
    "maxcpus": _CPUS,
    "maxnodes": _number("MAX_NODES", lambda row: row.job.request.nodes_max),
    "mcslabel": _constant("MCSLABEL", NULL),
    "mem-per-tres": _or_not_set("MEM_PER_TRES", lambda row: memory_per_tres(row)),
    "mincpus": _MIN_CPUS,
    "minmemory": _MIN_MEMORY,
    "mintime": _constant("TIME_MIN", "0:00"),
    "mintmpdisk": _MIN_TMP_DISK,
    "name": _NAME,
    "network": _constant("NETWORK", NULL),
    "nice": _NICE,
    "nodelist": _NODE_LIST,
    "nodes": _NODE_LIST,
    "ntperboard": _constant("NTASKS_PER_BOARD", "0"),
    "ntpercore": _constant("NTASKS_PER_CORE", _NOT_SET),
    "ntpernode": _number("NTASKS_PER_NODE", lambda row: row.job.spec.tasks_per_node or 0),
    "ntpersocket": _constant("NTASKS_PER_SOCKET", _NOT_SET),
    "numcpus": _CPUS,
    "numnodes": _NODES,
    "numtasks": _number("TASKS", lambda row: row.job.tasks),
    "oversubscribe": _OVER_SUBSCRIBE,
    "partition": _PARTITION,
    "pendingtime": _number("PENDING_TIME", _pending_time),
    "preempttime": _time("PREEMPT_TIME", lambda row: row.preempt_time),
    "prefer": _constant("PREFER", NULL),
    "priority": _PRIORITY_SHARE,
    "prioritylong": _PRIORITY,
    "profile": _constant("PROFILE", "NotSet"),
    "qos": _QOS,
    "reason": _REASON,
    "reasonlist": _REASON_LIST,
    "reboot": _constant("REBOOT", "0"),
    "reqnodes": _REQ_NODES,
    "reqswitch": _constant("REQ_SWITCH", "0"),
    "requeue": _number("REQUEUE", lambda row: int(row.job.requeue)),
    "reservation": _RESERVATION,
    "resizetime": _time("RESIZE_TIME", lambda row: row.job.resize_time),
    "restartcnt": _number("RESTART_COUNT", lambda row: row.job.restarts),
    "schednodes": _SCHED_NODES,
    "sct": _SCT,
    "shared": _OVER_SUBSCRIBE,
    "sockets": _SOCKETS,
    "sperboard": _constant("SOCKETS_PER_BOARD", "0"),
    "starttime": _START_TIME,
    "state": _STATE,
    "statecompact": _STATE_COMPACT,
    "stderr": Field("STDERR", lambda row: row.view.std_err),
    "stdin": Field("STDIN", lambda row: row.view.std_in),
    "stdout": Field("STDOUT", lambda row: row.view.std_out),
    "submittime": _SUBMIT_TIME,
    "system_comment": _constant("SYSTEM_COMMENT", NULL),
    "threads": _THREADS,
    "timeleft": _TIME_LEFT,
    "timelimit": _TIME_LIMIT,
    "timeused": _TIME,
    "tres": Field("TRES_ALLOC", lambda row: row.tres),
    "tres-alloc": Field("TRES_ALLOC", lambda row: row.tres),
    "tres-bind": _constant("TRES_BIND", _NOT_SET),
    "tres-freq": _constant("TRES_FREQ", _NOT_SET),
    "tres-per-job": _or_not_set("TRES_PER_JOB", lambda row: tres_per_job(row.job.spec)),
    "tres-per-node": _TRES_PER_NODE,
    "tres-per-socket": _constant("TRES_PER_SOCKET", _NOT_SET),
    "tres-per-task": _or_not_set("TRES_PER_TASK", lambda row: tres_per_task(row.job.spec)),
    "userid": _USER_ID,
    "username": _USER,
    "wait4switch": _constant("WAIT4SWITCH", "0:00"),
    "wckey": _WCKEY,
    "workdir": _WORK_DIR,
}


def licenses_text(row: JobRow) -> str:
    """As submitted; "" for none."""
    spec, current = row.job.spec, row.job.request.licenses
    return spec.licenses if current == spec.request.licenses else format_licenses(current)


def cpus_per_tres(row: JobRow) -> str:
    """``gres:gpu:4`` for --cpus-per-gpu=4; "" for none."""
    count = row.job.spec.cpus_per_gpu
    return f"gres:gpu:{count}" if count else ""


def memory_per_tres(row: JobRow) -> str:
    """``gres:gpu:2048`` (MiB) for --mem-per-gpu=2G; "" for none."""
    amount = row.job.spec.memory_per_gpu_mib
    return f"gres:gpu:{amount}" if amount else ""
