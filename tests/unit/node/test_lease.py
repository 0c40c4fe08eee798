"""Runs end when the node's lease does, whoever of the daemons is still there to see it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from minislurm.node import lease
from minislurm.rpc.gen import node_pb2
from tests.unit.node.node_harness import NodeHarness, is_alive, run, until

#: Quick, and with time enough for a slow machine to answer heartbeats.
TIMERS = {"node_suspect_s": 0.5, "node_timeout_s": 1.5, "node_grace_s": 1.0}
STUBBORN = "trap '' TERM; echo $$; while :; do sleep 0.1; done"


def test_a_node_that_hears_nothing_ends_its_runs_and_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path, timers=TIMERS) as node:
            node.prepare(1, STUBBORN)
            pid = await node.pid_in("1.out")
            node.controller.hearing = False
            until_then = lease.now() + TIMERS["node_timeout_s"] + TIMERS["node_grace_s"]
            await until(lambda: not is_alive(pid))
            assert lease.now() < until_then, "before its runs start elsewhere"
            assert "DUE TO NODE FAILURE" in node.read("1.out")
            await until(lambda: any(r.runs and r.runs[0].node_lost for r in node.controller.registrations))
            node.controller.hearing = True
            exited = await node.controller.report(1, "batch_exited")
            assert exited.node_lost

    run(test())


def test_runs_go_on_while_heartbeats_are_answered(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path, timers=TIMERS) as node:
            node.prepare(1, STUBBORN)
            pid = await node.pid_in("1.out")
            first = node.keeper.isolation.until
            await until(lambda: lease.now() > first + 0.5)
            assert is_alive(pid)
            assert len(node.controller.registrations) == 1
            node.end(1, kill=True)
            await node.is_clean(1)

    run(test())


def test_the_shepherd_ends_the_run_of_a_daemon_that_is_gone(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path, timers=TIMERS) as node:
            node.prepare(1, STUBBORN)
            pid = await node.pid_in("1.out")
            ends = node.keeper.isolation.until
            await node.stop()
            assert is_alive(pid), "the end of a daemon ends no run"
            await until(lambda: not is_alive(pid))
            assert lease.now() >= ends - 0.1
            await node.start()
            registration = await node.controller.registered(2)
            assert [(r.job_id, r.node_lost) for r in registration.runs] == [(1, True)]

    run(test())


def test_a_daemon_that_is_back_in_time_keeps_its_runs(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path, timers=TIMERS) as node:
            node.prepare(1, STUBBORN)
            pid = await node.pid_in("1.out")
            await node.restart()
            again = node.keeper.isolation.until
            await until(lambda: node.keeper.isolation.until > again + 0.5)
            assert is_alive(pid)
            node.end(1, kill=True)
            await node.is_clean(1)

    run(test())


def test_a_step_of_a_job_whose_script_is_elsewhere_is_lost_too(tmp_path: Path) -> None:
    """Nothing runs here, but the node's part of the run is over."""

    async def test() -> None:
        async with NodeHarness(tmp_path, timers=TIMERS) as node:
            node.prepare(1, "true", nodes=("n0", "n1"), start=False)
            await node.controller.report(1, "run_prepared")
            node.controller.command(start_run=node_pb2.StartRun(job_id=1, run=1))
            await asyncio.sleep(0)
            node.controller.hearing = False
            await until(lambda: any(r.runs and r.runs[0].node_lost for r in node.controller.registrations))
            node.controller.hearing = True
            await node.is_clean(1)

    run(test())
