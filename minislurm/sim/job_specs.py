"""A trace's job as a submission to this cluster."""

from __future__ import annotations

from msgspec.structs import replace

from minislurm.cluster.queue import looks_of
from minislurm.domain.configuration import Configuration
from minislurm.domain.job import JobSpec
from minislurm.domain.resources import ResourceRequest
from minislurm.sim.trace import TraceJob

#: The limit of a job whose exact run time is nothing: 0 would stand for "no limit".
_SHORTEST_S = 1.0


class SpecMaker:
    """`exact`: the scheduler is told the run time; otherwise the user's estimate."""

    def __init__(self, configuration: Configuration, exact: bool = False) -> None:
        nodes = configuration.nodes
        self._exact = exact
        self._nodes = len(nodes)
        default = configuration.default_partition or next(iter(configuration.partitions), None)
        self._requeue = configuration.jobs.requeue
        self._partition = default.name if default is not None else ""
        self._cpus = max((spec.cpus or 0 for spec in nodes), default=0)
        self._gpus = max((sum(group.count for group in spec.gpus) for spec in nodes), default=0)
        self._looks = looks_of(configuration)
        self._user_ids: dict[str, int] = {}

    @property
    def on_gpus(self) -> bool:
        """Whether `processors` are played by GPUs here."""
        return self._gpus > 0

    def spec(self, job: TraceJob) -> JobSpec:
        user_id = self._user_ids.setdefault(job.user, 1000 + len(self._user_ids))
        limit_s = max(job.run_s, _SHORTEST_S) if self._exact else job.limit_s
        partition = job.partition or self._partition
        # Where nobody goes by bids, one is refused.
        bid = job.bid if self._looks.get(partition) == "auction" else 0.0
        if job.spec is not None:
            return replace(job.spec, partition=partition, time_limit_s=limit_s, bid=bid)
        return JobSpec(
            name=job.name,
            user_id=user_id,
            group_id=user_id,
            user_name=job.user,
            group_name=job.account,
            partition=partition,
            work_dir="/",
            request=self.request(job),
            account=job.account,
            is_batch=True,
            requeue=self._requeue,
            time_limit_s=limit_s,
            bid=bid,
        )

    def request(self, job: TraceJob) -> ResourceRequest:
        gpus, cpus = job.gpus, job.cpus
        if job.processors and self.on_gpus:
            gpus = job.processors
        elif job.processors:
            cpus = job.processors
        nodes = job.nodes or max(self._fewest(gpus, self._gpus), self._fewest(cpus, self._cpus), 1)
        if nodes == 1:
            # One task of everything: the cheapest to place.
            return ResourceRequest(
                cpus_per_task=cpus or max(1, gpus),
                gpus_per_task=gpus,
                gpu_type=job.gpu_type,
                memory_per_node_mib=job.memory_mib,
                gpu_share_milli=job.gpu_share_milli,
            )
        tasks = gpus or cpus
        return ResourceRequest(
            nodes_min=nodes,
            nodes_max=nodes,
            tasks=max(tasks, nodes),
            cpus_per_task=max(1, -(-cpus // tasks)) if tasks else 1,
            gpus_per_task=1 if gpus else 0,
            gpu_type=job.gpu_type,
            memory_per_node_mib=-(-job.memory_mib // nodes),
        )

    def _fewest(self, units: int, most: int) -> int:
        """Nodes that hold so much, but no more than there are: what is too much for all is refused for what
        it is, not for its nodes."""
        return min(-(-units // max(1, most)), self._nodes)
