"""Prolog and epilog."""

from __future__ import annotations

from pathlib import Path

from tests.unit.node.node_harness import NodeHarness, run, until


def a_program(directory: Path, name: str, text: str) -> str:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_they_run_around_the_job_and_know_it(tmp_path: Path) -> None:
    prolog = a_program(
        tmp_path, "prolog", f"echo before $SLURM_JOB_ID $SLURM_JOB_NODELIST >> {tmp_path}/trace"
    )
    epilog = a_program(tmp_path, "epilog", f"echo after $SLURM_JOB_ID >> {tmp_path}/trace")

    async def test() -> None:
        async with NodeHarness(tmp_path, prolog=prolog, epilog=epilog) as node:
            node.prepare(5, f"echo job >> {tmp_path}/trace; exit 2")
            exited = await node.controller.report(5, "batch_exited")
            assert (exited.exit_code, exited.clean) == (2, False)
            await node.controller.report(5, "run_cleaned")
            assert node.read("trace") == "before 5 n1\njob\nafter 5\n"

    run(test())


def test_a_failing_prolog_is_the_nodes_fault(tmp_path: Path) -> None:
    prolog = a_program(tmp_path, "prolog", "echo 'no GPU answers' >&2; exit 3")

    async def test() -> None:
        async with NodeHarness(tmp_path, prolog=prolog) as node:
            node.prepare(1, "touch never")
            failed = await node.controller.report(1, "prepare_failed")
            assert not failed.job_fault
            assert failed.reason.endswith("exit code 3: no GPU answers")
            assert not (tmp_path / "never").exists()
            assert not list((tmp_path / "spool/runs").iterdir())

    run(test())


def test_a_prolog_that_hangs_is_ended(tmp_path: Path) -> None:
    prolog = a_program(tmp_path, "prolog", "sleep 1000")

    async def test() -> None:
        async with NodeHarness(tmp_path, prolog=prolog, prolog_timeout_s=0.2) as node:
            node.prepare(1, "true")
            failed = await node.controller.report(1, "prepare_failed")
            assert "no end after 0.2 s" in failed.reason

    run(test())


def test_a_run_that_is_ended_during_its_prolog_does_not_start(tmp_path: Path) -> None:
    prolog = a_program(
        tmp_path, "prolog", f"touch {tmp_path}/in; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    )

    async def test() -> None:
        async with NodeHarness(tmp_path, prolog=prolog) as node:
            node.prepare(1, "touch never")
            await until(lambda: (tmp_path / "in").exists())
            node.end(1)
            (tmp_path / "go").touch()
            await node.controller.report(1, "run_cleaned")
            assert not (tmp_path / "never").exists()

    run(test())
