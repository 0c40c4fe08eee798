#!/bin/bash
#SBATCH --job-name=racks
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --time=5
#SBATCH --output=racks-%j.out
# A gang says where it landed: one line "RACK.NODE" for each of its nodes.
srun bash -c 'echo "$SLURM_TOPOLOGY_ADDR"'
