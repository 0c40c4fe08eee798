"""How much of a node's free GPU capacity the typical request could not use, and what a placement adds to it.

Source: Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC'23, section 4. The measure counts, for every typical request, the free thousandths of the
node that it could not take: all of them where it does not fit there at all (CPU-only requests never use a
GPU), else those of the single GPUs that have less left than it needs. A placement is good when it lowers the
sum, weighted by how often each request comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: A whole GPU in thousandths.
WHOLE = 1000


@dataclass(frozen=True, slots=True)
class TypicalRequest:
    """What a job asks of one node, and how often. `milli`: thousandths of each GPU, 1000 for a whole one."""

    weight: float
    cpus: int
    gpus: int = 0
    milli: int = WHOLE
    #: "A|B", "" for any.
    gpu_type: str = ""


class Fragmentation:
    """The measure for one list of typical requests.

    `types`: the names of the GPU types that node rows stand for.
    """

    def __init__(self, typical: Sequence[TypicalRequest], types: Sequence[str]) -> None:
        self._weights = np.array([t.weight for t in typical], dtype=np.float64)
        self._cpus = np.array([t.cpus for t in typical], dtype=np.int64)
        self._gpus = np.array([t.gpus for t in typical], dtype=np.int64)
        # A request without GPUs is one that no node can host: all that is free is lost to it.
        none = self._gpus == 0
        self._gpus[none] = 1 << 30
        millis = np.array([t.milli for t in typical], dtype=np.int64)
        #: Requests share few different sizes: what they find on the GPUs is worked out once a size.
        self._millis, self._of_milli = np.unique(millis, return_inverse=True)
        self._access = np.array(
            [[not t.gpu_type or name in t.gpu_type.split("|") for t in typical] for name in types],
            dtype=np.bool_,
        ).reshape(len(types), len(typical))

    def amounts(self, cpus: Ints, left: Ints, types: Ints) -> Floats:
        """F of each node state: free CPUs (n), free thousandths by GPU (n × GPUs), row of its type (n)."""
        total = left.sum(axis=1)
        too_small = left[:, None, :] < self._millis[None, :, None]
        scraps = np.where(too_small, left[:, None, :], 0).sum(axis=2)[:, self._of_milli]
        enough = (left.shape[1] - too_small.sum(axis=2))[:, self._of_milli] >= self._gpus
        hosted = enough & (cpus[:, None] >= self._cpus) & self._access[types]
        lost = np.where(hosted, scraps, total[:, None])
        amounts: Floats = lost @ self._weights
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
