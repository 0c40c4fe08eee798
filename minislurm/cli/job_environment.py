"""``--export``: which of the submitter's variables the job gets. Bytes throughout: they need not be text."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

_DEFAULT_PATH = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def exported_environment(
    export: str | None, environment: Mapping[bytes, bytes], *, login: bool = True
) -> tuple[bytes, ...]:
    """Entries "NAME=value". None and ALL: everything; NONE: the submitter's SLURM_* only; a list: those and
    the listed ones (``ALL,NAME=value``: everything and those).

    Without ALL a job still gets what a login would set: HOME, USER, LOGNAME, SHELL, PATH. `login` False
    leaves that out, as srun does, and keeps MINISLURM_*, by which a task finds its cluster.
    """
    items = _items(export or "ALL")
    everything = "ALL" in items
    if everything:
        chosen = dict(environment)
    else:
        chosen = login_environment() if login else {}
        kept = (b"SLURM_",) if login else (b"SLURM_", b"MINISLURM_")
        chosen.update({name: value for name, value in environment.items() if name.startswith(kept)})
    for item in items:
        if item in ("ALL", "NONE") or not item:
            continue
        name, equals, value = item.partition("=")
        key = os.fsencode(name)
        if equals:
            chosen[key] = os.fsencode(value)
        elif key in environment:
            chosen[key] = environment[key]
    return tuple(name + b"=" + value for name, value in chosen.items() if name)


def login_environment() -> dict[bytes, bytes]:
    """What identifies the user, from the user database."""
    result = {b"PATH": _DEFAULT_PATH}
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        return result
    names = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell}
    return {**result, **{os.fsencode(name): os.fsencode(value) for name, value in names.items()}}


def _items(export: str) -> list[str]:
    """Split at commas outside of quotes; the quotes go."""
    items, current, quote = [], [], ""
    for character in export:
        if quote:
            if character == quote:
                quote = ""
            else:
                current.append(character)
        elif character in "'\"" and (not current or current[-1] == "="):
            quote = character
        elif character == ",":
            items.append("".join(current))
            current = []
        else:
            current.append(character)
    items.append("".join(current))
    return [item.upper() if item.upper() in ("ALL", "NONE") else item for item in items]
