"""Fair shares over the account tree: the factor of the multifactor priority, and the order `fair`.

`fair_tree` is Slurm's Fair Tree (slurm.schedmd.com/fair_tree.html): at each level of the tree the siblings,
accounts and users alike, are ranked by their weight against their usage, and the users are numbered in the
order in which the tree is then walked. An account that used less than its share therefore puts all its users
before those of one that used more, whatever they did inside.

`FairOrder` is weighted dominant-resource fairness (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011),
from the top of the tree down (Bhattacharya et al., "Hierarchical Scheduling for Diverse Datacenter
Workloads", SoCC 2013): at each level goes first whose dominant share, by weight, is least. What counts as
held is what runs now and what ran on average, with the half-life of the decay.

That alone would round for ever: of eight equal places, two accounts with weights 2 and 3 would hold 3 and 5
for good, and the first would lack 6 % of what it is entitled to. So who has had more than its part counts as
if it held up to one job more, and who has had less as if it held one less (`_even_out`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from minislurm.domain.accounts import ROOT, AccountTree
from minislurm.domain.tres import Tres

#: (account, user)
UserKey = tuple[str, str]
#: Decayed usage by user: TRES-seconds by name.
Usage = Mapping[UserKey, Mapping[str, float]]
#: The dominant share and the name, from the top of the tree down to the user. Least first.
FairKey = tuple[tuple[float, str], ...]


#: How strongly a deviation is evened out that has lasted. What is left of it is half a job's amount over
#: this: under 2 % for an account that is entitled to one job's.
_GAIN = 30.0


class _Member(Struct):
    """An account or a user, as its siblings see it."""

    weight: int
    usage: float = 0.0
    user: UserKey | None = None
    members: list[_Member] = field(default_factory=list)


def billed(usage: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """One number for the usage: Slurm's billing."""
    return sum(amount * weights.get(name, 0.0) for name, amount in usage.items())


def fair_tree(tree: AccountTree, usage: Usage, weights: Mapping[str, float]) -> dict[UserKey, float]:
    """Each user's factor, 1 for the one with most to ask for, above 0 for the last one."""
    root = _member_of(tree, ROOT, usage, weights)
    count = len(tree.associations)
    factors: dict[UserKey, float] = {}
    before = 0
    for group in _walk(root.members):
        for user in group:
            factors[user] = (count - before) / count
        before += len(group)
    return factors


def _member_of(tree: AccountTree, account: str, usage: Usage, weights: Mapping[str, float]) -> _Member:
    result = _Member(tree.accounts[account].weight)
    result.members = [_member_of(tree, child, usage, weights) for child in tree.children[account]]
    for item in tree.members.get(account, ()):
        used = billed(usage.get((account, item.user), {}), weights)
        result.members.append(_Member(item.weight, used, (account, item.user)))
    result.usage = sum(member.usage for member in result.members)
    return result


def _walk(members: Iterable[_Member]) -> Iterable[list[UserKey]]:
    """Users in their order, those with equal standing together. Siblings that tie are walked as one."""
    for tied in _ranked(list(members)):
        users = [member.user for member in tied if member.user is not None]
        if users:
            yield users
        below = [child for member in tied for child in member.members]
        if below:
            yield from _walk(below)


def _ranked(members: list[_Member]) -> Iterable[list[_Member]]:
    weights = sum(member.weight for member in members)
    total = sum(member.usage for member in members)
    groups: dict[float, list[_Member]] = {}
    for member in members:
        groups.setdefault(_level_share(member, weights, total), []).append(member)
    return [groups[share] for share in sorted(groups, reverse=True)]


def _level_share(member: _Member, weights: int, total: float) -> float:
    """Slurm's LevelFS: its part of the weights over its part of the usage."""
    if not member.weight:
        return 0.0
    if not member.usage:
        return math.inf
    return (member.weight / weights) / (member.usage / total)


class History:
    """What was used, and the factors that follow from it, worked out when first asked for.

    Shared by the passes of some seconds: half-lives are hours or days.
    """

    def __init__(self, tree: AccountTree, usage: Usage, weights: Mapping[str, float]) -> None:
        self.usage = usage
        self._tree = tree
        self._weights = weights
        self._factors: dict[UserKey, float] | None = None

    def factor(self, account: str, user: str) -> float:
        """Slurm's Fair Tree factor; 0 for who is in no account."""
        if self._factors is None:
            self._factors = fair_tree(self._tree, self.usage, self._weights)
        return self._factors.get((account, user), 0.0)


class FairOrder:
    """Who goes first under the order `fair`. Shares only grow in a pass, as jobs start."""

    def __init__(
        self,
        tree: AccountTree,
        running: Mapping[UserKey, Tres],
        usage: Usage,
        capacity: Tres,
        half_life_s: float,
        jobs: int = 0,
    ) -> None:
        """`jobs`: how many hold `running`; 0: nothing is evened out."""
        self._tree = tree
        self._capacity = {name: amount for name, amount in capacity.items() if amount}
        #: Mean age of the usage that still counts: usage over it is what ran on average.
        self._window_s = half_life_s / math.log(2.0)
        self._held: dict[str, dict[str, float]] = {}
        for key, amounts in running.items():
            self._add(self._held, key, amounts)
        if self._window_s:
            past: dict[str, dict[str, float]] = {}
            for key, used in usage.items():
                self._add(past, key, {name: amount / self._window_s for name, amount in used.items()})
            corrections = self._even_out(past, running, jobs) if jobs else {}
            for table in (past, corrections):
                for label, more in table.items():
                    _add_to(self._held.setdefault(label, {}), more)

    def started(self, account: str, user: str, amounts: Tres) -> None:
        self._add(self._held, (account, user), amounts)

    def key(self, account: str, user: str) -> FairKey:
        tree = self._tree
        parts = [
            (self._share(f"account {name}", tree.accounts[name].weight), f"account {name}")
            for name in reversed(tree.path(account)[:-1])
        ]
        association = tree.association(account, user)
        label = f"user {user} in {account}"
        parts.append((self._share(label, association.weight if association else 1), label))
        return tuple(parts)

    def _add(self, table: dict[str, dict[str, float]], key: UserKey, amounts: Mapping[str, float]) -> None:
        account, user = key
        names = [f"account {name}" for name in self._tree.path(account)[:-1]]
        for label in (*names, f"user {user} in {account}"):
            _add_to(table.setdefault(label, {}), amounts)

    def _even_out(
        self, past: Mapping[str, Mapping[str, float]], running: Mapping[UserKey, Tres], jobs: int
    ) -> dict[str, dict[str, float]]:
        """What each counts as if it held it besides, at most an average job's amount more or less: so much is
        enough to take turns with what cannot be divided, and nobody gets the whole cluster for what it did
        not use last week. Compared are siblings; who runs nothing is not taken for one who wants its part."""
        total: dict[str, float] = {}
        for amounts in running.values():
            _add_to(total, amounts)
        one_job = {name: amount / jobs for name, amount in total.items()}
        corrections: dict[str, dict[str, float]] = {}
        for siblings in self._siblings(past.keys() | self._held.keys()):
            active = [(label, weight) for label, weight in siblings if label in self._held]
            weights = sum(weight for _, weight in active)
            if not weights:
                continue
            for name, most in one_job.items():
                each = sum(past.get(label, {}).get(name, 0.0) for label, _ in active) / weights
                for label, weight in siblings:
                    excess = past.get(label, {}).get(name, 0.0) - weight * each
                    bounded = max(-most, min(most, _GAIN * excess))
                    corrections.setdefault(label, {})[name] = bounded
        return corrections

    def _siblings(self, labels: Iterable[str]) -> Iterable[list[tuple[str, int]]]:
        """Those of these labels that stand beside each other, with their weights."""
        tree = self._tree
        for account in tree.accounts:
            if account == ROOT or f"account {account}" in labels:
                below = [(f"account {name}", tree.accounts[name].weight) for name in tree.children[account]]
                users = tree.members.get(account, ())
                below += [(f"user {item.user} in {account}", item.weight) for item in users]
                yield [member for member in below if member[0] in labels]

    def _share(self, label: str, weight: int) -> float:
        """The dominant share by weight: of which TRES it holds the greatest part of the cluster."""
        if not weight:
            return math.inf
        held = self._held.get(label)
        if not held:
            return 0.0
        parts = [held.get(name, 0.0) / amount for name, amount in self._capacity.items()]
        return max(parts, default=0.0) / weight


def _add_to(sums: dict[str, float], amounts: Mapping[str, float]) -> None:
    for name, amount in amounts.items():
        sums[name] = sums.get(name, 0.0) + amount
