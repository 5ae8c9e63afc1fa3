"""The command ``backstory run``: read all inputs, build every table, and print what was read and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from backstory.cli.alert import send_alerts
from backstory.cli.estimate import print_estimate
from backstory.cli.failure import FAILED, INCOMPLETE, UNFINISHED
from backstory.cli.options import LogFormatOption, WorkspaceOption, read_day
from backstory.cli.terminal import open_console, plain
from backstory.errors import InputError
from backstory.settings.environment import find_workspace
from backstory.telemetry.logs import configure_logs

if TYPE_CHECKING:
    from backstory.inspection.checks import Finding
    from backstory.pipeline.stage_report import StageReport
    from backstory.runner import Execute, Outcome
    from backstory.workspace import Workspace

_NOTES = ("notice", "cleared")
"""Keys of the counts of a stage that hold a sentence for the user."""

_USES = ("embedding", "rerank", "writing")
_POST_FIGURES = (
    ("writing_asked", "draft asked for", "drafts asked for"),
    ("writing_found", "found as drafts from before", "found as drafts from before"),
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
        help="Remove what the chats and documents no longer hold, where the settings would have the run ask.",
    ),
]
EstimateOption = Annotated[
    bool,
    typer.Option(
        "--estimate",
        help="Only print what the run would embed, how long that takes and what it costs; write nothing.",
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

    Exit codes: 0 everything was done; 1 a stage failed, or a blocking check found something; 2 bad usage or settings;
    3 everything was done, but files were set aside or could not be read; 4 not finished, in order: texts are in batch
    jobs, or a budget or a limit was reached; the same command goes on later.
    """
    configure_logs(log_format)
    if estimate:
        print_estimate(workspace, first, last, accept_removals=accept_removals)
        return
    outcome = run_and_tell(workspace, first, last, _load_execute_stages, accept_removals=accept_removals)
    raise typer.Exit(exit_code(outcome))


def run_and_tell(
    given: Path | None,
    first: date | None,
    last: date | None,
    load_execute: Callable[[], Execute],
    *,
    accept_removals: bool,
    by: str = "backstory run",
) -> Outcome:
    """Run the pipeline over a workspace, and print progress.

    Args:
        given: Folder of the workspace; None for the one named by the environment, or the current folder.
        first: First day; None for the day of the first message.
        last: Last day; None for the day of the last message.
        load_execute: Loads the function that executes the stages. It is called after the first line is printed,
            since loading may take seconds.
        accept_removals: Whether the run may remove messages and documents that earlier runs read.
        by: The command, for the runs that wait for this one.

    Returns:
        The outcome of the run.

    Raises:
        BackstoryError: The workspace, its settings or the range cannot be used.
    """
    console = open_console()
    root = find_workspace(given)
    console.print(plain(f"Reading {root}"), soft_wrap=True)
    from backstory.runner import find_wanted, run_workspace
    from backstory.workspace import open_workspace

    workspace = open_workspace(root, accept_removals=accept_removals)
    with _alerting_of_crashes(console, workspace):
        wanted = find_wanted(workspace, first, last)
        grain = workspace.settings.partitions.grain
        many = f"{len(wanted)} {grain}s" if len(wanted) > 1 else f"1 {grain}"
        console.print(f"{many}, {wanted[0]} to {wanted[-1]}")
        execute = load_execute()
        outcome = run_workspace(workspace, wanted, lambda told: print_progress(console, told), execute, by)
    print_outcome(console, outcome)
    from backstory.alerts import describe_outcome

    send_alerts(console, workspace, describe_outcome(outcome))
    return outcome


@contextmanager
def _alerting_of_crashes(console: Console, workspace: Workspace) -> Iterator[None]:
    """Send alerts if an exception ends the run before it has an outcome. Wrong arguments are told nobody."""
    try:
        yield
    except Exception as error:
        if type(error) is not InputError:
            from backstory.alerts import describe_crash

            send_alerts(console, workspace, describe_crash(error))
        raise


def exit_code(outcome: Outcome) -> int:
    """Return the exit code of a run."""
    if outcome.execution.failures:
        return FAILED
    if outcome.execution.waiting or outcome.execution.stopped:
        return UNFINISHED
    return INCOMPLETE if len(outcome.unfinished) else 0


def print_progress(console: Console, told: StageReport | Finding) -> None:
    """Print a line for a finished stage, or for a check that found cases."""
    from backstory.pipeline.stage_report import StageReport

    if isinstance(told, StageReport):
        done = "unchanged" if told.unchanged else f"{told.computed} of {told.partitions} made"
        console.print(f"  {told.table:<16} {told.rows:>8,} rows   {done:<18} {told.seconds:6.1f} s")
        for note in filter(told.counts.get, _NOTES):
            console.print(
                Text.assemble(("  note: ", "yellow"), plain(str(told.counts[note]))), soft_wrap=True
            )
    elif not told.passed:
        style = "red" if told.check.blocking else "yellow"
        console.print(
            Text.assemble((f"  check {told.check.name}: ", style), plain(told.message)), soft_wrap=True
        )


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print which files were read and which were not, the failures, and the cost of the run."""
    for line in [*describe_sources(outcome), *describe_posts(outcome)]:
        console.print(plain(line), soft_wrap=True)
    for failure in outcome.execution.failures:
        console.print(Text.assemble(("failed: ", "red"), plain(failure)), soft_wrap=True)
    if outcome.execution.waiting:
        console.print(
            Text.assemble(("waiting: ", "yellow"), plain(outcome.execution.waiting)), soft_wrap=True
        )
    if outcome.execution.stopped:
        console.print(
            Text.assemble(("stopped: ", "yellow"), plain(outcome.execution.stopped)), soft_wrap=True
        )
    console.print(Text(describe_cost(outcome)), soft_wrap=True)


def describe_sources(outcome: Outcome) -> list[str]:
    """Count the files that were read, and name each file that was not read or only in part, with the reason.

    Returns:
        A line per folder that has files, followed by the lines of its files.
    """
    from backstory.inspection.files import STATUS_WORDS

    lines = []
    for (folder,), files in outcome.sources.group_by("folder", maintain_order=True):
        counts = dict(files["status"].value_counts().iter_rows())
        words = ", ".join(f"{counts[key]} {words}" for key, words in STATUS_WORDS.items() if key in counts)
        unit = "messages" if folder == "conversations" else "documents"
        lines.append(f"Files of {folder}: {words}; {files['rows'].sum():,} {unit}")
        for row in files.sort("source").iter_rows(named=True):
            if row["status"] != "read" or row["reason"]:
                reason = f": {row['reason']}" if row["reason"] else ""
                lines.append(f"  {row['source']}: {STATUS_WORDS[row['status']]}{reason}")
    return lines


def describe_posts(outcome: Outcome) -> list[str]:
    """Describe in a line what became of the posts that the run made; no line if it made none."""
    if not any(report.table == "posts" and report.computed for report in outcome.execution.reports):
        return []
    figures = [(outcome.total(name), one, many) for name, one, many in _POST_FIGURES]
    told = [f"{count:,} {one if count == 1 else many}" for count, one, many in figures if count]
    return [f"Posts: {', '.join(told)}"] if told else []


def describe_cost(outcome: Outcome) -> str:
    """Describe in one or two sentences what a run built and what it cost."""
    if outcome.fresh:
        return f"Nothing has changed since the last run: no table was made again ({outcome.seconds:.1f} s)."
    made = f"{outcome.computed} partitions made in {outcome.seconds:.1f} s."
    cost = (
        f"{outcome.total('embedding_computed'):,} texts embedded ({outcome.total('embedding_tokens'):,} tokens), "
        f"{outcome.total('embedding_cached'):,} found in the cache, "
        f"{sum(outcome.total(f'{use}_api_calls') for use in _USES):,} API calls."
    )
    if outcome.execution.stopped is not None:
        cost += " What the stage that was stopped used is in `backstory runs`."
    return f"{made} {cost}"


def _load_execute_stages() -> Execute:
    from backstory.runner import execute_stages

    return execute_stages
