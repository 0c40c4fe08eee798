from minislurm.rpc.gen import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeMessage(_message.Message):
    __slots__ = ("registration", "heartbeat", "reports", "health")
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    registration: Registration
    heartbeat: Heartbeat
    reports: Reports
    health: Health
    def __init__(self, registration: _Optional[_Union[Registration, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., reports: _Optional[_Union[Reports, _Mapping]] = ..., health: _Optional[_Union[Health, _Mapping]] = ...) -> None: ...

class Registration(_message.Message):
    __slots__ = ("node", "facts", "runs")
    NODE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    node: str
    facts: _common_pb2.NodeFacts
    runs: _containers.RepeatedCompositeFieldContainer[RunStatus]
    def __init__(self, node: _Optional[str] = ..., facts: _Optional[_Union[_common_pb2.NodeFacts, _Mapping]] = ..., runs: _Optional[_Iterable[_Union[RunStatus, _Mapping]]] = ...) -> None: ...

class RunStatus(_message.Message):
    __slots__ = ("job_id", "run", "phase", "exit_code", "exit_signal", "start_time", "end_time", "running_steps", "launch_failed", "node_lost", "checkpoints", "listens")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    RUNNING_STEPS_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FAILED_FIELD_NUMBER: _ClassVar[int]
    NODE_LOST_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    LISTENS_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    phase: str
    exit_code: int
    exit_signal: int
    start_time: float
    end_time: float
    running_steps: _containers.RepeatedScalarFieldContainer[int]
    launch_failed: bool
    node_lost: bool
    checkpoints: _containers.RepeatedCompositeFieldContainer[CheckpointMade]
    listens: bool
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ..., phase: _Optional[str] = ..., exit_code: _Optional[int] = ..., exit_signal: _Optional[int] = ..., start_time: _Optional[float] = ..., end_time: _Optional[float] = ..., running_steps: _Optional[_Iterable[int]] = ..., launch_failed: bool = ..., node_lost: bool = ..., checkpoints: _Optional[_Iterable[_Union[CheckpointMade, _Mapping]]] = ..., listens: bool = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("cpu_load", "free_memory_mib", "number")
    CPU_LOAD_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    cpu_load: float
    free_memory_mib: int
    number: int
    def __init__(self, cpu_load: _Optional[float] = ..., free_memory_mib: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class Health(_message.Message):
    __slots__ = ("problem",)
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    problem: str
    def __init__(self, problem: _Optional[str] = ...) -> None: ...

class Reports(_message.Message):
    __slots__ = ("reports",)
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[Report]
    def __init__(self, reports: _Optional[_Iterable[_Union[Report, _Mapping]]] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("number", "job_id", "run", "run_prepared", "prepare_failed", "run_started", "batch_exited", "run_cleaned", "step_ended", "checkpoint_made", "checkpoint_listener", "checkpoint_failed")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RUN_PREPARED_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FAILED_FIELD_NUMBER: _ClassVar[int]
    RUN_STARTED_FIELD_NUMBER: _ClassVar[int]
    BATCH_EXITED_FIELD_NUMBER: _ClassVar[int]
    RUN_CLEANED_FIELD_NUMBER: _ClassVar[int]
    STEP_ENDED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_MADE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_LISTENER_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FAILED_FIELD_NUMBER: _ClassVar[int]
    number: int
    job_id: int
    run: int
    run_prepared: RunPrepared
    prepare_failed: PrepareFailed
    run_started: RunStarted
    batch_exited: BatchExited
    run_cleaned: RunCleaned
    step_ended: StepEnded
    checkpoint_made: CheckpointMade
    checkpoint_listener: CheckpointListener
    checkpoint_failed: CheckpointFailed
    def __init__(self, number: _Optional[int] = ..., job_id: _Optional[int] = ..., run: _Optional[int] = ..., run_prepared: _Optional[_Union[RunPrepared, _Mapping]] = ..., prepare_failed: _Optional[_Union[PrepareFailed, _Mapping]] = ..., run_started: _Optional[_Union[RunStarted, _Mapping]] = ..., batch_exited: _Optional[_Union[BatchExited, _Mapping]] = ..., run_cleaned: _Optional[_Union[RunCleaned, _Mapping]] = ..., step_ended: _Optional[_Union[StepEnded, _Mapping]] = ..., checkpoint_made: _Optional[_Union[CheckpointMade, _Mapping]] = ..., checkpoint_listener: _Optional[_Union[CheckpointListener, _Mapping]] = ..., checkpoint_failed: _Optional[_Union[CheckpointFailed, _Mapping]] = ...) -> None: ...

class CheckpointMade(_message.Message):
    __slots__ = ("checkpoint", "answers")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    checkpoint: _common_pb2.Checkpoint
    answers: float
    def __init__(self, checkpoint: _Optional[_Union[_common_pb2.Checkpoint, _Mapping]] = ..., answers: _Optional[float] = ...) -> None: ...

class CheckpointFailed(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: float
    def __init__(self, request: _Optional[float] = ...) -> None: ...

class CheckpointListener(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RunPrepared(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PrepareFailed(_message.Message):
    __slots__ = ("reason", "job_fault")
    REASON_FIELD_NUMBER: _ClassVar[int]
    JOB_FAULT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    job_fault: bool
    def __init__(self, reason: _Optional[str] = ..., job_fault: bool = ...) -> None: ...

class RunStarted(_message.Message):
    __slots__ = ("time",)
    TIME_FIELD_NUMBER: _ClassVar[int]
    time: float
    def __init__(self, time: _Optional[float] = ...) -> None: ...

class BatchExited(_message.Message):
    __slots__ = ("exit_code", "exit_signal", "time", "out_of_memory", "launch_failed", "reason", "clean", "node_lost")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_MEMORY_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FAILED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CLEAN_FIELD_NUMBER: _ClassVar[int]
    NODE_LOST_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    exit_signal: int
    time: float
    out_of_memory: bool
    launch_failed: bool
    reason: str
    clean: bool
    node_lost: bool
    def __init__(self, exit_code: _Optional[int] = ..., exit_signal: _Optional[int] = ..., time: _Optional[float] = ..., out_of_memory: bool = ..., launch_failed: bool = ..., reason: _Optional[str] = ..., clean: bool = ..., node_lost: bool = ...) -> None: ...

class RunCleaned(_message.Message):
    __slots__ = ("time",)
    TIME_FIELD_NUMBER: _ClassVar[int]
    time: float
    def __init__(self, time: _Optional[float] = ...) -> None: ...

class StepEnded(_message.Message):
    __slots__ = ("step_id", "exit_code", "exit_signal", "time")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    exit_code: int
    exit_signal: int
    time: float
    def __init__(self, step_id: _Optional[int] = ..., exit_code: _Optional[int] = ..., exit_signal: _Optional[int] = ..., time: _Optional[float] = ...) -> None: ...

class ControllerMessage(_message.Message):
    __slots__ = ("commands", "acknowledged", "heard", "time", "witnesses")
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    WITNESSES_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    acknowledged: int
    heard: int
    time: float
    witnesses: WitnessSet
    def __init__(self, commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ..., acknowledged: _Optional[int] = ..., heard: _Optional[int] = ..., time: _Optional[float] = ..., witnesses: _Optional[_Union[WitnessSet, _Mapping]] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("registered", "prepare_run", "start_run", "end_run", "signal_run", "forget_run", "tell_nodes", "ask_checkpoint", "delete_checkpoint")
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    PREPARE_RUN_FIELD_NUMBER: _ClassVar[int]
    START_RUN_FIELD_NUMBER: _ClassVar[int]
    END_RUN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_RUN_FIELD_NUMBER: _ClassVar[int]
    FORGET_RUN_FIELD_NUMBER: _ClassVar[int]
    TELL_NODES_FIELD_NUMBER: _ClassVar[int]
    ASK_CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    DELETE_CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    registered: Registered
    prepare_run: PrepareRun
    start_run: StartRun
    end_run: EndRun
    signal_run: SignalRun
    forget_run: ForgetRun
    tell_nodes: TellNodes
    ask_checkpoint: AskCheckpoint
    delete_checkpoint: DeleteCheckpoint
    def __init__(self, registered: _Optional[_Union[Registered, _Mapping]] = ..., prepare_run: _Optional[_Union[PrepareRun, _Mapping]] = ..., start_run: _Optional[_Union[StartRun, _Mapping]] = ..., end_run: _Optional[_Union[EndRun, _Mapping]] = ..., signal_run: _Optional[_Union[SignalRun, _Mapping]] = ..., forget_run: _Optional[_Union[ForgetRun, _Mapping]] = ..., tell_nodes: _Optional[_Union[TellNodes, _Mapping]] = ..., ask_checkpoint: _Optional[_Union[AskCheckpoint, _Mapping]] = ..., delete_checkpoint: _Optional[_Union[DeleteCheckpoint, _Mapping]] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("heartbeat_interval_s", "spec", "cluster")
    HEARTBEAT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    heartbeat_interval_s: float
    spec: _common_pb2.NodeSpec
    cluster: str
    def __init__(self, heartbeat_interval_s: _Optional[float] = ..., spec: _Optional[_Union[_common_pb2.NodeSpec, _Mapping]] = ..., cluster: _Optional[str] = ...) -> None: ...

class WitnessSet(_message.Message):
    __slots__ = ("witnesses",)
    WITNESSES_FIELD_NUMBER: _ClassVar[int]
    witnesses: _containers.RepeatedCompositeFieldContainer[Witness]
    def __init__(self, witnesses: _Optional[_Iterable[_Union[Witness, _Mapping]]] = ...) -> None: ...

class Witness(_message.Message):
    __slots__ = ("node", "address", "port")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    node: str
    address: str
    port: int
    def __init__(self, node: _Optional[str] = ..., address: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class WitnessQuestion(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WitnessAnswer(_message.Message):
    __slots__ = ("silence_s", "up_s")
    SILENCE_S_FIELD_NUMBER: _ClassVar[int]
    UP_S_FIELD_NUMBER: _ClassVar[int]
    silence_s: float
    up_s: float
    def __init__(self, silence_s: _Optional[float] = ..., up_s: _Optional[float] = ...) -> None: ...

class ArrayShape(_message.Message):
    __slots__ = ("count", "first", "last", "step")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    count: int
    first: int
    last: int
    step: int
    def __init__(self, count: _Optional[int] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class PrepareRun(_message.Message):
    __slots__ = ("job_id", "run", "job", "script", "environment", "start", "restart_reason", "topology_address", "topology_pattern", "controller_address", "kill_wait_s", "array", "components")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    RESTART_REASON_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_PATTERN_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KILL_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    job: _common_pb2.Job
    script: bytes
    environment: _containers.RepeatedScalarFieldContainer[bytes]
    start: bool
    restart_reason: str
    topology_address: str
    topology_pattern: str
    controller_address: str
    kill_wait_s: float
    array: ArrayShape
    components: _containers.RepeatedCompositeFieldContainer[_common_pb2.Job]
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ..., job: _Optional[_Union[_common_pb2.Job, _Mapping]] = ..., script: _Optional[bytes] = ..., environment: _Optional[_Iterable[bytes]] = ..., start: bool = ..., restart_reason: _Optional[str] = ..., topology_address: _Optional[str] = ..., topology_pattern: _Optional[str] = ..., controller_address: _Optional[str] = ..., kill_wait_s: _Optional[float] = ..., array: _Optional[_Union[ArrayShape, _Mapping]] = ..., components: _Optional[_Iterable[_Union[_common_pb2.Job, _Mapping]]] = ...) -> None: ...

class StartRun(_message.Message):
    __slots__ = ("job_id", "run")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ...) -> None: ...

class EndRun(_message.Message):
    __slots__ = ("job_id", "run", "cause", "time", "kill_wait_s", "kill")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    KILL_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    KILL_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    cause: str
    time: float
    kill_wait_s: float
    kill: bool
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ..., cause: _Optional[str] = ..., time: _Optional[float] = ..., kill_wait_s: _Optional[float] = ..., kill: bool = ...) -> None: ...

class SignalRun(_message.Message):
    __slots__ = ("job_id", "run", "signal", "step_id", "full", "continue_first")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    CONTINUE_FIRST_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    signal: int
    step_id: int
    full: bool
    continue_first: bool
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ..., signal: _Optional[int] = ..., step_id: _Optional[int] = ..., full: bool = ..., continue_first: bool = ...) -> None: ...

class AskCheckpoint(_message.Message):
    __slots__ = ("job_id", "run", "request", "reason", "seconds_left", "withdrawn")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SECONDS_LEFT_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    request: float
    reason: str
    seconds_left: float
    withdrawn: bool
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ..., request: _Optional[float] = ..., reason: _Optional[str] = ..., seconds_left: _Optional[float] = ..., withdrawn: bool = ...) -> None: ...

class DeleteCheckpoint(_message.Message):
    __slots__ = ("job_id", "run", "path")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    path: str
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ..., path: _Optional[str] = ...) -> None: ...

class ForgetRun(_message.Message):
    __slots__ = ("job_id", "run")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ...) -> None: ...

class TellNodes(_message.Message):
    __slots__ = ("job_id", "run", "allocation", "signal")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    allocation: _containers.RepeatedCompositeFieldContainer[_common_pb2.NodeAllocation]
    signal: int
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ..., allocation: _Optional[_Iterable[_Union[_common_pb2.NodeAllocation, _Mapping]]] = ..., signal: _Optional[int] = ...) -> None: ...
