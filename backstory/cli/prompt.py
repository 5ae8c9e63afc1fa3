"""The command ``prompt``: the template that a model gets for each window."""

from __future__ import annotations

from typing import Annotated

import typer

from backstory.cli.options import WorkspaceOption


def prompt(
    shipped: Annotated[
        bool, typer.Option("--shipped", help="The shipped prompt, whatever the settings name.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Print the prompt by which a model writes posts, to copy and change (setting writers.prompt)."""
    from backstory.workspace import open_workspace
    from backstory.writing.prompt import load_prompt

    path = None
    if not shipped:
        opened = open_workspace(workspace)
        named = opened.settings.writers.prompt
        path = opened.root / named if named else None
    typer.echo(load_prompt(path).source, nl=False)
