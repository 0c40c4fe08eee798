"""All-reduce between the tasks of a step with torch.distributed (gloo, no GPU needed). Run it under srun."""

from __future__ import annotations

import datetime
import os
import socket
import sys
from pathlib import Path

import torch
import torch.distributed as dist

LENGTH = 1 << 16


def main() -> int:
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    node = os.environ["SLURMD_NODENAME"]
    torch.set_num_threads(1)
    try:
        socket.gethostbyname(node)
    except OSError:
        # A cluster on one machine: the node has a name that only the cluster knows.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    run = "-".join(
        os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    )
    store = Path(f".torch-{run}").absolute()
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=90),
    )
    vector = torch.arange(LENGTH, dtype=torch.int64) * (rank + 1)
    dist.all_reduce(vector)
    expected = torch.arange(LENGTH, dtype=torch.int64) * (world * (world + 1) // 2)
    is_right = bool(torch.equal(vector, expected))
    print(
        f"rank {rank} of {world} on {node}: {LENGTH} sums are {'right' if is_right else 'wrong'}", flush=True
    )
    dist.barrier()
    dist.destroy_process_group()
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
