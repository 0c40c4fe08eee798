"""What accounts take back from each other: the laws of the account tree as to who gives way to whom.

An account that is under its guarantee, or under its fair share where that is asked for, takes back from one
that is over its own. The two accounts that are compared are those below the lowest account that has both
jobs under it: what is lent inside a department is the department's own affair.

- By *guarantee*: of every TRES that the job asks for and its side is guaranteed, the side stays within its
  guarantee with the job. The other side is over its own in one of these, and the run holds some of that.
- By *fair share*: the side's dominant share (`fair_share.py`) is below its part, and not above it with the
  job; that of the other side is not below its own part without the run. A part is the parent's, divided by
  weight among those who run or wait.
- Whatever the cause, no account is brought below its guarantee by somebody outside of it.
- Nothing is taken back across a fence: an account that lends nothing of a TRES has nothing of it to take
  back, and what is inside an account that may borrow nothing of it was not borrowed from outside. One such
  TRES among those that a job asks for is enough.

So nobody takes back in turn what was taken: who lost a run is still at or over what is its own, and who
gained is not over it; on each level of the tree the accounts' use within what is their own only grows, until
something ends or is submitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from minislurm.domain.accounts import ROOT
from minislurm.domain.tres import NODE, Tres
from minislurm.scheduling.limits import Charged, Holder, Limits
from minislurm.scheduling.model import RunningJob

#: Of a share: less than that is nothing.
_EPSILON = 1e-9


class Party(NamedTuple):
    """Whom something is charged to, and what it holds or asks for."""

    charged: Charged
    tres: Tres


def party_of(run: RunningJob) -> Party:
    return Party(Charged(run.account, run.user_name, run.qos, run.partition_qos), run.tres)


class Laws:
    """`limits` knows what runs, without what is about to end; it is kept up to date (`charge`). `waiting`:
    (account, user) of the jobs that wait; with those who run they share what there is."""

    def __init__(self, reclaim: str, limits: Limits, waiting: Iterable[tuple[str, str]] = ()) -> None:
        """`reclaim`: "off", "guarantee" or "fair_share"."""
        self._reclaim = reclaim
        self.limits = limits
        self._tree = tree = limits.tree
        self._ledger = limits.ledger
        #: The same without what is only kept for somebody: what a run could be taken from.
        self._live = limits.ledger.copy()
        #: Nodes are left out: one that several jobs share counts for each of them.
        self._capacity = {k: amount for k, amount in limits.capacity.items() if amount and k != NODE}
        self._waiting = set(waiting)
        self._guarantees_any = any(account.guarantee for account in tree.accounts.values())
        self._paths: dict[Charged, tuple[Holder, ...]] = {}
        self._parts: dict[Holder, float] | None = None

    @property
    def reclaims(self) -> bool:
        return self._reclaim != "off"

    def charge(self, party: Party, sign: int = 1) -> None:
        """It starts; `sign` -1: it gives way."""
        self.keep(party, sign)
        self._live.charge(party.charged, party.tres, sign)

    def keep(self, party: Party, sign: int = 1) -> None:
        """It will start when others have gone."""
        self.limits.charge(party.charged, party.tres, sign)

    # The questions

    def may_take_back(self, rival: Party, held: Party) -> str:
        """Why the run that holds gives way to the rival: "guarantee", "fair_share"; "": it does not."""
        if not self.reclaims:
            return ""
        mine, others = self._sides(rival.charged, held.charged)
        if not mine or not others or rival.charged.account == held.charged.account:
            return ""
        wanted = [name for name, amount in rival.tres.items() if amount and held.tres.get(name)]
        if not wanted or any(self._is_fenced(others, name) for name in wanted):
            return ""
        if not self._leaves_guarantees(others, held.tres):
            return ""
        owed = self._owed(mine, rival.tres)
        if any(name in wanted and self._is_over(others[-1], name) for name in owed):
            return "guarantee"
        if self._reclaim == "fair_share" and self._is_under_share(mine, rival.tres):
            return "fair_share" if self._stays_over_share(others[-1], held.tres) else ""
        return ""

    def leaves_guarantees(self, rival: Party, held: Party) -> bool:
        """Without the run, is every account that has it, and not the rival, still within what it is
        guaranteed?"""
        if not self._guarantees_any:
            return True
        _, others = self._sides(rival.charged, held.charged)
        return self._leaves_guarantees(others, held.tres)

    def is_entitled(self, rival: Party) -> bool:
        """Might it take back at all, if somebody has borrowed?"""
        if not self.reclaims:
            return False
        path = self._path(rival.charged)
        for end in range(2, len(path)):
            mine = path[:end]
            if self._owed(mine, rival.tres):
                return True
            if self._reclaim == "fair_share" and self._is_under_share(mine, rival.tres):
                return True
        return False

    # By guarantee

    def _owed(self, mine: Sequence[Holder], asked: Tres) -> list[str]:
        """The TRES that the side is guaranteed and asks for; [] where with the job it would be over its
        guarantee in one of them, or lends nothing of what the job asks for."""
        top = mine[-1]
        if top.kind != "account" or self._lends_nothing(mine, asked):
            return []
        guarantee, used = self._tree.guarantee(top.name), self._used(top)
        names = [name for name, amount in asked.items() if amount and guarantee.get(name)]
        if any(used.get(name, 0) + asked[name] > guarantee[name] for name in names):
            return []
        return names

    def _is_over(self, top: Holder, name: str) -> bool:
        return self._held(top).get(name, 0) > self._guarantee(top).get(name, 0)

    def _leaves_guarantees(self, others: Sequence[Holder], held: Tres) -> bool:
        if not self._guarantees_any:
            return True
        for holder in others:
            used = self._held(holder)
            for name, guaranteed in self._guarantee(holder).items():
                if held.get(name) and used.get(name, 0) - held[name] < guaranteed:
                    return False
        return True

    # By fair share

    def _is_under_share(self, mine: Sequence[Holder], asked: Tres) -> bool:
        if self._lends_nothing(mine, asked):
            return False
        top = mine[-1]
        part = self._part(top)
        before, used = self._share(self._used(top)), dict(self._used(top))
        for name, amount in asked.items():
            used[name] = used.get(name, 0) + amount
        return before < part - _EPSILON and self._share(used) <= part + _EPSILON

    def _stays_over_share(self, top: Holder, held: Tres) -> bool:
        used = dict(self._held(top))
        for name, amount in held.items():
            used[name] = used.get(name, 0) - amount
        return self._share(used) >= self._part(top) - _EPSILON

    def _share(self, used: Tres) -> float:
        return max((used.get(name, 0) / amount for name, amount in self._capacity.items()), default=0.0)

    def _part(self, holder: Holder) -> float:
        """Of the cluster, by the weights of those who run or wait."""
        if self._parts is None:
            self._parts = self._make_parts()
        return self._parts.get(holder, 0.0)

    def _make_parts(self) -> dict[Holder, float]:
        tree = self._tree
        users = {(h.name, h.user) for h in self._ledger.uses if h.kind == "user"} | self._waiting
        busy = {name for account, _ in users for name in tree.path(account)}
        parts = {Holder("account", ROOT): 1.0}
        left = [ROOT]
        while left:
            account = left.pop()
            members = [(Holder("account", child), tree.accounts[child].weight)
                       for child in tree.children[account] if child in busy]  # fmt: skip
            left += [holder.name for holder, _ in members]
            for owner, user in sorted(users):
                if owner == account:
                    association = tree.association(account, user)
                    members.append((Holder("user", account, user), association.weight if association else 1))
            total = sum(weight for _, weight in members)
            for holder, weight in members:
                parts[holder] = parts[Holder("account", account)] * weight / total if total else 0.0
        return parts

    # The tree

    def _sides(self, one: Charged, other: Charged) -> tuple[Sequence[Holder], Sequence[Holder]]:
        """Those that hold the one and not the other, from the user up, and the reverse."""
        mine, others = self._path(one), self._path(other)
        above = set(mine).intersection(others)
        return mine[: _until(mine, above)], others[: _until(others, above)]

    def _path(self, who: Charged) -> tuple[Holder, ...]:
        found = self._paths.get(who)
        if found is None:
            accounts = [Holder("account", name) for name in self._tree.path(who.account)]
            found = self._paths[who] = (Holder("user", who.account, who.user), *accounts)
        return found

    def _used(self, holder: Holder) -> Mapping[str, int]:
        return self._ledger.of(*holder).tres

    def _held(self, holder: Holder) -> Mapping[str, int]:
        return self._live.of(*holder).tres

    def _guarantee(self, holder: Holder) -> Tres:
        return self._tree.guarantee(holder.name) if holder.kind == "account" else {}

    def _lends_nothing(self, side: Sequence[Holder], asked: Tres) -> bool:
        """Of something that is asked for."""
        limits = [self._tree.accounts[holder.name].lend_limit for holder in _accounts(side)]
        return any(amount and limit.get(name) == 0 for limit in limits for name, amount in asked.items())

    def _is_fenced(self, side: Sequence[Holder], name: str) -> bool:
        return any(self._tree.accounts[h.name].borrow_limit.get(name) == 0 for h in _accounts(side))


def _accounts(side: Iterable[Holder]) -> Iterable[Holder]:
    return (holder for holder in side if holder.kind == "account")


def _until(path: Sequence[Holder], above: set[Holder]) -> int:
    return next((i for i, holder in enumerate(path) if holder in above), len(path))
