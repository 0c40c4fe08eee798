"""One option of a command: how it is spelled, what it takes, how its text becomes a value.

Tables of options are plain tuples; `argv` reads command lines by them, `typer_app` makes the help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from msgspec import Struct

from minislurm.domain.errors import UsageError


class Argument(Enum):
    NONE = "none"
    REQUIRED = "required"
    #: Only with "=" (or glued to the short letter), as getopt_long has it.
    OPTIONAL = "optional"


class Repeat(Enum):
    """What a second occurrence does."""

    REPLACE = "replace"
    APPEND = "append"  # the value is a tuple of all
    COUNT = "count"  # the value is the number of occurrences


class OptionError(UsageError):
    """A bad value. `preface`: lines printed before the message, without "CMD: error: "."""

    def __init__(self, message: str, *, exit_code: int = 1, preface: Sequence[str] = ()) -> None:
        super().__init__(message, exit_code=exit_code)
        self.preface = tuple(preface)


class Option(Struct, frozen=True):
    """`parse` turns text into the value; its ValueError becomes "Invalid --name specification".

    `constant` is the value of an option without argument; `default_text` is what an optional argument
    that is left out stands for.
    """

    name: str
    short: str = ""
    help: str = ""
    metavar: str = ""
    argument: Argument = Argument.REQUIRED
    parse: Callable[[str], object] = str
    #: The attribute of the values; "": the name with underscores.
    field: str = ""
    constant: object = True
    default_text: str = ""
    aliases: tuple[str, ...] = ()
    panel: str = "Options"
    repeat: Repeat = Repeat.REPLACE
    hidden: bool = False
    #: Known from Slurm and refused by name.
    supported: bool = True
    #: Attributes that a later layer's occurrence of this option takes back (--mem and --mem-per-cpu).
    clears: tuple[str, ...] = ()
    #: Takes part in abbreviations. Our own additions do not: they would make Slurm's ambiguous.
    abbreviates: bool = True

    @property
    def attribute(self) -> str:
        return self.field or self.name.replace("-", "_")

    @property
    def spellings(self) -> tuple[str, ...]:
        """All long names."""
        return (self.name, *self.aliases)


def flag(
    name: str,
    short: str = "",
    help: str = "",
    *,
    field: str = "",
    constant: object = True,
    aliases: tuple[str, ...] = (),
    panel: str = "Options",
    repeat: Repeat = Repeat.REPLACE,
    supported: bool = True,
) -> Option:
    """An option without argument."""
    return Option(
        name, short, help, argument=Argument.NONE, field=field, constant=constant, aliases=aliases,
        panel=panel, repeat=repeat, supported=supported,
    )  # fmt: skip


def refuse_unsupported(option: Option, command: str, origin: str = "") -> None:
    """Raises UsageError for an option of Slurm's that is not built. `origin`: an environment variable."""
    if not option.supported:
        where = f" (from {origin})" if origin else ""
        raise UsageError(f"--{option.name}{where} is not supported by minislurm")


def set_value(values: object, option: Option, text: str | None, *, invalid_exit_code: int = 1) -> None:
    """Stores one occurrence (`text` None: no argument was given) as the attribute of `values`.

    Raises OptionError with Slurm's message.
    """
    if option.argument is Argument.NONE:
        value = option.constant
    else:
        try:
            value = option.parse(option.default_text if text is None else text)
        except ValueError as error:
            raise OptionError(
                f"Invalid --{option.name} specification", exit_code=invalid_exit_code
            ) from error
    if option.repeat is Repeat.APPEND:
        value = (*getattr(values, option.attribute), value)
    elif option.repeat is Repeat.COUNT:
        value = getattr(values, option.attribute) + 1
    setattr(values, option.attribute, value)


def by_name(options: Iterable[Option]) -> dict[str, Option]:
    return {option.name: option for option in options}
