"""A cluster of one node: where a job goes is no question there, only whether it fits, and when.

What `choose` and `Backfill.reserve` say of it, without arrays: an operation on one costs a microsecond or two
however short it is, and a pass over a flat pool of processors (`flat:PROCS`, as published logs are replayed
on) would be made of little else.
"""

from __future__ import annotations

from minislurm.domain.resources import ResourceRequest
from minislurm.scheduling.needs import Bounds
from minislurm.scheduling.nodes import Counts, Inventory, Mask, Share
from minislurm.scheduling.place import choose
from minislurm.scheduling.room import Room


def share_of_single(
    inventory: Inventory, request: ResourceRequest, bounds: Bounds, allowed: Mask
) -> Share | None:
    """What a job takes of the cluster's only node, whatever else is on it. None: there are several nodes, or
    it depends on what is free there, or the job does not even fit alone."""
    if len(inventory) != 1 or inventory.type_bits or request.exclusive:
        return None
    shares = choose(Room(inventory, request, bounds, allowed, [inventory.total]))
    return shares[0] if shares else None


def fits(share: Share, counts: Counts) -> bool:
    return bool(share.cpus <= counts.cpus[0] and share.memory_mib <= counts.memory_mib[0])
