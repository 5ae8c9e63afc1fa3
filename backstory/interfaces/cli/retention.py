"""The commands that keep or give up data: ``backup``, ``restore``, ``storage copy`` and ``forget``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import InputError, SettingsError, WorkspaceError
from backstory.base.wording import count, write_size
from backstory.interfaces.cli.failure import FAILED
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption, open_workspace
from backstory.interfaces.cli.terminal import print_record
from backstory.settings.storage import DATABASE_SCHEMES
from backstory.settings.yaml_file import read_settings

if TYPE_CHECKING:
    from backstory.ingest.privacy.erasure_list import Kind
    from backstory.operations.forgetting import Forgetting


def backup(
    destination: Annotated[
        str,
        typer.Argument(
            metavar="PLACE",
            help="A file ending in .tar.gz or .tar; a folder, in which the file is named for you; or "
            "s3://bucket/prefix or file:///folder, in which it is named for you, too.",
        ),
    ],
    without_inputs: Annotated[
        bool, typer.Option("--without-inputs", help="Leave out chats and posts; back them up elsewhere.")
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="In s3:// and file://, remove all backups of this workspace but the last N.",
            show_default=False,
        ),
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Back up the workspace. A run may be under way.

    A file contains the key of the pseudonyms and, unless left out, chats with real names. Only its owner can read it.
    In s3:// and file://, there are no keys.
    """
    from backstory.operations.backup.writing import write_backup, write_to_store

    opened = open_workspace(workspace)
    if "://" in destination:
        done = write_to_store(opened, destination, inputs=not without_inputs, keep=keep)
    elif keep is not None:
        raise InputError("--keep is for s3:// and file://; delete files of backups yourself", code="no_store")
    else:
        done = write_backup(opened, Path(destination), inputs=not without_inputs)
    lines = [f"Wrote {done.place}: {done.files:,} files, {write_size(done.size)}"]
    if keep is not None:
        lines.append(f"{count(done.removed, 'earlier backup was', 'earlier backups were')} removed")
    lines += [f"  left out: {reason}" for reason in done.left_out]
    held = ["the key of the pseudonyms"] if done.holds_secret else []
    held += ["chats and posts as they are"] if done.holds_inputs else []
    if held:
        lines.append(f"It contains {' and '.join(held)}: keep it where only you can read it.")
    print_record(asdict(done), lines, as_json=as_json)


def restore(
    source: Annotated[
        str,
        typer.Argument(
            metavar="BACKUP",
            help="A file or an address that `backstory backup` wrote; or s3://bucket/prefix, for the last one there.",
        ),
    ],
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Workspace to create. Default: its former name, in the current folder."
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="If the folder is not empty, move its content aside. Nothing is deleted."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Restore a workspace from a backup. Every file is verified first."""
    from backstory.operations.backup.restoring import restore_backup, restore_from_store

    done = (
        restore_from_store(source, into, replace=replace)
        if "://" in source
        else restore_backup(Path(source), into, replace=replace)
    )
    lines = [f"Restored {done.root}: {done.files:,} files, every checksum verified"]
    if done.aside is not None:
        lines.append(f"The former content is in {done.aside}; delete it when you do not need it.")
    lines += [f"  left out: {reason}" for reason in done.left_out]
    settings = done.root / SETTINGS_FILE
    with suppress(SettingsError, WorkspaceError):  # no run gets past those of another version
        storage = read_settings(settings).storage
        if storage.files or storage.database:
            lines.append(f"It was shared: remove storage from {settings}, or it works on what is shared now.")
    lines.append(f"Next: backstory run --workspace {done.root}")
    print_record(asdict(done), lines, as_json=as_json)


storage = typer.Typer(no_args_is_help=True, help="Move a workspace onto servers, or back.")


@storage.callback()
def _require_command() -> None:
    """Keep the name of the one command on the command line."""


@storage.command()
def copy(
    to: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="s3://bucket/prefix or file:///folder, for files; postgresql://user@host/name, for state; or local, "
            "for the folder of the workspace.",
        ),
    ],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the files or the state of the workspace, and compare the copy. A copy that was stopped continues.

    The settings stay as they are; the last line says what to change in them.
    """
    from backstory.operations.backup.moving import LOCAL, copy_workspace

    opened = open_workspace(workspace, follows=False)
    done = copy_workspace(opened, to)
    place = f"the folder {opened.root}" if to == LOCAL else to
    said = []
    if done.files:
        copied = count(done.copied, "content was", "contents were")
        held = f"{count(done.files, 'file')}, {write_size(done.size)}, are in {place}"
        said.append(f"{held}, and every one has its hash; {copied} copied")
    if done.rows or not done.files:
        copied = count(done.copied_rows, "row was", "rows were")
        said.append(
            f"{count(done.rows, 'row')} of state are in {place}; {copied} copied, and what was there before stays"
        )
    used, settings = opened.settings.storage, opened.root / SETTINGS_FILE
    is_database = urlsplit(to).scheme in DATABASE_SCHEMES
    if to == LOCAL:
        said.append(f"To use the folder alone, remove storage from {settings}")
    elif to.rstrip("/") != (used.database if is_database else used.files):
        name = "database" if is_database else "files"
        said.append(
            f"To use it, set storage.{name} to {to} in {settings}; other workers need the same file, and for runs "
            f"{opened.root / '.backstory'}/*.key"
        )
    print_record(asdict(done), said, as_json=as_json)


def forget(
    conversation: Annotated[
        str | None, typer.Option(metavar="NAME", help="A conversation, by its id or the path of an export.")
    ] = None,
    member: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A person, by the name in the exports or the pseudonym."),
    ] = None,
    document: Annotated[
        str | None, typer.Option(metavar="NAME", help="A document, by its path, slug or id.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a conversation, a member or a document from all data, and exclude it from later runs.

    The command then queries all tables and the state for its texts and ids. It does not change chat exports and
    documents; it names those that still contain it.

    Exit codes: 0 nothing is left; 1 a table still contains some; 2 bad usage or settings.
    """
    named: dict[Kind, str | None] = {"conversation": conversation, "member": member, "document": document}
    given = [(kind, name) for kind, name in named.items() if name]
    if len(given) != 1:
        raise InputError("give one of --conversation, --member and --document")
    from backstory.operations.forgetting import forget as forget_everywhere

    [(kind, name)] = given
    done = forget_everywhere(open_workspace(workspace), kind, name)
    print_record(done.model_dump(), _describe(done), as_json=as_json)
    raise typer.Exit(FAILED if done.left else 0)


def _describe(done: Forgetting) -> list[str]:
    """Describe the removal and the search, and name the files that the user must delete."""
    rows, vectors = count(done.rows, "row"), count(done.vectors, "vector")
    removed = f"Removed {rows} and everything derived from them, and {vectors}."
    lines = [f"{removed} The index was rebuilt, and its earlier snapshots were deleted."]
    lines += [f"Deleted {report}, since reports show messages." for report in done.reports]
    lines += [f"A process has the earlier snapshot {name} open; rerun this command when that process has ended."
              for name in done.open_snapshots]  # fmt: skip
    searched = f"Queried all tables and the state for {done.wanted:,} texts and ids"
    lines.append(f"{searched}: {'none is left.' if not done.left else 'some are left:'}")
    lines += [f"  {table}: {hits:,} of them" for table, hits in done.left.items()]
    if done.has_history:
        lines.append(
            "Dagster's history may show rows of tables; delete the folder .dagster to lose all of the history."
        )
    lines += [
        f"Edit or delete {file} yourself: it still contains it, but runs no longer read it."
        for file in done.inputs
    ]
    lines += [f"{copy}." for copy in done.copies]
    lines.append("Not searched: backups, and copies of the workspace or of its pages.")
    return lines
