"""Assembles the command line from one module for each group of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from backstory.base import VERSION
from backstory.interfaces.cli.documents import add, documents, dump, remove, show, summarize
from backstory.interfaces.cli.failure import run_command
from backstory.interfaces.cli.init import check, init
from backstory.interfaces.cli.measures import evaluate, learn
from backstory.interfaces.cli.run import run
from backstory.interfaces.cli.search import ask, grep, search
from backstory.interfaces.cli.serve import dagster, mcp, serve
from backstory.interfaces.cli.windows import context, explain, export, prompt, report, site, windows
from backstory.interfaces.cli.workspace import backup, doctor, forget, restore, status, storage

COMMANDS: Final[Mapping[str, tuple[Callable[..., None], ...]]] = {
    "Make": (init, check, run, add, remove, summarize, dagster),
    "Look": (status, windows, context, explain, documents, report, site, export),
    "Search": (ask, search, grep, show, dump, prompt, mcp),
    "Keep": (doctor, forget, backup, restore),
    "Measure": (evaluate, learn),
}
"""The commands by panel of the help."""

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
    run_command(app)
