"""When time alone makes a waiting job eligible."""

from __future__ import annotations

from minislurm.cluster.state import ClusterState
from minislurm.domain.job import Job


def requeue_time(state: ClusterState, job: Job) -> float:
    """The later of its begin time and, after a requeue, of the requeue delay."""
    delay = state.configuration.timers.requeue_delay_s if job.restarts else 0.0
    return max(job.begin_time, job.submit_time + delay)
