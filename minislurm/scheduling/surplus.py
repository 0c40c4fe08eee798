"""Which elastic runs give which nodes back, so that a job that waits can start.

As with victims (preemption.py), it is proven first that the job fits with these nodes free, and no more are
asked for than it takes. A run never goes below its minimum, and only to sizes that its steps allow. One run
that can help alone is asked before several; of several ways the one that restarts the least is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from math import inf
from typing import NamedTuple

from minislurm.domain.configuration import Partition
from minislurm.domain.ids import JobId
from minislurm.scheduling.costs import cost_of
from minislurm.scheduling.elastic import smaller_sizes
from minislurm.scheduling.model import ElasticRun, RunningJob
from minislurm.scheduling.nodes import Counts, Inventory, Mask, Share
from minislurm.scheduling.timeline import with_released

#: The shares of the job if so much is free; None: it does not fit.
Fit = Callable[[Counts], "list[Share] | None"]

#: So many runs are asked alone, and so many racks of a run, at most.
_RUNS, _LEAVES = 16, 8


class Giver(NamedTuple):
    """A run that gives nodes back: the first so many of `shares`, one of `counts`, ascending."""

    run: RunningJob
    shares: tuple[Share, ...]
    counts: tuple[int, ...]
    #: What it does again for it: GPU-seconds (CPU-seconds, of a run without GPUs).
    cost: float

    def giving(self, count: int) -> tuple[Share, ...]:
        return self.shares[:count]


class Handback(NamedTuple):
    """How a job can start: where, and which nodes which runs give back for it."""

    given: tuple[tuple[RunningJob, tuple[Share, ...]], ...]
    shares: list[Share]
    #: What is free then, but for the job itself.
    then: Counts


class Surplus:
    """What the elastic runs of a pass have beyond their minimum."""

    def __init__(self, now: float, runs: Sequence[RunningJob], inventory: Inventory) -> None:
        """`runs`: see `elastic.changing`."""
        self._now = now
        self._inventory = inventory
        self._left = {run.job_id: run for run in runs if run.elastic is not None}
        #: Is there any, or is some of it on its way back?
        self.matters = bool(runs)
        #: When a run that somebody waits for can be asked; infinity: whenever.
        self.wake_time = inf

    def find(
        self, partition: Partition, wanted: Mask, free: Counts, fits: Fit
    ) -> Generator[None, None, Handback | None]:
        """How a job of the partition could start on nodes of theirs. `wanted`: those that it may use at all;
        `free`: as for `Victims.find`. Yields between units of work."""
        runs = sorted(self._candidates(partition), key=self._rank)
        givers = [giver for run, how in runs if (giver := self._giver(run, how, wanted)) is not None]
        if not givers:
            return None
        every = [share for giver in givers for share in giver.giving(giver.counts[-1])]
        best: tuple[tuple[int, float, int], list[tuple[Giver, int]]] | None = None
        for giver in givers[:_RUNS]:
            for ordered in self._orders(giver):
                yield
                count = _least(ordered, [], free, fits)
                if count:
                    worth = (giver.run.tier, giver.cost, count)
                    if best is None or worth < best[0]:
                        best = worth, [(ordered, count)]
        if best is None:
            yield
            if len(givers) < 2 or fits(with_released(free, every)) is None:
                return None
            best = (0, 0.0, 0), (yield from self._together(givers, free, fits))
        given = tuple([(giver.run, giver.giving(count)) for giver, count in best[1] if count])
        then = with_released(free, [share for _, shares in given for share in shares])
        shares = fits(then)
        assert shares is not None, "it fitted a moment ago"
        return Handback(given, shares, then)

    def choose(self, handback: Handback) -> None:
        for run, _ in handback.given:
            del self._left[run.job_id]

    def spare(self, job_ids: Sequence[JobId]) -> None:
        """They are ended as a whole."""
        for job_id in job_ids:
            self._left.pop(job_id, None)

    def is_asked(self, run: RunningJob) -> bool:
        """Does it give something back, or end, by what this pass has found?"""
        return run.job_id not in self._left

    def _candidates(self, partition: Partition) -> Iterator[tuple[RunningJob, ElasticRun]]:
        for run in self._left.values():
            how = run.elastic
            if how is None or run.tier > partition.priority_tier:
                continue
            is_early = how.shrink_from > self._now and not run.joining
            if is_early and run.tier == partition.priority_tier:
                self.wake_time = min(self.wake_time, how.shrink_from)
                continue
            yield run, how

    def _rank(self, pair: tuple[RunningJob, ElasticRun]) -> tuple[int, float, int]:
        run, how = pair
        return run.tier, self._cost(run, how), -run.job_id

    def _cost(self, run: RunningJob, how: ElasticRun) -> float:
        """It is restarted for what it has, not for what it does not have yet."""
        return cost_of(run, self._now) if how.restarts and not run.joining else 0.0

    def _giver(self, run: RunningJob, how: ElasticRun, wanted: Mask) -> Giver | None:
        """Its nodes that the job may use, those first that leave the rest of it on the fewest racks. In place
        the batch script stays where it is; what is held idle for a run's next one goes before all else."""
        parts = run.joining or (run.allocation if how.restarts else run.allocation[1:])
        shares = [share for part in parts if (share := self._inventory.share_of(part)) is not None]
        leaf_of_node = self._inventory.layout.leaf_of_node
        in_leaf = Counter(int(leaf_of_node[share.node]) for share in shares)
        useful = [share for share in reversed(shares) if wanted[share.node]]
        useful.sort(
            key=lambda share: (in_leaf[int(leaf_of_node[share.node])], -int(leaf_of_node[share.node]))
        )
        size = len(run.allocation)
        counts = tuple([size - smaller for smaller in smaller_sizes(how.jobs.request, size)])
        # Of nodes that are of no use to the job none is asked for, so it must be enough with the others.
        counts = tuple([count for count in counts if count <= len(useful)])
        least = how.jobs.partition.min_nodes
        counts = tuple([count for count in counts if size - count >= least])
        if not counts:
            return None
        return Giver(run, tuple(useful), counts, self._cost(run, how))

    def _orders(self, giver: Giver) -> Iterator[Giver]:
        """As it stands, and with the nodes of each rack first: the job may need them side by side."""
        yield giver
        leaf_of_node = self._inventory.layout.leaf_of_node
        leaves = list(dict.fromkeys(int(leaf_of_node[share.node]) for share in giver.shares))
        for leaf in leaves[1 : 1 + _LEAVES]:
            first = tuple([share for share in giver.shares if leaf_of_node[share.node] == leaf])
            rest = tuple([share for share in giver.shares if leaf_of_node[share.node] != leaf])
            yield giver._replace(shares=first + rest)

    def _together(
        self, givers: list[Giver], free: Counts, fits: Fit
    ) -> Generator[None, None, list[tuple[Giver, int]]]:
        """All of them give what they can; then each as little as it takes, the dearest first."""
        counts = [giver.counts[-1] for giver in givers]
        for i in range(len(givers) - 1, -1, -1):
            yield
            others = [share for j, giver in enumerate(givers) if j != i for share in giver.giving(counts[j])]
            counts[i] = _least(givers[i], others, free, fits, or_none=True)
        return list(zip(givers, counts, strict=True))


def _least(giver: Giver, others: Sequence[Share], free: Counts, fits: Fit, *, or_none: bool = False) -> int:
    """How many nodes it has to give, with `others` free besides; 0: all that it can are too few (or, with
    `or_none`, none is needed)."""

    def is_enough(count: int) -> bool:
        return fits(with_released(free, [*others, *giver.giving(count)])) is not None

    counts = [0, *giver.counts] if or_none else list(giver.counts)
    if not is_enough(counts[-1]):
        return 0
    low, high = 0, len(counts) - 1
    while low < high:
        middle = (low + high) // 2
        if is_enough(counts[middle]):
            high = middle
        else:
            low = middle + 1
    return counts[high]
