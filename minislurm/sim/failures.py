"""An overlay of failing nodes, told to the core in the words of real ones: silence, loss, registration.

Times between the failures of one node are exponential with mean `mtbf_s`, repairs exponential with mean
`repair_s`. A host that fails takes what runs on it along; the controller hears nothing more, and gives the
node up after `timers.node_timeout_s`. Every node draws from a generator of its own, so that each policy
meets the same failures as far as its jobs last.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import Struct

from minislurm.domain.ids import NodeName
from minislurm.sim.virtual_cluster import VirtualCluster


class Failures(Struct, frozen=True):
    mtbf_s: float
    repair_s: float = 3600.0
    seed: int = 0


class FailingNodes:
    """`goes_on`: False when nothing is left that a failure could disturb; then nodes stop failing."""

    def __init__(self, failures: Failures, cluster: VirtualCluster, goes_on: Callable[[], bool]) -> None:
        self.count = 0
        self._failures = failures
        self._cluster = cluster
        self._goes_on = goes_on
        self._draws = {name: random.Random(f"{failures.seed}/{name}") for name in cluster.nodes}
        for name in cluster.nodes:
            self._await_failure(name)

    def _await_failure(self, name: NodeName) -> None:
        self._cluster.later(self._draws[name].expovariate(1 / self._failures.mtbf_s), self._fail, name)

    def _fail(self, name: NodeName) -> None:
        if not self._goes_on():
            return
        self.count += 1
        cluster, repair_s = self._cluster, self._draws[name].expovariate(1 / self._failures.repair_s)
        cluster.kill_node(name)
        timeout_s = cluster.configuration.timers.node_timeout_s
        if timeout_s < repair_s:
            cluster.later(timeout_s, cluster.declare_lost, name)
        cluster.later(repair_s, self._repair, name)

    def _repair(self, name: NodeName) -> None:
        self._cluster.register(name)
        self._await_failure(name)
