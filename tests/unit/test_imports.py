"""Imports point one way (design.md, section 3), and commands load no more than they need."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "minislurm"

#: What each package may import of minislurm besides itself.
ALLOWED = {
    "domain": set(),
    "scheduling": {"domain"},
    "cluster": {"domain", "scheduling"},
    "journal": {"domain", "scheduling", "cluster", "rpc"},
    "controller": {"domain", "scheduling", "cluster", "journal", "rpc"},
    # A live cluster's state, and what its journal tells of jobs, are read as the controller reads them.
    "sim": {"domain", "scheduling", "cluster", "journal", "rpc"},
    "rpc": {"domain"},
    # What a script imports is the other end of the daemon's socket, and what `scheckpoint` speaks.
    "node": {"domain", "rpc", "checkpoint"},
    "cli": {"domain", "rpc", "checkpoint"},
    "web": {"domain", "rpc"},
    "checkpoint": set(),
}
PURE = ("domain", "scheduling", "cluster")
#: Whatever reaches outside, or makes a pass depend on when it runs.
OUTSIDE_WORLD = {"grpc", "asyncio", "socket", "subprocess", "time", "rich", "threading", "random", "sqlite3"}
#: Where messages become the domain's objects and back: servicers, what is sent, and what is stored.
PROTOBUF_EDGES = {
    "controller": {
        "commands",
        "daemon",
        "export",
        "node_hub",
        "node_service",
        "reservation_service",
        "service",
    },
    "journal": {"encoding", "records"},
    "node": {"daemon", "link", "run_files", "step_service", "wire", "witness_service"},
}  # fmt: skip


class Import(Struct, frozen=True):
    package: str
    file: str
    line: int
    #: Dotted, whole: "minislurm.domain.ids.JobId" for `from minislurm.domain.ids import JobId`.
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.name}"

    @property
    def top(self) -> str:
        return self.name.split(".")[0]

    @property
    def ours(self) -> str | None:
        parts = self.name.split(".")
        return parts[1] if parts[0] == "minislurm" and len(parts) > 1 else None


def _imports_of(path: Path) -> Iterator[Import]:
    relative = path.relative_to(PACKAGE)
    package = relative.parts[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(package, str(relative), node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative}:{node.lineno}: a relative import"
            for alias in node.names:
                yield Import(package, str(relative), node.lineno, f"{node.module}.{alias.name}")


def _all_imports() -> list[Import]:
    files = [path for path in PACKAGE.rglob("*.py") if "gen" not in path.relative_to(PACKAGE).parts]
    assert len(files) > 100, "the package was not found"
    return [item for path in sorted(files) for item in _imports_of(path)]


IMPORTS = _all_imports()


def _none(wrong: list[Import]) -> None:
    assert not wrong, "\n".join(map(str, wrong))


def test_every_package_is_known() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert packages <= set(ALLOWED), "say in ALLOWED what the new package may import"
    assert not [p.name for p in PACKAGE.glob("*.py") if p.name != "__init__.py"], (
        "nothing else stands at the top"
    )


def test_packages_import_one_way() -> None:
    wrong = [i for i in IMPORTS if i.ours and i.ours != i.package and i.ours not in ALLOWED[i.package]]
    _none(wrong)


@pytest.mark.parametrize("package", PURE)
def test_the_core_reaches_nothing_outside(package: str) -> None:
    _none([i for i in IMPORTS if i.package == package and i.top in OUTSIDE_WORLD])


def test_the_domain_needs_the_standard_library_and_records_alone() -> None:
    known = {*sys.stdlib_module_names, "minislurm", "msgspec"}
    wrong = [i for i in IMPORTS if i.package == "domain" and i.top not in known]
    _none([i for i in wrong if i.top != "tomli"])  # tomllib's forerunner, below 3.11


@pytest.mark.parametrize("package", ["scheduling", "cluster"])
def test_the_core_needs_little_else(package: str) -> None:
    known = {
        *sys.stdlib_module_names,
        "minislurm",
        "msgspec",
        *({"numpy"} if package == "scheduling" else ()),
    }
    _none([i for i in IMPORTS if i.package == package and i.top not in known])


def test_protobuf_messages_stay_at_the_edges() -> None:
    messages = [i for i in IMPORTS if i.name.startswith(("google.protobuf", "minislurm.rpc.gen"))]
    for package in sorted({i.package for i in messages} - {"rpc"}):
        found = {Path(i.file).stem for i in messages if i.package == package}
        assert found == PROTOBUF_EDGES.get(package, set()), package


def test_init_files_are_empty() -> None:
    inits = {
        path.parent.name for path in PACKAGE.rglob("__init__.py") if path.read_text(encoding="utf-8").strip()
    }
    # One import is all that a training script needs.
    assert inits <= {"checkpoint"}


def test_a_training_script_needs_the_standard_library_alone() -> None:
    known = {*sys.stdlib_module_names, "minislurm"}
    others = {"pytorch.py": {"torch", "numpy"}}  # for those who have it
    assert [i for i in IMPORTS if i.package == "checkpoint"], "the package was not found"
    _none(
        [
            i
            for i in IMPORTS
            if i.package == "checkpoint" and i.top not in known | others.get(Path(i.file).name, set())
        ]
    )


HEAVY = ("grpc", "rich", "numpy", "typer", "google.protobuf", "psutil", "pynvml", "asyncio")
COMMANDS = ("squeue", "sinfo", "scontrol", "scancel", "sbatch", "srun", "sacctmgr", "scheckpoint")


def _loaded_by(modules: list[str]) -> dict[str, list[str]]:
    """Which heavy modules a fresh interpreter has loaded after importing each of `modules` (in turn)."""
    script = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        f"    print(name, *[h for h in {HEAVY!r} if h in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return {words[0]: words[1:] for words in lines}


def test_importing_a_command_loads_nothing_heavy() -> None:
    """squeue runs in loops; grpc alone costs 100 ms. All in one interpreter: the first is the culprit."""
    loaded = _loaded_by([f"minislurm.cli.{name}" for name in COMMANDS])
    assert loaded == {f"minislurm.cli.{name}": [] for name in COMMANDS}


def test_the_measure_sees_what_is_loaded() -> None:
    assert "grpc" in _loaded_by(["minislurm.rpc.client"])["minislurm.rpc.client"]


def test_a_restarted_controller_answers_before_numpy_is_loaded() -> None:
    script = "import sys, minislurm.controller.daemon; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
