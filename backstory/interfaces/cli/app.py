"""Assembles the command line from one module for each group of commands."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Annotated, Final

import typer
from typer.models import CommandInfo, TyperInfo

from backstory.base import VERSION
from backstory.interfaces.cli.documents import add, documents, dump, remove, show, summarize
from backstory.interfaces.cli.failure import run_command
from backstory.interfaces.cli.init import check, init
from backstory.interfaces.cli.measures import evaluate, learn
from backstory.interfaces.cli.retention import backup, forget, restore, storage
from backstory.interfaces.cli.run import run
from backstory.interfaces.cli.search import ask, grep, search
from backstory.interfaces.cli.serve import dagster, mcp, serve
from backstory.interfaces.cli.site import export, prompt, site
from backstory.interfaces.cli.windows import context, explain, report, windows
from backstory.interfaces.cli.workspace import doctor, status

COMMANDS: Final[Mapping[str, tuple[Callable[..., None], ...]]] = {
    "Make": (init, check, run, add, remove, summarize, dagster),
    "Look": (status, windows, context, explain, documents, report, site, export),
    "Search": (ask, search, grep, show, dump, prompt, mcp),
    "Keep": (doctor, forget, backup, restore),
    "Measure": (evaluate, learn),
}
"""The commands by panel of the help."""

_OBJECTS: Final = 100_000
"""Objects after which Python looks for garbage: modules make many while they load, all of which stay."""
_PASSED_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""The command parses none of its arguments, since another command line does."""


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


for _panel, _commands in COMMANDS.items():
    for _command in _commands:
        app.command(
            "eval" if _command is evaluate else None,
            rich_help_panel=_panel,
            context_settings=_PASSED_ON if _command is dagster else None,
        )(_command)

app.add_typer(serve, name="serve", rich_help_panel="Search")
app.add_typer(storage, name="storage", rich_help_panel="Keep")


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_OBJECTS)
    try:
        run_command(_assemble(sys.argv[1:]))
    finally:
        gc.freeze()  # Python would look through all modules once more when it ends


def _assemble(arguments: Sequence[str]) -> typer.Typer:
    """Return only the called command, since each takes a millisecond to assemble; all of them for the help."""
    wanted = arguments[0] if arguments else None
    alone = copy(app)
    alone.registered_commands = [each for each in app.registered_commands if _name(each) == wanted]
    alone.registered_groups = [each for each in app.registered_groups if _name(each) == wanted]
    return alone if alone.registered_commands or alone.registered_groups else app


def _name(command: CommandInfo | TyperInfo) -> str | None:
    return command.name or (command.callback.__name__ if command.callback else None)
