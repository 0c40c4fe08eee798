"""Preemption as jobs ask for it, and as it is remembered."""

from __future__ import annotations

from msgspec import Struct

from minislurm.domain.ids import JobId, NodeName, RunNumber

#: ``--preemption``: whom a job may preempt. "lower": who is below it by tier or QOS; "borrowers": who borrows
#: as well, by the account tree.
POLICIES = ("never", "lower", "borrowers")
#: So many preemptions of a job are remembered, the newest.
REMEMBERED = 10


class PreemptionWish(Struct, frozen=True):
    """``--preemption=POLICY,difference=N,victims=N``. "" and None: as the cluster has it, beyond which no job
    can go."""

    policy: str = ""
    #: Its priority is by so much above that of whoever gives way to it.
    min_difference: int | None = None
    #: So many runs give way to it at most; 0: as the cluster has it.
    max_victims: int | None = None

    def difference(self, of_cluster: int) -> int:
        return max(self.min_difference or 0, of_cluster)

    def most(self, of_cluster: int) -> int:
        """0: any number."""
        return min(filter(None, (self.max_victims, of_cluster)), default=0)


#: As the cluster has it.
NO_WISH = PreemptionWish()


def is_wish(wish: PreemptionWish | None) -> bool:
    if wish is None:
        return True
    numbers = (wish.min_difference or 0, wish.max_victims or 0)
    return wish.policy in ("", *POLICIES) and all(0 <= number < 2**32 for number in numbers)


class Alternative(Struct, frozen=True):
    """A set of runs that was weighed and not taken."""

    victims: tuple[JobId, ...]
    #: GPU-seconds (CPU-seconds, of runs without GPUs).
    cost: float
    #: Why not.
    why: str = ""


class PreemptionRecord(Struct, frozen=True):
    """One time that a run gave way. Costs in GPU-seconds (CPU-seconds, of runs without GPUs)."""

    time: float
    run: RunNumber
    preemptor: JobId
    #: "tier", "qos", "guarantee", "fair_share", "time_slice".
    cause: str
    #: Where the preemptor was to start.
    nodes: tuple[NodeName, ...] = ()
    #: What was to be lost of this run.
    cost: float = 0.0
    #: All that gave way together, and what was to be lost of all of them.
    victims: tuple[JobId, ...] = ()
    total_cost: float = 0.0
    alternatives: tuple[Alternative, ...] = ()
    #: Its preemptor's start had not been asked of any other run.
    is_first: bool = True
    #: When nothing was left of the run, and what was lost by then; 0 and None: not yet.
    end_time: float = 0.0
    true_cost: float | None = None
