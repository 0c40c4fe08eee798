"""A node that loses the controller: it goes on only when it knows that the controller is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from minislurm.domain.configuration import TimersSection
from minislurm.domain.ids import NodeName
from minislurm.domain.node import Witness
from minislurm.node import lease
from minislurm.node.isolation import Isolation, Vote
from minislurm.node.lease_keeper import LeaseKeeper

SEES, AWAY = Vote(1.0, 1e6), Vote(30.0, 1e6)
#: Its daemon has just started: it knows nothing.
NEW, NEVER = Vote(None, 1.0), Vote(None, 1e6)
WITNESSES = tuple(Witness(NodeName(f"w{i}"), "127.0.0.1", 1) for i in range(3))


def a_node(witnesses: tuple[Witness, ...] | None = WITNESSES) -> Isolation:
    isolation = Isolation.begin(60.0, 12.0, 0.0)
    isolation.witnesses = witnesses
    return isolation


def test_what_was_answered_counts_from_when_it_was_sent() -> None:
    isolation = a_node()
    isolation.confirm(100.0)
    assert not isolation.has_ended(159.9)
    assert isolation.has_ended(160.0)
    isolation.confirm(90.0)
    assert isolation.until == 160.0, "an older answer takes nothing back"


def test_witnesses_are_asked_when_it_is_silent_and_not_without_end() -> None:
    isolation = a_node()
    assert not isolation.asks(12.0)
    assert isolation.asks(12.1)
    isolation.last_asked = 12.1
    assert not isolation.asks(12.2)
    assert isolation.asks(12.1 + isolation.ask_interval_s)


@pytest.mark.parametrize(
    ("votes", "goes_on"),
    [
        ([AWAY, AWAY, AWAY], True),
        ([AWAY, AWAY], True),
        ([AWAY, NEVER], True),
        ([AWAY], False),
        ([AWAY, AWAY, SEES], False),
        ([SEES], False),
        ([], False),
        ([NEW, NEW, AWAY], False),
        ([AWAY, NEW, AWAY], True),
    ],
)
def test_the_votes(votes: list[Vote], goes_on: bool) -> None:
    isolation = a_node()
    assert isolation.judge(votes, 55.0) is goes_on
    assert isolation.until == (85.0 if goes_on else 60.0)


@pytest.mark.parametrize(("silence", "goes_on"), [(23.9, False), (24.0, True)])
def test_away_is_away_for_longer_than_a_stream_takes_to_be_given_up(silence: float, goes_on: bool) -> None:
    """Else a witness could be heard by the controller which it does not hear."""
    assert a_node().judge([Vote(silence, 1e6)] * 3, 30.0) is goes_on


def test_a_node_without_witnesses_goes_on() -> None:
    """Nobody can give it up either."""
    assert a_node(()).judge([], 55.0)


def test_a_node_that_was_told_of_none_yet_does_not() -> None:
    assert not a_node(None).judge([], 55.0)


# The keeper of the lease

TIMERS = TimersSection(heartbeat_interval_s=0.1, node_suspect_s=0.2, node_timeout_s=0.8, node_grace_s=0.4)


class Keeper:
    def __init__(self, folder: Path, votes: list[Vote]) -> None:
        self.ends = 0
        self.asked: list[float] = []
        self.votes = votes
        self.keeper = LeaseKeeper(TIMERS, str(folder), ask=self.ask, on_end=self.ended)
        self.keeper.told_witnesses(WITNESSES)

    async def ask(self, witnesses: Sequence[Witness], timeout_s: float) -> list[Vote]:
        assert witnesses == WITNESSES
        self.asked.append(timeout_s)
        return self.votes

    def ended(self) -> None:
        self.ends += 1

    async def run_until(self, end: float) -> None:
        task = asyncio.ensure_future(self.keeper.run())
        while lease.now() < end:
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_the_lease_ends_once_and_the_file_says_when(tmp_path: Path) -> None:
    own = Keeper(tmp_path, [SEES])
    own.keeper.begin(has_runs=False)
    until = lease.now() + lease.left_s(own.keeper.path)
    assert until == pytest.approx(own.keeper.isolation.until, abs=0.01)
    asyncio.run(own.run_until(until + 0.3))
    assert (own.ends, bool(own.asked)) == (1, True)
    assert lease.now() + lease.left_s(own.keeper.path) == pytest.approx(until, abs=0.01)


def test_it_goes_on_while_the_witnesses_do_not_see_the_controller_either(tmp_path: Path) -> None:
    own = Keeper(tmp_path, [AWAY, AWAY])
    own.keeper.begin(has_runs=False)
    first = own.keeper.isolation.until
    asyncio.run(own.run_until(first + 0.5))
    assert own.ends == 0
    assert lease.now() + lease.left_s(own.keeper.path) > first + 0.3


def test_a_word_of_the_controller_begins_a_new_lease(tmp_path: Path) -> None:
    own = Keeper(tmp_path, [])
    own.keeper.begin(has_runs=False)
    asyncio.run(own.run_until(own.keeper.isolation.until + 0.1))
    own.keeper.heard(lease.now())
    asyncio.run(own.run_until(own.keeper.isolation.until + 0.1))
    assert own.ends == 2


def test_a_new_daemon_begins_no_new_lease_for_what_it_finds(tmp_path: Path) -> None:
    """It was away, and nobody knows what the controller has done meanwhile."""
    before = Keeper(tmp_path, [])
    before.keeper.begin(has_runs=False)
    before.keeper.isolation.until -= 0.7
    before.keeper.heard(0.0)
    after = Keeper(tmp_path, [])
    after.keeper.begin(has_runs=True)
    assert after.keeper.isolation.until == pytest.approx(before.keeper.isolation.until, abs=0.01)


def test_witnesses_are_known_to_the_next_daemon(tmp_path: Path) -> None:
    Keeper(tmp_path, [])
    keeper = LeaseKeeper(TIMERS, str(tmp_path), ask=Keeper(tmp_path, []).ask, on_end=lambda: None)
    assert keeper.isolation.witnesses == WITNESSES


def test_a_witness_that_never_heard_the_controller_says_so(tmp_path: Path) -> None:
    own = Keeper(tmp_path, [])
    own.keeper.begin(has_runs=False)
    assert own.keeper.vote().silence_s is None
    own.keeper.heard(lease.now())
    assert own.keeper.vote().silence_s == pytest.approx(0.0, abs=0.5)


@pytest.mark.parametrize("text", ["", "bogus", "12", "x 12.0"])
def test_a_lease_that_nobody_wrote_lasts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lease"
    if text:
        path.write_text(text)
    assert lease.left_s(str(path)) == float("inf")


@pytest.mark.parametrize(
    ("host", "clock"),
    [("127.0.0.1", time.CLOCK_MONOTONIC), ("localhost", time.CLOCK_MONOTONIC), ("ctl", time.CLOCK_BOOTTIME)],
)
def test_a_controller_on_the_same_host_sleeps_with_it(tmp_path: Path, host: str, clock: int) -> None:
    """A laptop that was closed for an hour does not end its jobs. A shepherd goes by the clock of the
    file."""
    try:
        lease.choose_clock(host)
        file = lease.LeaseFile(str(tmp_path / "lease"))
        file.write(lease.now() + 50.0)
        file.close()
    finally:
        lease.choose_clock("elsewhere")
    assert (tmp_path / "lease").read_text().split()[0] == str(clock)
    assert lease.left_s(file.path) == pytest.approx(50.0, abs=1.0)


def test_a_longer_lease_hides_nothing_of_a_shorter_one(tmp_path: Path) -> None:
    """Lines are all of one length."""
    file = lease.LeaseFile(str(tmp_path / "lease"))
    file.write(123456789.123)
    size = (tmp_path / "lease").stat().st_size
    file.write(1.0)
    assert (tmp_path / "lease").stat().st_size == size
    assert lease.left_s(file.path) < 0
    file.close()
