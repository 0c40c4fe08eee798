"""How full a cluster gets: submissions one by one, nothing departs, what does not fit is dropped.

The evaluation of Weng et al. (USENIX ATC'23, see `openb`), by production's filters, node table and placement
strategies. There is neither time nor a queue in it, so the pass around them is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from minislurm.cluster.core import handle
from minislurm.cluster.messages import Configure, RegisterNode
from minislurm.cluster.snapshot import snapshot
from minislurm.cluster.state import ClusterState
from minislurm.domain import configuration_file
from minislurm.domain.configuration import Configuration
from minislurm.domain.node import NodeFacts
from minislurm.domain.resources import ResourceRequest
from minislurm.scheduling.filters import Filters
from minislurm.scheduling.fragmentation import most_frequent
from minislurm.scheduling.model import RequestClass, TypicalRequest
from minislurm.scheduling.nodes import NodeTable
from minislurm.scheduling.place import choose
from minislurm.scheduling.room import Room
from minislurm.scheduling.rooms import Rooms
from minislurm.scheduling.strategies import Strategies
from minislurm.scheduling.work import finished
from minislurm.sim.job_specs import SpecMaker
from minislurm.sim.openb import WHOLE, arrivals, demand_milli
from minislurm.sim.trace import TraceJob


class Fill(Struct, frozen=True):
    """Shares of all GPUs: in use when as much had been asked for as there is, and at the end."""

    at_capacity: float
    at_end: float
    dropped: int


def fill(configuration: Configuration, pods: Sequence[TraceJob], seed: int, factor: float) -> Fill:
    """One run: the pods in the order that `seed` draws, until `factor` times the GPUs have been asked for."""
    capacity = sum(group.count for spec in configuration.nodes for group in spec.gpus) * WHOLE
    packer, specs = Packer(configuration, typical_of(pods)), SpecMaker(configuration)
    asked = allocated = dropped = 0
    at_capacity = 0.0
    for pod in arrivals(pods, capacity, seed, factor):
        demand = demand_milli(pod)
        asked += demand
        if packer.offer(specs.request(pod)):
            allocated += demand
        else:
            dropped += 1
        if not at_capacity and asked >= capacity:
            at_capacity = allocated / capacity
    return Fill(at_capacity, allocated / capacity, dropped)


def typical_of(pods: Sequence[TraceJob]) -> tuple[TypicalRequest, ...]:
    """The most frequent requests that make up 95 % of the pods, those without GPUs included."""
    seen = Counter(
        TypicalRequest(
            0.0, pod.cpus, 1 if pod.gpu_share_milli else pod.gpus, pod.gpu_share_milli or WHOLE, pod.gpu_type
        )
        for pod in pods
    )
    return most_frequent(replace(request, weight=count / len(pods)) for request, count in seen.items())


class Packer:
    """A cluster that is filled, in the way that its configuration says."""

    def __init__(self, configuration: Configuration, typical: Sequence[TypicalRequest] = ()) -> None:
        state = ClusterState()
        handle(state, Configure(configuration_file.to_json(configuration)), 1.0, lambda event: None)
        for spec in configuration.nodes:
            handle(state, RegisterNode(spec.name, NodeFacts()), 1.0, lambda event: None)
        taken = replace(snapshot(state, 1.0), typical=tuple(typical))
        self._table = finished(NodeTable.build(taken.nodes, taken.topology))
        self._filters = Filters(self._table.inventory)
        self._strategies = Strategies(taken, self._table)
        self._partition = configuration.partitions[0]
        self._rooms = Rooms(self._table.changes, len(taken.nodes))

    def offer(self, request: ResourceRequest) -> bool:
        """Places it; False: it does not fit."""
        table = self._table
        shares = choose(self._rooms.get(request, lambda: self._new_room(request)))
        if shares is None:
            return False
        finished(table.place(table.settle(shares) if request.gpu_share_milli else shares))
        return True

    def _new_room(self, request: ResourceRequest) -> Room:
        jobs = RequestClass(request, self._partition, 0.0)
        return Room(
            self._table.inventory, request, self._filters.bounds(jobs), self._filters.allowed(jobs),
            [self._table.free], strategy=self._strategies.of(jobs),
        )  # fmt: skip
