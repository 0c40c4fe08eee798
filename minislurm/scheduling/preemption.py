"""Which runs give way to a job that would not start otherwise.

Before any run is touched it is proven that the job fits with those runs gone (place.choose decides, so
racks, GPUs, reservations and whatever else a placement heeds is heeded; limits too), and that it does not fit
if any one of them stays. Of several such sets the one is taken whose highest tier is the lowest, then the one
that loses the least work (`costs.py`); if it loses less by so much that waiting for the next checkpoints of
its runs is worth it, the job waits for these.

Sets are looked for among all runs, among those of each rack, and among those of each node where the job
needs only one: the cheapest runs anywhere may be spread so that they help nobody. A gang gives way whole.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.preemption import NO_WISH, Alternative
from minislurm.scheduling.costs import cost_at, cost_of, next_checkpoint, typical_unsaved_s
from minislurm.scheduling.model import Preemption, RunningJob, Snapshot
from minislurm.scheduling.nodes import Counts, Inventory, Share
from minislurm.scheduling.reclaim import Laws, party_of
from minislurm.scheduling.rivals import Cause, Rival, cause_of, gives_way, next_time, preempted_by
from minislurm.scheduling.timeline import with_released

if TYPE_CHECKING:
    from minislurm.scheduling.accounts import AccountsPass
    from minislurm.scheduling.order import Turn

#: So many racks, or nodes, are looked at one by one: those with the cheapest runs.
_PLACES = 16
#: So many sets that were not taken are told.
_ALTERNATIVES = 4


_Rank = tuple[int, tuple[float, ...], float, float, int]


class Victim(NamedTuple):
    run: RunningJob
    shares: tuple[Share, ...]
    cause: Cause
    #: Work that is lost: GPU-seconds (CPU-seconds, of a run without GPUs).
    cost: float
    #: The less, the sooner it gives way.
    weight: float
    #: What comes before that; (): nothing.
    place: tuple[float, ...] = ()

    @property
    def rank(self) -> _Rank:
        """The least gives way first: of equals who started last."""
        return self.run.tier, self.place, self.weight, -self.run.start_time, -self.run.job_id


#: The shares of the job if so much is free and these have given way; None: it does not fit, or may not start.
Fit = Callable[[Counts, Sequence[Victim]], "list[Share] | None"]


class Way(NamedTuple):
    """How a job can start: where, and who has to go for it (nobody, if it is enough to wait)."""

    victims: tuple[Victim, ...]
    shares: list[Share]
    #: What is free with them gone, but for the job itself.
    then: Counts
    #: When they are to go, and what is lost by that, the job's waiting until then included.
    time: float
    weight: float
    alternatives: tuple[Alternative, ...] = ()

    @property
    def cost(self) -> float:
        """Of the victims, if they went now."""
        return sum(victim.cost for victim in self.victims)

    @property
    def worth(self) -> tuple[int, float, int]:
        """The less the better."""
        return max(victim.run.tier for victim in self.victims), self.weight, len(self.victims)


class Victims:
    """The runs that may give way in this pass, and those that have been chosen."""

    def __init__(self, snapshot: Snapshot, inventory: Inventory, laws: Laws | None = None) -> None:
        self._now = snapshot.now
        self._settings = snapshot.preemption
        self._inventory = inventory
        self._laws = laws
        runs = [run for run in snapshot.running if gives_way(run)]
        #: Might anybody give way to anybody who waits?
        self.matter = bool(runs) and _anyone_waits(runs, snapshot, laws)
        self._left = {run.job_id: run for run in runs} if self.matter else {}
        self._typical_s = typical_unsaved_s(snapshot.running, snapshot.now) if self.matter else inf
        self._leaving: list[Share] = []
        #: See `Plan.wake_time`.
        self.wake_time = inf

    def with_leaving(self, free: Counts) -> Counts:
        """What is free when those have gone that were chosen in this pass."""
        return with_released(free, self._leaving)

    def find(
        self, rival: Rival, free: Counts, fits: Fit, *, single_node: bool, most: int = 0
    ) -> Generator[None, None, Way | None]:
        """How the job could start now, or soon. `free`: with what is about to end gone, beside everything
        that is reserved. `most` victims; 0: any number. None: there is no way. Yields between units of
        work."""
        shares = fits(free, ())
        if shares is not None:
            return Way((), shares, free, self._now, 0.0)
        victims = sorted(self._candidates(rival), key=_rank)
        yield
        if not victims or fits(with_released(free, _shares(victims)), victims) is None:
            self._note(rival)
            return None
        ways: list[Way] = []
        for group in self._groups(victims, single_node=single_node):
            way = yield from self._least(rival, group, free, fits)
            if way is not None and way.victims not in [other.victims for other in ways]:
                ways.append(self._timed(rival, way))
        few = [way for way in ways if not most or len(way.victims) <= most]
        if not few:
            return None
        best = min(few, key=_worth)
        return best._replace(alternatives=_alternatives(best, ways, most))

    def choose(self, way: Way) -> None:
        """These give way. What the job does not take of theirs is there for the next."""
        for victim in way.victims:
            del self._left[victim.run.job_id]
            self._leaving += victim.shares
            if self._laws is not None:
                self._laws.charge(party_of(victim.run), -1)
        if way.time > self._now:
            self.wake_time = min(self.wake_time, way.time)

    @contextmanager
    def gone(self, victims: Iterable[Victim]) -> Generator[None]:
        """Accounts as they are when these have given way."""
        laws = self._laws
        if laws is None:
            yield
            return
        parties = [party_of(victim.run) for victim in victims]
        for party in parties:
            laws.charge(party, -1)
        try:
            yield
        finally:
            for party in parties:
                laws.charge(party)

    def leave(self, given: Iterable[tuple[RunningJob, Sequence[Share]]]) -> None:
        """Elastic runs give these back (surplus.py), and are no victims besides."""
        for run, shares in given:
            self._left.pop(run.job_id, None)
            self._leaving += shares

    def _candidates(self, rival: Rival) -> Iterable[Victim]:
        for run in self._left.values():
            cause = cause_of(rival, run, self._now, self._laws)
            if cause is not None:
                shares = tuple([s for part in run.allocation if (s := self._inventory.share_of(part))])
                cost = cost_of(run, self._now, self._typical_s)
                # Of those who had their turn as few as will do, and who has had most of it.
                weight = 1 / (1 + self._now - run.start_time) if cause is Cause.TIME_SLICE else cost
                yield Victim(run, shares, cause, cost, weight, self._place_in_order(rival, run))

    def _place_in_order(self, rival: Rival, run: RunningJob) -> tuple[float, ...]:
        """Under an order that does not go by cost."""
        match self._settings.victim_order:
            case "youngest":
                return (-run.start_time,)
            case "priority":
                return run.priority, -run.start_time
            case "nodes":
                return len(run.allocation), -run.start_time
            case "accounts":
                return run.account == rival.party.charged.account, run.priority, -run.start_time
        return ()

    def _note(self, rival: Rival) -> None:
        """Time alone may bring a way."""
        for run in self._left.values():
            self.wake_time = min(self.wake_time, next_time(rival, run, self._now, self._laws))

    def _groups(self, victims: list[Victim], *, single_node: bool) -> Iterable[list[Victim]]:
        yield victims
        if self._settings.victim_order != "cost":
            return  # the first in that order that are enough
        places: dict[int, list[Victim]] = {}
        for victim in victims:
            for place in {self._place(share.node, single_node) for share in victim.shares}:
                places.setdefault(place, []).append(victim)
        if len(places) > 1:
            cheapest = sorted(places.values(), key=lambda group: (group[0].rank, _cost(group)))
            yield from cheapest[:_PLACES]

    def _place(self, node: int, single_node: bool) -> int:
        return node if single_node else int(self._inventory.layout.leaf_of_node[node])

    def _allowed_together(self, rival: Rival, victims: Iterable[Victim]) -> list[Victim]:
        """Each is judged with those before it gone: what one account has borrowed it gives back once."""
        laws = self._laws
        if laws is None:
            return list(victims)
        allowed: list[Victim] = []
        for victim in victims:
            if cause_of(rival, victim.run, self._now, laws) is not None:
                allowed.append(victim)
                laws.charge(party_of(victim.run), -1)
        for victim in allowed:
            laws.charge(party_of(victim.run))
        return allowed

    def _least(
        self, rival: Rival, group: list[Victim], free: Counts, fits: Fit
    ) -> Generator[None, None, Way | None]:
        """A set none of which can be spared: as few of the first as are enough; then each is given back, the
        dearest first, if it goes without."""
        victims = self._allowed_together(rival, group)

        def are_enough(some: Sequence[Victim]) -> bool:
            return fits(with_released(free, _shares(some)), some) is not None

        if not victims or not are_enough(victims):
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
        then = with_released(free, _shares(needed))
        shares = fits(then, needed)
        assert shares is not None
        return Way(tuple(needed), shares, then, self._now, sum(victim.weight for victim in needed))

    def _timed(self, rival: Rival, way: Way) -> Way:
        """With the time at which it costs least: now, or after one of the next checkpoints of its runs.

        The job waits no longer for that than is set from when it could first have started, so that one
        checkpoint after the other cannot hold it up.
        """
        if any(victim.cause is Cause.TIME_SLICE or victim.place for victim in way.victims):
            return way
        last = rival.eligible_time + self._settings.checkpoint_wait_s
        times = {next_checkpoint(victim.run, self._now) for victim in way.victims}
        size = sum(sum(share.gpus) for share in way.shares) or sum(share.cpus for share in way.shares)
        for time in sorted(times):
            if time <= last:
                lost = sum(cost_at(victim.run, time, self._now, self._typical_s) for victim in way.victims)
                weight = lost + size * (time - self._now)
                if weight < way.weight:
                    way = way._replace(time=time, weight=weight)
        return way


def rival_of(turn: Turn, snapshot: Snapshot, accounts: AccountsPass) -> Rival:
    """The next job of a class, as one that would start in somebody's place."""
    jobs, cluster = turn.jobs, snapshot.preemption
    wish, preempts = jobs.preemption or NO_WISH, snapshot.qos_preempts
    return Rival(
        jobs.partition,
        turn.job.eligible_time,
        accounts.party(jobs),
        turn.priority.at(turn.job.eligible_time),
        wish.policy or "borrowers",
        wish.difference(cluster.min_priority_difference),
        frozenset(preempts.get(jobs.qos, ())),
        preempted_by(preempts, jobs.qos),
    )


def preemption_of(
    way: Way, job_id: JobId, nodes: tuple[NodeName, ...], priority: int, tres: dict[str, int], after: int
) -> Preemption:
    """As the plan has it. `tres`: what the job takes; `after`: so many placements of the plan."""
    victims = tuple([(victim.run.job_id, victim.run.run) for victim in way.victims])
    costs = tuple([victim.cost for victim in way.victims])
    return Preemption(job_id, victims, nodes, way.cost, costs, way.alternatives, priority, tres, after)


def _rank(victim: Victim) -> _Rank:
    return victim.rank


def _worth(way: Way) -> tuple[int, float, int]:
    return way.worth


def _shares(victims: Iterable[Victim]) -> list[Share]:
    return [share for victim in victims for share in victim.shares]


def _cost(victims: Iterable[Victim]) -> float:
    return sum(victim.cost for victim in victims)


def _alternatives(best: Way, ways: Iterable[Way], most: int) -> tuple[Alternative, ...]:
    others = sorted([way for way in ways if way is not best], key=_worth)
    return tuple(
        Alternative(tuple(victim.run.job_id for victim in way.victims), way.cost, _why_not(best, way, most))
        for way in others[:_ALTERNATIVES]
    )


def _why_not(best: Way, way: Way, most: int) -> str:
    if most and len(way.victims) > most:
        return f"more than {most} runs"
    if way.worth[0] > best.worth[0]:
        return "of a higher tier"
    return "loses more" if way.weight > best.weight else "more runs"


def _anyone_waits(runs: Sequence[RunningJob], snapshot: Snapshot, laws: Laws | None) -> bool:
    if laws is not None and laws.reclaims:
        return bool(snapshot.classes)
    lowest = min(run.tier for run in runs)
    sliced = {run.partition for run in runs if run.slice_end < inf}
    return any(
        jobs.partition.priority_tier > lowest
        or jobs.partition.name in sliced
        or jobs.qos in snapshot.qos_preempts
        or jobs.claims
        for jobs in snapshot.classes
    )
