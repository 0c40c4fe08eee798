"""`minislurm simulate` as a user calls it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from minislurm.sim import main as command
from minislurm.sim import plots

CLUSTER = """
[[nodes]]
name = "n[1-4]"
cpus = 16
gpus = 8
[[partitions]]
name = "batch"
nodes = "ALL"
default = true
"""
SYNTHETIC = "synthetic:jobs=60,load=1.1,largest=16"


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    return str(path)


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert command.main(arguments) == 1
    return capsys.readouterr().err.strip()


def test_policies_stand_side_by_side(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--trace",
        SYNTHETIC,
        "--cluster",
        cluster,
        "--policy",
        "fifo",
        "--policy",
        "easy",
        "--racks",
        "2",
    ]
    assert command.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["fifo", "easy"]
    assert lines[1].split() == ["jobs", "60", "60"]
    assert any(line.startswith("racks per gang") for line in lines)


def test_the_same_seed_gives_the_same_figures(cluster: str, tmp_path: Path) -> None:
    def run(seed: str, name: str) -> bytes:
        out = tmp_path / name
        more = ["--seed", seed, "--mtbf", "1-0", "--checkpoint-every", "30", "--json", str(out)]
        assert command.main(["--trace", SYNTHETIC, "--cluster", cluster, *more]) == 0
        return out.read_bytes()

    first = run("1", "a")
    assert first == run("1", "b")
    assert first != run("2", "c")
    content = json.loads(first)
    assert content["policies"][0]["metrics"]["jobs"] == 60
    assert content["settings"]["mtbf"] == "86400"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k in ("href", "src", "xlink:href")]


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
@pytest.mark.parametrize("jobs", [60, 1200], ids=["bars", "shades"])
def test_the_report_is_one_file_with_plots(
    cluster: str, tmp_path: Path, jobs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    trace = f"synthetic:jobs={jobs},largest=16,median_run_s=600"
    assert command.main(["--trace", trace, "--cluster", cluster, "--racks", "2", "--html", str(out)]) == 0
    page = _Page()
    page.feed(out.read_text())
    assert page.tags.count("svg") == 4
    assert page.tags.count("table") == 1
    assert all(link.startswith(("#", "data:")) for link in page.links), "it needs other files"
    first = out.read_bytes()
    assert command.main(["--trace", trace, "--cluster", cluster, "--racks", "2", "--html", str(out)]) == 0
    assert out.read_bytes() == first


def test_a_missing_plotting_library_is_named_before_the_work(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = tmp_path / "report.html"
    error = failed(capsys, "--trace", SYNTHETIC, "--cluster", cluster, "--html", str(out))
    assert error.endswith(plots.MISSING)
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "--trace is needed"),
        (["--trace", "x.swf"], "--cluster is needed"),
        (["--trace", "x.swf", "--cluster", "flat:x"], "flat:x: must be a number of processors"),
        (["--trace", "none.swf", "--cluster", "flat:4"], "none.swf: cannot be read: No such file"),
        (["--trace", "synthetic:load=x", "--cluster", "flat:4"], "synthetic: load=x: must be a number"),
        (["--trace", "synthetic:size=1", "--cluster", "flat:4"], "synthetic: no setting size"),
        (["--trace", "synthetic:jobs=0", "--cluster", "flat:4"], "synthetic: jobs must be above 0"),
        (["--trace", SYNTHETIC, "--cluster", "flat:4", "--policy", "best"], "--policy best: no such policy"),
        (
            ["--trace", SYNTHETIC, "--cluster", "flat:4", "--placement", "best"],
            "--placement best: placement must be",
        ),
        (["--trace", SYNTHETIC, "--cluster", "flat:4", "--partition-by", "account"], "no partition account1"),
        (["--trace", SYNTHETIC, "--cluster", "none.toml"], "none.toml: no such configuration file"),
    ],
)
def test_what_is_wrong_is_named(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = failed(capsys, *arguments)
    assert printed.startswith("minislurm simulate: error: ")
    assert error in printed


def test_numbers_and_times_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    for words, allowed in (
        (["--mtbf", "0"], "--mtbf: must be a time above 0, such as 30 (minutes), 1:00:00 or 7-0, not '0'"),
        (["--repair", "soon"], "--repair: must be a time above 0"),
        (["--time-scale", "nan"], "--time-scale: must be a number above 0, not 'nan'"),
        (["--racks", "1.5"], "--racks: must be a whole number above 0, not '1.5'"),
        (["--run-share", "2"], "--run-share: must be a number above 0, 1 at most, not '2'"),
    ):
        with pytest.raises(SystemExit):
            command.main(words)
        assert allowed in capsys.readouterr().err


def test_skipped_lines_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("submit,run,cpus\n0,5,1\nx,5,1\ny,5,1\n")
    assert f"error: {trace}:3: submit is not" in failed(capsys, "--trace", str(trace), "--cluster", "flat:4")
    assert command.main(["--trace", str(trace), "--cluster", "flat:4", "--lenient"]) == 0
    printed = capsys.readouterr()
    assert f"2 lines skipped, the first: {trace}:3: submit is not a number" in printed.err
    assert printed.out.splitlines()[1].split() == ["jobs", "1"]


def test_minislurm_passes_everything_on() -> None:
    arguments = ["simulate", "--trace", "synthetic:jobs=5", "--cluster", "flat:8", "--json", "-"]
    done = subprocess.run(
        [sys.executable, "-m", "minislurm.cli.minislurm", *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["jobs"] == 5
