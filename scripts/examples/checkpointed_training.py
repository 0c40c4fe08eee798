"""A training loop that loses no step when it is preempted, and few when its node dies. Standard library only.

    sbatch --checkpoint-dir=checkpoints-%j --checkpoint-keep=2 checkpointed_training.sh

Outside of minislurm it runs as well, from the beginning to the end.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

from minislurm import checkpoint

STEPS = int(os.environ.get("STEPS", "200"))
STEP_S = float(os.environ.get("STEP_SECONDS", "0.05"))
FOLDER = Path(os.environ.get("MINISLURM_CHECKPOINT_DIR", "checkpoints"))


def load() -> tuple[int, float, random.Random]:
    """Step, weight and random numbers as they were, or as they are at the beginning."""
    found = checkpoint.latest()
    generator = random.Random(1)
    if found is None:
        return 0, 0.0, generator
    state = json.loads(Path(found.path).read_text())
    version, numbers, gauss = state["random"]
    generator.setstate((version, tuple(numbers), gauss))
    print(f"from step {state['step']}", flush=True)
    return state["step"], state["weight"], generator


def save(step: int, weight: float, generator: random.Random) -> None:
    """Written under another name, then renamed: whoever finds it, finds all of it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"step{step}.json"
    unfinished = FOLDER / f".step{step}.tmp"
    with open(unfinished, "w") as file:
        json.dump({"step": step, "weight": weight, "random": generator.getstate()}, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(unfinished, path)
    checkpoint.report(path, step=step, metadata={"weight": weight})


def main() -> int:
    step, weight, generator = load()
    saver = checkpoint.save_every(steps=50)
    while step < STEPS:
        weight = 0.99 * weight + 0.01 * generator.gauss(1.0, 0.1)
        step += 1
        print(f"step {step}", flush=True)
        time.sleep(STEP_S)
        if saver.due(step):
            save(step, weight, generator)
            if checkpoint.should_stop():
                return 0
    print(f"weight {weight!r} after {step} steps", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
