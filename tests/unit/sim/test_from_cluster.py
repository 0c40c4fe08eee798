"""`minislurm simulate --from-cluster`: what it shows, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from minislurm.domain.configuration import Configuration, TimersSection
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.times import format_time
from minislurm.domain.views import StateExport
from minislurm.journal.records import changed_records
from minislurm.rpc.client import ControllerClient
from minislurm.sim import from_cluster
from minislurm.sim import main as command
from minislurm.sim.virtual_cluster import EPOCH
from tests.builders import a_configuration, a_request
from tests.unit.sim.test_live import Real

WHOLE = a_request(exclusive=True)


def exported(real: Real) -> StateExport:
    export = StateExport("here", now=real.now)
    real.state.touched.jobs.update(real.state.jobs)
    real.state.touched.nodes.update(real.state.nodes)
    for kind, name, payload in changed_records(real.state, 0, []).records:
        if payload is not None:
            export.by_kind.setdefault(kind, []).append((name, payload))
    return export


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Real:
    """One node; three whole-node jobs, of which the first runs, and one that is held."""
    real = Real(a_configuration(1))
    for limit_s in (100.0, 300.0, 30.0):
        real.submit(request=WHOLE, time_limit_s=limit_s, user_name="ann")
    real.submit(request=WHOLE, time_limit_s=10.0, hold=True)
    real.advance(EPOCH)
    monkeypatch.setattr(from_cluster, "fetch", lambda: exported(real))
    return real


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert command.main(["--from-cluster", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_as_it_is(live: Real, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys)
    head = f"The queue of cluster at {format_time(EPOCH)}, played forward on a copy."
    assert lines[:2] == [head, ""]
    assert [line.split() for line in lines[2:6]] == [
        ["JOBID", "PARTITION", "USER", "NAME", "START", "NODELIST"],
        ["2", "batch", "ann", "job", format_time(EPOCH + 100), "n1"],
        ["3", "batch", "ann", "job", format_time(EPOCH + 400), "n1"],
        ["4", "batch", "user1000", "job", "never", "(JobHeldUser)"],
    ]
    assert lines[7].split() == ["as", "it", "is"]
    assert lines[8].split() == ["jobs", "3"]
    assert lines[9].split() == ["completed", "2"]


def test_side_by_side(live: Real, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "--set", "scheduler.order=sjf", "--add-nodes", "1")
    assert lines[2].split() == ["JOBID", "PARTITION", "USER", "NAME", "as", "it", "is", "changed"]
    moved = f"{format_time(EPOCH + 30)} (-1:10)"
    assert lines[3].endswith(f"{format_time(EPOCH + 100)}  {moved}")
    assert lines[4].endswith(f"{format_time(EPOCH + 400)}  {format_time(EPOCH)} (-6:40)")
    assert lines[7].split() == ["as", "it", "is", "changed"]
    assert lines[8].split() == ["jobs", "3", "3"]


def test_policies_and_json(live: Real, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    arguments = ["--policy", "sjf", "--policy", "fifo", "--run-share", "0.5", "--json", str(out)]
    assert run(capsys, *arguments)[2].split()[-2:] == ["sjf", "fifo"]
    content = json.loads(out.read_text())
    assert content["taken"] == EPOCH
    starts = {
        variant["name"]: {job["job"]: job["start"] and job["start"] - EPOCH for job in variant["jobs"]}
        for variant in content["variants"]
    }
    assert starts == {
        "as it is": {"2": 50, "3": 200, "4": None},
        "sjf": {"2": 65, "3": 50, "4": None},
        "fifo": {"2": 50, "3": 200, "4": None},
    }
    first = content["variants"][0]["jobs"][0]
    assert (first["end"] - EPOCH, first["state"], first["nodes"]) == (200, "COMPLETED", ["n1"])
    run(capsys, *arguments[:-1], str(tmp_path / "again.json"))
    assert (tmp_path / "again.json").read_bytes() == out.read_bytes()


def test_what_the_answer_rests_on_is_said(live: Real, capsys: pytest.CaptureFixture[str]) -> None:
    live.submit(request=WHOLE, time_limit_s=0.0)
    live.kill_node("n1")
    lines = run(capsys)
    assert "nodes that are down, drained or silent stay so: 1, n1 among them" in lines[1]
    assert "jobs without a time limit never end here: 1, 5 among them" in lines[2]


def test_nobody_waits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(from_cluster, "fetch", lambda: exported(Real(a_configuration(1))))
    assert run(capsys)[1:] == ["No job waits."]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--trace", "x.swf"], "so --trace means nothing"),
        (["--cluster", "flat:3"], "so --cluster means nothing"),
        (["--mtbf", "1-0"], "so --mtbf means nothing"),
        (["--seed", "4"], "so --seed means nothing"),
        (["--runtimes", "exact"], "nobody knows how long jobs will run"),
        (["--html", "x.html"], "there is no --html"),
        (["--policy", "best"], "--policy best: no such policy"),
        (["--add-nodes", "2:like=n9"], "the cluster has no node n9"),
        (["--set", "scheduler.luck=1"], "unknown key"),
    ],
)
def test_what_is_wrong_is_named(
    live: Real, arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--from-cluster", *arguments]) == 1
    assert error in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "x", "8:", "8:like=", "2:rack=r1", "100001"])
def test_nodes_to_add_are_a_number(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--from-cluster", "--add-nodes", text])
    assert f"'{text}' is not a number of nodes" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--add-nodes=2", "--run-share=0.5", "--horizon=1-0", "--runtimes=history"]
)
def test_options_of_live_queues_mean_nothing_to_a_trace(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--trace", "synthetic:jobs=5", "--cluster", "flat:4", option]) == 1
    assert "is for --from-cluster" in capsys.readouterr().err


def test_who_is_no_operator_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(self: ControllerClient) -> StateExport:
        raise Refusal(RefusalCode.ACCESS)

    monkeypatch.setattr(from_cluster.configuration_file, "load", lambda: Configuration())
    monkeypatch.setattr(ControllerClient, "export_state", refused)
    assert command.main(["--from-cluster"]) == 1
    assert "error: --from-cluster: the whole state is for operators" in capsys.readouterr().err


def test_no_controller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    quick = replace(Configuration(), timers=TimersSection(connect_timeout_s=0.1))
    away = replace(quick, cluster=replace(quick.cluster, controller_port=1))
    monkeypatch.setattr(from_cluster.configuration_file, "load", lambda: away)
    monkeypatch.setattr("minislurm.rpc.auth.credential", lambda configuration: "token")
    assert command.main(["--from-cluster"]) == 1
    assert "Unable to contact slurm controller" in capsys.readouterr().err
