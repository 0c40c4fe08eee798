"""The values of job options, as the table in `options` fills them. None or "": not given."""

from __future__ import annotations

from msgspec import Struct

from minislurm.cli.option_values import NodeCount, SwitchCount, TopologyLevel
from minislurm.domain.checkpoint import CheckpointSignal
from minislurm.domain.job import SignalBeforeEnd
from minislurm.domain.preemption import PreemptionWish


class JobOptions(Struct):
    # resources
    nodes: NodeCount | None = None
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    mincpus: int | None = None
    mem: int | None = None  # MiB, as all memory here
    mem_per_cpu: int | None = None
    mem_per_gpu: int | None = None
    gres: str | None = None
    gpus: str | None = None
    gpus_per_node: str | None = None
    gpus_per_task: str | None = None
    cpus_per_gpu: int | None = None
    gpu_memory_min: int | None = None  # MiB
    gpu_capability_min: str | None = None
    exclusive: str | None = None
    nodelist: str = ""
    exclude: str = ""
    constraint: str = ""
    reservation: str = ""
    licenses: str = ""
    topology: TopologyLevel | None = None
    switches: SwitchCount | None = None
    segment: int | None = None
    spread_job: bool = False

    # the job
    job_name: str | None = None
    partition: str = ""
    account: str = ""
    qos: str = ""
    wckey: str = ""
    comment: str = ""
    #: Seconds; 0: no limit; None: the partition's default.
    time: float | None = None
    begin: float | None = None
    #: Unix time; None: none.
    deadline: float | None = None
    #: Seconds; 0: as long as it takes.
    max_wait: float = 0.0
    dependency: str = ""
    kill_on_invalid_dep: bool | None = None
    array: str = ""
    hold: bool = False
    nice: int = 0
    priority: int | None = None
    #: Credits for a GPU-hour, or a CPU-hour of a job without GPUs.
    bid: float = 0.0
    preemption: PreemptionWish | None = None
    requeue: bool | None = None
    requeue_on_timeout: bool = False
    #: By cause.
    max_requeues: dict[str, int] | None = None
    on_node_fail: str = ""
    on_task_fail: str = ""
    spare_nodes: int = 0
    elastic: str = ""
    #: As in `ResourceRequest.nodes_step`.
    elastic_step: int | None = None
    elastic_signal: int | None = None
    signal: SignalBeforeEnd | None = None
    clusters: str = ""

    # its checkpoints
    checkpoint_dir: str = ""
    #: Seconds; 0: never asked for because of its age.
    checkpoint_interval: float = 0.0
    checkpoint_signal: CheckpointSignal | None = None
    #: 0: all.
    checkpoint_keep: int = 0
    checkpoint_restart_s: float | None = None
    checkpoint_command: str = ""

    # its streams, folder and environment
    output: str = ""
    error: str = ""
    input: str = ""
    #: Append to existing files.
    open_mode: bool | None = None
    output_mode: int | None = None
    chdir: str = ""
    export: str | None = None

    # sbatch
    wrap: str | None = None
    parsable: bool = False
    test_only: bool = False
    #: sbatch: until the job has ended.
    wait: bool = False
    wait_all_nodes: bool | None = None
    ignore_pbs: bool = False
    mail_type: str = ""

    # srun (and salloc)
    label: bool = False
    unbuffered: bool = False
    overlap: bool = False
    exact: bool = False
    jobid: int | None = None
    mpi: str = ""
    cpu_bind: str = ""
    gpu_bind: str = ""
    #: Seconds to wait for the allocation or the step; None: as long as it takes.
    immediate: float | None = None
    kill_on_bad_exit: bool | None = None
    #: srun -W: seconds after the first task's end until the others are killed; 0: never.
    wait_s: float | None = None
    external_launcher: bool = False

    # what the command says
    quiet: int = 0
    verbose: int = 0
