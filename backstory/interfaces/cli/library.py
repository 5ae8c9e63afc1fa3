"""The commands on the documents themselves: ``show``, ``dump``, ``add`` and ``remove``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from backstory.base.wording import count, count_rest
from backstory.interfaces.cli.failure import FAILED, INCOMPLETE
from backstory.interfaces.cli.options import JsonOption, PagesOption, WorkspaceOption, read_pages
from backstory.interfaces.cli.terminal import (
    link_file,
    make_table,
    open_console,
    plain,
    plain_line,
    print_json,
)

if TYPE_CHECKING:
    from backstory.interfaces.library.results import DocumentText, IndexReport

_SHOWN_FILES = 50

DocumentArgument = Annotated[
    str,
    typer.Argument(
        metavar="DOCUMENT", help="Path, slug, title or id of a document; `backstory documents` lists all."
    ),
]


def show(
    document: DocumentArgument,
    pages: PagesOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the text of a document, or of some of its pages.

    Exit codes: 0 done; 1 a table is damaged; 2 no document has this name, or several have it.
    """
    from backstory.interfaces.library.library import Library

    with Library.open(workspace) as library:
        found = library.text(document, read_pages(pages))
    if as_json:
        print_json(found.to_dict())
    else:
        print_document(open_console(), found)


def dump(
    document: DocumentArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write. Default: the document's name and .txt, in the current folder.",
        ),
    ] = None,
    pages: PagesOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the text of a document into a file.

    Exit codes: 0 done; 1 a table is damaged; 2 no document has this name, or the file cannot be written there.
    """
    from backstory.interfaces.library.library import Library

    with Library.open(workspace) as library:
        path = output or Path(f"{Path(library.document(document).path).stem}.txt")
        written = library.dump(document, path, pages=read_pages(pages), replace=force)
    if as_json:
        print_json(written.to_dict())
    else:
        target = Path(written.output_path)
        open_console().print(link_file(str(target), target), soft_wrap=True)


def add(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH...", help="Files and folders to read in place. Default: all sources that are known."
        ),
    ] = None,
    flat: Annotated[bool, typer.Option("--flat", help="Skip the subfolders of a folder.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read files and folders, and update the search index of all documents. Chats are not read.

    Exit codes: 0 done; 1 the index could not be built; 2 bad usage or settings; 3 done, but files could not be read.
    """
    from backstory.interfaces.library.library import Library

    with Library.open(workspace) as library:
        _print_report(library.index(list(paths or ()) or None, recursive=not flat), as_json=as_json)


def remove(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Added texts, sources, or documents by path, slug, title or id. Your own files stay.",
        ),
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
    from backstory.interfaces.library.library import Library

    with Library.open(workspace) as library:
        _print_report(library.remove(names), as_json=as_json)


def print_document(console: Console, found: DocumentText) -> None:
    """Print a text. A terminal also gets a line that names the document."""
    if console.is_terminal:
        place = f", pages {found.page_start}-{found.page_end}" if found.page_start else ""
        head = link_file(found.document.uri, Path(found.document.path))
        console.print(head, plain(f"{found.document.title}{place}", "dim"))
        console.print(plain(found.text), soft_wrap=True)
    else:
        sys.stdout.write(plain(found.text).plain)


def _print_report(report: IndexReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report.to_dict())
    else:
        print_report(open_console(), report)
    if report.failures:
        raise typer.Exit(FAILED)
    if report.failed:
        raise typer.Exit(INCOMPLETE)


def print_report(console: Console, report: IndexReport) -> None:
    """Print the outcome of each file, and the totals."""
    if report.files:
        table = make_table("file", "status", "chunks", "reason", right=("chunks",))
        table.columns[0].overflow = table.columns[3].overflow = "fold"
        table.columns[0].no_wrap = table.columns[3].no_wrap = False
        for outcome in report.files[:_SHOWN_FILES]:
            chunks = f"{outcome.chunks:,}" if outcome.chunks else ""
            table.add_row(plain_line(outcome.path), outcome.status, chunks, plain_line(outcome.reason or ""))
        console.print(table)
        if rest := count_rest(len(report.files), _SHOWN_FILES, listed_by="--json"):
            console.print(rest)
    outcomes = ("indexed", "unchanged", "failed", "skipped", "removed")
    counts = ", ".join(f"{getattr(report, name):,} {name}" for name in outcomes if getattr(report, name))
    console.print(
        f"{counts or 'no files'}; {count(report.documents, 'document')}, {count(report.chunks, 'chunk')}, "
        f"{report.embedded:,} embedded, {report.seconds:.1f} s"
    )
    for failure in report.failures:
        console.print(plain(f"failed: {failure}", "red"), soft_wrap=True)
