"""Running a command: its ends, its start-up, its Typer app."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from minislurm.cli import sbatch, scancel
from minislurm.cli.application import Application, guarded
from minislurm.cli.job_options import JobOptions
from minislurm.cli.option import Option, Repeat, flag
from minislurm.cli.printable import printable
from minislurm.domain.errors import AccessDenied, ControllerUnavailable, Refusal, RefusalCode, UsageError

ROOT = Path(__file__).parents[3]


class _Values(Struct):
    name: str = ""
    all: tuple[str, ...] = ()
    verbose: int = 0


def _application(seen: list[tuple[_Values, tuple[str, ...]]]) -> Application[_Values]:
    def run(values: _Values, positionals: tuple[str, ...]) -> int:
        seen.append((values, positionals))
        return 7

    options = (
        Option("name", "n", "A name."),
        Option("all", "a", "Several [in brackets].", repeat=Repeat.APPEND),
        flag("verbose", "v", "More.", repeat=Repeat.COUNT),
    )
    return Application("cmd", "Does [it].", "[OPTIONS] [x ...]", options, _Values, run)


def test_values_and_exit_code_pass_through() -> None:
    seen: list[tuple[_Values, tuple[str, ...]]] = []
    assert _application(seen).main(["-vvn", "x", "-a1", "p", "--all=2"]) == 7
    assert seen == [(_Values("x", ("1", "2"), 2), ("p",))]


def test_the_typer_app_reads_canonical_command_lines_alike() -> None:
    seen: list[tuple[_Values, tuple[str, ...]]] = []
    application = _application(seen)
    words = ["-vvn", "-x", "-a1", "p", "--all=2", "--", "-q"]
    application.main(words)
    with pytest.raises(SystemExit) as left:
        application.typer_app()(application.parse(words).canonical())
    assert left.value.code == 7
    assert seen[0] == seen[1]


def test_sbatchs_typer_app_gives_the_same_options() -> None:
    seen: list[JobOptions] = []

    def run(values: JobOptions, positionals: tuple[str, ...]) -> int:
        seen.append(values)
        return 0

    application = replace(sbatch.APPLICATION, run=run, read_values=None, new_values=JobOptions)  # type: ignore[arg-type]
    words = ["-N2-4", "-n8", "--exclusive", "--nice", "-Hv", "--mem=4G", "-t", "1-0", "-d", "afterok:1", "x"]
    application.main(words)
    with pytest.raises(SystemExit):
        application.typer_app()(application.parse(words).canonical())
    assert seen[0] == seen[1] != JobOptions()


@pytest.mark.parametrize(
    ("error", "shown", "exit_code"),
    [
        (UsageError("a\nb", exit_code=255), "cmd: error: a\ncmd: error: b\n", 255),
        (UsageError("a", prefix=False), "a\n", 1),
        (
            Refusal(RefusalCode.INVALID_PARTITION, details=("invalid partition specified: x\x1b",)),
            "cmd: error: invalid partition specified: x\\x1b\ncmd: error: Invalid partition name specified\n",
            1,
        ),
        (
            ControllerUnavailable(),
            "cmd: error: Unable to contact slurm controller (connect failure)\n",
            1,
        ),
        (AccessDenied(), "cmd: error: Access/permission denied\n", 1),
        (KeyboardInterrupt(), "", 130),
        (FileNotFoundError(2, "No such file", "x"), "cmd: error: No such file: x\n", 1),
        (
            ZeroDivisionError("z"),
            "cmd: error: internal error: ZeroDivisionError: z (MINISLURM_TRACEBACK=1 shows where)\n",
            1,
        ),
    ],
)
def test_errors_end_as_slurms_messages(
    error: BaseException, shown: str, exit_code: int, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("MINISLURM_TRACEBACK", raising=False)

    def body() -> int:
        raise error

    assert guarded("cmd", body) == exit_code
    assert capfd.readouterr() == ("", shown)


def _python(code: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False, **options
    )


def test_a_reader_that_left_is_no_error() -> None:
    code = (
        "import os, sys; from minislurm.cli.application import guarded\n"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
        "sys.exit(guarded('cmd', lambda: print('x' * 100000) or 0))"
    )
    result = _python(code)
    assert (result.returncode, result.stderr) == (141, b"")


def test_a_full_disk_is_said() -> None:
    code = (
        "import sys; from minislurm.cli.application import guarded\n"
        "sys.exit(guarded('c', lambda: print('x') or 0))"
    )
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (result.returncode, result.stderr) == (1, b"c: error: No space left on device\n")


@pytest.mark.parametrize("module", ["sbatch", "scancel"])
def test_importing_a_command_loads_nothing_slow(module: str) -> None:
    code = (
        f"import sys, minislurm.cli.{module}\n"
        "print(*(m for m in ('grpc', 'typer', 'rich', 'google.protobuf', 'numpy') if m in sys.modules))"
    )
    result = _python(code)
    assert (result.returncode, result.stdout.split()) == (0, [])


def test_text_is_made_safe() -> None:
    assert printable("plain é 中") == "plain é 中"
    assert printable("a\nb\r\x1b[2J\x07\x9b\u202e") == "a\\nb\\r\\x1b[2J\\x07\\x9b\\u202e"
    assert printable("\udcff") == "\\xff"
    assert printable("a\tb") == "a\tb"


def test_scancel_help_and_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert scancel.APPLICATION.main(["--help"]) == 0
    assert "--signal" in capfd.readouterr().out
    assert scancel.APPLICATION.main(["--version"]) == 0
    assert capfd.readouterr().out.startswith("slurm 23.02")
