"""Slurm's constraint expressions (``-C``): which nodes have the features that a job asks for.

``a&b`` and ``a,b`` ask for both, ``a|b`` for either; evaluated from left to right, parentheses group.
Counts (``a*4``) and matching ORs (``[a|b]``) are not built; `parse` refuses them by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

Features = frozenset[str]
Test = Callable[[Features], bool]

_TOKEN = re.compile(r"\s*([&|,()\[\]*]|[^\s&|,()\[\]*]+)")


def matches(expression: str, features: Features) -> bool:
    """Does a node with these features satisfy the expression? Raises ValueError if it is malformed."""
    return parse(expression)(features)


@lru_cache(maxsize=1024)
def parse(expression: str) -> Test:
    """The expression as a test of a node's features; "" accepts every node.

    Raises ValueError with what is wrong.
    """
    tokens = _TOKEN.findall(expression)
    if not tokens:
        return lambda _features: True
    for token in tokens:
        if token in "[]*":
            raise ValueError(f"constraint {expression!r}: {token!r} is not supported")
    tokens.reverse()
    test = _expression(tokens, expression)
    if tokens:
        raise ValueError(f"constraint {expression!r}: unexpected {tokens[-1]!r}")
    return test


def _expression(tokens: list[str], whole: str) -> Test:
    test = _operand(tokens, whole)
    while tokens and tokens[-1] in "&|,":
        operator = tokens.pop()
        right = _operand(tokens, whole)
        test = _either(test, right) if operator == "|" else _both(test, right)
    return test


def _operand(tokens: list[str], whole: str) -> Test:
    if not tokens:
        raise ValueError(f"constraint {whole!r}: a feature is missing at the end")
    token = tokens.pop()
    if token == "(":
        test = _expression(tokens, whole)
        if not tokens or tokens.pop() != ")":
            raise ValueError(f"constraint {whole!r}: ')' is missing")
        return test
    if token in "&|,)":
        raise ValueError(f"constraint {whole!r}: a feature is missing before {token!r}")
    return lambda features: token in features


def _both(left: Test, right: Test) -> Test:
    return lambda features: left(features) and right(features)


def _either(left: Test, right: Test) -> Test:
    return lambda features: left(features) or right(features)
