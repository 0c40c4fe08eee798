"""How many tasks, or CPUs, each node of a run or step has, and Slurm's short form of such lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def shorten(counts: Iterable[int]) -> str:
    """Slurm's short form: ``[2, 2, 1]`` is ``2(x2),1``. Nothing is "0"."""
    groups: list[tuple[int, int]] = []
    for count in counts:
        if groups and groups[-1][0] == count:
            groups[-1] = (count, groups[-1][1] + 1)
        else:
            groups.append((count, 1))
    if not groups:
        return "0"
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in groups)


def task_layout(tasks: int, capacities: Sequence[int]) -> tuple[int, ...]:
    """How many of `tasks` each node gets: as evenly as `capacities` (tasks it can hold) allow.

    The first nodes get more where it does not come out even. This is Slurm's block distribution: neighbouring
    ranks share a node. Raises ValueError where the nodes cannot hold so many.
    """
    if tasks > sum(capacities):
        raise ValueError(f"{tasks} tasks on nodes that can hold {sum(capacities)}")
    counts = [0] * len(capacities)
    left = tasks
    while left:
        open_nodes = [i for i, capacity in enumerate(capacities) if counts[i] < capacity]
        share = max(1, left // len(open_nodes))
        for i in open_nodes:
            taken = min(share, capacities[i] - counts[i], left)
            counts[i] += taken
            left -= taken
    return tuple(counts)
