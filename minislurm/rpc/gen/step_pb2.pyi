from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StepInput(_message.Message):
    __slots__ = ("launch", "stdin", "signal", "received")
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    launch: LaunchStep
    stdin: StepStdin
    signal: StepSignal
    received: StepReceived
    def __init__(self, launch: _Optional[_Union[LaunchStep, _Mapping]] = ..., stdin: _Optional[_Union[StepStdin, _Mapping]] = ..., signal: _Optional[_Union[StepSignal, _Mapping]] = ..., received: _Optional[_Union[StepReceived, _Mapping]] = ...) -> None: ...

class StepReceived(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class LaunchStep(_message.Message):
    __slots__ = ("job_id", "run", "step_id", "arguments", "work_dir", "environment", "tasks", "node_index", "step_node_count", "step_task_count", "step_node_list", "step_tasks_per_node", "cpus_per_task", "std_out", "std_err", "std_in", "append_output", "umask", "output_mode", "kill_on_disconnect", "topology_address", "topology_pattern", "attach", "received")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    WORK_DIR_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NODE_INDEX_FIELD_NUMBER: _ClassVar[int]
    STEP_NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    STEP_TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
    STEP_NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    STEP_TASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    STD_IN_FIELD_NUMBER: _ClassVar[int]
    APPEND_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_MODE_FIELD_NUMBER: _ClassVar[int]
    KILL_ON_DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_PATTERN_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    run: int
    step_id: int
    arguments: _containers.RepeatedScalarFieldContainer[str]
    work_dir: str
    environment: _containers.RepeatedScalarFieldContainer[bytes]
    tasks: _containers.RepeatedScalarFieldContainer[int]
    node_index: int
    step_node_count: int
    step_task_count: int
    step_node_list: str
    step_tasks_per_node: str
    cpus_per_task: int
    std_out: str
    std_err: str
    std_in: str
    append_output: bool
    umask: int
    output_mode: int
    kill_on_disconnect: bool
    topology_address: str
    topology_pattern: str
    attach: bool
    received: int
    def __init__(self, job_id: _Optional[int] = ..., run: _Optional[int] = ..., step_id: _Optional[int] = ..., arguments: _Optional[_Iterable[str]] = ..., work_dir: _Optional[str] = ..., environment: _Optional[_Iterable[bytes]] = ..., tasks: _Optional[_Iterable[int]] = ..., node_index: _Optional[int] = ..., step_node_count: _Optional[int] = ..., step_task_count: _Optional[int] = ..., step_node_list: _Optional[str] = ..., step_tasks_per_node: _Optional[str] = ..., cpus_per_task: _Optional[int] = ..., std_out: _Optional[str] = ..., std_err: _Optional[str] = ..., std_in: _Optional[str] = ..., append_output: bool = ..., umask: _Optional[int] = ..., output_mode: _Optional[int] = ..., kill_on_disconnect: bool = ..., topology_address: _Optional[str] = ..., topology_pattern: _Optional[str] = ..., attach: bool = ..., received: _Optional[int] = ...) -> None: ...

class StepStdin(_message.Message):
    __slots__ = ("data", "end", "task")
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    end: bool
    task: int
    def __init__(self, data: _Optional[bytes] = ..., end: bool = ..., task: _Optional[int] = ...) -> None: ...

class StepSignal(_message.Message):
    __slots__ = ("signal",)
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    signal: int
    def __init__(self, signal: _Optional[int] = ...) -> None: ...

class StepOutput(_message.Message):
    __slots__ = ("started", "data", "task_exited", "done", "message", "input_taken", "number")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TASK_EXITED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    INPUT_TAKEN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    started: StepStarted
    data: StepData
    task_exited: TaskExited
    done: StepDone
    message: StepMessage
    input_taken: StepInputTaken
    number: int
    def __init__(self, started: _Optional[_Union[StepStarted, _Mapping]] = ..., data: _Optional[_Union[StepData, _Mapping]] = ..., task_exited: _Optional[_Union[TaskExited, _Mapping]] = ..., done: _Optional[_Union[StepDone, _Mapping]] = ..., message: _Optional[_Union[StepMessage, _Mapping]] = ..., input_taken: _Optional[_Union[StepInputTaken, _Mapping]] = ..., number: _Optional[int] = ...) -> None: ...

class StepStarted(_message.Message):
    __slots__ = ("pids",)
    PIDS_FIELD_NUMBER: _ClassVar[int]
    pids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, pids: _Optional[_Iterable[int]] = ...) -> None: ...

class StepData(_message.Message):
    __slots__ = ("task", "is_error", "data", "end")
    TASK_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    task: int
    is_error: bool
    data: bytes
    end: bool
    def __init__(self, task: _Optional[int] = ..., is_error: bool = ..., data: _Optional[bytes] = ..., end: bool = ...) -> None: ...

class TaskExited(_message.Message):
    __slots__ = ("task", "exit_code", "exit_signal", "core_dumped")
    TASK_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CORE_DUMPED_FIELD_NUMBER: _ClassVar[int]
    task: int
    exit_code: int
    exit_signal: int
    core_dumped: bool
    def __init__(self, task: _Optional[int] = ..., exit_code: _Optional[int] = ..., exit_signal: _Optional[int] = ..., core_dumped: bool = ...) -> None: ...

class StepMessage(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class StepInputTaken(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class StepDone(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
