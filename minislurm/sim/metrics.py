"""The figures of a replay, each defined here once. Times are seconds; "units" are GPUs, or CPUs on a cluster
without GPUs.

- wait: from submission to the first start; turnaround: to the end of the last run.
- bounded slowdown of a job: max(1, turnaround / max(run time, 10 s)), where the run time is cut off at the
  time limit (D. Feitelson, "Metrics for parallel job scheduling and their convergence", JSSPP 2001).
- utilisation: units in use over units there are, from the first submission to the last end.
- fragmentation: of the units that were free, the share on nodes that were partly in use.
- racks per gang: leaf domains of a run on two nodes or more; `racks_needed` is the mean of the fewest that
  empty racks of the cluster could have held it in.
- lost: unit-hours of work that had to be done again, because a run was lost after its last checkpoint.
- fairness: Jain's index over the accounts' mean bounded slowdown; 1: all alike, 1/n: one bears it all
  (R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from minislurm.domain.states import JobState
from minislurm.sim.recording import Occupancy, Outcome, Series
from minislurm.sim.replay import Result

_SHORT_JOB_S = 10.0
_HOUR_S = 3600.0

Numbers = NDArray[np.float64]


class Spread(Struct, frozen=True):
    """How a quantity is distributed over the jobs."""

    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    most: float = 0.0

    @classmethod
    def of(cls, values: Numbers) -> Spread:
        if not len(values):
            return cls()
        median, p95 = np.percentile(values, [50, 95])
        return cls(float(values.mean()), float(median), float(p95), float(values.max()))


class Metrics(Struct, frozen=True):
    jobs: int
    #: By final state; "REFUSED" at submission; "PENDING" or "RUNNING" when nothing was left to happen.
    ends: dict[str, int]
    #: Why jobs were refused or never started, with their numbers.
    never_ran: dict[str, int]
    wait_s: Spread
    turnaround_s: Spread
    bounded_slowdown: Spread
    makespan_s: float
    utilisation: float
    #: None: a cluster of one node has none.
    fragmentation: float | None
    #: None: no gang, or no racks.
    racks_per_gang: float | None
    racks_needed: float | None
    preemptions: int
    requeues: dict[str, int]
    node_failures: int
    lost_unit_hours: float
    #: None: fewer than two accounts.
    fairness: float | None
    passes: int
    units: str


def measure(result: Result) -> Metrics:
    ran = [outcome for outcome in result.outcomes if outcome.has_run]
    waits = _array(outcome.wait_s for outcome in ran)
    slowdowns = _array(bounded_slowdown(outcome) for outcome in ran)
    ends = Counter(_end(outcome) for outcome in result.outcomes)
    requeues = Counter[str]()
    for outcome in result.outcomes:
        requeues.update(outcome.requeues)
    begin, end = _window(ran)
    if result.begin_s is not None:
        begin, end = result.begin_s, max(end, result.begin_s)
    gangs = _gangs(ran, result.occupancy)
    return Metrics(
        jobs=len(result.outcomes),
        ends=dict(sorted(ends.items())),
        never_ran=dict(Counter(o.why for o in result.outcomes if o.why).most_common()),
        wait_s=Spread.of(waits),
        turnaround_s=Spread.of(_array(outcome.turnaround_s for outcome in ran)),
        bounded_slowdown=Spread.of(slowdowns),
        makespan_s=end - begin,
        utilisation=_utilisation(result.series, result.occupancy, begin, end),
        fragmentation=_fragmentation(result.series, result.occupancy, begin, end),
        racks_per_gang=float(np.mean([used for used, _ in gangs])) if gangs else None,
        racks_needed=float(np.mean([least for _, least in gangs])) if gangs else None,
        preemptions=requeues.get("preempt", 0),
        requeues=dict(sorted(requeues.items())),
        node_failures=result.failures,
        lost_unit_hours=sum(outcome.lost for outcome in result.outcomes) / _HOUR_S,
        fairness=_fairness(ran),
        passes=result.passes,
        units="GPUs" if result.occupancy.on_gpus else "CPUs",
    )


def bounded_slowdown(outcome: Outcome) -> float:
    return max(1.0, outcome.turnaround_s / max(outcome.run_s, _SHORT_JOB_S))


def _array(values: Iterable[float]) -> Numbers:
    return np.fromiter(values, dtype=np.float64)


def _end(outcome: Outcome) -> str:
    if outcome.state is not None:
        return outcome.state.value
    if outcome.runs and not outcome.runs[-1].end_s:
        return JobState.RUNNING.value
    return JobState.PENDING.value if outcome.is_known else "REFUSED"


def _window(ran: Sequence[Outcome]) -> tuple[float, float]:
    if not ran:
        return 0.0, 0.0
    return min(outcome.submit_s for outcome in ran), max(outcome.end_s for outcome in ran)


def integral(times: Numbers, values: Numbers, begin: float, end: float) -> float:
    """Of a step function between two times."""
    if not len(times) or end <= begin:
        return 0.0
    edges = np.clip(np.append(times, end), begin, end)
    return float((np.diff(edges) * values).sum())


def _utilisation(series: Series, occupancy: Occupancy, begin: float, end: float) -> float:
    if end <= begin or not occupancy.total:
        return 0.0
    used = integral(np.asarray(series.times), np.asarray(series.used), begin, end)
    return used / (occupancy.total * (end - begin))


def _fragmentation(series: Series, occupancy: Occupancy, begin: float, end: float) -> float | None:
    if len(occupancy.capacity) < 2:
        return None
    times = np.asarray(series.times)
    free = integral(times, np.asarray(series.usable) - np.asarray(series.used), begin, end)
    return integral(times, np.asarray(series.stranded), begin, end) / free if free > 0 else None


def _gangs(ran: Sequence[Outcome], occupancy: Occupancy) -> list[tuple[int, int]]:
    """Racks used and the fewest possible, of every run on two nodes or more."""
    sizes = sorted(Counter(rack for rack in occupancy.rack_of.values() if rack).values(), reverse=True)
    if not sizes:
        return []
    return [
        (len(run.units_by_rack), _fewest(sizes, run.nodes))
        for outcome in ran
        for run in outcome.runs
        if run.nodes > 1
    ]


def _fewest(sizes: Sequence[int], nodes: int) -> int:
    for count, size in enumerate(sizes, start=1):
        nodes -= size
        if nodes <= 0:
            return count
    return len(sizes)


def _fairness(ran: Sequence[Outcome]) -> float | None:
    of_owner: dict[str, list[float]] = defaultdict(list)
    for outcome in ran:
        of_owner[outcome.owner].append(bounded_slowdown(outcome))
    if len(of_owner) < 2:
        return None
    means = np.array([np.mean(values) for values in of_owner.values()])
    return float(means.sum() ** 2 / (len(means) * (means**2).sum()))
