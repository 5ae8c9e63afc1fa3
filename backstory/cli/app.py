"""Assembles the command line from one module for each group of commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import copy
from typing import Annotated

import typer
from typer.models import CommandInfo

from backstory.cli.alert import alert
from backstory.cli.backup import backup, restore
from backstory.cli.cache import cache
from backstory.cli.check import check
from backstory.cli.documents import documents
from backstory.cli.evaluation import evaluate, evaluate_written
from backstory.cli.failure import run_command
from backstory.cli.forget import forget
from backstory.cli.library import add, dump, remove, show
from backstory.cli.prompt import prompt
from backstory.cli.run import run
from backstory.cli.runs import runs
from backstory.cli.search import grep, search
from backstory.cli.serving import mcp
from backstory.cli.site import site
from backstory.cli.summarize import summarize
from backstory.cli.windows import context, report, windows
from backstory.cli.workspace import audit, doctor, init, status
from backstory.version import VERSION

app = typer.Typer(
    name="backstory",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"backstory {VERSION}")
        raise typer.Exit


@app.callback()
def backstory(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Find, for every window of a group chat, the earlier posts that its writer should know."""


app.command()(init)
app.command()(check)
app.command()(run)
app.command()(runs)
app.command()(documents)
app.command()(windows)
app.command()(context)
app.command()(report)
app.command()(site)
app.command()(search)
app.command("query", hidden=True)(search)  # its former name
app.command()(grep)
app.command()(show)
app.command()(summarize)
app.command()(dump)
app.command()(add)
app.command()(remove)
app.command()(mcp)
app.command()(prompt)
app.command()(forget)
app.command()(status)
app.command()(doctor)
app.command()(alert)
app.command()(audit)
app.command()(cache)
app.command()(backup)
app.command()(restore)
app.command(name="eval")(evaluate)
app.command(name="eval-posts")(evaluate_written)


def main() -> None:
    """Run the command line."""
    run_command(_assemble(sys.argv[1:]))


def _assemble(arguments: Sequence[str]) -> typer.Typer:
    """Give the command that is called by name alone; else all, for their help. Each takes a millisecond to assemble."""
    called = [each for each in app.registered_commands if arguments and _name(each) == arguments[0]]
    if not called:
        return app
    alone = copy(app)
    alone.registered_commands = called
    return alone


def _name(command: CommandInfo) -> str | None:
    return command.name or (command.callback.__name__ if command.callback else None)
