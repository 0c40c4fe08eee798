from __future__ import annotations

import pytest

from minislurm.scheduling.features import matches, parse
from tests.unit.scheduling.builders import meets


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


@pytest.mark.parametrize(
    "expression",
    [
        "a&", "&a", "(a", "a)", "a b", "()", "a||b",
        "[a", "[]", "a]", "[a|b]&[c|d]", "([a|b])", "[[a|b]]", "[a&b]", "[a*2&b]", "[a*2|b*2]",
        "[a|b]|c", "c|[a|b]",
        "a*", "a*b", "a*0", "*2", "a*2&b*2", "a*2|b", "b|a*2", "(a*2)", "a*-1",
    ],
)  # fmt: skip
def test_malformed_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="constraint"):
        parse(expression)


@pytest.mark.parametrize(
    ("expression", "nodes", "expected"),
    [
        ("[r1|r2]", "r1 r1", True),
        ("[r1|r2]", "r1 r2", False),
        ("[r1|r2]", "r1+r2 r2", True),
        ("[(r1&ib)|r2]", "r1+ib r1", False),
        ("ib&[r1|r2]", "r1+ib r1+ib", True),
        ("[r1|r2]&ib", "r1+ib r1", False),
        ("a*2", "a x a", True),
        ("a*2", "a x", False),
        ("x&a*1", "a+x x", True),
        ("[a*1&b*2]", "a b b", True),
        ("[a*1&b*2]", "a b x", False),
        ("[a*1&b*1]", "a+b x", False),  # no node counts twice
        ("[a*1&b*1]", "a+b a", True),  # the other way round it works
        ("[(r1|r2)*1&r3*2]", "r2 r3 r3", True),
    ],
)
def test_what_is_asked_of_a_whole_gang(expression: str, nodes: str, expected: bool) -> None:
    gang = [frozenset(node.split("+")) for node in nodes.split()]
    assert meets(expression, gang) is expected


@pytest.mark.parametrize(
    ("expression", "features", "expected"),
    [("[a|b]", "b", True), ("[a|b]", "c", False), ("a*2", "c", True), ("x&a*2", "a", False)],
)
def test_which_single_node_may_be_part_of_it(expression: str, features: str, expected: bool) -> None:
    assert matches(expression, frozenset(features.split())) is expected
