"""The Typer app of a command, made from its table of options. It gives the help its panels."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from minislurm.cli.argv import CommandLine, Occurrence
from minislurm.cli.option import Argument, Option, Repeat

if TYPE_CHECKING:
    from minislurm.cli.application import Application


def make_typer_app(application: Application[Any]) -> typer.Typer:
    """An app with one command. It takes canonical command lines (`CommandLine.canonical`)."""
    app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    command = app.command(
        application.name,
        help=_escaped(application.summary),
        cls=_command_class(application.synopsis),
        context_settings={"help_option_names": [], "max_content_width": 110},
    )
    command(_callback(application))
    return app


def _command_class(synopsis: str) -> type[TyperCommand]:
    class Command(TyperCommand):
        def collect_usage_pieces(self, ctx: Any) -> list[str]:
            return [synopsis]

    return Command


def _callback(application: Application[Any]) -> Callable[..., None]:
    """A function whose signature Typer reads. Called, it runs the command with what Typer has parsed."""
    options = [option for option in application.options if option.supported]

    def call(**parsed: Any) -> None:
        occurrences = tuple(
            Occurrence(option, text)
            for option in options
            for text in _texts(option, parsed[_parameter_name(option)])
        )
        line = CommandLine(occurrences, tuple(parsed.get("arguments") or ()))
        raise typer.Exit(application.run(application.values_of(line), line.positionals))

    parameters = [_parameter(option) for option in options]
    parameters += [_eager(option) for option in application.all_options()[len(application.options) :]]
    if application.takes_arguments:
        parameters.append(
            inspect.Parameter(
                "arguments",
                inspect.Parameter.KEYWORD_ONLY,
                default=typer.Argument(None, hidden=True),
                annotation=list[str] | None,
            )
        )
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _parameter_name(option: Option) -> str:
    return "option_" + option.name.replace("-", "_")


def _spelled(option: Option) -> list[str]:
    return [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]


def _parameter(option: Option) -> inspect.Parameter:
    kind: Any
    count = option.argument is Argument.NONE and option.repeat is Repeat.COUNT
    if count:
        default, kind = 0, int
    elif option.argument is Argument.NONE:
        default, kind = False, bool
    else:
        default, kind = None, list[str] | None
    metavar = option.metavar or option.name.upper()
    return inspect.Parameter(
        _parameter_name(option),
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(
            default,
            *_spelled(option),
            help=_escaped(option.help),
            metavar="" if count else None if option.argument is Argument.NONE else _metavar(option, metavar),
            rich_help_panel=option.panel,
            hidden=option.hidden,
            show_default=False,
            count=count,
        ),
        annotation=kind,
    )


def _metavar(option: Option, metavar: str) -> str:
    return f"[={metavar}]" if option.argument is Argument.OPTIONAL else metavar


def _eager(option: Option) -> inspect.Parameter:
    """--help, --usage, --version: `application` acts on them before Typer; here help shows them."""

    def act(context: typer.Context, value: bool) -> None:
        if value and option.name == "help":
            typer.echo(context.get_help())
            raise typer.Exit()

    return inspect.Parameter(
        "option_" + option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(
            False,
            *_spelled(option),
            help=option.help,
            rich_help_panel=option.panel,
            is_eager=True,
            callback=act,
            show_default=False,
        ),
        annotation=bool,
    )


def _texts(option: Option, given: Any) -> list[str | None]:
    if option.argument is not Argument.NONE:
        return list(given or ())
    return [None] * int(given)


def _escaped(text: str) -> str:
    """Brackets are text, not rich's markup."""
    return text.replace("[", "\\[")
