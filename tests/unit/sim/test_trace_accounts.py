"""Policies that go by accounts, on traces: who bids most, who has had least."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from minislurm.domain.account_check import problems
from minislurm.domain.accounts import AccountTree
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import UsageError
from minislurm.sim import cluster_file, policy, trace_accounts, trace_file
from minislurm.sim import main as command
from minislurm.sim.simulation import Plan, simulate
from minislurm.sim.trace import TraceError, TraceJob, Workload
from minislurm.sim.trace_accounts import Budget
from minislurm.sim.what_if import WhatIf
from minislurm.sim.workload import Synthetic, generate
from tests.unit.sim.test_live import a_busy_cluster, changed
from tests.unit.sim.traces import a_trace_job, a_workload

HOUR = 3600.0


def job(submit_s: float, account: str, bid: float = 0.0, **changes: object) -> TraceJob:
    """An hour on all four processors."""
    return a_trace_job(submit_s, HOUR, 4, account=account, bid=bid, **changes)


def flat() -> Configuration:
    return cluster_file.flat("4")


def starts(workload: Workload, name: str, **plan: object) -> list[float]:
    """In hours."""
    asked = Plan(workload, flat(), (policy.named(name),), **plan)  # type: ignore[arg-type]
    (measured,) = simulate(asked)
    return [round(outcome.runs[0].start_s / HOUR, 2) for outcome in measured.result.outcomes]


#: The first runs when the others come.
CONTEST = a_workload(job(0, "A"), job(1, "A", 1.0), job(2, "B", 3.0), job(3, "C", 2.0), job(4, "C", 0.5))


def test_who_bids_most_goes_first() -> None:
    assert starts(CONTEST, "auction") == [0, 3, 1, 2, 4]
    assert starts(CONTEST, "easy") == [0, 1, 2, 3, 4]


def test_who_has_spent_all_bids_nothing() -> None:
    """B has five credits in a hundred hours. Its first job pays 2 for each of four CPU-hours, what the best
    of the others bids: with that its budget is gone, and its other bids are nothing."""
    workload = a_workload(
        job(0, "A", 1.0), job(1, "B", 3.0), job(2, "B", 2.9), job(3, "C", 2.0), job(4, "C", 0.1)
    )
    assert starts(workload, "auction", budget=Budget(5.0, 100 * HOUR)) == [0, 1, 4, 2, 3]
    assert starts(workload, "auction", budget=Budget(1000.0, 100 * HOUR)) == [0, 1, 2, 3, 4]


def test_a_budget_is_a_part_of_the_cluster() -> None:
    tree = AccountTree().changed(trace_accounts.tree_of(CONTEST, 12, Budget(period_s=2 * HOUR)))
    assert {name: account.budget for name, account in tree.accounts.items() if name != "root"} == {
        "A": 8,
        "B": 8,
        "C": 8,
    }
    without = AccountTree().changed(trace_accounts.tree_of(CONTEST, 12, None))
    assert {account.budget for account in without.accounts.values()} == {None}


def test_bids_are_drawn_where_nobody_bids() -> None:
    silent = a_workload(*(job(number, "ab"[number % 2]) for number in range(300)))
    bids = [one.bid for one in trace_accounts.with_bids(silent, 1).jobs]
    assert bids == [one.bid for one in trace_accounts.with_bids(silent, 1).jobs]
    assert bids != [one.bid for one in trace_accounts.with_bids(silent, 2).jobs]
    assert 0.8 < sorted(bids)[150] < 1.25
    assert trace_accounts.with_bids(CONTEST, 1) is CONTEST


def test_who_had_least_goes_first() -> None:
    workload = a_workload(*(job(number, "A") for number in range(3)), job(3, "B"), job(4, "B"))
    assert starts(workload, "fair") == [0, 2, 4, 1, 3]


def test_users_stand_for_accounts_where_there_are_none() -> None:
    workload = a_workload(*(job(number, "", user="u") for number in range(2)), job(2, "", user="v"))
    assert starts(workload, "fair") == [0, 2, 1]
    alone = a_workload(job(0, "", user="u"), job(1, "", user="u"))
    for name in ("fair", "auction"):
        with pytest.raises(UsageError, match=f"--policy {name}: the trace has no two accounts"):
            starts(alone, name)


def test_any_names_make_a_tree() -> None:
    names = ["VC 1", "root", "-x", "ä/ö", "Group", "group"]
    workload = a_workload(*(job(number, name, user=f"{name}!") for number, name in enumerate(names)))
    charged = trace_accounts.charged(workload, "fair")
    assert [one.account for one in charged.jobs] == ["vc_1", "root_", "x", "_", "group", "group"]
    tree = AccountTree().changed(trace_accounts.tree_of(charged, 4, Budget()))
    assert not list(problems(tree))
    assert sorted(starts(workload, "fair")) == [0, 1, 2, 3, 4, 5]


def test_a_bid_counts_only_where_the_order_is_auction() -> None:
    """Elsewhere the core would refuse it."""
    (measured,) = simulate(Plan(CONTEST, flat(), (policy.named("easy"),)))
    assert measured.metrics.ends == {"COMPLETED": 5}


def test_the_same_seed_gives_the_same_auction() -> None:
    workload = generate(Synthetic(jobs=60, load=1.5, largest=4), 4, 1)
    first = starts(workload, "auction", seed=3)
    assert first == starts(workload, "auction", seed=3)
    assert first != starts(workload, "auction", seed=4)


def test_a_table_has_bids(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit,run,cpus,bid\n0,5,1,2.5\n0,5,1,\n")
    assert [one.bid for one in trace_file.read(path).jobs] == [2.5, 0]
    path.write_text("submit,run,cpus,bid\n0,5,1,1e10\n")
    with pytest.raises(TraceError, match="bid is 1e\\+10, must be 1e9 or less"):
        trace_file.read(path)


@pytest.mark.parametrize("option", ["--budget=5", "--budget-period=1-0"])
def test_a_budget_is_for_auctions(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--trace", "synthetic:jobs=5", "--cluster", "flat:4"]
    assert command.main([*arguments, option]) == 1
    assert "is for --policy auction" in capsys.readouterr().err
    assert command.main([*arguments, "--policy", "auction", option]) == 0


def test_a_live_cluster_goes_by_its_own_accounts() -> None:
    real = a_busy_cluster()
    for name in ("auction", "fair"):
        with pytest.raises(UsageError, match=f"--policy {name}: the cluster has no accounts"):
            changed(real, WhatIf(), name)
    charged = trace_accounts.charged(a_workload(job(0, "a"), job(1, "b")), "fair")
    for budget, error in (
        (None, "no account has a budget"),
        (Budget(), "none of the jobs that wait has a bid"),
    ):
        changes = trace_accounts.tree_of(charged, 4, budget)
        real.state.change_accounts(replace(changes, removed_accounts=()), real.now)
        with pytest.raises(UsageError, match=error):
            changed(real, WhatIf(), "auction")
    changed(real, WhatIf(), "fair")
