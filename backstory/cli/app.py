"""The commands. How their errors end is said in :mod:`backstory.cli.failure`."""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from backstory.cli.failure import BAD_USAGE, FAILED, run_command
from backstory.cli.run import run
from backstory.errors import BackstoryError, InputError

app = typer.Typer(
    name="backstory",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="For every window of a conversation, the earlier documents that its writer should have at hand.",
)
console = Console()

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace", "-w", help="Folder of the workspace; else BACKSTORY_WORKSPACE, else this folder."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="Folder to make.")]) -> None:
    """Make a new workspace with a commented backstory.yaml."""
    from backstory.settings.template import create_workspace

    created = create_workspace(folder)
    console.print(
        f"Made {created}\n"
        f"1. Put chat exports into {created / 'chats'} and posts into {created / 'posts'}.\n"
        f"2. backstory run --workspace {created}",
        highlight=False,
        soft_wrap=True,
    )


app.command()(run)


@app.command()
def status(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Say what each table holds and which snapshot is published."""
    from backstory.cli.views import print_status
    from backstory.inspection.status import read_status
    from backstory.workspace import open_workspace

    report = read_status(open_workspace(workspace))
    _print(report, as_json, print_status)


@app.command()
def windows(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """List the windows with the state of their contexts."""
    from backstory.cli.views import print_windows
    from backstory.inspection.status import read_windows
    from backstory.workspace import open_workspace

    _print(read_windows(open_workspace(workspace)), as_json, print_windows)


@app.command()
def context(
    window_id: Annotated[str, typer.Argument(help="Id of a window; a unique beginning is enough.")],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the text of a window's context, and why each document was chosen."""
    from backstory.cli.views import print_context
    from backstory.inspection.windows import read_window_context
    from backstory.workspace import open_workspace

    _print(read_window_context(open_workspace(workspace), window_id), as_json, print_context)


@app.command()
def report(
    window_id: Annotated[str, typer.Argument(help="Id of a window; a unique beginning is enough.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; else reports/<window id>.html in the workspace."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Draw a window, what each part of it found, and what was kept, as one HTML page."""
    from backstory.report import write_window_page
    from backstory.workspace import open_workspace

    _hand_over(write_window_page(open_workspace(workspace), window_id, output), open_page)


@app.command()
def query(
    text: Annotated[str, typer.Argument(help="What to look for.")],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search the published index for a text."""
    from backstory.cli.views import print_query
    from backstory.inspection.query import query_text
    from backstory.workspace import open_workspace

    _print(query_text(open_workspace(workspace), text), as_json, print_query)


@app.command()
def doctor(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Check what is installed, reachable, writable and consistent."""
    from backstory.cli.views import print_examinations
    from backstory.inspection.doctor import examine

    examinations = examine(workspace)
    _print([examination.as_record() for examination in examinations], as_json, print_examinations)
    failed = {examination.name for examination in examinations if not examination.passed}
    if failed:
        raise typer.Exit(BAD_USAGE if "settings" in failed else FAILED)


@app.command(name="eval")
def evaluate(
    folder: Annotated[
        Path, typer.Argument(help="Folder with docs.parquet, windows.parquet and qrels.parquet.")
    ],
    runs: Annotated[Path | None, typer.Option("--runs", help="Write the ranked lists as Parquet.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Draw the methods with their intervals as one HTML page.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score the library's own path on labelled data, beside whole-window queries."""
    from backstory.cli.views import print_comparison
    from backstory.evaluation import evaluate_folder
    from backstory.report import write_comparison_page
    from backstory.settings import Settings
    from backstory.workspace import open_workspace

    settings = open_workspace(workspace).located_settings if workspace is not None else Settings()
    for file in (runs, html):
        if file is not None and not file.parent.is_dir():
            raise InputError(
                f"{file.parent} is not there; make the folder before {file.name} is written to it"
            )
        if file is not None and file.is_dir():
            raise InputError(f"{file} is a folder; name a file in it")
    comparison = evaluate_folder(folder, settings)
    if runs is not None:
        comparison.runs.write_parquet(runs)
    if html is not None:
        write_comparison_page(html, comparison)
    _print(comparison.as_record(), as_json, lambda _console, _record: print_comparison(console, comparison))


def _hand_over(page: Path, open_page: bool) -> None:
    """Print where a page is, alone on a line for scripts, and open it where that is wanted."""
    sys.stdout.write(f"{page}\n")
    if open_page and not webbrowser.open(page.resolve().as_uri()):
        raise BackstoryError(f"no browser could be started; open {page} yourself")


def _print(record: Any, as_json: bool, show: Any) -> None:
    if as_json:
        sys.stdout.write(json.dumps(record, ensure_ascii=False, indent=2, default=str) + "\n")
    else:
        show(console, record)


def main() -> None:
    """Run the command line."""
    run_command(app)
