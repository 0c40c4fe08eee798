"""Which runs give way to a job that would not start otherwise.

Before any run is touched it is proven that the job fits with those runs gone (place.choose decides, so
racks, GPUs, reservations and whatever else a placement heeds is heeded), and that it does not fit if any one
of them stays. Of several such sets the one is taken whose highest tier is the lowest, then the one that
loses the least work.

Sets are looked for among all runs, among those of each rack, and among those of each node where the job
needs only one: the cheapest runs anywhere may be spread so that they help nobody. A gang gives way whole.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from math import inf
from typing import NamedTuple

from minislurm.scheduling.model import RequestClass, RunningJob, Snapshot
from minislurm.scheduling.nodes import Counts, Inventory, Share
from minislurm.scheduling.rivals import Rival, gives_way, is_outranked, may_preempt, next_time
from minislurm.scheduling.timeline import with_released

#: The shares of the job if so much is free; None: it does not fit.
Fit = Callable[[Counts], "list[Share] | None"]

#: So many racks, or nodes, are looked at one by one: those with the cheapest runs.
_PLACES = 16


class Victim(NamedTuple):
    run: RunningJob
    shares: tuple[Share, ...]
    #: Work that is lost: GPU-seconds (CPU-seconds, of a run without GPUs).
    cost: float
    #: The less, the sooner it gives way.
    weight: float

    @property
    def rank(self) -> tuple[int, float, float, int]:
        """The least gives way first: of equals who started last."""
        return self.run.tier, self.weight, -self.run.start_time, -self.run.job_id


class Way(NamedTuple):
    """How a job can start: where, and who has to go for it (nobody, if it is enough to wait)."""

    victims: tuple[Victim, ...]
    shares: list[Share]
    #: What is free with them gone, but for the job itself.
    then: Counts

    @property
    def cost(self) -> float:
        return sum(victim.cost for victim in self.victims)


def cost_of(run: RunningJob, now: float) -> float:
    """What the run has done so far and would do again."""
    gpus = sum(part.gpus.bit_count() for part in run.allocation)
    return max(0.0, now - run.start_time) * (gpus or sum(part.cpu_count for part in run.allocation))


class Victims:
    """The runs that may give way in this pass, and those that have been chosen."""

    def __init__(self, snapshot: Snapshot, inventory: Inventory) -> None:
        self._now = snapshot.now
        self._inventory = inventory
        self._most = snapshot.max_victims or len(snapshot.running)
        runs = [run for run in snapshot.running if gives_way(run)]
        #: Might anybody give way to anybody who waits?
        self.matter = bool(runs) and _anyone_waits(runs, snapshot.classes)
        self._left = {run.job_id: run for run in runs} if self.matter else {}
        self._leaving: list[Share] = []
        #: See `Plan.wake_time`.
        self.wake_time = inf

    def with_leaving(self, free: Counts) -> Counts:
        """What is free when those have gone that were chosen in this pass."""
        return with_released(free, self._leaving)

    def find(
        self, rival: Rival, free: Counts, fits: Fit, *, single_node: bool
    ) -> Generator[None, None, Way | None]:
        """How the job could start now. `free`: with what is about to end gone, beside
        everything that is reserved. None: there is no way. Yields between units of work."""
        shares = fits(free)
        if shares is not None:
            return Way((), shares, free)
        victims = sorted(self._candidates(rival), key=_rank)
        yield
        if not victims or fits(with_released(free, _shares(victims))) is None:
            self._note(rival)
            return None
        best: Way | None = None
        for group in self._groups(victims, single_node=single_node):
            way = yield from self._least(group, free, fits)
            if way is not None and (best is None or _worth(way) < _worth(best)):
                best = way
        return best

    def choose(self, way: Way) -> None:
        """These give way. What the job does not take of theirs is there for the next."""
        for victim in way.victims:
            del self._left[victim.run.job_id]
            self._leaving += victim.shares

    def leave(self, given: Iterable[tuple[RunningJob, Sequence[Share]]]) -> None:
        """Elastic runs give these back (surplus.py), and are no victims besides."""
        for run, shares in given:
            self._left.pop(run.job_id, None)
            self._leaving += shares

    def _candidates(self, rival: Rival) -> Iterable[Victim]:
        for run in self._left.values():
            if may_preempt(rival, run, self._now):
                shares = tuple([s for part in run.allocation if (s := self._inventory.share_of(part))])
                cost = cost_of(run, self._now)
                if is_outranked(rival.partition, run, self._now):
                    yield Victim(run, shares, cost, cost)
                else:  # as few as will do, and who has had most of its turn
                    yield Victim(run, shares, cost, 1 / (1 + self._now - run.start_time))

    def _note(self, rival: Rival) -> None:
        """Time alone may bring a way."""
        for run in self._left.values():
            self.wake_time = min(self.wake_time, next_time(rival, run, self._now))

    def _groups(self, victims: list[Victim], *, single_node: bool) -> Iterable[list[Victim]]:
        yield victims
        places: dict[int, list[Victim]] = {}
        for victim in victims:
            for place in {self._place(share.node, single_node) for share in victim.shares}:
                places.setdefault(place, []).append(victim)
        if len(places) > 1:
            cheapest = sorted(places.values(), key=lambda group: (group[0].rank, _cost(group)))
            yield from cheapest[:_PLACES]

    def _place(self, node: int, single_node: bool) -> int:
        return node if single_node else int(self._inventory.layout.leaf_of_node[node])

    def _least(self, victims: list[Victim], free: Counts, fits: Fit) -> Generator[None, None, Way | None]:
        """A set none of which can be spared: as few of the first as are enough; then each is given back, the
        dearest first, if it goes without."""

        def are_enough(some: Sequence[Victim]) -> bool:
            return fits(with_released(free, _shares(some))) is not None

        if not are_enough(victims):
            return None
        low, high = 1, len(victims)
        while low < high:
            yield
            middle = (low + high) // 2
            if are_enough(victims[:middle]):
                high = middle
            else:
                low = middle + 1
        needed = victims[:low]
        for victim in reversed(needed[:-1]):  # without the last it did not fit
            yield
            others = [other for other in needed if other is not victim]
            if are_enough(others):
                needed = others
        if len(needed) > self._most:
            return None
        then = with_released(free, _shares(needed))
        shares = fits(then)
        assert shares is not None
        return Way(tuple(needed), shares, then)


def _rank(victim: Victim) -> tuple[int, float, float, int]:
    return victim.rank


def _shares(victims: Iterable[Victim]) -> list[Share]:
    return [share for victim in victims for share in victim.shares]


def _cost(victims: Iterable[Victim]) -> float:
    return sum(victim.cost for victim in victims)


def _worth(way: Way) -> tuple[int, float, int]:
    """The less the better."""
    weight = sum(victim.weight for victim in way.victims)
    return max(victim.run.tier for victim in way.victims), weight, len(way.victims)


def _anyone_waits(runs: Sequence[RunningJob], classes: Sequence[RequestClass]) -> bool:
    lowest = min(run.tier for run in runs)
    sliced = {run.partition for run in runs if run.slice_end < inf}
    return any(jobs.partition.priority_tier > lowest or jobs.partition.name in sliced for jobs in classes)
