"""A synthetic workload. Same description and seed: the same jobs.

Distributions, each from one seeded generator:

- arrivals: a Poisson process whose rate follows the day: highest at noon, lowest at midnight
  (`1 + daily · sin`), set so that the cluster's units are asked for at `load`.
- sizes: a power of two with probability falling by `size_decay` from one to the next, up to `largest` units
  (logs of the Parallel Workloads Archive show powers of two: A. Downey, D. Feitelson, "The elusive goal of
  workload characterization", 1999).
- run times: log-normal, median `median_run_s`, shape `run_sigma`, between 1 s and `longest_run_s`.
- estimates: the run time over a uniform share in (0, 1], rounded up to the next of a few usual limits:
  users overestimate, and by round figures (D. Tsafrir et al., "Modeling user runtime estimates", 2005).
- users and accounts: Zipf with exponent 1.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from minislurm.domain.errors import UsageError
from minislurm.sim.trace import TraceJob, Workload

_DAY_S = 86400.0
_USUAL_LIMITS_S = (300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 345600, 604800)


class Synthetic(Struct, frozen=True):
    """`synthetic:jobs=5000,load=0.9` sets fields by name."""

    jobs: int = 1000
    load: float = 0.8
    daily: float = 0.5
    largest: int = 64
    size_decay: float = 0.7
    median_run_s: float = 3600.0
    run_sigma: float = 1.5
    longest_run_s: float = 7 * _DAY_S
    users: int = 20
    accounts: int = 5

    @classmethod
    def parse(cls, text: str) -> Synthetic:
        """Raises UsageError."""
        made = cls()
        kinds = {name: type(getattr(made, name)) for name in cls.__struct_fields__}
        for item in filter(None, text.split(",")):
            name, _, value = item.partition("=")
            if name not in kinds:
                raise UsageError(f"synthetic: no setting {name} (there are {', '.join(kinds)})")
            try:
                number = kinds[name](value)
            except ValueError:
                raise UsageError(f"synthetic: {name}={value}: must be a number") from None
            made = replace(made, **{name: number})
        made.check()
        return made

    def check(self) -> None:
        """Raises UsageError."""
        for name in ("jobs", "load", "largest", "median_run_s", "longest_run_s", "users", "accounts"):
            if not getattr(self, name) > 0 or not math.isfinite(getattr(self, name)):
                raise UsageError(f"synthetic: {name} must be above 0")
        if not 0 <= self.daily < 1 or not 0 < self.size_decay <= 1 or not 0 <= self.run_sigma < 10:
            raise UsageError("synthetic: daily must be in [0, 1), size_decay in (0, 1], run_sigma in [0, 10)")


def generate(described: Synthetic, units: int, seed: int) -> Workload:
    """For a cluster of so many units (GPUs, or CPUs without)."""
    jobs = list(_Generator(described, units, seed).jobs())
    return Workload(f"synthetic, seed {seed}", tuple(jobs))


@dataclass(slots=True)
class _Generator:
    described: Synthetic
    units: int
    seed: int
    draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def jobs(self) -> Iterator[TraceJob]:
        described, draw = self.described, self.draw
        most = min(described.largest, self.units)
        sizes = [1 << power for power in range(most.bit_length())]
        weights = list(accumulate(described.size_decay**power for power in range(len(sizes))))
        users, accounts = _zipf(described.users), _zipf(described.accounts)
        shapes = [(draw.choices(sizes, cum_weights=weights)[0], self._run_s()) for _ in range(described.jobs)]
        # Of all that is asked for, `load` of the cluster is used from the first submission to the last.
        span_s = sum(size * run_s for size, run_s in shapes) / (self.units * described.load)
        for number, (time, (size, run_s)) in enumerate(zip(self._arrivals(span_s), shapes, strict=True), 1):
            user = draw.choices(range(described.users), cum_weights=users)[0]
            account = draw.choices(range(described.accounts), cum_weights=accounts)[0]
            yield TraceJob(
                name=f"job{number}",
                submit_s=time,
                run_s=run_s,
                limit_s=self._limit_s(run_s),
                processors=size,
                user=f"user{user + 1}",
                account=f"account{account + 1}",
            )

    def _run_s(self) -> float:
        drawn = self.draw.lognormvariate(math.log(self.described.median_run_s), self.described.run_sigma)
        return float(round(min(max(drawn, 1.0), self.described.longest_run_s)))

    def _limit_s(self, run_s: float) -> float:
        wanted = run_s / (1.0 - self.draw.random())
        return float(next((limit for limit in _USUAL_LIMITS_S if limit >= wanted), math.ceil(run_s)))

    def _arrivals(self, span_s: float) -> Iterator[float]:
        """Thinning (P. Lewis, G. Shedler, 1979): draw at the highest rate, keep by the time of day."""
        daily, time = self.described.daily, 0.0
        rate = self.described.jobs / span_s
        for _ in range(self.described.jobs):
            while True:
                time += self.draw.expovariate(rate * (1 + daily))
                now = 1 - daily * math.cos(2 * math.pi * time / _DAY_S)
                if self.draw.random() * (1 + daily) <= now:
                    break
            yield float(round(time))


def _zipf(count: int) -> list[float]:
    return list(accumulate(1 / rank for rank in range(1, count + 1)))
