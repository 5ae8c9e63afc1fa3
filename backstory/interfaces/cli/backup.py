"""The commands ``backup`` and ``restore``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import InputError, SettingsError, WorkspaceError
from backstory.base.wording import count
from backstory.interfaces.cli.options import WorkspaceOption
from backstory.interfaces.cli.terminal import open_console, plain
from backstory.settings.yaml_file import read_settings

if TYPE_CHECKING:
    from backstory.pipeline.workspace import Workspace

_MEGABYTE = 1_000_000


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
) -> None:
    """Back up the workspace. A run may be under way.

    A file contains the key of the pseudonyms and, unless left out, chats with real names. Only its owner can read it.
    In s3:// and file://, there are no keys.
    """
    from backstory.pipeline.workspace import open_workspace

    opened = open_workspace(workspace)
    if "://" in destination:
        _back_up_to_store(opened, destination, inputs=not without_inputs, keep=keep)
        return
    if keep is not None:
        raise InputError("--keep is for s3:// and file://; delete files of backups yourself", code="no_store")
    from backstory.operations.backup.archive import write_backup

    done = write_backup(opened, Path(destination), inputs=not without_inputs)
    console = open_console()
    console.print(
        plain(f"Wrote {done.path}: {done.files:,} files, {done.size / _MEGABYTE:,.1f} MB"), soft_wrap=True
    )
    _print_left_out(done.left_out)
    held = [what for what, is_held in (("the key of the pseudonyms", done.holds_secret),
                                       ("chats and posts as they are", done.holds_inputs)) if is_held]  # fmt: skip
    if held:
        console.print(
            plain(f"It contains {' and '.join(held)}: keep it where only you can read it."), soft_wrap=True
        )


def _back_up_to_store(workspace: Workspace, address: str, *, inputs: bool, keep: int | None) -> None:
    from backstory.operations.backup.stored import write_to_store

    written, done, removed = write_to_store(workspace, address, inputs=inputs, keep=keep)
    gone = f"; {count(removed, 'earlier backup was', 'earlier backups were')} removed" if keep else ""
    open_console().print(
        plain(f"Wrote {written}: {done.files:,} files, {done.size / _MEGABYTE:,.1f} MB{gone}"), soft_wrap=True
    )
    _print_left_out(done.left_out)


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
) -> None:
    """Restore a workspace from a backup. Every file is verified first."""
    if "://" in source:
        from backstory.operations.backup.stored import restore_from_store

        done = restore_from_store(source, into, replace=replace)
    else:
        from backstory.operations.backup.restoring import restore_backup

        done = restore_backup(Path(source), into, replace=replace)
    console = open_console()
    console.print(
        plain(f"Restored {done.root}: {done.files:,} files, every checksum verified"), soft_wrap=True
    )
    if done.aside is not None:
        console.print(
            plain(f"The former content is in {done.aside}; delete it when you do not need it."),
            soft_wrap=True,
        )
    _print_left_out(done.left_out)
    if _is_shared(done.root):
        console.print(
            plain(
                f"It was shared: remove storage from {done.root / SETTINGS_FILE}, or it works on what is shared now."
            ),
            soft_wrap=True,
        )
    console.print(plain(f"Next: backstory run --workspace {done.root}"), soft_wrap=True)


def _is_shared(root: Path) -> bool:
    """Return whether the settings name servers. Those of another version do not, since no run gets past them."""
    try:
        storage = read_settings(root / SETTINGS_FILE).storage
    except (SettingsError, WorkspaceError):
        return False
    return bool(storage.files or storage.database)


def _print_left_out(reasons: tuple[str, ...]) -> None:
    for reason in reasons:
        open_console().print(plain(f"  left out: {reason}"), soft_wrap=True)
