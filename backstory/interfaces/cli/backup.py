"""The commands ``backup`` and ``restore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backstory.interfaces.cli.options import WorkspaceOption
from backstory.interfaces.cli.terminal import open_console, plain

_MEGABYTE = 1_000_000


def backup(
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="FILE_OR_DIR",
            help="A file ending in .tar.gz or .tar, or a folder; the file is then named for you.",
        ),
    ],
    without_inputs: Annotated[
        bool,
        typer.Option("--without-inputs", help="Leave out chats and posts; back them up elsewhere."),
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Back up the workspace into one file. A run may be under way.

    The file contains the key of the pseudonyms and, unless left out, chats with real names. Only its owner can read
    it.
    """
    from backstory.operations.backup.archive import write_backup
    from backstory.pipeline.workspace import open_workspace

    done = write_backup(open_workspace(workspace), destination, inputs=not without_inputs)
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


def restore(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `backstory backup` wrote.")],
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
    from backstory.operations.backup.restoring import restore_backup

    done = restore_backup(path, into, replace=replace)
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
    console.print(plain(f"Next: backstory run --workspace {done.root}"), soft_wrap=True)


def _print_left_out(reasons: tuple[str, ...]) -> None:
    for reason in reasons:
        open_console().print(plain(f"  left out: {reason}"), soft_wrap=True)
