#!/bin/bash
#SBATCH --job-name=torch
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --time=5
#SBATCH --output=torch-%j.out
# The same gang through torch.distributed, as a training script would start it.
srun --label python3 "${EXAMPLES:-$SLURM_SUBMIT_DIR}/torch_allreduce.py"
