"""The command ``init``: create a workspace, and with a chat at hand check it, ask what it does not say, and run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import typer
from rich.console import Console

from backstory.base.errors import InputError
from backstory.interfaces.cli.terminal import open_console, plain

Writer: TypeAlias = Literal["none", "digest"]

_ZONE_FILE: Final = Path("/etc/localtime")


def _read_zone(text: str) -> str:
    from backstory.settings.inputs import check_timezone

    try:
        return check_timezone(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _read_writer(text: str) -> Writer:
    match text.strip():
        case "none" | "digest" as writer:
            return writer
        case _:
            raise typer.BadParameter(f"{text!r} is neither digest nor none")


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
            "--from on a terminal, else none.",
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
        timezone = timezone or (_ask_zone(console) if assumes_zone else None)
        writer = writer or _ask_writer(console)
    created = init_workspace(root, documents, chats=chats or (), timezone=timezone, writer=writer)
    console.print(plain(f"Made {created}"), soft_wrap=True)
    if chats:
        from backstory.interfaces.cli.run import exit_code, run_and_print

        result = run_and_print(created, None, None, accept_removals=False, verbose=False, as_json=False)
        console.print(plain(f"Look at the windows: backstory windows --workspace {created}"), soft_wrap=True)
        raise typer.Exit(exit_code(result))
    for line in _list_steps(created, has_chats=documents is None):
        console.print(plain(line), soft_wrap=True)


def _list_steps(created: Path, *, has_chats: bool) -> Sequence[str]:
    if has_chats:
        return (
            f"1. Put chat exports into {created / 'chats'} and posts into {created / 'posts'}.",
            f"2. backstory run --workspace {created}",
        )
    return (
        f"1. backstory add --workspace {created}",
        f'2. backstory search "what to look for" --workspace {created}',
    )


def _check(console: Console, chats: Sequence[Path], documents: Path | None, timezone: str | None) -> bool:
    """Print what is found in the exports and documents, whose clocks are of a zone, by default UTC.

    Returns:
        Whether an export does not say in which time zone its clock is.

    Raises:
        InputError: An export cannot be read.
    """
    from backstory.interfaces.cli.check import print_preview
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


def _ask_zone(console: Console) -> str:
    if not _can_ask():
        console.print("Time zone of the exports: UTC, since --timezone does not name one.")
        return "UTC"
    return str(
        typer.prompt("Time zone of the clock in the exports", _find_machine_zone(), value_proc=_read_zone)
    )


def _ask_writer(console: Console) -> Writer:
    if not _can_ask():
        console.print("Posts: none are written, since --writer does not name a writer.")
        return "none"
    question = "Write a post for each window, without a model (digest), or no posts (none)?"
    writer: Writer = typer.prompt(question, "digest", value_proc=_read_writer)
    return writer


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _find_machine_zone() -> str:
    """Find the time zone of the machine; UTC if its file is no link to a named one."""
    _, _, name = str(_ZONE_FILE.resolve()).partition("/zoneinfo/")
    try:
        return _read_zone(name)
    except typer.BadParameter:
        return "UTC"
