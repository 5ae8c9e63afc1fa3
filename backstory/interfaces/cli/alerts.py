"""Print alerts for the commands: the open problems, a test alert, and the alerts of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from backstory.interfaces.cli.terminal import open_console, plain, print_json

if TYPE_CHECKING:
    from backstory.pipeline.run.run import Run
    from backstory.pipeline.workspace import Workspace


def show_alerts(workspace: Workspace, *, as_json: bool) -> None:
    """Print the open problems already sent to each hook of a workspace."""
    from backstory.operations.alerts.sending import read_open

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
    """Send a test alert to every hook of a workspace, and print each that received it."""
    from backstory.operations.alerts.sending import send_test

    sentences = send_test(workspace)
    if as_json:
        print_json(sentences)
        return
    for sentence in sentences:
        open_console().print(plain(sentence), soft_wrap=True)


def print_alerts(console: Console, workspace: Workspace, run: Run) -> None:
    """Send the alerts of a finished run, and print which were sent and which failed."""
    from backstory.operations.alerts.sending import send_alerts

    for sentence in send_alerts(workspace, run):
        console.print(plain(sentence), soft_wrap=True)
