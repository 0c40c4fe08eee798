from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minislurm.cli import sbatch
from minislurm.cli.batch_script import BatchScript, directives, read_script, split_words, wrapped
from minislurm.domain.errors import UsageError


def _words(*lines: str) -> list[tuple[str, ...]]:
    content = "\n".join(("#!/bin/bash", *lines)).encode()
    return [directive.words for directive in directives(BatchScript(content, "s"))]


def test_directives_end_at_the_first_command() -> None:
    assert _words("#SBATCH -N1", "", "  # a comment", "#SBATCH -n 2 -c4", "echo", "#SBATCH -t 1") == [
        ("-N1",),
        ("-n", "2", "-c4"),
    ]


def test_what_only_looks_like_a_directive() -> None:
    assert (
        _words("##SBATCH -N1", "# SBATCH -N1", " #SBATCH -N1", "#SBATCHX -N1", "#SBATCH", "#sbatch -N1") == []
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  -J  a \t", ("-J", "a")),
        ("-J 'a b' -o \"c d\"", ("-J", "a b", "-o", "c d")),
        ("--comment=it\\'s", ("--comment=it's",)),
        ('--comment="say \\"x\\" \\n"', ('--comment=say "x" \\n',)),
        ("-J a # the name", ("-J", "a")),
        ("-o run#1.out", ("-o", "run#1.out")),
        ("-J ''", ("-J", "")),
        ("# nothing", ()),
    ],
)
def test_words(text: str, words: tuple[str, ...]) -> None:
    assert split_words(text, "s: line 2") == words


@given(st.text(max_size=40))
def test_any_line_is_words_or_an_open_quote(text: str) -> None:
    try:
        assert all(isinstance(word, str) for word in split_words(text, "s: line 2"))
    except UsageError:
        assert "'" in text or '"' in text


def test_wrap_makes_a_script() -> None:
    script = wrapped("echo $HOME")
    assert script.content == b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\necho $HOME\n"
    assert (script.name, script.path) == ("wrap", "")


def test_a_bare_name_is_searched_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "train.sh").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert read_script("train.sh").path == str(tmp_path / "bin" / "train.sh")
    (tmp_path / "train.sh").write_text("#!/bin/bash\n")
    assert read_script("train.sh").content == b"#!/bin/bash\n"
    assert read_script("train.sh").name == "train.sh"


def test_command_line_over_environment_over_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "s.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH -p script -A script -J script --mem-per-cpu=1G\n#SBATCH -t 5 -N2 --no-requeue\n"
    )
    monkeypatch.setenv("SBATCH_PARTITION", "environment")
    monkeypatch.setenv("SBATCH_ACCOUNT", "environment")
    monkeypatch.setenv("SBATCH_REQUEUE", "1")
    line = sbatch.APPLICATION.parse(["-p", "line", "--mem=4G", str(script), "-N9"])
    values = sbatch.read_values(line)
    assert (values.partition, values.account, values.job_name) == ("line", "environment", "script")
    assert values.requeue is True
    assert values.time == 300.0
    assert values.nodes is not None
    assert values.nodes.maximum == 2
    # --mem of the command line takes the script's --mem-per-cpu back.
    assert (values.mem, values.mem_per_cpu) == (4096, None)


def test_later_options_of_a_script_win(tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/sh\n#SBATCH -J first\n#SBATCH -J second\n")
    assert sbatch.read_values(sbatch.APPLICATION.parse([str(script)])).job_name == "second"


# Heterogeneous jobs


def test_components_of_the_script_and_of_the_command_line(tmp_path: Path) -> None:
    """What is asked of nodes each says for itself; the rest is handed down until another is said."""
    script = tmp_path / "s.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH -N1 -c8 -J master -t 5 -A all\n#SBATCH hetjob\n#SBATCH -N4 --gpus-per-node=8 -J workers\n"
    )
    line = sbatch.APPLICATION.parse(
        ["--mem=4G", ":", "-n4", ":", "-p", "big", "--parsable", str(script), "-N9", ":"]
    )
    values = sbatch.read_values(line)
    parts = (values, *values.others)
    assert [part.nodes and part.nodes.maximum for part in parts] == [1, 4, None]
    assert [part.cpus_per_task for part in parts] == [8, None, None]
    assert [part.ntasks for part in parts] == [None, 4, None]
    assert [part.mem for part in parts] == [4096, None, None]
    assert [part.gpus_per_node for part in parts] == [None, "8", None]
    assert [part.job_name for part in parts] == ["master", "workers", "workers"]
    assert [part.partition for part in parts] == ["", "", "big"]
    assert {part.account for part in parts} == {"all"}
    assert {part.time for part in parts} == {300.0}
    assert values.parsable
    assert values.words == (str(script), "-N9", ":")


def test_a_job_without_a_colon_has_one_component(tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/sh\n")
    values = sbatch.read_values(sbatch.APPLICATION.parse(["-N2", str(script), ":", "-N3"]))
    assert values.others == ()
    assert values.words == (str(script), ":", "-N3")


def test_the_words_behind_the_last_component_are_the_script(tmp_path: Path) -> None:
    values = sbatch.read_values(sbatch.APPLICATION.parse(["-N1", ":", "-N2", "--wrap", "hostname"]))
    assert values.script.name == "wrap"
    assert values.wrap == "hostname"
