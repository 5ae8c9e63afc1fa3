"""The command ``site``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backstory.base.wording import count
from backstory.interfaces.cli.options import WorkspaceOption, open_workspace
from backstory.interfaces.cli.terminal import open_console, plain, print_page
from backstory.interfaces.pages.export.formats import FormatName


def site(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder to write. Default: site in the workspace."
        ),
    ] = None,
    windows: Annotated[
        bool,
        typer.Option(
            "--windows", help="Also write a page for each window: all its messages, and every passage found."
        ),
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the first page in a browser.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the posts as a folder of HTML pages, with the documents they cite and the posts that cite them."""
    from backstory.interfaces.pages.site.build import build_site

    opened = open_workspace(workspace)
    built = build_site(opened, output, windows=windows)
    library, pages = built.library, built.written
    shows = (
        "all messages of every window, and every passage that was found for it"
        if windows
        else "what the posts quote from the chat (--windows adds all messages)"
    )
    open_console(stderr=True).print(
        plain(
            f"{count(len(library.posts), 'post')}, {count(library.links_between_posts, 'link')} to earlier posts, "
            f"{count(len(library.without_post), 'window')} without a post. "
            f"Shown are the posts, {count(len(library.documents), 'document')} in full, and {shows}. "
            f"Pages: {pages.written} written, {pages.unchanged} unchanged, {pages.removed} removed."
            + ("" if opened.settings.site.base_url else " For feeds and a sitemap, set site.base_url.")
        )
    )
    print_page(built.index, opens=open_page)


def prompt(
    shipped: Annotated[
        bool, typer.Option("--shipped", help="The shipped prompt, whatever the settings name.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Print the prompt that a model writes posts from, to copy and change (setting writers.prompt)."""
    from backstory.writing.prompt import load_prompt

    path = None
    if not shipped:
        opened = open_workspace(workspace)
        named = opened.settings.writers.prompt
        path = opened.root / named if named else None
    typer.echo(load_prompt(path).source, nl=False)


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

    made = export_posts(open_workspace(workspace), format_name, output)
    open_console(stderr=True).print(
        plain(
            f"{count(len(made.library.posts), 'post')}, {count(len(made.library.without_post), 'window')} without a "
            f"post. Files: {made.written.written} written, {made.written.unchanged} unchanged, "
            f"{made.written.removed} removed."
        )
    )
    print_page(made.folder)
