"""The commands ``init`` and ``check``: create a workspace, and preview which files a run reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_args

import typer
from rich.console import Console
from rich.padding import Padding

from backstory.base.errors import InputError
from backstory.base.local_times import name_zone
from backstory.base.wording import count, count_rest, name_some
from backstory.interfaces.cli.failure import INCOMPLETE
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import (
    open_console,
    plain,
    plain_line,
    print_lines,
    print_result,
    print_table,
)

if TYPE_CHECKING:
    from backstory.operations.inspection.preview import Preview


Writer: TypeAlias = Literal["none", "digest"]

_ZONE_FILE: Final = Path("/etc/localtime")


def _read_zone(text: str) -> str:
    from backstory.settings.inputs import check_timezone

    try:
        return check_timezone(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _read_writer(text: str) -> str:
    if text not in get_args(Writer):
        raise typer.BadParameter(f"{text!r} is neither digest nor none")
    return text


def init(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="Folder to create. Default with --from or --documents: the current one.",
            show_default=False,
        ),
    ] = None,
    chats: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="EXPORT",
            help="Chat export to begin with, a file or folder: check it, copy it, and run. Repeat it for several.",
        ),
    ] = None,
    documents: Annotated[
        Path | None,
        typer.Option(
            "--documents",
            metavar="FOLDER",
            help="Read the documents of this folder in place. Without --from, the workspace has no chats.",
        ),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            parser=_read_zone,
            metavar="ZONE",
            help="Time zone of the clock in the exports, such as Europe/Berlin. Default: asked for with --from on a "
            "terminal, else UTC.",
        ),
    ] = None,
    writer: Annotated[
        Writer | None,
        typer.Option(
            help="Whether to write a post for each window: digest without a model, or none. Default: asked for with "
            "--from on a terminal, else none."
        ),
    ] = None,
) -> None:
    """Create a workspace: folders for chats and posts, and a commented backstory.yaml.

    With --from, the command first says what it finds in the chats and documents, and runs the pipeline at the end.

    Exit codes: 0 done; 2 bad usage, or an export cannot be read, and nothing was made; else those of `backstory run`.
    """
    from backstory.settings.paths import init_workspace

    if folder is None and documents is None and not chats:
        raise typer.BadParameter("name the folder to create", param_hint="DIR")
    console, root = open_console(), folder or Path.cwd()
    if chats:
        assumes_zone = _check(console, chats, documents, timezone)
        if assumes_zone and timezone is None:
            told = "Time zone of the exports: UTC, since --timezone does not name one."
            question = "Time zone of the clock in the exports"
            timezone = _ask(console, question, told, "UTC", _find_machine_zone(), value_proc=_read_zone)
        if writer is None:
            told = "Posts: none are written, since --writer does not name a writer."
            question = "Write a post for each window, without a model (digest), or no posts (none)?"
            writer = _ask(console, question, told, "none", "digest", value_proc=_read_writer)
    created = init_workspace(root, documents, chats=chats or (), timezone=timezone, writer=writer)
    console.print(plain(f"Made {created}"), soft_wrap=True)
    if chats:
        from backstory.interfaces.cli.run import exit_code, run_and_print

        result = run_and_print(created, None, None, accept_removals=False, verbose=False, as_json=False)
        console.print(plain(f"Look at the windows: backstory windows --workspace {created}"), soft_wrap=True)
        raise typer.Exit(exit_code(result))
    has_chats = documents is None
    steps = (
        f"1. Put chat exports into {created / 'chats'} and posts into {created / 'posts'}."
        if has_chats
        else f"1. backstory add --workspace {created}",
        f"2. backstory run --workspace {created}"
        if has_chats
        else f'2. backstory search "what to look for" --workspace {created}',
    )
    print_lines(console, steps)


def _check(console: Console, chats: Sequence[Path], documents: Path | None, timezone: str | None) -> bool:
    """Print what is found in the exports and documents, and tell whether an export does not say its time zone."""
    from backstory.operations.inspection.file_rows import CHAT
    from backstory.operations.inspection.preview import preview_run
    from backstory.settings.inputs import ConversationSettings
    from backstory.settings.models import Settings

    clocks = ConversationSettings(timezone=timezone) if timezone else ConversationSettings()
    planned = Settings(conversations=clocks)
    found = [preview_run([path], planned=planned) for path in chats]
    both = [*chats, *([documents] if documents else [])]
    print_preview(console, preview_run(both, planned=planned))
    console.print()
    assumed = False
    for path, preview in zip(chats, found, strict=True):
        read = [row for row in preview.files if row["taken_for"] == CHAT and row["status"] == "read"]
        if not read:
            reasons = "; ".join(str(row["reason"]) for row in preview.files if row["reason"])
            raise InputError(
                f"{path} is not read as a chat{f': {reasons}' if reasons else ''}; nothing was made"
            )
        assumed = assumed or any(row["timezone"] for row in read)
    return assumed


def _ask(console: Console, question: str, told: str, otherwise: str, default: str, **reading: Any) -> Any:
    """Ask a person on a terminal; elsewhere say what is taken."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return typer.prompt(question, default, **reading)
    console.print(told)
    return otherwise


def _find_machine_zone() -> str:
    """Find the time zone of the machine; UTC if its file is no link to a named one."""
    _, _, name = str(_ZONE_FILE.resolve()).partition("/zoneinfo/")
    try:
        return _read_zone(name)
    except typer.BadParameter:
        return "UTC"


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
_MOST_FILES: Final = 20
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
    print_result(preview, print_preview, as_json=as_json)
    if not preview.complete:
        raise typer.Exit(INCOMPLETE)


def print_preview(console: Console, preview: Preview) -> None:
    """Print the preview file by file, and a summary."""
    from backstory.ingest.documents.rows import UNDATED
    from backstory.operations.inspection.file_rows import CHAT, DOCUMENT
    from backstory.operations.inspection.inventory import STATUS_WORDS

    settings = preview.settings_file or "the defaults, since there is no workspace"
    console.print(plain(f"Settings: {settings}"), soft_wrap=True)
    read = [row for row in preview.files if row["status"] == "read"]
    chats = [row for row in read if row["taken_for"] == CHAT]
    documents = [row for row in read if row["taken_for"] == DOCUMENT]
    # Other than a missing date, which the table shows.
    doubts = [(row["source"], (row["reason"] or "").removesuffix(UNDATED).rstrip("; ")) for row in documents]
    doubts = [(name, doubt) for name, doubt in doubts if doubt]
    unread = [row for row in preview.files if row["status"] not in ("read", "ignored")]
    by_rule: dict[str, list[str]] = {}
    for row in preview.files:
        if row["status"] == "ignored":
            by_rule.setdefault(row["reason"], []).append(row["source"])
    _print_files(console, "Taken for chats", [(row["source"], *_describe_chat(row)) for row in chats])
    if documents:
        console.print(plain("\nTaken for documents", "bold"))
        _print_documents(console, documents)
    _print_files(console, "Read only in part, or with doubts", doubts)
    told = []
    for row in unread:
        taken = f"taken for a {row['taken_for']}, " if row["taken_for"] else ""
        told.append((row["source"], f"{taken}{STATUS_WORDS[row['status']]}: {row['reason']}"))
    _print_files(console, "Not read", told, most=len(told))
    left_out = [(name_some(names, _MOST_NAMES), reason) for reason, names in by_rule.items()]
    _print_files(console, "Left out by a rule", left_out)
    console.print(plain("\nIn all", "bold"))
    for line in _describe_all(preview, chats, documents, len(unread)):
        console.print(Padding(plain_line(line), _INDENT, expand=False))


def _print_files(
    console: Console, title: str, files: Sequence[Sequence[str]], *, most: int = _MOST_FILES
) -> None:
    """Print files below a title, each a name and what is said of it; no title without files."""
    if files:
        console.print(plain(f"\n{title}", "bold"))
    for name, *lines in files[:most]:
        console.print(Padding(plain_line(name), _INDENT, expand=False))
        for line in lines:
            console.print(Padding(plain_line(line), _DEEPER, expand=False))
    if rest := count_rest(len(files), most, listed_by="--json"):
        console.print(f"  {rest}")


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
    for row in ordered[:_MOST_FILES]:
        date = f"{row['first']:%Y-%m-%d}" if row["first"] else "no date"
        figures = ("" if row[name] is None else f"{row[name]:,}" for name in _FIGURES)
        encoding = row["encoding"] or "binary"
        cells.append((date, row["format"], *figures, _language(row), encoding, row["source"]))
    print_table(console, _COLUMNS, cells, right=_FIGURES, spare=_SPARE, folded=["file"], indent=_INDENT[-1])
    if rest := count_rest(len(rows), _MOST_FILES, listed_by="--json"):
        console.print(f"  {rest}")


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
