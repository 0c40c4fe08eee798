"""Options of Slurm's sbatch, srun and salloc that minislurm does not have. Each is refused by name: a job
that asked for what it does not get is worse than an error.

Each line: long name, letter, argument, commands, other long names, input variables.
"""

from __future__ import annotations

_NONE, _ONE, _OPTIONAL = "none", "required", "optional"
_BATCH, _STEP, _SHELL = ("sbatch",), ("srun",), ("salloc",)
_JOBS = ("sbatch", "salloc")
_BATCH_STEP = ("sbatch", "srun")
_STEP_SHELL = ("srun", "salloc")
_ALL = ("sbatch", "srun", "salloc")

Row = tuple[str, str, str, tuple[str, ...], tuple[str, ...], dict[str, str]]


def _all(suffix: str) -> dict[str, str]:
    return {"sbatch": f"SBATCH_{suffix}", "srun": f"SLURM_{suffix}", "salloc": f"SALLOC_{suffix}"}


UNSUPPORTED: tuple[Row, ...] = (
    ("accel-bind", "", _ONE, _STEP, (), {}),
    ("acctg-freq", "", _ONE, _ALL, (), _all("ACCTG_FREQ")),
    ("array", "a", _ONE, _STEP_SHELL, (), {}),
    ("batch", "", _ONE, _BATCH, (), {"sbatch": "SBATCH_BATCH"}),
    (
        "bb",
        "",
        _ONE,
        _ALL,
        ("burst-buffer",),
        {"srun": "SLURM_BURST_BUFFER", "salloc": "SALLOC_BURST_BUFFER"},
    ),
    ("bbf", "", _ONE, _ALL, (), {}),
    ("bcast", "", _OPTIONAL, _STEP, (), {"srun": "SLURM_BCAST"}),
    ("bcast-exclude", "", _ONE, _STEP, (), {}),
    ("bell", "", _NONE, _SHELL, (), {"salloc": "SALLOC_BELL"}),
    ("cluster-constraint", "", _ONE, _BATCH, (), {}),
    ("clusters", "M", _ONE, _STEP_SHELL, ("cluster",), {"srun": "SLURM_CLUSTERS"}),
    ("compress", "", _OPTIONAL, _STEP, (), {"srun": "SLURM_COMPRESS"}),
    ("container", "", _ONE, _ALL, (), _all("CONTAINER")),
    ("container-id", "", _ONE, _ALL, (), _all("CONTAINER_ID")),
    ("contiguous", "", _NONE, _ALL, (), {}),
    ("core-spec", "S", _ONE, _ALL, (), _all("CORE_SPEC")),
    ("cores-per-socket", "", _ONE, _ALL, (), {}),
    ("cpu-freq", "", _ONE, _ALL, (), {"srun": "SLURM_CPU_FREQ_REQ"}),
    ("delay-boot", "", _ONE, _ALL, (), _all("DELAY_BOOT")),
    ("disable-status", "X", _NONE, _STEP, (), {"srun": "SLURM_DISABLE_STATUS"}),
    ("distribution", "m", _ONE, _ALL, (), _all("DISTRIBUTION")),
    ("epilog", "", _ONE, _STEP, (), {"srun": "SLURM_EPILOG"}),
    ("export-file", "", _ONE, _BATCH, (), {}),
    ("extra-node-info", "B", _ONE, _ALL, (), {}),
    ("get-user-env", "", _OPTIONAL, _JOBS, (), {"sbatch": "SBATCH_GET_USER_ENV"}),
    ("gid", "", _ONE, _ALL, (), {}),
    ("gpu-bind", "", _ONE, _JOBS, (), {"sbatch": "SBATCH_GPU_BIND", "salloc": "SALLOC_GPU_BIND"}),
    ("gpu-freq", "", _ONE, _ALL, (), _all("GPU_FREQ")),
    ("gpus-per-socket", "", _ONE, _ALL, (), _all("GPUS_PER_SOCKET")),
    ("gres-flags", "", _ONE, _ALL, (), _all("GRES_FLAGS")),
    ("het-group", "", _ONE, _STEP, (), {}),
    ("hint", "", _ONE, _ALL, (), _all("HINT")),
    ("interactive", "", _NONE, _STEP, (), {}),
    ("jobid", "", _ONE, _BATCH, (), {}),
    ("kill-command", "K", _OPTIONAL, _SHELL, (), {"salloc": "SALLOC_KILL_CMD"}),
    ("mail-user", "", _ONE, _ALL, (), {}),
    ("mcs-label", "", _ONE, _ALL, (), {}),
    ("mem-bind", "", _ONE, _ALL, (), _all("MEM_BIND")),
    ("msg-timeout", "", _ONE, _STEP, (), {"srun": "SLURM_MSG_TIMEOUT"}),
    ("multi-prog", "", _NONE, _STEP, (), {}),
    ("network", "", _ONE, _ALL, (), _all("NETWORK")),
    ("no-allocate", "Z", _NONE, _STEP, (), {}),
    ("no-bell", "", _NONE, _SHELL, (), {"salloc": "SALLOC_NO_BELL"}),
    ("no-kill", "k", _OPTIONAL, _ALL, (), _all("NO_KILL")),
    ("no-shell", "", _NONE, _SHELL, (), {}),
    ("nodefile", "F", _ONE, _JOBS, (), {}),
    ("ntasks-per-core", "", _ONE, _ALL, (), {"srun": "SLURM_NTASKS_PER_CORE"}),
    ("ntasks-per-gpu", "", _ONE, _ALL, (), {"srun": "SLURM_NTASKS_PER_GPU"}),
    ("ntasks-per-socket", "", _ONE, _ALL, (), {"srun": "SLURM_NTASKS_PER_SOCKET"}),
    ("ntasks-per-tres", "", _ONE, _ALL, (), {}),
    ("overcommit", "O", _NONE, _ALL, (), _all("OVERCOMMIT")),
    ("oversubscribe", "s", _NONE, _ALL, ("share",), {}),
    ("power", "", _ONE, _ALL, (), _all("POWER")),
    ("prefer", "", _ONE, _ALL, (), {}),
    ("preserve-env", "E", _NONE, _STEP, (), {}),
    ("profile", "", _ONE, _ALL, (), _all("PROFILE")),
    ("prolog", "", _ONE, _STEP, (), {"srun": "SLURM_PROLOG"}),
    ("propagate", "", _OPTIONAL, _BATCH_STEP, (), {}),
    ("pty", "", _NONE, _STEP, (), {}),
    ("quit-on-interrupt", "", _NONE, _STEP, (), {}),
    ("reboot", "", _NONE, _ALL, (), {}),
    ("relative", "r", _ONE, _STEP, (), {}),
    ("resv-ports", "", _OPTIONAL, _STEP, (), {"srun": "SLURM_RESV_PORTS"}),
    ("send-libs", "", _OPTIONAL, _STEP, (), {"srun": "SLURM_SEND_LIBS"}),
    ("slurmd-debug", "", _ONE, _STEP, (), {}),
    ("sockets-per-node", "", _ONE, _ALL, (), {}),
    ("task-epilog", "", _ONE, _STEP, (), {"srun": "SLURM_TASK_EPILOG"}),
    ("task-prolog", "", _ONE, _STEP, (), {"srun": "SLURM_TASK_PROLOG"}),
    ("thread-spec", "", _ONE, _ALL, (), _all("THREAD_SPEC")),
    ("threads", "T", _ONE, _STEP, (), {"srun": "SLURM_THREADS"}),
    ("threads-per-core", "", _ONE, _ALL, (), _all("THREADS_PER_CORE")),
    ("time-min", "", _ONE, _ALL, (), {}),
    ("tmp", "", _ONE, _ALL, (), {}),
    ("treewidth", "", _ONE, _STEP, (), {}),
    ("tres-bind", "", _ONE, _STEP, (), {}),
    ("tres-per-task", "", _ONE, _STEP, (), {}),
    ("uid", "", _ONE, _ALL, (), {}),
    ("umask", "", _ONE, _STEP, (), {}),
    ("use-min-nodes", "", _NONE, _ALL, (), _all("USE_MIN_NODES")),
    ("whole", "", _NONE, _STEP, (), {"srun": "SLURM_WHOLE"}),
    ("x11", "", _OPTIONAL, _STEP_SHELL, (), {}),
)
