"""Versions: minislurm's own, and the Slurm whose commands it speaks (client tools gate on it)."""

VERSION = "0.1.0"
SLURM_VERSION = "23.02.7"
