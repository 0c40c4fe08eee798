#!/bin/bash
#SBATCH --job-name=whole
#SBATCH --nodes=4
#SBATCH --exclusive
#SBATCH --time=5
#SBATCH --output=whole-%j.out
# Takes every node to itself, so that others wait; the argument says for how many seconds.
echo "all of $SLURM_JOB_NODELIST"
sleep "${1:-0}"
