"""States of jobs and nodes, and the reasons a job waits or ended, in Slurm's words."""

from __future__ import annotations

from enum import Enum


class JobState(Enum):
    """One value at a time; COMPLETING hides the final state until every node has let go."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"

    # Each member is one object, and many sets of them are asked: Enum would hash its name each time.
    __hash__ = object.__hash__

    @property
    def compact(self) -> str:
        """squeue's two letters."""
        return _COMPACT[self]

    @property
    def is_final(self) -> bool:
        return self in FINAL_STATES

    @property
    def holds_nodes(self) -> bool:
        return self in HOLDING_STATES


HOLDING_STATES = frozenset({JobState.CONFIGURING, JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})
FINAL_STATES = frozenset(set(JobState) - HOLDING_STATES - {JobState.PENDING})

_COMPACT = {
    JobState.PENDING: "PD",
    JobState.CONFIGURING: "CF",
    JobState.RUNNING: "R",
    JobState.SUSPENDED: "S",
    JobState.COMPLETING: "CG",
    JobState.COMPLETED: "CD",
    JobState.CANCELLED: "CA",
    JobState.FAILED: "F",
    JobState.TIMEOUT: "TO",
    JobState.NODE_FAIL: "NF",
    JobState.PREEMPTED: "PR",
    JobState.BOOT_FAIL: "BF",
    JobState.DEADLINE: "DL",
    JobState.OUT_OF_MEMORY: "OOM",
}


class Reason(Enum):
    """squeue's REASON column: why a job waits, or how it ended."""

    NONE = "None"
    PRIORITY = "Priority"
    RESOURCES = "Resources"
    DEPENDENCY = "Dependency"
    DEPENDENCY_NEVER_SATISFIED = "DependencyNeverSatisfied"
    BEGIN_TIME = "BeginTime"
    HELD_USER = "JobHeldUser"
    HELD_ADMIN = "JobHeldAdmin"
    ARRAY_TASK_LIMIT = "JobArrayTaskLimit"
    PARTITION_NODE_LIMIT = "PartitionNodeLimit"
    PARTITION_TIME_LIMIT = "PartitionTimeLimit"
    PARTITION_CONFIG = "PartitionConfig"
    PARTITION_DOWN = "PartitionDown"
    PARTITION_INACTIVE = "PartitionInactive"
    BAD_CONSTRAINTS = "BadConstraints"
    NODES_UNAVAILABLE = "ReqNodeNotAvail"
    LAUNCH_FAILED_REQUEUED = "launch_failed_requeued"
    NON_ZERO_EXIT = "NonZeroExitCode"
    JOB_LAUNCH_FAILURE = "JobLaunchFailure"
    RAISED_SIGNAL = "RaisedSignal"
    TIME_LIMIT = "TimeLimit"
    NODE_DOWN = "NodeDown"
    #: It was requeued as often as it may be for that cause.
    MAX_REQUEUE = "JobHoldMaxRequeue"
    NODE_FAIL = "NodeFail"
    OUT_OF_MEMORY = "OutOfMemory"
    SYSTEM_FAILURE = "SystemFailure"
    RESERVATION = "Reservation"
    RESERVATION_DELETED = "ReservationDeleted"
    MAINTENANCE = "ReqNodeNotAvail, Reserved for maintenance"
    NODES_RESERVED = "ReqNodeNotAvail, May be reserved for other job"
    LICENSES = "Licenses"
    DEADLINE = "DeadLine"
    #: Ours: it did not start within --max-wait.
    MAX_WAIT = "MaxWait"
    # No domain of the required level (or no set of so many leaf domains) could ever hold it.
    TOPOLOGY = "TopologyNeverSatisfied"
    # Limits of accounts, of users in them, and of QOS (scheduling/accounts.py).
    ASSOC_GRP_CPU = "AssocGrpCpuLimit"
    ASSOC_GRP_MEMORY = "AssocGrpMemLimit"
    ASSOC_GRP_NODE = "AssocGrpNodeLimit"
    ASSOC_GRP_GRES = "AssocGrpGRES"
    ASSOC_GRP_JOBS = "AssocGrpJobsLimit"
    ASSOC_GRP_SUBMIT_JOBS = "AssocGrpSubmitJobsLimit"
    ASSOC_MAX_JOBS = "AssocMaxJobsLimit"
    ASSOC_MAX_SUBMIT_JOBS = "AssocMaxSubmitJobLimit"
    ASSOC_MAX_CPU_PER_JOB = "AssocMaxCpuPerJobLimit"
    ASSOC_MAX_MEMORY_PER_JOB = "AssocMaxMemPerJob"
    ASSOC_MAX_NODE_PER_JOB = "AssocMaxNodePerJobLimit"
    ASSOC_MAX_GRES_PER_JOB = "AssocMaxGRESPerJob"
    ASSOC_MAX_WALL = "AssocMaxWallDurationPerJobLimit"
    QOS_GRP_CPU = "QOSGrpCpuLimit"
    QOS_GRP_MEMORY = "QOSGrpMemLimit"
    QOS_GRP_NODE = "QOSGrpNodeLimit"
    QOS_GRP_GRES = "QOSGrpGRES"
    QOS_GRP_JOBS = "QOSGrpJobsLimit"
    QOS_GRP_SUBMIT_JOBS = "QOSGrpSubmitJobsLimit"
    QOS_MAX_CPU_PER_JOB = "QOSMaxCpuPerJobLimit"
    QOS_MAX_MEMORY_PER_JOB = "QOSMaxMemoryPerJob"
    QOS_MAX_NODE_PER_JOB = "QOSMaxNodePerJobLimit"
    QOS_MAX_GRES_PER_JOB = "QOSMaxGRESPerJob"
    QOS_MAX_CPU_PER_USER = "QOSMaxCpuPerUserLimit"
    QOS_MAX_MEMORY_PER_USER = "QOSMaxMemoryPerUser"
    QOS_MAX_NODE_PER_USER = "QOSMaxNodePerUserLimit"
    QOS_MAX_GRES_PER_USER = "QOSMaxGRESPerUser"
    QOS_MAX_JOBS_PER_USER = "QOSMaxJobsPerUserLimit"
    QOS_MAX_SUBMIT_JOBS_PER_USER = "QOSMaxSubmitJobPerUserLimit"
    QOS_MAX_WALL = "QOSMaxWallDurationPerJobLimit"
    # The partition does not take the job's account or QOS; or has itself a QOS that is not there.
    ACCOUNT_NOT_ALLOWED = "AccountNotAllowed"
    QOS_NOT_ALLOWED = "QOSNotAllowed"
    INVALID_QOS = "InvalidQOS"


class NodeState(Enum):
    """Whether the node may be used at all. What jobs occupy on it is derived (`node.display_state`)."""

    UNKNOWN = "UNKNOWN"  # configured, never yet registered
    UP = "UP"
    DOWN = "DOWN"


class PartitionState(Enum):
    UP = "UP"
    DOWN = "DOWN"  # jobs queue, none starts
    DRAIN = "DRAIN"  # running and queued jobs go on, no new submissions
    INACTIVE = "INACTIVE"  # neither
