"""The commands ``backup`` and ``restore``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import InputError, SettingsError, WorkspaceError
from backstory.base.wording import count, write_size
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import print_record
from backstory.settings.yaml_file import read_settings


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
        bool,
        typer.Option("--without-inputs", help="Leave out chats and posts; back them up elsewhere."),
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
    from backstory.pipeline.workspace import open_workspace

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
    if _is_shared(done.root):
        settings = done.root / SETTINGS_FILE
        lines.append(f"It was shared: remove storage from {settings}, or it works on what is shared now.")
    lines.append(f"Next: backstory run --workspace {done.root}")
    print_record(asdict(done), lines, as_json=as_json)


def _is_shared(root: Path) -> bool:
    """Return whether the settings name servers. Those of another version do not, since no run gets past them."""
    try:
        storage = read_settings(root / SETTINGS_FILE).storage
    except (SettingsError, WorkspaceError):
        return False
    return bool(storage.files or storage.database)
