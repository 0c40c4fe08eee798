"""The parts of a multifactor priority, one by one, as Slurm's sprio shows them."""

from __future__ import annotations

from typing import NamedTuple


class Components(NamedTuple):
    """Each factor times its weight; `nice` is taken away, `site` is an operator's (SiteFactor)."""

    site: int
    age: float
    association: float
    fair_share: float
    job_size: float
    partition: float
    qos: float
    nice: int
