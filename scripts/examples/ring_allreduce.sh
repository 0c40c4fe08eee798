#!/bin/bash
#SBATCH --job-name=ring
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --time=5
#SBATCH --output=ring-%j.out
# A gang: all eight ranks start, or none. They add up a vector by passing parts around a ring of sockets.
srun --label python3 "${EXAMPLES:-$SLURM_SUBMIT_DIR}/ring_allreduce.py"
