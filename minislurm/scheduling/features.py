"""Slurm's constraint expressions (``-C``): which nodes have the features that a job asks for.

``a&b`` and ``a,b`` ask for both, ``a|b`` for either; evaluated from left to right, parentheses group.
``a*4``: at least four nodes have it, the others may be any. In brackets the whole gang is looked at:
``[a|b]`` puts all nodes on one of the alternatives, ``[a*2&b*4]`` counts each, no node twice. Brackets and
counts may be joined with other parts by ``&``: ``ib&[rack1|rack2]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

Features = frozenset[str]
Test = Callable[[Features], bool]

_TOKEN = re.compile(r"\s*([&|,()\[\]*]|[^\s&|,()\[\]*]+)")


class Constraint(Struct, frozen=True):
    """What an expression asks of a gang."""

    #: Of each node.
    every: Test
    #: All nodes pass the same one of these; (): there is no matching OR.
    alternatives: tuple[Test, ...] = ()
    #: So many nodes, at least, pass the test; a node counts for one of them only.
    counts: tuple[tuple[Test, int], ...] = ()
    #: All features that are mentioned.
    names: frozenset[str] = frozenset()


def matches(expression: str, features: Features) -> bool:
    """Could a node with these features be of use? Raises ValueError if the expression is malformed."""
    return parse(expression)(features)


def parse(expression: str) -> Test:
    """The expression as a test of a single node: could it be part of the gang? "" accepts every node.

    Raises ValueError with what is wrong.
    """
    constraint = constraint_of(expression)
    if not constraint.alternatives:
        return constraint.every
    return _both(constraint.every, _any_of(constraint.alternatives))


@lru_cache(maxsize=1024)
def constraint_of(expression: str) -> Constraint:
    """Raises ValueError with what is wrong."""
    tokens = _TOKEN.findall(expression)
    if not tokens:
        return Constraint(_anything)
    tokens.reverse()
    constraint = _Reader(tokens, expression).read()
    if tokens:
        raise ValueError(f"constraint {expression!r}: unexpected {tokens[-1]!r}")
    return constraint


def nodes_counted(expression: str) -> int:
    """Nodes that its counts ask for in all; 0 where it is malformed, for then no node passes."""
    try:
        return sum(count for _, count in constraint_of(expression).counts)
    except ValueError:
        return 0


class _Reader:
    """A recursive descent over the tokens, the next one last."""

    def __init__(self, tokens: list[str], whole: str) -> None:
        self._tokens = tokens
        self._whole = whole
        self._alternatives: tuple[Test, ...] = ()
        self._counts: list[tuple[Test, int]] = []
        self._names: set[str] = set()

    def read(self) -> Constraint:
        """Parts joined by ``&``, each a bracket, a counted feature, or a test of single nodes."""
        every: Test | None = None
        operator = "&"
        while True:
            if operator == "|":
                if every is None or self._alternatives or self._counts:
                    raise self._wrong("'|' cannot join brackets or counts")
                every = _either(every, self._operand())
                self._refuse_count()
            elif self._next_is("["):
                self._tokens.pop()
                self._bracket()
            else:
                test = self._operand()
                if self._next_is("*"):
                    self._add_count(test)
                else:
                    every = test if every is None else _both(every, test)
            if not self._tokens or self._tokens[-1] not in "&,|":
                counts = tuple(self._counts)
                return Constraint(every or _anything, self._alternatives, counts, frozenset(self._names))
            operator = self._tokens.pop()

    def _add_count(self, test: Test) -> None:
        if self._counts:
            raise self._wrong("counts of several features need brackets")
        self._counts.append((test, self._count()))

    def _bracket(self) -> None:
        if self._alternatives or self._counts:
            raise self._wrong("one pair of brackets and nothing counted beside it")
        tests, operators = [self._operand()], []
        counts = [self._count()] if self._next_is("*") else []
        while self._tokens and self._tokens[-1] in "&|,":
            operators.append(self._tokens.pop())
            tests.append(self._operand())
            if self._next_is("*"):
                counts.append(self._count())
        if not self._tokens or self._tokens.pop() != "]":
            raise self._wrong("']' is missing")
        if counts:
            if len(counts) < len(tests):
                raise self._wrong("in brackets each feature needs a count")
            if "|" in operators:
                raise self._wrong("'|' cannot join counts")
            self._counts = list(zip(tests, counts, strict=True))
        elif set(operators) <= {"|"}:
            self._alternatives = tuple(tests)
        else:
            raise self._wrong("in brackets each feature needs a count")

    def _expression(self) -> Test:
        test = self._operand()
        self._refuse_count()
        while self._tokens and self._tokens[-1] in "&|,":
            operator = self._tokens.pop()
            right = self._operand()
            self._refuse_count()
            test = _either(test, right) if operator == "|" else _both(test, right)
        return test

    def _operand(self) -> Test:
        if not self._tokens:
            raise self._wrong("a feature is missing at the end")
        token = self._tokens.pop()
        if token == "(":
            test = self._expression()
            if not self._tokens or self._tokens.pop() != ")":
                raise self._wrong("')' is missing")
            return test
        if token == "[":
            raise self._wrong("'[' must stand outside of parentheses and brackets")
        if token in "&|,)]*":
            raise self._wrong(f"a feature is missing before {token!r}")
        self._names.add(token)
        return lambda features: token in features

    def _count(self) -> int:
        self._tokens.pop()
        text = self._tokens.pop() if self._tokens else ""
        if not text.isdecimal() or not 0 < int(text) < 1 << 31:
            raise self._wrong(f"a number of nodes must follow '*', not {text!r}")
        return int(text)

    def _refuse_count(self) -> None:
        if self._next_is("*"):
            raise self._wrong("'*' counts whole parts only, not inside parentheses or beside '|'")

    def _next_is(self, token: str) -> bool:
        return bool(self._tokens) and self._tokens[-1] == token

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"constraint {self._whole!r}: {what}")


def _anything(_features: Features) -> bool:
    return True


def _both(left: Test, right: Test) -> Test:
    return lambda features: left(features) and right(features)


def _either(left: Test, right: Test) -> Test:
    return lambda features: left(features) or right(features)


def _any_of(tests: tuple[Test, ...]) -> Test:
    return lambda features: any(test(features) for test in tests)
