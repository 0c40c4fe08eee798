"""What passes keep from one to the next, and the short ways that they take, change nothing that they decide.

Replays of random traces in which every pass is made three times: with what the last ones left, from nothing,
and from nothing with arrays even where there is one node.
"""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from minislurm.cluster.snapshot import snapshot
from minislurm.domain.configuration import Configuration
from minislurm.scheduling import lineup, workspace
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.model import Plan
from minislurm.sim import cluster_file, policy
from minislurm.sim.checkpoints import NO_CHECKPOINTS
from minislurm.sim.replay import _Replay
from minislurm.sim.trace import TraceJob, Workload
from tests.builders import a_configuration
from tests.unit.sim.traces import a_trace_job, a_workload

CLUSTERS = {
    "flat": cluster_file.flat("12"),
    "nodes": a_configuration(3, cpus=4),
    "sjf": policy.with_settings(cluster_file.flat("12"), {"order": "sjf"}, ""),
}


class ComparedReplay(_Replay):
    def __init__(self, jobs: Workload, configuration: Configuration) -> None:
        super().__init__(
            jobs, configuration, False, NO_CHECKPOINTS, None, lambda ended: None, lambda event: None
        )
        self.advance()

    def plan(self) -> Plan:
        taken = snapshot(self.state, self.now)
        plan = schedule(taken, self.workspace)
        same = [schedule(replace(taken, nodes=list(taken.nodes)))]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workspace, "share_of_single", lambda *_: None)
            same.append(schedule(taken))
        for other in same:
            assert plan.placements == other.placements
            assert plan.waits == other.waits
            assert plan.priorities == other.priorities
        return plan


def random_workload(seed: int) -> Workload:
    """Few sizes and limits, so that classes come again, and more than fits."""
    draw = random.Random(seed)
    jobs: list[TraceJob] = []
    submit_s = 0.0
    for _ in range(40):
        submit_s += draw.choice([0.0, 1.0, 5.0, 20.0])
        limit_s = draw.choice([10.0, 30.0, 31.0, 100.0])
        run_s = limit_s * draw.choice([0.1, 0.5, 1.0])
        jobs.append(a_trace_job(submit_s, run_s, draw.choice([1, 2, 3, 4, 8, 12]), limit_s=limit_s))
    return a_workload(*jobs)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("name", ["easy", "easy-sjf", "conservative", "configured"])
def test_every_pass_decides_what_one_from_nothing_decides(cluster: str, name: str) -> None:
    for seed in range(2):
        ComparedReplay(random_workload(seed), policy.named(name).on(CLUSTERS[cluster]))


def test_a_submission_that_has_to_wait_takes_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a head, of more processors than are free: the last plan holds, with it at the end."""
    as_before: list[bool] = []
    wanted = lineup.Lineup.plan_as_before

    def noted(self: lineup.Lineup, queue: lineup.Queue) -> Plan | None:
        plan = wanted(self, queue)
        as_before.append(plan is not None)
        return plan

    monkeypatch.setattr(lineup.Lineup, "plan_as_before", noted)
    blocked = [a_trace_job(0, 100, 3), a_trace_job(1, 10, 4), a_trace_job(2, 10, 2)]
    ComparedReplay(a_workload(*blocked), policy.named("easy").on(cluster_file.flat("4")))
    # Two passes from nothing each time. The third job is the only one that changes nothing.
    assert as_before[::3] == [False, False, True, False, False]
