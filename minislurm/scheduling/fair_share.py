"""Fair shares over the account tree: the factor of the multifactor priority, and the order `fair`.

`fair_tree` is Slurm's Fair Tree (slurm.schedmd.com/fair_tree.html): at each level of the tree the siblings,
accounts and users alike, are ranked by their weight against their usage, and the users are numbered in the
order in which the tree is then walked. An account that used less than its share therefore puts all its users
before those of one that used more, whatever they did inside.

`FairOrder` is weighted dominant-resource fairness (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011),
from the top of the tree down (Bhattacharya et al., "Hierarchical Scheduling for Diverse Datacenter
Workloads", SoCC 2013): at each level goes first whose dominant share, by weight, is least. What counts as
held is what runs now and what ran on average, with the half-life of the decay.
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
    ) -> None:
        self._tree = tree
        self._capacity = {name: amount for name, amount in capacity.items() if amount}
        #: Mean age of the usage that still counts: usage over it is what ran on average.
        self._window_s = half_life_s / math.log(2.0)
        self._held: dict[str, dict[str, float]] = {}
        for key, amounts in running.items():
            self._hold(key, amounts)
        if self._window_s:
            for key, used in usage.items():
                self._hold(key, {name: amount / self._window_s for name, amount in used.items()})

    def started(self, account: str, user: str, amounts: Tres) -> None:
        self._hold((account, user), amounts)

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

    def _hold(self, key: UserKey, amounts: Mapping[str, float]) -> None:
        account, user = key
        names = [f"account {name}" for name in self._tree.path(account)[:-1]]
        for label in (*names, f"user {user} in {account}"):
            held = self._held.setdefault(label, {})
            for name, amount in amounts.items():
                held[name] = held.get(name, 0.0) + amount

    def _share(self, label: str, weight: int) -> float:
        """The dominant share by weight: of which TRES it holds the greatest part of the cluster."""
        if not weight:
            return math.inf
        held = self._held.get(label)
        if not held:
            return 0.0
        parts = [held.get(name, 0.0) / amount for name, amount in self._capacity.items()]
        return max(parts, default=0.0) / weight
