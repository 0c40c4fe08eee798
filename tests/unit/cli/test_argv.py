from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minislurm.cli.argv import CommandLine, parse
from minislurm.cli.option import Argument, Option, flag
from minislurm.cli.options import options_of
from minislurm.domain.errors import UsageError

_OPTIONS = (
    Option("nodes", "N"),
    Option("nodelist", "w"),
    Option("ntasks", "n", aliases=("tasks",)),
    Option("user", "u"),
    Option("output", "o"),
    flag("noheader", "h"),
    flag("hold", "H"),
    Option("nice", argument=Argument.OPTIONAL, default_text="100"),
    Option("immediate", "I", argument=Argument.OPTIONAL, default_text="1"),
    Option("output-mode", abbreviates=False),
)


def _parse(*words: str, permute: bool = True) -> CommandLine:
    return parse(words, _OPTIONS, command="cmd", permute=permute, usage_exit_code=9)


def _texts(line: CommandLine) -> list[tuple[str, str | None]]:
    return [(occurrence.option.name, occurrence.text) for occurrence in line.occurrences]


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["--nodes=4"], [("nodes", "4")]),
        (["--nodes", "4"], [("nodes", "4")]),
        (["--nodes="], [("nodes", "")]),
        (["--nodes=a=b"], [("nodes", "a=b")]),
        (["-N4"], [("nodes", "4")]),
        (["-N", "4"], [("nodes", "4")]),
        (["-N=4"], [("nodes", "=4")]),
        (["-o%P"], [("output", "%P")]),
        (["-hn4"], [("noheader", None), ("ntasks", "4")]),
        (["-hu", "root"], [("noheader", None), ("user", "root")]),
        (["-N", "-1"], [("nodes", "-1")]),
        (["--nodes", "--hold"], [("nodes", "--hold")]),
        (["--tasks=2"], [("ntasks", "2")]),
        (["--nt=2"], [("ntasks", "2")]),
        (["--ho"], [("hold", None)]),
        (["--out=x"], [("output", "x")]),
        (["--output-mode=0644"], [("output-mode", "0644")]),
        (["--nice"], [("nice", None)]),
        (["--nice=5"], [("nice", "5")]),
        (["-I"], [("immediate", None)]),
        (["-I5"], [("immediate", "5")]),
        (["-hI5"], [("noheader", None), ("immediate", "5")]),
    ],
)
def test_getopts_forms(words: list[str], texts: list[tuple[str, str | None]]) -> None:
    line = _parse(*words)
    assert _texts(line) == texts
    assert line.positionals == ()


def test_optional_arguments_never_take_the_next_word() -> None:
    line = _parse("--nice", "5", "-I", "6")
    assert _texts(line) == [("nice", None), ("immediate", None)]
    assert line.positionals == ("5", "6")


def test_options_end_at_the_first_positional_unless_they_permute() -> None:
    words = ("-N1", "script", "-N2", "--", "x")
    assert _parse(*words, permute=False).positionals == ("script", "-N2", "--", "x")
    assert _parse(*words).positionals == ("script", "x")
    assert len(_parse(*words).occurrences) == 2


def test_two_dashes_end_the_options() -> None:
    for permute in (True, False):
        line = _parse("-h", "--", "-N4", "--nodes", permute=permute)
        assert line.positionals == ("-N4", "--nodes")


def test_a_single_dash_is_a_positional() -> None:
    assert _parse("-", "-h").positionals == ("-",)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bogus"], "unrecognized option '--bogus'"),
        (["--bogus=3"], "unrecognized option '--bogus'"),
        (["-z"], "invalid option -- 'z'"),
        (["-hz"], "invalid option -- 'z'"),
        (["--nodes"], "option '--nodes' requires an argument"),
        (["-N"], "option requires an argument -- 'N'"),
        (["--hold=1"], "option '--hold' doesn't allow an argument"),
        (["--ho=1"], "option '--hold' doesn't allow an argument"),
        (["--node=1"], "option '--node' is ambiguous; possibilities: '--nodes' '--nodelist'"),
        (["--output-m=0644"], "unrecognized option '--output-m'"),
    ],
)
def test_errors_read_like_glibcs(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        _parse(*words)
    assert str(caught.value) == f'cmd: {message}\nTry "cmd --help" for more information'
    assert caught.value.exit_code == 9
    assert not caught.value.prefix


def test_two_names_of_one_option_are_not_ambiguous() -> None:
    line = parse(["--sh"], [flag("oversubscribe", aliases=("share", "shared"))], command="c", permute=True)
    assert _texts(line) == [("oversubscribe", None)]


def test_reading_stops_where_it_is_told() -> None:
    line = parse(["-h", "--bogus"], _OPTIONS, command="c", permute=True, stop_at=("noheader",))
    assert _texts(line) == [("noheader", None)]


_word = st.one_of(
    st.text(max_size=12),
    st.text(alphabet="-=nNoh4 \udc80", max_size=8),
    st.sampled_from([f"--{option.name}" for option in options_of("sbatch")]),
)


@given(st.lists(_word, max_size=8), st.booleans(), st.sampled_from(["sbatch", "srun", "salloc"]))
def test_any_command_line_is_read_or_a_usage_error(words: list[str], permute: bool, command: str) -> None:
    try:
        line = parse(words, options_of(command), command=command, permute=permute)
    except UsageError:
        return
    again = parse(line.canonical(), options_of(command), command=command, permute=permute)
    assert again.positionals == line.positionals
    assert again.canonical() == line.canonical()
