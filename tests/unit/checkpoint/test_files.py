"""Checkpoints on disk: measured, known again, found when they are renamed into a folder, deleted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minislurm.checkpoint import files


def a_folder(path: Path, **contents: str) -> Path:
    path.mkdir(parents=True)
    for name, text in contents.items():
        (path / name).write_text(text)
        os.utime(path / name, (100, 100))
    return path


def change(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (200, 200))


def test_a_folder_is_known_again(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "c", model="12345", state="678")
    size, modified = files.measure(str(folder))
    assert (size, modified) == (8, 100.0)
    assert files.is_whole(str(folder), size, modified)
    change(folder / "notes", "added since")
    assert files.is_whole(str(folder), size, modified)


@pytest.mark.parametrize("harm", ["cut", "rewritten", "removed", "all"])
def test_what_was_changed_since_is_not_whole(tmp_path: Path, harm: str) -> None:
    folder = a_folder(tmp_path / "c", model="12345", state="678")
    measured = files.measure(str(folder))
    match harm:
        case "cut":
            (folder / "model").write_text("12")
            os.utime(folder / "model", (100, 100))
        case "rewritten":
            change(folder / "model", "abcde")
        case "removed":
            (folder / "state").unlink()
        case "all":
            (folder / "state").unlink()
            (folder / "model").unlink()
            folder.rmdir()
    assert not files.is_whole(str(folder), *measured)


def test_a_link_is_what_it_leads_to(tmp_path: Path) -> None:
    a_folder(tmp_path / "c", model="12345")
    (tmp_path / "last").symlink_to("c/model")
    assert files.measure(str(tmp_path / "last")) == (5, 100.0)


# Deleting


def test_only_what_is_in_the_folder_is_deleted(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "c")
    a_folder(folder / "step1", model="1")
    (folder / "step2").write_text("2")
    files.delete(str(folder), str(folder / "step1"))
    files.delete(str(folder), str(folder / "step2"))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("path", ["c", "c/", "other", "c/../other", "c/link/kept", "/etc"])
def test_nothing_else_is(tmp_path: Path, path: str) -> None:
    folder = a_folder(tmp_path / "c")
    a_folder(tmp_path / "other", kept="1")
    (folder / "link").symlink_to(tmp_path / "other")
    with pytest.raises(ValueError, match="is not in"):
        files.delete(str(folder), str(tmp_path / path) if path[0] != "/" else path)
    assert (tmp_path / "other" / "kept").exists()
    with pytest.raises(ValueError, match="is not in"):
        files.delete("", str(folder / "x"))


def test_of_a_link_only_the_link_is(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "c")
    a_folder(folder / "step9", model="9")
    (folder / "last").symlink_to("step9")
    files.delete(str(folder), str(folder / "last"))
    assert (folder / "step9" / "model").exists()


# What comes into a folder


class Program:
    """The keeper's program, as the daemon runs it: as text, isolated."""

    def __init__(self, *user: str) -> None:
        source = Path(files.__file__).read_text()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", source, *user],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}, text=True, bufsize=1,
        )  # fmt: skip
        self.found: list[str] = []

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": 1, "do": do, **what}) + "\n")
        while "id" not in (message := self._next()):
            pass
        return message

    def wait_found(self, count: int) -> list[str]:
        while len(self.found) < count:
            self._next()
        return sorted(self.found)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(10) == 0

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        message: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "found" in message:
            self.found.append(os.path.basename(message["found"]["path"]))
        return message


@pytest.fixture
def program() -> Iterator[Program]:
    running = Program()
    yield running
    running.close()


def test_what_is_renamed_is_found_and_nothing_else(tmp_path: Path, program: Program) -> None:
    folder = a_folder(tmp_path / "c")
    (folder / "before").write_text("1")
    assert "error" not in program.ask("watch", folder=str(folder), since=time.time())
    (folder / "in-place").write_text("half")
    for name in ("whole", "x.tmp", ".hidden", "y.part"):
        (tmp_path / "new").write_text("w")
        (tmp_path / "new").rename(folder / name)
    a_folder(tmp_path / "new", model="12").rename(folder / "step2")
    assert program.wait_found(2) == ["step2", "whole"]
    assert "error" not in program.ask("flush")
    assert program.found.count("whole") == 1
    (tmp_path / "new").write_text("w again")
    (tmp_path / "new").rename(folder / "whole")
    assert program.wait_found(3) == ["step2", "whole", "whole"]
    assert "in-place" not in program.found


def test_what_was_renamed_while_nobody_looked_is_found(tmp_path: Path, program: Program) -> None:
    folder = a_folder(tmp_path / "c")
    start = time.time() - 60
    (folder / "in-place").write_text("half")
    (folder / "old").write_text("whole")
    os.utime(folder / "old", (100, 100))  # written long before it was renamed: its inode is newer than that
    assert "error" not in program.ask("watch", folder=str(folder), since=start)
    assert program.found == ["old"]


def test_a_folder_that_goes_away_harms_nobody(tmp_path: Path, program: Program) -> None:
    folder = a_folder(tmp_path / "c")
    program.ask("watch", folder=str(folder), since=time.time())
    folder.rmdir()
    assert "error" not in program.ask("flush")
    assert program.ask("watch", folder=str(folder), since=0)["error"] == "No such file or directory"


def test_it_makes_folders_and_chooses_among_checkpoints(tmp_path: Path, program: Program) -> None:
    folder = tmp_path / "a" / "b"
    assert program.ask("make", folder=str(folder))["result"] is None
    assert folder.is_dir()
    (folder / "x").write_text("1")
    answer = program.ask("make", folder=str(folder / "x" / "below"))
    assert answer["errno"] == 20
    good = [str(folder / "x"), *files.measure(str(folder / "x"))]
    assert program.ask("choose", checkpoints=[["/no", 1, 1], good])["result"] == 1
    assert program.ask("choose", checkpoints=[["/no", 1, 1]])["result"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_it_is_the_job_s_user_who_looks(tmp_path: Path) -> None:
    """What they may not do the program may not do for them."""
    secret = a_folder(tmp_path / "secret", model="1")
    secret.chmod(0o700)
    tmp_path.chmod(0o755)
    nobody = Program("65534", "65534", "65534")
    try:
        measured = files.measure(str(secret))
        assert nobody.ask("choose", checkpoints=[[str(secret), *measured]])["result"] is None
        for do, what in (("make", {}), ("watch", {"since": 0}), ("delete", {"path": str(secret / "model")})):
            assert nobody.ask(do, folder=str(secret), **what)["error"] == "Permission denied"
        assert (secret / "model").exists()
    finally:
        nobody.close()
