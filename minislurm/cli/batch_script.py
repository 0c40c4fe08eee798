"""The batch script: where it comes from, whether it looks like one, the options on its ``#SBATCH`` lines."""

from __future__ import annotations

import os
import sys

from msgspec import Struct

from minislurm.cli.printable import printable
from minislurm.domain.errors import UsageError

#: Nothing that a person wrote; keeps `sbatch < /dev/zero` from filling the memory.
MAX_SCRIPT_BYTES = 64 * 1024 * 1024

_NO_INTERPRETER = (
    "This does not look like a batch script.  The first\n"
    "line must start with #! followed by the path to an interpreter.\n"
    "For instance: #!/bin/sh"
)
_DOS_LINES = "Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n)."
_NULL = "The Slurm controller does not allow scripts that\ncontain a NULL character '\\0'."
_DIRECTIVE = b"#SBATCH"


class BatchScript(Struct, frozen=True):
    content: bytes
    #: The job's name unless it is given one.
    name: str
    #: Absolute path; "" for --wrap and standard input.
    path: str = ""


class Directive(Struct, frozen=True):
    """The options of one ``#SBATCH`` line."""

    line_number: int
    words: tuple[str, ...]


def read_script(file_name: str) -> BatchScript:
    """From a file: in the current folder, or for a bare name in PATH too. Raises UsageError."""
    path = _find(file_name)
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SCRIPT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"Unable to open file {printable(file_name)}") from error
    return BatchScript(checked(content), os.path.basename(path), os.path.abspath(path))


def read_standard_input() -> BatchScript:
    """Raises UsageError."""
    stream = sys.stdin
    content = stream.buffer.read(MAX_SCRIPT_BYTES + 1) if stream is not None else b""
    return BatchScript(checked(content), "sbatch")


def wrapped(command: str) -> BatchScript:
    """``--wrap``. Raises UsageError."""
    body = os.fsencode(command)
    return BatchScript(
        checked(b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + body + b"\n"), "wrap"
    )


def checked(content: bytes) -> bytes:
    """`content`, if a batch script may look so. Raises UsageError with Slurm's text."""
    if len(content) > MAX_SCRIPT_BYTES:
        raise UsageError("Batch job submission failed: Batch script is too large")
    if not content:
        raise UsageError("Batch script is empty!")
    if not content.strip():
        raise UsageError("Batch script contains only whitespace!")
    if not content.startswith(b"#!"):
        raise UsageError(_NO_INTERPRETER)
    if b"\0" in content:
        raise UsageError(_NULL)
    if b"\r\n" in content:
        raise UsageError(_DOS_LINES)
    return content


def directives(script: BatchScript) -> list[Directive]:
    """The ``#SBATCH`` lines before the first line that is neither comment nor blank. Raises UsageError."""
    found = []
    name = script.path or script.name
    for number, line in enumerate(script.content.split(b"\n"), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith(b"#"):
            break
        rest = line[len(_DIRECTIVE) :]
        if line.startswith(_DIRECTIVE) and (not rest or rest[:1].isspace()):
            words = split_words(os.fsdecode(rest), f"{name}: line {number}")
            if words:
                found.append(Directive(number, words))
    return found


def split_words(text: str, where: str) -> tuple[str, ...]:
    """Words of a directive: quotes '' and "" group, a backslash takes the next character as it is, a "#" at
    the start of a word begins a comment. Raises UsageError for an open quote."""
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    characters = iter(text)
    for character in characters:
        if quote:
            if character == quote:
                quote = ""
            elif character == "\\" and quote == '"':
                _append_escaped(word, next(characters, ""))
            elif word is not None:
                word.append(character)
        elif character.isspace():
            if word is not None:
                words.append("".join(word))
            word = None
        elif character == "#" and word is None:
            break
        else:
            word = [] if word is None else word
            if character in "'\"":
                quote = character
            elif character == "\\":
                word.append(next(characters, ""))
            else:
                word.append(character)
    if quote:
        raise UsageError(f"{printable(where)}: Unmatched `{quote}` in [{text.strip()}]")
    if word is not None:
        words.append("".join(word))
    return tuple(words)


def _append_escaped(word: list[str] | None, character: str) -> None:
    """Inside double quotes only a quote and a backslash lose their backslash, as in a shell."""
    if word is not None:
        word.append(character if character in '"\\' else "\\" + character)


def _find(file_name: str) -> str:
    if os.path.exists(file_name) or "/" in file_name:
        return file_name
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        candidate = os.path.join(folder or ".", file_name)
        if os.path.isfile(candidate) and os.access(candidate, os.R_OK):
            return candidate
    return file_name
