"""The command ``site``."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from backstory.cli.options import WorkspaceOption
from backstory.cli.terminal import open_console, plain
from backstory.errors import BackstoryError


def site(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder to write. Default: site in the workspace."
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the first page in a browser.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the posts as a folder of HTML pages, with the documents they cite and the posts that cite them."""
    from backstory.site import build_site
    from backstory.workspace import open_workspace

    built = build_site(open_workspace(workspace), output)
    library, pages = built.library, built.written
    open_console(stderr=True).print(
        plain(
            f"{len(library.posts)} posts, {library.links_between_posts} links to earlier posts, "
            f"{len(library.without_post)} windows without a post. "
            f"Pages: {pages.written} written, {pages.unchanged} unchanged, {pages.removed} removed."
        )
    )
    sys.stdout.write(f"{built.index}\n")  # alone on its stream, for scripts
    if open_page and not webbrowser.open(built.index.resolve().as_uri()):
        raise BackstoryError(f"no browser could be started; open {built.index} yourself")
