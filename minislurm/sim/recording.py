"""What a replay leaves behind: one record for each job, and how full the cluster was at each instant."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

from minislurm.domain.configuration import Configuration
from minislurm.domain.ids import NodeName
from minislurm.domain.node import Node
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState
from minislurm.domain.topology import Topology
from minislurm.sim.trace import TraceJob


class Run(Struct):
    """One attempt: `units` (GPUs, or CPUs on a cluster without) by rack, from `start` to `end`."""

    start_s: float
    units_by_rack: dict[str, int]
    nodes: int
    end_s: float = 0.0

    @property
    def units(self) -> int:
        return sum(self.units_by_rack.values())


class Outcome(Struct):
    """What became of a job of the trace. Times are the trace's own seconds."""

    trace: TraceJob
    submit_s: float
    #: What its script takes, cut off at its time limit.
    run_s: float = 0.0
    end_s: float = 0.0
    #: None: it never ended (it still waits when nothing is left to happen).
    state: JobState | None = None
    #: False: refused at submission.
    is_known: bool = True
    #: Why it still waits, or was refused.
    why: str = ""
    runs: list[Run] = field(default_factory=list)
    #: By cause ("node_fail", "preempt" …).
    requeues: dict[str, int] = field(default_factory=dict)
    #: Unit-seconds of work that had to be done again.
    lost: float = 0.0

    @property
    def has_run(self) -> bool:
        return self.state is not None and bool(self.runs)

    @property
    def wait_s(self) -> float:
        """Until its first run."""
        return self.runs[0].start_s - self.submit_s

    @property
    def turnaround_s(self) -> float:
        return self.end_s - self.submit_s

    @property
    def owner(self) -> str:
        """The account, or the user where the trace knows none."""
        return self.trace.account or self.trace.user


class Series(Struct):
    """A step function over time: what holds from `times[i]` on."""

    times: array[float] = field(default_factory=lambda: array("d"))
    used: array[float] = field(default_factory=lambda: array("d"))
    pending: array[float] = field(default_factory=lambda: array("d"))
    running: array[float] = field(default_factory=lambda: array("d"))
    #: Free units on nodes that are in use: what a job that needs a whole node cannot have.
    stranded: array[float] = field(default_factory=lambda: array("d"))
    #: Units on nodes that may be used.
    usable: array[float] = field(default_factory=lambda: array("d"))
    _last: tuple[int, ...] = ()

    def add(self, time: float, used: int, pending: int, running: int, stranded: int, usable: int) -> None:
        """The last word on an instant counts."""
        values = (used, pending, running, stranded, usable)
        if values == self._last:
            return
        self._last = values
        if self.times and self.times[-1] == time:
            self.used[-1], self.pending[-1], self.running[-1] = used, pending, running
            self.stranded[-1], self.usable[-1] = stranded, usable
            return
        self.times.append(time)
        self.used.append(used)
        self.pending.append(pending)
        self.running.append(running)
        self.stranded.append(stranded)
        self.usable.append(usable)


class Occupancy:
    """How many units each node has, and has in use. Units are GPUs where the cluster has any, else CPUs."""

    def __init__(self, on_gpus: bool, capacity: dict[NodeName, int], topology: Topology) -> None:
        self.on_gpus = on_gpus
        self.capacity = capacity
        self.total = self.usable = sum(capacity.values())
        self.used = 0
        #: Free units on nodes that are partly in use.
        self.stranded = 0
        self._used_on: Counter[NodeName] = Counter()
        self._down: set[NodeName] = set()
        self.rack_of = {name: topology.leaf_of_node.get(name, "") for name in capacity}

    @classmethod
    def declared(cls, configuration: Configuration) -> Occupancy:
        """Of nodes as the configuration has them, all of them free."""
        on_gpus = any(spec.gpus for spec in configuration.nodes)
        capacity = {
            spec.name: sum(group.count for group in spec.gpus) if on_gpus else spec.cpus or 0
            for spec in configuration.nodes
        }
        return cls(on_gpus, capacity, Topology.of(configuration.topology))

    @classmethod
    def found(cls, nodes: Iterable[Node], topology: Topology) -> Occupancy:
        """Of nodes as they are; what runs on them has to be told (`begin`)."""
        nodes = list(nodes)
        on_gpus = any(node.gpu_count for node in nodes)
        capacity = {node.name: node.gpu_count if on_gpus else node.cpus for node in nodes}
        occupancy = cls(on_gpus, capacity, topology)
        for node in nodes:
            occupancy.set_down(node.name, not node.is_usable)
        return occupancy

    def units(self, part: NodeAllocation) -> int:
        return part.gpu_count if self.on_gpus else part.cpu_count

    def begin(self, allocation: tuple[NodeAllocation, ...], now: float) -> Run:
        by_rack: dict[str, int] = {}
        for part in allocation:
            units = self.units(part)
            rack = self.rack_of[part.node]
            by_rack[rack] = by_rack.get(rack, 0) + units
            self._change(part.node, units)
        return Run(now, by_rack, len(allocation))

    def end(self, allocation: tuple[NodeAllocation, ...]) -> None:
        for part in allocation:
            self._change(part.node, -self.units(part))

    def set_down(self, node: NodeName, down: bool) -> None:
        if down != (node in self._down):
            self.usable += -self.capacity[node] if down else self.capacity[node]
            (self._down.add if down else self._down.discard)(node)

    def _change(self, node: NodeName, units: int) -> None:
        before, capacity = self._used_on[node], self.capacity[node]
        after = before + units
        self._used_on[node] = after
        self.used += units
        self.stranded += (capacity - after if after else 0) - (capacity - before if before else 0)
