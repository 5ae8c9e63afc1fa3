"""The commands ``init`` and ``check``: create a workspace, and preview which files a run reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.console import Console

from backstory.base.errors import InputError
from backstory.base.wording import LANGUAGE_NAMES, count, count_rest
from backstory.interfaces.cli.failure import INCOMPLETE
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import (
    list_alike,
    open_console,
    plain_line,
    print_lines,
    print_result,
    print_table,
)

if TYPE_CHECKING:
    from backstory.operations.inspection.preview import Preview

_DATE_ORDERS: Final = {"dmy": "day-month-year", "mdy": "month-day-year", "ymd": "year-month-day"}
_COLUMNS: Final = ("date", "format", "pages", "chunks", "language", "encoding", "file", "note")
_SPARE: Final = ("encoding", "language", "chunks", "pages")
_MOST_FILES: Final = 20


def _read_zone(text: str) -> str:
    from backstory.settings.inputs import check_timezone

    try:
        return check_timezone(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def init(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Default with --from or --documents: this one.")
    ] = None,
    chats: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="EXPORT", help="Chat export to begin with. May be repeated."),
    ] = None,
    documents: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Read the documents of this folder in place.")
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            parser=_read_zone,
            metavar="ZONE",
            help="Time zone of the clock in the exports, such as Europe/Berlin.",
        ),
    ] = None,
    writer: Annotated[
        Literal["none", "digest"] | None,
        typer.Option(help="Whether to write a post for each window: digest without a model, or none."),
    ] = None,
) -> None:
    """Create a workspace: folders for chats and posts, and a commented backstory.yaml.

    With --from, the command first says what it finds in the chats and documents, copies the chats, and runs the
    pipeline at the end; it asks for --timezone and --writer on a terminal, and elsewhere takes UTC and none. With
    --documents alone, the workspace has no chats.

    Exit codes: 0 done; 2 bad usage, or an export cannot be read, and nothing was made; else those of `backstory run`.
    """
    from backstory.settings.paths import init_workspace

    if folder is None and documents is None and not chats:
        raise typer.BadParameter("name the folder to create", param_hint="DIR")
    console, root = open_console(), folder or Path.cwd()
    if chats:
        assumes_zone = _check(console, chats, documents, timezone)
        asks = sys.stdin.isatty() and sys.stdout.isatty()
        if assumes_zone and timezone is None and asks:
            _, _, machine = str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")
            question = "Time zone of the clock in the exports"
            timezone = typer.prompt(question, machine or "UTC", value_proc=_read_zone)
        if writer is None:
            question = "Write a post for each window, without a model?"
            writer = "digest" if asks and typer.confirm(question, default=True) else "none"
        print_lines(console, [f"Settings: --timezone {timezone or 'UTC'} --writer {writer}"])
    created = init_workspace(root, documents, chats=chats or (), timezone=timezone, writer=writer)
    print_lines(console, [f"Made {created}"])
    if chats:
        from backstory.interfaces.cli.run import exit_code, run_and_print

        made = run_and_print(created)
        print_lines(console, [f"Look at the windows: backstory windows --workspace {created}"])
        raise typer.Exit(exit_code(made))
    if documents is None:
        first = f"Put chat exports into {created / 'chats'} and posts into {created / 'posts'}."
        steps = [first, f"backstory run --workspace {created}"]
    else:
        steps = ["backstory add", 'backstory search "what to look for"']
        steps = [f"{step} --workspace {created}" for step in steps]
    print_lines(console, (f"{number}. {step}" for number, step in enumerate(steps, 1)))


def _check(console: Console, chats: Sequence[Path], documents: Path | None, timezone: str | None) -> bool:
    """Print what is found in the exports and documents, and tell whether an export does not say its time zone."""
    from backstory.operations.inspection.preview import CHAT, preview_run
    from backstory.settings.inputs import ConversationSettings
    from backstory.settings.models import Settings

    clocks = ConversationSettings(timezone=timezone) if timezone else ConversationSettings()
    preview = preview_run([*chats, *filter(None, [documents])], planned=Settings(conversations=clocks))
    print_preview(console, preview)
    console.print()
    read = [row for row in preview.files if row["taken_for"] == CHAT and row["status"] == "read"]
    for path in chats:
        below = [row for row in preview.files if PurePosixPath(row["source"]).is_relative_to(path.as_posix())]
        if not any(row in read for row in below):
            reasons = "; ".join(row["reason"] for row in below if row["reason"])
            raise InputError(
                f"{path} is not read as a chat{f': {reasons}' if reasons else ''}; nothing was made"
            )
    return any(row["timezone"] for row in read)


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Files, folders or workspaces. Default: the workspace."),
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
    from backstory.operations.inspection.files import STATUS_WORDS
    from backstory.operations.inspection.preview import CHAT

    read = [row for row in preview.files if row["status"] == "read"]
    chats = [row for row in read if row["taken_for"] == CHAT]
    documents = [row for row in read if row["taken_for"] != CHAT]
    unread = []
    for row in preview.files:
        if row["status"] != "read":
            taken = f"a {row['taken_for']} " if row["taken_for"] else ""
            unread.append((row["source"], f"{taken}{STATUS_WORDS[row['status']]}: {row['reason']}"))
    settings = preview.settings_file or "the defaults, since there is no workspace"
    print_lines(console, [f"Settings: {settings}"])
    if chats:
        console.print("\nTaken for chats", style="bold")
        print_lines(console, (f"  {line}" for row in chats[:_MOST_FILES] for line in _describe_chat(row)))
        print_lines(console, filter(None, [count_rest(len(chats), _MOST_FILES, listed_by="--json")]))
    if documents:
        console.print("\nTaken for documents", style="bold")
        _print_documents(console, documents)
    if unread:
        console.print("\nNot read", style="bold")
        print_lines(console, (f"  {line}" for line in list_alike(unread)))
    console.print("\nIn all", style="bold")
    dates = [f"{row['first']:%Y-%m-%d}" for row in documents if row["first"]]
    dated = f"{len(dates)} with a date" + (f", {min(dates)} to {max(dates)}" if dates else "")
    people = count(preview.people, "person", "people")
    lines = [
        f"{count(len(chats), 'chat export')}: {count(preview.messages, 'distinct message')} by {people}",
        f"{count(len(documents), 'document')}: {count(sum(row['chunks'] or 0 for row in documents), 'chunk')}, {dated}",
        f"{count(len(unread), 'file')} not read",
        *(f"problem: {problem}" for problem in preview.problems),
        *(f"note: {note}" for note in preview.notes),
        "Nothing was written.",
    ]
    print_lines(console, (f"  {line}" for line in lines))


def _describe_chat(row: dict[str, Any]) -> list[str]:
    from backstory.base.local_times import write_span

    kinds = ((row["media"], "of them media"), (row["system"], "of the app"))
    counted = "".join(f", {number:,} {kind}" for number, kind in kinds if number)
    by = count(row["people"], "person", "people")
    order = f"dates read as {_DATE_ORDERS[row['date_order']]}" if row["date_order"] else "dates in ISO 8601"
    clock = f"clock read in {row['timezone']}" if row["timezone"] else "times with their zone"
    return [
        row["source"],
        f"  {row['format'].replace('_', ' ')}: {count(row['rows'], 'message')} by {by}{counted}",
        f"  {write_span(row['first'], row['last'])}",
        f"  {order}; {clock}; {row['encoding'] or 'binary'}; {_name_language(row)}",
        *([f"  note: {row['reason']}"] if row["reason"] else []),
    ]


def _print_documents(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    """Print a table of documents, those with a doubt first, other than a missing date."""
    from backstory.ingest.documents.files import UNDATED

    cells = [
        (
            f"{row['first']:%Y-%m-%d}" if row["first"] else "no date",
            row["format"],
            row["pages"],
            row["chunks"],
            _name_language(row),
            row["encoding"] or "binary",
            plain_line(row["source"]),
            (row["reason"] or "").removesuffix(UNDATED).rstrip("; "),
        )
        for row in sorted(rows, key=lambda row: row["reason"] is None)
    ]
    shown = cells[:_MOST_FILES]
    folded = ("file", "note")
    print_table(console, _COLUMNS, shown, right=("pages", "chunks"), spare=_SPARE, folded=folded, indent=2)
    print_lines(console, filter(None, [count_rest(len(rows), _MOST_FILES, listed_by="--json")]))


def _name_language(row: dict[str, Any]) -> str:
    return LANGUAGE_NAMES.get(row["language"], row["language"] or "language unclear")
