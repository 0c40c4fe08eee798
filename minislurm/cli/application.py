"""Runs a command: reads its command line, prints errors as Slurm does, leaves with the right exit code.

The command's Typer app is made from the same table of options. It is loaded only for ``--help`` (and for who
calls `Application.typer_app`): Typer costs some 70 ms, and after `argv.parse` nothing is left for it to read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from minislurm.cli.argv import CommandLine, Occurrence, parse
from minislurm.cli.option import Argument, Option, OptionError, refuse_unsupported, set_value
from minislurm.cli.printable import printable
from minislurm.domain.errors import (
    AccessDenied,
    ConfigurationError,
    ControllerUnavailable,
    MinislurmError,
    Refusal,
    UsageError,
)

if TYPE_CHECKING:
    from typer import Typer

V = TypeVar("V")

#: What our commands say they are: client tools gate on it (slurm-contract.md, "Option parsing").
SLURM_VERSION = "23.02.7"

_PANEL = "Help"
_VERSION = Option("version", "V", "Print the version and leave.", argument=Argument.NONE, panel=_PANEL)
_USAGE = Option("usage", "", "Print a short usage line and leave.", argument=Argument.NONE, panel=_PANEL)


def _no_environment(values: object) -> None:
    return None


class Application(Struct, Generic[V], frozen=True):
    """A command. `run` gets the values and the positional arguments and returns the exit code.

    `new_values` makes the object whose attributes the options set (a dataclass whose fields have defaults);
    `set_environment` fills it from environment variables before the command line does.
    """

    name: str
    summary: str
    #: "[OPTIONS] [id ...]": what follows the name in the usage line.
    synopsis: str
    options: Sequence[Option]
    new_values: Callable[[], V]
    run: Callable[[V, tuple[str, ...]], int]
    set_environment: Callable[[V], None] = _no_environment
    #: False: the first positional argument ends the options (sbatch, srun, salloc).
    permute: bool = True
    #: For an unknown option: 1, or 255 as sbatch, srun and salloc have it. Also for an invalid value.
    usage_exit_code: int = 1
    #: "h" where -h means help.
    help_short: str = ""
    #: Takes positional arguments at all; else they are a usage error.
    takes_arguments: bool = True
    #: Replaces the usual way (`new_values`, `set_environment`, `apply`) to the values.
    read_values: Callable[[CommandLine], V] | None = None

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """The console script. Never raises; returns the exit code."""
        words = sys.argv[1:] if arguments is None else arguments
        return guarded(self.name, lambda: self._main(words))

    def all_options(self) -> tuple[Option, ...]:
        """The table with --help, --usage and --version."""
        letters = {option.short for option in self.options}
        version = _VERSION if "V" not in letters else Option(
            "version", "", _VERSION.help, argument=Argument.NONE, panel=_PANEL
        )  # fmt: skip
        help_ = Option(
            "help", self.help_short, "Show this message and leave.", argument=Argument.NONE, panel=_PANEL
        )
        return (*self.options, help_, _USAGE, version)

    def parse(self, arguments: Sequence[str]) -> CommandLine:
        return parse(
            arguments,
            self.all_options(),
            command=self.name,
            permute=self.permute,
            usage_exit_code=self.usage_exit_code,
            stop_at=("help", "usage", "version"),
        )

    def apply(self, values: V, occurrences: Sequence[Occurrence]) -> None:
        """Stores one layer of options (environment, command line …) in their order.

        Raises UsageError for a bad value or an unsupported option.
        """
        for occurrence in occurrences:
            for attribute in occurrence.option.clears:
                setattr(values, attribute, None)
        for occurrence in occurrences:
            refuse_unsupported(occurrence.option, self.name)
            set_value(values, occurrence.option, occurrence.text, invalid_exit_code=self.usage_exit_code)

    def values_of(self, line: CommandLine) -> V:
        if self.read_values is not None:
            return self.read_values(line)
        values = self.new_values()
        self.set_environment(values)
        self.apply(values, line.occurrences)
        return values

    def typer_app(self) -> Typer:
        from minislurm.cli.typer_app import make_typer_app

        return make_typer_app(self)

    def _main(self, arguments: Sequence[str]) -> int:
        line = self.parse(arguments)
        if line.occurrences:
            match line.occurrences[-1].option.name:
                case "help":
                    return self._help()
                case "usage":
                    print(f"Usage: {self.name} {self.synopsis}")
                    return 0
                case "version":
                    print_version()
                    return 0
        values = self.values_of(line)
        if line.positionals and not self.takes_arguments:
            raise UsageError(f"Unrecognized option: {printable(line.positionals[0])}")
        return self.run(values, line.positionals)

    def _help(self) -> int:
        self.typer_app()(["--help"], prog_name=self.name, standalone_mode=False)
        return 0


def guarded(command: str, body: Callable[[], int]) -> int:
    """Calls `body`; whatever it raises ends as Slurm's message on standard error and an exit code."""
    _set_up_streams()
    try:
        exit_code = body()
        if sys.stdout is not None:
            sys.stdout.flush()
        return exit_code
    except MinislurmError as error:
        _flush_output()
        report(command, error)
        return error.exit_code if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _discard_output()  # whoever read us has left
        return 141
    except OSError as error:
        _flush_output()
        print_error(command, f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return 1
    except Exception as error:
        if "MINISLURM_TRACEBACK" in os.environ:
            raise
        print_error(
            command, f"internal error: {type(error).__name__}: {error} (MINISLURM_TRACEBACK=1 shows where)"
        )
        return 1


def report(command: str, error: MinislurmError, context: str = "") -> None:
    """Prints an error as Slurm does. `context` ("Batch job submission failed") precedes a refusal's text."""
    prefix = f"{context}: " if context else ""
    match error:
        case UsageError():
            if isinstance(error, OptionError):
                for line in error.preface:
                    print_line(line)
            for line in str(error).split("\n"):
                if error.prefix:
                    print_error(command, line)
                else:
                    print_line(line)
        case Refusal():
            for line in error.details:
                print_error(command, line)
            print_error(command, f"{prefix}{error}")
        case AccessDenied():
            print_error(command, f"{prefix}{str(error) or 'Access/permission denied'}")
        case ControllerUnavailable() | ConfigurationError():
            for line in str(error).split("\n"):
                print_error(command, prefix + line)
        case _:
            print_error(command, prefix + str(error))


def print_error(command: str, text: str) -> None:
    """ "CMD: error: text" on standard error."""
    print_line(f"{command}: error: {text}")


def print_line(text: str) -> None:
    """A line on standard error, safe to show whatever it holds."""
    try:
        sys.stderr.write(printable(text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # nobody can be told


def print_version() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = version("minislurm")
    except PackageNotFoundError:  # run from a source tree
        own = "0+unknown"
    print(f"slurm {SLURM_VERSION}\nminislurm {own}")


def _set_up_streams() -> None:
    """Text that the locale cannot hold is escaped, never an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _flush_output() -> None:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _discard_output()


def _discard_output() -> None:
    """What is still buffered goes nowhere, so that the interpreter's flush at exit does not complain."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)
