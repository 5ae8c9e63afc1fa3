"""The commands on windows: ``windows``, ``context``, ``explain`` and ``report``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from backstory.base.wording import count
from backstory.interfaces.cli.options import (
    JsonOption,
    WindowArgument,
    WorkspaceOption,
    open_library,
    open_workspace,
    read_day,
)
from backstory.interfaces.cli.terminal import plain, plain_line, print_page, print_result, print_table

if TYPE_CHECKING:
    from backstory.interfaces.library.answers import ExplainedDocument, Explanation

_PART_CHARACTERS = 70
_PARTS_SHOWN = 2


def windows(
    first: Annotated[
        date | None,
        typer.Option(
            "--from", parser=read_day, metavar="DATE", help="Only windows that began on or after this day."
        ),
    ] = None,
    last: Annotated[
        date | None,
        typer.Option(
            "--to", parser=read_day, metavar="DATE", help="Only windows that began on or before this day."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="Only the latest N windows.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the windows, oldest first, with the coverage of their contexts."""
    from backstory.operations.inspection.windows import list_windows

    rows = list_windows(open_workspace(workspace), first=first, last=last, limit=limit)
    print_result(rows, print_windows, as_json=as_json)


def context(
    window: WindowArgument,
    form: Annotated[
        Literal["markdown", "json", "messages", "xml", "blocks"] | None,
        typer.Option("--format", help="Print only the context, in a format for a prompt."),
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a window's context: the text for the prompt, and the reason for each document."""
    from backstory.operations.inspection.windows import read_window_context
    from backstory.retrieval.contexts import add_budget_of_posts
    from backstory.text.prompts.formats import format_context

    opened = open_workspace(workspace)
    record = read_window_context(opened, window)
    if form is not None:
        settings = opened.settings.context
        budget = add_budget_of_posts(settings) if opened.feeds_back else settings
        sys.stdout.write(format_context(record["documents"], budget, form).strip() + "\n")
    else:
        print_result(record, print_context, as_json=as_json)


def explain(
    window: WindowArgument,
    document: Annotated[
        str | None,
        typer.Argument(
            metavar="[DOCUMENT]",
            help="Path, slug, title or id of a document. Default: every document that the search for the window found.",
            show_default=False,
        ),
    ] = None,
    should_be: Annotated[
        Literal["here", "absent", "unsaid"] | None,
        typer.Option(
            "--should-be",
            help="Correct the context: say where DOCUMENT should be, as a label for `backstory learn`; unsaid takes "
            "the label back.",
        ),
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain why a document is, or is not, in the context of a window.

    Exit codes: 0 done; 1 a table is damaged; 2 there is no such window or document, or several.
    """
    with open_library(workspace) as library:
        explanation = library.explain(window, document, should_be=should_be)
        print_result(explanation, print_explanation, as_json=as_json)


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
    """Draw a window as an HTML page that shows which document serves which message, and the dropped ones."""
    from backstory.interfaces.pages.report.window_page import write_window_page

    page = write_window_page(open_workspace(workspace), window, output)
    print_page(page, opens=open_page)


def print_windows(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one line for each window. The conversation comes last: a narrow terminal cuts only it."""
    if not rows:
        console.print("No windows yet; `backstory run` builds them from the chats.")
        return
    zones = {row["timezone"] for row in rows}
    # The zone is named once, unless conversations have different ones.
    time = f"time ({next(iter(zones))})" if len(zones) == 1 else "time"
    rows_shown = [
        (
            row["short_id"],
            _span(row["started_at"], row["ended_at"]) + (f" {row['timezone']}" if len(zones) > 1 else ""),
            str(row["message_count"]),
            _state(row),
            "" if row["part_count"] is None else f"{row['served_count']}/{row['part_count']}",
            plain_line(row["conversation_id"]),
        )
        for row in rows
    ]
    columns = ("window", time, "msgs", "documents", "served", "conversation")
    print_table(console, columns, rows_shown, right=("msgs", "served"), folded=["conversation"])


def _span(first: datetime, last: datetime) -> str:
    """Write when a window began and ended. The day and the year of its end are written only if they differ."""
    end = (
        "%H:%M"
        if first.date() == last.date()
        else "%m-%d %H:%M"
        if first.year == last.year
        else "%Y-%m-%d %H:%M"
    )
    return f"{first:%Y-%m-%d %H:%M} - {last:{end}}"


def _state(row: Mapping[str, Any]) -> str:
    """Describe the number of documents in a window's context, and its problem."""
    status = str(row["status"]).replace("_", " ")
    if not row["kept_count"]:
        return status
    return f"{row['kept_count']}" if status == "ok" else f"{row['kept_count']} ({status})"


def print_context(console: Console, context: Mapping[str, Any]) -> None:
    """Print a context's text, the reason for each document, and the number of dropped hits."""
    from backstory.operations.inspection.windows import CAUSES
    from backstory.retrieval.passages.provenance import is_certain
    from backstory.text.prompts.entries import cut_line

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
        parts = count(len(row["asked_by"]), "part")
        serves = "serves" if is_certain(row["serves"]) else "perhaps serves"
        probability = f"probability {row['probability']:.2f}"
        console.print(
            plain_line(
                f"{row['rank']}. {row['slug']} {serves} {parts} of the window ({probability}), such as"
            )
        )
        for text in row["asked_by"][:_PARTS_SHOWN]:
            console.print(plain(f"     {cut_line(text, _PART_CHARACTERS)}", "dim"), soft_wrap=True)
    if context["dropped"]:
        console.print("\nDropped hits", style="bold")
        for cause, number in context["dropped"].items():
            console.print(f"{number:>4}  {CAUSES[cause]}")
    console.print(f"\nDocuments of the context serve {context['coverage']:.0%} of the window.")
    if context["uncovered_topics"]:
        console.print(plain_line("Topics that no document serves: " + "; ".join(context["uncovered_topics"])))
    _print_verdict(console, context)


def print_explanation(console: Console, explanation: Explanation) -> None:
    """Print why each document is, or is not, in a context, with the parts of the window that found it."""
    from backstory.text.prompts.entries import cut_line

    for found in explanation.documents:
        console.print(plain_line(f"{found.title} ({found.uri})", "bold"), soft_wrap=True)
        mark = ("in the context", "green") if found.kept else ("not in the context", "yellow")
        reason = "" if found.kept else f": {found.reason}"
        console.print(Text.assemble("  ", mark, plain(f"{reason}{_figures(found)}")), soft_wrap=True)
        for text in found.asked_by:
            console.print(plain(f"    {cut_line(text, _PART_CHARACTERS)}", "dim"), soft_wrap=True)
        if found.should_be is not None:
            where = "in the context" if found.should_be == "here" else "absent"
            console.print(
                f"  a person said that it should be {where}, which `backstory learn` takes for a label",
                soft_wrap=True,
            )
    verdict = explanation.verdict.replace("_", " ")
    console.print(
        plain(f"Verdict of the window: {verdict}. Advice: {explanation.recommendation}."), soft_wrap=True
    )


def _figures(found: ExplainedDocument) -> str:
    """Write rank, probability and hits of a document that a part of the window found; nothing for another."""
    if found.probability is None:
        return ""
    rank = "" if found.rank is None else f"rank {found.rank}, "
    return f" ({rank}probability {found.probability:.2f}, {count(found.hits, 'hit')})"


def _print_verdict(console: Console, context: Mapping[str, Any]) -> None:
    verdict = context["verdict"].replace("_", " ")
    if context["confidence"] is None or not context["part_count"]:
        console.print(f"Verdict: {verdict}.")
    else:
        console.print(
            f"Verdict: {verdict}. Expected share of the window that is served: {context['confidence']:.0%}."
        )
    console.print(plain(f"Advice: {context['recommendation']}."))
