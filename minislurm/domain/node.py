"""Nodes: declared in the configuration, found by their daemon, occupied by runs."""

from __future__ import annotations

from msgspec import Struct, field

from minislurm.domain.gpu_links import link_problem
from minislurm.domain.ids import Bitmap, JobId, NodeName
from minislurm.domain.resources import GpuGroup, NodeAllocation, ResourceRequest, capability_number
from minislurm.domain.states import NodeState


class NodeSpec(Struct, frozen=True):
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
    #: What the declared GPUs are; 0 and "": what the daemon finds counts, if it finds GPUs of that type.
    gpu_memory_mib: int = 0
    gpu_capability: str = ""
    #: The matrix of links between GPUs, a row for each, as `nvidia-smi topo -m` has it ("X NV4 SYS …").
    gpu_links: tuple[str, ...] = ()


class NodeFacts(Struct, frozen=True):
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
    #: As in the node's specification; the link on a GPU's own place is its NUMA domain ("N0").
    gpu_links: tuple[str, ...] = ()
    #: Where it stands: "zone=a/rack=r7", from the top down; "" if it does not know.
    topology: str = ""


class RunOutcome(Struct, frozen=True):
    """What became of a run on a node; `failure` "": it ended well."""

    job_id: JobId
    user_id: int
    failure: str = ""


class Witness(Struct, frozen=True):
    """A node that another one asks when it loses the controller. `port` 0: nobody knows yet where it
    listens."""

    node: NodeName
    address: str
    port: int


class Node(Struct):
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
    #: GPUs of which anything is in use.
    gpus_used: Bitmap = Bitmap(0)
    #: Of these, the shared ones: index -> thousandths in use.
    gpu_shares: dict[int, int] = field(default_factory=dict)
    #: The number of the last placement here, counted over all nodes; 0: none yet.
    last_placed: int = 0
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
    #: It was lost, and the time is over in which it had to end its runs itself: nobody waits for it.
    given_up: bool = False
    #: Nodes that its daemon asks when it loses the controller: do they still see it?
    witnesses: tuple[NodeName, ...] = ()
    #: Of its last runs, oldest first, since one of them failed.
    outcomes: tuple[RunOutcome, ...] = ()
    #: Its own health checks drained it, and nobody has said anything since.
    drained_by_health: bool = False

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
        """By type, in the order of their indexes. A declared group has the attributes declared for the node,
        else those that the daemon found of that type."""
        if not self.spec.gpus_declared:
            return self.facts.gpus
        if not (self.spec.gpu_memory_mib or self.spec.gpu_capability or self.facts.gpus):
            return self.spec.gpus
        found = {group.type: group for group in self.facts.gpus}
        return tuple(self._described(group, found.get(group.type, group)) for group in self.spec.gpus)

    def _described(self, group: GpuGroup, found: GpuGroup) -> GpuGroup:
        memory = self.spec.gpu_memory_mib or found.memory_mib
        return GpuGroup(group.count, group.type, memory, self.spec.gpu_capability or found.capability)

    @property
    def gpu_count(self) -> int:
        return sum(group.count for group in self.gpus)

    def gpus_of_type(self, gpu_type: str) -> Bitmap:
        """Indexes of the GPUs of that type ("": of any; "A|B": of either), in the order of the groups."""
        wanted = gpu_type.split("|") if gpu_type else None
        value, first = 0, 0
        for group in self.gpus:
            if wanted is None or group.type in wanted:
                value |= ((1 << group.count) - 1) << first
            first += group.count
        return Bitmap(value)

    def suitable_gpus(self, request: ResourceRequest) -> Bitmap:
        """Indexes of the GPUs that have the type, the memory and the capability that are asked for."""
        wanted = request.gpu_type.split("|") if request.gpu_type else None
        capability = capability_number(request.gpu_capability_min)
        value, first = 0, 0
        for group in self.gpus:
            fits = wanted is None or group.type in wanted
            fits = fits and group.memory_mib >= request.gpu_memory_min_mib
            if fits and capability_number(group.capability) >= capability:
                value |= ((1 << group.count) - 1) << first
            first += group.count
        return Bitmap(value)

    @property
    def gpu_links(self) -> tuple[str, ...]:
        """The matrix of links, a row for each GPU; () where nobody knows it."""
        links = self.spec.gpu_links or self.facts.gpu_links
        return links if links and not link_problem(links, self.gpu_count) else ()

    def take_gpus(self, part: NodeAllocation) -> None:
        """The GPUs, or the share of one, of a run that starts here."""
        self.gpus_used = Bitmap(self.gpus_used | part.gpus)
        if part.gpu_share_milli:
            gpu = part.gpus.bit_length() - 1
            self.gpu_shares[gpu] = self.gpu_shares.get(gpu, 0) + part.gpu_share_milli

    def release_gpus(self, part: NodeAllocation) -> None:
        if part.gpu_share_milli:
            gpu = part.gpus.bit_length() - 1
            self.gpu_shares[gpu] -= part.gpu_share_milli
            if self.gpu_shares[gpu]:
                return
            del self.gpu_shares[gpu]
        self.gpus_used = Bitmap(self.gpus_used & ~part.gpus)

    def has_free(self, part: NodeAllocation) -> bool:
        """Are the GPUs that the part names here, and free enough?"""
        if part.gpus >> self.gpu_count:
            return False
        if not part.gpu_share_milli:
            return not part.gpus & self.gpus_used
        if part.gpus.bit_count() != 1:
            return False
        gpu = part.gpus.bit_length() - 1
        if gpu not in self.gpu_shares:
            return not part.gpus & self.gpus_used
        return self.gpu_shares[gpu] + part.gpu_share_milli <= 1000

    @property
    def is_lost(self) -> bool:
        """It is DOWN, and cannot say what is still there."""
        return self.state is NodeState.DOWN and not self.responding

    @property
    def is_usable(self) -> bool:
        """May new work start here?"""
        return self.state is NodeState.UP and self.responding and not self.drained and not self.stale_runs
