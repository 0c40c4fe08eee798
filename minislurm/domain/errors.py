"""The one tree of errors.

    MinislurmError                  a request was wrong, or cannot be met now; prints as Slurm does
    ├── ConfigurationError          the configuration file (prints without Slurm's wording)
    ├── UsageError                  a command line that cannot be read (exit code as the command's)
    ├── Refusal                     the controller's answer to a request; carries Slurm's error code
    ├── AccessDenied                no credential, or not the caller's to do
    └── ControllerUnavailable       nobody answers at the controller's address, or too late

A broken invariant is none of these: it is an `assert`, and it stops the daemon.
"""

from __future__ import annotations

from enum import Enum


class MinislurmError(Exception):
    """Base of all. `str(error)` is one line for the user (or several, where Slurm prints several)."""


class ConfigurationError(MinislurmError):
    """`file: [section] key = value: what is allowed` (configuration_file)."""


class UsageError(MinislurmError):
    """A command line that cannot be read. `prefix`: "CMD: error: " comes before it, as mostly in Slurm."""

    def __init__(self, message: str, *, exit_code: int = 1, prefix: bool = True) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.prefix = prefix


class RefusalCode(Enum):
    """Slurm's error texts, the ones that requests to the controller end with."""

    INVALID_JOB_ID = "Invalid job id specified"
    INVALID_PARTITION = "Invalid partition name specified"
    INVALID_PARTITION_SETTING = "Invalid partition configuration"
    INVALID_NODE_NAME = "Invalid node name specified"
    NODES_NOT_IN_PARTITION = "Requested nodes not in this partition"
    INVALID_NODE_COUNT = "Node count specification invalid"
    INVALID_ARRAY = "Invalid job array specification"
    INVALID_TIME_LIMIT = "Requested time limit is invalid (missing or exceeds some limit)"
    INVALID_GRES = "Invalid generic resource (gres) specification"
    INVALID_FEATURE = "Invalid feature specification"
    INVALID_UPDATE = "Requested operation is presently disabled"
    NODE_CONFIGURATION = "Requested node configuration is not available"
    PARTITION_UNAVAILABLE = "Required partition not available (inactive or drain)"
    DEPENDENCY = "Job dependency problem"
    ACCESS = "Access/permission denied"
    ALREADY_DONE = "Job/step already completing or completed"
    JOB_PENDING = "Job is pending execution"
    JOB_NOT_PENDING = "Job is no longer pending execution"
    JOB_NOT_RUNNING = "Job is not running"
    NO_CHECKPOINT = (
        "Job cannot be asked for a checkpoint: it has no --checkpoint-signal, no --checkpoint-command, and "
        "nothing in it listens"
    )
    NOT_BATCH = "Only batch jobs are accepted or processed"
    DISABLED = "Requested operation is presently disabled"
    TRY_LATER = "Job can not be altered now, try again later"
    EXPIRED = "Job has expired"
    STEP_TOO_MANY_TASKS = "More processors requested than permitted"
    STEP_NODES = "Requested node configuration is not available "
    STEP_NODE_COUNT = "Requested nodes are not in the allocation"
    TOO_MANY_JOBS = "Slurm temporarily unable to accept job, sleeping and retrying"
    STORE_UNAVAILABLE = "Slurm state could not be saved, try again later"
    SCRIPT_TOO_LARGE = "Batch script is too large"
    INVALID_ACCOUNT = "Invalid account or account/partition combination specified"
    INVALID_QOS = "Invalid qos specification"
    PARTITION_GROUPS = "User's group not permitted to use this partition"
    ACCOUNTING_POLICY = (
        "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    )
    JOBS_ACTIVE = "Job(s) active, cancel job(s) before remove"
    INVALID_ACCOUNTS = "The accounts cannot be changed in this way"
    ACCOUNTS_CHANGED = "The accounts were changed meanwhile, try again"
    NOT_SUPPORTED = "Requested operation not supported on this system"
    RESERVATION_INVALID = "Requested reservation is invalid"
    RESERVATION_ACCESS = "Access denied to requested reservation"
    RESERVATION_EXISTS = "Duplicate reservation name"
    RESERVATION_OVERLAP = "Requested reservation overlaps with another reservation"
    RESERVATION_IN_USE = "Requested reservation is in use"
    RESERVATION_STARTED = "Reservation already started"
    NODES_BUSY = "Requested nodes are busy"
    INVALID_TIME = "Invalid time specified"
    INVALID_USER = "Invalid user id"
    INVALID_BID = "Invalid bid specification"
    INVALID_LICENSES = "Invalid license specification"
    INVALID_ELASTIC = "Invalid specification of an elastic job"
    HET_COMPONENT = "Operation not permitted on individual component of heterogeneous job"


class Refusal(MinislurmError):
    """The controller does not do what was asked. `details`: lines that Slurm prints before the error."""

    def __init__(self, code: RefusalCode, *, details: tuple[str, ...] = (), job_id: int = 0) -> None:
        super().__init__(code.value.strip())
        self.code = code
        self.details = details
        self.job_id = job_id


class AccessDenied(MinislurmError):
    """No valid credential."""


class ControllerUnavailable(MinislurmError):
    """`Unable to contact slurm controller (connect failure)`."""

    def __init__(self, message: str = "Unable to contact slurm controller (connect failure)") -> None:
        super().__init__(message)
