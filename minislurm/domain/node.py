"""Nodes: declared in the configuration, found by their daemon, occupied by runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from minislurm.domain.ids import Bitmap, JobId, NodeName
from minislurm.domain.resources import GpuGroup
from minislurm.domain.states import NodeState


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node as the configuration declares it. None: what its daemon finds counts."""

    name: NodeName
    cpus: int | None = None
    memory_mib: int | None = None
    gpus: tuple[GpuGroup, ...] = ()
    #: `gpus` is the declaration (even if empty), not an omission.
    gpus_declared: bool = False
    features: tuple[str, ...] = ()
    weight: int = 1
    #: Where its daemon can be reached by srun; "": the address it registers from.
    address: str = ""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node daemon found on its host and says at registration."""

    cpus: int = 0
    memory_mib: int = 0
    gpus: tuple[GpuGroup, ...] = ()
    host_name: str = ""
    address: str = ""
    step_port: int = 0
    architecture: str = ""
    operating_system: str = ""
    version: str = ""
    boot_time: float = 0.0
    daemon_start_time: float = 0.0
    sockets: int = 1
    cores_per_socket: int = 0
    threads_per_core: int = 1
    #: Where it stands: "zone=a/rack=r7", from the top down; "" if it does not know.
    topology: str = ""


@dataclass(slots=True)
class Node:
    """A node in the state. The free amounts follow from the runs on it; `state.check()` compares."""

    spec: NodeSpec
    facts: NodeFacts = NodeFacts()
    state: NodeState = NodeState.UNKNOWN
    #: False: silent beyond one heartbeat, or its stream is broken; no new work until it answers.
    responding: bool = False
    drained: bool = False
    reason: str = ""
    reason_time: float = 0.0
    reason_user_id: int = 0
    last_busy_time: float = 0.0
    cpus_used: Bitmap = Bitmap(0)
    memory_used_mib: int = 0
    gpus_used: Bitmap = Bitmap(0)
    jobs: set[JobId] = field(default_factory=set)
    #: Runs ("job.run") that the daemon came back with and that are no longer its own: they are being
    #: ended, and no new work is offered before they are gone.
    stale_runs: tuple[str, ...] = ()
    #: PREPARE failures in a row.
    launch_failures: int = 0
    #: As last reported; not journaled.
    cpu_load: float = 0.0
    free_memory_mib: int = 0
    #: Set by `scontrol update`; None: the configuration's.
    changed_weight: int | None = None

    @property
    def name(self) -> NodeName:
        return self.spec.name

    @property
    def weight(self) -> int:
        return self.changed_weight if self.changed_weight is not None else self.spec.weight

    @property
    def cpus(self) -> int:
        return self.spec.cpus if self.spec.cpus is not None else self.facts.cpus

    @property
    def memory_mib(self) -> int:
        return self.spec.memory_mib if self.spec.memory_mib is not None else self.facts.memory_mib

    @property
    def gpus(self) -> tuple[GpuGroup, ...]:
        return self.spec.gpus if self.spec.gpus_declared else self.facts.gpus

    @property
    def gpu_count(self) -> int:
        return sum(group.count for group in self.gpus)

    def gpus_of_type(self, gpu_type: str) -> Bitmap:
        """Indexes of the GPUs of that type ("": of any), in the order of the groups."""
        value, first = 0, 0
        for group in self.gpus:
            if gpu_type in ("", group.type):
                value |= ((1 << group.count) - 1) << first
            first += group.count
        return Bitmap(value)

    @property
    def is_usable(self) -> bool:
        """May new work start here?"""
        return self.state is NodeState.UP and self.responding and not self.drained and not self.stale_runs
