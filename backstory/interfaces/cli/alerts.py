"""Print alerts for the commands: the open problems, a test alert, and the alerts of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from backstory.interfaces.cli.terminal import open_console, plain, print_json

if TYPE_CHECKING:
    from backstory.operations.alerts.ended_run import EndedRun
    from backstory.pipeline.workspace import Workspace


def show_alerts(workspace: Workspace, *, as_json: bool) -> None:
    """Print the open problems already sent to each hook of a workspace.

    Args:
        workspace: An open workspace.
        as_json: Whether to print JSON.
    """
    from backstory.operations.alerts.dispatch import read_open

    sent = read_open(workspace)
    if as_json:
        print_json(
            {name: [one.model_dump(exclude_defaults=True) for one in found] for name, found in sent.items()}
        )
        return
    console = open_console()
    if not sent:
        console.print("No alert is set up: neither alerts.command nor alerts.webhook is set.")
    for name, problems in sent.items():
        console.print(f"{name}: {len(problems)} open" if problems else f"{name}: no open problem")
        for problem in problems:
            console.print(plain(f"  since {problem.since}: {problem.sentence}"), soft_wrap=True)


def send_test_alert(workspace: Workspace, *, as_json: bool) -> None:
    """Send a test alert to every hook of a workspace, and print each that received it.

    Args:
        workspace: An open workspace.
        as_json: Whether to print JSON.

    Raises:
        InputError: The settings name no hook.
        AlertError: A hook failed.
    """
    from backstory.operations.alerts.dispatch import send_test

    sentences = send_test(workspace)
    if as_json:
        print_json(sentences)
        return
    console = open_console()
    for sentence in sentences:
        console.print(plain(sentence), soft_wrap=True)


def send_alerts(console: Console, workspace: Workspace, run: EndedRun) -> None:
    """Send the alerts of a finished run, and print which were sent and which failed."""
    from backstory.operations.alerts.dispatch import send_alerts_of_run

    for sentence in send_alerts_of_run(workspace, run):
        console.print(plain(sentence), soft_wrap=True)
