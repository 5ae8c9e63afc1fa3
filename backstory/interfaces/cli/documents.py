"""The command ``backstory documents``: the documents, their pages and chunks, and their problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from backstory.base.wording import write_size
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import open_console, plain, plain_line, print_fitting, print_json

if TYPE_CHECKING:
    from backstory.operations.inspection.inventory import Flaw

_FIGURES = ("pages", "chunks", "size")
_COLUMNS = ("status", "date", "from", "format", *_FIGURES, "path", "title")
_SPARE = ("title", "from", "size", "pages", "format", "chunks")


def documents(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """List the documents with their dates, pages, chunks, sizes, paths and statuses, and the files that were not read.

    The column `from` says what a date is taken from: `stated` in the text, `name` of the file or its folder, or the
    file's properties: last change (`changed`), creation (`created`), or a creation after the last change (`copied`).

    A narrow terminal leaves out columns, and says which; with --json, all are there.
    """
    from backstory.operations.inspection.inventory import list_documents, list_flaws
    from backstory.pipeline.workspace import open_workspace

    opened = open_workspace(workspace)
    rows, flaws = list_documents(opened), list_flaws(opened)
    if as_json:
        print_json({"documents": rows, "flaws": [flaw._asdict() for flaw in flaws]})
    else:
        print_documents(open_console(), rows, flaws)


def print_documents(console: Console, rows: Sequence[Mapping[str, Any]], flaws: Sequence[Flaw]) -> None:
    """Print one line for each document, and a sentence for each file that was not read, or only in part.

    A narrow terminal leaves out columns, and breaks only paths.
    """
    if rows:
        cells = [
            (
                row["status"],
                f"{row['published_at']:%Y-%m-%d}" if row["published_at"] else "no date",
                row["date_origin"] or "",
                plain_line(row["format"]),
                "" if row["pages"] is None else f"{row['pages']:,}",
                f"{row['chunks']:,}",
                "" if row["size"] is None else write_size(row["size"]),
                plain_line(row["uri"]),
                plain_line(row["title"]),
            )
            for row in rows
        ]
        print_fitting(console, _COLUMNS, cells, right=_FIGURES, spare=_SPARE, folded="path")
    else:
        console.print(
            "No document was read; put files into the folder of documents, and run `backstory add`."
        )
    if flaws:
        console.print("\nNot read, or only in part", style="bold")
    for flaw in flaws:
        console.print(plain(f"{flaw.source} ({flaw.status}): {flaw.reason}"), soft_wrap=True)
