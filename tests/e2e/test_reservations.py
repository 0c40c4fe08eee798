"""Reservations and licenses as an operator and a user type them, with real daemons."""

from __future__ import annotations

import getpass
from collections.abc import Iterator

import pytest

from tests.e2e.daemons import Daemons

pytestmark = pytest.mark.e2e

_LICENSES = """
[[licenses]]
name = "ansys"
count = 2
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Daemons]:
    with Daemons(nodes=2, cpus=4, extra=_LICENSES) as daemons:
        yield daemons


def _reason(cluster: Daemons, job_id: int) -> str:
    return cluster.command("squeue", "-h", "-j", str(job_id), "-o", "%r").strip()


def test_a_reservation_from_its_start_to_its_end(cluster: Daemons) -> None:
    words = ("ReservationName=r", "StartTime=now", "Duration=1", f"Users={getpass.getuser()}", "Nodes=n1")
    assert cluster.command("scontrol", "create", "reservation", *words) == "Reservation created: r\n"
    again = cluster.run("scontrol", "create", "reservation", *words)
    assert again.stderr == "Error creating the reservation: Duplicate reservation name\n"
    assert again.returncode == 1
    assert cluster.command("sinfo", "-h", "-n", "n1", "-p", "batch", "-o", "%t").strip() == "resv"
    job = cluster.sbatch("--reservation=r", "-t", "10", "--wrap", "echo $SLURM_JOB_RESERVATION; sleep 100")
    cluster.wait(lambda: cluster.job(job).state.value == "RUNNING", "the reservation's job runs")
    other = cluster.sbatch("-w", "n1", "--wrap", "true")
    cluster.wait(lambda: "reserved" in _reason(cluster, other), "the other's reason says so")
    deleted = cluster.run("scontrol", "delete", "ReservationName=r")
    assert deleted.stderr == "delete_reservation ReservationName=r: Requested reservation is in use\n"
    assert "Reservation=r\n" in cluster.command("scontrol", "show", "job", str(job))
    # Two seconds more, and it is over.
    cluster.command("scontrol", "update", "ReservationName=r", "EndTime=now+2")
    cluster.wait(lambda: cluster.job(job).state.value == "TIMEOUT", "the job ends with its reservation")
    cluster.wait(lambda: cluster.job(other).state.value == "COMPLETED", "the node is free for others")
    assert cluster.command("scontrol", "show", "reservation") == "No reservations in the system\n"
    assert (cluster.work / f"slurm-{job}.out").read_text().startswith("r\n")


def test_a_reservation_outlives_the_controller(cluster: Daemons) -> None:
    words = ("StartTime=now+3", "Duration=10", f"Users={getpass.getuser()}", "NodeCnt=1")
    name = cluster.command("scontrol", "create", "reservation", *words).split()[-1]
    job = cluster.sbatch(f"--reservation={name}", "--wrap", "true")
    cluster.kill("controller")
    cluster.start("controller")
    cluster.wait(lambda: cluster.job(job).state.value == "COMPLETED", "the job starts with its reservation")
    cluster.command("scontrol", "delete", f"ReservationName={name}")


def test_licenses(cluster: Daemons) -> None:
    first = cluster.sbatch("-L", "ansys:2", "--wrap", "sleep 100")
    cluster.wait(lambda: cluster.job(first).state.value == "RUNNING", "the first runs")
    second = cluster.sbatch("-L", "ansys", "--wrap", "true")
    cluster.wait(lambda: _reason(cluster, second) == "Licenses", "the second waits for a license")
    assert "Total=2 Used=2 Free=0" in cluster.command("scontrol", "show", "license", "ansys")
    cluster.command("scancel", str(first))
    cluster.wait(lambda: cluster.job(second).state.value == "COMPLETED", "the license is free")


def test_a_job_that_waits_too_long_ends(cluster: Daemons) -> None:
    cluster.sbatch("--exclusive", "-N2", "--wrap", "sleep 100")
    job = cluster.sbatch("--exclusive", "--max-wait=0:01", "--wrap", "true")
    cluster.wait(lambda: cluster.job(job).state.value == "DEADLINE", "it is given up")
    assert cluster.command("squeue", "-h", "-t", "all", "-j", str(job), "-o", "%t %r").strip() == "DL MaxWait"
    cluster.command("scancel", "--me")
