"""The commands ``storage``: where the files of a workspace are."""

from __future__ import annotations

from typing import Annotated

import typer

from backstory.base.wording import count
from backstory.interfaces.cli.cache import describe_bytes
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption
from backstory.interfaces.cli.terminal import open_console, plain, print_json

storage = typer.Typer(no_args_is_help=True, help="Move the files of a workspace into a store, or out of it.")


@storage.callback()
def _require_command() -> None:
    """Keep the name of the one command on the command line."""


@storage.command()
def copy(
    to: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="s3://bucket/prefix or file:///folder; or local, for the folder of the workspace.",
        ),
    ],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the files of the workspace, and read each one back to compare its hash. Go on where a copy was stopped.

    The settings stay as they are: change storage.files afterwards.
    """
    from dataclasses import asdict

    from backstory.operations.backup.moving import copy_workspace
    from backstory.pipeline.workspace import open_workspace

    done = copy_workspace(open_workspace(workspace), to)
    if as_json:
        print_json(asdict(done))
        return
    held = f"{count(done.files, 'file')}, {describe_bytes(done.size)}, are in {to}"
    open_console().print(
        plain(
            f"{held}, and every one has its hash; {count(done.copied, 'content was', 'contents were')} copied"
        ),
        soft_wrap=True,
    )
