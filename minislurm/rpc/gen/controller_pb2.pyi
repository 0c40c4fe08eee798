from minislurm.rpc.gen import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Refused(_message.Message):
    __slots__ = ("code", "details", "job_id")
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    code: str
    details: _containers.RepeatedScalarFieldContainer[str]
    job_id: int
    def __init__(self, code: _Optional[str] = ..., details: _Optional[_Iterable[str]] = ..., job_id: _Optional[int] = ...) -> None: ...

class PingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingReply(_message.Message):
    __slots__ = ("host", "cluster", "now", "start_time", "version", "events", "pid")
    HOST_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    host: str
    cluster: str
    now: float
    start_time: float
    version: str
    events: int
    pid: int
    def __init__(self, host: _Optional[str] = ..., cluster: _Optional[str] = ..., now: _Optional[float] = ..., start_time: _Optional[float] = ..., version: _Optional[str] = ..., events: _Optional[int] = ..., pid: _Optional[int] = ...) -> None: ...

class Submission(_message.Message):
    __slots__ = ("spec", "script", "environment", "test_only", "components")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    TEST_ONLY_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    spec: _common_pb2.JobSpec
    script: bytes
    environment: _containers.RepeatedScalarFieldContainer[bytes]
    test_only: bool
    components: _containers.RepeatedCompositeFieldContainer[_common_pb2.JobSpec]
    def __init__(self, spec: _Optional[_Union[_common_pb2.JobSpec, _Mapping]] = ..., script: _Optional[bytes] = ..., environment: _Optional[_Iterable[bytes]] = ..., test_only: bool = ..., components: _Optional[_Iterable[_Union[_common_pb2.JobSpec, _Mapping]]] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("request_id", "submission")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    submission: Submission
    def __init__(self, request_id: _Optional[str] = ..., submission: _Optional[_Union[Submission, _Mapping]] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("job_id", "refused")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    refused: Refused
    def __init__(self, job_id: _Optional[int] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ...) -> None: ...

class TestResult(_message.Message):
    __slots__ = ("job_id", "start_time", "cpus", "nodes", "partition")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    start_time: float
    cpus: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    partition: str
    def __init__(self, job_id: _Optional[int] = ..., start_time: _Optional[float] = ..., cpus: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., partition: _Optional[str] = ...) -> None: ...

class JobTarget(_message.Message):
    __slots__ = ("job_id", "tasks", "step_id", "het_offset")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    HET_OFFSET_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    tasks: _containers.RepeatedScalarFieldContainer[int]
    step_id: int
    het_offset: int
    def __init__(self, job_id: _Optional[int] = ..., tasks: _Optional[_Iterable[int]] = ..., step_id: _Optional[int] = ..., het_offset: _Optional[int] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("target", "refused")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    target: JobTarget
    refused: Refused
    def __init__(self, target: _Optional[_Union[JobTarget, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ...) -> None: ...

class ActReply(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ...) -> None: ...

class JobsRequest(_message.Message):
    __slots__ = ("request_id", "targets")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    targets: _containers.RepeatedCompositeFieldContainer[JobTarget]
    def __init__(self, request_id: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[JobTarget, _Mapping]]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("request_id", "targets", "signal", "batch_only", "full")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    BATCH_ONLY_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    targets: _containers.RepeatedCompositeFieldContainer[JobTarget]
    signal: int
    batch_only: bool
    full: bool
    def __init__(self, request_id: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[JobTarget, _Mapping]]] = ..., signal: _Optional[int] = ..., batch_only: bool = ..., full: bool = ...) -> None: ...

class HoldRequest(_message.Message):
    __slots__ = ("request_id", "targets", "by_user")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    BY_USER_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    targets: _containers.RepeatedCompositeFieldContainer[JobTarget]
    by_user: bool
    def __init__(self, request_id: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[JobTarget, _Mapping]]] = ..., by_user: bool = ...) -> None: ...

class RequeueRequest(_message.Message):
    __slots__ = ("request_id", "targets", "hold")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    targets: _containers.RepeatedCompositeFieldContainer[JobTarget]
    hold: bool
    def __init__(self, request_id: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[JobTarget, _Mapping]]] = ..., hold: bool = ...) -> None: ...

class JobChanges(_message.Message):
    __slots__ = ("name", "partition", "time_limit_s", "nice", "priority", "comment", "array_limit", "begin_time", "requeue", "nodes_min", "nodes_max", "features", "required_nodes", "excluded_nodes", "clear_dependencies", "dependencies", "dependency_any", "cpus_per_task", "tasks", "memory_per_node_mib", "memory_per_cpu_mib", "reservation", "licenses", "deadline", "site_factor", "bid", "account", "qos", "gpus_per_node", "gpus_total", "gpus_per_task", "switches", "switches_wait_s", "topology_level", "topology_required", "segment", "cpus_per_node_min")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    NICE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    ARRAY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_TIME_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_FIELD_NUMBER: _ClassVar[int]
    NODES_MIN_FIELD_NUMBER: _ClassVar[int]
    NODES_MAX_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_NODES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_NODES_FIELD_NUMBER: _ClassVar[int]
    CLEAR_DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_ANY_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PER_NODE_MIB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PER_CPU_MIB_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    LICENSES_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    SITE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    BID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    GPUS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_NODE_MIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    partition: str
    time_limit_s: float
    nice: int
    priority: int
    comment: str
    array_limit: int
    begin_time: float
    requeue: bool
    nodes_min: int
    nodes_max: int
    features: str
    required_nodes: str
    excluded_nodes: str
    clear_dependencies: bool
    dependencies: _containers.RepeatedCompositeFieldContainer[_common_pb2.Dependency]
    dependency_any: bool
    cpus_per_task: int
    tasks: int
    memory_per_node_mib: int
    memory_per_cpu_mib: int
    reservation: str
    licenses: str
    deadline: float
    site_factor: int
    bid: float
    account: str
    qos: str
    gpus_per_node: _common_pb2.GpuGroup
    gpus_total: _common_pb2.GpuGroup
    gpus_per_task: _common_pb2.GpuGroup
    switches: int
    switches_wait_s: float
    topology_level: str
    topology_required: bool
    segment: int
    cpus_per_node_min: int
    def __init__(self, name: _Optional[str] = ..., partition: _Optional[str] = ..., time_limit_s: _Optional[float] = ..., nice: _Optional[int] = ..., priority: _Optional[int] = ..., comment: _Optional[str] = ..., array_limit: _Optional[int] = ..., begin_time: _Optional[float] = ..., requeue: bool = ..., nodes_min: _Optional[int] = ..., nodes_max: _Optional[int] = ..., features: _Optional[str] = ..., required_nodes: _Optional[str] = ..., excluded_nodes: _Optional[str] = ..., clear_dependencies: bool = ..., dependencies: _Optional[_Iterable[_Union[_common_pb2.Dependency, _Mapping]]] = ..., dependency_any: bool = ..., cpus_per_task: _Optional[int] = ..., tasks: _Optional[int] = ..., memory_per_node_mib: _Optional[int] = ..., memory_per_cpu_mib: _Optional[int] = ..., reservation: _Optional[str] = ..., licenses: _Optional[str] = ..., deadline: _Optional[float] = ..., site_factor: _Optional[int] = ..., bid: _Optional[float] = ..., account: _Optional[str] = ..., qos: _Optional[str] = ..., gpus_per_node: _Optional[_Union[_common_pb2.GpuGroup, _Mapping]] = ..., gpus_total: _Optional[_Union[_common_pb2.GpuGroup, _Mapping]] = ..., gpus_per_task: _Optional[_Union[_common_pb2.GpuGroup, _Mapping]] = ..., switches: _Optional[int] = ..., switches_wait_s: _Optional[float] = ..., topology_level: _Optional[str] = ..., topology_required: bool = ..., segment: _Optional[int] = ..., cpus_per_node_min: _Optional[int] = ...) -> None: ...

class UpdateJobRequest(_message.Message):
    __slots__ = ("request_id", "targets", "changes")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    targets: _containers.RepeatedCompositeFieldContainer[JobTarget]
    changes: JobChanges
    def __init__(self, request_id: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[JobTarget, _Mapping]]] = ..., changes: _Optional[_Union[JobChanges, _Mapping]] = ...) -> None: ...

class UpdateNodeRequest(_message.Message):
    __slots__ = ("request_id", "nodes", "state", "reason", "weight")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    state: str
    reason: str
    weight: int
    def __init__(self, request_id: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., weight: _Optional[int] = ...) -> None: ...

class UpdatePartitionRequest(_message.Message):
    __slots__ = ("request_id", "name", "state", "settings")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    state: str
    settings: _containers.ScalarMap[str, str]
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class JobQuery(_message.Message):
    __slots__ = ("job_ids", "include_ended", "forecast")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ENDED_FIELD_NUMBER: _ClassVar[int]
    FORECAST_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    include_ended: bool
    forecast: bool
    def __init__(self, job_ids: _Optional[_Iterable[int]] = ..., include_ended: bool = ..., forecast: bool = ...) -> None: ...

class JobView(_message.Message):
    __slots__ = ("job", "reason", "priority", "start_estimate", "planned_nodes", "last_considered", "dependency_states", "std_in", "std_out", "std_err", "node_reason", "preemptable_time", "het_job_ids")
    JOB_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    START_ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    PLANNED_NODES_FIELD_NUMBER: _ClassVar[int]
    LAST_CONSIDERED_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_STATES_FIELD_NUMBER: _ClassVar[int]
    STD_IN_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    NODE_REASON_FIELD_NUMBER: _ClassVar[int]
    PREEMPTABLE_TIME_FIELD_NUMBER: _ClassVar[int]
    HET_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    job: _common_pb2.Job
    reason: str
    priority: int
    start_estimate: float
    planned_nodes: _containers.RepeatedScalarFieldContainer[str]
    last_considered: float
    dependency_states: _containers.RepeatedScalarFieldContainer[str]
    std_in: str
    std_out: str
    std_err: str
    node_reason: str
    preemptable_time: float
    het_job_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, job: _Optional[_Union[_common_pb2.Job, _Mapping]] = ..., reason: _Optional[str] = ..., priority: _Optional[int] = ..., start_estimate: _Optional[float] = ..., planned_nodes: _Optional[_Iterable[str]] = ..., last_considered: _Optional[float] = ..., dependency_states: _Optional[_Iterable[str]] = ..., std_in: _Optional[str] = ..., std_out: _Optional[str] = ..., std_err: _Optional[str] = ..., node_reason: _Optional[str] = ..., preemptable_time: _Optional[float] = ..., het_job_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class JobsChunk(_message.Message):
    __slots__ = ("jobs", "specs", "spec_of", "now")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    SPEC_OF_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobView]
    specs: _containers.RepeatedCompositeFieldContainer[_common_pb2.JobSpec]
    spec_of: _containers.RepeatedScalarFieldContainer[int]
    now: float
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobView, _Mapping]]] = ..., specs: _Optional[_Iterable[_Union[_common_pb2.JobSpec, _Mapping]]] = ..., spec_of: _Optional[_Iterable[int]] = ..., now: _Optional[float] = ...) -> None: ...

class NodesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodeView(_message.Message):
    __slots__ = ("node", "partitions", "state", "topology_address", "topology_pattern", "completing")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_PATTERN_FIELD_NUMBER: _ClassVar[int]
    COMPLETING_FIELD_NUMBER: _ClassVar[int]
    node: _common_pb2.Node
    partitions: _containers.RepeatedScalarFieldContainer[str]
    state: str
    topology_address: str
    topology_pattern: str
    completing: bool
    def __init__(self, node: _Optional[_Union[_common_pb2.Node, _Mapping]] = ..., partitions: _Optional[_Iterable[str]] = ..., state: _Optional[str] = ..., topology_address: _Optional[str] = ..., topology_pattern: _Optional[str] = ..., completing: bool = ...) -> None: ...

class NodesReply(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeView]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeView, _Mapping]]] = ...) -> None: ...

class PartitionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PartitionView(_message.Message):
    __slots__ = ("name", "nodes", "default", "state", "max_time_s", "default_time_s", "max_nodes", "min_nodes", "priority_tier", "priority_job_factor", "default_memory_per_cpu_mib", "total_cpus", "total_memory_mib", "total_gpus", "gpus_by_type", "preempt_mode", "preempt_grace_s", "allow_accounts", "deny_accounts", "allow_qos", "deny_qos", "allow_groups", "qos", "min_priority", "max_priority")
    class GpusByTypeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MAX_TIME_S_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_TIME_S_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_TIER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_JOB_FACTOR_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MEMORY_PER_CPU_MIB_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CPUS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    TOTAL_GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_BY_TYPE_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_MODE_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_GRACE_S_FIELD_NUMBER: _ClassVar[int]
    ALLOW_ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    DENY_ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_QOS_FIELD_NUMBER: _ClassVar[int]
    DENY_QOS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    MIN_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    default: bool
    state: str
    max_time_s: float
    default_time_s: float
    max_nodes: int
    min_nodes: int
    priority_tier: int
    priority_job_factor: int
    default_memory_per_cpu_mib: int
    total_cpus: int
    total_memory_mib: int
    total_gpus: int
    gpus_by_type: _containers.ScalarMap[str, int]
    preempt_mode: str
    preempt_grace_s: float
    allow_accounts: _containers.RepeatedScalarFieldContainer[str]
    deny_accounts: _containers.RepeatedScalarFieldContainer[str]
    allow_qos: _containers.RepeatedScalarFieldContainer[str]
    deny_qos: _containers.RepeatedScalarFieldContainer[str]
    allow_groups: _containers.RepeatedScalarFieldContainer[str]
    qos: str
    min_priority: int
    max_priority: int
    def __init__(self, name: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., default: bool = ..., state: _Optional[str] = ..., max_time_s: _Optional[float] = ..., default_time_s: _Optional[float] = ..., max_nodes: _Optional[int] = ..., min_nodes: _Optional[int] = ..., priority_tier: _Optional[int] = ..., priority_job_factor: _Optional[int] = ..., default_memory_per_cpu_mib: _Optional[int] = ..., total_cpus: _Optional[int] = ..., total_memory_mib: _Optional[int] = ..., total_gpus: _Optional[int] = ..., gpus_by_type: _Optional[_Mapping[str, int]] = ..., preempt_mode: _Optional[str] = ..., preempt_grace_s: _Optional[float] = ..., allow_accounts: _Optional[_Iterable[str]] = ..., deny_accounts: _Optional[_Iterable[str]] = ..., allow_qos: _Optional[_Iterable[str]] = ..., deny_qos: _Optional[_Iterable[str]] = ..., allow_groups: _Optional[_Iterable[str]] = ..., qos: _Optional[str] = ..., min_priority: _Optional[int] = ..., max_priority: _Optional[int] = ...) -> None: ...

class PartitionsReply(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionView]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionView, _Mapping]]] = ...) -> None: ...

class ConfigurationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConfigurationReply(_message.Message):
    __slots__ = ("values", "boot_time", "next_job_id")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    BOOT_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, str]
    boot_time: float
    next_job_id: int
    def __init__(self, values: _Optional[_Mapping[str, str]] = ..., boot_time: _Optional[float] = ..., next_job_id: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    def __init__(self, job_id: _Optional[int] = ...) -> None: ...

class HoldAllocationRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    def __init__(self, job_id: _Optional[int] = ...) -> None: ...

class EndAllocationRequest(_message.Message):
    __slots__ = ("request_id", "job_id", "exit_code", "exit_signal")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    job_id: int
    exit_code: int
    exit_signal: int
    def __init__(self, request_id: _Optional[str] = ..., job_id: _Optional[int] = ..., exit_code: _Optional[int] = ..., exit_signal: _Optional[int] = ...) -> None: ...

class StepRequest(_message.Message):
    __slots__ = ("job_id", "name", "nodes", "tasks", "tasks_per_node", "cpus_per_task", "node_list", "excluded_nodes", "time_limit_s")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_NODES_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    name: str
    nodes: int
    tasks: int
    tasks_per_node: int
    cpus_per_task: int
    node_list: _containers.RepeatedScalarFieldContainer[str]
    excluded_nodes: _containers.RepeatedScalarFieldContainer[str]
    time_limit_s: float
    def __init__(self, job_id: _Optional[int] = ..., name: _Optional[str] = ..., nodes: _Optional[int] = ..., tasks: _Optional[int] = ..., tasks_per_node: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., node_list: _Optional[_Iterable[str]] = ..., excluded_nodes: _Optional[_Iterable[str]] = ..., time_limit_s: _Optional[float] = ...) -> None: ...

class CreateStepRequest(_message.Message):
    __slots__ = ("request_id", "request")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    request: StepRequest
    def __init__(self, request_id: _Optional[str] = ..., request: _Optional[_Union[StepRequest, _Mapping]] = ...) -> None: ...

class StepNode(_message.Message):
    __slots__ = ("node", "address", "port", "tasks")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    node: str
    address: str
    port: int
    tasks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[str] = ..., address: _Optional[str] = ..., port: _Optional[int] = ..., tasks: _Optional[_Iterable[int]] = ...) -> None: ...

class StepGrant(_message.Message):
    __slots__ = ("job_id", "step_id", "run", "nodes", "credential", "job", "allocation", "cpus_per_task")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    step_id: int
    run: int
    nodes: _containers.RepeatedCompositeFieldContainer[StepNode]
    credential: str
    job: _common_pb2.Job
    allocation: _containers.RepeatedCompositeFieldContainer[_common_pb2.NodeAllocation]
    cpus_per_task: int
    def __init__(self, job_id: _Optional[int] = ..., step_id: _Optional[int] = ..., run: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[StepNode, _Mapping]]] = ..., credential: _Optional[str] = ..., job: _Optional[_Union[_common_pb2.Job, _Mapping]] = ..., allocation: _Optional[_Iterable[_Union[_common_pb2.NodeAllocation, _Mapping]]] = ..., cpus_per_task: _Optional[int] = ...) -> None: ...

class ListChange(_message.Message):
    __slots__ = ("operator", "items")
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    operator: str
    items: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, operator: _Optional[str] = ..., items: _Optional[_Iterable[str]] = ...) -> None: ...

class ReservationChanges(_message.Message):
    __slots__ = ("name", "start_time", "end_time", "duration_s", "users", "accounts", "nodes", "node_count", "partition", "flags")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    start_time: float
    end_time: float
    duration_s: float
    users: ListChange
    accounts: ListChange
    nodes: ListChange
    node_count: int
    partition: str
    flags: ListChange
    def __init__(self, name: _Optional[str] = ..., start_time: _Optional[float] = ..., end_time: _Optional[float] = ..., duration_s: _Optional[float] = ..., users: _Optional[_Union[ListChange, _Mapping]] = ..., accounts: _Optional[_Union[ListChange, _Mapping]] = ..., nodes: _Optional[_Union[ListChange, _Mapping]] = ..., node_count: _Optional[int] = ..., partition: _Optional[str] = ..., flags: _Optional[_Union[ListChange, _Mapping]] = ...) -> None: ...

class ChangeReservationRequest(_message.Message):
    __slots__ = ("request_id", "changes")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    changes: ReservationChanges
    def __init__(self, request_id: _Optional[str] = ..., changes: _Optional[_Union[ReservationChanges, _Mapping]] = ...) -> None: ...

class DeleteReservationRequest(_message.Message):
    __slots__ = ("request_id", "name")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ReservationReply(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ReservationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReservationView(_message.Message):
    __slots__ = ("reservation", "active", "cpus")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    reservation: _common_pb2.Reservation
    active: bool
    cpus: int
    def __init__(self, reservation: _Optional[_Union[_common_pb2.Reservation, _Mapping]] = ..., active: bool = ..., cpus: _Optional[int] = ...) -> None: ...

class ReservationsReply(_message.Message):
    __slots__ = ("reservations",)
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    reservations: _containers.RepeatedCompositeFieldContainer[ReservationView]
    def __init__(self, reservations: _Optional[_Iterable[_Union[ReservationView, _Mapping]]] = ...) -> None: ...

class LicensesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LicenseView(_message.Message):
    __slots__ = ("name", "total", "used")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    name: str
    total: int
    used: int
    def __init__(self, name: _Optional[str] = ..., total: _Optional[int] = ..., used: _Optional[int] = ...) -> None: ...

class LicensesReply(_message.Message):
    __slots__ = ("licenses",)
    LICENSES_FIELD_NUMBER: _ClassVar[int]
    licenses: _containers.RepeatedCompositeFieldContainer[LicenseView]
    def __init__(self, licenses: _Optional[_Iterable[_Union[LicenseView, _Mapping]]] = ...) -> None: ...

class AccountsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AccountsReply(_message.Message):
    __slots__ = ("version", "records", "cluster", "credits")
    class CreditsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    version: int
    records: _common_pb2.AccountChanges
    cluster: str
    credits: _containers.ScalarMap[str, float]
    def __init__(self, version: _Optional[int] = ..., records: _Optional[_Union[_common_pb2.AccountChanges, _Mapping]] = ..., cluster: _Optional[str] = ..., credits: _Optional[_Mapping[str, float]] = ...) -> None: ...

class ChangeAccountsRequest(_message.Message):
    __slots__ = ("request_id", "version", "changes")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    version: int
    changes: _common_pb2.AccountChanges
    def __init__(self, request_id: _Optional[str] = ..., version: _Optional[int] = ..., changes: _Optional[_Union[_common_pb2.AccountChanges, _Mapping]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: JobTarget
    def __init__(self, target: _Optional[_Union[JobTarget, _Mapping]] = ...) -> None: ...

class HeadAhead(_message.Message):
    __slots__ = ("job_id", "start", "nodes", "is_cause")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    IS_CAUSE_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    start: float
    nodes: _containers.RepeatedScalarFieldContainer[str]
    is_cause: bool
    def __init__(self, job_id: _Optional[int] = ..., start: _Optional[float] = ..., nodes: _Optional[_Iterable[str]] = ..., is_cause: bool = ...) -> None: ...

class Proposal(_message.Message):
    __slots__ = ("text", "command", "start", "starts_now")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STARTS_NOW_FIELD_NUMBER: _ClassVar[int]
    text: str
    command: str
    start: float
    starts_now: bool
    def __init__(self, text: _Optional[str] = ..., command: _Optional[str] = ..., start: _Optional[float] = ..., starts_now: bool = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("job_id", "shown_id", "state", "now", "name", "partition", "partition_nodes", "reason", "sentences", "priority", "rejected", "ahead", "first_ahead", "ahead_but_waiting", "heads", "start_estimate", "planned_nodes", "proposals")
    class RejectedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SHOWN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    FIRST_AHEAD_FIELD_NUMBER: _ClassVar[int]
    AHEAD_BUT_WAITING_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    START_ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    PLANNED_NODES_FIELD_NUMBER: _ClassVar[int]
    PROPOSALS_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    shown_id: str
    state: str
    now: float
    name: str
    partition: str
    partition_nodes: int
    reason: str
    sentences: _containers.RepeatedScalarFieldContainer[str]
    priority: int
    rejected: _containers.ScalarMap[str, int]
    ahead: int
    first_ahead: _containers.RepeatedScalarFieldContainer[int]
    ahead_but_waiting: int
    heads: _containers.RepeatedCompositeFieldContainer[HeadAhead]
    start_estimate: float
    planned_nodes: _containers.RepeatedScalarFieldContainer[str]
    proposals: _containers.RepeatedCompositeFieldContainer[Proposal]
    def __init__(self, job_id: _Optional[int] = ..., shown_id: _Optional[str] = ..., state: _Optional[str] = ..., now: _Optional[float] = ..., name: _Optional[str] = ..., partition: _Optional[str] = ..., partition_nodes: _Optional[int] = ..., reason: _Optional[str] = ..., sentences: _Optional[_Iterable[str]] = ..., priority: _Optional[int] = ..., rejected: _Optional[_Mapping[str, int]] = ..., ahead: _Optional[int] = ..., first_ahead: _Optional[_Iterable[int]] = ..., ahead_but_waiting: _Optional[int] = ..., heads: _Optional[_Iterable[_Union[HeadAhead, _Mapping]]] = ..., start_estimate: _Optional[float] = ..., planned_nodes: _Optional[_Iterable[str]] = ..., proposals: _Optional[_Iterable[_Union[Proposal, _Mapping]]] = ...) -> None: ...

class ExportStateRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StoredRecord(_message.Message):
    __slots__ = ("kind", "id", "payload")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    payload: bytes
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class StateChunk(_message.Message):
    __slots__ = ("now", "snapshot_seq", "records", "events")
    NOW_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_SEQ_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    now: float
    snapshot_seq: int
    records: _containers.RepeatedCompositeFieldContainer[StoredRecord]
    events: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, now: _Optional[float] = ..., snapshot_seq: _Optional[int] = ..., records: _Optional[_Iterable[_Union[StoredRecord, _Mapping]]] = ..., events: _Optional[_Iterable[bytes]] = ...) -> None: ...
