"""What a node does when it hears nothing from the controller: go on, or end its runs before they start
elsewhere.

Pure; times are seconds of any one monotonic clock. The controller gives up what runs here `grace_s` after
`timeout_s` of silence (`cluster/contacts.py`). So runs may go on for `timeout_s` after a heartbeat was sent
that the controller has answered, which is never later than when it heard it. To go on after that the node
must know that the controller is away: it asks its witnesses, nodes in other racks. If one of them has heard
the controller lately, or a majority does not say the contrary, the node itself may be the one that is cut
off.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from minislurm.domain.node import Witness


class Vote(Struct, frozen=True):
    """A witness' answer. `silence_s`: since it heard the controller; None: it never did. `up_s`: how long it
    has been there to hear anything."""

    silence_s: float | None
    up_s: float


class Isolation(Struct):
    timeout_s: float
    suspect_s: float
    #: For so long a majority's word is good.
    extension_s: float
    #: When the last heartbeat was sent that was answered.
    confirmed: float
    #: Until when the runs here may go on. A node that has just started has nothing of its own to end yet.
    until: float
    #: Nodes to ask; None: the controller has not said so far.
    witnesses: tuple[Witness, ...] | None = None
    last_asked: float = float("-inf")

    @classmethod
    def begin(cls, timeout_s: float, suspect_s: float, now: float) -> Isolation:
        return cls(timeout_s, suspect_s, timeout_s / 2, confirmed=now, until=now + timeout_s)

    @property
    def ask_interval_s(self) -> float:
        """Also how long an answer is waited for."""
        return self.timeout_s / 8

    def confirm(self, sent: float) -> None:
        """The controller has heard what was sent then."""
        self.confirmed = max(self.confirmed, sent)
        self.until = max(self.until, sent + self.timeout_s)

    def is_silent(self, now: float) -> bool:
        return now - self.confirmed > self.suspect_s

    def asks(self, now: float) -> bool:
        """Is it time to ask the witnesses (again)?"""
        return self.is_silent(now) and now - self.last_asked >= self.ask_interval_s

    def judge(self, votes: Sequence[Vote], asked: float) -> bool:
        """What was answered to the question of that time; True: the controller is away, everything goes on.

        Twice the time after which a stream is given up: a witness that says "away" has then neither heard the
        controller nor been heard by it for that time once.
        """
        if self.witnesses is None:
            return False
        away_s = 2 * self.suspect_s
        silences = [vote.up_s if vote.silence_s is None else vote.silence_s for vote in votes]
        sees = any(
            vote.silence_s is not None and silence < away_s
            for vote, silence in zip(votes, silences, strict=True)
        )
        away = sum(silence >= away_s for silence in silences)
        needed = len(self.witnesses) // 2 + 1 if self.witnesses else 0
        if sees or away < needed:
            return False
        self.until = max(self.until, asked + self.extension_s)
        return True

    def has_ended(self, now: float) -> bool:
        return now >= self.until
