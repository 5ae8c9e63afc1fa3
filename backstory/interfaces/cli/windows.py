"""The commands that show windows, and write pages of them and of their posts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from backstory.base.errors import BackstoryError
from backstory.base.wording import count, name_all
from backstory.interfaces.cli.options import (
    FirstOption,
    JsonOption,
    LastOption,
    OutputOption,
    WindowArgument,
    WorkspaceOption,
    open_library,
    open_workspace,
)
from backstory.interfaces.cli.terminal import (
    open_console,
    plain,
    plain_line,
    print_lines,
    print_result,
    print_table,
)
from backstory.interfaces.pages.export.formats import FormatName

if TYPE_CHECKING:
    from backstory.interfaces.library.results import Explanation
    from backstory.interfaces.pages.site.folder import Written
    from backstory.interfaces.pages.site.library import Library

_PART_CHARACTERS = 70
_PARTS_SHOWN = 2

OpenOption = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def windows(
    first: FirstOption = None,
    last: LastOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only the latest so many windows.")
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
        Literal["markdown", "cited", "json", "blocks"] | None,
        typer.Option("--format", help="Print only the context, in a format for a prompt."),
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a window's context: the text for the prompt, and the reason for each document."""
    from backstory.operations.inspection.windows import read_window_context
    from backstory.retrieval.contexts import add_budget_of_posts
    from backstory.text.prompts.entries import format_context

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
        typer.Argument(metavar="DOCUMENT", help="Path, slug, title or id. Default: all that were found."),
    ] = None,
    should_be: Annotated[
        Literal["here", "absent", "unsaid"] | None,
        typer.Option(help="Say where DOCUMENT should be, for `backstory learn`, or take that back."),
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


def print_windows(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one line for each window. The chat comes last: a narrow terminal breaks only it."""
    from backstory.base.local_times import write_span

    if not rows:
        console.print("No windows yet; `backstory run` builds them from the chats.")
        return
    zones = {row["timezone"] for row in rows}
    # The zone is named once, unless conversations have different ones.
    shared = f" {zones.pop()}" if len(zones) == 1 else ""
    cells = []
    for row in rows:
        status = row["status"].replace("_", " ")
        kept = row["kept_count"] or ""
        cells.append(
            (
                row["short_id"],
                write_span(row["started_at"], row["ended_at"]).removesuffix(shared),
                row["message_count"],
                status if not kept else kept if status == "ok" else f"{kept} ({status})",
                None if row["part_count"] is None else f"{row['served_count']}/{row['part_count']}",
                plain_line(row["conversation_id"]),
            )
        )
    columns = ("window", f"time{shared}", "msgs", "documents", "served", "chat")
    print_table(console, columns, cells, right=("msgs", "served"), folded=["chat"])


def print_context(console: Console, context: Mapping[str, Any]) -> None:
    """Print a context's text, the reason for each document, and the number of dropped hits."""
    from backstory.operations.inspection.windows import CAUSES
    from backstory.retrieval.passages.provenance import is_certain

    if context["error"]:
        console.print(plain(f"{context['status']}: {context['error']}", "yellow"))
    if context["text"]:
        console.print(plain(context["text"].strip()))
        console.print("\nWhy these documents", style="bold")
        for row in context["documents"]:
            serves = "serves" if is_certain(row["serves"]) else "perhaps serves"
            parts = f"{count(len(row['asked_by']), 'part')} of the window"
            probability = f"(probability {row['probability']:.2f})"
            console.print(plain_line(f"{row['rank']}. {row['slug']} {serves} {parts} {probability}, such as"))
            _print_parts(console, row["asked_by"][:_PARTS_SHOWN])
            if row["also_in"]:
                console.print(plain_line(f"   The same text is in {name_all(row['also_in'])}."))
        if context["dropped"]:
            console.print("\nDropped hits", style="bold")
        for cause, number in context["dropped"].items():
            console.print(f"{number:>4}  {CAUSES[cause]}")
        console.print(f"\nDocuments of the context serve {context['coverage']:.0%} of the window.")
        if topics := "; ".join(context["uncovered_topics"] or ()):
            console.print(plain_line(f"Topics that no document serves: {topics}"))
    else:
        console.print(f"No context ({context['status'].replace('_', ' ')}).")
    expected = ""
    if context["confidence"] is not None and context["part_count"]:
        expected = f" Expected share of the window that is served: {context['confidence']:.0%}."
    verdict = context["verdict"].replace("_", " ")
    print_lines(console, [f"Verdict: {verdict}.{expected}", f"Advice: {context['recommendation']}."])


def print_explanation(console: Console, explanation: Explanation) -> None:
    """Print why each document is, or is not, in a context, with the parts of the window that found it."""
    for found in explanation.documents:
        console.print(plain_line(f"{found.title} ({found.uri})", "bold"), soft_wrap=True)
        mark = ("in the context", "green") if found.kept else ("not in the context", "yellow")
        reason = "" if found.kept else f": {found.reason}"
        if found.probability is not None:
            rank = "" if found.rank is None else f"rank {found.rank}, "
            reason += f" ({rank}probability {found.probability:.2f}, {count(found.hits, 'hit')})"
        console.print(Text.assemble("  ", mark, plain(reason)), soft_wrap=True)
        _print_parts(console, found.asked_by)
        if found.should_be is not None:
            where = "in the context" if found.should_be == "here" else "absent"
            console.print(f"  a person said that it should be {where}: a label for `backstory learn`")
    verdict = explanation.verdict.replace("_", " ")
    print_lines(console, [f"Verdict of the window: {verdict}. Advice: {explanation.recommendation}."])


def _print_parts(console: Console, texts: Sequence[str]) -> None:
    """Print the beginnings of parts of a window."""
    from backstory.text.prompts.entries import cut_line

    for text in texts:
        console.print(plain(f"     {cut_line(text, _PART_CHARACTERS)}", "dim"), soft_wrap=True)


def report(
    window: WindowArgument,
    output: OutputOption = None,
    open_page: OpenOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Draw a window as an HTML page that shows which document serves which message, and the dropped ones.

    The page is reports/ID.html in the workspace unless --output names another file.
    """
    from backstory.interfaces.pages.report.window_page import write_window_page

    _print_page(write_window_page(open_workspace(workspace), window, output), opens=open_page)


def site(
    output: OutputOption = None,
    windows: Annotated[
        bool, typer.Option("--windows", help="Also write a page for each window with all its messages.")
    ] = False,
    open_page: OpenOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the posts as a folder of HTML pages, with the documents they cite and the posts that cite them.

    The folder is site in the workspace unless --output names another.
    """
    from backstory.interfaces.pages.site.build import build_site

    opened = open_workspace(workspace)
    built = build_site(opened, output, windows=windows)
    shows = "all messages of every window" if windows else "what they quote of the chat (--windows adds all)"
    told = [
        _describe(built.library, built.written),
        f"Shown are the posts, {count(len(built.library.documents), 'document')} in full, and {shows}.",
    ]
    if not opened.settings.site.base_url:
        told.append("For feeds and a sitemap, set site.base_url.")
    print_lines(open_console(stderr=True), told)
    _print_page(built.index, opens=open_page)


def export(
    format_name: Annotated[
        FormatName, typer.Option("--format", "-f", help="The program that the files are for.")
    ],
    output: OutputOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the posts for another site generator, for Ghost, or as a mailbox.

    The folder is export/FORMAT in the workspace unless --output names another.
    """
    from backstory.interfaces.pages.export.build import export_posts

    made = export_posts(open_workspace(workspace), format_name, output)
    print_lines(open_console(stderr=True), [_describe(made.library, made.written)])
    _print_page(made.folder)


def prompt(
    shipped: Annotated[
        bool, typer.Option("--shipped", help="The shipped prompt, whatever the settings name.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Print the prompt that a model writes posts from, to copy and change (setting writers.prompt)."""
    from backstory.writing.prompt import load_prompt

    path = None
    if not shipped:
        opened = open_workspace(workspace)
        named = opened.settings.writers.prompt
        path = opened.root / named if named else None
    typer.echo(load_prompt(path).source, nl=False)


def _describe(library: Library, written: Written) -> str:
    """Count the posts, and the files that were written."""
    return (
        f"{count(len(library.posts), 'post')}, {count(library.links_between_posts, 'link')} to earlier posts, "
        f"{count(len(library.without_post), 'window')} without a post. "
        f"Files: {written.written} written, {written.unchanged} unchanged, {written.removed} removed."
    )


def _print_page(page: Path, *, opens: bool = False) -> None:
    """Print where a page is, alone on standard output, for scripts; and open it in a browser if that is wanted."""
    sys.stdout.write(f"{page}\n")
    if opens:
        import webbrowser  # few commands need it

        if not webbrowser.open(page.resolve().as_uri()):
            raise BackstoryError(f"no browser starts on this machine; open {page} yourself")
