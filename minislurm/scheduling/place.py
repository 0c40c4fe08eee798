"""Which nodes a gang gets: whole or not at all, on the fewest leaf domains that can hold it.

Nodes are chosen by the score of the request's room (weight, then fullest first or emptiest first); tasks
are dealt in blocks, as Slurm does: fill the first node, but leave every further node at least one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from minislurm.scheduling.domains import Indexes, leaves_for
from minislurm.scheduling.needs import cpus_on_node, gpus_on_node, memory_on_node, share_on_node
from minislurm.scheduling.nodes import Share
from minislurm.scheduling.room import NEVER, Room


def choose(room: Room) -> list[Share] | None:
    """The gang's shares, neighbours next to each other; None: it does not fit now."""
    bounds = room.bounds
    if not bounds.possible:
        return None
    if bounds.nodes_min == 1 and (bounds.nodes_max == 1 or bounds.fewest):
        node = _one_node(room)
        if node is not None:
            return _shares(room, [node])
        if bounds.nodes_max == 1:
            return None
    eligible = np.flatnonzero(room.tasks > 0)
    if len(eligible) < bounds.nodes_min or not _is_enough(room, eligible):
        return None
    if len(room.request.required_nodes) < bounds.nodes_max and room.request.required_nodes:
        nodes = _with_required(room, eligible)
    elif bounds.fewest:
        nodes = _fewest_nodes(room, eligible)
    else:
        nodes = _most_nodes(room, eligible)
    if nodes is None:
        return None
    leaves = room.inventory.layout.leaf_of_node[nodes]
    return _shares(room, nodes[np.lexsort((nodes, leaves))].tolist())


def _one_node(room: Room) -> int | None:
    """The best node that takes all tasks; of equals one in the leaf that has least room besides."""
    score = room.scores_alone()
    for name in room.request.required_nodes:
        only = np.full_like(score, NEVER)
        only[room.inventory.index[name]] = score[room.inventory.index[name]]
        score = only
    best = int(score.argmin())
    if score[best] == NEVER:
        return None
    if room.inventory.layout.leaf_count > 1 and not room.request.required_nodes:
        equals = np.flatnonzero(score == score[best])
        if len(equals) > 1:
            leaves = room.inventory.layout.leaf_of_node[equals]
            best = int(equals[np.argmin(room.leaves_alone()[leaves])])
    return best


def _most_nodes(room: Room, eligible: Indexes) -> Indexes | None:
    """As many nodes as are asked for or there are: fewer never hold more, so only that number is tried."""
    count = min(room.bounds.nodes_max, len(eligible))
    even = eligible[room.tasks[eligible] >= -(-room.bounds.tasks // count)]
    if room.gpus is not None:
        even = even[room.gpus[even] >= -(-room.request.gpus_total // count)]
    if len(even) < count:
        return _largest(room, eligible, count)
    sums = _by_leaf(room, even, np.ones(len(even)))
    chosen = leaves_for(room.inventory.layout, sums, count)
    assert chosen is not None
    whole, last = _nodes_of(room, even, chosen)
    rest = last[np.lexsort((last, room.score[last]))][: count - len(whole)]
    return np.concatenate((whole, rest))


def _largest(room: Room, eligible: Indexes, count: int) -> Indexes | None:
    """Nodes that hold unequal parts: in the lowest domain where the `count` largest are enough."""
    layout = room.inventory.layout
    for domain_of_leaf in layout.levels:
        domains = domain_of_leaf[layout.leaf_of_node[eligible]]
        sizes = np.bincount(domains)
        for domain in np.argsort(sizes, kind="stable").tolist():
            if sizes[domain] < count:
                continue
            members = eligible[domains == domain]
            amounts = _amounts(room)
            for amount, other in zip(amounts, reversed(amounts), strict=True):
                keys = (room.score[members], -other[members], -amount[members])
                nodes: Indexes = members[np.lexsort(keys)][:count]
                if _is_enough(room, nodes):
                    return nodes
    return None


def _fewest_nodes(room: Room, eligible: Indexes) -> Indexes | None:
    """The largest nodes of the fewest leaves; at the end the best fit for the rest."""
    layout = room.inventory.layout
    amount, need = _amounts(room)[0], float(room.request.gpus_total or room.bounds.tasks)
    sums = _by_leaf(room, eligible, amount[eligible].astype(np.float64))
    chosen = leaves_for(layout, sums, need)
    if chosen is not None:
        whole, last = _nodes_of(room, eligible, chosen)
        rest = _largest_until(room, last, amount, int(need - amount[whole].sum()))
        nodes = np.concatenate((whole, rest))
        if room.bounds.nodes_min <= len(nodes) <= room.bounds.nodes_max and _is_enough(room, nodes):
            return nodes
    return _fewest_of_the_largest(room, eligible)


def _fewest_of_the_largest(room: Room, eligible: Indexes) -> Indexes | None:
    """Rare: a bound on the number of nodes, or tasks and GPUs that are short on different nodes."""
    least, most = room.bounds.nodes_min, min(room.bounds.nodes_max, len(eligible))
    best = _largest(room, eligible, most)
    while best is not None and least < len(best):
        middle = (least + len(best)) // 2
        found = _largest(room, eligible, middle)
        if found is None:
            least = middle + 1
        else:
            best = found
    return best


def _largest_until(room: Room, nodes: Indexes, amount: Indexes, need: int) -> Indexes:
    ranked = nodes[np.lexsort((nodes, room.score[nodes], -amount[nodes]))]
    # Enough for the rest: of these the smallest, and of equals the best score, goes last.
    reached = int(np.searchsorted(np.cumsum(amount[ranked]), need))
    before = ranked[:reached]
    enough = ranked[reached:]
    enough = enough[amount[enough] >= need - int(amount[before].sum())]
    last = enough[np.lexsort((enough, room.score[enough], amount[enough]))][:1]
    return np.concatenate((before, last))


def _with_required(room: Room, eligible: Indexes) -> Indexes | None:
    """The required nodes, and as many others as needed, those in the same leaves first."""
    required = np.array([room.inventory.index[name] for name in room.request.required_nodes], dtype=np.int64)
    if not (room.tasks[required] > 0).all():
        return None
    leaf_of_node = room.inventory.layout.leaf_of_node
    others = np.setdiff1d(eligible, required)
    far = ~np.isin(leaf_of_node[others], leaf_of_node[required])
    near_first = others[np.lexsort((others, room.score[others], leaf_of_node[others], far))]
    most = min(room.bounds.nodes_max, len(eligible)) - len(required)
    least = room.bounds.nodes_min - len(required)
    for count in range(least, most + 1) if room.bounds.fewest else (most,):
        for order in (near_first, *(others[np.argsort(-a[others], kind="stable")] for a in _amounts(room))):
            nodes = np.concatenate((required, order[:count]))
            if _is_enough(room, nodes):
                return nodes
    return None


def _by_leaf(room: Room, nodes: Indexes, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    layout = room.inventory.layout
    sums = np.bincount(layout.leaf_of_node[nodes], weights=amounts, minlength=layout.leaf_count)
    return sums.astype(np.float64)


def _nodes_of(room: Room, nodes: Indexes, chosen: tuple[list[int], int]) -> tuple[Indexes, Indexes]:
    leaves, last = room.inventory.layout.leaf_of_node[nodes], chosen[1]
    return nodes[np.isin(leaves, chosen[0])], nodes[leaves == last]


def _amounts(room: Room) -> list[NDArray[np.int64]]:
    """What the request is short of, the scarcer first."""
    return [room.tasks] if room.gpus is None else [np.where(room.tasks > 0, room.gpus, 0), room.tasks]


def _is_enough(room: Room, nodes: Indexes) -> bool:
    if int(room.tasks[nodes].sum()) < room.bounds.tasks:
        return False
    return room.gpus is None or int(room.gpus[nodes].sum()) >= room.request.gpus_total


def _shares(room: Room, nodes: Sequence[int]) -> list[Share]:
    tasks = _deal_tasks(room, nodes)
    gpus = _deal_gpus(room, nodes, tasks)
    return [_share(room, *part) for part in zip(nodes, tasks, gpus, strict=True)]


def _deal_tasks(room: Room, nodes: Sequence[int]) -> list[int]:
    left, dealt = room.bounds.tasks, []
    for after, node in zip(range(len(nodes) - 1, -1, -1), nodes, strict=True):
        count = min(int(room.tasks[node]), left - after)
        dealt.append(count)
        left -= count
    assert not left, "the nodes hold fewer tasks than their room says"
    return dealt


def _deal_gpus(room: Room, nodes: Sequence[int], tasks: Sequence[int]) -> list[int]:
    """What each node must give; the rest of `gpus_total` as evenly as the nodes allow."""
    gpus = [gpus_on_node(room.request, count) for count in tasks]
    if room.gpus is None:
        return gpus
    most = [int(room.gpus[node]) for node in nodes]
    for _ in range(room.request.gpus_total - sum(gpus)):
        least = min((k for k in range(len(nodes)) if gpus[k] < most[k]), key=gpus.__getitem__)
        gpus[least] += 1
    return gpus


def _share(room: Room, node: int, tasks: int, gpus: int) -> Share:
    request, inventory = room.request, room.inventory
    if request.exclusive:
        total = inventory.total
        rows = tuple(total.gpus[:, node].tolist())
        return Share(node, tasks, int(total.cpus[node]), int(total.memory_mib[node]), rows)
    cpus = cpus_on_node(request, tasks)
    if request.gpu_share_milli:
        milli = share_on_node(request, tasks)
        gpu, rows = room.part_of_gpu(node, milli)
        return Share(node, tasks, cpus, memory_on_node(request, cpus, 0), rows, milli, gpu)
    return Share(node, tasks, cpus, memory_on_node(request, cpus, gpus), room.gpu_rows(node, gpus))
