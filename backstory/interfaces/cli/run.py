"""The command ``backstory run``: read all inputs, build every table, and print the result and its cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from backstory.base.environment import find_workspace
from backstory.base.errors import InputError
from backstory.base.telemetry.logs import configure_logs
from backstory.base.wording import count
from backstory.interfaces.cli.alerts import send_alerts
from backstory.interfaces.cli.estimate import print_estimate
from backstory.interfaces.cli.failure import FAILED, INCOMPLETE, UNFINISHED
from backstory.interfaces.cli.options import LogFormatOption, WorkspaceOption, read_day
from backstory.interfaces.cli.terminal import open_console, plain

if TYPE_CHECKING:
    from backstory.pipeline.checks.checks import CheckResult
    from backstory.pipeline.incremental.report import StageResult
    from backstory.pipeline.run.runner import Execute, RunResult
    from backstory.pipeline.workspace import Workspace

_NOTES = ("notice", "cleared")
"""Keys of the counts of a stage that hold a sentence for the user."""

_USES = ("embedding", "rerank", "writing")
_POST_FIGURES = (
    ("writing_asked", "draft requested", "drafts requested"),
    ("writing_found", "draft found in the cache", "drafts found in the cache"),
    ("status_written", "written", "written"),
    ("status_edited", "edited by a person, whose text stays", "edited by people, whose texts stay"),
    ("status_rejected", "rejected by a check", "rejected by checks"),
    ("status_failed", "failed", "failed"),
    ("status_waiting", "waiting for a later run", "waiting for a later run"),
    ("removed_citations", "link or citation removed", "links or citations removed"),
)

FirstOption = Annotated[
    date | None,
    typer.Option(
        "--from",
        metavar="DATE",
        parser=read_day,
        help="First day (UTC). Default: that of the first message.",
    ),
]
LastOption = Annotated[
    date | None,
    typer.Option(
        "--to", metavar="DATE", parser=read_day, help="Last day (UTC). Default: that of the last message."
    ),
]
AcceptOption = Annotated[
    bool,
    typer.Option(
        "--accept-removals",
        help="Accept the removal of messages and documents that are gone from the inputs.",
    ),
]
EstimateOption = Annotated[
    bool,
    typer.Option(
        "--estimate",
        help="Only print what the run would embed, its time and its cost; write nothing.",
    ),
]


def run(
    first: FirstOption = None,
    last: LastOption = None,
    accept_removals: AcceptOption = False,
    estimate: EstimateOption = False,
    workspace: WorkspaceOption = None,
    log_format: LogFormatOption = None,
) -> None:
    """Read the chats and documents, and build every table, such as windows, hits and contexts.

    Partitions whose inputs have not changed are skipped. A run that would remove messages stops before it writes,
    unless the removal is accepted.

    Exit codes: 0 done; 1 a stage or a blocking check failed; 2 bad usage or settings; 3 done, but files were set aside
    or could not be read; 4 no failure, but not finished: texts are in batch jobs, or a budget or a limit was reached;
    the same command resumes later.
    """
    configure_logs(log_format)
    if estimate:
        print_estimate(workspace, first, last, accept_removals=accept_removals)
        return
    result = run_and_print(workspace, first, last, accept_removals=accept_removals)
    raise typer.Exit(exit_code(result))


def run_and_print(
    given: Path | None,
    first: date | None,
    last: date | None,
    execute: Execute | None = None,
    *,
    accept_removals: bool,
    by: str = "backstory run",
) -> RunResult:
    """Run the pipeline over a workspace, print progress, and send alerts.

    Args:
        given: Folder of the workspace; None for the one named by the environment, or the current folder.
        first: First day; None for the day of the first message.
        last: Last day; None for the day of the last message.
        execute: Executes the stages; None to execute them in this process.
        accept_removals: Whether the run may remove messages and documents that earlier runs read.
        by: The command, for the runs that wait for this one.

    Returns:
        The result of the run.

    Raises:
        BackstoryError: The workspace, its settings or the range cannot be used.
    """
    console = open_console()
    root = find_workspace(given)
    console.print(plain(f"Reading {root}"), soft_wrap=True)
    # Loading the stages may take seconds, so it follows the first line.
    from backstory.pipeline.run.runner import RunRequest, execute_run, execute_stages, find_wanted
    from backstory.pipeline.workspace import open_workspace

    workspace = open_workspace(root, accept_removals=accept_removals)
    with _alerting_of_crashes(console, workspace):
        wanted = find_wanted(workspace, first, last)
        grain = workspace.settings.partitions.grain
        console.print(f"{count(len(wanted), grain)}, {wanted[0]} to {wanted[-1]}")
        request = RunRequest(partitions=wanted, by=by, skips_unchanged=True)
        result = execute_run(
            workspace, request, lambda event: print_progress(console, event), execute or execute_stages
        )
    print_result(console, result)
    from backstory.operations.alerts.ended_run import describe_result

    send_alerts(console, workspace, describe_result(result))
    return result


@contextmanager
def _alerting_of_crashes(console: Console, workspace: Workspace) -> Iterator[None]:
    """Send alerts if the run raises before it has a result. Errors of the user do not alert."""
    try:
        yield
    except Exception as error:
        if type(error) is not InputError:
            from backstory.operations.alerts.ended_run import describe_crash

            send_alerts(console, workspace, describe_crash(error))
        raise


def exit_code(result: RunResult) -> int:
    """Return the exit code of a run."""
    if result.failures:
        return FAILED
    if result.waiting or result.stopped:
        return UNFINISHED
    return INCOMPLETE if len(result.unfinished) else 0


def print_progress(console: Console, event: StageResult | CheckResult) -> None:
    """Print a line for a finished stage, or for a check that found cases."""
    from backstory.pipeline.incremental.report import StageResult

    if isinstance(event, StageResult):
        done = "unchanged" if event.unchanged else f"{event.computed} of {event.partitions} made"
        console.print(f"  {event.table:<16} {event.rows:>8,} rows   {done:<18} {event.seconds:6.1f} s")
        for note in filter(event.counts.get, _NOTES):
            console.print(
                Text.assemble(("  note: ", "yellow"), plain(str(event.counts[note]))), soft_wrap=True
            )
    elif not event.passed:
        style = "red" if event.check.blocking else "yellow"
        console.print(
            Text.assemble((f"  check {event.check.name}: ", style), plain(event.message)), soft_wrap=True
        )


def print_result(console: Console, result: RunResult) -> None:
    """Print the files that were read and those that were not, the failures, and the cost of the run."""
    for line in [*describe_sources(result), *describe_posts(result)]:
        console.print(plain(line), soft_wrap=True)
    for failure in result.failures:
        console.print(Text.assemble(("failed: ", "red"), plain(failure)), soft_wrap=True)
    if result.waiting:
        console.print(Text.assemble(("waiting: ", "yellow"), plain(result.waiting)), soft_wrap=True)
    if result.stopped:
        console.print(Text.assemble(("stopped: ", "yellow"), plain(result.stopped)), soft_wrap=True)
    console.print(Text(describe_cost(result)), soft_wrap=True)


def describe_sources(result: RunResult) -> list[str]:
    """Count the files that were read, and name each file that was not read or only in part, with the reason.

    Returns:
        A line per folder that has files, followed by the lines of its files.
    """
    from backstory.operations.inspection.files import STATUS_WORDS

    lines = []
    for (folder,), files in result.sources.group_by("folder", maintain_order=True):
        counts = dict(files["status"].value_counts().iter_rows())
        words = ", ".join(f"{counts[key]} {words}" for key, words in STATUS_WORDS.items() if key in counts)
        unit = "messages" if folder == "conversations" else "documents"
        lines.append(f"Files of {folder}: {words}; {files['rows'].sum():,} {unit}")
        for row in files.sort("source").iter_rows(named=True):
            if row["status"] != "read" or row["reason"]:
                reason = f": {row['reason']}" if row["reason"] else ""
                lines.append(f"  {row['source']}: {STATUS_WORDS[row['status']]}{reason}")
    return lines


def describe_posts(result: RunResult) -> list[str]:
    """Describe the posts of the run in one line; no line without posts."""
    if not any(report.table == "posts" and report.computed for report in result.reports):
        return []
    figures = [(result.total(name), one, many) for name, one, many in _POST_FIGURES]
    counts = [count(number, one, many) for number, one, many in figures if number]
    return [f"Posts: {', '.join(counts)}"] if counts else []


def describe_cost(result: RunResult) -> str:
    """Describe the result and the cost of a run in one or two sentences."""
    if result.fresh:
        return f"Nothing has changed since the last run: no table was rebuilt ({result.seconds:.1f} s)."
    made = f"{count(result.computed, 'partition')} made in {result.seconds:.1f} s."
    cost = (
        f"{count(result.total('embedding_computed'), 'text')} embedded ({result.total('embedding_tokens'):,} tokens), "
        f"{result.total('embedding_cached'):,} found in the cache, "
        f"{count(sum(result.total(f'{use}_api_calls') for use in _USES), 'API call')}."
    )
    if result.stopped is not None:
        cost += " `backstory status --runs` shows the cost of the stopped stage."
    return f"{made} {cost}"
