"""A training with Hugging Face's Trainer that goes on where it was when its job is started again.

sbatch --checkpoint-dir=checkpoints-%j --open-mode=append --wrap "python3 transformers_training.py"
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from minislurm import checkpoint

FOLDER = Path(os.environ.get("MINISLURM_CHECKPOINT_DIR", "checkpoints"))
STEPS = int(os.environ.get("STEPS", "60"))


class Preemptible(TrainerCallback):  # type: ignore[misc]
    """Reports what the Trainer saves; asks it to save and to stop when the run has to give way."""

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if checkpoint.should_stop():
            control.should_save = control.should_training_stop = True
        elif checkpoint.is_wanted():
            control.should_save = True

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if state.is_world_process_zero:
            path = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            checkpoint.report(path, step=state.global_step)


def main() -> int:
    torch.manual_seed(1)
    words = torch.randint(0, 50, (128, 16))
    data = [{"input_ids": row, "labels": row} for row in words]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2))
    arguments = TrainingArguments(
        output_dir=str(FOLDER),
        max_steps=STEPS,
        save_steps=20,
        per_device_train_batch_size=8,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Preemptible()])
    found = checkpoint.latest()
    print(f"from {found.path if found else 'the beginning'}", flush=True)
    trainer.train(resume_from_checkpoint=found.path if found else None)
    print(f"{trainer.state.global_step} steps are done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
