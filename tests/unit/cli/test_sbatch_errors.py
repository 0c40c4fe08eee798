"""What sbatch says, without a controller, to command lines and scripts that cannot be (golden errors)."""

from __future__ import annotations

from pathlib import Path

import pytest

from minislurm.cli import connection, sbatch

_TRY = 'Try "sbatch --help" for more information\n'
_FAILED = "sbatch: error: Batch job submission failed: "
_WHOLE = "sbatch: error: --{} is for the whole heterogeneous job: give it with the first component\n"
_SCRIPTS = {
    "nosheb.sh": b"echo hello\n",
    "empty.sh": b"",
    "blank.sh": b" \n\n",
    "dos.sh": b"#!/bin/sh\r\necho\r\n",
    "null.sh": b"#!/bin/sh\necho \0\n",
    "badopt.sh": b"#!/bin/sh\n#SBATCH --bogus-option\ntrue\n",
    "words.sh": b"#!/bin/sh\n#SBATCH --mem 4 G\ntrue\n",
    "quote.sh": b"#!/bin/sh\n#SBATCH --comment='a\ntrue\n",
    "het.sh": b"#!/bin/sh\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2 --begin=now\n",
    "hetwords.sh": b"#!/bin/sh\n#SBATCH -N1\n#SBATCH hetjob -N2\n",
    "badtime.sh": b"#!/bin/sh\n#SBATCH -t nonsense\n",
    "ok.sh": b"#!/bin/sh\ntrue\n",
}
_NO_INTERPRETER = (
    "sbatch: error: This does not look like a batch script.  The first\n"
    "sbatch: error: line must start with #! followed by the path to an interpreter.\n"
    "sbatch: error: For instance: #!/bin/sh\n"
)


@pytest.fixture(autouse=True)
def _scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in _SCRIPTS.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "conf.toml").write_text('[cluster]\nname = "c"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINISLURM_CONF", str(tmp_path / "conf.toml"))
    connection.configuration.cache_clear()


@pytest.mark.parametrize(
    ("words", "error", "exit_code"),
    [
        (["-t", "nonsense", "ok.sh"], "sbatch: error: Invalid --time specification\n", 255),
        (["nosuch.sh"], "sbatch: error: Unable to open file nosuch.sh\n", 1),
        (["."], "sbatch: error: Unable to open file .\n", 1),
        (["nosheb.sh"], _NO_INTERPRETER, 1),
        (["empty.sh"], "sbatch: error: Batch script is empty!\n", 1),
        (["blank.sh"], "sbatch: error: Batch script contains only whitespace!\n", 1),
        (
            ["dos.sh"],
            "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\n"
            "sbatch: error: instead of expected UNIX line breaks (\\n).\n",
            1,
        ),
        (
            ["null.sh"],
            "sbatch: error: The Slurm controller does not allow scripts that\n"
            "sbatch: error: contain a NULL character '\\0'.\n",
            1,
        ),
        (["badopt.sh"], "sbatch: unrecognized option '--bogus-option'\n" + _TRY, 255),
        (["badtime.sh"], "sbatch: error: Invalid --time specification\n", 255),
        (["words.sh"], "sbatch: error: Invalid directive found in batch script: G\n", 1),
        (["--bogus", "--wrap", "true"], "sbatch: unrecognized option '--bogus'\n" + _TRY, 255),
        (["-Z", "--wrap", "true"], "sbatch: invalid option -- 'Z'\n" + _TRY, 255),
        (["--time"], "sbatch: option '--time' requires an argument\n" + _TRY, 255),
        (["-t"], "sbatch: option requires an argument -- 't'\n" + _TRY, 255),
        (["--hold=1", "ok.sh"], "sbatch: option '--hold' doesn't allow an argument\n" + _TRY, 255),
        (["-d", "garbage", "ok.sh"], _FAILED + "Job dependency problem\n", 1),
        (["-d", "foo:1", "ok.sh"], _FAILED + "Job dependency problem\n", 1),
        (
            ["--gres=tpu:1", "ok.sh"],
            "sbatch: error: Invalid generic resource (gres) specification\n",
            1,
        ),
        (["--mem=abc", "ok.sh"], "sbatch: error: Invalid --mem specification\n", 255),
        (["-N", "0", "ok.sh"], _FAILED + "Node count specification invalid\n", 1),
        (["-N", "x", "ok.sh"], 'sbatch: error: "x" is not a valid node count\n', 255),
        (["-n", "0", "ok.sh"], 'sbatch: error: Invalid numeric value "0" for --ntasks.\n', 1),
        (["-c", "-1", "ok.sh"], 'sbatch: error: Invalid numeric value "-1" for --cpus-per-task.\n', 1),
        (
            ["-N", "2-1", "ok.sh"],
            "sbatch: error: Maximum node count 1 is less than minimum node count 2\n",
            255,
        ),
        (["--array=5-1", "ok.sh"], _FAILED + "Invalid job array specification\n", 1),
        (["--array=x", "ok.sh"], _FAILED + "Invalid job array specification\n", 1),
        (
            ["--begin=never", "ok.sh"],
            "Invalid time specification (pos=0): never\nsbatch: error: Invalid --begin specification\n",
            255,
        ),
        (["--signal=FOO", "ok.sh"], "sbatch: error: Invalid --signal specification\n", 255),
        (
            ["--wrap", "true", "ok.sh"],
            "sbatch: error: Script arguments not permitted with --wrap option\n",
            1,
        ),
        (["--get-user-env", "ok.sh"], "sbatch: error: --get-user-env is not supported by minislurm\n", 1),
        (["--burst-buffer=x", "ok.sh"], "sbatch: error: --bb is not supported by minislurm\n", 1),
        (
            ["--exclusive=mcs", "ok.sh"],
            "sbatch: error: --exclusive=mcs is not supported by minislurm\n",
            1,
        ),
        (["--mail-type=END", "ok.sh"], "sbatch: error: --mail-type=END is not supported by minislurm\n", 1),
        (["het.sh"], _WHOLE.format("begin"), 1),
        (["hetwords.sh"], "sbatch: error: Invalid directive found in batch script: -N2\n", 1),
        (["-N1", ":", "-N2", "--hold", "ok.sh"], _WHOLE.format("hold"), 1),
        (["-N1", ":", "--bogus", "ok.sh"], "sbatch: unrecognized option '--bogus'\n" + _TRY, 255),
        (
            ["-N1", "-a1-2", ":", "-N2", "ok.sh"],
            "sbatch: error: a heterogeneous job can be no array\n"
            + _FAILED
            + "Invalid job array specification\n",
            1,
        ),
        (["-M", "other", "ok.sh"], "sbatch: error: No cluster 'other' known by database.\n", 1),
        (
            ["--mem=1G", "--mem-per-cpu=1G", "ok.sh"],
            "sbatch: error: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.\n",
            1,
        ),
        (["-w", "n[1-", "ok.sh"], _FAILED + "Invalid node name specified\n", 1),
    ],
)
def test_bad_input_ends_as_in_slurm(
    words: list[str], error: str, exit_code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert sbatch.APPLICATION.main(words) == exit_code
    assert capfd.readouterr() == ("", error)


def test_an_open_quote_names_the_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert sbatch.APPLICATION.main(["quote.sh"]) == 1
    error = capfd.readouterr().err
    assert error.startswith("sbatch: error: /")
    assert error.endswith("quote.sh: line 2: Unmatched `'` in [--comment='a]\n")


def test_an_ambiguous_abbreviation_lists_what_it_could_be(capfd: pytest.CaptureFixture[str]) -> None:
    assert sbatch.APPLICATION.main(["--node", "2", "ok.sh"]) == 255
    assert capfd.readouterr().err.startswith("sbatch: option '--node' is ambiguous; possibilities: '--nodes'")


def test_an_unsupported_input_variable_is_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_HINT", "nomultithread")
    assert sbatch.APPLICATION.main(["ok.sh"]) == 1
    assert (
        capfd.readouterr().err == "sbatch: error: --hint (from SBATCH_HINT) is not supported by minislurm\n"
    )


def test_bad_values_cannot_write_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert sbatch.APPLICATION.main(["--\x1b[2Jx\nsbatch: all is well"]) == 255
    shown = "sbatch: unrecognized option '--\\x1b[2Jx\\nsbatch: all is well'\n"
    assert capfd.readouterr().err == shown + _TRY


def test_without_a_controller_it_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "conf.toml").write_text(
        f'[cluster]\ncontroller_port = 1\nstate_dir = "{tmp_path}"\n[timers]\nconnect_timeout_s = 0.2\n'
    )
    (tmp_path / "auth.key").write_bytes(b"k" * 64)
    (tmp_path / "auth.key").chmod(0o600)
    assert sbatch.APPLICATION.main(["ok.sh"]) == 1
    assert capfd.readouterr() == ("", _FAILED + "Unable to contact slurm controller (connect failure)\n")


def test_version_is_slurms_first(capfd: pytest.CaptureFixture[str]) -> None:
    assert sbatch.APPLICATION.main(["-V"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "slurm 23.02.7"
    assert lines[1].startswith("minislurm ")


def test_help_has_panels_and_every_option(capfd: pytest.CaptureFixture[str]) -> None:
    assert sbatch.APPLICATION.main(["-h"]) == 0
    out = capfd.readouterr().out
    assert "Resources" in out
    assert "--ntasks-per-node" in out
    assert "--container" not in out
