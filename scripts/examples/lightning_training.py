"""A training with Lightning that goes on where it was when its job is started again.

sbatch --checkpoint-dir=checkpoints-%j --open-mode=append --wrap "python3 lightning_training.py"
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from minislurm import checkpoint

FOLDER = Path(os.environ.get("MINISLURM_CHECKPOINT_DIR", "checkpoints"))
EPOCHS = int(os.environ.get("EPOCHS", "3"))


class Preemptible(lightning.Callback):
    """Saves when it is time to, and when the run has to give way; then it stops."""

    def __init__(self, folder: Path, steps: int = 500) -> None:
        self._folder, self._saver = folder, checkpoint.save_every(steps=steps)

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        step = trainer.global_step
        # Ranks may hear of it at different steps: rank 0 decides for all.
        mine = checkpoint.should_stop(), self._saver.due(step)
        must_stop, is_due = trainer.strategy.broadcast(mine)
        if not (must_stop or is_due):
            return
        path = self._folder / f"step{step}.ckpt"
        trainer.save_checkpoint(path)  # by all ranks
        if trainer.is_global_zero:
            checkpoint.report(path, step=step, epoch=trainer.current_epoch)
        trainer.should_stop = trainer.should_stop or must_stop


class Regression(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        samples, targets = batch
        return nn.functional.mse_loss(self.layers(samples), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> int:
    lightning.seed_everything(1)
    samples = torch.randn(512, 8)
    data = DataLoader(TensorDataset(samples, samples.sum(dim=1, keepdim=True)), batch_size=16)
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        callbacks=[Preemptible(FOLDER, steps=20)],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    found = checkpoint.latest()
    print(f"from {found.path if found else 'the beginning'}", flush=True)
    trainer.fit(Regression(), data, ckpt_path=found.path if found else None)
    print(f"{trainer.global_step} steps are done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
