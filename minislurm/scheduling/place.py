"""Which nodes a gang gets: whole or not at all, on the fewest leaf domains that can hold it.

Nodes are chosen by the score of the request's room (weight, then fullest first or emptiest first); tasks
are dealt in blocks, as Slurm does: fill the first node, but leave every further node at least one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import repeat

import numpy as np
from msgspec.structs import replace

from minislurm.domain.resources import size_within
from minislurm.scheduling.counted import choose_counted, passing
from minislurm.scheduling.domains import Indexes, Scope, leaves_for
from minislurm.scheduling.features import Constraint, constraint_of
from minislurm.scheduling.leaves import NEVER, RoomByLeaf
from minislurm.scheduling.needs import cpus_on_node, gpus_on_node, memory_on_node, share_on_node
from minislurm.scheduling.nodes import Mask, Share
from minislurm.scheduling.room import Room
from minislurm.scheduling.uneven import amounts_of, is_enough, largest

_NONE = np.zeros(0, dtype=np.int64)


def choose(room: Room) -> list[Share] | None:
    """The gang's shares, neighbours next to each other; None: it does not fit now."""
    if not room.bounds.possible:
        return None
    if room.by_leaf.is_new and np.count_nonzero(room.tasks) < room.bounds.nodes_min:
        return None
    for scope in _scopes(room):
        nodes = _choose_in(scope, room)
        if nodes is not None and room.request.nodes_step:
            nodes = _in_steps(room, nodes)
        if nodes is not None:
            if len(nodes) == 1:
                return _shares(room, nodes.tolist())
            leaves = room.inventory.layout.leaf_of_node[nodes]
            return _shares(room, nodes[np.lexsort((nodes, leaves))].tolist())
    return None


def _in_steps(room: Room, nodes: Indexes) -> Indexes | None:
    """As many of them as the steps of the request allow: whole leaves first."""
    count = size_within(room.request, len(nodes))
    if count < room.bounds.nodes_min:
        return None
    leaves = room.inventory.layout.leaf_of_node[nodes]
    in_leaf = np.bincount(leaves)[leaves]
    return nodes[np.lexsort((nodes, leaves, -in_leaf))][:count]


def _scopes(room: Room) -> Iterator[Scope]:
    """Where to look: first where the request would like to be."""
    request, layout = room.request, room.inventory.layout
    if not (request.topology_level or request.switches):
        yield layout.everywhere
        return
    scopes = []
    if request.topology_level in layout.within:
        scopes.append(layout.within[request.topology_level])
    if not request.topology_level or not request.topology_required:
        scopes.append(layout.everywhere)
    for scope in scopes:
        yield replace(scope, leaves_max=request.switches) if request.switches else scope


def _choose_in(scope: Scope, room: Room) -> Indexes | None:
    if scope.leaves is not None:
        room = _narrowed(room, scope.leaves[room.inventory.layout.leaf_of_node])
    if not room.request.features:
        return _nodes(scope, room)
    constraint = constraint_of(room.request.features)
    if not constraint.alternatives:
        return _nodes(scope, room, constraint)
    found = []
    for test in constraint.alternatives:
        nodes = _nodes(scope, _narrowed(room, passing(room.inventory, test)), constraint)
        if nodes is not None:
            found.append(nodes)
    leaf_of_node = room.inventory.layout.leaf_of_node
    return min(found, key=lambda nodes: len(np.unique(leaf_of_node[nodes])), default=None)


def _narrowed(room: Room, mask: Mask) -> Room:
    """The same room without the nodes outside of `mask`."""
    narrowed = copy(room)
    narrowed.tasks = np.where(mask, room.tasks, 0)
    narrowed.by_leaf = RoomByLeaf(narrowed)
    return narrowed


def _nodes(scope: Scope, room: Room, constraint: Constraint | None = None) -> Indexes | None:
    bounds, request = room.bounds, room.request
    if constraint is not None and constraint.counts:
        groups = [(passing(room.inventory, test), count) for test, count in constraint.counts]
        nodes = choose_counted(scope, room, groups)
    elif request.required_nodes and len(request.required_nodes) < bounds.nodes_max:
        nodes = _with_required(scope, room)
    elif request.segment:
        nodes = _in_segments(scope, room)
    elif request.spread:
        nodes = _spread(scope, room)
    else:
        return _close_together(scope, room)
    if nodes is None or not scope.holds(room.inventory.layout.leaf_of_node[nodes]):
        return None
    return nodes


def _close_together(scope: Scope, room: Room) -> Indexes | None:
    bounds = room.bounds
    if bounds.nodes_min == 1 and (bounds.nodes_max == 1 or bounds.fewest):
        node = _one_node(room)
        if node is not None:
            return np.array([node], dtype=np.int64)
        if bounds.nodes_max == 1:
            return None
    return _fewest_nodes(scope, room) if bounds.fewest else _most_nodes(scope, room)


def _one_node(room: Room) -> int | None:
    """The best node that takes all tasks; of equals one in the leaf that has least room besides."""
    layout, by_leaf = room.inventory.layout, room.by_leaf
    if room.request.required_nodes:
        (node,) = {room.inventory.index[name] for name in room.request.required_nodes}
        return node if by_leaf.cost.by_node[node] < NEVER else None
    cost = by_leaf.cost
    if layout.leaf_count == 1:
        node = int(cost.by_node.argmin())
        return node if cost.by_node[node] < NEVER else None
    leaf = int(cost.by_leaf.argmin())
    best = cost.by_leaf[leaf]
    if best == NEVER:
        return None
    (equals,) = (cost.by_leaf == best).nonzero()
    if len(equals) > 1:
        leaf = int(equals[by_leaf.whole.by_leaf[equals].argmin()])
    nodes = layout.nodes_of_leaf[leaf]
    return int(nodes[cost.by_node[nodes].argmin()])


def _most_nodes(scope: Scope, room: Room) -> Indexes | None:
    """As many nodes as are asked for or there are. Fewer never hold more, so only that number is tried; but
    where a gang has to lie inside one domain, or on few leaves, those with fewer nodes may have more room."""
    bounds, even = room.bounds, room.by_leaf.even
    chosen = leaves_for(scope, even.by_leaf, bounds.nodes_max)
    if chosen is not None:
        nodes = _best_of(room, chosen, even.by_node, bounds.nodes_max)
        return _on_fewer_leaves(scope, room, nodes, len(chosen[0])) if chosen[0] else nodes
    eligible = np.flatnonzero(room.tasks > 0)
    most = min(bounds.nodes_max, scope.largest(_by_leaf(room, eligible)))
    if most < bounds.nodes_min or not is_enough(room, eligible):
        return None
    least = most if scope is room.inventory.layout.everywhere else bounds.nodes_min
    counts = (_so_many_nodes(scope, room, eligible, count) for count in range(most, least - 1, -1))
    return next((nodes for nodes in counts if nodes is not None), None)


def _so_many_nodes(scope: Scope, room: Room, eligible: Indexes, count: int) -> Indexes | None:
    takes = room.tasks >= -(-room.bounds.tasks_of(count) // count)
    if room.gpus is not None:
        takes &= room.gpus >= -(-room.request.gpus_total // count)
    chosen = leaves_for(scope, _by_leaf(room, np.flatnonzero(takes)), count)
    if chosen is not None:
        return _best_of(room, chosen, takes, count)
    return largest(scope, room, eligible, count)


def _on_fewer_leaves(scope: Scope, room: Room, nodes: Indexes, whole: int) -> Indexes:
    """Unequal parts, where nodes that share evenly lie on more leaves than they would have to."""
    if room.gpus is None and room.bounds.tasks_of(len(nodes)) == len(nodes):
        return nodes
    eligible = np.flatnonzero(room.tasks > 0)
    least = leaves_for(scope, _by_leaf(room, eligible), len(nodes))
    if least is None or len(least[0]) >= whole:
        return nodes
    others = largest(scope, room, eligible, len(nodes))
    leaf_of_node = room.inventory.layout.leaf_of_node
    if others is None or len(np.unique(leaf_of_node[others])) > whole:
        return nodes
    return others


def _best_of(room: Room, chosen: tuple[list[int], int], takes: Indexes | Mask, count: int) -> Indexes:
    """All nodes of the whole leaves, and the best of the last one, up to `count`. `takes`: by node."""
    nodes_of_leaf = room.inventory.layout.nodes_of_leaf
    last = nodes_of_leaf[chosen[1]]
    last = last[takes[last] > 0]
    if chosen[0]:
        whole = np.concatenate([nodes_of_leaf[leaf] for leaf in chosen[0]])
        whole = whole[takes[whole] > 0]
        return np.concatenate((whole, _best(room, last, count - len(whole))))
    return _best(room, last, count)


def _best(room: Room, nodes: Indexes, count: int) -> Indexes:
    if len(nodes) == count:
        return nodes
    best: Indexes = nodes[np.lexsort((nodes, room.scores(nodes)))][:count]
    return best


def _in_segments(scope: Scope, room: Room) -> Indexes | None:
    """Every `segment` nodes share a leaf. Where not all nodes can take an even part, any that take one."""
    size, count = room.request.segment, room.bounds.nodes_max
    for takes in (room.by_leaf.even.by_node > 0, room.tasks > 0):
        segments = _by_leaf(room, np.flatnonzero(takes)) // size
        chosen = leaves_for(scope, segments, count // size)
        if chosen is None:
            continue
        nodes = []
        left = count
        for leaf in (*chosen[0], chosen[1]):
            here = room.inventory.layout.nodes_of_leaf[leaf]
            here = here[takes[here]]
            part = min(left, int(segments[leaf]) * size)
            nodes.append(here[np.lexsort((here, room.scores(here), -room.tasks[here]))][:part])
            left -= part
        if is_enough(room, np.concatenate(nodes)):
            return np.concatenate(nodes)
    return None


def _spread(scope: Scope, room: Room) -> Indexes | None:
    """One node of each leaf, then a second one …, in each the roomiest first."""
    eligible = np.flatnonzero(room.tasks > 0)
    leaves = room.inventory.layout.leaf_of_node[eligible]
    count = min(room.bounds.nodes_max, scope.largest(_by_leaf(room, eligible)))
    if count < room.bounds.nodes_min or not count:
        return None
    domains = scope.levels[-1][leaves]
    for domain in np.argsort(-np.bincount(domains), kind="stable").tolist():
        here = eligible[domains == domain]
        if len(here) < count:
            break
        by_leaf = here[np.lexsort((here, -room.tasks[here], room.inventory.layout.leaf_of_node[here]))]
        of_leaf = room.inventory.layout.leaf_of_node[by_leaf]
        turn = np.arange(len(by_leaf)) - np.searchsorted(of_leaf, of_leaf)
        nodes: Indexes = by_leaf[np.lexsort((by_leaf, of_leaf, turn))][:count]
        if is_enough(room, nodes):
            return nodes
    return largest(scope, room, eligible, count)


def _fewest_nodes(scope: Scope, room: Room) -> Indexes | None:
    """The largest nodes of the fewest leaves; at the end the best fit for the rest."""
    sums, need = room.by_leaf.amount, room.request.gpus_total or room.bounds.tasks
    if int(sums.by_leaf.sum()) < need:
        return None
    amount = sums.by_node
    chosen = leaves_for(scope, sums.by_leaf, need)
    if chosen is not None:
        nodes_of_leaf = room.inventory.layout.nodes_of_leaf
        whole = np.concatenate([nodes_of_leaf[leaf] for leaf in (*chosen[0], chosen[1])][:-1] or [_NONE])
        whole = whole[amount[whole] > 0]
        last = nodes_of_leaf[chosen[1]]
        rest = _largest_until(room, last[amount[last] > 0], amount, need - int(amount[whole].sum()))
        nodes = np.concatenate((whole, rest))
        if room.bounds.nodes_min <= len(nodes) <= room.bounds.nodes_max and is_enough(room, nodes):
            return nodes
    return _fewest_of_the_largest(scope, room)


def _fewest_of_the_largest(scope: Scope, room: Room) -> Indexes | None:
    """Rare: a bound on the number of nodes, or tasks and GPUs that are short on different nodes."""
    eligible = np.flatnonzero(room.tasks > 0)
    least = room.bounds.nodes_min
    most = min(room.bounds.nodes_max, scope.largest(_by_leaf(room, eligible)))
    if most < least or not is_enough(room, eligible):
        return None
    best = largest(scope, room, eligible, most)
    while best is not None and least < len(best):
        middle = (least + len(best)) // 2
        found = largest(scope, room, eligible, middle)
        if found is None:
            least = middle + 1
        else:
            best = found
    return best


def _largest_until(room: Room, nodes: Indexes, amount: Indexes, need: int) -> Indexes:
    if len(nodes) == 1:
        return nodes
    ranked: Indexes = nodes[np.lexsort((nodes, room.scores(nodes), -amount[nodes]))]
    # Enough for the rest: of these the smallest, and of equals the best score, goes last.
    reached = int(np.searchsorted(np.cumsum(amount[ranked]), need))
    before = ranked[:reached]
    enough = ranked[reached:]
    enough = enough[amount[enough] >= need - int(amount[before].sum())]
    last = enough[np.lexsort((enough, room.scores(enough), amount[enough]))][:1]
    return np.concatenate((before, last))


def _with_required(scope: Scope, room: Room) -> Indexes | None:
    """The required nodes, and as many others as needed, those in the same leaves first."""
    required = np.array([room.inventory.index[name] for name in room.request.required_nodes], dtype=np.int64)
    if not (room.tasks[required] > 0).all():
        return None
    leaf_of_node = room.inventory.layout.leaf_of_node
    domain_of_node = scope.levels[-1][leaf_of_node]
    eligible = np.flatnonzero((room.tasks > 0) & (domain_of_node == domain_of_node[required[0]]))
    if len(eligible) < room.bounds.nodes_min:
        return None
    others = np.setdiff1d(eligible, required)
    far = ~np.isin(leaf_of_node[others], leaf_of_node[required])
    near_first = others[np.lexsort((others, room.scores(others), leaf_of_node[others], far))]
    most = min(room.bounds.nodes_max, len(eligible)) - len(required)
    least = room.bounds.nodes_min - len(required)
    for count in range(least, most + 1) if room.bounds.fewest else (most,):
        for order in (near_first, *(others[np.argsort(-a[others], kind="stable")] for a in amounts_of(room))):
            nodes = np.concatenate((required, order[:count]))
            if is_enough(room, nodes):
                return nodes
    return None


def _by_leaf(room: Room, nodes: Indexes) -> Indexes:
    """How many of these nodes each leaf has."""
    layout = room.inventory.layout
    return np.bincount(layout.leaf_of_node[nodes], minlength=layout.leaf_count)


def _shares(room: Room, nodes: Sequence[int]) -> list[Share]:
    if len(nodes) == 1:
        count = room.bounds.tasks_of(1)
        gpus = max(room.request.gpus_total, gpus_on_node(room.request, count))
        return [_share(room, nodes[0], count, gpus)]
    tasks = _deal_evenly(room, nodes) if room.request.spread else _deal_tasks(room, nodes)
    is_whole = not room.request.gpu_share_milli
    if room.gpus is None and is_whole and len(nodes) > 2 and tasks[0] == tasks[-1] and len(set(tasks)) == 1:
        return _equal_shares(room, nodes, tasks[0])
    dealt = _deal_gpus(room, nodes, tasks)
    return [_share(room, *part) for part in zip(nodes, tasks, dealt, strict=True)]


def _equal_shares(room: Room, nodes: Sequence[int], tasks: int) -> list[Share]:
    """The common case, where only the GPUs' types may differ from node to node."""
    gpus = gpus_on_node(room.request, tasks)
    first = _share(room, nodes[0], tasks, gpus)
    one_type = room.request.gpu_type and "|" not in room.request.gpu_type
    if room.request.exclusive or (gpus and not one_type and len(first.gpus) > 1):
        return [first, *(_share(room, node, tasks, gpus) for node in nodes[1:])]
    return list(map(Share, nodes, *map(repeat, first[1:])))


def _deal_tasks(room: Room, nodes: Sequence[int]) -> list[int]:
    left, dealt = room.bounds.tasks_of(len(nodes)), []
    if left == len(nodes):
        return [1] * left
    most = room.tasks[nodes].tolist()
    for after, limit in zip(range(len(nodes) - 1, -1, -1), most, strict=True):
        count = min(limit, left - after)
        dealt.append(count)
        left -= count
    assert not left, "the nodes hold fewer tasks than their room says"
    return dealt


def _deal_evenly(room: Room, nodes: Sequence[int]) -> list[int]:
    """As evenly as the nodes allow: where the smaller ones are full, the others share the rest."""
    left, dealt = room.bounds.tasks_of(len(nodes)), [0] * len(nodes)
    most = room.tasks[nodes].tolist()
    for open_nodes, k in zip(
        range(len(nodes), 0, -1), sorted(range(len(nodes)), key=lambda k: (most[k], -k)), strict=True
    ):
        dealt[k] = min(most[k], left // open_nodes)
        left -= dealt[k]
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
