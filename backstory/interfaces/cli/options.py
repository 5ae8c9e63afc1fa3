"""The arguments and options that several commands share."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backstory.base.telemetry import LogFormat

if TYPE_CHECKING:
    from backstory.interfaces.library.library import Library
    from backstory.pipeline.workspace import Workspace


def open_library(workspace: Path | None) -> Library:
    """Open the library that a command is about; loading it takes longer than reading the command line."""
    from backstory.interfaces.library.library import Library

    return Library.open(workspace)


def open_workspace(workspace: Path | None) -> Workspace:
    """Open the workspace that a command is about, as late as the library."""
    from backstory.pipeline.workspace import open_workspace

    return open_workspace(workspace)


def read_day(text: str) -> date:
    """Read a day from the command line."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a date; write it as YYYY-MM-DD") from error


def read_pages(text: str | None) -> tuple[int, int] | None:
    """Read a page or a range of pages from the command line; None if none is given."""
    if text is None:
        return None
    first, dash, last = text.partition("-")
    try:
        return int(first), int(last if dash else first)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} are no pages; write 3, or 3-5") from error


FirstOption = Annotated[
    date | None,
    typer.Option("--from", parser=read_day, metavar="DATE", help="First day. Default: the first of all."),
]
LastOption = Annotated[
    date | None,
    typer.Option("--to", parser=read_day, metavar="DATE", help="Last day. Default: the last of all."),
]
PagesOption = Annotated[
    str | None,
    typer.Option("--pages", metavar="N[-M]", help="Only the text of this page, or of these pages."),
]
DocumentsOption = Annotated[
    list[str] | None,
    typer.Option("--document", "-d", metavar="NAME", help="Only this document. May be repeated."),
]
PathsOption = Annotated[
    list[str] | None, typer.Option("--path", metavar="GLOB", help="Only paths that match. May be repeated.")
]
TagsOption = Annotated[
    list[str] | None, typer.Option("--tag", help="Only documents with this tag. May be repeated.")
]
KindsOption = Annotated[
    list[str] | None, typer.Option("--kind", help="Only documents of this kind. May be repeated.")
]
AsOfOption = Annotated[
    date | None,
    typer.Option(parser=read_day, metavar="DATE", help="No documents that were published after this day."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="PATH", help="Where to write. Default: a place in the workspace."),
]
WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="DIR",
        help="The workspace. Default: BACKSTORY_WORKSPACE, or this folder.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also print details: the tables, the engine and the index.")
]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option(help="Log on standard error: warnings as text, or every event as JSON. Default: text."),
]
DocumentArgument = Annotated[
    str, typer.Argument(metavar="DOCUMENT", help="Path, slug, title or id; `backstory documents` lists all.")
]
WindowArgument = Annotated[
    str,
    typer.Argument(
        metavar="WINDOW", help="latest, the day (YYYY-MM-DD) it began, or the beginning of its id."
    ),
]
