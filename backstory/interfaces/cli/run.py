"""The command ``backstory run``: read all inputs, build every table, and print the result and its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.console import Console

from backstory.base.environment import find_workspace
from backstory.base.errors import InputError
from backstory.base.telemetry import configure_logs
from backstory.base.wording import count, write_cost, write_duration
from backstory.interfaces.cli.failure import FAILED, INCOMPLETE, UNFINISHED
from backstory.interfaces.cli.options import (
    FirstOption,
    JsonOption,
    LastOption,
    LogFormatOption,
    VerboseOption,
    WorkspaceOption,
)
from backstory.interfaces.cli.terminal import (
    Move,
    list_alike,
    open_console,
    print_json,
    print_lines,
    print_marked,
    print_result,
    print_table,
    show_run_bar,
)

if TYPE_CHECKING:
    from backstory.pipeline.run.estimate import Estimate
    from backstory.pipeline.run.run import OnProgress, Run, RunEvent
    from backstory.pipeline.workspace import Workspace

_NOTES = ("notice", "cleared")
"""Keys of the counts of a stage that hold a sentence for the user."""

_CHECKS_OF_FILES = ("unread_files", "unread_lines")
"""Checks whose cases the list of the files names at the end of the run, with their reasons."""

_USES = ("embedding", "rerank", "writing")

Execute: TypeAlias = "Callable[[Workspace, Run, OnProgress], Run]"
"""Executes a run, and returns it with what became of it."""

AcceptOption = Annotated[
    bool,
    typer.Option("--accept-removals", help="Remove messages and documents that are gone from the inputs."),
]


def run(
    first: FirstOption = None,
    last: LastOption = None,
    accept_removals: AcceptOption = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only print what the run would embed, its time and its cost.")
    ] = False,
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
        print_lines(open_console(stderr=as_json), [f"Reading {find_workspace(workspace)}"])
        from backstory.pipeline.run.estimate import estimate_run
        from backstory.pipeline.workspace import open_workspace

        opened = open_workspace(workspace, accept_removals=accept_removals, writes=False)
        print_result(estimate_run(opened, first, last), _print_estimate, as_json=as_json)
        return
    made = run_and_print(
        workspace, first, last, accept_removals=accept_removals, verbose=verbose, as_json=as_json
    )
    raise typer.Exit(exit_code(made))


def execute_changed(workspace: Workspace, run: Run, on_progress: OnProgress) -> Run:
    """Execute a run in this process, unless nothing has changed."""
    from backstory.pipeline.run.runner import execute_run

    return execute_run(workspace, run, on_progress, skips_unchanged=True)


def run_and_print(
    given: Path | None,
    first: date | None = None,
    last: date | None = None,
    execute: Execute = execute_changed,
    *,
    accept_removals: bool = False,
    verbose: bool = False,
    as_json: bool = False,
    by: str = "backstory run",
) -> Run:
    """Run the pipeline over a workspace, print what is different and what went wrong, and send alerts."""
    console = open_console(stderr=as_json)
    root = find_workspace(given)
    with show_run_bar(f"reading {root}") as move:
        # Loading the stages may take seconds, so it follows the bar.
        from backstory.operations.alerts import send_alerts
        from backstory.pipeline.run.plan import find_wanted
        from backstory.pipeline.run.run import Run
        from backstory.pipeline.workspace import open_workspace

        workspace = open_workspace(root, accept_removals=accept_removals)
        made = Run((), frozenset(), by)
        try:
            made = Run(find_wanted(workspace, first, last), by=by)
            made = execute(workspace, made, _follow(console, move, verbose=verbose))
        except Exception as error:
            if type(error) is not InputError:  # which the user made, and sees
                print_lines(console, send_alerts(workspace, made, error))
            raise
    if as_json:
        print_json(make_record(made))
    else:
        print_run(console, made, verbose=verbose)
    print_lines(console, send_alerts(workspace, made))
    return made


def exit_code(made: Run) -> int:
    """Return the exit code of a run."""
    if made.failures:
        return FAILED
    if made.stopped:
        return UNFINISHED
    return INCOMPLETE if len(made.unfinished) else 0


def _follow(console: Console, move: Move, *, verbose: bool) -> OnProgress:
    """Return the function that shows the events of a run: what a person should know of each stage and check."""
    from backstory.pipeline.incremental.report import StageResult
    from backstory.pipeline.run.run import RunPosition

    told = open_console(stderr=True)

    def show(event: RunEvent) -> None:
        if isinstance(event, RunPosition):
            move(event)
        elif isinstance(event, StageResult):
            if verbose or not told.is_terminal:
                done = f"{event.computed} of {len(event.keys)} made" if event.computed else "unchanged"
                line = f"  {event.table:<16} {event.rows:>8,} rows   {done:<18} {event.seconds:6.1f} s"
                (console if verbose else told).print(line)
            for note in filter(None, map(event.counts.get, _NOTES)):
                print_marked(console, "note", "yellow", str(note))
        elif not event.passed and event.check.name not in _CHECKS_OF_FILES:
            style = "red" if event.check.blocking else "yellow"
            print_marked(console, f"check {event.check.name}", style, event.message)

    return show


def print_run(console: Console, made: Run, *, verbose: bool) -> None:
    """Print what is different for a reader, the files that were not read, the failures, and the cost of the run."""
    from backstory.pipeline.run.differences import describe_differences

    differences = [] if made.fresh else describe_differences(made.differences)
    print_lines(console, [*differences, *describe_sources(made, verbose=verbose)])
    for failure in made.failures:
        print_marked(console, "failed", "red", failure)
    if made.stopped:
        print_marked(console, "stopped", "yellow", made.stopped)
    print_lines(console, [describe_cost(made, verbose=verbose)])


def describe_sources(made: Run, *, verbose: bool) -> list[str]:
    """Count the files of each folder, and name each file that was not read or only in part, with the reason.

    If nothing has changed, only the files that need a person are told.
    """
    import polars as pl

    from backstory.operations.inspection.files import STATUS_WORDS, describe_statuses

    lines = []
    sources = made.unfinished if made.fresh else made.sources
    for (folder,), files in sources.group_by("folder", maintain_order=True):
        odd = files.filter((pl.col("status") != "read") | (pl.col("reason").fill_null("") != ""))
        if len(odd) or verbose:
            unit = "messages" if folder == "conversations" else "documents"
            counted = f"{', '.join(describe_statuses(files))}; {files['rows'].sum():,} {unit}"
            lines.append(f"Files of {folder}: {counted}")
        told = odd.sort("source").select("source", "status", "reason").iter_rows()
        alike = list_alike((name, f"{STATUS_WORDS[status]}: {why or ''}") for name, status, why in told)
        lines += [f"  {line.rstrip(': ')}" for line in alike]
    return lines


def describe_cost(made: Run, *, verbose: bool = False) -> str:
    """Describe the cost of a run in one or two sentences."""
    if made.fresh:
        return f"Nothing has changed since the last run: no table was rebuilt ({made.seconds:.1f} s)."
    calls = sum(made.total(f"{use}_api_calls") for use in _USES)
    if not verbose and not calls and made.stopped is None:
        return f"It took {made.seconds:.1f} s."
    return (
        f"{count(made.computed, 'partition')} made in {made.seconds:.1f} s. "
        f"{count(made.total('embedding_computed'), 'text')} embedded ({made.total('embedding_tokens'):,} tokens), "
        f"{made.total('embedding_cached'):,} found in the cache, "
        f"{count(made.total('writing_asked'), 'draft')} requested, {count(calls, 'API call')}."
    )


def make_record(made: Run) -> dict[str, Any]:
    """Return everything that a run has to say, with names that do not depend on the wording."""
    return {
        "run_id": made.id,
        "partitions": list(made.partitions),
        "unchanged": made.fresh,
        "finished": made.finished,
        "seconds": round(made.seconds, 3),
        "differences": asdict(made.differences),
        "failures": made.failures,
        "stopped": made.stopped,
        "checks": [
            {
                "table": finding.check.table,
                "name": finding.check.name,
                "blocking": finding.check.blocking,
                "cases": len(finding.cases),
                "message": finding.message,
            }
            for finding in made.found.values()
            if not finding.passed
        ],
        "files": made.unfinished.select("source", "folder", "status", "reason").to_dicts(),
        "tables": [
            {"table": report.table, **report.figures, "unchanged": not report.computed}
            for report in made.made.values()
        ],
    }


def _print_estimate(console: Console, estimate: Estimate) -> None:
    """Print the texts, calls, time and price of a run."""
    wanted, currency = estimate.partitions, estimate.currency

    def price(cost: float | None) -> str:
        unknown = "no price is known; write it into `costs.prices`"
        return unknown if cost is None else write_cost(cost, currency)

    days = f"{count(len(wanted), 'partition')}, {wanted[0]} to {wanted[-1]}"
    print_lines(console, [f"Estimate for {days}; nothing was written"])
    figures = ("to embed", "tokens", "in the cache")
    rows = [(kind.kind, kind.texts - kind.cached, kind.tokens, kind.cached) for kind in estimate.embedding]
    print_table(console, ("texts", *figures), rows, right=figures)
    pace = estimate.pace
    takes = f"about {write_duration(pace.seconds)} ({pace.basis})" if pace.seconds else pace.basis
    lines = [f"Embedding by {estimate.embedder}: {takes}"]
    if estimate.is_paid:
        lines.append(f"Price of embedding: {price(estimate.cost)}")
    for calls in estimate.calls:
        written = f" and {calls.tokens_out:,} written" if calls.tokens_out else ""
        most = f"at most {calls.calls:,} calls without retries, {calls.tokens_in:,} tokens sent{written}"
        lines.append(f"{calls.purpose.capitalize()} by {calls.model}: {most}, {price(calls.cost)}")
    print_lines(console, lines)
