#!/usr/bin/env bash
# Goes on where it was when it is preempted or its node is lost:
#   sbatch --checkpoint-dir=checkpoints-%j checkpointed_training.sh
#SBATCH --job-name=training
#SBATCH --requeue
#SBATCH --open-mode=append
exec python3 "${SLURM_SUBMIT_DIR:-.}/checkpointed_training.py"
