"""Placements against the exact optimum: the fewest leaf domains, by an integer programme."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from minislurm.domain.resources import ResourceRequest
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import NodeAvailability
from tests.builders import a_request
from tests.unit.scheduling.builders import a_class, a_node, a_partition, a_snapshot, nodes_of

optimize = pytest.importorskip("scipy.optimize")

CLUSTERS = 200


def test_placements_use_few_leaf_domains() -> None:
    """In total at most 5 % more than the optimum, and a gang waits only where there is none."""
    used = least = 0
    for seed in range(CLUSTERS):
        ours, optimum = _compare(random.Random(seed))
        used, least = used + ours, least + optimum
    assert least > CLUSTERS
    print(f"{CLUSTERS} clusters: {used} leaf domains, the optimum is {least}")
    assert used <= 1.05 * least


def _compare(draw: random.Random) -> tuple[int, int]:
    """Leaf domains of one gang on one cluster: ours, the fewest. (0, 0) where it cannot be placed."""
    racks = [draw.randint(1, 6) for _ in range(draw.randint(3, 8))]
    nodes: list[NodeAvailability] = []
    names: list[list[str]] = []
    is_even = draw.random() < 0.4
    for size in racks:
        names.append([f"n{len(nodes) + i + 1}" for i in range(size)])
        for name in names[-1]:
            free = 8 if is_even else draw.randint(1, 8)
            gpus = draw.choice((0, 2, 4, 8)) if draw.random() < 0.3 else 4
            nodes.append(a_node(name, cpus=0 if draw.random() < 0.2 else free, gpus=gpus))
    nodes = [node for node in nodes if node.cpus]
    request = _a_gang(draw, len(nodes))
    snapshot = a_snapshot(nodes, a_class(a_partition(nodes), 1, request=request), racks=names)
    rack_of = {name: k for k, held in enumerate(names) for name in held}
    leaves = [rack_of[node.name] for node in nodes]
    optimum = fewest_leaves(request, nodes, leaves)
    placed = nodes_of(schedule(snapshot), 1)
    ours = len({rack_of[name] for name in placed})
    assert bool(ours) is (optimum is not None), (request, optimum)
    return ours, optimum or 0


def _a_gang(draw: random.Random, most: int) -> ResourceRequest:
    count = draw.randint(2, max(2, most * 2 // 3))
    match draw.randrange(4):
        case 0:
            return a_request(count, cpus_per_task=draw.randint(1, 4))
        case 1:
            return a_request(count, tasks=draw.randint(count, 4 * count))
        case 2:
            return a_request(1, nodes_max=0, tasks=draw.randint(2, 5 * count))
    return a_request(1, nodes_max=0, tasks=draw.randint(1, count), gpus_total=draw.randint(2, 3 * count))


def fewest_leaves(
    request: ResourceRequest, nodes: Sequence[NodeAvailability], leaves: Sequence[int]
) -> int | None:
    """Variables: tasks and GPUs of each node, whether it is used, whether its leaf is. None: no solution."""
    n, leaf_count = len(nodes), max(leaves) + 1
    tasks_of = np.array([node.cpus // request.cpus_per_task for node in nodes])
    gpus_of = np.array([node.gpus.bit_count() for node in nodes])
    eye, none = np.eye(n), np.zeros((n, n))
    to_leaf = np.zeros((n, leaf_count))
    to_leaf[np.arange(n), leaves] = 1
    no_leaf = np.zeros((n, leaf_count))
    rows, low, high = [], [], []

    def add(block: np.ndarray, least: float, most: float) -> None:
        block = np.atleast_2d(block)
        rows.append(block)
        low.extend([least] * len(block))
        high.extend([most] * len(block))

    one, zero, zeros = np.ones(n), np.zeros(n), np.zeros(leaf_count)
    add(np.hstack((eye, none, -np.diag(tasks_of), no_leaf)), -np.inf, 0)  # tasks only on used nodes
    add(np.hstack((eye, none, -eye, no_leaf)), 0, np.inf)  # a used node has a task
    add(np.hstack((none, eye, -np.diag(gpus_of), no_leaf)), -np.inf, 0)
    add(np.hstack((none, none, eye, -to_leaf)), -np.inf, 0)  # a used node's leaf is used
    add(np.concatenate((one, zero, zero, zeros)), request.tasks, request.tasks)
    if request.gpus_total:
        add(np.hstack((none, eye, -eye, no_leaf)), 0, np.inf)  # a used node gives a GPU
        add(np.concatenate((zero, one, zero, zeros)), request.gpus_total, request.gpus_total)
    if request.nodes_max:
        add(np.concatenate((zero, zero, one, zeros)), request.nodes_min, request.nodes_max)
    upper = np.concatenate((tasks_of, gpus_of, one, np.ones(leaf_count)))
    answer = optimize.milp(
        np.concatenate((zero, zero, zero, np.ones(leaf_count))),
        constraints=optimize.LinearConstraint(np.vstack(rows), low, high),
        integrality=np.ones(len(upper)),
        bounds=optimize.Bounds(0, upper),
    )
    return round(answer.fun) if answer.success else None
