"""The command ``export``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from backstory.base.wording import count
from backstory.interfaces.cli.options import WorkspaceOption
from backstory.interfaces.cli.terminal import open_console, plain
from backstory.interfaces.pages.export.formats import FormatName


def export(
    format_name: Annotated[
        FormatName, typer.Option("--format", "-f", help="The program that the files are for.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder to write. Default: export/FORMAT in the workspace."
        ),
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the posts for another site generator, for Ghost, or as a mailbox."""
    from backstory.interfaces.pages.export.build import export_posts
    from backstory.pipeline.workspace import open_workspace

    made = export_posts(open_workspace(workspace), format_name, output)
    open_console(stderr=True).print(
        plain(
            f"{count(len(made.library.posts), 'post')}, {count(len(made.library.without_post), 'window')} without a "
            f"post. Files: {made.written.written} written, {made.written.unchanged} unchanged, "
            f"{made.written.removed} removed."
        )
    )
    sys.stdout.write(f"{made.folder}\n")  # alone on its stream, for scripts
