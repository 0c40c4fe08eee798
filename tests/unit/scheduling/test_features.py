from __future__ import annotations

import pytest

from minislurm.scheduling.features import matches, parse


@pytest.mark.parametrize(
    ("expression", "features", "expected"),
    [
        ("", "", True),
        ("a", "a b", True),
        ("a", "b", False),
        ("a&b", "a b", True),
        ("a&b", "a", False),
        ("a,b", "a", False),
        ("a|b", "b", True),
        ("a | b", "c", False),
        ("a|b&c", "a", False),  # left to right, as Slurm reads it
        ("a|(b&c)", "a", True),
        ("(a|b)&(c|d)", "b c", True),
        ("ib-4x", "ib-4x", True),
    ],
)
def test_expressions(expression: str, features: str, expected: bool) -> None:
    assert matches(expression, frozenset(features.split())) is expected


@pytest.mark.parametrize("expression", ["a&", "&a", "(a", "a)", "a b", "[a|b]", "a*2", "()", "a||b"])
def test_malformed_or_unsupported_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="constraint"):
        parse(expression)
