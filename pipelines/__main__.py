"""``python -m pipelines``: the main job, the demo and the Dagster UI, without knowing Dagster's commands."""

import logging
from datetime import date
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from backstory.cli.failure import FAILED, run_command
from backstory.errors import InputError
from backstory.workspace import open_workspace
from pipelines.demo import prepare_demo, show_demo
from pipelines.instance import start_ui
from pipelines.materialization import materialize

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
console = Console()

WorkspaceOption = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads the annotation at run time
    typer.Option("--workspace", "-w", help="Folder of the workspace; else BACKSTORY_WORKSPACE."),
]


@app.command("materialize")
def materialize_command(
    first: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="First day, YYYY-MM-DD.")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="DATE", help="Last day, YYYY-MM-DD.")] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Materialize every table, for all partitions of the chat exports or for a range of days."""
    from_day, to_day = _day(first, "--from"), _day(last, "--to")
    if from_day and to_day and to_day < from_day:
        raise InputError(f"--to {to_day} lies before --from {from_day}; swap the two")
    outcome = materialize(open_workspace(workspace), from_day, to_day, console)
    raise typer.Exit(0 if outcome.success else FAILED)


@app.command("demo")
def demo_command(folder: Path) -> None:
    """Copy the example workspace to FOLDER, run the pipeline on it, and count the topics that it covers."""
    workspace = prepare_demo(folder)
    outcome = materialize(workspace, None, None, console)
    if not outcome.success:
        raise typer.Exit(FAILED)
    show_demo(workspace, console)


@app.command("ui")
def ui_command(
    workspace: WorkspaceOption = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.")] = 3000,
) -> None:
    """Open the Dagster UI on the workspace."""
    start_ui(open_workspace(workspace), port)


def _day(text: str | None, option: str) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is not a date; write it as YYYY-MM-DD", param_hint=option
        ) from error


def main() -> None:
    """Run the command; say what is wrong in one line where the library says so."""
    logging.getLogger("backstory").setLevel(logging.INFO)
    run_command(app)


if __name__ == "__main__":
    main()
