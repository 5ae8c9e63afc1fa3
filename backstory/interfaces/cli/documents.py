"""The commands on documents: ``documents``, ``show``, ``dump``, ``add``, ``remove`` and ``summarize``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from backstory.base.wording import count, count_rest, write_size
from backstory.interfaces.cli.failure import FAILED, INCOMPLETE
from backstory.interfaces.cli.options import (
    DocumentArgument,
    JsonOption,
    PagesOption,
    WorkspaceOption,
    open_library,
    read_pages,
)
from backstory.interfaces.cli.terminal import (
    link_file,
    list_alike,
    plain,
    plain_line,
    print_lines,
    print_marked,
    print_notes,
    print_result,
    print_table,
)

if TYPE_CHECKING:
    from backstory.interfaces.library.results import DocumentText, FileState, IndexReport, Summary
    from backstory.retrieval.found import DocumentEntry

_COLUMNS = ("state", "date", "from", "format", "pages", "chunks", "size", "path", "title")
_SPARE = ("title", "from", "size", "pages", "format", "chunks")
_FIGURES = ("pages", "chunks", "size")
_SHOWN_FILES = 50


def documents(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """List the documents with their states, dates, pages, chunks, sizes and paths, and the files that were not read.

    The column `from` says what a date is taken from: `stated` in the text, `name` of the file or its folder, or the
    last change that the file states of itself (`changed`).

    A narrow terminal leaves out columns, and says which; with --json, all are there.
    """
    with open_library(workspace) as library:
        print_result(library.files(), print_files, as_json=as_json)


def print_files(console: Console, files: Sequence[FileState]) -> None:
    """Print one line for each document, and why files were not read, or only in part."""
    from backstory.ingest.documents.files import UNDATED

    rows = [
        (
            file.state,
            f"{file.date:%Y-%m-%d}" if file.date else "no date" if file.title is not None else None,
            file.date_origin,
            file.format,
            file.pages,
            file.chunks or None,
            None if file.size is None else write_size(file.size),
            file.uri,
            plain_line(file.title or ""),
        )
        for file in files
        if file.title is not None or file.state == "pending"
    ]
    if rows:
        print_table(console, _COLUMNS, rows, right=_FIGURES, spare=_SPARE, folded=["path"])
    else:
        console.print(
            "There is no document; put files into the folder of documents, and run `backstory add`."
        )
    # The table shows which dates are absent.
    told = [(file, (file.reason or "").removesuffix(UNDATED).rstrip("; ")) for file in files]
    alike = list_alike((file.name, f"{file.state}: {reason}") for file, reason in told if reason)
    if alike:
        console.print("\nNot read, or only in part", style="bold")
    print_lines(console, alike)


def show(
    document: DocumentArgument,
    pages: PagesOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the text of a document, or of some of its pages.

    Exit codes: 0 done; 1 a table is damaged; 2 no document has this name, or several have it.
    """
    with open_library(workspace) as library:
        print_result(library.text(document, read_pages(pages)), print_document, as_json=as_json)


def print_document(console: Console, found: DocumentText) -> None:
    """Print a text. A terminal also gets a line that names the document."""
    place = f", pages {found.page_start}-{found.page_end}" if found.page_start else ""
    _print_text(console, found.text, found.document, place)


def _print_text(console: Console, text: str, document: DocumentEntry, told: str) -> None:
    """Print a text. A terminal also gets a line of the document, and what is told of it."""
    if console.is_terminal:
        named = plain(f"{document.title}{told}", "dim")
        console.print(link_file(document.uri, Path(document.path)), named, soft_wrap=True)
        console.print(plain(text), soft_wrap=True)
    else:
        sys.stdout.write(plain(text).plain)


def dump(
    document: DocumentArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Default: its name and .txt, in this folder."),
    ] = None,
    pages: PagesOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the text of a document into a file.

    Exit codes: 0 done; 1 a table is damaged; 2 no document has this name, or the file cannot be written there.
    """
    with open_library(workspace) as library:
        path = output or Path(f"{Path(library.document(document).path).stem}.txt")
        written = library.dump(document, path, pages=read_pages(pages), replace=force)
    linked = link_file(written.output_path, Path(written.output_path))
    print_result(written, lambda console, _: console.print(linked, soft_wrap=True), as_json=as_json)


def add(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Files and folders to read. Default: all known sources."),
    ] = None,
    flat: Annotated[bool, typer.Option("--flat", help="Skip the subfolders of a folder.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read files and folders, and update the search index of all documents. Chats are not read.

    Exit codes: 0 done; 1 the index could not be built; 2 bad usage or settings; 3 done, but files could not be read.
    """
    with open_library(workspace) as library:
        _end_with(library.index(paths or None, recursive=not flat), as_json=as_json)


def remove(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME", help="Texts, sources or documents by any of their names."),
    ],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove texts, sources or documents from the search index.

    A text that a program added is deleted. A source is no longer read. Your own file is excluded from reading and
    never deleted.

    Exit codes: 0 done; 1 the index could not be built; 2 nothing has this name, or several documents have it; 3 done,
    but files could not be read.
    """
    with open_library(workspace) as library:
        _end_with(library.remove(names), as_json=as_json)


def _end_with(report: IndexReport, *, as_json: bool) -> None:
    """Print a report, and exit by it."""
    print_result(report, print_report, as_json=as_json)
    if report.failures or report.failed:
        raise typer.Exit(FAILED if report.failures else INCOMPLETE)


def print_report(console: Console, report: IndexReport) -> None:
    """Print the outcome of each file, and the totals."""
    rows = [
        (plain_line(one.path), one.status, one.chunks or None, plain_line(one.reason or ""))
        for one in report.files[:_SHOWN_FILES]
    ]
    if rows:
        columns = ("file", "status", "chunks", "reason")
        print_table(console, columns, rows, right=["chunks"], folded=["file", "reason"])
    if rest := count_rest(len(report.files), _SHOWN_FILES, listed_by="--json"):
        console.print(rest)
    outcomes = ("indexed", "unchanged", "failed", "skipped", "removed")
    counts = ", ".join(f"{getattr(report, name):,} {name}" for name in outcomes if getattr(report, name))
    console.print(
        f"{counts or 'no files'}; {count(report.documents, 'document')}, {count(report.chunks, 'chunk')}, "
        f"{report.embedded:,} embedded, {report.seconds:.1f} s"
    )
    for failure in report.failures:
        print_marked(console, "failed", "red", failure)


def summarize(
    document: DocumentArgument,
    style: Annotated[
        Literal["brief", "detailed", "bullets"],
        typer.Option(help="brief: a paragraph; detailed: every main point; bullets: a list."),
    ] = "detailed",
    max_words: Annotated[
        int | None,
        typer.Option("--max-words-per-section", min=1, help="Most of each section. Default: 20,000."),
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Summarize a document with the model of `summaries` in backstory.yaml, else with sentences of the document.

    The model's answers are cached: you never pay twice for the same section.

    Exit codes: 0 done; 1 no section could be summarized, or a model or table cannot be used; 2 bad usage or settings,
    or no document has this name; 3 done, but a section could not be summarized; 4 a budget is used up.
    """
    from backstory.settings.writers import MAX_WORDS

    with open_library(workspace) as library:
        made = library.summarize(document, style, max_words or MAX_WORDS)
    print_result(made, _print_summary, as_json=as_json)
    if made.status != "success":
        raise typer.Exit(FAILED if made.status == "failed" else INCOMPLETE)


def _print_summary(console: Console, made: Summary) -> None:
    """Print a summary, and what a reader must know of it."""
    if made.summary:
        figures = (
            f": {made.total_words:,} words, {made.sections_processed} of {count(made.sections, 'section')}"
        )
        _print_text(console, f"{made.summary}\n", made.document, f"{figures}, {made.model}")
    print_notes([*made.notes, *made.reasons])
