"""Could a request be met at all, were every node up and idle? The pass' own filters, asked at submission."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from minislurm.domain.configuration import Partition
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.states import PartitionState, Reason
from minislurm.domain.topology import Topology
from minislurm.scheduling.filters import Filters
from minislurm.scheduling.model import NodeAvailability, RequestClass
from minislurm.scheduling.nodes import Inventory
from minislurm.scheduling.work import finished

#: What no change of nodes' states or of the queue would help against.
NEVER = frozenset({Reason.PARTITION_CONFIG, Reason.BAD_CONSTRAINTS, Reason.TOPOLOGY})
#: Answers that are remembered.
_ANSWERS = 10_000


class Ever:
    """Of the nodes as they are made, whatever they do now. A node that never registered may be anything."""

    def __init__(self, nodes: Sequence[NodeAvailability], topology: Topology) -> None:
        up = [node if node.usable else replace(node, usable=True) for node in nodes]
        self._inventory = finished(Inventory.build(up, topology))
        self._filters = Filters(self._inventory)
        self._asked = 0

    def misfit(self, request: ResourceRequest, partition: Partition) -> Reason | None:
        """Why it can never start there; None: it can, or will wait for what is not nodes (more of them than
        the partition has or allows is such a thing, as in Slurm; so are few switches, for a time)."""
        self._asked += 1
        if self._asked % _ANSWERS == 0:
            self._filters = Filters(self._inventory)
        is_open = replace(partition, state=PartitionState.UP, max_time_s=None)
        reason = self._filters.misfit(RequestClass(replace(request, switches=0), is_open, 0.0))
        return reason if reason in NEVER else None
