"""Widths, justification and literals of -o and -O, as measured on a real Slurm."""

from __future__ import annotations

import pytest

from minislurm.cli.columns import Field, parse_letters, parse_names, sort_rows

LETTERS: dict[str, Field[str]] = {
    "j": Field("NAME", lambda word: word),
    "l": Field("LENGTH", lambda word: str(len(word)), len),
}
NAMES = {"name": LETTERS["j"], "length": LETTERS["l"]}


def _letters(text: str, word: str = "later") -> tuple[str, str, list[str]]:
    invalid: list[str] = []
    layout = parse_letters(text, LETTERS, invalid.append)
    return layout.header(), layout.row(word), invalid


@pytest.mark.parametrize(
    ("text", "header", "row"),
    [
        ("%j|", "NAME|", "later|"),
        ("%.3j|%3j", "NAM|NAM", "lat|lat"),
        ("%10j|%.10j|", "NAME      |      NAME|", "later     |     later|"),
        ("%-8j|", "NAME    |", "later   |"),
        ("%j\x1f%l", "NAME\x1fLENGTH", "later\x1f5"),
        (r"%j\x1f%l", r"NAME\x1fLENGTH", r"later\x1f5"),
        ("id=%j, ", "id=NAME, ", "id=later, "),
        ("%%j", "NAME", "later"),
        ("%j %l%", "NAME LENGTH", "later 5"),
        ("abc", "abc", "abc"),
        ("", "", ""),
        ("%all", "NAME|LENGTH", "later|5"),
    ],
)
def test_letters(text: str, header: str, row: str) -> None:
    assert _letters(text) == (header, row, [])


def test_an_unknown_letter_is_reported_and_shown_as_it_stands() -> None:
    assert _letters("%!|%j") == ("%!|NAME", "%!|later", ["!"])


@pytest.mark.parametrize(
    ("text", "header", "row"),
    [
        (
            "Name,LENGTH",
            "NAME                LENGTH              ",
            "later               5                   ",
        ),
        ("name:3,length:.8", "NAM  LENGTH", "lat       5"),
        ("name:|,length:.8|", "NAME|  LENGTH|", "later|       5|"),
        ("name:.7 ,length:4", "   NAME LENG", "  later 5   "),
    ],
)
def test_names(text: str, header: str, row: str) -> None:
    layout = parse_names(text, NAMES, pytest.fail)
    assert (layout.header(), layout.row("later")) == (header, row)


def test_an_unknown_name_is_reported_and_left_out() -> None:
    invalid: list[str] = []
    layout = parse_names("foo,name:4", NAMES, invalid.append)
    assert (layout.header(), invalid) == ("NAME", ["foo"])


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[31mb", "a\rb", "a\x00b", "a\u202eb", "a\udc80b"])
def test_a_value_never_breaks_its_row(text: str) -> None:
    _, row, _ = _letters("%j", text)
    assert row.isprintable()
    assert row.startswith("a\\")
    assert row.endswith("b")


def test_sort_keys() -> None:
    words = ["bb", "a", "ccc", "b"]
    assert sort_rows(words, "-l,j", LETTERS) == ["ccc", "bb", "a", "b"]
    assert sort_rows(words, "+j", LETTERS) == ["a", "b", "bb", "ccc"]
    with pytest.raises(KeyError, match="x"):
        sort_rows(words, "x", LETTERS)
