"""The command ``backstory alert``: show what was told to whom, or send a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from backstory.cli.options import JsonOption, WorkspaceOption
from backstory.cli.terminal import open_console, plain, print_json

if TYPE_CHECKING:
    from backstory.alerts import RunEnd
    from backstory.workspace import Workspace


def alert(
    test: Annotated[
        bool, typer.Option("--test", help="Send a test to the command and the webhook of the settings.")
    ] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the open problems that the alerts of the workspace have told, or send a test.

    Exit codes: 0 done; 1 a test could not be sent; 2 no alert is set up, or bad settings.
    """
    from backstory.alerts import read_open, send_test
    from backstory.workspace import open_workspace

    opened = open_workspace(workspace)
    console = open_console()
    if test:
        for sentence in send_test(opened):
            console.print(plain(sentence), soft_wrap=True)
        return
    told = read_open(opened)
    if as_json:
        print_json(
            {name: [one.model_dump(exclude_defaults=True) for one in found] for name, found in told.items()}
        )
        return
    if not told:
        console.print("No alert is set up: neither alerts.command nor alerts.webhook is set.")
    for name, problems in told.items():
        console.print(f"{name}: {len(problems)} open" if problems else f"{name}: no open problem")
        for problem in problems:
            console.print(plain(f"  since {problem.since}: {problem.sentence}"), soft_wrap=True)


def send_alerts(console: Console, workspace: Workspace, end: RunEnd) -> None:
    """Tell the hooks of a workspace how a run ended, and print what was sent and what could not be sent."""
    from backstory.alerts import tell_run

    for sentence in tell_run(workspace, end):
        console.print(plain(sentence), soft_wrap=True)
