"""What a job asks of nodes, and what it was given."""

from __future__ import annotations

from msgspec import Struct

from minislurm.domain.ids import Bitmap, NodeName
from minislurm.domain.reservation import LicenseCount

#: As `ResourceRequest.nodes_step`.
DOUBLING = -1


class GpuGroup(Struct, frozen=True):
    """GPUs of one type on one node. `type` is "" where the configuration names none."""

    count: int
    type: str = ""
    #: Of each GPU; 0: not known.
    memory_mib: int = 0
    #: Compute capability, "8.0"; "": not known.
    capability: str = ""


class NodeAllocation(Struct, frozen=True):
    """One node's part of a run: which CPUs, how much memory, which GPUs, how many tasks."""

    node: NodeName
    cpus: Bitmap = Bitmap(0)
    memory_mib: int = 0
    gpus: Bitmap = Bitmap(0)
    tasks: int = 1
    #: Thousandths of the one GPU in `gpus` that the run may use; 0: its GPUs are its own.
    gpu_share_milli: int = 0

    @property
    def cpu_count(self) -> int:
        return self.cpus.bit_count()

    @property
    def gpu_count(self) -> int:
        """GPUs that it uses, be it only a part of one."""
        return self.gpus.bit_count()

    @property
    def gpu_milli(self) -> int:
        """Thousandths of GPUs that nobody else can use."""
        return self.gpu_share_milli or 1000 * self.gpus.bit_count()


class TresAmount(Struct, frozen=True):
    """So much of one trackable resource (tres.py): "gres/gpu:a100", 4."""

    name: str
    amount: int


class ResourceRequest(Struct, frozen=True, cache_hash=True):
    """A job's needs, worked out from its options; what scheduling sees. Identical requests form a class.

    Exactly one of the task forms holds: `tasks` in all, spread so that each node gets at least one and
    at most `tasks_per_node` (0: no bound); each task needs `cpus_per_task` CPUs and `gpus_per_task` GPUs
    on its node. `*_per_node` amounts are taken on every node besides.
    """

    nodes_min: int = 1
    nodes_max: int = 1
    tasks: int = 1
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    #: Every node gives at least so many CPUs (``--mincpus``, ``--cpus-per-gpu`` × GPUs per node).
    cpus_per_node_min: int = 0
    memory_per_node_mib: int = 0
    memory_per_cpu_mib: int = 0
    memory_per_gpu_mib: int = 0
    gpus_per_node: int = 0
    gpus_per_task: int = 0
    #: In all, over however many nodes it takes (``--gpus``); 0: not asked for this way.
    gpus_total: int = 0
    #: One name, or alternatives ("a100|h100"); "" for any.
    gpu_type: str = ""
    #: The whole node: every CPU, all memory, every GPU.
    exclusive: bool = False
    #: All of these must be part of the allocation (``-w``).
    required_nodes: tuple[NodeName, ...] = ()
    excluded_nodes: tuple[NodeName, ...] = ()
    #: Slurm's constraint expression (``-C``), "" for none.
    features: str = ""
    #: Thousandths of one GPU for each task, all tasks of a node on the same GPU; 0: whole GPUs.
    gpu_share_milli: int = 0
    #: The share is for all tasks of a node together (``--gres=shard:2``, ``--gpus=0.5``).
    gpu_share_of_node: bool = False
    #: Each GPU must have so much memory in all, and at least this compute capability ("8.0").
    gpu_memory_min_mib: int = 0
    gpu_capability_min: str = ""
    #: Jobs with the same word prefer the same nodes, where the partition's placement is "affinity".
    affinity: str = ""
    #: Name of the reservation whose nodes it uses; "" for none.
    reservation: str = ""
    #: Held while the job holds nodes; each name once, in order.
    licenses: tuple[LicenseCount, ...] = ()
    #: ``--exclusive=user``: the user alone with whom its nodes may be shared.
    exclusive_user: int | None = None
    #: Inside one domain of this level ("rack"); "": the lowest that holds it.
    topology_level: str = ""
    #: It waits for such a domain, instead of going elsewhere.
    topology_required: bool = False
    #: On at most so many leaf domains (``--switches``); 0: as it comes.
    switches: int = 0
    #: From then on, counted from the time it is eligible, anywhere (seconds).
    switches_wait_s: float = 0.0
    #: Groups of so many nodes that share a leaf domain (``--segment``); 0: none.
    segment: int = 0
    #: Over as many nodes and leaf domains as there are (``--spread-job``).
    spread: bool = False
    #: `tasks` are those of `nodes_min` nodes; more nodes bring more, in proportion (no ``--ntasks``).
    tasks_follow_nodes: bool = False
    #: It runs on `nodes_min` nodes or a multiple of so many more; `DOUBLING`: or on twice as many, and so on;
    #: 0: on any number up to `nodes_max`.
    nodes_step: int = 0

    @property
    def limits_domains(self) -> bool:
        """May it have to wait although nodes enough are free, because of where they are?"""
        return bool((self.topology_level and self.topology_required) or self.switches or self.segment)


def size_within(request: ResourceRequest, nodes: int) -> int:
    """The greatest number of nodes that its steps allow, and that is no more than `nodes` (at least
    `nodes_min`) or its maximum."""
    nodes = min(nodes, request.nodes_max) if request.nodes_max else nodes
    least = max(1, request.nodes_min)
    if request.nodes_step == DOUBLING:
        while 2 * least <= nodes:
            least *= 2
        return least
    return nodes - max(0, nodes - least) % max(1, request.nodes_step)


def share_on_node(request: ResourceRequest, tasks: int) -> int:
    """Thousandths of one GPU that so many tasks need on their node; 0: no share is asked for."""
    return request.gpu_share_milli * (1 if request.gpu_share_of_node else tasks)


def capability_number(text: str) -> int:
    """Compute capability as one number that compares: "8.6" is 8006; "" is 0. Raises ValueError."""
    if not text:
        return 0
    major, _, minor = text.partition(".")
    return int(major) * 1000 + int(minor or 0)
