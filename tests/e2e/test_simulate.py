"""`minislurm simulate` against a real cluster: what it says of the queue is what then happens there, and what
it makes of the journal is what has happened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from minislurm.domain.job import Job
from tests.e2e.daemons import Daemons

pytestmark = pytest.mark.e2e


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    with Daemons(2, gpus=2) as cluster:
        yield cluster


def submit(daemons: Daemons, seconds: int, *words: str) -> int:
    """It sleeps for half of its limit."""
    limit = f"0:{2 * seconds:02d}"
    return daemons.sbatch("-t", limit, "--exclusive", *words, "--wrap", f"sleep {seconds}")


def simulated(daemons: Daemons, *words: str) -> dict[str, Any]:
    arguments = ["simulate", "--from-cluster", "--run-share", "0.5", "--json", "-", *words]
    found: dict[str, Any] = json.loads(daemons.command("minislurm", *arguments))
    return found


def in_order(jobs: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    return [(job["job"], job["nodes"]) for job in sorted(jobs, key=lambda job: job["start"])]


def shown_id(job: Job) -> str:
    return f"{job.array_job_id}_{job.array_task_id}" if job.is_array_task else str(job.id)


def configured(daemons: Daemons) -> list[str]:
    """The configuration and the nodes, without what changes with time and with jobs that start."""
    lines = daemons.command("scontrol", "show", "config").splitlines()[1:]
    nodes = daemons.command("sinfo", "-h", "-N", "-o", "%N %P")
    return [nodes, *(line for line in lines if not line.startswith("NEXT_JOB_ID"))]


def test_the_live_queue_goes_on_as_was_said(daemons: Daemons) -> None:
    """Two jobs run; a gang waits for both nodes, a short job fits before it, an array and a job that depends
    on the gang come behind."""
    # Held until the two run, so that a slow machine has them all to come.
    gang = submit(daemons, 2, "-N2", "--hold")
    behind = [submit(daemons, 1, "--hold"), submit(daemons, 2, "--array=0-1%1", "--hold")]
    behind.append(submit(daemons, 1, "-d", f"afterok:{gang}", "--hold"))
    first, second = submit(daemons, 10), submit(daemons, 13)
    daemons.command("scontrol", "release", ",".join(map(str, [gang, *behind])))
    daemons.wait_state(first, "RUNNING")
    daemons.wait_state(second, "RUNNING")
    before = configured(daemons)
    answer = simulated(daemons, "--add-nodes", "2", "--set", "scheduler.backfill=off")
    assert configured(daemons) == before
    as_it_is, changed = (variant["jobs"] for variant in answer["variants"])

    assert len(as_it_is) == 5
    with_two_more = {job["job"]: job for job in changed}
    assert with_two_more[str(gang)]["nodes"] == ["n3", "n4"]
    assert with_two_more[str(gang)]["start"] == answer["taken"]

    daemons.wait(lambda: not daemons.jobs(ended=False), "all have ended", 60)
    real = [
        {"job": shown_id(job), "start": job.start_time, "nodes": [part.node for part in job.allocation]}
        for job in daemons.jobs()
        if job.id not in (first, second)
    ]
    assert in_order(real) == in_order(as_it_is)

    # The controller still writes its journal while it is read.
    journal = str(daemons.folder / "state" / "journal.db")
    words = ["--trace", journal, "--cluster", f"journal:{journal}", "--json", "-"]
    again = json.loads(daemons.command("minislurm", "simulate", *words))
    assert again["policies"][0]["metrics"]["ends"] == {"COMPLETED": len(real) + 2}


def test_the_table_for_people(daemons: Daemons) -> None:
    submit(daemons, 10, "-N2")
    waiting = submit(daemons, 10, "-N2", "-J", "next")
    daemons.wait(lambda: daemons.reason(waiting) == "Resources", "it waits")
    text = daemons.command("minislurm", "simulate", "--from-cluster", "--policy", "fifo")
    assert text.startswith("The queue of test at ")
    line = next(line.split() for line in text.splitlines() if line.startswith(f"{waiting} "))
    assert line[:2] == [str(waiting), "batch"]
    assert line[3] == "next"
    assert line[4] == line[5]


def test_no_controller_is_said(daemons: Daemons) -> None:
    daemons.kill("controller")
    done = daemons.run("minislurm", "simulate", "--from-cluster")
    assert done.returncode == 1
    assert "minislurm simulate: error: Unable to contact slurm controller" in done.stderr
