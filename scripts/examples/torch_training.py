"""A training on several nodes with torch.distributed that can be stopped anywhere: preempted, its node
killed, moved to other racks; its weights in the end are those of a training that was left alone. Run it under
srun.

STEPS and STEP_SECONDS say how long it takes; gloo, so that it needs no GPU.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from minislurm.checkpoint.pytorch import Checkpoints, StepBatches

STEPS = int(os.environ.get("STEPS", "300"))
STEP_S = float(os.environ.get("STEP_SECONDS", "0.02"))
SAMPLES, BATCH = 512, 8


def main() -> int:
    rank = join()
    torch.manual_seed(rank)
    samples = torch.randn(SAMPLES, 16, generator=torch.Generator().manual_seed(7))
    targets = samples.square().sum(dim=1, keepdim=True)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    saved = Checkpoints(steps=25, model=model, optimizer=optimizer)
    step = saved.restore()
    say(rank, f"from step {step} on {os.environ['SLURM_JOB_NODELIST']}")
    for batch in StepBatches(SAMPLES, BATCH, first_step=step):
        if step == STEPS:
            break
        loss = (model(samples[batch]) - targets[batch]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        step += 1
        time.sleep(STEP_S)
        say(rank, f"step {step}")
        if saved.after(step):
            say(rank, f"stopped after step {step}")
            break
    else:
        raise AssertionError("batches have no end")
    if step == STEPS:
        digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
        say(rank, f"weights {digest.hexdigest()}")
    dist.destroy_process_group()
    return 0


def average_gradients(model: nn.Module) -> None:
    """DistributedDataParallel does it in buckets, and in other ones in the first step after a start than
    later: the sums are the same, but not their last bits."""
    for parameter in model.parameters():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def join() -> int:
    """Meets the other ranks through a file of the run's own; this one's number."""
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    torch.set_num_threads(1)
    try:
        socket.gethostbyname(os.environ["SLURMD_NODENAME"])
    except OSError:
        # A cluster on one machine: the node has a name that only the cluster knows.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    store = Path(".torch-" + "-".join(os.environ.get(name, "0") for name in names)).absolute()
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=60),
    )
    return rank


def say(rank: int, text: str) -> None:
    if rank == 0:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
