"""The command ``backstory check``: preview which files a run reads. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.padding import Padding

from backstory.base.local_times import name_zone
from backstory.base.wording import count, count_rest, name_some
from backstory.interfaces.cli.failure import INCOMPLETE
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import open_console, plain, plain_line, print_fitting, print_json

if TYPE_CHECKING:
    from backstory.operations.inspection.preview import Preview

_FORMATS: Final = {
    "whatsapp_text": "WhatsApp text",
    "whatsapp_zip": "WhatsApp ZIP",
    "telegram": "Telegram JSON",
    "slack": "Slack export",
    "discord": "Discord JSON",
    "meta": "Instagram or Messenger JSON",
    "chatgpt": "ChatGPT export",
    "claude": "Claude export",
    "matrix": "Matrix JSON",
    "signal_cli": "Signal JSON lines",
    "irc": "IRC log",
    "transcript": "transcript",
    "zoom_chat": "Zoom chat",
    "mail": "e-mail",
    "parquet": "Parquet table",
    "csv": "CSV table",
    "jsonl": "JSON lines",
}
_DATE_ORDERS: Final = {"dmy": "day-month-year", "mdy": "month-day-year", "ymd": "year-month-day"}
_FIGURES: Final = ("pages", "chunks")
_COLUMNS: Final = ("date", "format", *_FIGURES, "language", "encoding", "file")
_SPARE: Final = ("encoding", "language", "chunks", "pages")
_MOST_DOCUMENTS: Final = 20
_MOST_NAMES: Final = 3
_INDENT: Final = (0, 0, 0, 2)
_DEEPER: Final = (0, 0, 0, 4)


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Chat exports, documents, folders of either, or workspaces. Default: the whole workspace.",
            show_default=False,
        ),
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Preview which files a run reads, as chat or document, and which it does not. Nothing is written.

    A file outside the folders of a workspace is classified by its content: a chat, else a document.

    For a whole workspace, the preview also names forgotten content and what would stop a run.

    Exit codes: 0 a run reads everything; 2 bad usage or settings; 3 a run would stop, or a file would be set aside, is
    not supported or cannot be read.
    """
    from backstory.operations.inspection.preview import preview_run

    preview = preview_run(paths or (), workspace)
    if as_json:
        print_json(preview.model_dump())
    else:
        print_preview(open_console(), preview)
    if not preview.complete:
        raise typer.Exit(INCOMPLETE)


def print_preview(console: Console, preview: Preview) -> None:
    """Print the preview file by file, and a summary."""
    from backstory.operations.inspection.file_rows import CHAT, DOCUMENT

    settings = preview.settings_file or "the defaults, since there is no workspace"
    console.print(plain(f"Settings: {settings}"), soft_wrap=True)
    read = [row for row in preview.files if row["status"] == "read"]
    chats = [row for row in read if row["taken_for"] == CHAT]
    documents = [row for row in read if row["taken_for"] == DOCUMENT]
    if chats:
        _print_title(console, "Taken for chats")
        for row in chats:
            _print_file(console, row["source"], *_describe_chat(row))
    if documents:
        _print_title(console, "Taken for documents")
        _print_documents(console, documents)
        _print_doubts(console, documents)
    unread = [row for row in preview.files if row["status"] not in ("read", "ignored")]
    if unread:
        _print_title(console, "Not read")
        for row in unread:
            _print_file(console, row["source"], _describe_unread(row))
    _print_left_out(console, [row for row in preview.files if row["status"] == "ignored"])
    _print_title(console, "In all")
    for line in _describe_all(preview, chats, documents, len(unread)):
        console.print(Padding(plain_line(line), _INDENT, expand=False))


def _print_title(console: Console, title: str) -> None:
    console.print()
    console.print(plain(title, "bold"))


def _print_file(console: Console, name: str, *lines: str) -> None:
    console.print(Padding(plain_line(name), _INDENT, expand=False))
    for line in lines:
        console.print(Padding(plain_line(line), _DEEPER, expand=False))


def _describe_chat(row: dict[str, Any]) -> list[str]:
    parts = [count(row["media"], "of them media", "of them media")] if row["media"] else []
    parts += [count(row["system"], "line of the app", "lines of the app")] if row["system"] else []
    inner = f" ({', '.join(parts)})" if parts else ""
    by = count(row["people"], "person", "people")
    order = f"dates read as {_DATE_ORDERS[row['date_order']]}" if row["date_order"] else "dates in ISO 8601"
    clock = f"clock read in {row['timezone']}" if row["timezone"] else "times with their zone"
    encoding = row["encoding"] or "binary"
    lines = [
        f"{_FORMATS.get(row['format'], row['format'])}: {count(row['rows'], 'message')} by {by}{inner}",
        f"{row['first']:%Y-%m-%d %H:%M} to {row['last']:%Y-%m-%d %H:%M} {name_zone(row['first'])}",
        f"{order}; {clock}; {encoding}; {_language(row)}",
    ]
    return [*lines, f"note: {row['reason']}"] if row["reason"] else lines


def _print_documents(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    cells = []
    ordered = sorted(rows, key=lambda row: row["reason"] is None)  # files with a problem first
    for row in ordered[:_MOST_DOCUMENTS]:
        date = f"{row['first']:%Y-%m-%d}" if row["first"] else "no date"
        figures = ("" if row[name] is None else f"{row[name]:,}" for name in _FIGURES)
        encoding = row["encoding"] or "binary"
        cells.append((date, row["format"], *figures, _language(row), encoding, plain_line(row["source"])))
    print_fitting(console, _COLUMNS, cells, right=_FIGURES, spare=_SPARE, folded="file", indent=_INDENT[-1])
    _print_rest(console, len(rows))


def _print_doubts(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    """Print the parts of documents that are not read or not certain, other than a missing date."""
    from backstory.ingest.documents.rows import UNDATED

    doubts = [(row["source"], (row["reason"] or "").removesuffix(UNDATED).rstrip("; ")) for row in rows]
    doubts = [(name, doubt) for name, doubt in doubts if doubt]
    if doubts:
        _print_title(console, "Read only in part, or with doubts")
    for name, doubt in doubts[:_MOST_DOCUMENTS]:
        _print_file(console, name, doubt)
    _print_rest(console, len(doubts))


def _print_rest(console: Console, documents: int) -> None:
    if rest := count_rest(documents, _MOST_DOCUMENTS, listed_by="--json"):
        console.print(f"  {rest}")


def _describe_unread(row: dict[str, Any]) -> str:
    from backstory.operations.inspection.inventory import STATUS_WORDS

    taken = f"taken for a {row['taken_for']}, " if row["taken_for"] else ""
    return f"{taken}{STATUS_WORDS[row['status']]}: {row['reason']}"


def _print_left_out(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row["reason"], []).append(row["source"])
    if by_reason:
        _print_title(console, "Left out by a rule")
    for reason, names in by_reason.items():
        _print_file(console, name_some(names, _MOST_NAMES), reason)


def _describe_all(
    preview: Preview, chats: Sequence[dict[str, Any]], documents: Sequence[dict[str, Any]], unread: int
) -> list[str]:
    lines = []
    if chats:
        shared = sum(row["rows"] for row in chats) - preview.messages
        once = f" ({shared:,} that several exports hold are counted once)" if shared else ""
        people = count(preview.people, "person", "people")
        lines.append(
            f"{count(len(chats), 'chat export')}: {count(preview.messages, 'message')} by {people}{once}."
        )
    if documents:
        dates = [row["first"] for row in documents if row["first"]]
        dated = f"{len(dates)} with a date" + (
            f", {min(dates):%Y-%m-%d} to {max(dates):%Y-%m-%d}" if dates else ""
        )
        chunks = [row["chunks"] for row in documents if row["chunks"] is not None]
        cut = f"; {count(sum(chunks), 'chunk')}" if chunks else ""
        lines.append(
            f"{count(len(documents), 'document')}: {dated}; {len(documents) - len(dates)} without a date{cut}."
        )
    if unread:
        lines.append(f"{count(unread, 'file')} would not be read.")
    lines += [f"problem: {problem}" for problem in preview.problems]
    lines += [f"note: {note}" for note in preview.notes]
    return [*lines, "Nothing was written."]


def _language(row: dict[str, Any]) -> str:
    from backstory.text.languages import name_language

    return name_language(row["language"]) if row["language"] else "language unclear"
