"""Dependencies between jobs: ``afterok:1:2,afterany:3_4``, ``after:5+10?singleton``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from minislurm.domain.ids import JobId
from minislurm.domain.job import Dependency, DependencyKind

_TARGET = re.compile(r"([0-9]{1,10})(?:_(?:([0-9]{1,9})|\*))?(?:\+([0-9]{1,9}))?\Z")
_KINDS = {kind.value: kind for kind in DependencyKind}

#: More clauses than this are no workflow.
MAX_DEPENDENCIES = 10_000


def parse_dependencies(text: str) -> tuple[tuple[Dependency, ...], bool]:
    """The clauses, and whether any one of them is enough (joined by ``?``). Raises ValueError.

    An id without a kind belongs to the kind before it (``afterok:1,2``); alone it means afterany.
    """
    if "," in text and "?" in text:
        raise ValueError("',' and '?' cannot be mixed")
    result: list[Dependency] = []
    kind: DependencyKind | None = None
    for clause in re.split(r"[,?]", text):
        word, colon, targets = clause.partition(":")
        if word.lower() == "singleton":
            if colon:
                raise ValueError("singleton takes no job id")
            kind = None
            result.append(Dependency(DependencyKind.SINGLETON))
            continue
        if word.lower() in _KINDS:
            kind = _KINDS[word.lower()]
        else:
            targets = clause
            kind = kind or DependencyKind.AFTER_ANY
        result.extend(_dependency(kind, target) for target in targets.split(":"))
        if len(result) > MAX_DEPENDENCIES:
            raise ValueError("too many dependencies")
    return tuple(dict.fromkeys(result)), "?" in text


def format_dependency(dependency: Dependency, state: str = "") -> str:
    """``afterok:12(unfulfilled)``."""
    suffix = f"({state})" if state else ""
    if dependency.kind is DependencyKind.SINGLETON:
        return f"singleton{suffix}"
    task = "" if dependency.task_id is None else f"_{dependency.task_id}"
    delay = f"+{int(dependency.delay_s // 60)}" if dependency.delay_s else ""
    return f"{dependency.kind.value}:{dependency.job_id}{task}{delay}{suffix}"


def format_dependencies(
    dependencies: Sequence[Dependency], states: Sequence[str] = (), *, any_one: bool = False
) -> str:
    """All clauses; "" for none."""
    padded = [*states, *[""] * (len(dependencies) - len(states))]
    clauses = (format_dependency(d, state) for d, state in zip(dependencies, padded, strict=False))
    return ("?" if any_one else ",").join(clauses)


def _dependency(kind: DependencyKind, text: str) -> Dependency:
    match = _TARGET.match(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"invalid dependency: {text}")
    if match[3] is not None and kind is not DependencyKind.AFTER:
        raise ValueError(f"only 'after' takes a delay: {text}")
    return Dependency(
        kind,
        JobId(int(match[1])),
        int(match[2]) if match[2] is not None else None,
        60.0 * int(match[3] or 0),
    )
