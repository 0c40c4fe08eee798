from minislurm.rpc.gen import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Event(_message.Message):
    __slots__ = ("version", "cluster_configured", "job_submitted", "job_updated", "job_eligible", "dependency_settled", "run_placed", "node_prepared", "run_started", "run_ending", "node_released", "run_ended", "pending_ended", "job_signalled", "step_created", "step_node_ended", "node_registered", "node_changed", "partition_changed", "partition_updated", "jobs_purged", "request_handled", "requests_forgotten", "task_detached", "job_requeued", "stale_run_ended", "reservation_changed", "reservation_ended", "node_weight_changed", "accounts_changed", "checkpoint_reported", "checkpoint_requested", "checkpoint_withdrawn", "checkpoint_listening", "checkpoint_dropped", "resize_begun", "nodes_joined", "nodes_not_joined", "node_left")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    JOB_SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    JOB_UPDATED_FIELD_NUMBER: _ClassVar[int]
    JOB_ELIGIBLE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_SETTLED_FIELD_NUMBER: _ClassVar[int]
    RUN_PLACED_FIELD_NUMBER: _ClassVar[int]
    NODE_PREPARED_FIELD_NUMBER: _ClassVar[int]
    RUN_STARTED_FIELD_NUMBER: _ClassVar[int]
    RUN_ENDING_FIELD_NUMBER: _ClassVar[int]
    NODE_RELEASED_FIELD_NUMBER: _ClassVar[int]
    RUN_ENDED_FIELD_NUMBER: _ClassVar[int]
    PENDING_ENDED_FIELD_NUMBER: _ClassVar[int]
    JOB_SIGNALLED_FIELD_NUMBER: _ClassVar[int]
    STEP_CREATED_FIELD_NUMBER: _ClassVar[int]
    STEP_NODE_ENDED_FIELD_NUMBER: _ClassVar[int]
    NODE_REGISTERED_FIELD_NUMBER: _ClassVar[int]
    NODE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    PARTITION_CHANGED_FIELD_NUMBER: _ClassVar[int]
    PARTITION_UPDATED_FIELD_NUMBER: _ClassVar[int]
    JOBS_PURGED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_HANDLED_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    TASK_DETACHED_FIELD_NUMBER: _ClassVar[int]
    JOB_REQUEUED_FIELD_NUMBER: _ClassVar[int]
    STALE_RUN_ENDED_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_CHANGED_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_ENDED_FIELD_NUMBER: _ClassVar[int]
    NODE_WEIGHT_CHANGED_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_REPORTED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_LISTENING_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_DROPPED_FIELD_NUMBER: _ClassVar[int]
    RESIZE_BEGUN_FIELD_NUMBER: _ClassVar[int]
    NODES_JOINED_FIELD_NUMBER: _ClassVar[int]
    NODES_NOT_JOINED_FIELD_NUMBER: _ClassVar[int]
    NODE_LEFT_FIELD_NUMBER: _ClassVar[int]
    version: int
    cluster_configured: ClusterConfigured
    job_submitted: JobSubmitted
    job_updated: JobUpdated
    job_eligible: JobEligible
    dependency_settled: DependencySettled
    run_placed: RunPlaced
    node_prepared: NodePrepared
    run_started: RunStarted
    run_ending: RunEnding
    node_released: NodeReleased
    run_ended: RunEnded
    pending_ended: PendingEnded
    job_signalled: JobSignalled
    step_created: StepCreated
    step_node_ended: StepNodeEnded
    node_registered: NodeRegistered
    node_changed: NodeChanged
    partition_changed: PartitionChanged
    partition_updated: PartitionUpdated
    jobs_purged: JobsPurged
    request_handled: RequestHandled
    requests_forgotten: RequestsForgotten
    task_detached: TaskDetached
    job_requeued: JobRequeued
    stale_run_ended: StaleRunEnded
    reservation_changed: ReservationChanged
    reservation_ended: ReservationEnded
    node_weight_changed: NodeWeightChanged
    accounts_changed: AccountsChanged
    checkpoint_reported: CheckpointReported
    checkpoint_requested: CheckpointRequested
    checkpoint_withdrawn: CheckpointWithdrawn
    checkpoint_listening: CheckpointListening
    checkpoint_dropped: CheckpointDropped
    resize_begun: ResizeBegun
    nodes_joined: NodesJoined
    nodes_not_joined: NodesNotJoined
    node_left: NodeLeft
    def __init__(self, version: _Optional[int] = ..., cluster_configured: _Optional[_Union[ClusterConfigured, _Mapping]] = ..., job_submitted: _Optional[_Union[JobSubmitted, _Mapping]] = ..., job_updated: _Optional[_Union[JobUpdated, _Mapping]] = ..., job_eligible: _Optional[_Union[JobEligible, _Mapping]] = ..., dependency_settled: _Optional[_Union[DependencySettled, _Mapping]] = ..., run_placed: _Optional[_Union[RunPlaced, _Mapping]] = ..., node_prepared: _Optional[_Union[NodePrepared, _Mapping]] = ..., run_started: _Optional[_Union[RunStarted, _Mapping]] = ..., run_ending: _Optional[_Union[RunEnding, _Mapping]] = ..., node_released: _Optional[_Union[NodeReleased, _Mapping]] = ..., run_ended: _Optional[_Union[RunEnded, _Mapping]] = ..., pending_ended: _Optional[_Union[PendingEnded, _Mapping]] = ..., job_signalled: _Optional[_Union[JobSignalled, _Mapping]] = ..., step_created: _Optional[_Union[StepCreated, _Mapping]] = ..., step_node_ended: _Optional[_Union[StepNodeEnded, _Mapping]] = ..., node_registered: _Optional[_Union[NodeRegistered, _Mapping]] = ..., node_changed: _Optional[_Union[NodeChanged, _Mapping]] = ..., partition_changed: _Optional[_Union[PartitionChanged, _Mapping]] = ..., partition_updated: _Optional[_Union[PartitionUpdated, _Mapping]] = ..., jobs_purged: _Optional[_Union[JobsPurged, _Mapping]] = ..., request_handled: _Optional[_Union[RequestHandled, _Mapping]] = ..., requests_forgotten: _Optional[_Union[RequestsForgotten, _Mapping]] = ..., task_detached: _Optional[_Union[TaskDetached, _Mapping]] = ..., job_requeued: _Optional[_Union[JobRequeued, _Mapping]] = ..., stale_run_ended: _Optional[_Union[StaleRunEnded, _Mapping]] = ..., reservation_changed: _Optional[_Union[ReservationChanged, _Mapping]] = ..., reservation_ended: _Optional[_Union[ReservationEnded, _Mapping]] = ..., node_weight_changed: _Optional[_Union[NodeWeightChanged, _Mapping]] = ..., accounts_changed: _Optional[_Union[AccountsChanged, _Mapping]] = ..., checkpoint_reported: _Optional[_Union[CheckpointReported, _Mapping]] = ..., checkpoint_requested: _Optional[_Union[CheckpointRequested, _Mapping]] = ..., checkpoint_withdrawn: _Optional[_Union[CheckpointWithdrawn, _Mapping]] = ..., checkpoint_listening: _Optional[_Union[CheckpointListening, _Mapping]] = ..., checkpoint_dropped: _Optional[_Union[CheckpointDropped, _Mapping]] = ..., resize_begun: _Optional[_Union[ResizeBegun, _Mapping]] = ..., nodes_joined: _Optional[_Union[NodesJoined, _Mapping]] = ..., nodes_not_joined: _Optional[_Union[NodesNotJoined, _Mapping]] = ..., node_left: _Optional[_Union[NodeLeft, _Mapping]] = ...) -> None: ...

class ClusterConfigured(_message.Message):
    __slots__ = ("time", "configuration")
    TIME_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    time: float
    configuration: str
    def __init__(self, time: _Optional[float] = ..., configuration: _Optional[str] = ...) -> None: ...

class JobSubmitted(_message.Message):
    __slots__ = ("time", "job", "request_id", "components")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    time: float
    job: _common_pb2.Job
    request_id: str
    components: _containers.RepeatedCompositeFieldContainer[_common_pb2.Job]
    def __init__(self, time: _Optional[float] = ..., job: _Optional[_Union[_common_pb2.Job, _Mapping]] = ..., request_id: _Optional[str] = ..., components: _Optional[_Iterable[_Union[_common_pb2.Job, _Mapping]]] = ...) -> None: ...

class JobUpdated(_message.Message):
    __slots__ = ("time", "job")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    time: float
    job: _common_pb2.Job
    def __init__(self, time: _Optional[float] = ..., job: _Optional[_Union[_common_pb2.Job, _Mapping]] = ...) -> None: ...

class JobRequeued(_message.Message):
    __slots__ = ("time", "job_id", "hold")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    hold: bool
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., hold: bool = ...) -> None: ...

class JobEligible(_message.Message):
    __slots__ = ("time", "job_id")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ...) -> None: ...

class DependencySettled(_message.Message):
    __slots__ = ("time", "job_id", "remaining", "never")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    NEVER_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    remaining: _containers.RepeatedCompositeFieldContainer[_common_pb2.Dependency]
    never: bool
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., remaining: _Optional[_Iterable[_Union[_common_pb2.Dependency, _Mapping]]] = ..., never: bool = ...) -> None: ...

class TaskDetached(_message.Message):
    __slots__ = ("time", "array_job_id", "task_id", "job_id")
    TIME_FIELD_NUMBER: _ClassVar[int]
    ARRAY_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    time: float
    array_job_id: int
    task_id: int
    job_id: int
    def __init__(self, time: _Optional[float] = ..., array_job_id: _Optional[int] = ..., task_id: _Optional[int] = ..., job_id: _Optional[int] = ...) -> None: ...

class RunPlaced(_message.Message):
    __slots__ = ("time", "job_id", "run", "allocation", "pending_reason", "priority", "price", "spares", "limit_used_s")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    PENDING_REASON_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    SPARES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_USED_S_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    allocation: _containers.RepeatedCompositeFieldContainer[_common_pb2.NodeAllocation]
    pending_reason: str
    priority: int
    price: float
    spares: _containers.RepeatedCompositeFieldContainer[_common_pb2.NodeAllocation]
    limit_used_s: float
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., allocation: _Optional[_Iterable[_Union[_common_pb2.NodeAllocation, _Mapping]]] = ..., pending_reason: _Optional[str] = ..., priority: _Optional[int] = ..., price: _Optional[float] = ..., spares: _Optional[_Iterable[_Union[_common_pb2.NodeAllocation, _Mapping]]] = ..., limit_used_s: _Optional[float] = ...) -> None: ...

class NodePrepared(_message.Message):
    __slots__ = ("time", "job_id", "run", "node")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    node: str
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., node: _Optional[str] = ...) -> None: ...

class RunStarted(_message.Message):
    __slots__ = ("time", "job_id", "run")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ...) -> None: ...

class RunEnding(_message.Message):
    __slots__ = ("time", "job_id", "run", "cause", "state", "reason", "exit_code", "exit_signal", "cancelled_by", "hold", "requeue_cause", "avoid_nodes", "released_nodes", "end_time", "preemptor", "replacing", "lost_nodes", "stay_away", "stay_away_until", "decision")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_BY_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_CAUSE_FIELD_NUMBER: _ClassVar[int]
    AVOID_NODES_FIELD_NUMBER: _ClassVar[int]
    RELEASED_NODES_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PREEMPTOR_FIELD_NUMBER: _ClassVar[int]
    REPLACING_FIELD_NUMBER: _ClassVar[int]
    LOST_NODES_FIELD_NUMBER: _ClassVar[int]
    STAY_AWAY_FIELD_NUMBER: _ClassVar[int]
    STAY_AWAY_UNTIL_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    cause: str
    state: str
    reason: str
    exit_code: int
    exit_signal: int
    cancelled_by: int
    hold: bool
    requeue_cause: str
    avoid_nodes: _containers.RepeatedScalarFieldContainer[str]
    released_nodes: _containers.RepeatedScalarFieldContainer[str]
    end_time: float
    preemptor: int
    replacing: bool
    lost_nodes: _containers.RepeatedScalarFieldContainer[str]
    stay_away: _containers.RepeatedScalarFieldContainer[str]
    stay_away_until: float
    decision: _common_pb2.PreemptionRecord
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., cause: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., exit_code: _Optional[int] = ..., exit_signal: _Optional[int] = ..., cancelled_by: _Optional[int] = ..., hold: bool = ..., requeue_cause: _Optional[str] = ..., avoid_nodes: _Optional[_Iterable[str]] = ..., released_nodes: _Optional[_Iterable[str]] = ..., end_time: _Optional[float] = ..., preemptor: _Optional[int] = ..., replacing: bool = ..., lost_nodes: _Optional[_Iterable[str]] = ..., stay_away: _Optional[_Iterable[str]] = ..., stay_away_until: _Optional[float] = ..., decision: _Optional[_Union[_common_pb2.PreemptionRecord, _Mapping]] = ...) -> None: ...

class NodeReleased(_message.Message):
    __slots__ = ("time", "job_id", "run", "node")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    node: str
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., node: _Optional[str] = ...) -> None: ...

class RunEnded(_message.Message):
    __slots__ = ("time", "job_id", "run", "end_time")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    end_time: float
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., end_time: _Optional[float] = ...) -> None: ...

class PendingEnded(_message.Message):
    __slots__ = ("time", "job_id", "state", "reason", "cancelled_by")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_BY_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    state: str
    reason: str
    cancelled_by: int
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., cancelled_by: _Optional[int] = ...) -> None: ...

class JobSignalled(_message.Message):
    __slots__ = ("time", "job_id", "run", "signal", "step_id", "full", "before_end")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    BEFORE_END_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    signal: int
    step_id: int
    full: bool
    before_end: bool
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., signal: _Optional[int] = ..., step_id: _Optional[int] = ..., full: bool = ..., before_end: bool = ...) -> None: ...

class StepCreated(_message.Message):
    __slots__ = ("time", "job_id", "run", "step", "request_id")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    step: _common_pb2.Step
    request_id: str
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., step: _Optional[_Union[_common_pb2.Step, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class StepNodeEnded(_message.Message):
    __slots__ = ("time", "job_id", "run", "step_id", "nodes", "exit_code", "exit_signal")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    step_id: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    exit_code: int
    exit_signal: int
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., step_id: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., exit_code: _Optional[int] = ..., exit_signal: _Optional[int] = ...) -> None: ...

class NodeRegistered(_message.Message):
    __slots__ = ("time", "node", "facts", "runs", "witnesses")
    TIME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    WITNESSES_FIELD_NUMBER: _ClassVar[int]
    time: float
    node: str
    facts: _common_pb2.NodeFacts
    runs: _containers.RepeatedCompositeFieldContainer[KnownRun]
    witnesses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, time: _Optional[float] = ..., node: _Optional[str] = ..., facts: _Optional[_Union[_common_pb2.NodeFacts, _Mapping]] = ..., runs: _Optional[_Iterable[_Union[KnownRun, _Mapping]]] = ..., witnesses: _Optional[_Iterable[str]] = ...) -> None: ...

class KnownRun(_message.Message):
    __slots__ = ("job_id", "run", "clean")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    CLEAN_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    clean: bool
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ..., clean: bool = ...) -> None: ...

class NodeChanged(_message.Message):
    __slots__ = ("time", "node", "state", "responding", "drained", "reason", "reason_time", "reason_user_id", "given_up", "drained_by_health")
    TIME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESPONDING_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_USER_ID_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    DRAINED_BY_HEALTH_FIELD_NUMBER: _ClassVar[int]
    time: float
    node: str
    state: str
    responding: bool
    drained: bool
    reason: str
    reason_time: float
    reason_user_id: int
    given_up: bool
    drained_by_health: bool
    def __init__(self, time: _Optional[float] = ..., node: _Optional[str] = ..., state: _Optional[str] = ..., responding: bool = ..., drained: bool = ..., reason: _Optional[str] = ..., reason_time: _Optional[float] = ..., reason_user_id: _Optional[int] = ..., given_up: bool = ..., drained_by_health: bool = ...) -> None: ...

class PartitionChanged(_message.Message):
    __slots__ = ("time", "name", "state")
    TIME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    time: float
    name: str
    state: str
    def __init__(self, time: _Optional[float] = ..., name: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class PartitionUpdated(_message.Message):
    __slots__ = ("time", "name", "settings")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TIME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    time: float
    name: str
    settings: _containers.ScalarMap[str, str]
    def __init__(self, time: _Optional[float] = ..., name: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class JobsPurged(_message.Message):
    __slots__ = ("time", "job_ids")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, time: _Optional[float] = ..., job_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class RequestHandled(_message.Message):
    __slots__ = ("time", "request_id", "job_id")
    TIME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    time: float
    request_id: str
    job_id: int
    def __init__(self, time: _Optional[float] = ..., request_id: _Optional[str] = ..., job_id: _Optional[int] = ...) -> None: ...

class RequestsForgotten(_message.Message):
    __slots__ = ("time", "request_ids")
    TIME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    time: float
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, time: _Optional[float] = ..., request_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ArraySummary(_message.Message):
    __slots__ = ("id", "live", "highest_exit_code", "ended_tasks")
    class EndedTasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ENDED_TASKS_FIELD_NUMBER: _ClassVar[int]
    id: int
    live: _containers.RepeatedScalarFieldContainer[int]
    highest_exit_code: int
    ended_tasks: _containers.ScalarMap[int, str]
    def __init__(self, id: _Optional[int] = ..., live: _Optional[_Iterable[int]] = ..., highest_exit_code: _Optional[int] = ..., ended_tasks: _Optional[_Mapping[int, str]] = ...) -> None: ...

class RequestRecord(_message.Message):
    __slots__ = ("request_id", "time", "job_id", "step_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    time: float
    job_id: int
    step_id: int
    def __init__(self, request_id: _Optional[str] = ..., time: _Optional[float] = ..., job_id: _Optional[int] = ..., step_id: _Optional[int] = ...) -> None: ...

class PartitionSettings(_message.Message):
    __slots__ = ("values",)
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, str]
    def __init__(self, values: _Optional[_Mapping[str, str]] = ...) -> None: ...

class StateHeader(_message.Message):
    __slots__ = ("next_job_id", "configuration", "partition_states", "partition_settings", "accounts_version", "placements")
    class PartitionStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class PartitionSettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: PartitionSettings
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[PartitionSettings, _Mapping]] = ...) -> None: ...
    NEXT_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_STATES_FIELD_NUMBER: _ClassVar[int]
    PARTITION_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_VERSION_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    next_job_id: int
    configuration: str
    partition_states: _containers.ScalarMap[str, str]
    partition_settings: _containers.MessageMap[str, PartitionSettings]
    accounts_version: int
    placements: int
    def __init__(self, next_job_id: _Optional[int] = ..., configuration: _Optional[str] = ..., partition_states: _Optional[_Mapping[str, str]] = ..., partition_settings: _Optional[_Mapping[str, PartitionSettings]] = ..., accounts_version: _Optional[int] = ..., placements: _Optional[int] = ...) -> None: ...

class UsageRecord(_message.Message):
    __slots__ = ("account", "user", "time", "tres_seconds")
    class TresSecondsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TRES_SECONDS_FIELD_NUMBER: _ClassVar[int]
    account: str
    user: str
    time: float
    tres_seconds: _containers.ScalarMap[str, float]
    def __init__(self, account: _Optional[str] = ..., user: _Optional[str] = ..., time: _Optional[float] = ..., tres_seconds: _Optional[_Mapping[str, float]] = ...) -> None: ...

class HistoryRecord(_message.Message):
    __slots__ = ("user_id", "similar", "run_times_s", "time")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    SIMILAR_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMES_S_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    user_id: int
    similar: str
    run_times_s: _containers.RepeatedScalarFieldContainer[float]
    time: float
    def __init__(self, user_id: _Optional[int] = ..., similar: _Optional[str] = ..., run_times_s: _Optional[_Iterable[float]] = ..., time: _Optional[float] = ...) -> None: ...

class SpendingRecord(_message.Message):
    __slots__ = ("account", "time", "spent")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    account: str
    time: float
    spent: float
    def __init__(self, account: _Optional[str] = ..., time: _Optional[float] = ..., spent: _Optional[float] = ...) -> None: ...

class AccountsChanged(_message.Message):
    __slots__ = ("time", "changes", "request_id")
    TIME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    time: float
    changes: _common_pb2.AccountChanges
    request_id: str
    def __init__(self, time: _Optional[float] = ..., changes: _Optional[_Union[_common_pb2.AccountChanges, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class StaleRunEnded(_message.Message):
    __slots__ = ("time", "node", "run")
    TIME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    time: float
    node: str
    run: str
    def __init__(self, time: _Optional[float] = ..., node: _Optional[str] = ..., run: _Optional[str] = ...) -> None: ...

class ReservationChanged(_message.Message):
    __slots__ = ("time", "reservation")
    TIME_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    time: float
    reservation: _common_pb2.Reservation
    def __init__(self, time: _Optional[float] = ..., reservation: _Optional[_Union[_common_pb2.Reservation, _Mapping]] = ...) -> None: ...

class ReservationEnded(_message.Message):
    __slots__ = ("time", "name")
    TIME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    time: float
    name: str
    def __init__(self, time: _Optional[float] = ..., name: _Optional[str] = ...) -> None: ...

class NodeWeightChanged(_message.Message):
    __slots__ = ("time", "node", "weight")
    TIME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    time: float
    node: str
    weight: int
    def __init__(self, time: _Optional[float] = ..., node: _Optional[str] = ..., weight: _Optional[int] = ...) -> None: ...

class CheckpointReported(_message.Message):
    __slots__ = ("time", "job_id", "run", "checkpoint", "answers", "excess")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    EXCESS_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    checkpoint: _common_pb2.Checkpoint
    answers: bool
    excess: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., checkpoint: _Optional[_Union[_common_pb2.Checkpoint, _Mapping]] = ..., answers: bool = ..., excess: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckpointRequested(_message.Message):
    __slots__ = ("time", "job_id", "run", "reason", "deadline", "preemptor", "comes_back", "decision")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    PREEMPTOR_FIELD_NUMBER: _ClassVar[int]
    COMES_BACK_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    reason: str
    deadline: float
    preemptor: int
    comes_back: str
    decision: _common_pb2.PreemptionRecord
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., reason: _Optional[str] = ..., deadline: _Optional[float] = ..., preemptor: _Optional[int] = ..., comes_back: _Optional[str] = ..., decision: _Optional[_Union[_common_pb2.PreemptionRecord, _Mapping]] = ...) -> None: ...

class CheckpointWithdrawn(_message.Message):
    __slots__ = ("time", "job_id", "run")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ...) -> None: ...

class CheckpointListening(_message.Message):
    __slots__ = ("time", "job_id", "run")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ...) -> None: ...

class CheckpointDropped(_message.Message):
    __slots__ = ("time", "job_id", "run")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ...) -> None: ...

class ResizeBegun(_message.Message):
    __slots__ = ("time", "job_id", "run", "kind", "joining", "leaving", "keeps_nodes", "preemptor")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    JOINING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    KEEPS_NODES_FIELD_NUMBER: _ClassVar[int]
    PREEMPTOR_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    kind: str
    joining: _containers.RepeatedCompositeFieldContainer[_common_pb2.NodeAllocation]
    leaving: _containers.RepeatedScalarFieldContainer[str]
    keeps_nodes: bool
    preemptor: int
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., kind: _Optional[str] = ..., joining: _Optional[_Iterable[_Union[_common_pb2.NodeAllocation, _Mapping]]] = ..., leaving: _Optional[_Iterable[str]] = ..., keeps_nodes: bool = ..., preemptor: _Optional[int] = ...) -> None: ...

class NodesJoined(_message.Message):
    __slots__ = ("time", "job_id", "run", "nodes")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class NodesNotJoined(_message.Message):
    __slots__ = ("time", "job_id", "run", "nodes", "failed_nodes")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    FAILED_NODES_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    failed_nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., failed_nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeLeft(_message.Message):
    __slots__ = ("time", "job_id", "run", "node")
    TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    time: float
    job_id: int
    run: int
    node: str
    def __init__(self, time: _Optional[float] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., node: _Optional[str] = ...) -> None: ...
