"""How much of a node's free GPU capacity the typical request could not use, and what a placement adds to it.

Source: Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC'23, section 4. The measure counts, for every typical request, the free thousandths of the
node that it could not take: all of them where it does not fit there at all (CPU-only requests never use a
GPU), else those of the single GPUs that have less left than it needs. A placement is good when it lowers the
sum, weighted by how often each request comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from minislurm.scheduling.model import TypicalRequest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: A whole GPU in thousandths.
WHOLE = 1000


class Fragmentation:
    """The measure for one list of typical requests.

    `types`: the names of the GPU types that node rows stand for. `stranded`: our addition, 0 for the measure
    as published. That one asks what the next request could use; but a node whose CPUs run out leaves GPUs
    behind that no request will ever use. So what is free of the GPUs beyond what the free CPUs can serve, at
    the ratio of the typical requests, counts as lost, with this weight. Jobs that need many CPUs for little
    GPU then go where CPUs abound.
    """

    def __init__(
        self, typical: Sequence[TypicalRequest], types: Sequence[str], *, stranded: float = 0.0
    ) -> None:
        using = [t for t in typical if t.gpus]
        self._stranded = stranded
        cpus = sum(t.weight * t.cpus for t in using)
        #: Thousandths of GPUs that one CPU serves.
        self._served = sum(t.weight * t.gpus * t.milli for t in using) / cpus if cpus else float("inf")
        self._weights = np.array([t.weight for t in using], dtype=np.float64)
        #: Of requests without GPUs: to them all that is free is lost.
        self._weight_of_none = sum(t.weight for t in typical if not t.gpus)
        self._cpus = np.array([t.cpus for t in using], dtype=np.int64)
        self._gpus = np.array([t.gpus for t in using], dtype=np.int64)
        self._access = np.array(
            [[not t.gpu_type or name in t.gpu_type.split("|") for t in using] for name in types],
            dtype=np.bool_,
        ).reshape(len(types), len(using))
        # Requests share few different sizes. For each amount left of a GPU: for each size whether it is
        # enough and what is lost if it is not; in the last column the amount itself.
        millis, self._size = np.unique([t.milli for t in using], return_inverse=True)
        left = np.arange(WHOLE + 1)[:, None]
        self._table = np.hstack((left >= millis, np.where(left < millis, left, 0), left)).astype(np.float64)
        self._lost = len(millis) + self._size

    def amounts(self, cpus: Ints, left: Ints, types: Ints) -> Floats:
        """F of each node state: free CPUs (n), free thousandths by GPU (n × GPUs), row of its type (n)."""
        sums = self._table[left].sum(axis=1)
        total = sums[:, -1]
        hosted = sums[:, self._size] >= self._gpus
        hosted &= cpus[:, None] >= self._cpus
        hosted &= self._access[types]
        lost = np.where(hosted, sums[:, self._lost], total[:, None])
        amounts: Floats = lost @ self._weights + total * self._weight_of_none
        # Where nobody who uses GPUs is known to use CPUs, none are stranded for want of them.
        if self._stranded and isfinite(self._served):
            amounts += self._stranded * np.maximum(0.0, total - cpus * self._served)
        return amounts


def most_frequent(requests: Iterable[TypicalRequest], covering: float = 0.95) -> tuple[TypicalRequest, ...]:
    """The most frequent of these that together make up that part; of equals the one met first."""
    ranked = sorted(requests, key=lambda request: -request.weight)
    total = sum(request.weight for request in ranked)
    chosen: list[TypicalRequest] = []
    reached = 0.0
    for request in ranked:
        if reached >= covering * total:
            break
        chosen.append(request)
        reached += request.weight
    return tuple(chosen)


def gradient_score(before: Floats, after: Floats) -> Ints:
    """0 to 100, higher is better: the published score, int(100 · sigmoid((before - after) / 1000))."""
    score: Ints = (100.0 / (1.0 + np.exp((after - before) / WHOLE))).astype(np.int64)
    return score
