#!/bin/bash
#SBATCH --job-name=array
#SBATCH --array=0-99
#SBATCH --time=5
#SBATCH --output=array-%A_%a.out
# A job array: each of 100 tasks works on its own part. Here: squares, which the reader can add up.
part=$SLURM_ARRAY_TASK_ID
echo "task $part of $SLURM_ARRAY_TASK_COUNT on $SLURMD_NODENAME: $((part * part))"
