from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GpuGroup(_message.Message):
    __slots__ = ("count", "type", "memory_mib", "capability")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    count: int
    type: str
    memory_mib: int
    capability: str
    def __init__(self, count: _Optional[int] = ..., type: _Optional[str] = ..., memory_mib: _Optional[int] = ..., capability: _Optional[str] = ...) -> None: ...

class NodeAllocation(_message.Message):
    __slots__ = ("node", "cpus", "memory_mib", "gpus", "tasks", "gpu_share_milli")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    GPU_SHARE_MILLI_FIELD_NUMBER: _ClassVar[int]
    node: str
    cpus: bytes
    memory_mib: int
    gpus: bytes
    tasks: int
    gpu_share_milli: int
    def __init__(self, node: _Optional[str] = ..., cpus: _Optional[bytes] = ..., memory_mib: _Optional[int] = ..., gpus: _Optional[bytes] = ..., tasks: _Optional[int] = ..., gpu_share_milli: _Optional[int] = ...) -> None: ...

class TresAmount(_message.Message):
    __slots__ = ("name", "amount")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    amount: int
    def __init__(self, name: _Optional[str] = ..., amount: _Optional[int] = ...) -> None: ...

class ResourceRequest(_message.Message):
    __slots__ = ("nodes_min", "nodes_max", "tasks", "tasks_per_node", "cpus_per_task", "cpus_per_node_min", "memory_per_node_mib", "memory_per_cpu_mib", "memory_per_gpu_mib", "gpus_per_node", "gpus_per_task", "gpus_total", "gpu_type", "exclusive", "required_nodes", "excluded_nodes", "features", "gpu_share_milli", "gpu_share_of_node", "gpu_memory_min_mib", "gpu_capability_min", "affinity", "topology_level", "topology_required", "switches", "switches_wait_s", "segment", "spread", "tasks_follow_nodes", "reservation", "licenses", "exclusive_user", "nodes_step")
    NODES_MIN_FIELD_NUMBER: _ClassVar[int]
    NODES_MAX_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_NODE_MIN_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PER_NODE_MIB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PER_CPU_MIB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PER_GPU_MIB_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    GPUS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_NODES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_NODES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    GPU_SHARE_MILLI_FIELD_NUMBER: _ClassVar[int]
    GPU_SHARE_OF_NODE_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_MIN_MIB_FIELD_NUMBER: _ClassVar[int]
    GPU_CAPABILITY_MIN_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    TASKS_FOLLOW_NODES_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    LICENSES_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_USER_FIELD_NUMBER: _ClassVar[int]
    NODES_STEP_FIELD_NUMBER: _ClassVar[int]
    nodes_min: int
    nodes_max: int
    tasks: int
    tasks_per_node: int
    cpus_per_task: int
    cpus_per_node_min: int
    memory_per_node_mib: int
    memory_per_cpu_mib: int
    memory_per_gpu_mib: int
    gpus_per_node: int
    gpus_per_task: int
    gpus_total: int
    gpu_type: str
    exclusive: bool
    required_nodes: _containers.RepeatedScalarFieldContainer[str]
    excluded_nodes: _containers.RepeatedScalarFieldContainer[str]
    features: str
    gpu_share_milli: int
    gpu_share_of_node: bool
    gpu_memory_min_mib: int
    gpu_capability_min: str
    affinity: str
    topology_level: str
    topology_required: bool
    switches: int
    switches_wait_s: float
    segment: int
    spread: bool
    tasks_follow_nodes: bool
    reservation: str
    licenses: _containers.RepeatedCompositeFieldContainer[LicenseCount]
    exclusive_user: int
    nodes_step: int
    def __init__(self, nodes_min: _Optional[int] = ..., nodes_max: _Optional[int] = ..., tasks: _Optional[int] = ..., tasks_per_node: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., cpus_per_node_min: _Optional[int] = ..., memory_per_node_mib: _Optional[int] = ..., memory_per_cpu_mib: _Optional[int] = ..., memory_per_gpu_mib: _Optional[int] = ..., gpus_per_node: _Optional[int] = ..., gpus_per_task: _Optional[int] = ..., gpus_total: _Optional[int] = ..., gpu_type: _Optional[str] = ..., exclusive: bool = ..., required_nodes: _Optional[_Iterable[str]] = ..., excluded_nodes: _Optional[_Iterable[str]] = ..., features: _Optional[str] = ..., gpu_share_milli: _Optional[int] = ..., gpu_share_of_node: bool = ..., gpu_memory_min_mib: _Optional[int] = ..., gpu_capability_min: _Optional[str] = ..., affinity: _Optional[str] = ..., topology_level: _Optional[str] = ..., topology_required: bool = ..., switches: _Optional[int] = ..., switches_wait_s: _Optional[float] = ..., segment: _Optional[int] = ..., spread: bool = ..., tasks_follow_nodes: bool = ..., reservation: _Optional[str] = ..., licenses: _Optional[_Iterable[_Union[LicenseCount, _Mapping]]] = ..., exclusive_user: _Optional[int] = ..., nodes_step: _Optional[int] = ...) -> None: ...

class LicenseCount(_message.Message):
    __slots__ = ("name", "count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class Dependency(_message.Message):
    __slots__ = ("kind", "job_id", "task_id", "delay_s")
    KIND_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    DELAY_S_FIELD_NUMBER: _ClassVar[int]
    kind: str
    job_id: int
    task_id: int
    delay_s: float
    def __init__(self, kind: _Optional[str] = ..., job_id: _Optional[int] = ..., task_id: _Optional[int] = ..., delay_s: _Optional[float] = ...) -> None: ...

class SignalBeforeEnd(_message.Message):
    __slots__ = ("signal", "seconds_before", "batch_shell_only")
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    SECONDS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SHELL_ONLY_FIELD_NUMBER: _ClassVar[int]
    signal: int
    seconds_before: float
    batch_shell_only: bool
    def __init__(self, signal: _Optional[int] = ..., seconds_before: _Optional[float] = ..., batch_shell_only: bool = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("run", "path", "step", "epoch", "size_bytes", "duration_s", "time", "reason", "metadata", "modified")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_FIELD_NUMBER: _ClassVar[int]
    run: int
    path: str
    step: int
    epoch: int
    size_bytes: int
    duration_s: float
    time: float
    reason: str
    metadata: _containers.ScalarMap[str, str]
    modified: float
    def __init__(self, run: _Optional[int] = ..., path: _Optional[str] = ..., step: _Optional[int] = ..., epoch: _Optional[int] = ..., size_bytes: _Optional[int] = ..., duration_s: _Optional[float] = ..., time: _Optional[float] = ..., reason: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., modified: _Optional[float] = ...) -> None: ...

class CheckpointSignal(_message.Message):
    __slots__ = ("signal", "grace_s", "to_shells")
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    TO_SHELLS_FIELD_NUMBER: _ClassVar[int]
    signal: int
    grace_s: float
    to_shells: bool
    def __init__(self, signal: _Optional[int] = ..., grace_s: _Optional[float] = ..., to_shells: bool = ...) -> None: ...

class PreemptionWish(_message.Message):
    __slots__ = ("policy", "min_difference", "max_victims")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    MIN_DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    MAX_VICTIMS_FIELD_NUMBER: _ClassVar[int]
    policy: str
    min_difference: int
    max_victims: int
    def __init__(self, policy: _Optional[str] = ..., min_difference: _Optional[int] = ..., max_victims: _Optional[int] = ...) -> None: ...

class Alternative(_message.Message):
    __slots__ = ("victims", "cost", "why")
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    victims: _containers.RepeatedScalarFieldContainer[int]
    cost: float
    why: str
    def __init__(self, victims: _Optional[_Iterable[int]] = ..., cost: _Optional[float] = ..., why: _Optional[str] = ...) -> None: ...

class PreemptionRecord(_message.Message):
    __slots__ = ("time", "run", "preemptor", "cause", "nodes", "cost", "victims", "total_cost", "alternatives", "end_time", "true_cost", "is_first")
    TIME_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PREEMPTOR_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COST_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    TRUE_COST_FIELD_NUMBER: _ClassVar[int]
    IS_FIRST_FIELD_NUMBER: _ClassVar[int]
    time: float
    run: int
    preemptor: int
    cause: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    cost: float
    victims: _containers.RepeatedScalarFieldContainer[int]
    total_cost: float
    alternatives: _containers.RepeatedCompositeFieldContainer[Alternative]
    end_time: float
    true_cost: float
    is_first: bool
    def __init__(self, time: _Optional[float] = ..., run: _Optional[int] = ..., preemptor: _Optional[int] = ..., cause: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., cost: _Optional[float] = ..., victims: _Optional[_Iterable[int]] = ..., total_cost: _Optional[float] = ..., alternatives: _Optional[_Iterable[_Union[Alternative, _Mapping]]] = ..., end_time: _Optional[float] = ..., true_cost: _Optional[float] = ..., is_first: bool = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("name", "user_id", "group_id", "user_name", "group_name", "partition", "work_dir", "request", "account", "qos", "is_batch", "script_hash", "script_arguments", "environment_hash", "command", "std_in", "std_out", "std_err", "open_mode_append", "output_mode", "umask", "submit_host", "submit_pid", "nodes_given", "tasks", "tasks_per_node", "cpus_per_task", "cpus_per_gpu", "memory_per_node_mib", "memory_per_cpu_mib", "memory_per_gpu_mib", "gpus", "gpus_per_node", "gpus_per_task", "gres", "exclusive", "constraint", "required_nodes", "excluded_nodes", "time_limit_s", "begin_time", "dependencies", "dependency_any", "kill_on_invalid_dependency", "array_tasks", "array_limit", "signal", "requeue", "hold", "nice", "priority", "comment", "wckey", "reservation", "licenses", "deadline", "max_wait_s", "bid", "groups", "max_requeues", "on_node_fail", "on_task_fail", "requeue_on_timeout", "spare_nodes", "elastic", "elastic_signal", "checkpoint_dir", "checkpoint_interval_s", "checkpoint_signal", "checkpoint_keep", "checkpoint_restart_s", "checkpoint_command", "preemption")
    class MaxRequeuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    WORK_DIR_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    IS_BATCH_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_HASH_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_HASH_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    STD_IN_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    OPEN_MODE_APPEND_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_MODE_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_HOST_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_PID_FIELD_NUMBER: _ClassVar[int]
    NODES_GIVEN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_GPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PER_NODE_MIB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PER_CPU_MIB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PER_GPU_MIB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    GRES_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_NODES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_NODES_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    BEGIN_TIME_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_ANY_FIELD_NUMBER: _ClassVar[int]
    KILL_ON_INVALID_DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASKS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    NICE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    WCKEY_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    LICENSES_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    BID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUEUES_FIELD_NUMBER: _ClassVar[int]
    ON_NODE_FAIL_FIELD_NUMBER: _ClassVar[int]
    ON_TASK_FAIL_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_ON_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    SPARE_NODES_FIELD_NUMBER: _ClassVar[int]
    ELASTIC_FIELD_NUMBER: _ClassVar[int]
    ELASTIC_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_DIR_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_KEEP_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_RESTART_S_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_COMMAND_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    user_id: int
    group_id: int
    user_name: str
    group_name: str
    partition: str
    work_dir: str
    request: ResourceRequest
    account: str
    qos: str
    is_batch: bool
    script_hash: str
    script_arguments: _containers.RepeatedScalarFieldContainer[str]
    environment_hash: str
    command: str
    std_in: str
    std_out: str
    std_err: str
    open_mode_append: bool
    output_mode: int
    umask: int
    submit_host: str
    submit_pid: int
    nodes_given: bool
    tasks: int
    tasks_per_node: int
    cpus_per_task: int
    cpus_per_gpu: int
    memory_per_node_mib: int
    memory_per_cpu_mib: int
    memory_per_gpu_mib: int
    gpus: str
    gpus_per_node: str
    gpus_per_task: str
    gres: str
    exclusive: str
    constraint: str
    required_nodes: str
    excluded_nodes: str
    time_limit_s: float
    begin_time: float
    dependencies: _containers.RepeatedCompositeFieldContainer[Dependency]
    dependency_any: bool
    kill_on_invalid_dependency: bool
    array_tasks: _containers.RepeatedScalarFieldContainer[int]
    array_limit: int
    signal: SignalBeforeEnd
    requeue: bool
    hold: bool
    nice: int
    priority: int
    comment: str
    wckey: str
    reservation: str
    licenses: str
    deadline: float
    max_wait_s: float
    bid: float
    groups: _containers.RepeatedScalarFieldContainer[str]
    max_requeues: _containers.ScalarMap[str, int]
    on_node_fail: str
    on_task_fail: str
    requeue_on_timeout: bool
    spare_nodes: int
    elastic: str
    elastic_signal: int
    checkpoint_dir: str
    checkpoint_interval_s: float
    checkpoint_signal: CheckpointSignal
    checkpoint_keep: int
    checkpoint_restart_s: float
    checkpoint_command: str
    preemption: PreemptionWish
    def __init__(self, name: _Optional[str] = ..., user_id: _Optional[int] = ..., group_id: _Optional[int] = ..., user_name: _Optional[str] = ..., group_name: _Optional[str] = ..., partition: _Optional[str] = ..., work_dir: _Optional[str] = ..., request: _Optional[_Union[ResourceRequest, _Mapping]] = ..., account: _Optional[str] = ..., qos: _Optional[str] = ..., is_batch: bool = ..., script_hash: _Optional[str] = ..., script_arguments: _Optional[_Iterable[str]] = ..., environment_hash: _Optional[str] = ..., command: _Optional[str] = ..., std_in: _Optional[str] = ..., std_out: _Optional[str] = ..., std_err: _Optional[str] = ..., open_mode_append: bool = ..., output_mode: _Optional[int] = ..., umask: _Optional[int] = ..., submit_host: _Optional[str] = ..., submit_pid: _Optional[int] = ..., nodes_given: bool = ..., tasks: _Optional[int] = ..., tasks_per_node: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., cpus_per_gpu: _Optional[int] = ..., memory_per_node_mib: _Optional[int] = ..., memory_per_cpu_mib: _Optional[int] = ..., memory_per_gpu_mib: _Optional[int] = ..., gpus: _Optional[str] = ..., gpus_per_node: _Optional[str] = ..., gpus_per_task: _Optional[str] = ..., gres: _Optional[str] = ..., exclusive: _Optional[str] = ..., constraint: _Optional[str] = ..., required_nodes: _Optional[str] = ..., excluded_nodes: _Optional[str] = ..., time_limit_s: _Optional[float] = ..., begin_time: _Optional[float] = ..., dependencies: _Optional[_Iterable[_Union[Dependency, _Mapping]]] = ..., dependency_any: bool = ..., kill_on_invalid_dependency: bool = ..., array_tasks: _Optional[_Iterable[int]] = ..., array_limit: _Optional[int] = ..., signal: _Optional[_Union[SignalBeforeEnd, _Mapping]] = ..., requeue: bool = ..., hold: bool = ..., nice: _Optional[int] = ..., priority: _Optional[int] = ..., comment: _Optional[str] = ..., wckey: _Optional[str] = ..., reservation: _Optional[str] = ..., licenses: _Optional[str] = ..., deadline: _Optional[float] = ..., max_wait_s: _Optional[float] = ..., bid: _Optional[float] = ..., groups: _Optional[_Iterable[str]] = ..., max_requeues: _Optional[_Mapping[str, int]] = ..., on_node_fail: _Optional[str] = ..., on_task_fail: _Optional[str] = ..., requeue_on_timeout: bool = ..., spare_nodes: _Optional[int] = ..., elastic: _Optional[str] = ..., elastic_signal: _Optional[int] = ..., checkpoint_dir: _Optional[str] = ..., checkpoint_interval_s: _Optional[float] = ..., checkpoint_signal: _Optional[_Union[CheckpointSignal, _Mapping]] = ..., checkpoint_keep: _Optional[int] = ..., checkpoint_restart_s: _Optional[float] = ..., checkpoint_command: _Optional[str] = ..., preemption: _Optional[_Union[PreemptionWish, _Mapping]] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("id", "name", "nodes", "tasks", "tasks_per_node", "start_time", "end_time", "state", "exit_code", "exit_signal", "open_nodes", "time_limit_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    OPEN_NODES_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    tasks: int
    tasks_per_node: _containers.RepeatedScalarFieldContainer[int]
    start_time: float
    end_time: float
    state: str
    exit_code: int
    exit_signal: int
    open_nodes: _containers.RepeatedScalarFieldContainer[str]
    time_limit_s: float
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., tasks: _Optional[int] = ..., tasks_per_node: _Optional[_Iterable[int]] = ..., start_time: _Optional[float] = ..., end_time: _Optional[float] = ..., state: _Optional[str] = ..., exit_code: _Optional[int] = ..., exit_signal: _Optional[int] = ..., open_nodes: _Optional[_Iterable[str]] = ..., time_limit_s: _Optional[float] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "spec", "submit_time", "state", "run", "array_job_id", "array_task_id", "pending_tasks", "name", "partition", "time_limit_s", "nice", "comment", "array_limit", "begin_time", "priority", "held", "dependencies", "requeue", "changed_request", "avoided_nodes", "reason", "eligible_time", "start_time", "end_time", "allocation", "prepared_nodes", "open_nodes", "end_cause", "end_state", "cancelled_by", "requeue_held", "exit_code", "exit_signal", "derived_exit_code", "derived_exit_signal", "requeues", "signal_sent", "next_step_id", "steps", "suspended_time_s", "requeue_cause", "pending_reason", "restart_reason", "start_priority", "dependency_any", "deadline", "switches_waived", "allocated_tres", "site_factor", "attained_service_s", "attained_time_s", "bid", "price", "preempt_time", "preemptor", "het_job_id", "het_job_offset", "spares", "replacing", "avoid_until", "joining", "leaving", "keeps_nodes", "limit_used_s", "resize_time", "resized_from", "resize_kind", "service_time", "ending_time", "checkpoints", "checkpoint_requested", "checkpoint_reason", "checkpoint_deadline", "comes_back", "checkpoint_listens", "checkpoints_dropped", "claims", "claim_time", "preemptions")
    class RequeuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class StepsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: Step
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[Step, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    ARRAY_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    PENDING_TASKS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    NICE_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    ARRAY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_TIME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_REQUEST_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    PREPARED_NODES_FIELD_NUMBER: _ClassVar[int]
    OPEN_NODES_FIELD_NUMBER: _ClassVar[int]
    END_CAUSE_FIELD_NUMBER: _ClassVar[int]
    END_STATE_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_BY_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_HELD_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    DERIVED_EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    DERIVED_EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    REQUEUES_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_SENT_FIELD_NUMBER: _ClassVar[int]
    NEXT_STEP_ID_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_TIME_S_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_CAUSE_FIELD_NUMBER: _ClassVar[int]
    PENDING_REASON_FIELD_NUMBER: _ClassVar[int]
    RESTART_REASON_FIELD_NUMBER: _ClassVar[int]
    START_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_ANY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_WAIVED_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_TRES_FIELD_NUMBER: _ClassVar[int]
    SITE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    ATTAINED_SERVICE_S_FIELD_NUMBER: _ClassVar[int]
    ATTAINED_TIME_S_FIELD_NUMBER: _ClassVar[int]
    BID_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_TIME_FIELD_NUMBER: _ClassVar[int]
    PREEMPTOR_FIELD_NUMBER: _ClassVar[int]
    HET_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    HET_JOB_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SPARES_FIELD_NUMBER: _ClassVar[int]
    REPLACING_FIELD_NUMBER: _ClassVar[int]
    AVOID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    JOINING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    KEEPS_NODES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_USED_S_FIELD_NUMBER: _ClassVar[int]
    RESIZE_TIME_FIELD_NUMBER: _ClassVar[int]
    RESIZED_FROM_FIELD_NUMBER: _ClassVar[int]
    RESIZE_KIND_FIELD_NUMBER: _ClassVar[int]
    SERVICE_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDING_TIME_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_REASON_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    COMES_BACK_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_LISTENS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_TIME_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    id: int
    spec: JobSpec
    submit_time: float
    state: str
    run: int
    array_job_id: int
    array_task_id: int
    pending_tasks: _containers.RepeatedScalarFieldContainer[int]
    name: str
    partition: str
    time_limit_s: float
    nice: int
    comment: str
    array_limit: int
    begin_time: float
    priority: int
    held: str
    dependencies: _containers.RepeatedCompositeFieldContainer[Dependency]
    requeue: bool
    changed_request: ResourceRequest
    avoided_nodes: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    eligible_time: float
    start_time: float
    end_time: float
    allocation: _containers.RepeatedCompositeFieldContainer[NodeAllocation]
    prepared_nodes: _containers.RepeatedScalarFieldContainer[str]
    open_nodes: _containers.RepeatedScalarFieldContainer[str]
    end_cause: str
    end_state: str
    cancelled_by: int
    requeue_held: bool
    exit_code: int
    exit_signal: int
    derived_exit_code: int
    derived_exit_signal: int
    requeues: _containers.ScalarMap[str, int]
    signal_sent: bool
    next_step_id: int
    steps: _containers.MessageMap[int, Step]
    suspended_time_s: float
    requeue_cause: str
    pending_reason: str
    restart_reason: str
    start_priority: int
    dependency_any: bool
    deadline: float
    switches_waived: bool
    allocated_tres: _containers.RepeatedCompositeFieldContainer[TresAmount]
    site_factor: int
    attained_service_s: float
    attained_time_s: float
    bid: float
    price: float
    preempt_time: float
    preemptor: int
    het_job_id: int
    het_job_offset: int
    spares: _containers.RepeatedCompositeFieldContainer[NodeAllocation]
    replacing: bool
    avoid_until: float
    joining: _containers.RepeatedCompositeFieldContainer[NodeAllocation]
    leaving: _containers.RepeatedScalarFieldContainer[str]
    keeps_nodes: bool
    limit_used_s: float
    resize_time: float
    resized_from: int
    resize_kind: str
    service_time: float
    ending_time: float
    checkpoints: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    checkpoint_requested: float
    checkpoint_reason: str
    checkpoint_deadline: float
    comes_back: str
    checkpoint_listens: bool
    checkpoints_dropped: int
    claims: int
    claim_time: float
    preemptions: _containers.RepeatedCompositeFieldContainer[PreemptionRecord]
    def __init__(self, id: _Optional[int] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., submit_time: _Optional[float] = ..., state: _Optional[str] = ..., run: _Optional[int] = ..., array_job_id: _Optional[int] = ..., array_task_id: _Optional[int] = ..., pending_tasks: _Optional[_Iterable[int]] = ..., name: _Optional[str] = ..., partition: _Optional[str] = ..., time_limit_s: _Optional[float] = ..., nice: _Optional[int] = ..., comment: _Optional[str] = ..., array_limit: _Optional[int] = ..., begin_time: _Optional[float] = ..., priority: _Optional[int] = ..., held: _Optional[str] = ..., dependencies: _Optional[_Iterable[_Union[Dependency, _Mapping]]] = ..., requeue: bool = ..., changed_request: _Optional[_Union[ResourceRequest, _Mapping]] = ..., avoided_nodes: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., eligible_time: _Optional[float] = ..., start_time: _Optional[float] = ..., end_time: _Optional[float] = ..., allocation: _Optional[_Iterable[_Union[NodeAllocation, _Mapping]]] = ..., prepared_nodes: _Optional[_Iterable[str]] = ..., open_nodes: _Optional[_Iterable[str]] = ..., end_cause: _Optional[str] = ..., end_state: _Optional[str] = ..., cancelled_by: _Optional[int] = ..., requeue_held: bool = ..., exit_code: _Optional[int] = ..., exit_signal: _Optional[int] = ..., derived_exit_code: _Optional[int] = ..., derived_exit_signal: _Optional[int] = ..., requeues: _Optional[_Mapping[str, int]] = ..., signal_sent: bool = ..., next_step_id: _Optional[int] = ..., steps: _Optional[_Mapping[int, Step]] = ..., suspended_time_s: _Optional[float] = ..., requeue_cause: _Optional[str] = ..., pending_reason: _Optional[str] = ..., restart_reason: _Optional[str] = ..., start_priority: _Optional[int] = ..., dependency_any: bool = ..., deadline: _Optional[float] = ..., switches_waived: bool = ..., allocated_tres: _Optional[_Iterable[_Union[TresAmount, _Mapping]]] = ..., site_factor: _Optional[int] = ..., attained_service_s: _Optional[float] = ..., attained_time_s: _Optional[float] = ..., bid: _Optional[float] = ..., price: _Optional[float] = ..., preempt_time: _Optional[float] = ..., preemptor: _Optional[int] = ..., het_job_id: _Optional[int] = ..., het_job_offset: _Optional[int] = ..., spares: _Optional[_Iterable[_Union[NodeAllocation, _Mapping]]] = ..., replacing: bool = ..., avoid_until: _Optional[float] = ..., joining: _Optional[_Iterable[_Union[NodeAllocation, _Mapping]]] = ..., leaving: _Optional[_Iterable[str]] = ..., keeps_nodes: bool = ..., limit_used_s: _Optional[float] = ..., resize_time: _Optional[float] = ..., resized_from: _Optional[int] = ..., resize_kind: _Optional[str] = ..., service_time: _Optional[float] = ..., ending_time: _Optional[float] = ..., checkpoints: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ..., checkpoint_requested: _Optional[float] = ..., checkpoint_reason: _Optional[str] = ..., checkpoint_deadline: _Optional[float] = ..., comes_back: _Optional[str] = ..., checkpoint_listens: bool = ..., checkpoints_dropped: _Optional[int] = ..., claims: _Optional[int] = ..., claim_time: _Optional[float] = ..., preemptions: _Optional[_Iterable[_Union[PreemptionRecord, _Mapping]]] = ...) -> None: ...

class AssociationLimits(_message.Message):
    __slots__ = ("group_tres", "group_jobs", "group_submit_jobs", "max_jobs", "max_submit_jobs", "max_tres_per_job", "max_wall_s", "min_priority", "max_priority")
    class GroupTresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class MaxTresPerJobEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    GROUP_TRES_FIELD_NUMBER: _ClassVar[int]
    GROUP_JOBS_FIELD_NUMBER: _ClassVar[int]
    GROUP_SUBMIT_JOBS_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_FIELD_NUMBER: _ClassVar[int]
    MAX_SUBMIT_JOBS_FIELD_NUMBER: _ClassVar[int]
    MAX_TRES_PER_JOB_FIELD_NUMBER: _ClassVar[int]
    MAX_WALL_S_FIELD_NUMBER: _ClassVar[int]
    MIN_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    group_tres: _containers.ScalarMap[str, int]
    group_jobs: int
    group_submit_jobs: int
    max_jobs: int
    max_submit_jobs: int
    max_tres_per_job: _containers.ScalarMap[str, int]
    max_wall_s: float
    min_priority: int
    max_priority: int
    def __init__(self, group_tres: _Optional[_Mapping[str, int]] = ..., group_jobs: _Optional[int] = ..., group_submit_jobs: _Optional[int] = ..., max_jobs: _Optional[int] = ..., max_submit_jobs: _Optional[int] = ..., max_tres_per_job: _Optional[_Mapping[str, int]] = ..., max_wall_s: _Optional[float] = ..., min_priority: _Optional[int] = ..., max_priority: _Optional[int] = ...) -> None: ...

class Account(_message.Message):
    __slots__ = ("name", "parent", "description", "organization", "weight", "priority", "limits", "guarantee", "borrow_limit", "lend_limit", "qos", "default_qos", "budget", "budget_period_s")
    class GuaranteeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class BorrowLimitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class LendLimitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ORGANIZATION_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    GUARANTEE_FIELD_NUMBER: _ClassVar[int]
    BORROW_LIMIT_FIELD_NUMBER: _ClassVar[int]
    LEND_LIMIT_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_QOS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    BUDGET_PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    parent: str
    description: str
    organization: str
    weight: int
    priority: int
    limits: AssociationLimits
    guarantee: _containers.ScalarMap[str, int]
    borrow_limit: _containers.ScalarMap[str, int]
    lend_limit: _containers.ScalarMap[str, int]
    qos: _containers.RepeatedScalarFieldContainer[str]
    default_qos: str
    budget: float
    budget_period_s: float
    def __init__(self, name: _Optional[str] = ..., parent: _Optional[str] = ..., description: _Optional[str] = ..., organization: _Optional[str] = ..., weight: _Optional[int] = ..., priority: _Optional[int] = ..., limits: _Optional[_Union[AssociationLimits, _Mapping]] = ..., guarantee: _Optional[_Mapping[str, int]] = ..., borrow_limit: _Optional[_Mapping[str, int]] = ..., lend_limit: _Optional[_Mapping[str, int]] = ..., qos: _Optional[_Iterable[str]] = ..., default_qos: _Optional[str] = ..., budget: _Optional[float] = ..., budget_period_s: _Optional[float] = ...) -> None: ...

class Association(_message.Message):
    __slots__ = ("account", "user", "weight", "priority", "limits", "qos", "default_qos")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_QOS_FIELD_NUMBER: _ClassVar[int]
    account: str
    user: str
    weight: int
    priority: int
    limits: AssociationLimits
    qos: _containers.RepeatedScalarFieldContainer[str]
    default_qos: str
    def __init__(self, account: _Optional[str] = ..., user: _Optional[str] = ..., weight: _Optional[int] = ..., priority: _Optional[int] = ..., limits: _Optional[_Union[AssociationLimits, _Mapping]] = ..., qos: _Optional[_Iterable[str]] = ..., default_qos: _Optional[str] = ...) -> None: ...

class AccountUser(_message.Message):
    __slots__ = ("name", "default_account")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    default_account: str
    def __init__(self, name: _Optional[str] = ..., default_account: _Optional[str] = ...) -> None: ...

class Qos(_message.Message):
    __slots__ = ("name", "description", "priority", "flags", "group_tres", "group_jobs", "group_submit_jobs", "max_tres_per_user", "max_jobs_per_user", "max_submit_jobs_per_user", "max_tres_per_job", "max_wall_s", "min_priority", "max_priority", "preempt", "preempt_mode", "preempt_exempt_s", "grace_s")
    class GroupTresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class MaxTresPerUserEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class MaxTresPerJobEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    GROUP_TRES_FIELD_NUMBER: _ClassVar[int]
    GROUP_JOBS_FIELD_NUMBER: _ClassVar[int]
    GROUP_SUBMIT_JOBS_FIELD_NUMBER: _ClassVar[int]
    MAX_TRES_PER_USER_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_PER_USER_FIELD_NUMBER: _ClassVar[int]
    MAX_SUBMIT_JOBS_PER_USER_FIELD_NUMBER: _ClassVar[int]
    MAX_TRES_PER_JOB_FIELD_NUMBER: _ClassVar[int]
    MAX_WALL_S_FIELD_NUMBER: _ClassVar[int]
    MIN_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_MODE_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_EXEMPT_S_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    priority: int
    flags: _containers.RepeatedScalarFieldContainer[str]
    group_tres: _containers.ScalarMap[str, int]
    group_jobs: int
    group_submit_jobs: int
    max_tres_per_user: _containers.ScalarMap[str, int]
    max_jobs_per_user: int
    max_submit_jobs_per_user: int
    max_tres_per_job: _containers.ScalarMap[str, int]
    max_wall_s: float
    min_priority: int
    max_priority: int
    preempt: _containers.RepeatedScalarFieldContainer[str]
    preempt_mode: str
    preempt_exempt_s: float
    grace_s: float
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., priority: _Optional[int] = ..., flags: _Optional[_Iterable[str]] = ..., group_tres: _Optional[_Mapping[str, int]] = ..., group_jobs: _Optional[int] = ..., group_submit_jobs: _Optional[int] = ..., max_tres_per_user: _Optional[_Mapping[str, int]] = ..., max_jobs_per_user: _Optional[int] = ..., max_submit_jobs_per_user: _Optional[int] = ..., max_tres_per_job: _Optional[_Mapping[str, int]] = ..., max_wall_s: _Optional[float] = ..., min_priority: _Optional[int] = ..., max_priority: _Optional[int] = ..., preempt: _Optional[_Iterable[str]] = ..., preempt_mode: _Optional[str] = ..., preempt_exempt_s: _Optional[float] = ..., grace_s: _Optional[float] = ...) -> None: ...

class AssociationKey(_message.Message):
    __slots__ = ("account", "user")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    account: str
    user: str
    def __init__(self, account: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class AccountChanges(_message.Message):
    __slots__ = ("accounts", "users", "associations", "qos", "removed_accounts", "removed_users", "removed_associations", "removed_qos")
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    ASSOCIATIONS_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_USERS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_ASSOCIATIONS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_QOS_FIELD_NUMBER: _ClassVar[int]
    accounts: _containers.RepeatedCompositeFieldContainer[Account]
    users: _containers.RepeatedCompositeFieldContainer[AccountUser]
    associations: _containers.RepeatedCompositeFieldContainer[Association]
    qos: _containers.RepeatedCompositeFieldContainer[Qos]
    removed_accounts: _containers.RepeatedScalarFieldContainer[str]
    removed_users: _containers.RepeatedScalarFieldContainer[str]
    removed_associations: _containers.RepeatedCompositeFieldContainer[AssociationKey]
    removed_qos: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, accounts: _Optional[_Iterable[_Union[Account, _Mapping]]] = ..., users: _Optional[_Iterable[_Union[AccountUser, _Mapping]]] = ..., associations: _Optional[_Iterable[_Union[Association, _Mapping]]] = ..., qos: _Optional[_Iterable[_Union[Qos, _Mapping]]] = ..., removed_accounts: _Optional[_Iterable[str]] = ..., removed_users: _Optional[_Iterable[str]] = ..., removed_associations: _Optional[_Iterable[_Union[AssociationKey, _Mapping]]] = ..., removed_qos: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeSpec(_message.Message):
    __slots__ = ("name", "cpus", "memory_mib", "gpus", "gpus_declared", "features", "weight", "address", "gpu_memory_mib", "gpu_capability", "gpu_links")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_DECLARED_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    GPU_CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    GPU_LINKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    cpus: int
    memory_mib: int
    gpus: _containers.RepeatedCompositeFieldContainer[GpuGroup]
    gpus_declared: bool
    features: _containers.RepeatedScalarFieldContainer[str]
    weight: int
    address: str
    gpu_memory_mib: int
    gpu_capability: str
    gpu_links: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., cpus: _Optional[int] = ..., memory_mib: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[GpuGroup, _Mapping]]] = ..., gpus_declared: bool = ..., features: _Optional[_Iterable[str]] = ..., weight: _Optional[int] = ..., address: _Optional[str] = ..., gpu_memory_mib: _Optional[int] = ..., gpu_capability: _Optional[str] = ..., gpu_links: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeFacts(_message.Message):
    __slots__ = ("cpus", "memory_mib", "gpus", "host_name", "address", "step_port", "architecture", "operating_system", "version", "boot_time", "daemon_start_time", "sockets", "cores_per_socket", "threads_per_core", "gpu_links", "topology")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    HOST_NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STEP_PORT_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    OPERATING_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BOOT_TIME_FIELD_NUMBER: _ClassVar[int]
    DAEMON_START_TIME_FIELD_NUMBER: _ClassVar[int]
    SOCKETS_FIELD_NUMBER: _ClassVar[int]
    CORES_PER_SOCKET_FIELD_NUMBER: _ClassVar[int]
    THREADS_PER_CORE_FIELD_NUMBER: _ClassVar[int]
    GPU_LINKS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    cpus: int
    memory_mib: int
    gpus: _containers.RepeatedCompositeFieldContainer[GpuGroup]
    host_name: str
    address: str
    step_port: int
    architecture: str
    operating_system: str
    version: str
    boot_time: float
    daemon_start_time: float
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    gpu_links: _containers.RepeatedScalarFieldContainer[str]
    topology: str
    def __init__(self, cpus: _Optional[int] = ..., memory_mib: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[GpuGroup, _Mapping]]] = ..., host_name: _Optional[str] = ..., address: _Optional[str] = ..., step_port: _Optional[int] = ..., architecture: _Optional[str] = ..., operating_system: _Optional[str] = ..., version: _Optional[str] = ..., boot_time: _Optional[float] = ..., daemon_start_time: _Optional[float] = ..., sockets: _Optional[int] = ..., cores_per_socket: _Optional[int] = ..., threads_per_core: _Optional[int] = ..., gpu_links: _Optional[_Iterable[str]] = ..., topology: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("spec", "facts", "state", "responding", "drained", "reason", "reason_time", "reason_user_id", "last_busy_time", "cpus_used", "memory_used_mib", "gpus_used", "jobs", "cpu_load", "free_memory_mib", "stale_runs", "launch_failures", "gpu_shares", "last_placed", "changed_weight", "given_up", "witnesses", "outcomes", "drained_by_health")
    class GpuSharesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    SPEC_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESPONDING_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_USER_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_BUSY_TIME_FIELD_NUMBER: _ClassVar[int]
    CPUS_USED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_MIB_FIELD_NUMBER: _ClassVar[int]
    GPUS_USED_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CPU_LOAD_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    STALE_RUNS_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FAILURES_FIELD_NUMBER: _ClassVar[int]
    GPU_SHARES_FIELD_NUMBER: _ClassVar[int]
    LAST_PLACED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    WITNESSES_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    DRAINED_BY_HEALTH_FIELD_NUMBER: _ClassVar[int]
    spec: NodeSpec
    facts: NodeFacts
    state: str
    responding: bool
    drained: bool
    reason: str
    reason_time: float
    reason_user_id: int
    last_busy_time: float
    cpus_used: bytes
    memory_used_mib: int
    gpus_used: bytes
    jobs: _containers.RepeatedScalarFieldContainer[int]
    cpu_load: float
    free_memory_mib: int
    stale_runs: _containers.RepeatedScalarFieldContainer[str]
    launch_failures: int
    gpu_shares: _containers.ScalarMap[int, int]
    last_placed: int
    changed_weight: int
    given_up: bool
    witnesses: _containers.RepeatedScalarFieldContainer[str]
    outcomes: _containers.RepeatedCompositeFieldContainer[RunOutcome]
    drained_by_health: bool
    def __init__(self, spec: _Optional[_Union[NodeSpec, _Mapping]] = ..., facts: _Optional[_Union[NodeFacts, _Mapping]] = ..., state: _Optional[str] = ..., responding: bool = ..., drained: bool = ..., reason: _Optional[str] = ..., reason_time: _Optional[float] = ..., reason_user_id: _Optional[int] = ..., last_busy_time: _Optional[float] = ..., cpus_used: _Optional[bytes] = ..., memory_used_mib: _Optional[int] = ..., gpus_used: _Optional[bytes] = ..., jobs: _Optional[_Iterable[int]] = ..., cpu_load: _Optional[float] = ..., free_memory_mib: _Optional[int] = ..., stale_runs: _Optional[_Iterable[str]] = ..., launch_failures: _Optional[int] = ..., gpu_shares: _Optional[_Mapping[int, int]] = ..., last_placed: _Optional[int] = ..., changed_weight: _Optional[int] = ..., given_up: bool = ..., witnesses: _Optional[_Iterable[str]] = ..., outcomes: _Optional[_Iterable[_Union[RunOutcome, _Mapping]]] = ..., drained_by_health: bool = ...) -> None: ...

class RunOutcome(_message.Message):
    __slots__ = ("job_id", "user_id", "failure")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    user_id: int
    failure: str
    def __init__(self, job_id: _Optional[int] = ..., user_id: _Optional[int] = ..., failure: _Optional[str] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__ = ("name", "start_time", "end_time", "nodes", "users", "accounts", "partition", "flags", "begun", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    start_time: float
    end_time: float
    nodes: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    partition: str
    flags: _containers.RepeatedScalarFieldContainer[str]
    begun: bool
    request_id: str
    def __init__(self, name: _Optional[str] = ..., start_time: _Optional[float] = ..., end_time: _Optional[float] = ..., nodes: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., accounts: _Optional[_Iterable[str]] = ..., partition: _Optional[str] = ..., flags: _Optional[_Iterable[str]] = ..., begun: bool = ..., request_id: _Optional[str] = ...) -> None: ...
