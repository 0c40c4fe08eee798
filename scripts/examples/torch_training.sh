#!/bin/bash
#SBATCH --job-name=training
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=10
#SBATCH --output=training-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --checkpoint-dir=checkpoints-%j
#SBATCH --checkpoint-keep=2
# Stopped and started again as often as others need its nodes; it goes on where it was.
srun python3 "${EXAMPLES:-$SLURM_SUBMIT_DIR}/torch_training.py"
