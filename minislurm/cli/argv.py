"""getopt_long's reading of a command line, with glibc's messages.

Unambiguous abbreviations, glued short options (``-n4``, ``-o%P``, ``-hn name``), optional arguments only with
``=`` or glued, ``--``. With `permute` options may follow positional arguments; without, the first positional
ends the options.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from minislurm.cli.option import Argument, Option
from minislurm.cli.printable import printable
from minislurm.domain.errors import UsageError


class Occurrence(Struct, frozen=True):
    """One option as it stood on the command line; `text` None: without an argument."""

    option: Option
    text: str | None = None


class CommandLine(Struct, frozen=True):
    occurrences: tuple[Occurrence, ...]
    positionals: tuple[str, ...]

    def canonical(self) -> list[str]:
        """The same command line in one spelling: ``--name=value …, --, positionals``."""
        result = []
        for occurrence in self.occurrences:
            option, text = occurrence.option, occurrence.text
            if option.argument is Argument.NONE:
                result.append(f"--{option.name}")
            else:
                result.append(f"--{option.name}={option.default_text if text is None else text}")
        return [*result, "--", *self.positionals]


def parse(
    arguments: Sequence[str],
    options: Sequence[Option],
    *,
    command: str,
    permute: bool,
    usage_exit_code: int = 1,
    stop_at: Collection[str] = (),
) -> CommandLine:
    """Reads a command line (without the program's name).

    Reading ends early after an option whose name is in `stop_at` (help, version), as Slurm acts on those at
    once. Raises UsageError with `usage_exit_code`.
    """
    return _Reader(arguments, options, command, permute, usage_exit_code, stop_at).read()


class _Reader:
    def __init__(
        self,
        arguments: Sequence[str],
        options: Sequence[Option],
        command: str,
        permute: bool,
        usage_exit_code: int,
        stop_at: Collection[str],
    ) -> None:
        self._rest = list(reversed(arguments))
        self._command = command
        self._permute = permute
        self._usage_exit_code = usage_exit_code
        self._stop_at = stop_at
        self._by_short = {option.short: option for option in options if option.short}
        self._by_long = {name: option for option in options for name in option.spellings}
        self._occurrences: list[Occurrence] = []
        self._positionals: list[str] = []

    def read(self) -> CommandLine:
        while self._rest and not self._stopped():
            argument = self._rest.pop()
            if argument == "--":
                break
            if argument.startswith("--"):
                self._read_long(argument[2:])
            elif argument.startswith("-") and argument != "-":
                self._read_shorts(argument[1:])
            else:
                self._positionals.append(argument)
                if not self._permute:
                    break
        self._positionals.extend(reversed(self._rest))
        return CommandLine(tuple(self._occurrences), tuple(self._positionals))

    def _stopped(self) -> bool:
        return bool(self._occurrences) and self._occurrences[-1].option.name in self._stop_at

    def _read_long(self, body: str) -> None:
        name, equals, text = body.partition("=")
        spelling, option = self._find_long(name)
        if option.argument is Argument.NONE:
            if equals:
                raise self._error(f"option '--{spelling}' doesn't allow an argument")
            self._add(option, None)
        elif equals:
            self._add(option, text)
        elif option.argument is Argument.OPTIONAL:
            self._add(option, None)
        elif self._rest:
            self._add(option, self._rest.pop())
        else:
            raise self._error(f"option '--{spelling}' requires an argument")

    def _find_long(self, name: str) -> tuple[str, Option]:
        if name in self._by_long:
            return name, self._by_long[name]
        matches = {
            spelling: option
            for spelling, option in self._by_long.items()
            if option.abbreviates and spelling.startswith(name)
        }
        if not matches:
            raise self._error(f"unrecognized option '--{name}'")
        if len({option.name for option in matches.values()}) > 1:
            possibilities = " ".join(f"'--{spelling}'" for spelling in matches)
            raise self._error(f"option '--{name}' is ambiguous; possibilities: {possibilities}")
        return next(iter(matches.items()))

    def _read_shorts(self, letters: str) -> None:
        for i, letter in enumerate(letters):
            option = self._by_short.get(letter)
            if option is None:
                raise self._error(f"invalid option -- '{letter}'")
            glued = letters[i + 1 :]
            if option.argument is Argument.NONE:
                self._add(option, None)
                if self._stopped():
                    return
                continue
            if glued or option.argument is Argument.OPTIONAL:
                self._add(option, glued or None)
            elif self._rest:
                self._add(option, self._rest.pop())
            else:
                raise self._error(f"option requires an argument -- '{letter}'")
            return

    def _add(self, option: Option, text: str | None) -> None:
        self._occurrences.append(Occurrence(option, text))

    def _error(self, message: str) -> UsageError:
        return UsageError(
            f'{self._command}: {printable(message)}\nTry "{self._command} --help" for more information',
            exit_code=self._usage_exit_code,
            prefix=False,
        )
