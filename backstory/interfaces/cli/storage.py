"""The commands ``storage``: where the files and the state of a workspace are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from backstory.base.environment import SETTINGS_FILE
from backstory.base.wording import count, write_size
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import print_record
from backstory.settings.storage import DATABASE_SCHEMES

if TYPE_CHECKING:
    from backstory.pipeline.workspace import Workspace

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
    from dataclasses import asdict

    from backstory.operations.backup.moving import LOCAL, copy_workspace
    from backstory.pipeline.workspace import open_workspace

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
    said.append(_describe_next_step(opened, to))
    print_record(asdict(done), filter(None, said), as_json=as_json)


def _describe_next_step(workspace: Workspace, to: str) -> str:
    """Say what to change in the settings so that the copy is used; nothing if they name it already."""
    from backstory.operations.backup.moving import LOCAL

    storage, path = workspace.settings.storage, workspace.root / SETTINGS_FILE
    if to == LOCAL:
        return f"To use the folder alone, remove storage from {path}"
    is_database = urlsplit(to).scheme in DATABASE_SCHEMES
    name, used = ("database", storage.database) if is_database else ("files", storage.files)
    if used == to.rstrip("/"):
        return ""
    return (
        f"To use it, set storage.{name} to {to} in {path}; other workers need the same file, and for runs "
        f"{workspace.root / '.backstory'}/*.key"
    )
