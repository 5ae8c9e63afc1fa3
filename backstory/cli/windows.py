"""The commands on windows: ``windows``, ``context`` and ``report``."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from backstory.cli.options import JsonOption, WindowArgument, WorkspaceOption, read_day
from backstory.cli.terminal import make_table, open_console, plain, plain_line, print_json
from backstory.errors import BackstoryError

_PART_CHARACTERS = 70
_PARTS_SHOWN = 2
_ALMOST_SURE = 0.99

_CAUSES = {
    "below_threshold": "not similar enough",
    "duplicate_document": "a better chunk of the same document was used",
    "near_duplicate": "almost the same text as a chunk that was used",
    "not_selected": "the places went to documents that add more",
    "over_budget": "no room left in the token budget",
}


def windows(
    first: Annotated[
        date | None,
        typer.Option(
            "--from", parser=read_day, metavar="DATE", help="Only windows that began on this day or later."
        ),
    ] = None,
    last: Annotated[
        date | None,
        typer.Option(
            "--to", parser=read_day, metavar="DATE", help="Only windows that began on this day or before."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="Only the latest N of them.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the windows, oldest first, and how well each one's context serves it."""
    from backstory.inspection.windows import list_windows
    from backstory.workspace import open_workspace

    rows = list_windows(open_workspace(workspace), first=first, last=last, limit=limit)
    if as_json:
        print_json(rows)
    else:
        print_windows(open_console(), rows)


def context(window: WindowArgument, workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Print a window's context: the text for its writer, and why each document is in it."""
    from backstory.inspection.windows import read_window_context
    from backstory.workspace import open_workspace

    record = read_window_context(open_workspace(workspace), window)
    if as_json:
        print_json(record)
    else:
        print_context(open_console(), record)


def report(
    window: WindowArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write. Default: reports/ID.html in the workspace."
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Draw a window as an HTML page: which document serves which message, and what was left out."""
    from backstory.report import write_window_page
    from backstory.workspace import open_workspace

    page = write_window_page(open_workspace(workspace), window, output)
    sys.stdout.write(f"{page}\n")  # alone on its line, for scripts
    if open_page and not webbrowser.open(page.resolve().as_uri()):
        raise BackstoryError(f"no browser could be started; open {page} yourself")


def print_windows(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Show one line for each window; the conversation comes last, so that only it gives way on a narrow terminal."""
    if not rows:
        console.print("No windows yet; `backstory run` makes them of the chats.")
        return
    table = make_table(
        "window", "time (UTC)", "msgs", "documents", "served", "conversation", right=("msgs", "served")
    )
    table.columns[-1].no_wrap = False
    for row in rows:
        table.add_row(
            row["short_id"],
            _span(row["started_at"], row["ended_at"]),
            str(row["message_count"]),
            _state(row),
            "" if row["coverage"] is None else f"{row['coverage']:.0%}",
            plain_line(row["conversation_id"]),
        )
    console.print(table)


def _span(first: datetime, last: datetime) -> str:
    """Write when a window began and ended; the day of its end only where it is another one, the year likewise."""
    end = (
        "%H:%M"
        if first.date() == last.date()
        else "%m-%d %H:%M"
        if first.year == last.year
        else "%Y-%m-%d %H:%M"
    )
    return f"{first:%Y-%m-%d %H:%M} - {last:{end}}"


def _state(row: Mapping[str, Any]) -> str:
    """Say how many documents a window's context holds, and what is wrong with it."""
    status = str(row["status"]).replace("_", " ")
    if not row["kept_count"]:
        return status
    return f"{row['kept_count']}" if status == "ok" else f"{row['kept_count']} ({status})"


def print_context(console: Console, context: Mapping[str, Any]) -> None:
    """Show a context's text, then why each document is in it and what was left out."""
    from backstory.prompt_text import cut_snippet

    if not context["text"]:
        reason = f": {context['error']}" if context["error"] else ""
        console.print(plain(f"No context ({context['status'].replace('_', ' ')}{reason})."))
        _print_verdict(console, context)
        return
    if context["error"]:
        console.print(plain(f"{context['status']}: {context['error']}", "yellow"))
    console.print(plain(context["text"].strip()))
    console.print("\nWhy these documents", style="bold")
    for row in context["documents"]:
        count = len(row["asked_by"])
        parts = "1 part" if count == 1 else f"{count} parts"
        console.print(plain_line(f"{row['rank']}. {row['slug']} serves {parts} of the window, such as"))
        for text in row["asked_by"][:_PARTS_SHOWN]:
            console.print(
                plain(f"     {cut_snippet(' '.join(text.split()), _PART_CHARACTERS)}", "dim"), soft_wrap=True
            )
    if context["dropped"]:
        console.print("\nFound but left out", style="bold")
        for cause, count in context["dropped"].items():
            console.print(f"{count:>4}  {_CAUSES[cause]}")
    console.print(
        f"\n{context['coverage']:.0%} of the window's parts are served by a document of the context."
    )
    _print_verdict(console, context)


def _print_verdict(console: Console, context: Mapping[str, Any]) -> None:
    confidence = context["confidence"]
    if confidence is None:
        console.print(f"Verdict: {context['verdict']}.")
    else:
        estimate = "over 99%" if confidence > _ALMOST_SURE else f"{confidence:.0%}"
        console.print(
            f"Verdict: {context['verdict']}. Estimated probability that at least half of the window's topics are "
            f"covered: {estimate}."
        )
    console.print(plain(f"Advice: {context['recommendation']}."))
