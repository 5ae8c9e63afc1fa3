"""The command ``backstory run``: read all inputs, build every table, and print the result and its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from backstory.base.environment import find_workspace
from backstory.base.errors import InputError
from backstory.base.telemetry import configure_logs
from backstory.base.wording import count, name_some, write_cost, write_duration
from backstory.interfaces.cli.failure import FAILED, INCOMPLETE, UNFINISHED
from backstory.interfaces.cli.options import (
    JsonOption,
    LogFormatOption,
    VerboseOption,
    WorkspaceOption,
    read_day,
)
from backstory.interfaces.cli.terminal import (
    Move,
    open_console,
    plain,
    print_json,
    print_lines,
    print_record,
    show_run_bar,
)

if TYPE_CHECKING:
    from backstory.pipeline.checks.cases import CheckResult
    from backstory.pipeline.incremental.report import StageResult
    from backstory.pipeline.run.estimate import CallsToMake, Estimate
    from backstory.pipeline.run.run import OnProgress, Run, RunEvent
    from backstory.pipeline.workspace import Workspace


_NOTES = ("notice", "cleared")
"""Keys of the counts of a stage that hold a sentence for the user."""

_CHECKS_OF_FILES = ("unread_files", "unread_lines")
"""Checks whose cases the list of the files names at the end of the run, with their reasons."""

_MOST_NAMES = 10

Execute: TypeAlias = "Callable[[Workspace, Run, OnProgress], Run]"
"""Executes a run, and returns it with what became of it."""
_USES = ("embedding", "rerank", "writing")

FirstOption = Annotated[
    date | None,
    typer.Option(
        "--from", metavar="DATE", parser=read_day, help="First day. Default: that of the first message."
    ),
]
LastOption = Annotated[
    date | None,
    typer.Option(
        "--to", metavar="DATE", parser=read_day, help="Last day. Default: that of the last message."
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
        "--estimate", help="Only print what the run would embed, its time and its cost; write nothing."
    ),
]


def run(
    first: FirstOption = None,
    last: LastOption = None,
    accept_removals: AcceptOption = False,
    estimate: EstimateOption = False,
    verbose: VerboseOption = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    log_format: LogFormatOption = None,
) -> None:
    """Read the chats and documents, build every table, such as windows, hits and contexts, and report what has changed.

    Partitions whose inputs have not changed are skipped. A run that would remove messages stops before it writes,
    unless the removal is accepted.

    Exit codes: 0 done; 1 a stage or a blocking check failed; 2 bad usage or settings; 3 done, but files were set aside
    or could not be read; 4 no failure, but not finished: a budget or a limit was reached; the same command
    resumes later.
    """
    configure_logs(log_format)
    if estimate:
        print_estimate(workspace, first, last, accept_removals=accept_removals, as_json=as_json)
        return
    result = run_and_print(
        workspace, first, last, accept_removals=accept_removals, verbose=verbose, as_json=as_json
    )
    raise typer.Exit(exit_code(result))


def run_and_print(
    given: Path | None,
    first: date | None,
    last: date | None,
    execute: Execute | None = None,
    *,
    accept_removals: bool,
    verbose: bool,
    as_json: bool,
    by: str = "backstory run",
) -> Run:
    """Run the pipeline over a workspace, print what is different and what went wrong, and send alerts."""
    console = open_console(stderr=as_json)
    root = find_workspace(given)
    with show_run_bar(f"reading {root}") as move:
        # Loading the stages may take seconds, so it follows the bar.
        from backstory.pipeline.run.run import Run
        from backstory.pipeline.run.runner import find_wanted
        from backstory.pipeline.workspace import open_workspace

        workspace = open_workspace(root, accept_removals=accept_removals, follows=False)
        with _alerting_of_crashes(console, workspace):
            wanted = find_wanted(workspace, first, last)
            show = _follow(console, move, verbose=verbose)
            result = (execute or execute_changed)(workspace, Run(wanted, by=by), show)
    if as_json:
        print_json(make_record(result))
    else:
        print_run(console, result, verbose=verbose)
    _send_alerts(console, workspace, result)
    return result


@contextmanager
def _alerting_of_crashes(console: Console, workspace: Workspace) -> Iterator[None]:
    """Send alerts if the run raises before it has a result. Errors of the user do not alert."""
    try:
        yield
    except Exception as error:
        if type(error) is not InputError:
            from backstory.operations.alerts.problems import describe_crash

            _send_alerts(console, workspace, describe_crash(error))
        raise


def _send_alerts(console: Console, workspace: Workspace, run: Run) -> None:
    """Send the alerts of a finished run, and print which were sent and which failed."""
    from backstory.operations.alerts.sending import send_alerts

    print_lines(console, send_alerts(workspace, run))


def exit_code(result: Run) -> int:
    """Return the exit code of a run."""
    if result.failures:
        return FAILED
    if result.stopped:
        return UNFINISHED
    return INCOMPLETE if len(result.unfinished) else 0


def execute_changed(workspace: Workspace, run: Run, on_progress: OnProgress) -> Run:
    """Execute a run in this process, unless nothing has changed."""
    from backstory.pipeline.run.runner import execute_run

    return execute_run(workspace, run, on_progress, skips_unchanged=True)


def execute_and_print(console: Console, workspace: Workspace, run: Run, execute: Execute) -> Run:
    """Execute a run with its bar, and print the result."""
    with show_run_bar(f"reading {workspace.root}") as move:
        show = _follow(console, move, verbose=False)
        execute(workspace, run, show)
    print_run(console, run, verbose=False)
    return run


def _follow(console: Console, move: Move, *, verbose: bool) -> OnProgress:
    """Return the function that shows the events of a run."""
    from backstory.pipeline.incremental.report import StageResult
    from backstory.pipeline.run.run import RunPosition

    told = open_console(stderr=True)

    def show(event: RunEvent) -> None:
        if isinstance(event, RunPosition):
            move(event)
            return
        if isinstance(event, StageResult) and (verbose or not told.is_terminal):
            done = "unchanged" if event.unchanged else f"{event.computed} of {event.partitions} made"
            line = f"  {event.table:<16} {event.rows:>8,} rows   {done:<18} {event.seconds:6.1f} s"
            (console if verbose else told).print(line)
        _print_event(console, event)

    return show


def _print_event(console: Console, event: StageResult | CheckResult) -> None:
    """Print what a person should know of a finished stage, or of a check that found cases."""
    from backstory.pipeline.incremental.report import StageResult

    if isinstance(event, StageResult):
        for note in filter(event.counts.get, _NOTES):
            _print_marked(console, "note", "yellow", str(event.counts[note]))
    elif not event.passed and event.check.name not in _CHECKS_OF_FILES:
        _print_marked(
            console, f"check {event.check.name}", "red" if event.check.blocking else "yellow", event.message
        )


def print_run(console: Console, result: Run, *, verbose: bool) -> None:
    """Print what is different for a reader, the files that were not read, the failures, and the cost of the run."""
    from backstory.pipeline.run.differences import describe_differences

    lines = [] if result.fresh else describe_differences(result.differences)
    print_lines(console, [*lines, *describe_sources(result, verbose=verbose)])
    for failure in result.failures:
        _print_marked(console, "failed", "red", failure)
    if result.stopped:
        _print_marked(console, "stopped", "yellow", result.stopped)
    console.print(Text(describe_cost(result, verbose=verbose)), soft_wrap=True)


def _print_marked(console: Console, mark: str, style: str, text: str) -> None:
    console.print(Text.assemble((f"{mark}: ", style), plain(text)), soft_wrap=True)


def describe_sources(result: Run, *, verbose: bool) -> list[str]:
    """Count the files of each folder, and name each file that was not read or only in part, with the reason.

    If nothing has changed, only the files that need a person are told.
    """
    import polars as pl

    from backstory.operations.inspection.inventory import STATUS_WORDS

    lines = []
    sources = result.unfinished if result.fresh else result.sources
    for (folder,), files in sources.group_by("folder", maintain_order=True):
        odd = files.filter((pl.col("status") != "read") | (pl.col("reason").fill_null("") != "")).sort(
            "source"
        )
        if odd.is_empty() and not verbose:
            continue
        counts = dict(files["status"].value_counts().iter_rows())
        words = ", ".join(f"{counts[key]} {words}" for key, words in STATUS_WORDS.items() if key in counts)
        unit = "messages" if folder == "conversations" else "documents"
        lines.append(f"Files of {folder}: {words}; {files['rows'].sum():,} {unit}")
        alike = odd.group_by("status", "reason", maintain_order=True).agg("source")
        for status, reason, names in alike.iter_rows():
            why = f"{STATUS_WORDS[status]}{f': {reason}' if reason else ''}"
            if len(names) == 1:
                lines.append(f"  {names[0]}: {why}")
            else:
                lines.append(f"  {count(len(names), 'file')} {why} ({name_some(names, _MOST_NAMES)})")
    return lines


def describe_cost(result: Run, *, verbose: bool = False) -> str:
    """Describe the cost of a run in one or two sentences."""
    if result.fresh:
        changed = "Nothing has changed"
        return f"{changed} since the last run: no table was rebuilt ({result.seconds:.1f} s)."
    calls = sum(result.total(f"{use}_api_calls") for use in _USES)
    if not verbose and not calls and result.stopped is None:
        return f"It took {result.seconds:.1f} s."
    made = f"{count(result.computed, 'partition')} made in {result.seconds:.1f} s."
    asked = result.total("writing_asked")
    drafts = f"{count(asked, 'draft')} requested, " if asked else ""
    cost = (
        f"{count(result.total('embedding_computed'), 'text')} embedded ({result.total('embedding_tokens'):,} tokens), "
        f"{result.total('embedding_cached'):,} found in the cache, "
        f"{drafts}{count(calls, 'API call')}."
    )
    if result.stopped is not None:
        cost += " `backstory status --runs` shows the cost of the stopped stage."
    return f"{made} {cost}"


def make_record(result: Run) -> dict[str, Any]:
    """Return everything that a run has to say, with names that do not depend on the wording."""
    return {
        "run_id": result.id,
        "partitions": list(result.partitions),
        "unchanged": result.fresh,
        "finished": result.finished,
        "seconds": round(result.seconds, 3),
        "differences": asdict(result.differences),
        "failures": result.failures,
        "stopped": result.stopped,
        "checks": [
            {
                "table": finding.check.table,
                "name": finding.check.name,
                "blocking": finding.check.blocking,
                "cases": len(finding.cases),
                "message": finding.message,
            }
            for finding in result.found.values()
            if not finding.passed
        ],
        "files": result.unfinished.select("source", "folder", "status", "reason").to_dicts(),
        "tables": [
            {"table": report.table, **report.figures, "unchanged": report.unchanged}
            for report in result.made.values()
        ],
    }


def print_estimate(
    given: Path | None, first: date | None, last: date | None, *, accept_removals: bool, as_json: bool
) -> None:
    """Print the texts, calls, time and price of a run. Nothing in the workspace is written."""
    root = find_workspace(given)
    print_lines(open_console(stderr=as_json), [f"Reading {root}"])
    from backstory.pipeline.run.estimate import estimate_run
    from backstory.pipeline.workspace import open_workspace

    workspace = open_workspace(root, accept_removals=accept_removals, writes=False)
    estimate = estimate_run(workspace, first, last)
    lines = describe_estimate(estimate, grain=workspace.settings.partitions.grain)
    print_record(asdict(estimate), lines, as_json=as_json)


def describe_estimate(estimate: Estimate, *, grain: str) -> list[str]:
    """Describe an estimate, a line for each fact."""
    wanted = estimate.partitions
    lines = [f"Estimate for {count(len(wanted), grain)}, {wanted[0]} to {wanted[-1]}; nothing was written"]
    missing = sum(kind.missing for kind in estimate.embedding)
    lines += [
        f"  {kind.kind:<13} {kind.missing:>9,} texts to embed, {kind.tokens:>12,} tokens"
        f" ({kind.cached:,} of {kind.texts:,} in the cache)"
        for kind in estimate.embedding
    ]
    if not missing:
        lines.append(f"No text needs to be embedded by {estimate.embedder}.")
    else:
        seconds = estimate.pace.seconds
        takes = f"about {write_duration(seconds)} ({estimate.pace.basis})" if seconds else estimate.pace.basis
        lines.append(f"Embedding by {estimate.embedder}: {takes}")
        if estimate.is_paid:
            lines.append(f"Price of embedding: {_describe_price(estimate.cost, estimate.currency)}")
    lines += [_describe_calls(calls, estimate.currency) for calls in estimate.calls]
    return lines


def _describe_calls(calls: CallsToMake, currency: str) -> str:
    purpose = {"rerank": "Reranking", "writing": "Writing posts"}[calls.purpose]
    written = f" and {calls.tokens_out:,} written" if calls.tokens_out else ""
    return (
        f"{purpose} by {calls.model}: at most {calls.calls:,} calls without retries, {calls.tokens_in:,} tokens sent"
        f"{written}, {_describe_price(calls.cost, currency)}"
    )


def _describe_price(cost: float | None, currency: str) -> str:
    if cost is None:
        return "no price is known; write it into `costs.prices`"
    return write_cost(cost, currency)
